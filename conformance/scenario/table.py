"""The tables of the language: every verb and every condition, each in one place with its keys, its meaning and what
performs it.

    @verb("cancel", "Sends session/cancel.", {"by": BY, "in": IN}, short="in")
    async def cancel(stage: Stage, given: Given) -> None: ...

The loader checks files against these tables, the JSON Schema for editors is made of them, and the interpreter calls
what stands here.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from conformance.scenario.shapes import Key, Shape, Table

if TYPE_CHECKING:
    from conformance.scenario.stage import Stage
    from conformance.scenario.watching import Met, Missed

Given = Mapping[str, Any]
"""The arguments of a step, names filled in."""
Perform = Callable[["Stage", Given], Awaitable[None]]
Look = Callable[["Stage", Given, float], Awaitable["Met | Missed"]]


@dataclass(frozen=True, slots=True)
class Verb:
    """What a step can do. `perform` raises one of the stops of `conformance.scenario.stops` where the scenario cannot
    go on."""

    name: str
    says: str
    table: Table
    perform: Perform


@dataclass(frozen=True, slots=True)
class Condition:
    """What a step can wait for or demand. `shape` is what stands behind its name; `look` returns once it is met, or
    cannot be any more, or the seconds that it was given are over."""

    name: str
    says: str
    shape: Shape
    look: Look
    waits: bool  # whether `wait` knows it too; the others are decided at once and stand in `require` only


VERBS: Final[dict[str, Verb]] = {}
CONDITIONS: Final[dict[str, Condition]] = {}

LATER: Final = ("expect-request", "respond", "update", "state", "withhold")
"""Verbs of the agent's side, for a client under test."""


def verb(
    name: str, says: str, keys: Mapping[str, Key], *, short: str | None = None, one_of: tuple[str, ...] = ()
) -> Callable[[Perform], Perform]:
    """Enters the decorated function into the table of verbs."""

    def enter(perform: Perform) -> Perform:
        if name in VERBS:
            raise ValueError(f"the verb {name!r} is there already")
        VERBS[name] = Verb(name, says, Table(name, keys, short, one_of), perform)
        return perform

    return enter


def condition(name: str, says: str, shape: Shape, *, waits: bool = True) -> Callable[[Look], Look]:
    """Enters the decorated function into the table of conditions."""

    def enter(look: Look) -> Look:
        if name in CONDITIONS:
            raise ValueError(f"the condition {name!r} is there already")
        CONDITIONS[name] = Condition(name, says, shape, look, waits)
        return look

    return enter
