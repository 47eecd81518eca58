"""What a valid value has beyond the schema: fields that no definition knows, values that are right only as "other".

Does not look where anything may stand: below `_meta`, in data that is anyone's (rawInput, an error's data), in a
variant that the schema does not know. Whether an extension is allowed is for the rules to say. A value of the wrong
type is passed over here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from conformance.protocol.facts import Type, definition, is_stable, stable
from conformance.protocol.formats import FORMATS
from conformance.protocol.methods import Side, method, request_method
from conformance.protocol.paths import below

Part = Literal["params", "result", "error"]

MAX_FOUND = 100


@dataclass(frozen=True, slots=True)
class UnknownField:
    """A field that its object's definition does not have. `path` leads to it; the unstable schema may have it there."""

    path: str
    name: str
    definition: str
    unstable: bool


@dataclass(frozen=True, slots=True)
class CustomValue:
    """A string where the protocol names some and lets others pass. `unstable`: the unstable schema names it."""

    path: str
    value: str
    definition: str
    unstable: bool


@dataclass(frozen=True, slots=True)
class OddFormat:
    """A value that the schema lets pass, though not in the format that it notes ("uint64", "base64", "uri")."""

    path: str
    value: Any
    definition: str
    format: str


@dataclass(slots=True)
class Extensions:
    """Everything that plain validation does not see in one value, at most 100 of each kind."""

    unknown_fields: list[UnknownField] = field(default_factory=list)
    custom_values: list[CustomValue] = field(default_factory=list)
    odd_formats: list[OddFormat] = field(default_factory=list)


def extensions(name: str, value: Any, part: Part, sender: Side | None = None) -> Extensions:
    """What goes beyond the schema in the params or result of a method, or in an error object; paths as in `Problem`.

    `sender` is needed only for the params of a method that both sides have; an unknown method has no extensions.
    """
    found = Extensions()
    walker = _walker_of(name, part, sender)
    if walker is not None:
        walker.walk(value, "", found)
    return found


def unknown_fields(name: str, value: Any, part: Part) -> list[UnknownField]:
    """Fields that no definition has, outside of `_meta` and "other" variants."""
    return extensions(name, value, part).unknown_fields


def custom_values(name: str, value: Any, part: Part) -> list[CustomValue]:
    """Strings that are right only because the enumeration or union is open, with and without an underscore.

    Enumerations whose other values the protocol leaves free (such as string formats) have none.
    """
    return extensions(name, value, part).custom_values


def odd_formats(name: str, value: Any, part: Part) -> list[OddFormat]:
    """Values out of the range or form that the schema notes without enforcing it. Receivers may choke on them."""
    return extensions(name, value, part).odd_formats


@cache
def _walker_of(name: str, part: Part, sender: Side | None) -> _Walker | None:
    if part == "error":
        return _definition_walker("Error")
    if part == "result":
        request = request_method(name)
        return _definition_walker(request.result) if request is not None and request.result is not None else None
    sides: tuple[Side, ...] = ("agent", "client") if sender is None else (sender,)
    found = next((entry for side in sides if (entry := method(name, side)) is not None), None)
    return _definition_walker(found.params) if found is not None else None


# Walkers, one for each type in which something can be found. Types in which nothing can be are None.


class _Walker:
    def walk(self, value: Any, path: str, found: Extensions) -> None:
        raise NotImplementedError

    def fits(self, value: Any) -> bool:
        """Whether the value looks like this type, for the choice between untagged ones."""
        return True


class _Object(_Walker):
    """An object of a known variant: its own fields and those of everything that is flattened into it."""

    def __init__(self, name: str, fields: dict[str, tuple[Type, str]], is_closed: bool = True) -> None:
        self.name = name
        self.is_closed = is_closed
        self.known = frozenset(key for key, (type_, _) in fields.items() if is_stable(type_)) | {"_meta"}
        self.unstable = frozenset(fields) - self.known
        self.required = frozenset(key for key, (type_, _) in fields.items() if type_.get("required"))
        walkers = ((key, _walker(type_, owner)) for key, (type_, owner) in fields.items() if is_stable(type_))
        self.inner = tuple((key, walker) for key, walker in walkers if walker is not None)

    def walk(self, value: Any, path: str, found: Extensions) -> None:
        if type(value) is not dict:
            return
        if self.is_closed and not self.known.issuperset(value):
            self._note_unknown(value, path, found)
        for key, walker in self.inner:
            if key in value:
                walker.walk(value[key], f"{path}.{key}" if path else key, found)

    def fits(self, value: Any) -> bool:
        return type(value) is dict and self.required <= value.keys()

    def _note_unknown(self, value: dict[str, Any], path: str, found: Extensions) -> None:
        for key in value:
            if key not in self.known and len(found.unknown_fields) < MAX_FOUND:
                found.unknown_fields.append(UnknownField(below(path, key), key, self.name, key in self.unstable))


class _Union(_Walker):
    """A tagged union: the tag of the value chooses the walker of its variant."""

    def __init__(self, name: str, type_: Type, other: _Object, untagged: _Object | None) -> None:
        self.name = name
        self.tag: str = type_["tag"]
        self.is_reserved = type_["other"]["open"] == "reserved"
        self.variants: dict[str, _Walker] = {}
        self.unstable = frozenset(type_["variants"]) - frozenset(stable(type_["variants"]))
        self.other = other
        self.untagged = untagged

    def walk(self, value: Any, path: str, found: Extensions) -> None:
        if type(value) is not dict:
            return
        tag = value.get(self.tag)
        if type(tag) is str:
            variant = self.variants.get(tag)
            if variant is not None:
                variant.walk(value, path, found)
                return
            if self.is_reserved and len(found.custom_values) < MAX_FOUND:
                found.custom_values.append(CustomValue(below(path, self.tag), tag, self.name, tag in self.unstable))
            self.other.walk(value, path, found)
        elif tag is None and self.untagged is not None:
            self.untagged.walk(value, path, found)


