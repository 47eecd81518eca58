"""Anthropic Messages, as the scripted model speaks it."""

from collections.abc import Iterator
from typing import Any, Final

from conformance.model.asked import Asked, read_messages
from conformance.model.dialects import Answer, Dialect, arguments_text, event, tokens
from conformance.model.tools import ToolCall

_SIGNATURE: Final = "c2NyaXB0ZWQ="


class MessagesStream:
    """Named events from message_start to message_stop; content blocks one after another."""

    def __init__(self, asked: Asked, number: int) -> None:
        self._asked = asked
        self._number = number
        self._index = 0
        self._is_saying = False
        self._said = ""
        self._has_called = False

    def open(self) -> Iterator[bytes]:
        yield _event("message_start", message=_frame(self._asked, self._number, [], None, 1))
        yield _event("ping")

    def think(self, text: str) -> Iterator[bytes]:
        yield self._start({"type": "thinking", "thinking": "", "signature": ""})
        yield self._delta({"type": "thinking_delta", "thinking": text})
        yield self._delta({"type": "signature_delta", "signature": _SIGNATURE})
        yield self._stop()

    def say(self, piece: str) -> Iterator[bytes]:
        if not self._is_saying:
            self._is_saying = True
            yield self._start({"type": "text", "text": ""})
        self._said += piece
        yield self._delta({"type": "text_delta", "text": piece})

    def call(self, call: ToolCall) -> Iterator[bytes]:
        yield from self._end_text()
        self._has_called = True
        id = f"toolu_{self._number}_{self._index}"
        yield self._start({"type": "tool_use", "id": id, "name": call.tool.name, "input": {}})
        yield self._delta({"type": "input_json_delta", "partial_json": ""})
        yield self._delta({"type": "input_json_delta", "partial_json": arguments_text(call)})
        yield self._stop()

    def close(self) -> Iterator[bytes]:
        yield from self._end_text()
        delta = {"stop_reason": "tool_use" if self._has_called else "end_turn", "stop_sequence": None}
        yield _event("message_delta", delta=delta, usage={"output_tokens": tokens(self._said)})
        yield _event("message_stop")

    def fail(self, status: int, message: str) -> Iterator[bytes]:
        yield _event("error", error=_error(status, message)["error"])

    def _end_text(self) -> Iterator[bytes]:
        if self._is_saying:
            self._is_saying = False
            yield self._stop()

    def _start(self, block: dict[str, Any]) -> bytes:
        return _event("content_block_start", index=self._index, content_block=block)

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return _event("content_block_delta", index=self._index, delta=delta)

    def _stop(self) -> bytes:
        index, self._index = self._index, self._index + 1
        return _event("content_block_stop", index=index)


def _event(name: str, **fields: Any) -> bytes:
    return event({"type": name, **fields}, name)


def _frame(asked: Asked, number: int, content: list[Any], stop_reason: str | None, made: int) -> dict[str, Any]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {
            "input_tokens": asked.input_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": made,
        },
    }


def _whole(asked: Asked, answer: Answer, number: int) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if answer.thought:
        content.append({"type": "thinking", "thinking": answer.thought, "signature": _SIGNATURE})
    if answer.text or answer.call is None:
        content.append({"type": "text", "text": answer.text})
    if answer.call is not None:
        called = {"id": f"toolu_{number}", "name": answer.call.tool.name, "input": answer.call.arguments}
        content.append({"type": "tool_use", **called})
    return _frame(asked, number, content, "end_turn" if answer.call is None else "tool_use", tokens(answer.text))


_ERRORS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def _error(status: int, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": _ERRORS.get(status, "api_error"), "message": message}}


MESSAGES: Final = Dialect(read_messages, _whole, MessagesStream, _error)
