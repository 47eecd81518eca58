"""What went over one life of a transport, in order, and what lies between two positions of it. Meaning is added by
Connection."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from conformance.conversation.facts import Request
from conformance.conversation.span import Span, after, before, between, first_after
from conformance.history import Event
from conformance.wire import Kind, encode, read_envelope, request_key

if TYPE_CHECKING:
    from conformance.conversation.whole import Conversation

MALFORMED: Final = (Kind.NOT_JSON, Kind.NOT_UTF8, Kind.TOO_LONG, Kind.NOT_OBJECT, Kind.NOT_JSONRPC, Kind.ARRAY)
PIECES: Final = (b"jsonrpc", b"sessionUpdate")
"""What stands in a line that was to be a message, however it was spoiled."""
MOST_ALIKE: Final = 1000  # requests whose ids look alike that are looked at


@dataclass(eq=False)
class Traffic:
    """The lines of one life of a transport."""

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
    by_id: dict[tuple[str, str, Any], list[Request]] = field(default_factory=dict)  # (sender, type, id) -> its requests

    @property
    def ended_at(self) -> float:
        return self.ended.seq if self.ended is not None else float("inf")

    @property
    def died_at(self) -> float:
        """Where its own process was gone, with all that it did; infinity where that is not told, and for a client of a
        server."""
        started = self.started.control if self.started is not None else None
        is_process = started is not None and started.get("transport") == "stdio"
        return self.exited.seq if self.exited is not None and is_process else float("inf")

    # -- lines

    def last_sign_after(self, seq: float) -> Event | None:
        """The first line of the agent after that position: it lived on."""
        return first_after(self.agent_events, seq)

    def last_line_before(self, seq: float) -> Event | None:
        """The last line of the agent before that position."""
        return before(self.agent_events, seq)

    def last_client_line_before(self, seq: float) -> Event | None:
        """The last line of the client before that position."""
        return before(self.client_events, seq)

    def agent_events_between(self, start: float, end: float) -> Sequence[Event]:
        """Lines of the agent between two positions, both left out."""
        return between(self.agent_events, start, end)

    def notification_before(self, seq: float) -> Event | None:
        """The client's last notification before that position."""
        return before(self.notifications, seq)

    def controls_after(self, seq: float) -> Sequence[Event]:
        """The suite's own events of this connection after that position."""
        return after(self.controls, seq)

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
        return between(self.malformed_lines, start, end)

    @cached_property
    def malformed_ids(self) -> dict[tuple[str, Any], int]:
        """Key of an id that stands in a malformed line of the client -> where it first did."""
        found: dict[tuple[str, Any], int] = {}
        for event in self.malformed_lines:
            identifier = event.message.get("id") if isinstance(event.message, dict) else None
            found.setdefault(request_key(identifier), event.seq)
        return found

    @cached_property
    def array_ids(self) -> dict[tuple[str, Any], int]:
        """Key of an id that an item of an array of the client has -> where it first did: an agent may answer each."""
        return _first_ids(event for event in self.malformed_lines if isinstance(event.message, list))

    @cached_property
    def lenient_ids(self) -> dict[tuple[str, Any], int]:
        """Key of an id that a line of the client which is no UTF-8 has for a decoder that puts replacement characters
        in -> where it first did."""
        found: dict[tuple[str, Any], int] = {}
        for event in self.malformed_lines:
            envelope = event.envelope
            if envelope is not None and envelope.kind is Kind.NOT_UTF8 and envelope.raw is not None:
                read = read_envelope(envelope.raw.decode("utf-8", "replace").encode())
                if read.kind is Kind.REQUEST:
                    found.setdefault(request_key(read.message.get("id")), event.seq)
        return found

    @cached_property
    def _agent_malformed_lines(self) -> list[Event]:
        return [e for e in self.agent_events if e.envelope is not None and e.envelope.kind in MALFORMED]

    @cached_property
    def agent_malformed_ids(self) -> dict[tuple[str, Any], int]:
        """Key of an id that stands in a malformed line of the agent, or in an item of its array -> where it first
        did."""
        return _first_ids(self._agent_malformed_lines)

    def agent_malformed_between(self, start: float, end: float) -> Sequence[Event]:
        """Lines of the agent that are no message at all, between two positions, both left out."""
        return between(self._agent_malformed_lines, start, end)

    @cached_property
    def _unread_lines(self) -> list[Event]:
        return [event for event in self._agent_malformed_lines if _holds_a_piece(event)]

    def unread_between(self, start: float, end: float) -> Sequence[Event]:
        """Lines of the agent between two positions, both left out, that nobody can read and that hold a message, some
        of one, or more than one: what they told is not known to the conversation."""
        return between(self._unread_lines, start, end)

    # -- requests

    def requests_after(self, seq: float) -> Sequence[Request]:
        """Requests of the client after that position."""
        return after(self.requests, seq)

    def agent_requests_between(self, start: float, end: float) -> Sequence[Request]:
        """Requests of the agent sent between two positions, both left out."""
        return between(self.agent_requests, start, end)

    @cached_property
    def requests_of(self) -> dict[str, list[Request]]:
        """Session id -> the client's requests that name that session, in order."""
        return _by_session(self.requests)

    @cached_property
    def agent_requests_of(self) -> dict[str, list[Request]]:
        """Session id -> the agent's requests that name that session, in order."""
        return _by_session(self.agent_requests)

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
    def _answers_of_client(self) -> list[float]:
        return sorted(request.answered_at for request in self.agent_requests)

    def waits_for_client_at(self, seq: float) -> bool:
        """Whether a request of the agent was unanswered at that position."""
        return _is_one_pending(self.agent_requests, self._answers_of_client, seq)

    @cached_property
    def _answers_of_agent(self) -> list[float]:
        return sorted(request.answered_at for request in self.requests)

    def waits_for_agent_at(self, seq: float) -> bool:
        """Whether a request of the client was unanswered at that position."""
        return _is_one_pending(self.requests, self._answers_of_agent, seq)

    @cached_property
    def _by_look(self) -> dict[str, list[Request]]:
        found: dict[str, list[Request]] = {}
        for request in self.requests:
            found.setdefault(look(request.id), []).append(request)
        return found

    def pending_like(self, identifier: Any, seq: float) -> Request | None:
        """A request pending at that position whose id looks like that one and differs in its JSON type: 1 and "1", 1
        and 1.0."""
        for request in self._by_look.get(look(identifier), [])[:MOST_ALIKE]:
            if request.seq < seq < request.answered_at:
                return request
        return None

    @cached_property
    def answers_to_alike(self) -> list[tuple[Event, Request]]:
        """Second responses under an id that was answered before, each with the request of like id that it must be meant
        for: that was pending, and nothing else ever answered it."""
        again = (event for request in self.requests for event in request.later_responses)
        found = ((event, self.pending_like(event.message.get("id"), event.seq)) for event in again)
        return [(event, like) for event, like in found if like is not None and like.response is None]

    # -- responses to nothing

    @cached_property
    def nameless_responses(self) -> list[Event]:
        """Responses of the agent with the id null, or with none, as where an id that is undefined is left out."""
        other = (Kind.NOTIFICATION, Kind.REQUEST)
        lines = (e for e in self.agent_events if e.envelope is None or e.envelope.kind not in other)
        return [event for event in lines if names_no_request(event.message)]

    def strays_between(self, start: float, end: float) -> Sequence[Event]:
        """Responses of the agent that match no request, between two positions, both left out."""
        return between(self.strays, start, end)

    @cached_property
    def _strays_by_id(self) -> dict[tuple[str, Any], list[Event]]:
        found: dict[tuple[str, Any], list[Event]] = {}
        for event in self.strays:
            found.setdefault(request_key(event.message.get("id")), []).append(event)
        return found

    @cached_property
    def _last_stray_like(self) -> dict[str, int]:
        return {look(event.message.get("id")): event.seq for event in self.strays}

    def is_answered_alike(self, request: Request) -> bool:
        """Whether a response that matches no request, after this one, has an id that looks like its id."""
        return self._last_stray_like.get(look(request.id), -1) > request.seq

    def strays_with(self, identifier: Any, seq: float) -> Sequence[Event]:
        """Responses of the agent with that id that match no request, after that position."""
        return after(self._strays_by_id.get(request_key(identifier), []), seq)


