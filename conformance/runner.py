"""Runs scenarios on a target, several at a time, judges each history, and grows the report.

Each scenario has a folder, a scripted model and processes of its own, and all of that is gone when it has ended.
A run that is interrupted ends in order: what was recorded until then is judged and reported.
"""

import asyncio
import random
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from conformance.history import History, Recorder, Redactor, controls
from conformance.interrupts import interruptible
from conformance.model import ScriptedModel
from conformance.peers.family import end_the_living
from conformance.profile import Profile, as_server, redactor_of
from conformance.report import Report, RunEvent, RunStarted, ScenarioResult, ScenarioStarted, Target
from conformance.report.build import ReportBuilder
from conformance.report.problems import bug
from conformance.resources import folder
from conformance.rules import RULES, Judgement, Rule, judge
from conformance.scenario.files import ENDINGS
from conformance.scenario.interpreter import Played, not_applicable, play
from conformance.scenario.lives import Lives, setting_of
from conformance.scenario.loader import load, load_all
from conformance.scenario.model import Scenario
from conformance.scenario.setting import Setting
from conformance.scenario.spelling import did_you_mean

TRANSCRIPTS: Final = "transcripts"
_MOST_LEAVING: Final = 4  # scenarios of one worker whose agents are on their way out
_MOST_UNANSWERED: Final = 2  # scenarios in which not even `initialize` was answered, before no more are started so

Sink = Callable[[RunEvent], None]


class UsageProblem(Exception):
    """The run was asked for something that is not there. Says what, and what is near it."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to run and how. `scenarios` and `rules` are globs (a scenario also the path of a file), empty for all;
    `patience` in seconds, None for the profile's; `report` the folder of the report, None to write nothing;
    `arguments` the options of the command line that chose the target, for the commands that run a scenario again."""

    scenarios: Sequence[str] = ()
    rules: Sequence[str] = ()
    jobs: int = 2
    seed: int | None = None
    patience: float | None = None
    report: Path | None = None
    arguments: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Ran:
    """A run that has ended. `was_interrupted`: before all its scenarios had run."""

    report: Report
    was_interrupted: bool = False


def choose(options: Options) -> list[Scenario]:
    """The scenarios that the options name, in order of their ids. Raises UsageProblem, ScenarioError."""
    known = {scenario.id: scenario for scenario in load_all(folder("scenarios"))}
    chosen: dict[str, Scenario] = {}
    for glob in options.scenarios:
        if glob.endswith(ENDINGS) and (path := Path(glob)).is_file():
            scenario = next((own for own in known.values() if own.path.resolve() == path.resolve()), None)
            scenario = scenario or load(path, glob, rules=RULES)
            chosen[scenario.id] = scenario
            continue
        if glob.endswith(ENDINGS):
            raise UsageProblem(f"--scenario {glob}: there is no such file")
        found = {id: scenario for id, scenario in known.items() if fnmatchcase(id, glob)}
        if not found:
            raise UsageProblem(f'--scenario: no scenario matches "{glob}"{did_you_mean(glob, known, "scenarios")}')
        chosen |= found
    if not options.scenarios:
        chosen = known
    return _of_rules(list(chosen.values()), options.rules)


def _of_rules(scenarios: list[Scenario], globs: Sequence[str]) -> list[Scenario]:
    """Those of the scenarios that are meant to exercise a rule that a glob matches; all of them where there is no
    glob."""
    if not globs:
        return sorted(scenarios, key=lambda scenario: scenario.id)
    wanted: set[str] = set()
    for glob in globs:
        found = {id for id in RULES if fnmatchcase(id, glob)}
        if not found:
            raise UsageProblem(f'--rule: no rule matches "{glob}"{did_you_mean(glob, RULES, "rules")}')
        wanted |= found
    chosen = [scenario for scenario in scenarios if wanted & set(scenario.exercises)]
    if not chosen:
        raise UsageProblem(f"--rule: none of the chosen scenarios exercises {', '.join(sorted(wanted))}")
    return sorted(chosen, key=lambda scenario: scenario.id)


def run_blocking(profile: Profile, target: Target, options: Options, sink: Sink) -> Ran:
    """`run` in an event loop of its own; Ctrl-C, TERM and HUP interrupt it in order."""

    async def interrupted() -> Ran:
        task = asyncio.current_task()
        assert task is not None
        with interruptible(task):
            return await run(profile, target, options, sink)

    return asyncio.run(interrupted())


