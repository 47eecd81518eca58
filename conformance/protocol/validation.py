"""Whether params, results and errors have the shape that the stable schema of version 2 gives them.

The verdict is that of plain JSON Schema, without formats: jsonschema-rs decides in about a microsecond; only what it
rejects is explained. Nothing here raises for any JSON value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.protocol.explain import Problem, explain
from conformance.protocol.extensions import (
    CustomValue,
    Extensions,
    OddFormat,
    UnknownField,
    custom_values,
    extensions,
    odd_formats,
    unknown_fields,
)
from conformance.protocol.facts import definition
from conformance.protocol.json_schema import json_schema
from conformance.protocol.methods import AGENT_METHODS, CLIENT_METHODS, PROTOCOL_METHODS, Side, request_method

__all__ = [
    "CustomValue",
    "Extensions",
    "OddFormat",
    "Problem",
    "UnknownField",
    "custom_values",
    "definition",
    "error_problems",
    "extensions",
    "odd_formats",
    "params_problems",
    "problems_of",
    "result_problems",
    "unknown_fields",
]

_checks: dict[str, Callable[[Any], bool]] = {}
_PARAMS = {
    "agent": {name: entry.params for name, entry in [*AGENT_METHODS.items(), *PROTOCOL_METHODS.items()]},
    "client": {name: entry.params for name, entry in [*CLIENT_METHODS.items(), *PROTOCOL_METHODS.items()]},
}


def params_problems(method: str, params: Any, sender: Side) -> list[Problem]:
    """What is wrong with the params of a method that `sender` sends; [] also for a method that is not the sender's.

    None stands for absent and for null alike, and is right where the definition requires no field.
    """
    name = _PARAMS[sender].get(method)
    if name is None:
        return []
    if params is None and not _requires_something(name):
        return []
    return problems_of(name, params, "params")


def result_problems(method: str, result: Any) -> list[Problem]:
    """What is wrong with the result of a request of this method; [] for an unknown method."""
    found = request_method(method)
    return problems_of(found.result, result, "result") if found is not None and found.result is not None else []


def error_problems(error: Any) -> list[Problem]:
    """What is wrong with the error object of a response."""
    return problems_of("Error", error, "error")


def problems_of(name: str, value: Any, root: str = "value") -> list[Problem]:
    """What keeps a value from having the shape of a definition. `root` is what the sentences call the whole."""
    if name not in _checks:
        _checks[name] = _check(name)
    try:
        if _checks[name](value):
            return []
    except (ValueError, OverflowError, RecursionError):
        pass  # a value that jsonschema-rs cannot take over from Python; jsonschema decides as well
    return explain(name, value, root)


def _check(name: str) -> Callable[[Any], bool]:
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(json_schema(name), validate_formats=False).is_valid


def _requires_something(name: str) -> bool:
    type_ = definition(name)
    return "tag" in type_ or any(field.get("required") for field in type_["fields"].values())
