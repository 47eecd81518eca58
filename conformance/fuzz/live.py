"""One running agent that serves one sequence after another, each with a history of its own.

A sequence sees a connection of which it cannot tell that it was not begun for it: the history opens with a copy of the
`initialize` that began the process. What belongs to a session of an earlier sequence is kept out.
"""

import asyncio
import shutil
import tempfile
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from conformance.fuzz.writing import Steps
from conformance.history import Event, Recorder, controls
from conformance.history.events import Direction
from conformance.model import ScriptedModel
from conformance.peers import AgentDidNotStart, Connection, ScriptedClient
from conformance.profile import Profile
from conformance.scenario.actors import Actor
from conformance.scenario.lives import Lives, setting_of
from conformance.scenario.model import Scenario
from conformance.scenario.setting import Setting
from conformance.scenario.stage import Stage
from conformance.scenario.stops import Stop
from conformance.scenario.verbs.connections import initialized
from conformance.wire import Envelope, encode

CLIENT: Final = "ada"
"""The name of the connection that is lent."""

_REMEMBERED: Final = 3  # sequences
_LIFE: Final = 150  # sequences that one process serves
_FULL: Final = 0.5  # of what a connection may write
Made = TypeVar("Made")
FADING: Final = 0.8  # of the slowest answer, from one sequence to the next
_WARM: Final = 10  # sequences until caches are filled
_FAR_MORE: Final = 48 * 1024 * 1024  # bytes
_NOT_OURS: Final = -1  # the seq of an event that belongs to no running sequence
_START: Final = Scenario("start", Path("start"), "Start", "", (), (), ())


