"""The providers' APIs as the scripted model speaks them: what a dialect must be able to say. Pure: nothing is sent."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from conformance.model.asked import Asked
from conformance.model.tools import ToolCall


class Stream(Protocol):
    """A streamed answer in the making: each step gives the events to send for it, `close` those that end the answer."""

    def open(self) -> Iterator[bytes]: ...
    def think(self, text: str) -> Iterator[bytes]: ...
    def say(self, piece: str) -> Iterator[bytes]: ...
    def call(self, call: ToolCall) -> Iterator[bytes]: ...
    def close(self) -> Iterator[bytes]: ...
    def fail(self, status: int, message: str) -> Iterator[bytes]:
        """An error within the stream, in place of `close`."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer, not streamed."""

    text: str = ""
    thought: str = ""
    call: ToolCall | None = None


@dataclass(frozen=True, slots=True)
class Dialect:
    """One provider's API. `read` raises ValueError for a body that is no request."""

    read: Callable[[Any], Asked]
    whole: Callable[[Asked, Answer, int], dict[str, Any]]
    stream: Callable[[Asked, int], Stream]
    error: Callable[[int, str], dict[str, Any]]


def event(data: dict[str, Any], name: str | None = None) -> bytes:
    """A server-sent event."""
    head = f"event: {name}\n" if name is not None else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n".encode()


def arguments_text(call: ToolCall) -> str:
    """The arguments of a call as the APIs carry them: JSON text, or the free text of a custom tool."""
    return call.arguments if isinstance(call.arguments, str) else json.dumps(dict(call.arguments), ensure_ascii=False)


def tokens(text: str) -> int:
    """A plausible count of tokens."""
    return 1 + len(text) // 4
