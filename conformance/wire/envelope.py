"""One line of the wire, read as a JSON-RPC 2.0 envelope.

Knows the four forms of a message and everything that can be wrong with one. Knows no method, no schema and no
connection; does no I/O. Nothing here raises: whatever an agent writes becomes an `Envelope` whose kind and flaws say
what it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from conformance.wire.json_text import encode, parse, shown


class Kind(StrEnum):
    """What a line is. The first five are messages that can be answered or matched; the others are not."""

    REQUEST = "request"
    NOTIFICATION = "notification"
    RESULT = "result"
    ERROR = "error"
    ARRAY = "array"
    NOT_JSON = "not-json"
    NOT_OBJECT = "not-object"
    NOT_UTF8 = "not-utf8"
    NOT_JSONRPC = "not-jsonrpc"
    TOO_LONG = "too-long"


@dataclass(frozen=True, slots=True)
class Envelope:
    """A line as it was understood.

    `message` is the parsed JSON value (a dict for requests, notifications and responses, a list for ARRAY), None where
    nothing could be parsed. `raw` is kept only for a line of a bad kind or with flaws; of one too long, its beginning.
    `flaws` are words for a person. `length` is in bytes, the newline excluded (for TOO_LONG: one more than the limit).
    """

    kind: Kind
    message: Any
    raw: bytes | None = None
    flaws: tuple[str, ...] = ()
    length: int = 0


_NO_FLAWS: Final[tuple[str, ...]] = ()


def read_envelope(line: bytes) -> Envelope:
    """Read one line, given without its newline. Never raises.

    Flaws of JSON: see `json_text.parse`. Flaws of the envelope:
        'jsonrpc is missing', 'jsonrpc is "1.0", must be "2.0"'
        'id is missing', 'id is null' (no flaw of an error response), 'id is true, must be a string or an integer'
        'method is 5, must be a string', 'params is "x", must be an object or an array'
        'none of method, result and error', 'both result and error', 'method beside result', 'method beside error'
        'error is "x", must be an object', 'error.code is missing', 'error.code is "x", must be an integer',
        'error.message is missing', 'error.message is 5, must be a string'
    """
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        flaw = f"not UTF-8: byte 0x{line[error.start]:02x} at position {error.start + 1}"
        return Envelope(Kind.NOT_UTF8, None, line, (flaw,), len(line))
    parsed = parse(text)
    if not parsed.is_json:
        return Envelope(Kind.NOT_JSON, None, line, parsed.flaws, len(line))
    kind, flaws = _classify(parsed.value)
    flaws = parsed.flaws + flaws
    if not flaws and kind is not Kind.NOT_OBJECT and kind is not Kind.NOT_JSONRPC:
        return Envelope(kind, parsed.value, None, flaws, len(line))
    return Envelope(kind, parsed.value, line, flaws, len(line))


def envelope_of(message: Any) -> Envelope:
    """The envelope of a JSON value that was parsed before, such as the `msg` of a transcript; it has no raw bytes."""
    kind, flaws = _classify(message)
    return Envelope(kind, message, None, flaws)


def request_key(id: Any) -> tuple[str, Any]:
    """A hashable key that is equal for two ids only if JSON type and value are: 1, 1.0, "1" and true are four ids."""
    if isinstance(id, bool):
        return ("bool", id)
    if isinstance(id, str):
        return ("str", id)
    if isinstance(id, int):
        return ("int", id)
    if isinstance(id, float):
        return ("float", id)
    if id is None:
        return ("null", None)
    return ("json", encode(id))


def _classify(message: Any) -> tuple[Kind, tuple[str, ...]]:
    if type(message) is not dict:
        if type(message) is list:
            return Kind.ARRAY, _NO_FLAWS
        return Kind.NOT_OBJECT, (f"{shown(message)} is not an object",)
    flaws: list[str] = []
    if message.get("jsonrpc") != "2.0":
        flaws.append(_version_flaw(message))
    if "method" in message:
        kind = _classify_call(message, flaws)
    elif "result" in message or "error" in message:
        kind = _classify_response(message, flaws)
    else:
        kind = Kind.NOT_JSONRPC
        flaws.append("none of method, result and error")
    return kind, tuple(flaws) if flaws else _NO_FLAWS


def _classify_call(message: dict[str, Any], flaws: list[str]) -> Kind:
    if type(message["method"]) is not str:
        flaws.append(f"method is {shown(message['method'])}, must be a string")
        return Kind.NOT_JSONRPC
    params = message.get("params")
    # JSON-RPC knows no null here, the schema of the protocol does.
    if type(params) is not dict and params is not None and type(params) is not list:
        flaws.append(f"params is {shown(params)}, must be an object or an array")
    flaws.extend(f"method beside {other}" for other in ("result", "error") if other in message)
    if "id" not in message:
        return Kind.NOTIFICATION
    _check_id(message["id"], flaws)
    return Kind.REQUEST


def _classify_response(message: dict[str, Any], flaws: list[str]) -> Kind:
    if "id" not in message:
        flaws.append("id is missing")
        return Kind.NOT_JSONRPC
    if "error" not in message:
        _check_id(message["id"], flaws)
        return Kind.RESULT
    if message["id"] is not None:  # null is right where the request could not be read
        _check_id(message["id"], flaws)
    if "result" in message:
        flaws.append("both result and error")
    _check_error(message["error"], flaws)
    return Kind.ERROR


def _check_id(id: Any, flaws: list[str]) -> None:
    kind = type(id)
    if kind is str or kind is int:
        return
    if id is None:
        flaws.append("id is null")
    elif not (kind is float and id.is_integer()):  # 1.0 is an integer to JSON Schema
        flaws.append(f"id is {shown(id)}, must be a string or an integer")


def _check_error(error: Any, flaws: list[str]) -> None:
    if type(error) is not dict:
        flaws.append(f"error is {shown(error)}, must be an object")
        return
    code = error.get("code")
    if "code" not in error:
        flaws.append("error.code is missing")
    elif type(code) is not int and not (type(code) is float and code.is_integer()):
        flaws.append(f"error.code is {shown(code)}, must be an integer")
    if "message" not in error:
        flaws.append("error.message is missing")
    elif type(error["message"]) is not str:
        flaws.append(f"error.message is {shown(error['message'])}, must be a string")


def _version_flaw(message: dict[str, Any]) -> str:
    if "jsonrpc" not in message:
        return "jsonrpc is missing"
    return f'jsonrpc is {shown(message["jsonrpc"])}, must be "2.0"'
