"""What `check` costs: microseconds and bytes an event over recordings of growing length.

Run: python tests/bench/bench_check.py [events ...]
"""

import json
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
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


def main() -> None:
    print(f"{'events':>9}  {'read us':>8}  {'judge us':>8}  {'sum us':>8}  {'bytes':>7}")
    for events in [int(argument) for argument in sys.argv[1:]] or [1_000, 10_000, 100_000]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "long.ndjson"
            with path.open("w") as file:
                file.write('{"transcript": 1, "protocol": 2}\n')
                file.writelines(json.dumps(line) + "\n" for line in turns(events))
            began = time.perf_counter()
            history = read_transcript(path)
            read = time.perf_counter()
            judgement = judge(history)
            done = time.perf_counter()
            broken = [rule for rule, outcome in judgement.items() if outcome.broken or outcome.findings]
            count = len(history)
            tracemalloc.start()
            again = read_transcript(path)
            judge(again)
            memory = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        us = [1e6 * seconds / count for seconds in (read - began, done - read, done - began)]
        print(
            f"{count:>9}  {us[0]:8.1f}  {us[1]:8.1f}  {us[2]:8.1f}  {memory / count:7.0f}"
            + (f"  {broken}" if broken else "")
        )


if __name__ == "__main__":
    main()
