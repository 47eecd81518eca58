"""What may stand at a place of a scenario file. A shape reads a node, complains where it does not fit, and describes
itself as JSON Schema.

The loader and the schema for editors are both made of these, so they cannot differ.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from conformance.scenario.names import is_name
from conformance.scenario.reading import BAD, WHAT, Reading, Thing, spoken
from conformance.scenario.spelling import did_you_mean
from conformance.scenario.yaml12 import Node

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


class Shape(Protocol):
    def read(self, node: Node, reading: Reading) -> Any: ...
    def fits(self, node: Node) -> bool: ...
    def schema(self) -> dict[str, Any]: ...


_NAME_SCHEMA: Final = {"type": "string", "pattern": r"^\{[A-Za-z][A-Za-z0-9_.-]*\}$"}


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value without parts; a name in braces may stand for it."""

    what: str

    def fits(self, node: Node) -> bool:
        return node.kind == "scalar"

    def read(self, node: Node, reading: Reading) -> Any:
        if node.kind == "scalar" and is_name(node.value):
            return reading.text(node)
        if not self.fits(node) or not self.holds(node.value):
            return reading.complain(node, f"this must be {self.what}, not {spoken(node)}")
        return reading.text(node) if isinstance(node.value, str) else node.value

    def holds(self, value: Any) -> bool:
        raise NotImplementedError

    def schema(self) -> dict[str, Any]:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Text(Scalar):
    what: str = "text (quote it)"

    def holds(self, value: Any) -> bool:
        return isinstance(value, str)

    def schema(self) -> dict[str, Any]:
        return {"type": "string"}


@dataclass(frozen=True, slots=True)
class Flag(Scalar):
    what: str = "true or false"

    def holds(self, value: Any) -> bool:
        return isinstance(value, bool)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "boolean"}, _NAME_SCHEMA]}


@dataclass(frozen=True, slots=True)
class Number(Scalar):
    """A number of at least `least`; a whole one unless `fraction`."""

    what: str = "a number"
    least: float = 0
    fraction: bool = False

    def holds(self, value: Any) -> bool:
        kinds = (int, float) if self.fraction else (int,)
        return isinstance(value, kinds) and not isinstance(value, bool) and value >= self.least

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "number" if self.fraction else "integer", "minimum": self.least}, _NAME_SCHEMA]}


@dataclass(frozen=True, slots=True)
class Id(Scalar):
    """A JSON-RPC id: text or an integer."""

    what: str = "text or a whole number"

    def holds(self, value: Any) -> bool:
        return isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))

    def schema(self) -> dict[str, Any]:
        return {"type": ["string", "integer"]}


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some words. `more` accepts others by a pattern ("_..." for extensions)."""

    words: tuple[str, ...]
    what: str = "word"
    more: str | None = None

    def fits(self, node: Node) -> bool:
        return node.kind == "scalar" and isinstance(node.value, str)

    def read(self, node: Node, reading: Reading) -> Any:
        if node.kind == "scalar" and is_name(node.value):
            return reading.text(node)
        if node.kind != "scalar" or not isinstance(node.value, str):
            return reading.complain(node, f"this must be one of {', '.join(self.words)}, not {spoken(node)}")
        if node.value in self.words or (self.more is not None and re.fullmatch(self.more, node.value)):
            return node.value
        return reading.complain(node, f'unknown {self.what} "{node.value}"{did_you_mean(node.value, self.words)}')

    def schema(self) -> dict[str, Any]:
        also = [{"type": "string", "pattern": f"^({self.more})$"}] if self.more else []
        return {"anyOf": [{"enum": list(self.words)}, *also, _NAME_SCHEMA]}


@dataclass(frozen=True, slots=True)
class NewName:
    """Gives a name to a thing that the step brings about."""

    thing: Thing

    def fits(self, node: Node) -> bool:
        return node.kind == "scalar"

    def read(self, node: Node, reading: Reading) -> Any:
        if node.kind != "scalar" or not isinstance(node.value, str) or not _WORD.fullmatch(node.value):
            return reading.complain(node, f"a name must be a word (letters, digits, - and _), not {spoken(node)}")
        if node.value not in reading.names[self.thing]:
            reading.names[self.thing].append(node.value)
        return node.value

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^{_WORD.pattern}$"}


@dataclass(frozen=True, slots=True)
class Name:
    """Names a thing that an earlier step brought about (of one sort, or of the sort `also`); with `many` a list of them
    as well, read as a tuple."""

    thing: Thing
    many: bool = False
    also: Thing | None = None

    def fits(self, node: Node) -> bool:
        return node.kind == "scalar" or (self.many and node.kind == "list")

    def read(self, node: Node, reading: Reading) -> Any:
        if self.many:
            nodes = node.value if node.kind == "list" else [node]
            found = tuple(self._one(item, reading) for item in nodes)
            return BAD if BAD in found else found
        return self._one(node, reading)

    def _one(self, node: Node, reading: Reading) -> Any:
        what = " or ".join(WHAT[thing] for thing in (self.thing, self.also) if thing)
        if node.kind != "scalar" or not isinstance(node.value, str):
            return reading.complain(node, f"this must be the name of a {what}, not {spoken(node)}")
        known = [*reading.names[self.thing], *(reading.names[self.also] if self.also else ())]
        if node.value not in known:
            hint = did_you_mean(node.value, known) if known else ""
            return reading.complain(node, f'no {what} is named "{node.value}" yet{hint}')
        return node.value

    def schema(self) -> dict[str, Any]:
        one: dict[str, Any] = {"type": "string"}
        return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]} if self.many else one


@dataclass(frozen=True, slots=True)
class Json:
    """Any JSON value, names in its texts filled in; or only a table or a list."""

    only: Literal["table", "list"] | None = None

    def fits(self, node: Node) -> bool:
        return self.only is None or node.kind == self.only

    def read(self, node: Node, reading: Reading) -> Any:
        if not self.fits(node):
            return reading.complain(node, f"this must be a {self.only}, not {spoken(node)}")
        self._check(node, reading)
        return node.plain

    def _check(self, node: Node, reading: Reading) -> None:
        if node.kind == "scalar":
            if isinstance(node.value, str):
                reading.text(node)
        else:
            for item in node.value:
                for part in item if isinstance(item, tuple) else (item,):
                    self._check(part, reading)

    def schema(self) -> dict[str, Any]:
        return {} if self.only is None else {"type": "object" if self.only == "table" else "array"}


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list, read as a tuple; with `or_one` a bare item stands for a list of one."""

    item: Shape
    least: int = 0
    or_one: bool = False

    def fits(self, node: Node) -> bool:
        return node.kind == "list" or (self.or_one and self.item.fits(node))

    def read(self, node: Node, reading: Reading) -> Any:
        if not self.fits(node):
            return reading.complain(node, f"this must be a list, not {spoken(node)}")
        nodes = node.value if node.kind == "list" else [node]
        if len(nodes) < self.least:
            return reading.complain(
                node, f"at least {self.least} must stand here" if self.least > 1 else "this list is empty"
            )
        found = tuple(self.item.read(item, reading) for item in nodes)
        return BAD if any(value is BAD for value in found) else found

    def schema(self) -> dict[str, Any]:
        many: dict[str, Any] = {"type": "array", "items": self.item.schema()}
        if self.least:
            many["minItems"] = self.least
        return {"anyOf": [self.item.schema(), many]} if self.or_one else many


