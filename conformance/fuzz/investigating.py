"""From a suspicion to a failure: shown again on a fresh process, shrunk, and shown ten times more.

A fresh process is the judge of last resort: what only a process shows that has served other sequences is no failure.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.fuzz.findings import REPEATS, Failure, needs_of
from conformance.fuzz.memory import rounds
from conformance.fuzz.playing import Ran, on_fresh
from conformance.fuzz.shrinking import SECONDS, Shrinking
from conformance.fuzz.verdicts import MEMORY, Signature, decided, findings
from conformance.fuzz.writing import NotWritable, Steps, scenario_of
from conformance.profile import Profile
from conformance.rules import Finding, Judgement, Rule
from conformance.scenario.errors import ScenarioError

_TRIES_OF_A_RACE: Final = 3  # for each smaller sequence, of what did not show at once
_SIDE_BY_SIDE: Final = 2


@dataclass(frozen=True, slots=True)
class Shown:
    """A run on a fresh process that showed the failure."""

    ran: Ran
    judgement: Judgement
    finding: Finding


@dataclass(frozen=True, slots=True)
class Investigation:
    """How sequences are tried: on this agent, under these rules. `patience` in seconds is that of a first look, `brief`
    of the many after it."""

    profile: Profile
    rules: list[Rule]
    seed: int
    patience: float
    brief: float
    seconds: float = SECONDS

    async def confirmed(
        self, signature: Signature, steps: Steps, number: int, origin: str
    ) -> tuple[Failure, Shown] | None:
        """The failure, as small as it could be made, and a run that shows it; None where no fresh process showed it in
        ten tries."""
        first = await self._first(signature, steps)
        if first is None:
            return None
        tries, steps = first
        each = 1 if tries == 1 else _TRIES_OF_A_RACE

        async def shows(candidate: Steps) -> bool:
            """Twice, so that luck does not lead to what shows it no more."""
            return await self._shown(signature, candidate, each) and await self._shown(signature, candidate, each)

        shrinking = Shrinking(shows, self.seconds)
        await shrinking.smallest(steps)
        ways = [steps, *shrinking.trail]
        while True:
            smallest = ways[-1]
            count, seen = await self.repeated(signature, smallest)
            if seen is not None:
                break
            ways = ways[: len(ways) // 2]  # it went too far, by luck
            if not ways:
                return None  # seen once, and then not in ten: nobody could do anything with it
        failure = Failure(
            number,
            signature,
            seen.finding.message,
            smallest,
            count,
            REPEATS,
            shrinking.gave_up,
            origin,
        )
        return failure, seen

    async def repeated(self, signature: Signature, steps: Steps) -> tuple[int, Shown | None]:
        """How many of ten runs show it, and one that does."""
        seen: list[Shown] = []
        for _ in range(0, REPEATS, _SIDE_BY_SIDE):
            runs = (self._look(signature, steps, self.brief) for _ in range(_SIDE_BY_SIDE))
            seen += [shown for shown in await asyncio.gather(*runs) if shown is not None]
        return len(seen), (seen[0] if seen else None)

    async def transcribed(self, failure: Failure, path: Path) -> Shown | None:
        """Runs it until it shows, its transcript in `path`."""
        for _ in range(REPEATS):
            shown = await self._look(failure.signature, failure.steps, self.brief, path, failure.name)
            if shown is not None:
                return shown
        return None

    async def _first(self, signature: Signature, steps: Steps) -> tuple[int, Steps] | None:
        """In which try it showed, and with which steps: every other try leaves out the demands, since a scenario ends
        at the first that is not met."""
        plain = [step for step in steps if "require" not in step]
        for number in range(1, REPEATS + 1):
            candidate = steps if number % 2 else plain
            patience = self.patience if number <= 2 else self.brief
            if await self._look(signature, candidate, patience) is not None:
                return (number + 1) // 2, candidate
        return None

    async def _shown(self, signature: Signature, steps: Steps, tries: int) -> bool:
        for _ in range(tries):
            if await self._look(signature, steps, self.brief) is not None:
                return True
        return False

    async def _look(
        self, signature: Signature, steps: Steps, patience: float, path: Path | None = None, id: str = "fuzz/candidate"
    ) -> Shown | None:
        try:
            scenario = scenario_of(steps, id, needs=needs_of(steps))
        except (ScenarioError, NotWritable):
            return None
        if signature == MEMORY:
            ran = await rounds(self.profile, scenario, seed=self.seed, patience=patience)
        else:
            ran = await on_fresh(self.profile, scenario, seed=self.seed, patience=patience, path=path)
        judgement = decided(ran.history, self.rules)
        found = next((f for own, f in findings(judgement, ran.history) if own == signature), None)
        return Shown(ran, judgement, found) if found is not None else None
