"""What a scenario has on its stage while it runs: connections, sessions, requests under their aliases, and the history
they grow.

Sends and records; the verbs decide what. Every rule sees only what is recorded here.
"""

import asyncio
import hashlib
from bisect import bisect_right
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final, Protocol

from conformance.history import Event, Recorder, controls
from conformance.model import ScriptedModel
from conformance.peers import AgentDidNotStart, ConnectionEnded, ScriptedClient, Waits
from conformance.scenario import sight
from conformance.scenario.actors import Actor, Chat
from conformance.scenario.model import Scenario
from conformance.scenario.setting import Setting
from conformance.scenario.stops import Broken, NotBroughtAbout, OutOfPatience, Stop
from conformance.scenario.watching import Sent, WorkWatch
from conformance.wire import request_key

VARIABLES: ContextVar[Mapping[str, Any]] = ContextVar("names of for-each and repeat")
BARRIER: Final = "_acp-conformance/barrier"
_QUICK: Final = (BARRIER, "session/list", "session/set_config_option")
"""Requests that begin nothing, so that their answers show how quick the agent is."""
_AFTER_EXHAUSTION: Final = 1.0  # seconds
_SLOWEST_WINDOW: Final = 3.0  # seconds: a quiet window never grows beyond it


class Connector(Protocol):
    """Begins a life of a connection: starts the agent, or dials it. Raises AgentDidNotStart."""

    async def __call__(self, name: str, *, restart_of: str | None) -> ScriptedClient: ...


