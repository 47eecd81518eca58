"""What a campaign is asked for, what it stands on, and how far it is. Data only."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from conformance.fuzz.findings import Failure
from conformance.fuzz.moves import sequence_layer
from conformance.fuzz.traffic import bytes_layer, envelope_layer, params_layer
from conformance.fuzz.trying import Shown
from conformance.fuzz.verdicts import Signature
from conformance.fuzz.world import World
from conformance.fuzz.writing import Steps
from conformance.profile import Profile
from conformance.rules import Outcome

LAYERS: Final[dict[str, Callable[[Random, World], Steps]]] = {
    "bytes": bytes_layer,
    "envelope": envelope_layer,
    "params": params_layer,
    "sequence": sequence_layer,
}
_MOST_FALSE_STARTS: Final = 3


@dataclass(frozen=True, slots=True)
class Options:
    """`budget` and `patience` in seconds; `patience` None for the profile's. `enough` is how many failures end the
    campaign early. `folder` holds the corpus, the failures and the report; None to keep nothing."""

    budget: float = 60.0
    seed: int = 0
    jobs: int = 2
    layers: Sequence[str] = tuple(LAYERS)
    patience: float | None = None
    strict: bool = False
    enough: int | None = None
    folder: Path | None = None


@dataclass(slots=True)
class Progress:
    """How far a campaign is. `unconfirmed` are suspicions that no fresh process showed."""

    began: float = field(default_factory=time.monotonic)
    sequences: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    agents: int = 0
    failures: list[Failure] = field(default_factory=list)
    shown: dict[int, Shown] = field(default_factory=dict)
    looking: int = 0  # suspicions that are being looked into
    found: dict[Signature, float] = field(default_factory=dict)  # seconds until a fresh process had shown it
    unconfirmed: dict[Signature, str] = field(default_factory=dict)
    left: dict[Signature, str] = field(default_factory=dict)  # suspicions that came when there was no time any more
    tries: Counter[Signature] = field(default_factory=Counter)  # of suspicions that were not confirmed
    mended: list[Failure] = field(default_factory=list)
    outcomes: dict[str, dict[str, Outcome]] = field(default_factory=dict)
    investigated: set[Signature] = field(default_factory=set)
    problem: str = ""
    note: str = ""  # what was left out, and why
    unusable: int = 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


@dataclass(slots=True)
class Ground:
    """One of the ways in which the agent is reached. `world` is known once it has answered; `false_starts` counts those
    in a row."""

    profile: Profile
    is_served: bool = False
    world: World | None = None
    false_starts: int = 0

    @property
    def is_usable(self) -> bool:
        return self.false_starts < (_MOST_FALSE_STARTS if self.world is not None else 1)


@dataclass(frozen=True, slots=True)
class Made:
    """A sequence that was played: its number, where it came from, and those of its steps whose situation arose.
    `before` are the steps of the sequences that the process served last, the earliest first."""

    number: int
    origin: str
    steps: Steps
    ground: Ground
    before: tuple[Steps, ...] = ()
