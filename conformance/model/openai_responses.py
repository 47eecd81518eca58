"""OpenAI Responses, as the scripted model speaks it."""

from collections.abc import Iterator
from typing import Any, Final

from conformance.model.asked import Asked, read_responses
from conformance.model.dialects import Answer, Dialect, arguments_text, event, tokens
from conformance.model.openai_chat import CHAT
from conformance.model.tools import ToolCall

_CREATED: Final = 1_750_000_000


class ResponsesStream:
    """Numbered events from response.created to response.completed; output items one after another."""

    def __init__(self, asked: Asked, number: int) -> None:
        self._asked = asked
        self._number = number
        self._sequence = 0
        self._output: list[dict[str, Any]] = []
        self._text: str | None = None  # of the message that is open

    def open(self) -> Iterator[bytes]:
        for name in ("response.created", "response.in_progress"):
            yield self._event(name, response=self._response("in_progress"))

    def think(self, text: str) -> Iterator[bytes]:
        item: dict[str, Any] = {"type": "reasoning", "id": self._id("rs"), "summary": []}
        part = {"type": "summary_text", "text": text}
        where = {"item_id": item["id"], "output_index": len(self._output), "summary_index": 0}
        yield self._added(item)
        yield self._event("response.reasoning_summary_part.added", **where, part={**part, "text": ""})
        yield self._event("response.reasoning_summary_text.delta", **where, delta=text)
        yield self._event("response.reasoning_summary_text.done", **where, text=text)
        yield self._event("response.reasoning_summary_part.done", **where, part=part)
        yield self._done({**item, "summary": [part]})

    def say(self, piece: str) -> Iterator[bytes]:
        if self._text is None:
            self._text = ""
            yield self._added(_message(self._id("msg"), None, "in_progress"))
            yield self._event("response.content_part.added", **self._part(), part=_output_text(""))
        self._text += piece
        yield self._event("response.output_text.delta", **self._part(), delta=piece, logprobs=[])

    def call(self, call: ToolCall) -> Iterator[bytes]:
        yield from self._end_message()
        item = _call_item(call, self._id("fc"), f"call_{self._number}_{len(self._output)}")
        where = {"item_id": item["id"], "output_index": len(self._output)}
        if item["type"] == "function_call":
            yield self._added({**item, "arguments": "", "status": "in_progress"})
            yield self._event("response.function_call_arguments.delta", **where, delta=item["arguments"])
            yield self._event("response.function_call_arguments.done", **where, arguments=item["arguments"])
        else:
            yield self._added({**item, "status": "in_progress"})
        yield self._done(item)

    def close(self) -> Iterator[bytes]:
        yield from self._end_message()
        yield self._event("response.completed", response=self._response("completed"))

    def fail(self, status: int, message: str) -> Iterator[bytes]:
        code = CHAT.error(status, message)["error"]["code"] or "server_error"
        failed = {**self._response("failed"), "error": {"code": code, "message": message}}
        yield self._event("response.failed", response=failed)

    def _end_message(self) -> Iterator[bytes]:
        if self._text is None:
            return
        part = _output_text(self._text)
        yield self._event("response.output_text.done", **self._part(), text=self._text, logprobs=[])
        yield self._event("response.content_part.done", **self._part(), part=part)
        message = _message(self._id("msg"), self._text, "completed")
        self._text = None
        yield self._done(message)

    def _added(self, item: dict[str, Any]) -> bytes:
        return self._event("response.output_item.added", output_index=len(self._output), item=item)

    def _done(self, item: dict[str, Any]) -> bytes:
        index = len(self._output)
        self._output.append(item)
        return self._event("response.output_item.done", output_index=index, item=item)

    def _part(self) -> dict[str, Any]:
        return {"item_id": self._id("msg"), "output_index": len(self._output), "content_index": 0}

    def _id(self, prefix: str) -> str:
        return f"{prefix}_{self._number}_{len(self._output)}"

    def _event(self, name: str, **fields: Any) -> bytes:
        number, self._sequence = self._sequence, self._sequence + 1
        return event({"type": name, "sequence_number": number, **fields}, name)

    def _response(self, status: str) -> dict[str, Any]:
        return _frame(self._asked, self._number, status, self._output)


def _frame(asked: Asked, number: int, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": _CREATED,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": asked.model,
        "output": list(output),
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": _usage(asked, output) if status == "completed" else None,
    }


def _usage(asked: Asked, output: list[dict[str, Any]]) -> dict[str, Any]:
    given, made = asked.input_tokens, tokens(str(output))
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": given + made,
    }


def _message(id: str, text: str | None, status: str) -> dict[str, Any]:
    content = [] if text is None else [_output_text(text)]
    return {"type": "message", "id": id, "status": status, "role": "assistant", "content": content}


def _output_text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _call_item(call: ToolCall, id: str, call_id: str) -> dict[str, Any]:
    item = {"id": id, "call_id": call_id, "status": "completed"}
    if call.tool.form == "local_shell":
        return {"type": "local_shell_call", **item, "action": call.arguments}
    named = {**item, "name": call.tool.name}
    if call.tool.form == "custom":
        return {"type": "custom_tool_call", **named, "input": arguments_text(call)}
    return {"type": "function_call", **named, "arguments": arguments_text(call)}


def _whole(asked: Asked, answer: Answer, number: int) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if answer.thought:
        summary = [{"type": "summary_text", "text": answer.thought}]
        output.append({"type": "reasoning", "id": f"rs_{number}", "summary": summary})
    if answer.text:
        output.append(_message(f"msg_{number}", answer.text, "completed"))
    if answer.call is not None:
        output.append(_call_item(answer.call, f"fc_{number}", f"call_{number}"))
    return _frame(asked, number, "completed", output)


RESPONSES: Final = Dialect(read_responses, _whole, ResponsesStream, CHAT.error)