async def run(profile: Profile, target: Target, options: Options, sink: Sink) -> Ran:
    """Runs the chosen scenarios; every event goes to `sink`. Raises UsageProblem, ScenarioError before anything is
    started."""
    scenarios = choose(options)
    started = RunStarted(
        target,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=options.seed if options.seed is not None else random.randrange(1, 1_000_000),
        scenarios=tuple(scenario.id for scenario in scenarios),
        arguments=tuple(options.arguments),
        folder=options.report,
    )
    return await _Run(profile, options, started, scenarios, sink).ran()


@dataclass(slots=True)
class _Run:
    profile: Profile
    options: Options
    started: RunStarted
    scenarios: list[Scenario]
    sink: Sink
    builder: ReportBuilder = field(init=False)
    redactor: Redactor = field(init=False)
    unanswered: list[str] = field(default_factory=list)
    unserved: list[str] = field(default_factory=list)  # the same for the agent as a server, where it is also a process

    async def ran(self) -> Ran:
        self.redactor = redactor_of(self.profile)
        self.builder = ReportBuilder(self.started, _rules_of("agent"), redactor=self.redactor)
        began = time.monotonic()
        self.sink(self.builder.started)
        waiting = deque(self.scenarios)
        workers = [
            asyncio.create_task(self._work(waiting)) for _ in range(max(1, min(self.options.jobs, len(waiting))))
        ]
        was_interrupted = False
        limit = self._limit()
        try:
            _, running = await asyncio.wait(workers, timeout=limit)
            if running:
                end_the_living()
                why = f"the run took longer than {limit:g} s and was stopped there; give it more with [limits] run"
                await self._stop(workers, waiting, why)
        except asyncio.CancelledError:
            was_interrupted = True
            await self._stop(workers, waiting, "interrupted")
        finally:
            for worker in workers:
                worker.cancel()
        for worker in workers:
            if not worker.cancelled() and (error := worker.exception()) is not None:
                self.builder.problem(bug("the run", error))
        finished = self.builder.finish(time.monotonic() - began)
        self.sink(finished)
        return Ran(finished.report, was_interrupted)

    def _limit(self) -> float:
        """Seconds for the whole run; they grow with the patience, as all that is awaited does."""
        limits, patience = self.profile.limits, self.options.patience
        return limits.run * max(1.0, patience / limits.patience if patience is not None else 1.0)

    async def _stop(self, workers: list[asyncio.Task[None]], waiting: deque[Scenario], why: str) -> None:
        """Ends the scenarios that run; what they recorded is judged. The others are not started."""
        left = len(waiting)
        waiting.clear()
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        self.builder.problem(f"{why}: {left} of {len(self.scenarios)} scenarios were not started")

    async def _work(self, waiting: deque[Scenario]) -> None:
        """Plays one scenario after the other. The next one begins when the last has done all but end its agents: some
        take seconds to exit, and cost nothing meanwhile."""
        leaving: set[asyncio.Task[None]] = set()
        try:
            while waiting:
                is_done = asyncio.Event()
                leaving.add(asyncio.create_task(self._one(waiting.popleft(), is_done)))
                await is_done.wait()
                if len(leaving) > _MOST_LEAVING:
                    ended, leaving = await asyncio.wait(leaving, return_when=asyncio.FIRST_COMPLETED)
                    await asyncio.gather(*ended)
                if len(self.unanswered) >= _MOST_UNANSWERED and waiting:
                    left = len(waiting)
                    waiting.clear()
                    why = f"the agent did not answer in {len(self.unanswered)} others"
                    self.builder.problem(f"{left} scenarios were not started, since {why}")
            await asyncio.gather(*leaving)
        finally:
            for task in leaving:
                task.cancel()
            await asyncio.gather(*leaving, return_exceptions=True)

    async def _one(self, scenario: Scenario, is_done: asyncio.Event) -> None:
        """Plays one scenario; sets `is_done` when all that is left is the end of its agents, at the latest when it
        returns."""
        try:
            await self._prepared(scenario, is_done)
        finally:
            is_done.set()

    async def _prepared(self, scenario: Scenario, is_done: asyncio.Event) -> None:
        self.sink(ScenarioStarted(scenario.id, scenario.title))
        began = time.monotonic()
        workdir = Path(tempfile.mkdtemp(prefix="acp-conformance-")).resolve()
        try:
            profile, setting, why = self._fitting(scenario, workdir)
            if why is not None:
                self._report(scenario, Played("not-applicable", why), None, None, 0.0)
                return
            await self._play(scenario, profile, setting, began, is_done)
        finally:
            await asyncio.to_thread(shutil.rmtree, workdir, ignore_errors=True)

    def _fitting(self, scenario: Scenario, workdir: Path) -> tuple[Profile, Setting, str | None]:
        """The agent as it is, or as a server where only that gives what the scenario needs; and why neither does."""
        tried = []
        for profile in (self.profile, as_server(self.profile)):
            if profile is not None:
                setting = setting_of(profile, workdir=workdir, seed=self.started.seed, patience=self.options.patience)
                tried.append((profile, setting, not_applicable(scenario, setting)))
                if tried[-1][2] is None:
                    break
        profile, setting, why = tried[-1]
        if why is not None:
            return tried[0]
        if profile is not self.profile and len(self.unserved) >= _MOST_UNANSWERED:
            return profile, setting, f"the [agent] server did not answer in {', '.join(self.unserved)}"
        return profile, setting, None

    async def _play(
        self, scenario: Scenario, profile: Profile, setting: Setting, began: float, is_done: asyncio.Event
    ) -> None:
        path = self.options.report / TRANSCRIPTS / scenario.transcript if self.options.report is not None else None
        header = {"scenario": scenario.id, "seed": self.started.seed}
        recorder = Recorder(path, header, redactor=self.redactor)
        model = _model(self.profile, recorder)
        lives: Lives | None = None
        played = Played("completed", "interrupted")
        try:
            if model is not None:
                await model.start()
            lives = Lives(profile, recorder, setting, model)
            played = await play(scenario, setting, recorder, lives, model, is_done)
        except Exception as error:  # whatever it is, what was recorded is judged, and the other scenarios run
            played = Played("broken", bug("the scenario", error))
        finally:
            if lives is not None:
                await lives.end()
            if model is not None:
                await model.stop()
            recorder.close()
            judgement = self._judged(scenario, recorder.history)
            if played.unanswered:
                self._tell_unanswered(scenario, is_server=profile is not self.profile)
            self._report(scenario, with_limits(played, recorder.history), judgement, path, time.monotonic() - began)
            for flaw in recorder.history.flaws:
                self.builder.problem(flaw)

    def _tell_unanswered(self, scenario: Scenario, *, is_server: bool) -> None:
        if not is_server:
            self.unanswered.append(scenario.id)
            return
        self.unserved.append(scenario.id)
        if len(self.unserved) == _MOST_UNANSWERED:
            named = " and ".join(self.unserved)
            self.builder.problem(f"the [agent] server did not answer in {named}: the rest is run without it")

    def _judged(self, scenario: Scenario, history: History) -> Judgement | None:
        try:
            return judge(history, _rules_of("agent"))
        except Exception as error:  # the recording is kept: a mended suite can `check` it
            self.builder.problem(bug(f"judging {scenario.id}", error))
            return None

    def _report(
        self, scenario: Scenario, played: Played, judgement: Judgement | None, path: Path | None, seconds: float
    ) -> None:
        answer = played.answer or {}
        info, capabilities = answer.get("info"), answer.get("capabilities")
        result = ScenarioResult(
            id=scenario.id,
            title=scenario.title,
            status=played.status,
            reason=played.reason,
            seconds=seconds,
            transcript=f"{TRANSCRIPTS}/{path.name}" if path is not None else None,
            stderr=played.stderr,
        )
        finished = self.builder.add(
            result,
            judgement,
            exercises=scenario.exercises,
            info=info if isinstance(info, dict) else None,
            capabilities=capabilities if isinstance(capabilities, dict) else None,
        )
        self.sink(finished)


_ENDING: Final = ("max-output", "max-events", "max-values", "max-memory", "max-processes")


def with_limits(played: Played, history: History) -> Played:
    """The outcome with each limit that was reached told. An agent that a limit ended could not be tested to the end."""
    reached: dict[str, Any] = {}
    for event in history:
        if event.name == controls.LIMIT and event.control is not None:
            reached.setdefault(str(event.control.get("limit")), event.control.get("value"))
    if not reached:
        return played
    ending = [name for name in reached if name in _ENDING]
    told = "; ".join(
        f"limit {name} of {value:,} reached: {'the agent was ended' if name in ending else 'what passed it was cut'}"
        for name, value in reached.items()
    )
    status = "broken" if ending and played.status == "completed" else played.status
    return replace(played, status=status, reason="; ".join(filter(None, (told, played.reason))))


def _model(profile: Profile, recorder: Recorder) -> ScriptedModel | None:
    """The scripted model that the agent of the profile is led to; None where it is led to none."""
    return ScriptedModel(recorder, tool_arguments=profile.model.tool_arguments) if profile.model is not None else None


def _rules_of(party: str) -> list[Rule]:
    return [rule for rule in RULES.values() if rule.party == party]
