"""JSON text to value and back, exactly: the one JSON reader and the one JSON writer of the package.

Knows what the standard library lets pass or chokes on: NaN, duplicate keys, lone surrogates, integers too long for
`int()`, nesting too deep to walk. Knows nothing of JSON-RPC. Numbers keep their JSON type (1 is an int, 1.0 a float)
and integers their value at any sensible size.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from json.decoder import JSONDecodeError, JSONDecoder
from json.encoder import JSONEncoder
from math import isinf
from typing import Any, Final, NamedTuple

MAX_DEPTH: Final = 500
"""Containers within containers. Fixed, so that the verdict does not depend on the interpreter's recursion limit."""

MAX_DIGITS: Final = 20_000
"""Longer integers are replaced by a power of ten of their sign, and the replacement is a flaw."""

_CHUNK: Final = 600  # decimal digits; sys.set_int_max_str_digits cannot be set below 640
_BITS_OF_CHUNK: Final = 1_990
_WHITESPACE: Final = " \t\r\n"
_BEYOND_MAX_DIGITS: Final[int] = 10**MAX_DIGITS
_LARGEST_DOUBLE: Final = 1.7976931348623157e308
_ESCAPED_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


class Parsed(NamedTuple):
    """What a text holds: `is_json` with a value (and perhaps flaws), or the reason in `flaws` why it is no JSON."""

    is_json: bool
    value: Any
    flaws: tuple[str, ...] = ()


class _Suspicious(Exception):
    """The quick reader met something that only the careful one can describe."""


def parse(text: str) -> Parsed:
    """Read one JSON text (RFC 8259, whitespace around it allowed). Never raises, whatever the text.

    Flaws of a readable text: 'duplicate key "id"' (the last one wins), 'a lone surrogate in a string', 'a number beyond
    the range of a double' (the largest double stands for it), 'an integer of 123456 digits'.
    Reasons for an unreadable one: 'empty line', 'a byte order mark before the message', 'NaN is not JSON', 'text after
    the message', 'nested too deeply', 'not JSON: ...'.
    """
    try:
        value, end = _scan_quickly(text, 0)
    except (ValueError, StopIteration, RecursionError, _Suspicious):
        return _parse_carefully(text)
    if end != len(text) or ("\\u" in text and _ESCAPED_SURROGATE.search(text)):
        return _parse_carefully(text)
    if _is_nested_too_deeply(text, value):
        return _TOO_DEEP
    return Parsed(True, value)


def encode(message: Any) -> bytes:
    """The line that carries a JSON value: compact, UTF-8, ended by a newline, integers of any size written out.

    A lone surrogate is written as an escape. Raises ValueError for NaN and infinities, TypeError for what is no JSON.
    """
    try:
        return _write_quickly(message).encode() + b"\n"
    except UnicodeEncodeError:
        return (json.dumps(message, separators=(",", ":")) + "\n").encode()
    except ValueError:
        pieces: list[str] = []
        _write_slowly(message, pieces)
        return ("".join(pieces) + "\n").encode()


def shown(value: Any, limit: int = 60) -> str:
    """A value for a sentence: short, one line, nothing in it that a terminal acts on. Containers are 'an object'."""
    if isinstance(value, dict):
        return "an object" if value else "an empty object"
    if isinstance(value, list):
        return "an array" if value else "an empty array"
    if isinstance(value, str):
        text = json.dumps(value[: limit + 1], ensure_ascii=False)
        text = "".join(character if character.isprintable() else _escaped(character) for character in text)
        return text if len(value) <= limit and len(text) <= 6 * limit else text[:limit] + '…"'
    if isinstance(value, int) and not isinstance(value, bool):
        return digits(value) if value.bit_length() < 200 else digits(value)[:limit] + "…"
    return json.dumps(value)


def digits(number: int) -> str:
    """An integer in decimal, of any size: str() refuses 4,300 digits and more."""
    if number.bit_length() < _BITS_OF_CHUNK:
        return str(number)
    rest = abs(number)
    parts: list[str] = []
    while rest:
        rest, part = divmod(rest, 10**_CHUNK)
        parts.append(str(part).zfill(_CHUNK))
    return ("-" if number < 0 else "") + "".join(reversed(parts)).lstrip("0")


