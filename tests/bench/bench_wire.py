"""What reading and checking one line costs, in microseconds, the best of several rounds. Run it as a script."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from conformance.protocol.validation import extensions, params_problems
from conformance.wire import LineReader, encode, envelope_of, read_envelope

TEXT = "The quick brown fox jumps over the lazy dog, and nobody knows why it does not simply walk around. "
CHUNK = {"sessionUpdate": "agent_message_chunk", "messageId": "a-17", "content": {"type": "text", "text": TEXT}}
MESSAGE = {
    "sessionUpdate": "agent_message",
    "messageId": "a-17",
    "content": [
        {"type": "text", "text": TEXT},
        {"type": "resource_link", "name": "notes", "uri": "file:///home/me/notes.md", "size": 1234},
    ],
    "_meta": {"example.org/trace": {"span": "6ad2f1", "elapsed": 12.5}},
}
TOOL_CALL = {
    "sessionUpdate": "tool_call_update",
    "toolCallId": "t-5",
    "title": "Read notes.md",
    "kind": "read",
    "status": "in_progress",
    "content": [{"type": "content", "content": {"type": "text", "text": TEXT}}],
    "locations": [{"path": "/home/me/notes.md", "line": 12}],
    "rawInput": {"path": "/home/me/notes.md", "limit": 200},
}
BROKEN = {**MESSAGE, "content": [{"type": "text", "text": None}]}


def main() -> None:
    for name, update in {"chunk": CHUNK, "message": MESSAGE, "tool call": TOOL_CALL}.items():
        message = {
            "jsonrpc": "2.0",
            "method": "session/update",
            "params": {"sessionId": "sess-0123456789", "update": update},
        }
        measure_update(name, message)
    broken = {"sessionId": "s", "update": BROKEN}
    show("explaining a rejection", best(lambda: params_problems("session/update", broken, "agent"), 500))
    line = encode({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": CHUNK}})
    stream = line * 2_000
    pieces = [stream[at : at + 65_536] for at in range(0, len(stream), 65_536)]

    def read_stream() -> None:
        reader = LineReader()
        for piece in pieces:
            reader.feed(piece)

    show("LineReader, a line in chunks of 64 KiB", best(read_stream, 5) / 2_000)


def measure_update(name: str, message: dict[str, Any]) -> None:
    line, params = encode(message)[:-1], message["params"]
    print(f"session/update, {name} ({len(line)} bytes)")
    costs = {
        "read_envelope": best(lambda: read_envelope(line)),
        "params_problems": best(lambda: params_problems("session/update", params, "agent")),
        "extensions": best(lambda: extensions("session/update", params, "params")),
    }
    for what, cost in costs.items():
        show(what, cost)
    show("all three", sum(costs.values()))
    show("(envelope_of, for a transcript)", best(lambda: envelope_of(message)))
    show("(json.loads alone)", best(lambda: json.loads(line)))


def best(call: Callable[[], Any], count: int = 20_000, rounds: int = 7) -> float:
    call()
    times = []
    for _ in range(rounds):
        start = perf_counter()
        for _ in range(count):
            call()
        times.append((perf_counter() - start) / count)
    return min(times) * 1e6


def show(what: str, microseconds: float) -> None:
    print(f"  {what:40} {microseconds:8.2f} us")


if __name__ == "__main__":
    main()
