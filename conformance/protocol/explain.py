"""Why a value does not have the shape of a definition, in sentences. Slow (a hundred microseconds): for rejects only.

jsonschema walks the value; what is added here is the choice of the right branch. In a tagged union that is the one
that the value's own tag names, so that the reader learns that `content[0].text` is null instead of that nothing of 20
kinds matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, reduce
from itertools import islice
from typing import TYPE_CHECKING, Any

from conformance.protocol.facts import definition
from conformance.protocol.json_schema import Schema, schema_of, stable_definitions
from conformance.protocol.paths import below
from conformance.wire.json_text import shown

if TYPE_CHECKING:
    from jsonschema import ValidationError

MAX_PROBLEMS = 20

_NAMED_TYPES = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object",
    "array": "an array",
    "null": "null",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One place where a value departs from the schema.

    `path` leads from the params or result to the place ("update.content[0].text", "" for the whole); `value` is what
    stands there (None also where nothing does); `definition` names the type of the protocol that the place belongs to.
    `is_lenient`: the schema tells receivers to read over such an error (to use a default, or to skip the item).
    """

    path: str
    value: Any
    definition: str
    message: str
    is_lenient: bool = False


def explain(name: str, value: Any, root: str) -> list[Problem]:
    """The problems of a value that should have the shape of a definition, 20 at most. `root` names the whole."""
    schema = _definitions()[name]
    validator = _explainer()(schema)
    problems: dict[str, Problem] = {}
    for error in validator.iter_errors(value):
        problem = _problem(error, name, root)
        problems.setdefault(problem.path, problem)
        if len(problems) >= MAX_PROBLEMS:
            break
    return list(problems.values())


@cache
def _definitions() -> dict[str, Schema]:
    return {name: schema_of(definition(name)) for name in stable_definitions()}


@cache
def _explainer() -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    # Formats are not asserted: the verdict is that of plain JSON Schema.
    keywords: dict[str, Any] = {keyword: _quietly(is_kept) for keyword, is_kept in _LIMITS.items()}
    keywords |= {"$ref": _follow, "anyOf": _choose_branch, "oneOf": _choose_one, "required": _require}
    return extend(Draft202012Validator, keywords)  # type: ignore[no-untyped-call]


# jsonschema puts the whole value into its messages: slow for a big one, an exception for an integer of 4,300 digits.
_LIMITS: dict[str, Callable[[Any, Any, Any], bool]] = {
    "type": lambda validator, kinds, value: any(
        validator.is_type(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)
    ),
    "enum": lambda validator, allowed, value: isinstance(value, str) and value in allowed,
    "const": lambda validator, constant, value: isinstance(value, str) and value == constant,
    "minimum": lambda validator, least, value: not validator.is_type(value, "number") or value >= least,
    "maximum": lambda validator, most, value: not validator.is_type(value, "number") or value <= most,
    "minLength": lambda validator, least, value: not isinstance(value, str) or len(value) >= least,
    "minItems": lambda validator, least, value: not isinstance(value, list) or len(value) >= least,
}


def _quietly(is_kept: Callable[[Any, Any, Any], bool]) -> Callable[..., Iterator[ValidationError]]:
    def check(validator: Any, limit: Any, instance: Any, schema: Schema) -> Iterator[ValidationError]:
        from jsonschema import ValidationError

        if not is_kept(validator, limit, instance):
            yield ValidationError("")

    return check


def _follow(validator: Any, reference: str, instance: Any, schema: Schema) -> Iterator[ValidationError]:
    name = _name(reference)
    yield from validator.descend(instance, _definitions()[name], schema_path=name)


def _choose_branch(validator: Any, branches: list[Schema], instance: Any, schema: Schema) -> Iterator[ValidationError]:
    if "x-tag" in schema:
        yield from _choose_by_tag(validator, branches, instance, schema)
    elif len(branches) == 2 and branches[1] == {"type": "null"}:
        if instance is not None:
            yield from map(_allowing_null, validator.descend(instance, branches[0], schema_path=0))
    else:
        yield from _nearest(validator, range(len(branches)), branches, instance)


def _allowing_null(error: ValidationError) -> ValidationError:
    if error.validator == "type" and not error.path and isinstance(error.validator_value, str):
        error.validator_value = [error.validator_value, "null"]
    return error


def _choose_by_tag(validator: Any, branches: list[Schema], instance: Any, schema: Schema) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return  # said by "type" already
    variants = schema["x-variants"]
    tag = instance.get(schema["x-tag"])
    untagged = range(len(variants) + 1, len(branches))
    if tag is None and untagged:
        yield from _nearest(validator, untagged, branches, instance)
        return
    named = variants.index(tag) if isinstance(tag, str) and tag in variants else len(variants)
    if all(any(validator.descend(instance, branches[index])) for index in untagged):
        yield from validator.descend(instance, branches[named], schema_path=named)


