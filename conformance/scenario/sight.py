"""What one event of the wire is about, as far as a scenario has to know to go on: whose session, which state, which
message.

Never raises on what an agent wrote; malformed parts are about nothing.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from conformance.conversation import BUSY, FINAL_STATUSES, MESSAGE_KINDS, text_of_blocks
from conformance.history import Event
from conformance.wire import Kind, envelope_of

OUTPUT: Final = (
    "agent_message",
    "agent_message_chunk",
    "agent_thought",
    "agent_thought_chunk",
    "tool_call_update",
    "tool_call_content_chunk",
    "terminal_update",
    "terminal_output_chunk",
    "plan_update",
)
"""Kinds of update that only work brings about."""

_ENDS: Final = ("disconnected", "closed", "cut", "exited")


def messages(event: Event) -> Iterator[tuple[Kind, dict[str, Any]]]:
    """The messages of one line of the agent: one, or those of an array."""
    if event.dir != "agent" or event.envelope is None:
        return
    kind, message = event.envelope.kind, event.message
    if kind is Kind.ARRAY and isinstance(message, list):
        for item in message:
            envelope = envelope_of(item)
            if isinstance(envelope.message, dict):
                yield envelope.kind, envelope.message
    elif isinstance(message, dict):
        yield kind, message


def update(event: Event) -> tuple[str, dict[str, Any]] | None:
    """(sessionId, update) of a session/update; None for all else."""
    if event.dir != "agent" or event.envelope is None or event.envelope.kind is not Kind.NOTIFICATION:
        return None
    message = event.message
    params = message.get("params")
    if message.get("method") != "session/update" or not isinstance(params, dict):
        return None
    session, body = params.get("sessionId"), params.get("update")
    return (session, body) if isinstance(session, str) and isinstance(body, dict) else None


def kind_of(body: Mapping[str, Any]) -> str:
    kind = body.get("sessionUpdate")
    return kind if isinstance(kind, str) else ""


def state_of(body: Mapping[str, Any]) -> str | None:
    """The state that a state_update reports; None for other updates."""
    state = body.get("state")
    return state if kind_of(body) == "state_update" and isinstance(state, str) else None


def tool_status(body: Mapping[str, Any]) -> str | None:
    """The status that a tool_call_update names (pending where it names none); None for other updates."""
    if kind_of(body) != "tool_call_update":
        return None
    status = body.get("status")
    return status if isinstance(status, str) else "pending"


def is_finish(body: Mapping[str, Any]) -> bool:
    """Whether an update tells that a tool call or a terminal has come to its end."""
    if kind_of(body) == "terminal_update":
        return isinstance(body.get("exitStatus"), Mapping)
    return tool_status(body) in FINAL_STATUSES


def is_busy(state: str | None) -> bool:
    return state in BUSY


def user_text(body: Mapping[str, Any]) -> tuple[str, str, bool] | None:
    """(messageId, text, whether it is appended) of an update of a user message; None for other updates."""
    kind, identifier = kind_of(body), body.get("messageId")
    if MESSAGE_KINDS.get(kind) != "user" or not isinstance(identifier, str):
        return None
    return identifier, text_of_blocks(body.get("content")), kind.endswith("_chunk")


def request_of(event: Event) -> tuple[str, Any] | None:
    """(method, params) of a request of the agent."""
    if event.dir != "agent" or event.envelope is None or event.envelope.kind is not Kind.REQUEST:
        return None
    return str(event.message.get("method")), event.message.get("params")


def session_in(params: Any) -> str | None:
    session = params.get("sessionId") if isinstance(params, dict) else None
    return session if isinstance(session, str) else None


def ends(event: Event, conn: str) -> bool:
    """Whether the connection ends with this event: nothing more comes from it."""
    return event.conn == conn and event.name in _ENDS


def error_of(response: Event) -> dict[str, Any] | None:
    """The error object of a response; None for a success."""
    for kind, message in messages(response):
        if kind is Kind.ERROR:
            error = message.get("error")
            return error if isinstance(error, dict) else {}
    return None


def result_of(response: Event) -> Any:
    """The result of a response; None for an error, and where it is null."""
    for kind, message in messages(response):
        if kind is Kind.RESULT:
            return message.get("result")
    return None


def spoken_error(error: Mapping[str, Any]) -> str:
    """An error as a reason quotes it: code and message."""
    code, message = error.get("code"), error.get("message")
    words = message if isinstance(message, str) else ""
    return f"error {code}: {words[:200]}" if words else f"error {code}"
