"""What a rule is: a small function beside its statement, level, party and source, found by its public id.

    @rule("prompt.distinct-message-ids", MUST, says="...", source="...", exercised="...", proof="...", never="...")
    def distinct_message_ids(session: Session) -> Verdict:
        yield violation("...", (event, "its part in the proof"), ...)
        yield EXERCISED

A rule is called once for each thing of the conversation that its parameter's type names (the conversation itself, each
connection, session, view or submission) and yields what it finds there. It is exercised where it yields EXERCISED or a
finding, not applicable where it only yields `not_applicable(...)`, else not exercised. Ids are permanent.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal, get_type_hints

from conformance.history import Event

Party = Literal["agent", "client", "bridge"]
Level = Literal["must", "should"]
MUST: Final = "must"
SHOULD: Final = "should"


class Kind(StrEnum):
    VIOLATION = "violation"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation (proven) or a warning (suspected), with the events that show it, each with its part in the
    argument."""

    kind: Kind
    message: str
    because: tuple[tuple[Event, str], ...]


@dataclass(frozen=True, slots=True)
class Exercised:
    """The history brought about what the rule is about."""


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """The rule's premise is missing for good: a capability that the peer does not advertise, a trigger that the
    profile does not give."""

    reason: str


EXERCISED: Final = Exercised()
Verdict = Iterator[Finding | Exercised | NotApplicable]


def violation(message: str, *because: tuple[Event, str]) -> Finding:
    """A proven violation. `because` is the proof: events in order with their part in it; at least one."""
    return Finding(Kind.VIOLATION, message, because)


def warning(message: str, *because: tuple[Event, str]) -> Finding:
    """What looks wrong and cannot be proven."""
    return Finding(Kind.WARNING, message, because)


def not_applicable(reason: str) -> NotApplicable:
    return NotApplicable(reason)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the catalogue. `scope` is the type of the thing that `decide` is called with."""

    id: str
    level: Level
    party: Party
    says: str
    source: str
    exercised: str
    proof: str
    never: str
    scope: type[Any]
    decide: Callable[[Any], Verdict]

    @property
    def area(self) -> str:
        return self.id.partition(".")[0]


RULES: dict[str, Rule] = {}


def rule(
    id: str,
    level: Level,
    *,
    says: str,
    source: str,
    exercised: str,
    proof: str,
    never: str = "",
    by: Party = "agent",
) -> Callable[[Callable[[Any], Verdict]], Callable[[Any], Verdict]]:
    """Registers the decorated function. `exercised` completes "not exercised: the run did not bring about ..."."""

    def register(decide: Callable[[Any], Verdict]) -> Callable[[Any], Verdict]:
        if id in RULES:
            raise ValueError(f"the rule {id!r} is there already")
        hints = get_type_hints(decide)
        hints.pop("return", None)
        (scope,) = hints.values()
        RULES[id] = Rule(id, level, by, says, source, exercised, proof, never, scope, decide)
        return decide

    return register