class _Enum(_Walker):
    def __init__(self, name: str, type_: Type) -> None:
        self.name = name
        self.values = frozenset(type_["values"])
        self.unstable = frozenset(type_.get("unstable-values", []))

    def walk(self, value: Any, path: str, found: Extensions) -> None:
        if type(value) is str and value not in self.values and len(found.custom_values) < MAX_FOUND:
            found.custom_values.append(CustomValue(path, value, self.name, value in self.unstable))


class _Format(_Walker):
    def __init__(self, name: str, format: str) -> None:
        self.name = name
        self.format = format
        self.is_in_format = FORMATS[format]

    def walk(self, value: Any, path: str, found: Extensions) -> None:
        if not self.is_in_format(value) and len(found.odd_formats) < MAX_FOUND:
            found.odd_formats.append(OddFormat(path, value, self.name, self.format))


class _Array(_Walker):
    def __init__(self, items: _Walker) -> None:
        self.items = items

    def walk(self, value: Any, path: str, found: Extensions) -> None:
        if type(value) is list:
            for index, item in enumerate(value):
                self.items.walk(item, f"{path}[{index}]", found)

    def fits(self, value: Any) -> bool:
        return type(value) is list and all(map(self.items.fits, value))


class _Map(_Walker):
    def __init__(self, values: _Walker) -> None:
        self.values = values

    def walk(self, value: Any, path: str, found: Extensions) -> None:
        if type(value) is dict:
            for key, item in value.items():
                self.values.walk(item, below(path, key), found)


class _Choice(_Walker):
    """Untagged types: all that the value looks like may claim it. A field is unknown only if none of them knows it."""

    def __init__(self, choices: list[_Walker]) -> None:
        self.choices = choices

    def walk(self, value: Any, path: str, found: Extensions) -> None:
        attempts = []
        for walker in self.choices:
            if walker.fits(value):
                attempt = Extensions()
                walker.walk(value, path, attempt)
                attempts.append(attempt)
        if attempts:
            best = min(attempts, key=lambda attempt: len(attempt.unknown_fields) + len(attempt.custom_values))
            elsewhere = [{unknown.path for unknown in attempt.unknown_fields} for attempt in attempts]
            found.unknown_fields += [
                unknown for unknown in best.unknown_fields if all(unknown.path in paths for paths in elsewhere)
            ]
            found.custom_values += best.custom_values
            found.odd_formats += best.odd_formats


@cache
def _definition_walker(name: str) -> _Walker | None:
    return _walker(definition(name), name)


def _walker(type_: Type, owner: str) -> _Walker | None:
    """The walker of a type; `owner` is the definition that it stands in."""
    if "ref" in type_:
        return _definition_walker(type_["ref"])
    match type_["type"]:
        case "object":
            return _object_walker(type_, owner, {})
        case "enum" if type_["of"] == "string":
            return _Enum(owner, type_) if type_.get("open") == "reserved" else None
        case "array":
            items = _walker(type_["items"], owner)
            return _Array(items) if items is not None else None
        case "map":
            values = _walker(type_["values"], owner)
            return _Map(values) if values is not None else None
        case "choice":
            choices = [_walker(choice, owner) for choice in type_["of"]]
            known = [walker for walker in choices if walker is not None]
            return _Choice(known) if len(known) == len(choices) else None
    format_ = type_.get("format", type_.get("contentEncoding"))
    return _Format(owner, format_) if format_ in FORMATS else None


def _object_walker(type_: Type, owner: str, outer: dict[str, tuple[Type, str]]) -> _Walker:
    """The walker of an object into whose fields those of `outer` (name: type and definition) are flattened."""
    fields = {**outer, **_fields(type_, owner)}
    if "tag" not in type_:
        return _Object(owner, fields, is_closed="extra" not in type_)
    untagged = [_fields(_resolved(choice, owner)[0], owner) for choice in type_.get("untagged", [])]
    loose = {key: member for choice in untagged for key, member in choice.items()}
    tag: dict[str, tuple[Type, str]] = {type_["tag"]: ({"type": "string"}, owner)}
    other = _Object(owner, {**fields, **tag, **_fields(type_["other"], owner)}, is_closed=False)
    union = _Union(owner, type_, other, _Object(owner, {**fields, **loose}) if untagged else None)
    for value, payload in stable(type_["variants"]).items():
        resolved, name = _resolved(payload, owner)
        union.variants[value] = _object_walker(resolved, name, {**fields, **tag, **loose})
    return union


def _fields(type_: Type, owner: str) -> dict[str, tuple[Type, str]]:
    found: dict[str, tuple[Type, str]] = {key: (member, owner) for key, member in type_["fields"].items()}
    for choice in type_.get("one-of", []):
        resolved, name = _resolved(choice, owner)
        found.update(_fields(resolved, name))
    return found


def _resolved(type_: Type, owner: str) -> tuple[Type, str]:
    return (definition(type_["ref"]), type_["ref"]) if "ref" in type_ else (type_, owner)