class Stage:
    def __init__(
        self,
        scenario: Scenario,
        setting: Setting,
        recorder: Recorder,
        connector: Connector,
        model: ScriptedModel | None = None,
    ) -> None:
        self.scenario, self.setting, self.recorder, self.model = scenario, setting, recorder, model
        self.actors: dict[str, Actor] = {}
        self.chats: dict[str, Chat] = {}
        self.sent: dict[str, Sent] = {}
        self.blocks: dict[str, list[Any]] = {}  # alias of a prompt -> the blocks it was sent with
        self.effects: set[str] = set()  # files that a tool may have made
        self.is_exhausted = False  # a wait ran out of patience: nothing more is given to this agent
        self._connector = connector
        self._states: dict[tuple[str, str], tuple[list[int], list[str]]] = {}
        self._busy: dict[str, dict[str, None]] = {}  # connection -> its busy sessions, in order
        self._open: dict[tuple[str, str, Any], Sent] = {}
        self._counters: dict[str, int] = {}
        self._paces: dict[str, float] = {}  # connection -> seconds of the slowest answer to what should be quick
        recorder.listen(self._see)
        self.waits = Waits(recorder)

    # -- what is known

    @property
    def now(self) -> int:
        """The position of the next event."""
        return len(self.recorder.history.events)

    @property
    def patience(self) -> float:
        """Seconds to give to a wait: all of it once, then no more than a moment, since the agent hangs."""
        patience = self.setting.patience
        return min(_AFTER_EXHAUSTION, patience / 4) if self.is_exhausted else patience

    def actor(self, name: str | None) -> Actor:
        """The actor of that name, or the only one that is open."""
        if name is not None:
            return self.actors[name]
        usable = [actor for actor in self.actors.values() if actor.is_open] or list(self.actors.values())
        return usable[0]

    def chat(self, alias: str) -> Chat:
        if alias not in self.chats:
            raise NotBroughtAbout(f"the session {alias!r} did not come about")
        return self.chats[alias]

    def request_named(self, alias: str) -> Sent:
        if alias not in self.sent:
            raise NotBroughtAbout(f"{alias!r} was not sent")
        return self.sent[alias]

    def unanswered(self, conn: str) -> list[Sent]:
        return [sent for (name, *_), sent in self._open.items() if name == conn]

    @property
    def ambiguous(self) -> list[Sent]:
        """Prompts whose responses were lost with the connection: what became of them nobody can know."""
        living = {actor.conn for actor in self.actors.values() if actor.is_open and not actor.is_deaf}
        living -= {actor.conn for actor in self.actors.values() if actor.client.connection.ended.is_set()}
        return [sent for sent in self._open.values() if sent.method == "session/prompt" and sent.conn not in living]

    def state(self, conn: str, session: str, at: float = float("inf")) -> str | None:
        """The last state that the connection was told of by that position; None where it was told none."""
        seqs, states = self._states.get((conn, session), ([], []))
        place = bisect_right(seqs, at)
        return states[place - 1] if place else None

    def busy_sessions(self, conn: str) -> list[str]:
        return list(self._busy.get(conn, ()))

    def is_busy(self, conn: str) -> bool:
        """Whether the connection was told that any session is at work."""
        return bool(self._busy.get(conn))

    def sessions_of(self, conn: str) -> list[str]:
        return [session for name, session in self._states if name == conn]

    def work_watch(self, chat: Chat, conn: str, prompt: Sent | None = None) -> WorkWatch:
        """The watch for the end of the work that `prompt` (or the latest one) began, as that connection sees it. A
        connection that came to the session after the latest prompt watches from there."""
        prompt, opening = prompt or chat.prompt, chat.openings.get(conn)
        if prompt is not None and opening is not None and opening.seq > prompt.seq:
            prompt = None
        mark = prompt.seq if prompt is not None else opening.seq if opening is not None else 0
        busy = prompt is not None and sight.is_busy(self.state(conn, chat.id, mark))
        return WorkWatch(chat.id, conn, prompt=prompt, opening=opening, busy=busy)

    def quiet_seconds(self, actor: Actor, share: float = 1.0) -> float:
        """How long silence must last to be quiet: longer for an agent that answers slowly."""
        return max(self.setting.quiet_window * share, min(_SLOWEST_WINDOW, 2 * self._paces.get(actor.conn, 0.0)))

    def is_silent(self, conn: str) -> bool:
        """Whether the agent has written nothing at all on the connection."""
        return not any(event.conn == conn and event.dir == "agent" for event in self.recorder.history.events)

    def is_settled(self, actor: Actor) -> bool:
        """Whether nothing has happened on the connection since its last quiet window."""
        for event in reversed(self.recorder.history.events):
            if event.conn == actor.conn:
                return event.name == controls.WINDOW and (event.control or {}).get("kind") == "quiet"
        return False

    def look_up(self, name: str) -> Any:
        """What a name in braces stands for."""
        first, _, second = name.partition(".")
        variables = VARIABLES.get({})
        if name in variables:
            return variables[name]
        match first:
            case "workdir":
                return str(self.setting.workdir)
            case "round":
                return 1
            case "session":
                return self.chat(second).id
            case "request":
                return self.request_named(second).id
            case "nonce":
                return self.request_named(second).nonce or ""
            case "message":
                identifier = self.request_named(second).message_id
                if identifier is None:
                    raise NotBroughtAbout(f"{second!r} was answered with no messageId")
                return identifier
        raise KeyError(name)

    def commands_of(self, actor: Actor, chat: Chat) -> set[str]:
        """Names of the commands that the agent advertised for the session, the latest list on that connection."""
        listed = chat.result.get("availableCommands")
        for event in self.recorder.history.events:
            found = sight.update(event) if event.conn == actor.conn else None
            if found is not None and found[0] == chat.id and sight.kind_of(found[1]) == "available_commands_update":
                listed = found[1].get("availableCommands")
        commands = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
        return {entry["name"] for entry in commands if isinstance(entry.get("name"), str)}

    # -- what is recorded

    def record(self, conn: str, name: str, **fields: Any) -> Event:
        return self.recorder.control(conn, name, **fields)

    def not_brought_about(self, why: str) -> NotBroughtAbout:
        """To be raised: the situation did not arise. Records it."""
        self.record("", controls.NOT_BROUGHT_ABOUT, why=why)
        return NotBroughtAbout(why)

    def new_nonce(self) -> str:
        count = self.count("nonce")
        digest = hashlib.sha256(f"{self.setting.seed}/{self.scenario.id}/{count}".encode()).hexdigest()
        return f"acp-{digest[:10]}"

    def count(self, what: str) -> int:
        self._counters[what] = self._counters.get(what, 0) + 1
        return self._counters[what]

    def unique(self, alias: str) -> str:
        """The alias, with a number behind it where it has been used before (in a loop)."""
        count = self.count(f"alias {alias}")
        return alias if count == 1 else f"{alias}#{count}"

    # -- what is sent

    async def begin(self, name: str, *, restart_of: str | None = None) -> ScriptedClient:
        try:
            return await self._connector(name, restart_of=restart_of)
        except AgentDidNotStart as error:
            raise Broken(str(error), unanswered=True) from None

    async def send_request(
        self,
        actor: Actor,
        method: str,
        params: Any,
        *,
        alias: str | None = None,
        id: Any = None,
        session: str | None = None,
        nonce: str | None = None,
        before: Callable[[Any], None] | None = None,
    ) -> Sent:
        """Sends a request and keeps it under its alias. `before` is called with its id just before it is written."""
        number = actor.client.next_id() if id is None else id
        name = self.unique(alias or method)
        sent = Sent(name, actor.conn, number, method, self.now, session, nonce)
        if before is not None:
            before(number)
        sent.seq = self.now
        self._open[actor.conn, *request_key(number)] = sent
        if alias is not None:
            self.sent[alias] = sent
        try:
            await actor.client.request(method, params, id=number)
        except ConnectionEnded:
            raise await self.lost(actor, f"before {method} could be sent") from None
        return sent

    async def about_session(self, actor: Actor, chat: Chat, method: str, params: Any, given: Mapping[str, Any]) -> Sent:
        """Sends a request about a session, as a step says: `id`, `as`, `after`."""
        await pause(given.get("after", 0))
        sent = await self.send_request(
            actor, method, params, alias=given.get("as"), id=given.get("id"), session=chat.id
        )
        chat.last_actor, chat.used = actor.name, sent.seq
        return sent

    async def notify(self, actor: Actor, method: str, params: Any) -> Event:
        try:
            return await actor.client.notify(method, params)
        except ConnectionEnded:
            raise await self.lost(actor, f"before {method} could be sent") from None

    async def response(self, sent: Sent, *, seconds: float | None = None) -> Event | None:
        """The response, as soon as it is there; None when patience ran out (which is recorded) or the connection
        ended."""
        patience, began = self.patience if seconds is None else seconds, self.now
        if not await self.until_answered(sent, patience):
            await self.out_of_patience(sent.conn, "response", patience, began, id=sent.id, session=sent.session)
        return sent.response

    async def until_answered(self, sent: Sent, seconds: float) -> bool:
        """Waits until the request is answered or its connection ends; false when `seconds` ran out before either. An
        agent that has said nothing yet may still be starting, and gets the time for that."""
        if sent.response is not None:
            return True
        if self.is_silent(sent.conn):
            seconds = max(seconds, self.setting.startup)
        found = await self.waits.until(
            lambda event: sent.response is not None or sight.ends(event, sent.conn), since=sent.seq, patience=seconds
        )
        return found is not None or sent.response is not None

    async def ask(
        self, actor: Actor, method: str, params: Any, *, alias: str | None = None, session: str | None = None
    ) -> Event:
        """Sends a request and waits for its response. Raises a stop where none comes."""
        sent = await self.send_request(actor, method, params, alias=alias, session=session)
        return await self.answered(actor, sent)

    async def answered(self, actor: Actor, sent: Sent) -> Event:
        response = await self.response(sent)
        if response is None:
            raise await self.lost(actor, f"before it answered {sent.method}")
        return response

    async def out_of_patience(self, conn: str, what: str, seconds: float, began: int, **fields: Any) -> None:
        """A wait ran out, the connection alive. Recorded, after all that has arrived by now, where it was given all
        patience, and no line was coming."""
        actors = [actor for actor in self.actors.values() if actor.conn == conn]
        if seconds < self.setting.patience or any(actor.is_deaf for actor in actors):
            return
        self.is_exhausted = True
        for actor in actors:
            await actor.client.connection.catch_up()
        if any(actor.client.connection.is_talking or actor.client.connection.ended.is_set() for actor in actors):
            return
        self.record(
            conn,
            controls.WAITED,
            **{"for": what, "session": None, "id": None, **fields},
            seconds=round(seconds, 3),
            began=began,
        )

    async def lost(self, actor: Actor, when: str) -> Stop:
        """Why the scenario cannot go on with this actor: it ended, or it kept us waiting. To be raised."""
        if not await self.has_ended(actor):
            return OutOfPatience(f"{actor.name}: out of patience {when}")
        what = f"{actor.name}: the agent {self.exit_of(actor) or 'ended the connection'} {when}"
        if actor.was_provoked or not actor.is_open:
            return NotBroughtAbout(what)
        return Broken(what + self.last_words(actor), unanswered=actor.answer is None)

    async def has_ended(self, actor: Actor) -> bool:
        """Whether the connection has ended; if so, how is on record when this returns."""
        connection = actor.client.connection
        if connection.is_ending or any(sight.ends(event, actor.conn) for event in self.recorder.history.events):
            await connection.ended.wait()
        return connection.ended.is_set()

    def last_words(self, actor: Actor) -> str:
        """The end of what the agent wrote to stderr, as a reason quotes it."""
        lines = [line.strip() for line in actor.client.connection.stderr_tail.splitlines() if line.strip()]
        return f"; its stderr ends with: {' | '.join(lines[-3:])}" if lines else ""  # cut once it is masked

    def exit_of(self, actor: Actor) -> str | None:
        """How the agent's process ended, in words; None while it lives or where there is none."""
        for event in reversed(self.recorder.history.events):
            if event.conn == actor.conn and event.name == controls.EXITED and event.control is not None:
                code, signal = event.control.get("code"), event.control.get("signal")
                return f"was ended by {signal}" if signal else f"exited with code {code}"
        return None

    def was_stopped_since(self, session: str | None, seq: int) -> bool:
        """Whether we have cancelled, closed or deleted the session since that position."""
        stops = ("session/cancel", "session/close", "session/delete")
        return any(
            isinstance(event.message, dict)
            and event.message.get("method") in stops
            and sight.session_in(event.message.get("params")) == session
            for event in self.recorder.history.events[seq:]
            if event.dir == "client"
        )

    # -- what is seen

    def _see(self, event: Event) -> None:
        for _, message in sight.messages(event):
            if "method" not in message and "id" in message:
                sent = self._open.pop((event.conn, *request_key(message["id"])), None)
                if sent is not None and sent.response is None:
                    sent.response = event
                    self._pace(sent, event)
        found = sight.update(event)
        if found is not None and (state := sight.state_of(found[1])) is not None:
            seqs, states = self._states.setdefault((event.conn, found[0]), ([], []))
            seqs.append(event.seq)
            states.append(state)
            busy = self._busy.setdefault(event.conn, {})
            busy.pop(found[0], None)
            if sight.is_busy(state):
                busy[found[0]] = None

    def _pace(self, sent: Sent, response: Event) -> None:
        if sent.method in _QUICK:
            seconds = response.t - self.recorder.history.events[sent.seq].t
            self._paces[sent.conn] = max(seconds, self._paces.get(sent.conn, 0.0))


async def pause(milliseconds: float) -> None:
    """The delay before a step that is meant to race. Nothing ever waits for an agent in this way."""
    if milliseconds > 0:
        await asyncio.sleep(milliseconds / 1000)
