"""What a campaign has learned: how often each triple was seen, and the sequences that showed one first.

Generation steers toward the new: a sequence that showed something rare is picked more often to be changed. The corpus
is a file of one sequence a line, so that the next campaign goes on from it.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from conformance.fuzz.moves import DELAYED, DELAYS, Draft, move
from conformance.fuzz.repairing import fitting
from conformance.fuzz.situations import Triple
from conformance.fuzz.values import Values
from conformance.fuzz.world import World
from conformance.fuzz.writing import Steps

FILE: Final = "corpus.ndjson"
MOST: Final = 3_000
_LONGEST: Final = 40  # steps of a sequence
_MOST_BYTES: Final = 64 * 1024  # of a sequence in the file
_SAMPLE: Final = 8


@dataclass(slots=True)
class Entry:
    layer: str
    steps: Steps
    triples: tuple[Triple, ...] = ()


@dataclass(slots=True)
class Corpus:
    """Grows as sequences are played. `seen` counts triples."""

    entries: list[Entry] = field(default_factory=list)
    seen: Counter[Triple] = field(default_factory=Counter)

    def note(self, layer: str, steps: Steps, triples: Iterable[Triple]) -> int:
        """Counts the triples of a sequence that was played; keeps the sequence where one is new. How many were."""
        found = tuple(dict.fromkeys(triples))
        new = sum(triple not in self.seen for triple in found)
        self.seen.update(found)
        if new:
            self.entries.append(Entry(layer, steps, found))
            if len(self.entries) > MOST:
                self._forget()
        return new

    def chosen(self, random: Random, layer: str) -> Steps | None:
        """A sequence of that layer to be changed, sooner one that showed what is rarely seen."""
        candidates = random.sample(self.entries, min(len(self.entries), 4 * _SAMPLE))
        candidates = [entry for entry in candidates if entry.layer == layer][:_SAMPLE]
        return min(candidates, key=self._rarest).steps if candidates else None

    def _rarest(self, entry: Entry) -> int:
        return min((self.seen[triple] for triple in entry.triples), default=0)

    def _forget(self) -> None:
        """Drops the tenth whose rarest triple is the most common."""
        kept = sorted(self.entries, key=self._rarest)[: MOST - MOST // 10]
        alive = {id(entry) for entry in kept}
        self.entries = [entry for entry in self.entries if id(entry) in alive]

    def load(self, folder: Path) -> int:
        """Takes in what an earlier campaign left; how many sequences. Lines that cannot be read are passed over."""
        try:
            lines = (folder / FILE).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return 0
        for line in lines[-MOST:]:
            try:
                kept = json.loads(line)
                steps, layer = kept["steps"], str(kept["layer"])
            except (ValueError, TypeError, KeyError, RecursionError):
                continue
            if isinstance(steps, list) and all(isinstance(step, dict) and len(step) == 1 for step in steps):
                self.entries.append(Entry(layer, steps))
        return len(self.entries)

    def save(self, folder: Path) -> None:
        """Writes the corpus beside the report. Raises OSError."""
        lines = (json.dumps({"layer": e.layer, "steps": e.steps}, separators=(",", ":")) for e in self.entries)
        text = "".join(line + "\n" for line in lines if len(line) < _MOST_BYTES)
        (folder / FILE).write_text(text, encoding="utf-8", newline="\n")


def changed(steps: Steps, random: Random, world: World, other: Steps | None) -> Steps:
    """A sequence that differs from `steps` in a few places: a step more or less, twice, elsewhere, with another delay
    or another value; or one that goes on as `other` does."""
    made: Steps = [dict(step) for step in steps]
    for _ in range(random.choice([1, 1, 2, 3])):
        place = random.randrange(1, len(made)) if len(made) > 1 else 0
        match random.randrange(8):
            case 0 if len(made) > 3:
                del made[place]
            case 1:
                made[place : place + 1] *= random.choice([2, 2, 3, 4]) if place else 1
            case 2 if place:
                made.insert(random.randrange(1, len(made)), made.pop(place))
            case 3 if other is not None and len(other) > 2:
                made = made[: place + 1] + [dict(step) for step in other[random.randrange(2, len(other)) :]]
            case 4 | 5:
                made[place + 1 : place + 1] = _moves(made, random, world)
            case _:
                made[place] = _varied(made[place], random)
    return fitting(made[:_LONGEST], world)


def _moves(steps: Steps, random: Random, world: World) -> Steps:
    """New steps for a sequence that has begun what these began."""
    draft = Draft(random, world, steps=[])
    for step in steps:
        ((verb, given),) = step.items()
        if verb == "connect" and isinstance(given, dict) and given["as"] not in draft.clients:
            draft.clients.append(given["as"])
        elif verb == "new-session":
            draft.sessions.append(given["as"])
        elif verb in ("prompt", "command") and "as" in given:
            draft.asked.append(given["as"])
        elif verb == "resume" and "as" in given:
            draft.resumed.append(given["as"])
    for _ in range(random.choice([1, 1, 2])):
        move(draft)
    return draft.steps


def _varied(step: dict[str, Any], random: Random) -> dict[str, Any]:
    ((verb, given),) = step.items()
    if not isinstance(given, dict):
        return step
    given = dict(given)
    match verb:
        case "resume":
            given["replay"] = random.choice(["start", "none"])
        case "request" | "notify" if "params" in given:
            given["params"] = Values(random).broken(given["params"])
            return {verb: given}
        case "answer":
            key = "held" if "held" in given else "permissions"
            given[key] = random.choice(["allow", "deny", "cancel"] + (["hold"] if key == "permissions" else []))
    if verb in DELAYED:
        given.pop("after", None)
        if delay := random.choice(DELAYS):
            given["after"] = delay
    return {verb: given}
