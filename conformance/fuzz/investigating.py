"""From a suspicion to a failure: shown again on a fresh process, shrunk, and shown ten times more.

A fresh process is the judge of last resort: what only a process shows that has served other sequences is no failure.
"""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.fuzz.findings import REPEATS, Failure
from conformance.fuzz.shrinking import SECONDS, Shows, Shrinking
from conformance.fuzz.trying import Bench, Shown, Trial
from conformance.fuzz.verdicts import LEFTOVER, MEMORY, Signature, is_of_patience
from conformance.fuzz.writing import Steps
from conformance.profile import Profile
from conformance.rules import Rule

_TRIES: Final = 3  # for each smaller sequence, of what does not always show
_LOOKS: Final = 5  # with all patience, before it was only slow
_QUICK: Final = 2.0  # seconds for that many tries, the start of the process included: then a few more cost little
_LOOKING: Final = 12.0  # seconds, after which a suspicion that does not show is tried no more
_SIDE_BY_SIDE: Final = 2


@dataclass(frozen=True, slots=True)
class Confirmed:
    """What a fresh process has shown: with these steps, which need not show it each time when `is_race`. `lives`: a
    process that has served others shows it too; `is_quick`: there it costs little to try once more."""

    signature: Signature
    steps: Steps
    is_race: bool
    lives: bool
    is_quick: bool


@dataclass(frozen=True, slots=True)
class Shrunk:
    """`trail`: sequences that show the failure, each smaller than the one before; `gave_up` where time ended it."""

    trail: list[Steps]
    gave_up: bool