class Relay(Recorder):
    """Hands each event on to the history of the sequence that runs now; what belongs to none is dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.current: Recorder | None = None
        self.past: set[str] = set()  # sessions of earlier sequences
        self.lines = 0  # of both sides
        self.bytes = 0  # that the agent wrote

    def _append(
        self, conn: str, direction: Direction, envelope: Envelope | None, control: dict[str, Any] | None
    ) -> Event:
        if envelope is not None:
            self.lines += 1
            self.bytes += envelope.length if direction == "agent" else 0
        if self.current is None or (envelope is not None and self._is_past(envelope)):
            return Event(_NOT_OURS, 0.0, conn, direction, envelope, control)
        return self.current._append(conn, direction, envelope, control)

    def _is_past(self, envelope: Envelope) -> bool:
        params = envelope.message.get("params") if isinstance(envelope.message, dict) else None
        session = params.get("sessionId") if isinstance(params, dict) else None
        return isinstance(session, str) and session in self.past


class Lent(Connection):
    """A connection that is lent to one sequence."""

    def __init__(self, real: Connection, recorder: Recorder) -> None:
        self.transport = real.transport
        super().__init__(real.name, recorder, real.limits, None)
        self._real = real
        self._watch = asyncio.create_task(self._follow(), name=f"lent {real.name}")

    async def _follow(self) -> None:
        await self._real.ended.wait()
        self.ended.set()

    def give_back(self) -> None:
        """It is lent no more: whoever waits for its end has waited long enough."""
        self._watch.cancel()
        self.ended.set()

    @property
    def is_ending(self) -> bool:
        return self.ended.is_set() or self._real.is_ending

    @property
    def is_talking(self) -> bool:
        return self._real.is_talking

    @property
    def stderr_tail(self) -> str:
        return self._real.stderr_tail

    def hear(self, event: Event) -> None:
        self._tell(event)

    async def drain(self) -> None:
        await self._real.drain()

    async def catch_up(self) -> None:
        await self._real.catch_up()

    def stop_reading(self) -> None:
        super().stop_reading()
        self._real.stop_reading()

    async def close(self) -> None:
        await self._real.close()
        self.ended.set()

    async def cut(self) -> None:
        await self._real.cut()
        self.ended.set()

    def _check_writable(self) -> None:
        self._real._check_writable()

    def _put(self, data: bytes) -> None:
        self._real._put(data)

    def _overrun(self) -> None:
        """The real connection has met the limit."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """What was said when the process was started, as every sequence finds it in its history."""

    asked: Any
    answered: Envelope
    answer: dict[str, Any]
    ids: int  # the first free number


class Live:
    """A process with its model and its folder. Start it with `begin`; it is over once `is_spent`."""

    def __init__(self, profile: Profile, setting: Setting) -> None:
        self.setting = setting
        self.served = 0
        self.last: deque[Steps] = deque(maxlen=_REMEMBERED)  # the steps of the sequences that it served last
        self.pace = 0.0
        self.relay = Relay()
        self.model = ScriptedModel(self.relay) if setting.has_model else None
        self._lives = Lives(profile, self.relay, setting, self.model)
        self._profile = profile
        self._lent: Lent | None = None
        self._connection: Connection | None = None
        self.children = 0  # processes that it has started
        self.is_renewable = False  # the line was lost as a sequence wanted it, and nothing else is amiss
        self._least = self._held = 0  # bytes
        self._most: tuple[int, Any] = (0, None)
        self.greeting: Greeting

    @classmethod
    async def begin(cls, profile: Profile, *, seed: int, patience: float) -> "Live":
        """Starts the agent. Raises AgentDidNotStart, and the stops of a scenario where it does not introduce itself."""
        folder = Path(tempfile.mkdtemp(prefix="acp-conformance-")).resolve()
        setting = setting_of(profile, workdir=folder, seed=seed, patience=patience)
        live = cls(profile, setting)
        try:
            if live.model is not None:
                await live.model.start()
            await live._greet()
        except BaseException:
            await live.end()
            raise
        return live

    @property
    def connection(self) -> Connection:
        assert self._connection is not None
        return self._connection

    @property
    def is_spent(self) -> bool:
        return self._connection is None or self._connection.ended.is_set()

    @property
    def is_worn(self) -> bool:
        """Whether it has served long enough, or may soon meet a limit that is meant for one sequence."""
        limits, relay = self.connection.limits, self.relay
        is_full = relay.lines > limits.max_events * _FULL or relay.bytes > limits.max_output * _FULL
        return is_full or self.served >= _LIFE

    async def _greet(self) -> None:
        recorder = Recorder()
        self.relay.current = recorder
        self._connection = await self._lives.connection(CLIENT)
        self._connection.listen(self._hear)
        stage, actor, client = self._lend(recorder, _START, self.setting, {}, 1)
        await initialized(stage, actor, {})
        told = next(e for e in recorder.history if e.dir == "agent" and _answers_initialize(e))
        asked = next(e for e in recorder.history if e.dir == "client" and e.envelope is not None)
        assert told.envelope is not None
        self.greeting = Greeting(asked.message, told.envelope, actor.answer or {}, client.next_id())
        self._give_back()

    async def renewed(self) -> bool:
        """Where only the line to a server was lost: dials it once more. Whether it is of use again."""
        if not self.is_renewable or self.is_worn:
            return False
        self.is_renewable = False
        try:
            await self._greet()
        except (AgentDidNotStart, Stop):
            return False
        return not self.is_spent

    def lend(self, scenario: Scenario, setting: Setting) -> Stage:
        """A stage for one sequence, on which the client is connected and initialized already. `give_back` ends it."""
        recorder = Recorder()
        recorder.control("", controls.PROFILE, **setting.facts())
        stage, actor, _ = self._lend(recorder, scenario, setting, self.greeting.answer, self.greeting.ids)
        recorder.sent(CLIENT, encode(self.greeting.asked))
        recorder.wire(CLIENT, "agent", self.greeting.answered)
        actor.answer = dict(self.greeting.answer)
        if self.model is not None:
            self.model.forget()
        self.relay.current = recorder
        return stage

    def give_back(self, stage: Stage, past: set[str]) -> None:
        """The sequence is over; `past` are its sessions."""
        client = stage.actors[CLIENT].client
        self.pace = max(self.pace * FADING, client.pace)
        self.greeting = replace(self.greeting, ids=max(self.greeting.ids, client.next_id()))
        self.relay.past |= past
        self.served += 1
        self._give_back()

    def grown(self, bytes_: int, made: Made) -> Made | None:
        """Takes note of what the process holds after `made`. Once it holds far more than after its first sequences:
        that with which it grew most."""
        if self.served <= _WARM:
            self._least = self._held = bytes_
            return None
        if bytes_ - self._held > self._most[0]:
            self._most = (bytes_ - self._held, made)
        self._held = bytes_
        most: Made | None = self._most[1]
        return most if bytes_ - self._least > _FAR_MORE else None

    async def spend(self) -> None:
        """No more sequences for this one."""
        self.is_renewable = False
        await self.connection.cut()

    async def end(self) -> Recorder:
        """Ends the process in an orderly way, its model and its folder. Returns what was recorded of that."""
        farewell = Recorder()
        self.relay.current = farewell
        if self._connection is not None:
            await self._connection.close()
        await self._lives.end()
        if self.model is not None:
            await self.model.stop()
        self.relay.current = None
        shutil.rmtree(self.setting.workdir, ignore_errors=True)
        return farewell

    def _lend(
        self, recorder: Recorder, scenario: Scenario, setting: Setting, answer: dict[str, Any], first_id: int
    ) -> tuple[Stage, Actor, ScriptedClient]:
        lent = Lent(self.connection, recorder)
        client = ScriptedClient(lent, recorder, patience=setting.patience, first_id=first_id)
        stage = Stage(scenario, setting, recorder, self._lives_beside(recorder, setting), self.model)
        actor = Actor(CLIENT, client)
        stage.actors[CLIENT] = actor
        self._lent = lent
        return stage, actor, client

    def _lives_beside(self, recorder: Recorder, setting: Setting) -> Lives:
        return Lives(self._profile, recorder, setting, self.model, beside=self._lives)

    def _give_back(self) -> None:
        if self._lent is not None:
            self._lent.give_back()
        self._lent = self.relay.current = None

    def _hear(self, event: Event) -> None:
        lent = self._lent
        if lent is None or event.seq == _NOT_OURS:
            return
        lent.hear(event)
        if event.name == controls.EXITED:
            lent.ended.set()


def _answers_initialize(event: Event) -> bool:
    return isinstance(event.message, dict) and "result" in event.message and "method" not in event.message
