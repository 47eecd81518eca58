"""The error codes that JSON-RPC 2.0 and the protocol name."""

from __future__ import annotations

from enum import IntEnum


class ErrorCode(IntEnum):
    """Codes with a meaning of their own; any other integer of 32 bits is allowed."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    REQUEST_CANCELLED = -32800
    AUTHENTICATION_REQUIRED = -32000
    RESOURCE_NOT_FOUND = -32002
    UNSUPPORTED_PROTOCOL_VERSION = -32022


def error_name(code: int) -> str:
    """A code as a person reads it: '-32601 (method not found)', or the bare number."""
    try:
        return f"{code} ({ErrorCode(code).name.lower().replace('_', ' ')})"
    except ValueError:
        return str(code)
