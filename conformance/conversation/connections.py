"""One life of a transport: what was agreed on, and how long either side was waited for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from conformance.conversation.facts import Request, whole_number
from conformance.conversation.shapes import Shape, shapes
from conformance.conversation.span import after, between, first_after
from conformance.conversation.traffic import Traffic
from conformance.history import Event
from conformance.protocol.methods import CLIENT_METHODS, PROTOCOL_METHODS, UNSTABLE_METHODS
from conformance.wire import Kind, request_key

if TYPE_CHECKING:
    from conformance.conversation.views import View

QUIET: Final = 1.0
"""Seconds of silence after which, in a recording that the suite did not drive, an agent has nothing more in hand to
write."""


@dataclass(eq=False)
class Connection(Traffic):
    """One life of a transport: its traffic, and what it means."""

    views: dict[str, View] = field(default_factory=dict)
    known_sessions: dict[str, int] = field(default_factory=dict)  # sessionId -> position where it became known here

    @cached_property
    def initializes(self) -> list[Request]:
        return [request for request in self.requests if request.method == "initialize"]

    @cached_property
    def shows_its_beginning(self) -> bool:
        """Whether the history has all lines from the first initialize on: there is one, and in a recording nothing
        before it shows that the agent had been in use already."""
        if not self.initializes or self.started is not None or self.conversation.is_driven:
            return bool(self.initializes)
        first = self.initializes[0].seq
        told = (e.envelope for e in self.agent_events_between(-1, first) if e.envelope is not None)
        asked = any(request.session_id is not None for request in between(self.requests, -1, first))
        return not asked and not any(
            envelope.kind in _SAYS_MORE or envelope.message.get("method") == "session/update"
            for envelope in told
            if envelope.kind in (*_SAYS_MORE, Kind.NOTIFICATION)
        )

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
        return whole_number(result.get("protocolVersion")) if isinstance(result, dict) else None

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
        return isinstance(self._marker(path), dict)

    def leaves_out(self, path: str) -> bool:
        """Whether the agent claims the capability in no form: what it says with a wrong marker (`true`), it says."""
        return self._marker(path) in (None, False)

    def _marker(self, path: str) -> Any:
        here: Any = self.capabilities
        for name in path.split("."):
            here = here.get(name) if isinstance(here, dict) else None
        return here

    @cached_property
    def agent_shapes(self) -> list[Shape]:
        """Where the agent's params and results depart from the schema."""
        return shapes("agent", self.agent_requests, self.agent_notifications, self.requests)

    @cached_property
    def client_shapes(self) -> list[Shape]:
        """Where the client's params and results depart from the schema."""
        return shapes("client", self.requests, self.notifications, self.agent_requests)

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
        found = first_after(self.provocations, start)
        return found if found is not None and found.seq <= end else None

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

    def may_answer_its_own(self, response: Event) -> bool:
        """Whether a response that no request waits for may be meant for something else that this client sent: a line
        or an item of an array with that id, a cancel of such a request, or a pending request whose id looks alike."""
        identifier = response.message.get("id")
        key = request_key(identifier)
        sent = (self.malformed_ids, self.array_ids, self.lenient_ids, self.cancelled_ids)
        is_named = any(ids.get(key, response.seq) < response.seq for ids in sent)
        return is_named or self.pending_like(identifier, response.seq) is not None

    @cached_property
    def interventions(self) -> list[Event]:
        """What of this client may have stopped work of any session, session/cancel and its like apart, in order: a
        $/cancel_request, a method of the agent's own, an answer to nothing that was asked, and what means a stop though
        it is said wrongly."""
        calls = [r.event for r in self.requests if r.method.startswith(MAY_STOP)]
        said = [event for event in self.notifications if _may_be_a_stop(event.message)]
        return sorted([*calls, *said, *self.client_strays], key=lambda event: event.seq)

    @cached_property
    def refusals_of(self) -> dict[str | None, list[Event]]:
        """Session id -> this client's answers to the agent's requests about it that are no approval, in order; None for
        what is about no session."""
        found: dict[str | None, list[Event]] = {}
        for request in self.agent_requests:
            if request.response is not None and not is_approval(request):
                found.setdefault(request.session_id, []).append(request.response)
        return {about: sorted(events, key=lambda event: event.seq) for about, events in found.items()}

    def windows_after(self, seq: float, kind: str | None = None) -> Iterator[Event]:
        """The suite's windows (all kinds, or one) that began after that position, or most of which passed after it."""
        events = self.conversation.history.events
        since = events[int(seq)].t if 0 <= seq < len(events) else 0.0
        for window in after(self._windows, seq):
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

    def waits_after(self, seq: float) -> Sequence[Event]:
        """The suite's waits here that ran out after that position."""
        return after(self._waits, seq)

    def barrier_after(self, seq: float, before: float = float("inf")) -> Request | None:
        """The first request sent after that position whose response came (before that other position): the agent,
        having answered it, had written all that it owed before it. session/prompt and session/resume are no
        barriers: they wait for work of their own."""
        asked = takewhile(lambda request: request.seq < before, after(self._barriers, seq))
        return next((request for request in asked if request.answered_at < before), None)

    @cached_property
    def _barriers(self) -> list[Request]:
        return [r for r in self.requests if r.response is not None and r.method not in _NO_BARRIERS]

    @cached_property
    def _quiet_barriers(self) -> list[Request]:
        """Requests that were answered and had been sent to an agent that had written nothing for a while."""
        found = []
        for request in self._barriers:
            last = self.last_line_before(request.seq)
            if last is None or request.event.t - last.t >= QUIET:
                found.append(request)
        return found

    def quiet_barrier_after(self, seq: float) -> Request | None:
        """The first barrier after that position that was asked on a quiet line: what the agent owed, and was about
        to write, had been written before."""
        return first_after(self._quiet_barriers, seq)

    def out_of_patience(self, event: Event, *, answer_to: Request | None = None, patience: float = 0.0) -> Event | None:
        """The event that shows that patience ran out after `event` while the connection lived: the suite's own
        `waited` that was spent on what followed it, or in a foreign recording a line of the agent that came later
        than the patience (or that many seconds, where that is more). None where that is not shown, and where
        something else may be the response that is waited for."""
        if answer_to is not None and self.is_answered_alike(answer_to):
            return None
        for control in after(self._waits, event.seq):
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


