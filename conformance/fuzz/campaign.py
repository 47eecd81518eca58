"""A campaign: sequences are made, played on live agents, judged; what looks wrong is investigated; until the budget is
spent or someone stops it.

Several agents are kept at once; all share what was learned. An agent that can also be a server is tried as both. The
sequence of number N of a seed is always the same, unless it was made by changing one of the corpus: then it is what it
is as long as the agent reacts as it did.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Final

from conformance.fuzz import findings as failures_
from conformance.fuzz.corpus import Corpus, changed
from conformance.fuzz.findings import Failure, keep
from conformance.fuzz.investigating import Confirmed, Investigation
from conformance.fuzz.live import FADING, Live
from conformance.fuzz.memory import children, resident
from conformance.fuzz.playing import Ran, on_live
from conformance.fuzz.progress import LAYERS, Ground, Made, Options, Progress
from conformance.fuzz.repairing import joined
from conformance.fuzz.situations import triples
from conformance.fuzz.verdicts import LEFTOVER, MEMORY, Signature, decided, findings, is_of_patience, rules
from conformance.fuzz.world import World, world_of
from conformance.fuzz.writing import NotWritable, Steps, scenario_of
from conformance.peers import AgentDidNotStart
from conformance.profile import Profile, as_server, redactor_of
from conformance.rules import Outcome
from conformance.scenario.errors import ScenarioError
from conformance.scenario.stops import Stop

_SERVED: Final = 0.12  # of the sequences are played by the agent as a server, where it can be one
_WEIGHTS: Final = {"bytes": 1, "envelope": 2, "params": 3, "sequence": 8}
_CHANGED: Final = 0.5  # of the sequences are made from earlier ones
_QUIET: Final = 0.3  # of the sequences end with a quiet window
_MOST_OF_A_RULE: Final = 4  # failures that are told of one rule
_MOST_TRIES: Final = 3  # to confirm one suspicion, each from another sequence
_ANY_NUMBER: Final = 10**9  # of steps
_MOST_RACES: Final = 3  # sequences that show a failure now and then, before one of them is made smaller
_LONGEST_WAIT: Final = 10.0  # seconds for as many of them
_LEAST_PATIENCE: Final = 1.5  # seconds
_UNKNOWN: Final = 0.5  # seconds of an answer, until the agent has shown how quick it is
_PACES: Final = 10  # of the slowest answer of late: a patience that suffices while many sequences are tried


class Campaign:
    """Run it once with `run`. `told` is called whenever something has changed."""

    def __init__(self, profile: Profile, options: Options, told: Callable[["Campaign"], None]) -> None:
        self.profile, self.options, self._told = profile, options, told
        self.rules = rules(strict=options.strict)
        self.corpus = Corpus()
        self.progress = Progress()
        server = as_server(profile)
        self._own = Ground(profile)
        self._server = Ground(server, is_served=True) if server is not None else None
        self.answer: dict[str, object] = {}
        self._numbers = itertools.count(1)
        self._failure_numbers = itertools.count(1)
        self._pace = min(self.patience / _PACES, _UNKNOWN)
        self._least = _LEAST_PATIENCE
        self._shortest: dict[Signature, int] = {}  # steps of the sequences that did not confirm it
        self._races: dict[Signature, list[tuple[Confirmed, Made]]] = {}
        self._investigating = asyncio.Semaphore(max(1, options.jobs // 4))
        self._telling = 0  # failures that are being made small
        self._wanted = asyncio.Event()  # more of them are
        self._wanted.set()

    @property
    def patience(self) -> float:
        """Seconds: what the agent is given where it is to be sure."""
        return self.options.patience or self.profile.limits.patience

    @property
    def brief(self) -> float:
        """Seconds: what it is given while many sequences are tried."""
        return min(self.patience, max(self._least, _PACES * self._pace))

    @property
    def is_over(self) -> bool:
        enough = self.options.enough is not None and len(self.progress.failures) >= self.options.enough
        return enough or bool(self.progress.problem) or self.progress.seconds >= self.options.budget

    async def run(self) -> bool:
        """Whether it came to its end; false where it was interrupted."""
        self._go_on_from_before()
        workers = [asyncio.create_task(self._work(), name=f"fuzz {n}") for n in range(max(1, self.options.jobs))]
        try:
            await self._look_at_known_failures()
            await asyncio.gather(*workers)
            await self._tell_races()
        except asyncio.CancelledError:
            _cancel(workers)
            await asyncio.gather(*workers, return_exceptions=True)
            return False
        finally:
            _cancel(workers)
            self.progress.left |= {signature: kept[0][1].origin for signature, kept in self._races.items()}
            self._keep()
        return True

    # -- one agent after another, one sequence after another

    async def _work(self) -> None:
        lives: dict[bool, Live] = {}
        try:
            while await self._wanted.wait() and not self.is_over:
                number = next(self._numbers)
                random = Random(f"{self.options.seed}/{number}")
                ground = self._ground(random)
                live = lives.get(ground.is_served)
                if live is None or live.is_worn or (live.is_spent and not await live.renewed()):
                    if live is not None:
                        del lives[ground.is_served]
                        await live.end()
                    live = await self._begin(ground)
                if live is not None:
                    lives[ground.is_served] = live
                    await self._one(live, ground, number, random)
        finally:
            await asyncio.shield(asyncio.gather(*(live.end() for live in lives.values())))

    def _ground(self, random: Random) -> Ground:
        is_served = random.random() < _SERVED
        return self._server if is_served and self._server is not None and self._server.is_usable else self._own

    async def _begin(self, ground: Ground) -> Live | None:
        try:
            live = await Live.begin(ground.profile, seed=self.options.seed, patience=self.patience)
        except (AgentDidNotStart, Stop) as error:
            ground.false_starts += 1
            why = getattr(error, "reason", str(error))
            if ground.is_served:
                self.progress.note = f"tried over stdin and stdout only, since as a server: {why}"
            elif not ground.is_usable:
                self.progress.problem = why
            return None
        ground.false_starts = 0
        self.progress.agents += 1
        self.answer = self.answer or dict(live.greeting.answer)
        ground.world = ground.world or world_of(live.setting, live.greeting.answer.get("capabilities") or {})
        return live

    async def _one(self, live: Live, ground: Ground, number: int, random: Random) -> None:
        assert ground.world is not None
        layer, steps = self._made(random, ground.world)
        try:
            scenario = scenario_of(steps, f"fuzz/{number}")
        except (ScenarioError, NotWritable):
            self.progress.unusable += 1
            await asyncio.sleep(0)
            return
        quiet = max(0.04, 2 * live.pace) if random.random() < _QUIET else None
        ran = await on_live(live, scenario, patience=self.brief, quiet_window=quiet)
        faded = self._pace * (1.0 if ran.is_exhausted else FADING)
        self._pace = min(max(live.pace, faded), self.patience)
        origin = f"{layer} layer, seed {self.options.seed}, sequence {number}"
        made = Made(number, origin, _met(steps, ran), ground, tuple(live.last))
        live.last.append(made.steps)
        self.corpus.note(layer, steps, triples(ran.history, ran.marks))
        if not await self._judge(layer, made, ran):
            await live.spend()  # what earlier sequences left in it is no good ground for later ones
        await self._weigh(live, made)
        if self._overdue():
            async with self._investigating:
                await self._tell_overdue()

    def _made(self, random: Random, world: World) -> tuple[str, Steps]:
        chosen = list(self.options.layers)
        layer = random.choices(chosen, [_WEIGHTS[name] for name in chosen])[0]
        if random.random() < _CHANGED and (base := self.corpus.chosen(random, layer)) is not None:
            return layer, changed(base, random, world, self.corpus.chosen(random, layer))
        return layer, LAYERS[layer](random, world)

    async def _judge(self, layer: str, made: Made, ran: Ran) -> bool:
        """Whether all that was suspected was also confirmed, or known before."""
        progress = self.progress
        judgement = decided(ran.history, self.rules)
        progress.sequences[layer] += 1
        progress.steps[layer] += len(ran.marks)
        outcomes = progress.outcomes.setdefault(layer, {})
        for id, outcome in judgement.items():
            if outcome.broken or (outcome.exercised and id not in outcomes):
                outcomes[id] = Outcome(outcome.exercised, broken=outcome.broken)
        is_sure = True
        for signature, finding in dict(findings(judgement, ran.history)).items():
            if self._is_new(signature, len(made.steps)):
                await self._investigate(signature, made)
                if signature in progress.unconfirmed:
                    is_sure = False
                    if is_of_patience(finding):
                        self._least = min(self.patience, 2 * self._least)  # it is only slow
                    if self.options.folder is not None:
                        path = self.options.folder / "transcripts" / f"unproven-{made.number}.ndjson"
                        with self._or_problem():
                            keep(ran.history, path, redactor_of(self.profile))
        self._told(self)
        return is_sure

    async def _weigh(self, live: Live, made: Made) -> None:
        """Where a process has grown a lot, the sequence with which it grew most is looked into; and one that left a
        process behind, though all its sessions are closed."""
        if live.is_spent:
            return
        before, live.children = live.children, children(live)
        if live.children > before and self._is_new(LEFTOVER):
            await self._investigate(LEFTOVER, made)
        growth = live.grown(resident(live), made)
        if growth is not None and self._is_new(MEMORY):
            await self._investigate(MEMORY, growth)

    def _is_new(self, signature: Signature, steps: int = _ANY_NUMBER) -> bool:
        """Whether it is worth a look. One that several sequences did not confirm is looked into once more where a
        shorter one shows it: less of that is chance."""
        same_rule = sum(own.rule == signature.rule for own in self.progress.investigated)
        tries = self.progress.tries[signature]
        is_worn = tries >= _MOST_TRIES and (steps >= self._shortest[signature] or tries >= 3 * _MOST_TRIES)
        is_known = signature in self.progress.investigated or is_worn
        return not is_known and same_rule < _MOST_OF_A_RULE and signature.rule not in self.profile.expect

    # -- failures

    def _investigation(self, *, is_served: bool) -> Investigation:
        ground = self._server if is_served and self._server is not None else self._own
        brief = min(self.patience, max(self._least, _PACES / 2 * self._pace))
        return Investigation(ground.profile, self.rules, self.options.seed, self.patience, brief, is_served=is_served)

    async def _investigate(self, signature: Signature, made: Made) -> None:
        self.progress.investigated.add(signature)
        self.progress.looking += 1
        try:
            async with self._investigating:  # many processes at a time would change what races show
                if self.is_over and self.progress.failures:
                    self.progress.left[signature] = made.origin
                else:
                    await self._look_into(signature, made)
                    await self._tell_overdue()  # before the next one is looked into
        finally:
            self.progress.looking -= 1

    async def _look_into(self, signature: Signature, made: Made) -> None:
        """On its own first; else together with what the process had served before, which may be the cause."""
        investigation = self._investigation(is_served=made.ground.is_served)
        confirmed = await investigation.confirmed(signature, made.steps)
        if confirmed is None and made.before and signature not in (LEFTOVER, MEMORY):
            whole = joined([*made.before, made.steps])
            confirmed = await investigation.confirmed(signature, whole, rounds=1)
            if confirmed is not None:
                made = replace(made, origin=f"{made.origin}, and those before it", steps=whole)
        if confirmed is None:
            self._unproven(signature, made)
            return
        self.progress.unconfirmed.pop(signature, None)
        self.progress.found.setdefault(signature, self.progress.seconds)
        races = self._races.setdefault(signature, [])
        races.append((confirmed, made))
        is_sure = confirmed.lives and not confirmed.is_race
        if not is_sure and len(races) < _MOST_RACES and not self.is_over:
            self.progress.investigated.discard(signature)  # a sequence that always shows it would tell more
            return
        await self._tell(signature)

    async def _tell(self, signature: Signature) -> None:
        """The failure that was confirmed: of the sequences that show it, the surest one, then what a process shows that
        has served others (trying it costs little), then the shortest. Nobody looks for more than is wanted meanwhile:
        it would only make this slower."""
        races = self._races[signature]
        confirmed, made = min(races, key=lambda each: (each[0].is_race, not each[0].lives, len(each[0].steps)))
        investigation = self._investigation(is_served=made.ground.is_served)
        with self._being_told():
            found = await investigation.told(confirmed, next(self._failure_numbers), made.origin)
        del self._races[signature]
        if found is None:
            self._unproven(signature, made)
            return
        failure, shown = found
        failure = replace(failure, found_after=round(self.progress.found[signature], 1))
        self.progress.failures.append(failure)
        self.progress.shown[failure.number] = shown
        await self._write(failure)
        self._told(self)

    @contextlib.contextmanager
    def _being_told(self) -> Iterator[None]:
        self._telling += 1
        if self.options.enough is not None and len(self.progress.failures) + self._telling >= self.options.enough:
            self._wanted.clear()
        try:
            yield
        finally:
            self._telling -= 1
            self._wanted.set()

    def _unproven(self, signature: Signature, made: Made) -> None:
        self.progress.unconfirmed[signature] = made.origin
        self.progress.tries[signature] += 1
        self._shortest[signature] = min(len(made.steps), self._shortest.get(signature, _ANY_NUMBER))
        self.progress.investigated.discard(signature)  # another sequence may show it

    async def _tell_overdue(self) -> None:
        """What was put off for too long. Each is looked up anew, for another worker may have told it."""
        while (overdue := self._overdue()) and not (self.is_over and self.progress.failures):
            self.progress.investigated.add(overdue[0])
            await self._tell(overdue[0])

    def _overdue(self) -> list[Signature]:
        found, now = self.progress.found, self.progress.seconds
        waiting = self._races.keys() - self.progress.investigated
        return [
            signature for signature in self._races if signature in waiting and now - found[signature] > _LONGEST_WAIT
        ]

    async def _tell_races(self) -> None:
        """What was put off until something surer came, and nothing did."""
        enough = self.options.enough
        for signature in list(self._races):
            if enough is None or len(self.progress.failures) < enough:
                await self._tell(signature)

    async def _write(self, failure: Failure) -> None:
        if (folder := self.options.folder) is None:
            return
        path = folder / "transcripts" / f"{failure.name}.ndjson"
        investigation = self._investigation(is_served=failure.is_served)
        if (shown := await investigation.transcribed(failure, path)) is not None:
            self.progress.shown[failure.number] = shown
        with self._or_problem():
            failures_.save(folder, [*self.progress.failures, *self.progress.mended])

    async def _look_at_known_failures(self) -> None:
        """What an earlier campaign found is looked at first: it is told again where it is still there."""
        for failure in list(self.progress.mended):
            investigation = self._investigation(is_served=failure.is_served)
            count, shown = await investigation.repeated(failure.signature, failure.steps)
            if shown is not None:
                again = replace(failure, message=shown.finding.message, shown=count)
                self.progress.mended.remove(failure)
                self.progress.failures.append(again)
                self.progress.shown[again.number] = shown
                await self._write(again)
                self._told(self)

    # -- from one campaign to the next

    def _go_on_from_before(self) -> None:
        folder = self.options.folder
        if folder is None:
            return
        self.corpus.load(folder)
        known = failures_.load(folder)
        self.progress.mended = known
        self.progress.investigated = {failure.signature for failure in known}
        self._failure_numbers = itertools.count(max((failure.number for failure in known), default=0) + 1)

    def _keep(self) -> None:
        if (folder := self.options.folder) is not None:
            with self._or_problem():
                self.corpus.save(folder)
                failures_.save(folder, [*self.progress.failures, *self.progress.mended])

    @contextlib.contextmanager
    def _or_problem(self) -> Iterator[None]:
        """What cannot be written ends the campaign, whose findings would be lost; what was found is told."""
        try:
            yield
        except OSError as error:
            where = error.filename or self.options.folder
            self.progress.problem = self.progress.problem or f"{where} could not be written: {error.strerror or error}"


def _met(steps: Steps, ran: Ran) -> Steps:
    """The steps without those whose situation did not arise: a scenario would end there."""
    return [step for place, step in enumerate(steps) if place not in ran.unmet]


def _cancel(workers: Sequence[asyncio.Task[None]]) -> None:
    """Once: a second time would cut short how they end their agents."""
    for worker in (each for each in workers if not each.cancelling()):
        worker.cancel()
