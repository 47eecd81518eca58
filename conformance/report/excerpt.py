"""An event in a few words, for the wire excerpt of a finding and the rows of a diagram. Judges nothing.

Takes the untrusted message as it is: whatever its shape, one short clean line comes out.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from conformance.history import Event, Redactor
from conformance.history import controls as named
from conformance.report.sanitise import clean
from conformance.wire import Envelope, Kind

_WORDS = 60  # characters of text quoted from a message
_TELLING: Final = ("messageId", "toolCallId", "terminalId", "planId", "state", "stopReason", "status", "title")
_UNREADABLE: Final[Mapping[Kind, str]] = {
    Kind.NOT_JSON: "not JSON",
    Kind.NOT_OBJECT: "no JSON object",
    Kind.NOT_UTF8: "not UTF-8",
    Kind.NOT_JSONRPC: "no JSON-RPC message",
    Kind.TOO_LONG: "a line over the limit",
}


def describe(event: Event, redactor: Redactor | None = None) -> str:
    """What the event is: "session/prompt #3 "doomed 7f3a"", "user_message u-19", "#3 error -32000", "request 1 failed
    with 401"."""
    words = _control(event) if event.envelope is None else _wire(event.envelope)
    return clean(redactor.text(words) if redactor is not None else words)


def _wire(envelope: Envelope) -> str:
    message = envelope.message
    if envelope.kind is Kind.ARRAY:
        return f"a JSON array of {len(message)}"
    if envelope.kind in _UNREADABLE or not isinstance(message, dict):
        raw = (envelope.raw or b"")[: 4 * _WORDS].decode("utf-8", "backslashreplace")
        shown = raw or _json(message)
        kind = _UNREADABLE.get(envelope.kind, envelope.kind.value)
        return f"{kind}, {envelope.length or len(shown)} bytes: {_quoted(shown)}"
    if envelope.kind is Kind.ERROR:
        return f"{_id(message)} error {_error(message.get('error'))}"
    if envelope.kind is Kind.RESULT:
        return f"{_id(message)} result{_fields(message.get('result'))}"
    words = _called(message)
    return f"{words} {_id(message)}{_prompt(message)}" if envelope.kind is Kind.REQUEST else words


def _called(message: Mapping[str, Any]) -> str:
    method, params = message.get("method"), message.get("params")
    name = clean(method, _WORDS) if isinstance(method, str) else _json(method)
    if not isinstance(params, dict):
        return name
    update = params.get("update")
    if name == "session/update" and isinstance(update, dict):
        kind = update.get("sessionUpdate")
        return f"{clean(kind, _WORDS) if isinstance(kind, str) else _json(kind)}{_fields(update)}{_content(update)}"
    if name == "$/cancel_request":
        return f"{name} #{_json(params.get('requestId'))}"
    return name


def _prompt(message: Mapping[str, Any]) -> str:
    params = message.get("params")
    return _content({"content": params["prompt"]}) if isinstance(params, dict) and "prompt" in params else ""


def _content(holder: Mapping[str, Any]) -> str:
    if "content" not in holder or "prompt" in holder:
        return ""
    content = holder["content"]
    if content is None:
        return " content null"
    blocks = content if isinstance(content, list) else [content]
    texts = [block["text"] for block in blocks[:50] if isinstance(block, dict) and isinstance(block.get("text"), str)]
    if texts:
        return " " + _quoted(" ".join(text[: 2 * _WORDS] for text in texts))
    return " content []" if content == [] else ""


def _fields(value: Any) -> str:
    if not isinstance(value, dict):
        return f" {_json(value)}"
    told = [f"{_json(value[key], bare=True)}" for key in _TELLING if value.get(key) is not None]
    if told:
        return " " + " ".join(told)
    if "sessionUpdate" in value:
        return ""
    return " {" + ", ".join(clean(str(key), 30) for key in list(value)[:6]) + ("}" if len(value) <= 6 else ", ...}")


def _error(error: Any) -> str:
    if not isinstance(error, dict):
        return _json(error)
    text = error.get("message")
    return _json(error.get("code")) + (f" {_quoted(text)}" if isinstance(text, str) and text else "")


def _id(message: Mapping[str, Any]) -> str:
    return f"#{_json(message.get('id'))}"


def _quoted(text: str) -> str:
    return f'"{clean(text, _WORDS)}"'


def _json(value: Any, *, bare: bool = False) -> str:
    if bare and isinstance(value, str):
        return clean(value, _WORDS)
    if isinstance(value, dict):
        return "{...}" if value else "{}"
    if isinstance(value, list):
        return f"[{len(value)} items]" if value else "[]"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 80:
        return f"an integer of {value.bit_length()} bits"
    try:
        return clean(json.dumps(value, ensure_ascii=False), _WORDS)
    except (ValueError, TypeError):
        return clean(str(value), _WORDS)


def _control(event: Event) -> str:
    control = event.control or {}
    number, how = control.get("number"), control.get("how")
    match event.name:
        case named.STARTED:
            again, transport = control.get("restart_of"), control.get("transport")
            return f"{event.conn} started {f'again after {again}' if again else f'({transport})'}"
        case named.CLOSED:
            return f"{event.conn} closed by us"
        case named.CUT:
            return f"{event.conn} cut by us"
        case named.DISCONNECTED:
            return f"{event.conn} closed by the peer"
        case named.EXITED:
            return f"process exited, {_exit(control)}{'' if control.get('by_itself', True) else ' (ended by us)'}"
        case named.LINGERED:
            return f"alive {control.get('seconds')} s after its input was closed"
        case named.LEFTOVER:
            return f"{control.get('count')} processes left over"
        case named.LIMIT:
            return f"limit {control.get('limit')} of {control.get('value')} reached"
        case named.SUBMITS:
            return f"prompt {control.get('alias')} has the nonce {control.get('nonce')}"
        case named.WAITED:
            return f"waited {control.get('seconds')} s in vain for {control.get('for')}{_json_id(control)}"
        case named.WINDOW:
            return f"{control.get('kind')} window of {control.get('seconds')} s passed"
        case named.NOT_BROUGHT_ABOUT:
            return f"not brought about: {control.get('why')}"
        case named.LATE_ANSWER:
            return f"late answer to{_json_id(control)}"
        case named.MODEL_REQUEST:
            aside = " (aside)" if control.get("side") else ""
            return f"request {number}{aside} for {control.get('nonce') or 'no prompt of ours'}"
        case named.MODEL_HELD:
            return f"request {number} held open"
        case named.MODEL_RELEASED:
            return f"request {number} released"
        case named.MODEL_ANSWERED:
            status = control.get("status")
            return f"request {number} failed with {status}" if how == "fail" else f"request {number} answered: {how}"
        case named.TOOL_EFFECT:
            return f"effect of a tool seen: {control.get('detail')}"
        case name:
            return name or "unnamed event"


def _exit(control: Mapping[str, Any]) -> str:
    return f"signal {control['signal']}" if control.get("signal") else f"status {control.get('code')}"


def _json_id(control: Mapping[str, Any]) -> str:
    return f" #{_json(control['id'])}" if control.get("id") is not None else ""


def is_model(name: str) -> bool:
    """Whether the control event of that name is something that the scripted model saw or did."""
    return name.startswith("model-")