def _may_be_a_stop(notification: dict[str, Any]) -> bool:
    """Whether a notification may be meant to stop work: a cancel, but one that names its session, which is looked for
    where it belongs; or a request that lacks its id."""
    method, params = str(notification.get("method")), notification.get("params")
    if method == "session/cancel":
        return not (isinstance(params, dict) and isinstance(params.get("sessionId"), str))
    return method.startswith(("_", "$/cancel_request")) or method in CLIENT_METHODS


_SAYS_MORE: Final = (Kind.REQUEST, Kind.RESULT, Kind.ERROR)
"""Lines that no agent writes to a client that has not initialized."""
MOST_OF_A_WINDOW: Final = 0.8
MAY_STOP: Final = (
    "_",
    "$/cancel_request",
    "auth/logout",
    "session/archive",
    "session/cancel",
    "session/set_config_option",
    "terminal/",
    "tool_call/",
)
"""How methods begin whose request may, in an agent's own way, stop work; a cancel that is sent as a request too."""
_NO_BARRIERS: Final = ("session/prompt", "session/resume", "session/new", "session/close")


def is_approval(request: Request) -> bool:
    """Whether it is a permission request whose answer surely tells to go on."""
    if request.method != "session/request_permission" or not isinstance(request.result, dict):
        return False
    outcome, options = (
        request.result.get("outcome"),
        request.params.get("options") if isinstance(request.params, dict) else None,
    )
    if not isinstance(outcome, dict) or not isinstance(options, list):
        return False
    chosen = [o for o in options if isinstance(o, dict) and o.get("optionId") == outcome.get("optionId")]
    return bool(chosen) and chosen[0].get("kind") in ("allow_once", "allow_always")


def is_unknown_notification(event: Event) -> bool:
    """Whether no version of the protocol lets a client send this notification."""
    method = str(event.message.get("method"))
    return not (
        method in CLIENT_METHODS
        or method in PROTOCOL_METHODS
        or any(entry.name == method for entry in UNSTABLE_METHODS)
    )


def _is_wait_for(about: Mapping[str, Any], request: Request) -> bool:
    """Whether a `waited` tells of a wait for the response to this request."""
    return about.get("for") == "response" and request_key(about.get("id")) == request_key(request.id)


def _number(value: Any, otherwise: float) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else otherwise


def _object(value: Any, key: str) -> dict[str, Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}
