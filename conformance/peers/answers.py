"""How the scripted client meets what an agent asks of it: permission, and elicitation.

Knows the shapes of both requests and of their answers. The params are an agent's own words: nothing in them is taken
for granted.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

PERMISSION: Final = "session/request_permission"
ELICITATION: Final = "elicitation/create"
ANSWERED_METHODS: Final = (PERMISSION, ELICITATION)

Policy = Literal["allow", "deny", "cancel", "hold"] | Mapping[str, Any]
"""A word, or the raw result to give; {"error": {...}} is given as an error response."""

_KINDS: Final = {"allow": ("allow_once", "allow_always"), "deny": ("reject_once", "reject_always")}
_CANCELLED: Final = {"outcome": {"outcome": "cancelled"}}


def answer(method: str, params: Any, policy: Policy) -> dict[str, Any]:
    """The member of the response, {"result": ...} or {"error": ...}, that `policy` gives; KeyError for "hold"."""
    if isinstance(policy, Mapping):
        return {"error": policy["error"]} if "error" in policy else {"result": dict(policy)}
    asked = params if isinstance(params, dict) else {}
    if method == PERMISSION:
        return {"result": _CANCELLED if policy == "cancel" else _choice(asked, _KINDS[policy])}
    actions = {"allow": "accept", "deny": "decline", "cancel": "cancel"}
    result: dict[str, Any] = {"action": actions[policy]}
    if policy == "allow" and asked.get("mode") == "form":
        result["content"] = _form(asked.get("requestedSchema"))
    return {"result": result}


def _choice(asked: dict[str, Any], kinds: tuple[str, ...]) -> dict[str, Any]:
    """The first offered option of the first kind that is offered; with none, the dialog counts as dismissed."""
    options = asked.get("options")
    offered = [option for option in options if isinstance(option, dict)] if isinstance(options, list) else []
    for kind in kinds:
        for option in offered:
            if option.get("kind") == kind and isinstance(option.get("optionId"), str):
                return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
    return _CANCELLED


def _form(schema: Any) -> dict[str, Any]:
    """A value for each property of a form, its default where it has one."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return {}
    return {name: _value(field) for name, field in properties.items() if isinstance(field, dict)}


def _value(field: dict[str, Any]) -> Any:
    if field.get("default") is not None:
        return field["default"]
    match field.get("type"):
        case "boolean":
            return True
        case "integer" | "number":
            low = field.get("minimum")
            return low if isinstance(low, int | float) else 1
        case "array":
            items = field.get("items")
            return _allowed(items)[:1] if isinstance(items, dict) else []
    shortest = field.get("minLength")
    wanted = shortest if isinstance(shortest, int) and 0 < shortest < 1000 else 1
    return next(iter(_allowed(field)), "x" * wanted)


def _allowed(field: dict[str, Any]) -> list[Any]:
    if isinstance(values := field.get("enum"), list):
        return values
    for key in ("oneOf", "anyOf"):
        if isinstance(options := field.get(key), list):
            return [option["const"] for option in options if isinstance(option, dict) and "const" in option]
    return []
