"""Tries whether a sequence shows a failure: on a fresh process, as `run` plays it, or on one that has served others.

A fresh process is the judge, and starting it is most of the cost. One that lives serves dozens of tries in that time:
enough to learn what may be left out, as long as a fresh one is asked in the end.
"""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from conformance.fuzz.findings import needs_of
from conformance.fuzz.live import Live
from conformance.fuzz.memory import children, rounds
from conformance.fuzz.playing import Ran, on_fresh, on_live
from conformance.fuzz.verdicts import LEFTOVER, MEMORY, Signature, decided, findings
from conformance.fuzz.writing import NotWritable, Steps, scenario_of
from conformance.peers import AgentDidNotStart
from conformance.profile import Profile
from conformance.rules import Finding, Judgement, Rule
from conformance.scenario.errors import ScenarioError
from conformance.scenario.model import Scenario
from conformance.scenario.stops import Stop

_HASTE: Final = 0.5  # seconds to exit in, for an agent that is tried again and again
_QUIET: Final = 0.05  # seconds of silence at the end of a try
_SERVES: Final = 200  # tries


@dataclass(frozen=True, slots=True)
class Shown:
    """A run that showed the failure."""

    ran: Ran
    judgement: Judgement
    finding: Finding


@dataclass(frozen=True, slots=True)
class Trial:
    """What is looked for: `signature` under these rules, on this agent."""

    profile: Profile
    rules: list[Rule]
    seed: int
    signature: Signature

    async def fresh(
        self, steps: Steps, patience: float, *, path: Path | None = None, id: str = "fuzz/candidate", brief: bool = True
    ) -> Shown | None:
        """On a process of its own; the transcript goes to `path`. `brief`: an agent that does not end is ended soon."""
        scenario = _scenario(steps, id)
        if scenario is None:
            return None
        profile = self._hasty if brief else self.profile
        if self.signature == MEMORY:
            ran = await rounds(profile, scenario, seed=self.seed, patience=patience)
        else:
            ran = await on_fresh(profile, scenario, seed=self.seed, patience=patience, path=path)
        return self.shown(ran)

    async def on(self, live: Live, steps: Steps, patience: float) -> bool:
        """Whether a process that has served others shows it. One that it leaves behind can be counted there at once."""
        scenario = _scenario(steps, "fuzz/candidate")
        if scenario is None:
            return False
        before = children(live)
        ran = await on_live(live, scenario, patience=patience, quiet_window=_QUIET, is_strict=True)
        if self.signature == LEFTOVER:
            return not live.is_spent and children(live) > before
        return self.shown(ran) is not None

    def shown(self, ran: Ran) -> Shown | None:
        judgement = decided(ran.history, self.rules)
        found = next((f for own, f in findings(judgement, ran.history) if own == self.signature), None)
        return Shown(ran, judgement, found) if found is not None else None

    @property
    def _hasty(self) -> Profile:
        limits = self.profile.limits
        return replace(self.profile, limits=replace(limits, grace=min(limits.grace, _HASTE)))


class Bench:
    """Processes on which one sequence after another is tried, several side by side.

    async with Bench(trial, patience) as bench:
        is_shown = await bench.shows(steps)
    """

    def __init__(self, trial: Trial, patience: float) -> None:
        self._trial, self._patience = trial, patience
        self._idle: list[Live] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ending = [live.end() for live in self._idle]
        self._idle.clear()
        await asyncio.shield(asyncio.gather(*ending, return_exceptions=True))

    async def shows(self, steps: Steps) -> bool:
        live = await self._taken()
        if live is None:
            return False
        try:
            return await self._trial.on(live, steps, self._patience)
        finally:
            self._idle.append(live)

    async def _taken(self) -> Live | None:
        while self._idle:
            live = self._idle.pop()
            if not live.is_spent and live.served < _SERVES:
                return live
            await asyncio.shield(live.end())
        trial = self._trial
        try:
            return await Live.begin(trial._hasty, seed=trial.seed, patience=self._patience)
        except (AgentDidNotStart, Stop):
            return None


def _scenario(steps: Steps, id: str) -> Scenario | None:
    try:
        return scenario_of(steps, id, needs=needs_of(steps))
    except (ScenarioError, NotWritable):
        return None
