"""One life of a transport: its lines, its requests and what answered them, and how long either side was waited for."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from conformance.conversation.facts import Request
from conformance.conversation.shapes import Shape, shapes
from conformance.conversation.span import Span
from conformance.history import Event
from conformance.protocol.methods import CLIENT_METHODS, PROTOCOL_METHODS, UNSTABLE_METHODS
from conformance.wire import Kind, encode, request_key

if TYPE_CHECKING:
    from conformance.conversation.sessions import View
    from conformance.conversation.whole import Conversation

MALFORMED: Final = (Kind.NOT_JSON, Kind.NOT_UTF8, Kind.TOO_LONG, Kind.NOT_OBJECT, Kind.NOT_JSONRPC, Kind.ARRAY)
QUIET: Final = 1.0
"""Seconds of silence after which, in a recording that the suite did not drive, an agent has nothing more in hand to
write."""


@dataclass(eq=False)
class Connection:
    """One life of a transport."""

    name: str
    conversation: Conversation
    started: Event | None = None
    ended: Event | None = None  # the first of: closed or cut by us, disconnected, exited
    exited: Event | None = None
    controls: list[Event] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)  # of the client
    agent_requests: list[Request] = field(default_factory=list)
    notifications: list[Event] = field(default_factory=list)  # of the client
    agent_notifications: list[Event] = field(default_factory=list)
    agent_events: list[Event] = field(default_factory=list)  # every line of the agent
    client_events: list[Event] = field(default_factory=list)  # every line of the client
    strays: list[Event] = field(default_factory=list)  # responses of the agent that match no pending request
    client_strays: list[Event] = field(default_factory=list)
    views: dict[str, View] = field(default_factory=dict)
    known_sessions: dict[str, int] = field(default_factory=dict)  # sessionId -> position where it became known here
    by_id: dict[tuple[str, str, Any], list[Request]] = field(default_factory=dict)  # (sender, type, id) -> its requests

    @cached_property
    def initializes(self) -> list[Request]:
        return [request for request in self.requests if request.method == "initialize"]

    def initialized_before(self, seq: float) -> Request | None:
        """The latest initialize that had been answered with success at that position."""
        answered = (
            request for request in reversed(self.initializes) if request.succeeded and request.answered_at < seq
        )
        return next(answered, None)

    @cached_property
    def version(self) -> int | None:
        """The protocol version that was agreed on; None where that is not known. Another than 2 has other rules."""
        result = self.initialized.result if self.initialized is not None else None
        version = result.get("protocolVersion") if isinstance(result, dict) else None
        return version if isinstance(version, int) and not isinstance(version, bool) else None

    @property
    def is_other_version(self) -> bool:
        """Whether the connection agreed on an older version, to which the rules of version 2 do not apply."""
        return self.version is not None and self.version < 2

    @cached_property
    def initialized(self) -> Request | None:
        """The latest initialize that succeeded (schema InitializeRequest: it is authoritative)."""
        return next((request for request in reversed(self.initializes) if request.succeeded), None)

    @cached_property
    def capabilities(self) -> dict[str, Any]:
        """What the agent advertised; empty where it did not."""
        return _object(self.initialized.result if self.initialized else None, "capabilities")

    @cached_property
    def client_capabilities(self) -> dict[str, Any]:
        return _object(self.initialized.params if self.initialized else None, "capabilities")

    def advertises(self, path: str) -> bool:
        """Whether the capability at the dotted path ("session.delete") is an object marker."""
        here: Any = self.capabilities
        for name in path.split("."):
            here = here.get(name) if isinstance(here, dict) else None
        return isinstance(here, dict)

    @cached_property
    def agent_shapes(self) -> list[Shape]:
        """Where the agent's params and results depart from the schema."""
        return shapes("agent", self.agent_requests, self.agent_notifications, self.requests)

    @cached_property
    def client_shapes(self) -> list[Shape]:
        """Where the client's params and results depart from the schema."""
        return shapes("client", self.requests, self.notifications, self.agent_requests)

    @cached_property
    def malformed_lines(self) -> list[Event]:
        """Lines of the client that no agent can answer by an id: an answer with id null may belong to one."""
        return [
            e
            for e in self.client_events
            if e.envelope is not None and (e.envelope.kind in MALFORMED or e.envelope.flaws)
        ]

    def malformed_between(self, start: float, end: float) -> Sequence[Event]:
        """Malformed lines of the client between two positions, both left out."""
        first = bisect_right(self.malformed_lines, start, key=lambda event: event.seq)
        return Span(self.malformed_lines, first, bisect_left(self.malformed_lines, end, key=lambda event: event.seq))

    @cached_property
    def provocations(self) -> list[Event]:
        """What the client sent that is wrong or unknown, and may have silenced the agent: malformed lines, unknown
        notifications, requests with params that the schema forbids."""
        unknown = [event for event in self.notifications if is_unknown_notification(event)]
        calls = {request.event.seq for request in self.requests}
        wrong = [
            shape.event
            for shape in self.client_shapes
            if shape.part == "params"
            and shape.event.seq in calls
            and any(not problem.is_lenient for problem in shape.problems)
        ]
        return sorted([*self.malformed_lines, *unknown, *wrong], key=lambda event: event.seq)

    def provocation_between(self, start: float, end: float) -> Event | None:
        """The first of them between two positions, the second one included."""
        at = bisect_right(self.provocations, start, key=lambda event: event.seq)
        found = self.provocations[at] if at < len(self.provocations) else None
        return found if found is not None and found.seq <= end else None

    def notification_before(self, seq: float) -> Event | None:
        """The client's last notification before that position."""
        at = bisect_left(self.notifications, seq, key=lambda event: event.seq) - 1
        return self.notifications[at] if at >= 0 else None

    @cached_property
    def cancelled_ids(self) -> dict[tuple[str, Any], int]:
        """Key of a request id -> where the client's first $/cancel_request named it, whether there was such a
        request or not."""
        found: dict[tuple[str, Any], int] = {}
        for event in self.notifications:
            params = event.message.get("params")
            if event.message.get("method") == "$/cancel_request" and isinstance(params, dict):
                found.setdefault(request_key(params.get("requestId")), event.seq)
        return found

    @cached_property
    def _answers_to_client(self) -> list[tuple[int, float]]:
        """For each request of the client, in order: its position, and the latest answer to it or an earlier one."""
        latest, found = -1.0, []
        for request in self.requests:
            latest = max(latest, request.answered_at if request.response is not None else -1.0)
            found.append((request.seq, latest))
        return found

    def last_answer_before(self, request: Request) -> float:
        """The latest position at which a request sent before this one was answered; -1 where none was."""
        at = bisect_left(self._answers_to_client, (request.seq, -2.0)) - 1
        return self._answers_to_client[at][1] if at >= 0 else -1.0

    @cached_property
    def _by_look(self) -> dict[str, list[Request]]:
        found: dict[str, list[Request]] = {}
        for request in self.requests:
            found.setdefault(look(request.id), []).append(request)
        return found

    def pending_since(self, start: float, end: float) -> Request | None:
        """The first request sent after a position that was pending at another."""
        return (
            next((r for r in self.requests_after(start) if r.seq < end < r.answered_at), None) if start < end else None
        )

    def pending_like(self, identifier: Any, seq: float) -> Request | None:
        """A request pending at that position whose id looks like that one and differs in its JSON type: 1 and "1", 1
        and 1.0."""
        for request in self._by_look.get(look(identifier), [])[:1000]:
            if request.seq < seq < request.answered_at:
                return request
        return None

    @property
    def ended_at(self) -> float:
        return self.ended.seq if self.ended is not None else float("inf")

    def last_sign_after(self, seq: float) -> Event | None:
        """The first line of the agent after that position: it lived on."""
        at = bisect_right(self.agent_events, seq, key=lambda event: event.seq)
        return self.agent_events[at] if at < len(self.agent_events) else None

    def last_line_before(self, seq: float) -> Event | None:
        """The last line of the agent before that position."""
        at = bisect_left(self.agent_events, seq, key=lambda event: event.seq) - 1
        return self.agent_events[at] if at >= 0 else None

    def last_client_line_before(self, seq: float) -> Event | None:
        """The last line of the client before that position."""
        at = bisect_left(self.client_events, seq, key=lambda event: event.seq) - 1
        return self.client_events[at] if at >= 0 else None

    def agent_requests_between(self, start: float, end: float) -> Sequence[Request]:
        """Requests of the agent sent between two positions, both left out."""
        first = bisect_right(self.agent_requests, start, key=lambda request: request.seq)
        return Span(self.agent_requests, first, bisect_left(self.agent_requests, end, key=lambda request: request.seq))

    def agent_events_between(self, start: float, end: float) -> Sequence[Event]:
        """Lines of the agent between two positions, both left out."""
        first = bisect_right(self.agent_events, start, key=lambda event: event.seq)
        return Span(self.agent_events, first, bisect_left(self.agent_events, end, key=lambda event: event.seq))

    def requests_after(self, seq: float) -> Sequence[Request]:
        """Requests of the client after that position."""
        return Span(self.requests, bisect_right(self.requests, seq, key=lambda request: request.seq))

    def strays_between(self, start: float, end: float) -> Sequence[Event]:
        """Responses of the agent that match no request, between two positions, both left out."""
        first = bisect_right(self.strays, start, key=lambda event: event.seq)
        return Span(self.strays, first, bisect_left(self.strays, end, key=lambda event: event.seq))

    @cached_property
    def _strays_by_id(self) -> dict[tuple[str, Any], list[Event]]:
        found: dict[tuple[str, Any], list[Event]] = {}
        for event in self.strays:
            found.setdefault(request_key(event.message.get("id")), []).append(event)
        return found

    def strays_with(self, identifier: Any, after: float) -> Sequence[Event]:
        """Responses of the agent with that id that match no request, after that position."""
        same = self._strays_by_id.get(request_key(identifier), [])
        return Span(same, bisect_right(same, after, key=lambda event: event.seq))

    def controls_after(self, seq: float) -> Sequence[Event]:
        """The suite's own events of this connection after that position."""
        return Span(self.controls, bisect_right(self.controls, seq, key=lambda control: control.seq))

    def windows_after(self, seq: float, kind: str | None = None) -> Iterator[Event]:
        """The suite's windows (all kinds, or one) that began after that position, or most of which passed after it."""
        events = self.conversation.history.events
        since = events[int(seq)].t if 0 <= seq < len(events) else 0.0
        for window in Span(self._windows, bisect_right(self._windows, seq, key=lambda control: control.seq)):
            about = window.control or {}
            is_asked = kind is None or about.get("kind", kind) == kind
            long_enough = window.t - since >= MOST_OF_A_WINDOW * _number(about.get("seconds"), float("inf"))
            if is_asked and (_number(about.get("began"), seq + 1) > seq or long_enough):
                yield window

    @cached_property
    def _windows(self) -> list[Event]:
        return [control for control in self.controls if control.name == "window"]

    @cached_property
    def _waits(self) -> list[Event]:
        return [control for control in self.controls if control.name == "waited"]

    @cached_property
    def _answers_of_client(self) -> list[float]:
        return sorted(request.answered_at for request in self.agent_requests)

    def waits_for_client_at(self, seq: float) -> bool:
        """Whether a request of the agent was unanswered at that position."""
        asked = bisect_left(self.agent_requests, seq, key=lambda request: request.seq)
        return asked > bisect_right(self._answers_of_client, seq)

    def barrier_after(self, seq: float, before: float = float("inf")) -> Request | None:
        """The first request sent after that position whose response came (before that other position): the agent,
        having answered it, had written all that it owed before it. session/prompt and session/resume are no
        barriers: they wait for work of their own."""
        for request in self.requests_after(seq):
            if request.seq > before:
                return None
            if request.answered_at < before and request.method not in _NO_BARRIERS:
                return request
        return None

    @cached_property
    def _quiet_barriers(self) -> list[Request]:
        """Requests that were answered and had been sent to an agent that had written nothing for a while."""
        found = []
        for request in self.requests:
            last = self.last_line_before(request.seq)
            quiet = last is None or request.event.t - last.t >= QUIET
            if quiet and request.response is not None and request.method not in _NO_BARRIERS:
                found.append(request)
        return found

    def quiet_barrier_after(self, seq: float) -> Request | None:
        """The first barrier after that position that was asked on a quiet line: what the agent owed, and was about
        to write, had been written before."""
        at = bisect_right(self._quiet_barriers, seq, key=lambda request: request.seq)
        return self._quiet_barriers[at] if at < len(self._quiet_barriers) else None

    def out_of_patience(self, event: Event, *, answer_to: Request | None = None, patience: float = 0.0) -> Event | None:
        """The event that shows that patience ran out after `event` while the connection lived: the suite's own
        `waited` that was spent on what followed it, or in a foreign recording a line of the agent that came later
        than the patience (or that many seconds, where that is more). None where that is not shown."""
        for control in Span(self._waits, bisect_right(self._waits, event.seq, key=lambda control: control.seq)):
            about = control.control or {}
            is_asked = answer_to is None or _is_wait_for(about, answer_to)
            if is_asked and control.t - event.t >= _number(about.get("seconds"), 0.0) / 2:
                return control
        if self.conversation.is_driven:
            return None
        return self._line_after(self.agent_events, event, max(patience, self.conversation.patience))

    def _line_after(self, lines: list[Event], event: Event, seconds: float) -> Event | None:
        """The first of `lines` that came that long after `event`, before the connection ended."""
        at = bisect_left(lines, event.t + seconds, key=lambda later: later.t)
        later = lines[at] if at < len(lines) else None
        if later is None or not event.seq < later.seq < self.ended_at or later.t - event.t < seconds - 1e-6:
            return None
        return later

    def client_out_of_patience(self, event: Event, *, answer_to: Request | None = None) -> Event | None:
        """The event that shows that the client had longer than the patience after `event` and went on: a line of its
        own that came later than that, or the suite's own `waited` for the response to `answer_to`. None where that
        is not shown."""
        if answer_to is not None:
            for control in self._waits:
                if control.seq > event.seq and _is_wait_for(control.control or {}, answer_to):
                    return control
        return self._line_after(self.client_events, event, self.conversation.patience)


