"""The formats that the schema notes beside a type. Plain validation does not enforce them; a typed receiver may.

Each entry of `FORMATS` tells whether a value is in that format; a value of another type than the format is about is.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|\\^`\x7f]*")
_DATE_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def _within(low: int, high: int) -> Callable[[Any], bool]:
    def is_within(value: Any) -> bool:
        return type(value) not in (int, float) or low <= value <= high

    return is_within


def _is_base64(value: Any) -> bool:
    if type(value) is not str:
        return True
    try:
        b64decode(value, validate=True)
    except (Error, ValueError):
        return False
    return True


def _is_uri(value: Any) -> bool:
    return type(value) is not str or _URI.fullmatch(value) is not None


def _is_date_time(value: Any) -> bool:
    if type(value) is not str:
        return True
    if _DATE_TIME.fullmatch(value) is None:
        return False
    try:
        # A leap second is right in RFC 3339 and unknown to datetime; fractions of any length are right, too.
        datetime.fromisoformat(value[:17].upper().replace(" ", "T") + value[17:19].replace("60", "59"))
    except ValueError:
        return False
    return True


FORMATS: Final[dict[str, Callable[[Any], bool]]] = {
    "int32": _within(-(2**31), 2**31 - 1),
    "int64": _within(-(2**63), 2**63 - 1),
    "uint16": _within(0, 2**16 - 1),
    "uint32": _within(0, 2**32 - 1),
    "uint64": _within(0, 2**64 - 1),
    "base64": _is_base64,
    "uri": _is_uri,
    "date-time": _is_date_time,
}
