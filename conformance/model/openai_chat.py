"""OpenAI Chat Completions, as the scripted model speaks it."""

from collections.abc import Iterator
from typing import Any, Final

from conformance.model.asked import Asked, read_chat
from conformance.model.dialects import Answer, Dialect, arguments_text, event, tokens
from conformance.model.tools import ToolCall

_CREATED: Final = 1_750_000_000


class ChatStream:
    """chat.completion.chunk events, ended by [DONE]."""

    def __init__(self, asked: Asked, number: int) -> None:
        self._asked = asked
        self._number = number
        self._said = ""
        self._calls = 0

    def open(self) -> Iterator[bytes]:
        yield self._chunk({"role": "assistant", "content": ""})

    def think(self, text: str) -> Iterator[bytes]:
        yield self._chunk({"reasoning_content": text})

    def say(self, piece: str) -> Iterator[bytes]:
        self._said += piece
        yield self._chunk({"content": piece})

    def call(self, call: ToolCall) -> Iterator[bytes]:
        function = {"name": call.tool.name, "arguments": ""}
        index, self._calls = self._calls, self._calls + 1
        opening = {"index": index, "id": f"call_{self._number}_{index}", "type": "function", "function": function}
        yield self._chunk({"tool_calls": [opening]})
        yield self._chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments_text(call)}}]})

    def close(self) -> Iterator[bytes]:
        yield self._chunk({}, "tool_calls" if self._calls else "stop")
        if self._asked.wants_usage:
            yield event({**self._frame([]), "usage": _usage(self._asked, self._said)})
        yield b"data: [DONE]\n\n"

    def fail(self, status: int, message: str) -> Iterator[bytes]:
        yield event(_error(status, message))

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        frame = self._frame([choice])
        return event({**frame, "usage": None} if self._asked.wants_usage else frame)

    def _frame(self, choices: list[Any]) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{self._number}",
            "object": "chat.completion.chunk",
            "created": _CREATED,
            "model": self._asked.model,
            "choices": choices,
        }


def _whole(asked: Asked, answer: Answer, number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None, "refusal": None}
    if answer.thought:
        message["reasoning_content"] = answer.thought
    if answer.call is not None:
        function = {"name": answer.call.tool.name, "arguments": arguments_text(answer.call)}
        message["tool_calls"] = [{"id": f"call_{number}_0", "type": "function", "function": function}]
    reason = "stop" if answer.call is None else "tool_calls"
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": _CREATED,
        "model": asked.model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
        "usage": _usage(asked, answer.text),
    }


def _usage(asked: Asked, said: str) -> dict[str, Any]:
    given, made = asked.input_tokens, tokens(said)
    return {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}


_ERRORS: Final = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "insufficient_permissions"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}


def _error(status: int, message: str) -> dict[str, Any]:
    kind, code = _ERRORS.get(status, ("server_error", None))
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


CHAT: Final = Dialect(read_chat, _whole, ChatStream, _error)
