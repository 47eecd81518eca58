"""Makes a sequence that shows a failure as small as it can be: steps first, then what the steps say, then delays.

Knows sequences and a question, `shows`, which plays one on a fresh process. Whatever was asked once is remembered. It
ends: when nothing smaller shows the failure any more, or when the time is up.
"""

import asyncio
import copy
import itertools
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from conformance.fuzz.moves import DELAYED
from conformance.fuzz.repairing import renamed, repaired
from conformance.fuzz.writing import Steps

SECONDS: Final = 60.0
Shows = Callable[[Steps], Awaitable[bool]]
_SIDE_BY_SIDE: Final = 3
_SLOW: Final = 500  # milliseconds of delays: trying it is mostly waiting, and twice as many can do that
_KEPT: Final = frozenset({"by", "in", "as", "of", "trigger", "method", "response", "message", "model-request"})
_DELAYS: Final = (25, 100)  # milliseconds in the place of a demand
_A_MOMENT: Final = 5  # milliseconds, what a step takes
_LONG: Final = 1_100  # milliseconds, after which what was sent before has been met
_FEW: Final = 10  # steps
_SIMPLER: Final[tuple[Any, ...]] = (None, {}, [], "", 0)


@dataclass(slots=True)
class Shrinking:
    """One run of it. `gave_up` is true where time ended it."""

    shows: Shows
    seconds: float = SECONDS
    asked: dict[str, bool] = field(default_factory=dict)
    gave_up: bool = False
    trail: list[Steps] = field(default_factory=list)  # each that was smaller than the one before it
    _deadline: float = 0.0

    async def smallest(self, steps: Steps) -> Steps:
        """The smallest sequence found, `steps` itself at worst."""
        self._deadline = time.monotonic() + self.seconds
        best = steps
        while not self.gave_up:
            before = json.dumps(best)
            best = await self._simpler(best, _without_a_kind)
            best = await self._simpler(best, _in_one_session)
            best = await self._fewer_steps(best)
            best = await self._simpler(best, _simpler_steps)
            best = await self._simpler(best, _shorter_delays)
            best = await self._simpler(best, _delays_for_demands)
            if json.dumps(best) == before:  # now what costs more
                best = await self._simpler(best, _without_two, is_last=True)
            if json.dumps(best) == before:
                best = await self._simpler(best, _a_delay_for_a_step, is_last=True)
            if json.dumps(best) == before:
                break
        return best

    async def _fewer_steps(self, best: Steps) -> Steps:
        """Leaves out runs of steps, the longest first, from the end."""
        length = max(1, (len(best) - 1) // 2)
        while length:
            places = list(range(len(best) - length, 0, -max(1, length // 2)))
            while places:
                few = _side_by_side(best)
                tried, places = places[:few], places[few:]
                found = await self._first([repaired(best[:at] + best[at + length :]) for at in tried], best)
                if found is not None:
                    place, best = min(tried[found[0]], len(found[1]) - length), found[1]
                    places = list(range(place, 0, -max(1, length // 2)))
            length //= 2
        return best

    async def _simpler(
        self, best: Steps, simpler: Callable[[Steps], Iterator[Steps]], *, is_last: bool = False
    ) -> Steps:
        """The first of the candidates that still shows the failure, and so on from that one, unless `is_last`."""
        waiting = simpler(best)
        while tried := list(itertools.islice(waiting, _side_by_side(best))):
            found = await self._first(tried, best)
            if found is not None:
                best = found[1]
                waiting = simpler(best)
            if self.gave_up or (is_last and found is not None):
                break
        return best

    async def _first(self, candidates: list[Steps], best: Steps) -> tuple[int, Steps] | None:
        """The first of the candidates, tried side by side, that still shows the failure, with its place."""
        holds = await asyncio.gather(*(self._holds(candidate, best) for candidate in candidates))
        if True not in holds:
            return None
        place = holds.index(True)
        self.trail.append(candidates[place])
        return place, candidates[place]

    async def _holds(self, candidate: Steps, best: Steps) -> bool:
        """Whether the candidate is smaller and still shows the failure."""
        if self.gave_up or time.monotonic() > self._deadline:
            self.gave_up = True
            return False
        key = json.dumps(candidate)
        if not candidate or len(key) >= len(json.dumps(best)):
            return False
        if key not in self.asked:
            self.asked[key] = await self.shows(candidate)
        return self.asked[key]


def _side_by_side(steps: Steps) -> int:
    given = [given for step in steps for given in step.values() if isinstance(given, dict)]
    return _SIDE_BY_SIDE * (2 if sum(each.get("after", 0) for each in given) >= _SLOW else 1)


def _without_a_kind(steps: Steps) -> Iterator[Steps]:
    """Each sequence without all that a session or a client does, or all that one verb does."""
    kinds: dict[tuple[str, str], int] = {}
    for step in steps[1:]:
        for kind in _kinds(step):
            kinds[kind] = kinds.get(kind, 0) + 1
    for kind in sorted(kinds, key=lambda kind: -kinds[kind]):
        yield repaired([step for place, step in enumerate(steps) if not place or kind not in _kinds(step)])


def _kinds(step: dict[str, Any]) -> list[tuple[str, str]]:
    ((verb, given),) = step.items()
    named = [(key, given[key]) for key in ("by", "in") if isinstance(given, dict) and isinstance(given.get(key), str)]
    made = [("in", given["as"])] if verb == "new-session" else []
    return [("verb", verb), *named, *made]


def _in_one_session(steps: Steps) -> Iterator[Steps]:
    """Each sequence in which what one session does is done in another one that is there before it."""
    made = [step["new-session"]["as"] for step in steps if "new-session" in step]
    for earlier, later in itertools.combinations(made, 2):
        others = [step for step in steps if step.get("new-session", {}).get("as") != later]
        yield repaired([renamed(step, partial(_one_for_another, earlier, later)) for step in others])


def _one_for_another(one: str, another: str, name: str) -> str:
    return one if name == another else name


def _simpler_steps(steps: Steps) -> Iterator[Steps]:
    """Each sequence in which one step says less; delays stay."""
    for place, step in enumerate(steps):
        ((verb, given),) = step.items()
        if not isinstance(given, dict):
            continue
        for simpler in _simpler_tables(given):
            yield [*steps[:place], {verb: simpler}, *steps[place + 1 :]]


def _simpler_tables(given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for key, value in given.items():
        if key in ("after", "delay"):
            continue
        if key not in _KEPT:
            yield {name: item for name, item in given.items() if name != key}
        if key == "params" or key == "json" or key == "blocks":
            for simpler in _simpler_values(value):
                yield {**given, key: simpler}
        elif key in ("text", "base64", "say") and isinstance(value, str) and len(value) > 4:
            for half in (value[: len(value) // 2], value[len(value) // 2 :]):
                if key != "base64" or len(half) % 4 == 0:
                    yield {**given, key: half}
        elif key in ("times", "fill", "torn") and isinstance(value, int) and value > 1:
            yield {**given, key: value // 2}


def _simpler_values(value: Any) -> Iterator[Any]:
    """A value with one part of it left out or made simple, the greatest parts first."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            smaller = copy.copy(value)
            del smaller[key]
            yield smaller
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            for simpler in _simpler_values(value[key]):
                smaller = copy.copy(value)
                smaller[key] = simpler
                yield smaller
    elif isinstance(value, str) and len(value) > 8 and not value.startswith("{"):
        yield value[: len(value) // 2]
    if isinstance(value, dict | list | str | float) and value:
        yield from (simple for simple in _SIMPLER if len(json.dumps(simple)) < len(json.dumps(value)))


def _shorter_delays(steps: Steps) -> Iterator[Steps]:
    """Each sequence with one delay less, or half of it."""
    for place, step in enumerate(steps):
        ((verb, given),) = step.items()
        for key in ("after", "delay"):
            if isinstance(given, dict) and given.get(key):
                without = {name: item for name, item in given.items() if name != key}
                yield [*steps[:place], {verb: without}, *steps[place + 1 :]]
                if isinstance(given[key], int) and given[key] > 9:
                    yield [*steps[:place], {verb: {**given, key: given[key] // 10}}, *steps[place + 1 :]]


def _delays_for_demands(steps: Steps) -> Iterator[Steps]:
    """Each sequence with a delay before a step where a demand was: what was waited for comes in that time, too."""
    for place, (demand, step) in enumerate(itertools.pairwise(steps)):
        if "require" in demand and _can_wait(step):
            for delay in _DELAYS:
                yield [*steps[:place], _later(step, delay), *steps[place + 2 :]]


def _without_two(steps: Steps) -> Iterator[Steps]:
    """Each sequence without two of its steps, where they are few: neither can go alone."""
    if len(steps) <= _FEW:
        for first, second in itertools.combinations(range(len(steps) - 1, 0, -1), 2):
            yield repaired([step for place, step in enumerate(steps) if place not in (first, second)])


def _a_delay_for_a_step(steps: Steps) -> Iterator[Steps]:
    """Each sequence with one step less, and the next one later by what it took, or more; or a long delay before any
    later one, or the one before it: what an answer in between would prove, time does, too."""
    if len(steps) <= _FEW:
        for place in range(len(steps) - 2, 0, -1):
            if _can_wait(steps[place + 1]):
                ((_, given),) = steps[place].items()
                own = given.get("after", _A_MOMENT) if isinstance(given, dict) else _A_MOMENT
                for delay in sorted({own, *_DELAYS}):
                    yield repaired([*steps[:place], _later(steps[place + 1], delay), *steps[place + 2 :]])
        pairs = [*itertools.combinations(range(len(steps) - 1, 0, -1), 2)]
        for waits, gone in [*pairs, *((place - 1, place) for place in range(len(steps) - 1, 1, -1))]:
            if _can_wait(steps[waits]):
                made = [*steps[:waits], _later(steps[waits], _LONG), *steps[waits + 1 :]]
                yield repaired([step for place, step in enumerate(made) if place != gone])


def _can_wait(step: dict[str, Any]) -> bool:
    ((verb, given),) = step.items()
    return verb in DELAYED and isinstance(given, dict)


def _later(step: dict[str, Any], delay: int) -> dict[str, Any]:
    ((verb, given),) = step.items()
    return {verb: {**given, "after": delay}}