@dataclass(frozen=True, slots=True)
class Investigation:
    """How sequences are tried: on this agent, under these rules. `patience` in seconds is that of a first look, `brief`
    of the many after it; `seconds` is how long a failure may be shrunk; `is_served`: the profile is that of the
    agent as a server."""

    profile: Profile
    rules: list[Rule]
    seed: int
    patience: float
    brief: float
    seconds: float = SECONDS
    is_served: bool = False

    async def confirmed(self, signature: Signature, steps: Steps, *, rounds: int = REPEATS // 2) -> Confirmed | None:
        """None where no fresh process showed it in two tries a round."""
        trial = self._trial(signature)
        first = await self._first(trial, steps, rounds)
        if first is None:
            return None
        tries, steps, shown = first
        began = time.monotonic()
        sure = asyncio.create_task(self._is_more_than_slow(trial, shown, steps))
        try:
            async with Bench(trial, self.brief) as bench:
                seen = [await bench.shows(steps) for _ in range(_TRIES)]
            took = time.monotonic() - began
            if not await sure:
                return None
        finally:
            sure.cancel()
            await asyncio.gather(sure, return_exceptions=True)  # its agents end with it
        is_race = tries > 1 or not (all(seen) or not any(seen))
        if not any(seen) and not is_race:
            again = await asyncio.gather(*(trial.fresh(steps, self.brief) for _ in range(_TRIES)))
            is_race = None in again
        return Confirmed(signature, steps, is_race, any(seen), took < _QUICK)

    async def told(self, confirmed: Confirmed, number: int, origin: str) -> tuple[Failure, Shown] | None:
        """The failure, as small as it could be made, and a run that shows it; None where not one of ten runs does."""
        signature, trial = confirmed.signature, self._trial(confirmed.signature)
        shrunk = await self._shrunk(confirmed)
        ways = [confirmed.steps, *shrunk.trail]
        while ways:
            count, seen = await self.repeated(signature, ways[-1])
            if seen is not None and await self._is_more_than_slow(trial, seen, ways[-1]):
                failure = Failure(
                    number,
                    signature,
                    seen.finding.message,
                    ways[-1],
                    count,
                    REPEATS,
                    shrunk.gave_up,
                    origin,
                    self.is_served,
                )
                return failure, seen
            ways = ways[: len(ways) // 2]  # it went too far, by luck
        return None  # seen once, and then not in ten: nobody could do anything with it

    async def repeated(self, signature: Signature, steps: Steps) -> tuple[int, Shown | None]:
        """How many of ten runs show it, and one that does."""
        trial = self._trial(signature)
        seen: list[Shown] = []
        for _ in range(0, REPEATS, _SIDE_BY_SIDE):
            runs = (trial.fresh(steps, self.brief) for _ in range(_SIDE_BY_SIDE))
            seen += [shown for shown in await asyncio.gather(*runs) if shown is not None]
        return len(seen), (seen[0] if seen else None)

    async def transcribed(self, failure: Failure, path: Path) -> Shown | None:
        """Runs it until it shows, its transcript in `path`."""
        trial = self._trial(failure.signature)
        for _ in range(REPEATS):
            shown = await trial.fresh(failure.steps, self.brief, path=path, id=failure.name, brief=False)
            if shown is not None:
                return shown
        return None

    def _trial(self, signature: Signature) -> Trial:
        return Trial(self.profile, self.rules, self.seed, signature)

    async def _first(self, trial: Trial, steps: Steps, rounds: int) -> tuple[int, Steps, Shown] | None:
        """In which round of tries it showed, and with which steps: with the demands and, side by side, without, since a
        scenario ends at the first that is not met. What takes long is not tried as often."""
        plain = [step for step in steps if "require" not in step]
        ways = [steps, plain] if len(plain) < len(steps) else [steps, steps]
        rounds = 1 if trial.signature == MEMORY else rounds  # no race shows it
        deadline = time.monotonic() + _LOOKING
        for number in range(1, rounds + 1):
            looks = await asyncio.gather(*(trial.fresh(way, self.brief) for way in ways))
            for way, shown in zip(ways, looks, strict=True):
                if shown is not None:
                    return number, way, shown
            if time.monotonic() > deadline:
                break
        return None

    async def _is_more_than_slow(self, trial: Trial, shown: Shown, steps: Steps) -> bool:
        """Whether what a brief look has shown is there with all patience, too, where it is about patience: that with
        an answer, or with its processes."""
        is_left = trial.signature == LEFTOVER
        if not is_left and not is_of_patience(shown.finding):
            return True
        for _ in range(_LOOKS):
            if await trial.fresh(steps, self.patience, brief=not is_left) is not None:
                return True
        return False

    async def _shrunk(self, confirmed: Confirmed) -> Shrunk:
        """On processes that serve many tries, where those show it too. What comes of that a fresh one must show; where
        it does not, shrinking goes on with fresh ones from the smallest that they show."""
        deadline = time.monotonic() + self.seconds
        trial, is_race = self._trial(confirmed.signature), confirmed.is_race
        trail: list[Steps] = []

        async def on_fresh(candidate: Steps) -> bool:
            return await trial.fresh(candidate, self.brief) is not None

        if confirmed.lives:
            times = 1 if not confirmed.is_quick else 2 if is_race else 3
            async with Bench(trial, self.brief) as bench:
                found = await _smaller(bench.shows, confirmed.steps, self.seconds, is_race=is_race, times=times)
            shown = await last_shown(on_fresh, found.trail, is_race=is_race)
            if shown < len(found.trail) and not is_race:  # there it is one: what is small tells more than what is sure
                shown = max(shown, await last_shown(on_fresh, found.trail, is_race=True))
            if shown == len(found.trail):
                return found
            trail = found.trail[:shown]
        start = trail[-1] if trail else confirmed.steps
        more = await _smaller(on_fresh, start, deadline - time.monotonic(), is_race=is_race, times=2)
        return Shrunk([*trail, *more.trail], more.gave_up)


async def _smaller(shows: Shows, steps: Steps, seconds: float, *, is_race: bool, times: int) -> Shrunk:
    """Each smaller sequence must show it so many times, so that luck does not lead to what shows it no more."""
    tries = _TRIES if is_race else 1

    async def surely_shows(candidate: Steps) -> bool:
        return await _shows_each_time(shows, candidate, times, tries)

    shrinking = Shrinking(surely_shows, seconds)
    await shrinking.smallest(steps)
    return Shrunk(shrinking.trail, shrinking.gave_up)


async def _shows_each_time(shows: Shows, steps: Steps, times: int, tries: int) -> bool:
    """Whether it shows within so many tries, so many times in a row."""
    for _ in range(times):
        for _ in range(tries):
            if await shows(steps):
                break
        else:
            return False
    return True


async def last_shown(shows: Shows, trail: list[Steps], *, is_race: bool) -> int:
    """How far along the trail it is shown still: to the end most of the time, else as halving tells."""
    low, high = 0, len(trail)
    place = high
    while low < high:
        if await _shows_each_time(shows, trail[place - 1], *((1, _TRIES) if is_race else (2, 1))):
            low = place
        else:
            high = place - 1
        place = (low + high + 1) // 2
    return low
