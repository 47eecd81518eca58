"""The wire schema of version 2 as facts, derived by `tools/derive_schema.py`; no prose, no judgement.

A type is a dict in this notation:

    {"ref": NAME}                                     a definition of that name
    {"type": "string" | "integer" | "number" | "boolean" | "null" | "any"}
                                                      perhaps with "format", "contentEncoding" and limits
    {"type": "array", "items": TYPE, "minItems": N}
    {"type": "map", "values": TYPE}                   an object whose keys are data
    {"type": "enum", "of": "string" | "integer", "values": [...], "open": ...}
    {"type": "choice", "of": [TYPE, ...]}             any of these, told apart by nothing but their shape
    {"type": "object", "fields": {NAME: TYPE}}        an object, perhaps with
        "one-of": [TYPE, ...]                           exactly one of these besides
        "tag": NAME, "variants": {VALUE: TYPE}          and the type that the value of the field `tag` selects
        "other": TYPE                                   what any other string as tag asks for
        "untagged": [TYPE, ...]                         what is right without one of the variants
        "extra": true                                   unknown fields are welcome

and each may have "nullable": true, "required": true (of a field), "unstable": true (only the unstable schema knows it)
and "lenient": what a receiver makes of a wrong value ("default-on-error", "default-on-null", "skip-invalid-items").
"open" says what values beyond the known ones are: "reserved" if custom ones begin with an underscore, "free" if they
need not. "unstable-values" are values of an enum that only the unstable schema knows. Limits are "minimum", "maximum",
"minLength" and "minItems".
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

Type = dict[str, Any]


@cache
def facts() -> dict[str, Any]:
    """All of `schema/v2.json`: "methods", "methods-of-version-1" and "definitions". To be read only."""
    text = Path(__file__).with_name("schema").joinpath("v2.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def definition(name: str) -> Type:
    """The type behind a name of the protocol's schema, such as "PromptRequest". Raises KeyError for an unknown name."""
    found: Type = facts()["definitions"][name]
    return found


def is_stable(type_: Type) -> bool:
    """Whether the stable schema knows this definition, field or variant."""
    return not type_.get("unstable", False)


def stable(members: dict[str, Type]) -> dict[str, Type]:
    """The fields or variants among these that the stable schema knows."""
    return {name: member for name, member in members.items() if is_stable(member)}
