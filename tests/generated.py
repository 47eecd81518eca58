"""Values made from the facts of the schema, and mutations of values: raw material for tests that compare verdicts."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

from conformance.protocol.facts import Type, definition, is_stable

ODDITIES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 1.0, 1.5, -0.0, 65_535, 65_536, 2**63, 10**30),
    *("", "x", "_custom", "text", "idle", "error", "string", "object", "\u0000", "😀"),
    *([], [None], [1], ["x"], [[]], {}, {"type": "text"}, {"type": "_x"}, {"x": 1}),
)


class Maker:
    """Makes valid values. With `unstable` also the fields and variants that only the unstable schema knows."""

    def __init__(self, random: Random, *, unstable: bool = False) -> None:
        self.random = random
        self.unstable = unstable

    def named(self, name: str) -> Any:
        return self.make(definition(name))

    def make(self, type_: Type) -> Any:
        if type_.get("nullable") and self.random.random() < 0.2:
            return None
        if "ref" in type_:
            return self.named(type_["ref"])
        match type_["type"]:
            case "null":
                return None
            case "any":
                return copy.deepcopy(self.random.choice(ODDITIES[:10]))
            case "boolean":
                return self.random.random() < 0.5
            case "number":
                return self.random.choice([type_.get("minimum", -3), type_.get("maximum", 1e9), 0.5])
            case "integer":
                return self.random.choice([type_.get("minimum", -5), type_.get("maximum", 2**40), 7])
            case "string":
                return self.random.choice(["", "/a", "text", "é"]) if "minLength" not in type_ else "title"
            case "array":
                count = max(type_.get("minItems", 0), self.random.randrange(3))
                return [self.make(type_["items"]) for _ in range(count)]
            case "map":
                return {key: self.make(type_["values"]) for key in ["a", "b c"][: self.random.randrange(3)]}
            case "enum":
                known = [*type_["values"], *(type_.get("unstable-values", []) if self.unstable else [])]
                beyond = ["_custom"] if "open" in type_ and type_["of"] == "string" else []
                return self.random.choice([*known, *beyond])
            case "choice":
                return self.make(self.random.choice(type_["of"]))
        return self.object(type_)

    def object(self, type_: Type) -> dict[str, Any]:
        made = self.fields(type_)
        if "tag" in type_:
            tags = [value for value, payload in type_["variants"].items() if self.unstable or is_stable(payload)]
            tag = self.random.choice([*tags, "_custom", None])
            if tag is None and "untagged" in type_:
                made.update(self.make(self.random.choice(type_["untagged"])))
            elif tag in type_["variants"]:
                made.update({**self.make(type_["variants"][tag]), type_["tag"]: tag})
            else:
                made.update({**self.make(type_["other"]), type_["tag"]: "_custom"})
        return made

    def fields(self, type_: Type) -> dict[str, Any]:
        made = {}
        for name, member in type_["fields"].items():
            is_wanted = is_stable(member) or self.unstable
            if member.get("required") or (is_wanted and self.random.random() < 0.6):
                made[name] = self.make(member)
        if "one-of" in type_:
            made.update(self.make(self.random.choice(type_["one-of"])))
        return made


def mutated(value: Any, random: Random) -> Any:
    """A copy of a value with one to three changes: another value somewhere, something missing, something too much."""
    holder = [copy.deepcopy(value)]
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        container, key = random.choice(list(places(holder)))
        change, oddity = random.random(), copy.deepcopy(random.choice(ODDITIES))
        if change < 0.2 and container is not holder:
            del container[key]
        elif change < 0.3 and isinstance(container[key], dict):
            container[key][random.choice(["extra", "type", "id", "error", "sessionId"])] = oddity
        elif change < 0.35 and isinstance(container[key], list):
            container[key].append(oddity)
        else:
            container[key] = oddity
    return holder[0]


def places(container: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key or index) in a value."""
    keys = container if isinstance(container, dict) else range(len(container))
    for key in keys:
        yield container, key
        if isinstance(container[key], dict | list):
            yield from places(container[key])