def _choose_one(validator: Any, branches: list[Schema], instance: Any, schema: Schema) -> Iterator[ValidationError]:
    from jsonschema import ValidationError

    if not isinstance(instance, dict):
        return
    distinct = [" and ".join(_required(branch)) for branch in branches]
    fitting = [index for index, branch in enumerate(branches) if not any(validator.descend(instance, branch))]
    if len(fitting) > 1:
        yield ValidationError(f"has both {distinct[fitting[0]]} and {distinct[fitting[1]]}, must have only one of them")
    elif not fitting:
        meant = [index for index, branch in enumerate(branches) if set(_required(branch)) <= set(instance)]
        if meant:
            yield from _nearest(validator, meant, branches, instance)
        else:
            yield ValidationError(f"has neither {' nor '.join(distinct)}, must have one of them")


def _nearest(
    validator: Any, indices: Iterable[int], branches: list[Schema], instance: Any
) -> Iterator[ValidationError]:
    """Nothing if one of the branches fits; else the errors of the branch that the value comes nearest to."""
    from jsonschema import ValidationError

    attempts = [
        list(islice(validator.descend(instance, branches[index], schema_path=index), MAX_PROBLEMS)) for index in indices
    ]
    if not all(attempts):
        return
    if len(attempts) > 1 and all(len(errors) == 1 and errors[0].validator == "type" for errors in attempts):
        wanted = [_wanted(branches[index]) for index in indices]
        yield ValidationError(" or ".join(dict.fromkeys(wanted)))
        return
    lacking = [[error.path[0] for error in errors if error.validator == "required"] for errors in attempts]
    if len(attempts) > 1 and all(lacking) and len({names[0] for names in lacking}) == len(lacking):
        neither = " nor ".join(str(names[0]) for names in lacking)
        yield ValidationError(f"has neither {neither}, must have one of them", validator="oneOf")
        return
    yield from min(attempts, key=lambda errors: (all(not error.path for error in errors), len(errors)))


def _require(validator: Any, required: list[str], instance: Any, schema: Schema) -> Iterator[ValidationError]:
    from jsonschema import ValidationError

    if isinstance(instance, dict):
        for name in required:
            if name not in instance:
                wanted = _wanted(schema.get("properties", {}).get(name, {}))
                yield ValidationError(wanted, path=[name])


def _required(branch: Schema) -> list[str]:
    required: list[str] = _definitions()[_name(branch["$ref"])]["required"]
    return required


def _name(reference: str) -> str:
    return reference.removeprefix("#/$defs/")


# Words


def _problem(error: ValidationError, name: str, root: str) -> Problem:
    owner, is_lenient = _place(error, name)
    path = reduce(below, error.absolute_path, "")
    value = None if error.validator == "required" else error.instance
    return Problem(path, value, owner, f"{path or root} {_complaint(error)} ({owner})", is_lenient)


def _complaint(error: ValidationError) -> str:
    instance: Any = error.instance
    limit: Any = error.validator_value
    match error.validator:
        case "required":
            return f"is missing, must be {error.message}"
        case "type":
            return f"is {shown(instance)}, must be {_wanted({'type': limit})}"
        case "anyOf":
            return f"is {shown(instance)}, must be {error.message}"
        case "oneOf":
            return error.message
        case "const":
            return f"is {shown(instance)}, must be {shown(limit)}"
        case "enum":
            return f"is {shown(instance)}, must be {' or '.join(map(shown, limit))}"
        case "minimum":
            return f"is {shown(instance)}, must be at least {limit}"
        case "maximum":
            return f"is {shown(instance)}, must be at most {limit}"
        case "minLength":
            return f"is {shown(instance)}, must have at least {_counted(limit, 'character')}"
        case "minItems":
            return f"is {shown(instance)}, must have at least {_counted(limit, 'item')}"
    return f"is {shown(instance)}, which the schema does not allow"


def _wanted(schema: Schema) -> str:
    """What a type asks for, in words: 'a string or null'."""
    if "$ref" in schema:
        return _wanted(_definitions()[_name(schema["$ref"])])
    if "x-tag" in schema:
        return "an object"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_wanted(branch) for branch in schema["anyOf"]))
    if "const" in schema or "enum" in schema:
        return " or ".join(map(shown, schema.get("enum", [schema.get("const")])))
    types: list[str] | str = schema.get("type", "any value")
    return " or ".join(_NAMED_TYPES.get(kind, kind) for kind in ([types] if isinstance(types, str) else types))


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _place(error: ValidationError, name: str) -> tuple[str, bool]:
    """The definition that the place of an error belongs to, and whether a field that leads there is lenient."""
    node: Any = _definitions()[name]
    is_lenient = False
    steps = list(error.absolute_schema_path)[:-1]
    for position, step in enumerate(steps):
        if isinstance(node, dict):
            is_lenient = is_lenient or _forgives(node.get("x-lenient", []), "items" in steps[position:], error)
        if isinstance(node, dict) and "$ref" in node and step == _name(node["$ref"]):
            node = _definitions()[step]
            # A place with a scalar type belongs to the object that has it as a field.
            if "properties" in node or "anyOf" in node or "oneOf" in node:
                name = str(step)
        else:
            node = node[step]
    if isinstance(node, dict):
        is_lenient = is_lenient or _forgives(node.get("x-lenient", []), False, error)
    return name, is_lenient


def _forgives(leniency: list[str], is_in_item: bool, error: ValidationError) -> bool:
    if "default-on-error" in leniency or ("skip-invalid-items" in leniency and is_in_item):
        return True
    return "default-on-null" in leniency and error.instance is None and not is_in_item