@dataclass(frozen=True, slots=True)
class Either:
    """The first of some shapes that fits a node of that kind."""

    shapes: tuple[Shape, ...]
    what: str

    def fits(self, node: Node) -> bool:
        return any(shape.fits(node) for shape in self.shapes)

    def read(self, node: Node, reading: Reading) -> Any:
        for shape in self.shapes:
            if shape.fits(node):
                return shape.read(node, reading)
        return reading.complain(node, f"this must be {self.what}, not {spoken(node)}")

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [shape.schema() for shape in self.shapes]}


@dataclass(frozen=True, slots=True)
class Steps:
    """A list of steps, read as a tuple of `Step`."""

    def fits(self, node: Node) -> bool:
        return node.kind == "list"

    def read(self, node: Node, reading: Reading) -> Any:
        if node.kind != "list" or not node.value:
            return reading.complain(
                node, f"this must be a list of steps, not {spoken(node) if node.value else 'an empty list'}"
            )
        steps = [reading.read_step(item, reading) for item in node.value]
        return BAD if None in steps else tuple(steps)

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"$ref": "#/$defs/step"}, "minItems": 1}


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a table. `required` also "unless-one": it may be left out while there is only one connection."""

    shape: Shape
    says: str
    required: bool | Literal["unless-one"] = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table with known keys. A bare value stands for the key `short`; exactly one of `one_of` must be given."""

    what: str
    keys: Mapping[str, Key]
    short: str | None = None
    one_of: tuple[str, ...] = ()

    def fits(self, node: Node) -> bool:
        return node.kind == "table" or (self.short is not None and self.keys[self.short].shape.fits(node))

    def read(self, node: Node, reading: Reading) -> Any:
        short = self.keys[self.short].shape if self.short is not None else None
        if short is not None and node.kind != "table" and short.fits(node):
            assert self.short is not None
            given = [(self.short, node, node)]
        elif node.kind == "table":
            given = [(key.value, key, value) for key, value in node.value]
        else:
            return reading.complain(node, f"{self.what} must be a table, not {spoken(node)}")
        found: dict[str, Any] = {}
        for name, key, value in given:
            known = self.keys.get(name)
            if known is None:
                reading.complain(key, f'unknown key "{name}" of {self.what}{did_you_mean(name, self.keys)}')
                found[name] = BAD
            else:
                found[name] = known.shape.read(value, reading)
        self._missing(node, found, reading)
        return BAD if any(value is BAD for value in found.values()) else found

    def _missing(self, node: Node, found: Mapping[str, Any], reading: Reading) -> None:
        unknown = not set(found) <= set(self.keys)  # a misspelt key is told already
        connections = reading.names["connection"]
        for name, key in self.keys.items():
            if name in found or not key.required or unknown:
                continue
            if key.required is True:
                reading.complain(node, f'{self.what} needs "{name}": {key.says}')
            elif not connections:
                reading.complain(node, f"{self.what} needs a connection; let a step `connect: ada` stand before it")
            elif len(connections) > 1:
                reading.complain(
                    node, f'{self.what} needs "{name}", since there are several connections: {", ".join(connections)}'
                )
        if self.one_of and not unknown:
            chosen = [name for name in self.one_of if name in found]
            if len(chosen) != 1:
                which = "only one" if chosen else "one"
                given = f", not {' and '.join(chosen)}" if chosen else ""
                reading.complain(node, f"{self.what} needs {which} of {', '.join(self.one_of)}{given}")

    def schema(self) -> dict[str, Any]:
        table: dict[str, Any] = {
            "type": "object",
            "additionalProperties": False,
            "properties": {name: {"description": key.says, **key.shape.schema()} for name, key in self.keys.items()},
        }
        if required := [name for name, key in self.keys.items() if key.required is True]:
            table["required"] = required
        if self.one_of:
            table["oneOf"] = [{"required": [name]} for name in self.one_of]
        return table if self.short is None else {"anyOf": [self.keys[self.short].shape.schema(), table]}
