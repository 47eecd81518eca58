"""What `check` costs: processor time and peak memory an event, over recordings of growing length.

Run: python tests/bench/bench_check.py [events ...]
"""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from conformance.history import read_transcript
from conformance.rules import judge


def turns(events: int) -> Iterator[dict[str, Any]]:
    """A conversation of ordinary turns: prompt, response, message, running, eight chunks, a tool call, idle."""

    seq = 0

    def line(direction: str, message: dict[str, Any]) -> dict[str, Any]:
        nonlocal seq
        seq += 1
        return {"seq": seq - 1, "t": seq * 0.01, "conn": "ada", "dir": direction, "msg": {"jsonrpc": "2.0", **message}}

    def update(body: dict[str, Any]) -> dict[str, Any]:
        return line("agent", {"method": "session/update", "params": {"sessionId": "s", "update": body}})

    info = {"name": "bench", "version": "1"}
    yield line(
        "client", {"id": 0, "method": "initialize", "params": {"protocolVersion": 2, "info": info, "capabilities": {}}}
    )
    yield line("agent", {"id": 0, "result": {"protocolVersion": 2, "info": info, "capabilities": {"session": {}}}})
    yield line("client", {"id": 1, "method": "session/new", "params": {"cwd": "/w"}})
    yield line("agent", {"id": 1, "result": {"sessionId": "s"}})
    turn = 1
    while seq < events:
        turn += 1
        text = [{"type": "text", "text": f"Question number {turn}, please."}]
        yield line("client", {"id": turn, "method": "session/prompt", "params": {"sessionId": "s", "prompt": text}})
        yield line("agent", {"id": turn, "result": {"messageId": f"u{turn}"}})
        yield update({"sessionUpdate": "user_message", "messageId": f"u{turn}", "content": text})
        yield update({"sessionUpdate": "state_update", "state": "running"})
        yield update(
            {"sessionUpdate": "tool_call_update", "toolCallId": f"c{turn}", "title": "Look", "status": "in_progress"}
        )
        for number in range(8):
            content = {"type": "text", "text": f"Part {number} of the answer, and so on. "}
            yield update({"sessionUpdate": "agent_message_chunk", "messageId": f"a{turn}", "content": content})
        yield update({"sessionUpdate": "tool_call_update", "toolCallId": f"c{turn}", "status": "completed"})
        yield update({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"})


def cost(path: Path) -> tuple[int, float, float, int, list[str]]:
    """(events, seconds of the processor to read them, to judge them, bytes that the process grew by, rules that found
    something or broke)."""
    before = peak()
    began = time.process_time()
    history = read_transcript(path)
    read = time.process_time()
    judgement = judge(history)
    done = time.process_time()
    told = [rule for rule, outcome in judgement.items() if outcome.broken or outcome.findings]
    return len(history), read - began, done - read, peak() - before, told


def peak() -> int:
    """Bytes of memory that this process held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    print(f"{'events':>9}  {'read us':>8}  {'judge us':>8}  {'sum us':>8}  {'us a KB':>8}  {'bytes':>7}  {'MB':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for events in [int(argument) for argument in sys.argv[1:]] or [1_000, 10_000, 100_000, 1_000_000]:
            path = Path(folder) / "long.ndjson"
            with path.open("w") as file:
                file.write('{"transcript": 1, "protocol": 2}\n')
                file.writelines(json.dumps(line) + "\n" for line in turns(events))
            with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
                count, read, judged, memory, told = fresh.submit(cost, path).result()
            us = [1e6 * seconds / count for seconds in (read, judged, read + judged)]
            each = 1e9 * (read + judged) / path.stat().st_size
            print(
                f"{count:>9}  {us[0]:8.1f}  {us[1]:8.1f}  {us[2]:8.1f}  {each:8.0f}  {memory / count:7.0f}"
                f"  {memory / 1e6:6.0f}" + (f"  {told}" if told else ""),
                flush=True,
            )


if __name__ == "__main__":
    main()
