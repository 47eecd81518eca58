"""The scripted client: what a scenario drives. It asks, waits and answers; it judges nothing."""

import asyncio
import itertools
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from conformance.history import Event, Recorder
from conformance.peers.answers import ANSWERED_METHODS, Policy, answer
from conformance.peers.connection import Connection, ConnectionEnded
from conformance.peers.waiting import Predicate, Waits
from conformance.wire import Envelope, Kind, encode, envelope_of, request_key

CANCEL_REQUEST: Final = "$/cancel_request"
METHOD_NOT_FOUND: Final = -32601
_UNPACED: Final = frozenset({"initialize", "session/prompt"})  # a start, and what a model may hold, tell no pace
_MAX_HELD: Final = 10_000


@dataclass(frozen=True, slots=True)
class Pending:
    """A request on its way. `event` is its sending; `response` becomes the answer, or None once the connection ended.

    A second answer to the same request changes nothing here; the history has it.
    """

    id: Any
    method: str
    event: Event
    response: "asyncio.Future[Event | None]"


@dataclass(frozen=True, slots=True)
class Held:
    """A request of the agent that is not answered yet."""

    id: Any
    method: str
    params: Any
    event: Event

    @property
    def session(self) -> str | None:
        session = self.params.get("sessionId") if isinstance(self.params, dict) else None
        return session if isinstance(session, str) else None


class ScriptedClient:
    """One client on one connection.

    `policies` says how permission and elicitation requests are met from here on; `held` wait for `answer_held`. One
    that the agent withdraws is answered as cancelled, unless `answers_withdrawn` is false.
    `pace` is the slowest answer seen, in seconds, of requests that should be quick. `first_id` is the number of its
    first request.
    """

    def __init__(self, connection: Connection, recorder: Recorder, *, patience: float, first_id: int = 1) -> None:
        self.connection = connection
        self.patience = patience
        self.policies: dict[str, Policy] = dict.fromkeys(ANSWERED_METHODS, "allow")
        self.held: deque[Held] = deque(maxlen=_MAX_HELD)
        self.answers_withdrawn = True
        self.pace = 0.0
        self._recorder = recorder
        self._waits = Waits(recorder)
        self._ids = itertools.count(first_id)
        self._pending: dict[tuple[str, Any], deque[Pending]] = {}  # several only where a scenario uses an id again
        connection.listen(self._see)
        self._ending = asyncio.create_task(self._forsake_the_pending(), name=f"end of {connection.name}")

    @property
    def name(self) -> str:
        return self.connection.name

    async def request(self, method: str, params: Any = None, *, id: Any = None) -> Pending:
        """Sends a request, under the next number of this client or under `id`. Raises ConnectionEnded."""
        number = self.next_id() if id is None else id
        data = encode(_call(method, params, id=number))
        future: asyncio.Future[Event | None] = asyncio.get_running_loop().create_future()
        pending = Pending(number, method, self.connection.write(data), future)
        # No line is read between the writing and this, since nothing was awaited.
        self._pending.setdefault(request_key(number), deque()).append(pending)
        await self.connection.drain()
        return pending

    def next_id(self) -> int:
        """The number that the next request gets: taken by this call."""
        return next(self._ids)

    async def response(self, pending: Pending, *, patience: float | None = None) -> Event | None:
        """The answer; None when the patience (the client's own by default) ran out or the connection ended."""
        await asyncio.wait({pending.response}, timeout=self.patience if patience is None else patience)
        return pending.response.result() if pending.response.done() else None

    async def notify(self, method: str, params: Any = None) -> Event:
        return await self.connection.send(encode(_call(method, params)))

    async def send(self, raw: bytes) -> Event:
        """Any bytes, as one line; a missing newline is added."""
        return await self.connection.send(raw if raw.endswith(b"\n") else raw + b"\n")

    async def until(self, predicate: Predicate, *, since: int, patience: float | None = None) -> Event | None:
        """The first event of the history from `since` on that `predicate` accepts, of any connection.

        None when patience ran out or this client's connection ended.
        """
        seconds = self.patience if patience is None else patience
        return await self._waits.until(predicate, since=since, patience=seconds, ended=self.connection.ended)

    def answer_held(self, policy: Policy, *, session: str | None = None, method: str | None = None) -> list[Held]:
        """Answers what is held (of one session, of one method, or all), oldest first. Returns what was answered."""
        chosen = [h for h in self.held if session in (None, h.session) and method in (None, h.method)]
        for request in chosen:
            self.held.remove(request)
            self._respond(request.id, answer(request.method, request.params, policy))
        return chosen

    async def close(self) -> None:
        """Ends the connection in an orderly way and waits until all of it is gone."""
        await self.connection.close()
        await self._ending

    async def cut(self) -> None:
        await self.connection.cut()
        await self._ending

    def _see(self, event: Event) -> None:
        if event.envelope is None:
            return
        if event.envelope.kind is Kind.ARRAY and isinstance(event.message, list):
            for message in event.message:
                self._meet(envelope_of(message), event)
        else:
            self._meet(event.envelope, event)

    def _meet(self, envelope: Envelope, event: Event) -> None:
        match envelope.kind:
            case Kind.RESULT | Kind.ERROR:
                self._settle(envelope.message.get("id"), event)
            case Kind.REQUEST:
                self._be_asked(envelope.message, event)
            case Kind.NOTIFICATION if envelope.message.get("method") == CANCEL_REQUEST:
                self._be_withdrawn(envelope.message.get("params"))

    def _settle(self, id: Any, event: Event) -> None:
        waiting = self._pending.get(request_key(id))
        if not waiting:
            return
        pending = waiting.popleft()
        if pending.method not in _UNPACED:
            self.pace = max(self.pace, event.t - pending.event.t)
        if not pending.response.done():
            pending.response.set_result(event)

    def _be_asked(self, message: dict[str, Any], event: Event) -> None:
        id, method, params = message.get("id"), message["method"], message.get("params")
        if method not in self.policies:
            self._respond(id, {"error": {"code": METHOD_NOT_FOUND, "message": "Method not found"}})
        elif (policy := self.policies[method]) == "hold":
            self.held.append(Held(id, method, params, event))
        else:
            self._respond(id, answer(method, params, policy))

    def _be_withdrawn(self, params: Any) -> None:
        if not self.answers_withdrawn or not isinstance(params, dict):
            return
        key = request_key(params.get("requestId"))
        for request in [held for held in self.held if request_key(held.id) == key]:
            self.held.remove(request)
            self._respond(request.id, answer(request.method, request.params, "cancel"))

    def _respond(self, id: Any, outcome: dict[str, Any]) -> None:
        try:
            self.connection.write(encode({"jsonrpc": "2.0", "id": id, **outcome}))
        except ConnectionEnded:
            return  # whoever asked is gone

    async def _forsake_the_pending(self) -> None:
        await self.connection.ended.wait()
        for pending in itertools.chain.from_iterable(self._pending.values()):
            if not pending.response.done():
                pending.response.set_result(None)
        self._pending.clear()


def _call(method: str, params: Any, **id: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", **id, "method": method}
    if params is not None:
        message["params"] = params
    return message
