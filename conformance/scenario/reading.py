"""What is known while one scenario file is read: the names that its steps have given, and what is wrong with it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from conformance.scenario.errors import Problem
from conformance.scenario.model import Step
from conformance.scenario.names import OF, PLAIN, names_in
from conformance.scenario.spelling import did_you_mean
from conformance.scenario.yaml12 import Node

Thing = Literal["connection", "session", "request"]
THINGS: Final[tuple[Thing, ...]] = ("connection", "session", "request")
WHAT: Final[dict[Thing, str]] = {"connection": "connection", "session": "session", "request": "prompt or request"}

BAD: Final[Any] = object()
"""What `read` returns beside a problem."""


@dataclass(slots=True)
class Reading:
    """What is known while one file is read: names defined so far, names in force (of for-each), and the problems
    found."""

    read_step: Callable[[Node, "Reading"], Step | None]
    names: dict[Thing, list[str]] = field(default_factory=lambda: {thing: [] for thing in THINGS})
    variables: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def complain(self, node: Node, message: str) -> Any:
        self.problems.append(Problem(message, node.line, node.column, node.length))
        return BAD

    def text(self, node: Node) -> str:
        """The text of a scalar, its names in braces looked up."""
        for name in names_in(node.value):
            first, _, second = name.partition(".")
            if second and first in OF:
                thing: Thing = "session" if first == "session" else "request"
                if second not in self.names[thing]:
                    self.complain(
                        node, f'no {WHAT[thing]} is named "{second}" yet{did_you_mean(second, self.names[thing])}'
                    )
            elif name not in PLAIN and name not in self.variables:
                known = [*PLAIN, *self.variables, *(f"{word}.NAME" for word in OF)]
                self.complain(node, f'unknown name "{{{name}}}"{did_you_mean(name, known)}')
        return str(node.value)


def spoken(node: Node) -> str:
    """The value as an error shows it."""
    if node.kind != "scalar":
        return f"a {node.kind}"
    value = node.value
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= 40 else f'"{value[:37]}..."'
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
