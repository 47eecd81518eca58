"""Reads YAML as version 1.2 says, each value with the place where it stands.

Built on the events of PyYAML's C parser; what its YAML 1.1 would turn into other things (`on`, `010`, `12:30`,
dates, `<<`) stays what was written. Repeated keys, tags, several documents and numbers that JSON lacks are errors.
Knows nothing of scenarios.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CONSTANTS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NO_JSON_NUMBER = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_DEEPEST = 100


class YamlError(Exception):
    """The text is no YAML of the kind read here. `line` and `column` count from 1; `length` characters are
    concerned."""

    def __init__(self, message: str, line: int, column: int, length: int = 1) -> None:
        super().__init__(message)
        self.message, self.line, self.column, self.length = message, line, column, length


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its place. `value` is None, a bool, a number or a text where `kind` is "scalar"; a list of nodes for
    "list"; a list of (key, value) pairs of nodes for "table". `line` and `column` count from 1, `length` is what it
    covers of its first line."""

    kind: Literal["scalar", "list", "table"]
    value: Any
    line: int
    column: int
    length: int

    @property
    def plain(self) -> Any:
        """The value without places, as JSON has it."""
        if self.kind == "list":
            return [item.plain for item in self.value]
        if self.kind == "table":
            return {key.value: item.plain for key, item in self.value}
        return self.value

    def get(self, name: str) -> "Node | None":
        """The value under a key of a table; None where there is none."""
        return next((item for key, item in self.value if key.value == name), None) if self.kind == "table" else None


def read_yaml(text: str) -> Node:
    """The one document in `text`. Raises YamlError."""
    try:
        return _Composer(iter(yaml.parse(text, Loader=_LOADER))).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = error.problem or error.context or "it cannot be read"
        raise YamlError(f"not YAML: {what}", mark.line + 1 if mark else 1, mark.column + 1 if mark else 1) from None
    except yaml.YAMLError as error:
        raise YamlError(f"not YAML: {' '.join(str(error).split())}", 1, 1) from None


class _Composer:
    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self._anchors: dict[str, Node] = {}

    def document(self) -> Node:
        next(self._events)  # the stream begins
        event = next(self._events)
        if isinstance(event, yaml.StreamEndEvent):
            raise YamlError("the file is empty", 1, 1)
        root = self._node(next(self._events), 0)
        next(self._events)  # the document ends
        if not isinstance(following := next(self._events), yaml.StreamEndEvent):
            mark = following.start_mark
            raise YamlError("a second document begins here; one file holds one", mark.line + 1, mark.column + 1, 3)
        return root

    def _node(self, event: Any, depth: int) -> Node:
        line, column, length = _place(event)
        if depth > _DEEPEST:
            raise YamlError(f"nested deeper than {_DEEPEST} levels", line, column, length)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise YamlError(
                    f"the alias *{event.anchor} has no anchor &{event.anchor} before it", line, column, length
                )
            return self._anchors[event.anchor]
        if event.tag is not None:
            raise YamlError(f"tags are not used here: leave out {event.tag!r}", line, column, length)
        if isinstance(event, yaml.ScalarEvent):
            plain = event.style in ("", None)
            node = Node(
                "scalar", _scalar(event.value, line, column, length) if plain else event.value, line, column, length
            )
        elif isinstance(event, yaml.SequenceStartEvent):
            node = Node("list", list(self._items(depth)), line, column, length)
        else:
            node = Node("table", list(self._pairs(depth)), line, column, length)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _items(self, depth: int) -> Iterator[Node]:
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            yield self._node(event, depth + 1)

    def _pairs(self, depth: int) -> Iterator[tuple[Node, Node]]:
        first: dict[Any, Node] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            if key.kind != "scalar" or not isinstance(key.value, str):
                raise YamlError("a key must be text", key.line, key.column, key.length)
            if (earlier := first.setdefault(key.value, key)) is not key:
                raise YamlError(
                    f'"{key.value}" stands twice; the first is in line {earlier.line}', key.line, key.column, key.length
                )
            yield key, self._node(next(self._events), depth + 1)


def _place(event: Any) -> tuple[int, int, int]:
    start, end = event.start_mark, event.end_mark
    return start.line + 1, start.column + 1, max(1, end.column - start.column) if end.line == start.line else 1


def _scalar(text: str, line: int, column: int, length: int) -> Any:
    """A plain scalar under the core schema of YAML 1.2."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text) or _OCTAL.fullmatch(text) or _HEXADECIMAL.fullmatch(text):
        if len(text) > 4000:
            raise YamlError("this integer is too long; quote it", line, column, length)
        return int(text, 0 if text[:2] in ("0o", "0x") else 10)
    if _FLOAT.fullmatch(text):
        number = float(text)
        if number - number != 0:
            raise YamlError(f"{text} is too large for a number; quote it", line, column, length)
        return number
    if _NO_JSON_NUMBER.fullmatch(text):
        raise YamlError(f"{text} is no number of JSON; quote it", line, column, length)
    return text