def pending_with(requests: list[Request], seq: float) -> Sequence[Request]:
    """Those of the requests with one id that were sent before that position, the last ones, and pending then."""
    at = bisect_left(requests, seq, key=lambda request: request.seq)
    return [request for request in Span(requests, max(0, at - MOST_ALIKE), at) if request.answered_at > seq]


def look(identifier: Any) -> str:
    """What a person takes an id for: 1, 1.0, "1" and "01" look alike, and integers that a double cannot tell apart."""
    if isinstance(identifier, float) and identifier.is_integer():
        return str(int(identifier))
    if isinstance(identifier, int) and not isinstance(identifier, bool):
        return encode(rounded(identifier)).decode().strip()
    text = str(identifier).strip()
    return text.lstrip("0") or "0" if text.isdecimal() else text


def rounded(number: int) -> int:
    """What a reader makes of an integer that keeps numbers as doubles, as many do (RFC 8259, section 6)."""
    return int(float(number)) if 2**53 < abs(number) < 2**1000 else number


def names_no_request(message: Any) -> bool:
    """Whether it is a response with the id null, or with none."""
    is_response = isinstance(message, dict) and "method" not in message and ("result" in message or "error" in message)
    return is_response and message.get("id") is None


def is_empty_response(message: Any) -> bool:
    """An object with an id and neither method, result nor error: it can only be meant as a response."""
    return isinstance(message, dict) and "id" in message and "method" not in message


def _holds_a_piece(event: Event) -> bool:
    envelope = event.envelope
    if envelope is None or envelope.kind in (Kind.NOT_OBJECT, Kind.NOT_JSONRPC):
        return False
    if envelope.kind in (Kind.ARRAY, Kind.TOO_LONG):
        return True
    return any(piece in (envelope.raw or b"") for piece in PIECES)


def _first_ids(events: Iterable[Event]) -> dict[tuple[str, Any], int]:
    """Key of an id that stands in a line, or in an item of an array -> where it first did."""
    found: dict[tuple[str, Any], int] = {}
    for event in events:
        for item in event.message if isinstance(event.message, list) else [event.message]:
            if isinstance(item, dict) and "id" in item:
                found.setdefault(request_key(item["id"]), event.seq)
    return found


def _is_one_pending(requests: list[Request], answers: list[float], seq: float) -> bool:
    """Whether one of the requests, in order, whose answers came there, in order, was unanswered at that position."""
    return bisect_left(requests, seq, key=lambda request: request.seq) > bisect_right(answers, seq)


def _by_session(requests: list[Request]) -> dict[str, list[Request]]:
    found: dict[str, list[Request]] = {}
    for request in requests:
        if request.session_id is not None:
            found.setdefault(request.session_id, []).append(request)
    return found