def integer(text: str) -> int:
    """The exact integer of JSON digits, of any size: int() refuses more than 4,300 of them."""
    if len(text) <= _CHUNK:
        return int(text)
    is_negative = text.startswith("-")
    plain = text[1:] if is_negative else text
    first = len(plain) % _CHUNK or _CHUNK
    number = int(plain[:first])
    for at in range(first, len(plain), _CHUNK):
        number = number * 10**_CHUNK + int(plain[at : at + _CHUNK])
    return -number if is_negative else number


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Suspicious
    return members


def _finite(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise _Suspicious
    return number


def _no_constant(name: str) -> Any:
    raise _Suspicious


_scan_quickly: Final[Callable[[str, int], tuple[Any, int]]] = vars(
    JSONDecoder(object_pairs_hook=_object_without_duplicates, parse_float=_finite, parse_constant=_no_constant)
)["scan_once"]

_write_quickly: Final = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


_TOO_DEEP: Final = Parsed(False, None, ("nested too deeply",))


def _is_nested_too_deeply(text: str, value: Any) -> bool:
    # A container takes two characters. Counting costs less than the walk, which only a suspicion deserves.
    is_suspicious = len(text) > 2 * MAX_DEPTH and text.count("[") + text.count("{") > MAX_DEPTH
    return is_suspicious and _depth_exceeds(value, MAX_DEPTH)


class _NoJson(Exception):
    pass


def _parse_carefully(text: str) -> Parsed:
    """The same reading with a description of whatever is wrong. Several times slower, for the odd line only."""
    flaws: list[str] = []

    def note(flaw: str) -> None:
        if len(flaws) < 20 and flaw not in flaws:
            flaws.append(flaw)

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    note(f"duplicate key {shown(key)}")
                seen.add(key)
        return result

    def number(digits_of_it: str) -> int:
        length = len(digits_of_it.removeprefix("-"))
        if length > MAX_DIGITS:
            note(f"an integer of {length} digits")
            return -_BEYOND_MAX_DIGITS if digits_of_it.startswith("-") else _BEYOND_MAX_DIGITS
        return integer(digits_of_it)

    def fraction(literal: str) -> float:
        result = float(literal)
        if isinf(result):
            note("a number beyond the range of a double")
            return _LARGEST_DOUBLE if result > 0 else -_LARGEST_DOUBLE
        return result

    def constant(name: str) -> Any:
        raise _NoJson(f"{name} is not JSON")

    decoder = JSONDecoder(object_pairs_hook=members, parse_int=number, parse_float=fraction, parse_constant=constant)
    stripped = text.strip(_WHITESPACE)
    if not stripped:
        return Parsed(False, None, ("empty line",))
    if stripped[0] == "\ufeff":
        return Parsed(False, None, ("a byte order mark before the message",))
    try:
        value, end = decoder.raw_decode(stripped)
    except _NoJson as error:
        return Parsed(False, None, (str(error),))
    except JSONDecodeError as error:
        return Parsed(False, None, (f"not JSON: {error.msg[:1].lower()}{error.msg[1:]} (character {error.pos + 1})",))
    except RecursionError:
        return _TOO_DEEP
    if end != len(stripped):
        return Parsed(False, None, ("text after the message",))
    if _is_nested_too_deeply(text, value):
        return _TOO_DEEP
    if _ESCAPED_SURROGATE.search(stripped) and _has_lone_surrogate(value):
        note("a lone surrogate in a string")
    return Parsed(True, value, tuple(flaws))


def _depth_exceeds(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            child
            for container in level
            if isinstance(container, (dict, list))
            for child in (container.values() if isinstance(container, dict) else container)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return False
    return True


def _has_lone_surrogate(value: Any) -> bool:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting.extend(item)
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, str) and any("\ud800" <= character <= "\udfff" for character in item):
            return True
    return False


def _write_slowly(value: Any, pieces: list[str]) -> None:
    """For what the quick writer refuses: integers over the digit limit. What else it refuses is refused here, too."""
    if isinstance(value, dict):
        opening = "{"
        for key, member in value.items():
            pieces.append(f"{opening}{json.dumps(key)}:")
            _write_slowly(member, pieces)
            opening = ","
        pieces.append("}" if value else "{}")
    elif isinstance(value, list):
        opening = "["
        for member in value:
            pieces.append(opening)
            _write_slowly(member, pieces)
            opening = ","
        pieces.append("]" if value else "[]")
    elif isinstance(value, int) and not isinstance(value, bool):
        pieces.append(digits(value))
    else:
        pieces.append(json.dumps(value, allow_nan=False))


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1] if character != "\x7f" else "\\u007f"
