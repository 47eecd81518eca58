"""Values for the fields of the protocol, walked from the facts of its schema: valid, nearly valid and mutated ones.

Strings under names that an agent acts on (commands, addresses, folders) are harmless ones. No value looks like a name
in braces, and all of them can stand in a scenario file.
"""

import copy
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from conformance.protocol.facts import Type, definition, is_stable

SESSION: Final = "{session.s1}"
ODD: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 1.5, -0.0, 255, 65_535, 65_536, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**30, 1e300),
    *("", " ", "x", "_custom", "text", "idle", "null", "0", "/", "..", "\u0000", "\u2028", "é\u0301", "😀", "\ufeff"),
    *([], [None], [1], ["x"], [[]], {}, {"": None}, {"type": "text"}, {"type": "_x"}, {"type": None}, {"a": {"b": {}}}),
)
"""Values that fit nowhere, or only just."""

LONG: Final = (1_000, 20_000, 200_000)
_TEXTS: Final = ("a", "text", "Answer with one word.", "é and 😀", "line\nline", "/status", "  ", "")
_SAFE: Final[dict[str, tuple[str, ...]]] = {
    "sessionId": (SESSION, SESSION, SESSION, "no-such-session", ""),
    "cwd": ("{workdir}", "{workdir}", "/no/such/folder", "relative", "C:\\folder"),
    "command": ("/no/such/program",),
    "url": ("http://127.0.0.1:9/",),
    "uri": ("file:///no/such/file", "https://example.invalid/a", "memo:1"),
    "path": ("/no/such/file",),
    "data": ("aGVsbG8=", "", "not base64!"),
    "mimeType": ("image/png", "text/plain", "x"),
    "cursor": ("0", "1", "x", ""),
    "configId": ("mode", "brief", "model", "no-such-option"),
    "methodId": ("no-such-method",),
    "toolCallId": ("no-such-call",),
    "terminalId": ("no-such-terminal",),
    "messageId": ("no-such-message",),
}


class Values:
    """Draws values. Everything follows from `random`."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def params(self, name: str) -> Any:
        """Valid params of a definition, as far as the schema can tell."""
        return self._made(definition(name), "")

    def broken(self, value: Any) -> Any:
        """A copy with one to three changes: absent, null, of another type, at a boundary, unknown, extra, huge."""
        holder = [copy.deepcopy(value)]
        for _ in range(self.random.choice([1, 1, 1, 2, 3])):
            places = list(_places(holder))
            container, key = self.random.choice(places)
            self._change(container, key, is_root=container is holder)
        return holder[0]

    def odd(self) -> Any:
        """A value that fits nowhere."""
        if self.random.random() < 0.03:
            return self._deep(self.random.choice([10, 40, 80]))
        if self.random.random() < 0.05:
            return self.random.choice("xé") * self.random.choice(LONG)
        return copy.deepcopy(self.random.choice(ODD))

    def block(self, kind: str) -> dict[str, Any]:
        """A valid content block of a kind."""
        text = self.random.choice(_TEXTS) or "x"
        match kind:
            case "image" | "audio":
                return {"type": kind, "data": "aGVsbG8=", "mimeType": "image/png" if kind == "image" else "audio/wav"}
            case "resource":
                return {"type": kind, "resource": {"uri": "memo:1", "text": text}}
            case "resource_link":
                return {"type": kind, "name": "note", "uri": "file:///no/such/file"}
        return {"type": "text", "text": text}

    def _change(self, container: Any, key: Any, *, is_root: bool) -> None:
        chance, here = self.random.random(), container[key]
        if chance < 0.25 and not is_root:
            del container[key]
        elif chance < 0.4:
            container[key] = None
        elif chance < 0.5 and isinstance(here, dict):
            name = self.random.choice(["extra", "_extra", "type", "id", "error", "sessionId", "_meta", ""])
            here[name] = self.odd()
        elif chance < 0.55 and isinstance(here, list):
            here.append(self.odd())
        elif chance < 0.6 and isinstance(here, list) and here:
            here.extend(copy.deepcopy(here[:1] * self.random.choice([1, 50])))
        elif chance < 0.7 and isinstance(here, str) and not here.startswith("{"):
            container[key] = self.random.choice([here + "\u0000", here.upper(), here * 300, "_" + here, here[:-1]])
        else:
            container[key] = self.odd()

    def _deep(self, depth: int) -> Any:
        value: Any = 1
        for _ in range(depth):
            value = [value] if depth % 2 else {"a": value}
        return value

    def _made(self, type_: Type, name: str) -> Any:
        if type_.get("nullable") and self.random.random() < 0.15:
            return None
        if "ref" in type_:
            return self._made(definition(type_["ref"]), name)
        match type_["type"]:
            case "null":
                return None
            case "any":
                return copy.deepcopy(self.random.choice([None, True, 7, "x", [1], {"a": 1}]))
            case "boolean":
                return self.random.random() < 0.5
            case "number" | "integer":
                high = type_.get("maximum", 2**40)
                numbers = [type_.get("minimum", -5), high, 7, *([0.5] if type_["type"] == "number" else [])]
                return self.random.choice([number for number in numbers if number <= high])
            case "string":
                return self.random.choice(_SAFE.get(name, _TEXTS if "minLength" not in type_ else ("title",)))
            case "array":
                count = max(type_.get("minItems", 0), self.random.choice([0, 1, 1, 2, 3]))
                return [self._made(type_["items"], name) for _ in range(count)]
            case "map":
                return {key: self._made(type_["values"], key) for key in ["a", "b c"][: self.random.randrange(3)]}
            case "enum":
                beyond = ["_custom"] if "open" in type_ and type_["of"] == "string" else []
                return self.random.choice([*type_["values"], *beyond])
            case "choice":
                return self._made(self.random.choice(type_["of"]), name)
        return self._object(type_)

    def _object(self, type_: Type) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, member in type_["fields"].items():
            if member.get("required") or (is_stable(member) and self.random.random() < 0.6):
                made[name] = self._made(member, name)
        if "one-of" in type_:
            made.update(self._made(self.random.choice(type_["one-of"]), ""))
        if "tag" in type_:
            tags = [value for value, payload in type_["variants"].items() if is_stable(payload)]
            tag = self.random.choice([*tags, *tags, "_custom" if "other" in type_ else tags[0]])
            if tag in type_["variants"]:
                made.update({**self._made(type_["variants"][tag], ""), type_["tag"]: tag})
            else:
                made.update({**self._made(type_["other"], ""), type_["tag"]: tag})
        return made


def _places(container: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key or index) in a value."""
    for key in list(container) if isinstance(container, dict) else range(len(container)):
        yield container, key
        if isinstance(container[key], dict | list):
            yield from _places(container[key])