MOST_OF_A_WINDOW: Final = 0.8
_NO_BARRIERS: Final = ("session/prompt", "session/resume", "session/new", "session/close")


def is_unknown_notification(event: Event) -> bool:
    """Whether no version of the protocol lets a client send this notification."""
    method = str(event.message.get("method"))
    return not (
        method in CLIENT_METHODS
        or method in PROTOCOL_METHODS
        or any(entry.name == method for entry in UNSTABLE_METHODS)
    )


def look(identifier: Any) -> str:
    """What a person takes an id for: 1, 1.0 and "1" look alike, and integers that a double cannot tell apart."""
    if isinstance(identifier, float) and identifier.is_integer():
        return str(int(identifier))
    if isinstance(identifier, int) and not isinstance(identifier, bool):
        return encode(rounded(identifier)).decode().strip()
    return str(identifier).strip()


def rounded(number: int) -> int:
    """What a reader makes of an integer that keeps numbers as doubles, as many do (RFC 8259, section 6)."""
    return int(float(number)) if 2**53 < abs(number) < 2**1000 else number


def _is_wait_for(about: Mapping[str, Any], request: Request) -> bool:
    """Whether a `waited` tells of a wait for the response to this request."""
    return about.get("for") == "response" and request_key(about.get("id")) == request_key(request.id)


def _number(value: Any, otherwise: float) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else otherwise


def _object(value: Any, key: str) -> dict[str, Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}
