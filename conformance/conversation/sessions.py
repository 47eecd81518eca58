"""Who takes part and in what: connections, sessions, what each connection sees of a session, and the prompts submitted to it.

Facts with the questions that several rules ask of them. Filled by `conformance.conversation.reader`; nothing here judges.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from conformance.conversation.facts import (
    MESSAGE_KINDS,
    STANDARD_STATES,
    Message,
    ModelRequest,
    Permission,
    Replay,
    Request,
    State,
    Terminal,
    ToolCall,
    Update,
    Work,
    text_of_blocks,
)
from conformance.conversation.shapes import Shape, shapes
from conformance.conversation.span import Span
from conformance.history import Event, History

_WORD: Final = re.compile(r"[\w-]+")
QUIET: Final = 1.0
"""Seconds of silence after which, in such a recording, an agent has nothing more in hand to write."""
FOREIGN_PATIENCE: Final = 30.0
"""Seconds after which an answer counts as missing in a recording that the suite did not drive."""


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
        answered = (request for request in reversed(self.initializes) if request.succeeded and request.answered_at < seq)
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

    def controls_after(self, seq: float) -> Sequence[Event]:
        """The suite's own events of this connection after that position."""
        return Span(self.controls, bisect_right(self.controls, seq, key=lambda control: control.seq))

    def windows_after(self, seq: float, kind: str | None = None) -> Iterator[Event]:
        """The suite's windows (all kinds, or one) that began after that position."""
        for window in Span(self._windows, bisect_right(self._windows, seq, key=lambda control: control.seq)):
            about = window.control or {}
            if about.get("kind", kind) == kind or kind is None:
                if _number(about.get("began"), seq + 1) > seq:
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
        """The first request sent after that position whose response came (before that other position): the agent, having answered it,
        had written all that it owed before it. session/prompt and session/resume are no barriers: they wait for work of their own."""
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
        """The first barrier after that position that was asked on a quiet line: what the agent owed, and was about to write, had been
        written before."""
        at = bisect_right(self._quiet_barriers, seq, key=lambda request: request.seq)
        return self._quiet_barriers[at] if at < len(self._quiet_barriers) else None

    def out_of_patience(self, event: Event, *, answer_to: Request | None = None, patience: float = 0.0) -> Event | None:
        """The event that shows that patience ran out after `event` while the connection lived: the suite's own `waited` that was spent on
        what followed it, or in a foreign recording a line of the agent that came later than the patience (or that many seconds, where
        that is more). None where that is not shown."""
        for control in Span(self._waits, bisect_right(self._waits, event.seq, key=lambda control: control.seq)):
            about = control.control or {}
            if answer_to is None or (about.get("for") == "response" and about.get("id") == answer_to.id):
                if control.t - event.t >= _number(about.get("seconds"), 0.0) / 2:
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
        """The event that shows that the client had longer than the patience after `event` and went on: a line of its own that came later
        than that, or the suite's own `waited` for the response to `answer_to`. None where that is not shown."""
        for control in self._waits if answer_to is not None else ():
            about = control.control or {}
            if control.seq > event.seq and answer_to is not None:
                if about.get("for") == "response" and about.get("id") == answer_to.id:
                    return control
        return self._line_after(self.client_events, event, self.conversation.patience)


_NO_BARRIERS: Final = ("session/prompt", "session/resume", "session/new", "session/close")


def _number(value: Any, otherwise: float) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else otherwise


def _object(value: Any, key: str) -> dict[str, Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


@dataclass(eq=False)
class View:
    """One session as one connection saw it."""

    connection: Connection
    session: Session
    updates: list[Update] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)
    replays: list[Replay] = field(default_factory=list)
    messages: dict[tuple[str, str], Message] = field(default_factory=dict)  # (kind, id)
    tool_calls: dict[str, ToolCall] = field(default_factory=dict)
    terminals: dict[str, Terminal] = field(default_factory=dict)
    permissions: list[Permission] = field(default_factory=list)
    created: Request | None = None  # the session/new that made it here
    attached: Request | None = None  # the first session/resume of it here

    @property
    def id(self) -> str:
        return self.session.id

    def message_of(self, update: Update) -> Message | None:
        kind = MESSAGE_KINDS.get(update.kind)
        return self.messages.get((kind, update.message_id)) if kind and update.message_id is not None else None

    def is_replayed(self, update: Update) -> bool:
        """Whether a message update inside a resume window tells of the past: its message was known before the window, here or on
        another connection, or no prompt that was pending meanwhile explains it. Outside windows nothing is a replay."""
        if update.replay is None:
            return False
        kind = MESSAGE_KINDS.get(update.kind)
        if kind is None or update.message_id is None:
            return False
        window = update.replay
        if self.session.known_since(kind, update.message_id) < window.seq:
            return True
        if kind == "user":
            return not any(
                s.message_id == update.message_id or (s.message_id is None and s.marks(update.text))
                for s in window.pending
                if s.seq < update.seq
            )
        return not window.was_busy and not any(s.answered_at < update.seq for s in window.pending)

    def state_at(self, seq: float) -> str | None:
        """The standard state that this connection had been told of at that position."""
        for state in reversed(Span(self.states, 0, bisect_right(self.states, seq, key=lambda state: state.seq))):
            if state.value in STANDARD_STATES:
                return state.value
        return "idle" if self.created is not None else None

    def work_at(self, seq: float) -> Work | None:
        """The foreground work that was open at that position."""
        at = bisect_right(self.works, seq, key=lambda work: work.seq) - 1
        return self.works[at] if at >= 0 and seq < self.works[at].ended_at else None

    def updates_between(self, start: float, end: float) -> Sequence[Update]:
        """Updates between two positions, both left out."""
        first = bisect_right(self.updates, start, key=lambda update: update.seq)
        return Span(self.updates, first, bisect_left(self.updates, end, key=lambda update: update.seq))

    def works_after(self, seq: float) -> Sequence[Work]:
        """Works that began after that position, in order."""
        return Span(self.works, bisect_right(self.works, seq, key=lambda work: work.seq))

    def states_between(self, start: float, end: float) -> Sequence[State]:
        """State updates between two positions, both left out."""
        first = bisect_right(self.states, start, key=lambda state: state.seq)
        return Span(self.states, first, bisect_left(self.states, end, key=lambda state: state.seq))

    def replay_after(self, seq: float) -> Replay | None:
        """The first session/resume of it that was asked after that position."""
        at = bisect_right(self.replays, seq, key=lambda replay: replay.seq)
        return self.replays[at] if at < len(self.replays) else None

    def work_before(self, seq: float) -> Work | None:
        """The last work that began before that position."""
        at = bisect_left(self.works, seq, key=lambda work: work.seq) - 1
        return self.works[at] if at >= 0 else None

    @cached_property
    def command_lists(self) -> list[Update]:
        """Its available_commands_update updates."""
        return [update for update in self.updates if update.kind == "available_commands_update"]

    def first_state_after(self, seq: float) -> State | None:
        at = bisect_right(self.states, seq, key=lambda state: state.seq)
        return self.states[at] if at < len(self.states) else None


@dataclass(eq=False)
class Session:
    """One session of the agent, across all connections of the history."""

    id: str
    conversation: Conversation
    views: list[View] = field(default_factory=list)
    submissions: list[Submission] = field(default_factory=list)
    cancels: list[tuple[Connection, Event]] = field(default_factory=list)  # session/cancel
    closes: list[Request] = field(default_factory=list)
    deletes: list[Request] = field(default_factory=list)
    _known: dict[tuple[str, str], int] = field(default_factory=dict)

    def known_since(self, kind: str, message_id: str) -> float:
        """The first position, on any connection, where that message was seen or its id was returned."""
        return self._known.get((kind, message_id), float("inf"))

    def note(self, kind: str, message_id: str, seq: int) -> None:
        self._known.setdefault((kind, message_id), seq)

    def submissions_after(self, seq: float) -> Sequence[Submission]:
        """Prompts sent after that position, in order."""
        return Span(self.submissions, bisect_right(self.submissions, seq, key=lambda submission: submission.seq))

    def submissions_between(self, start: float, end: float) -> Sequence[Submission]:
        """Prompts sent between two positions, both left out."""
        first = bisect_right(self.submissions, start, key=lambda submission: submission.seq)
        return Span(self.submissions, first, bisect_left(self.submissions, end, key=lambda submission: submission.seq))

    def submission_of(self, request: Request) -> Submission | None:
        """The submission that is this request."""
        found = next(iter(self.submissions_after(request.seq - 1)), None)
        return found if found is not None and found.request is request else None

    def submission_before(self, seq: float) -> Submission | None:
        """The last prompt sent before that position."""
        at = bisect_left(self.submissions, seq, key=lambda submission: submission.seq) - 1
        return self.submissions[at] if at >= 0 else None

    def first_update_of(self, kind: str, message_id: str) -> Update | None:
        """The first update, on any connection, live or replayed, that carries that id."""
        found = [view.messages[kind, message_id].first for view in self.views if (kind, message_id) in view.messages]
        return min(found, key=lambda update: update.seq, default=None)

    @property
    def accepted(self) -> list[Submission]:
        return [submission for submission in self.submissions if submission.message_id is not None]

    @cached_property
    def stops(self) -> list[Event]:
        """session/cancel, session/close and session/delete of this session by anyone, in order."""
        events = [event for _, event in self.cancels] + [request.event for request in (*self.closes, *self.deletes)]
        return sorted(events, key=lambda event: event.seq)

    def stops_between(self, start: float, end: float) -> Sequence[Event]:
        """The stops between two positions."""
        first = bisect_right(self.stops, start, key=lambda event: event.seq)
        return Span(self.stops, first, bisect_left(self.stops, end, key=lambda event: event.seq))

    @cached_property
    def _ends(self) -> list[Event]:
        return sorted((request.event for request in (*self.closes, *self.deletes)), key=lambda event: event.seq)

    def end_after(self, seq: float) -> Event | None:
        """The first session/close or session/delete of it after that position."""
        at = bisect_right(self._ends, seq, key=lambda event: event.seq)
        return self._ends[at] if at < len(self._ends) else None

    def end_was_before(self, seq: float) -> bool:
        """Whether it was closed or deleted, by anyone, before that position."""
        return bool(self._ends) and self._ends[0].seq < seq

    @cached_property
    def creations(self) -> int:
        """How many session/new returned its id; more than one where two agents, or two lives of one, count by themselves."""
        return sum(view.created is not None for view in self.views)

    def cancels_between(self, start: float, end: float) -> Sequence[tuple[Connection, Event]]:
        """session/cancel by anyone between two positions, with the connection that sent it."""
        first = bisect_right(self.cancels, start, key=lambda cancel: cancel[1].seq)
        return Span(self.cancels, first, bisect_left(self.cancels, end, key=lambda cancel: cancel[1].seq))

    @cached_property
    def _insertions(self) -> list[Submission]:
        return sorted((s for s in self.submissions if s.inserted_at < float("inf")), key=lambda s: s.inserted_at)

    def inserted_between(self, start: float, end: float) -> Sequence[Submission]:
        """Submissions whose insertion was told between two positions, in that order."""
        first = bisect_right(self._insertions, start, key=lambda s: s.inserted_at)
        return Span(self._insertions, first, bisect_left(self._insertions, end, key=lambda s: s.inserted_at))

    @cached_property
    def notices(self) -> list[Update]:
        """Notices on all connections, in order."""
        found = (update for view in self.views for update in view.updates if update.kind == "notice")
        return sorted(found, key=lambda update: update.seq)

    def has_history_before(self, seq: float) -> bool:
        """Whether any message of it was known at that position."""
        return next(iter(self._known.values()), seq) < seq

    @cached_property
    def accepted_as(self) -> dict[str, Submission]:
        """messageId -> the first submission that was answered with it."""
        found: dict[str, Submission] = {}
        for submission in self.accepted:
            found.setdefault(submission.message_id or "", submission)
        return found

    @cached_property
    def _by_text(self) -> dict[str, Submission | None]:
        found: dict[str, Submission | None] = {}
        for submission in self.submissions:
            texts = {submission.text.strip(), *(m.live_text.strip() for m in submission.own_messages)} - {""}
            for text in texts:
                found[text] = submission if found.get(text, submission) is submission and submission.nonce is not None else None
        return found

    def told_by(self, text: str) -> Submission | None:
        """The only submission that a user message with this whole text, as sent or as reported live, can be."""
        return self._by_text.get(text.strip())

    @cached_property
    def calls_perhaps_approved(self) -> set[str]:
        """Tool calls that some permission request, on any connection, approved or may still approve."""
        permissions = (permission for view in self.views for permission in view.permissions)
        return {p.tool_call_id for p in permissions if p.tool_call_id is not None and (p.is_approved or p.answer is None)}

    @cached_property
    def stop_reasons(self) -> dict[str, dict[View, int]]:
        """Stop reason -> where each connection was first told of it."""
        found: dict[str, dict[View, int]] = {}
        for view in self.views:
            for state in view.states:
                if state.stop_reason is not None:
                    found.setdefault(state.stop_reason, {}).setdefault(view, state.seq)
        return found

    @cached_property
    def user_messages(self) -> list[Message]:
        return [message for view in self.views for (kind, _), message in view.messages.items() if kind == "user"]

    @cached_property
    def _by_nonce(self) -> dict[str, list[Message]]:
        """Nonce -> user messages whose live text shows it. A suite's nonce is one word of the text, a foreign one is all of it, as is the
        text of the first of several submissions that have the same."""
        words = {s.nonce for s in self.submissions if s.nonce is not None and s.has_own_nonce}
        whole = {s.nonce for s in self.submissions if s.nonce is not None and not s.has_own_nonce}
        whole |= {s.text.strip() for s in self.submissions if s.nonce is None and s.alone_until > s.seq} - {""}
        found: dict[str, list[Message]] = {}
        for message in self.user_messages:
            text = message.live_text
            for word in words.intersection(_WORD.findall(text)) if words else ():
                found.setdefault(word, []).append(message)
            if (bare := text.strip()) in whole:
                found.setdefault(bare, []).append(message)
        return found

    def messages_with(self, nonce: str) -> list[Message]:
        """User messages, on any connection, whose live text shows the nonce."""
        return self._by_nonce.get(nonce, [])


@dataclass(eq=False)
class Submission:
    """One session/prompt: what was sent, what answered it, and how the tester recognises the message that it became."""

    request: Request
    session: Session
    text: str
    nonce: str | None = None  # by the suite, or the text itself where it is unique in foreign traffic (settled after the pass)
    has_own_nonce: bool = False  # a token that stands in no other text: found anywhere in a message it marks it
    alias: str | None = None
    trigger: str | None = None  # name of the profile's trigger that it is
    refusable: str | None = None  # why the agent may or must refuse it for its own sake
    alone_until: float = float("inf")  # position of the next submission with the same text; -1 where an earlier one had it

    @property
    def seq(self) -> int:
        return self.request.seq

    @property
    def response(self) -> Event | None:
        return self.request.response

    @property
    def answered_at(self) -> float:
        return self.request.answered_at

    @property
    def message_id(self) -> str | None:
        """The id that a success response returned; None where there is none or it is no string."""
        result = self.request.result if self.request.succeeded else None
        identifier = result.get("messageId") if isinstance(result, dict) else None
        return identifier if isinstance(identifier, str) else None

    @property
    def blocks(self) -> list[Any]:
        prompt = self.request.params.get("prompt") if isinstance(self.request.params, dict) else None
        return prompt if isinstance(prompt, list) else []

    @property
    def view(self) -> View | None:
        """What the submitter's own connection sees of the session."""
        return self.request.connection.views.get(self.session.id)

    def marks(self, text: str) -> bool:
        """Whether `text`, that of a user message, shows that the message is this submission."""
        if self.nonce is None:
            return False
        return self.nonce in text if self.has_own_nonce else text.strip() == self.nonce

    @cached_property
    def marked(self) -> list[Message]:
        """User messages, on any connection, whose live text shows this submission and that came after it. Empty where another
        submission has the same text."""
        if self.nonce is None:
            return []
        return [message for message in self.session.messages_with(self.nonce) if message.live and message.live[0].seq > self.seq]

    def is_whole(self, message: Message) -> bool:
        """Whether the message's live text is the submission's text and nothing more: not one that quotes it."""
        return message.live_text.strip() == self.text.strip()

    @cached_property
    def marked_elsewhere(self) -> Message | None:
        """The message under another id than the returned one that this submission became; None where it has the returned id, or where
        that is not certain."""
        if self.message_id is None or any(m.id == self.message_id for m in self.marked):
            return None
        if any(update.is_chunk or update.sets_content for update in self.reports):
            return None
        return next((m for m in self.marked if m.id != self.message_id and self.is_whole(m)), None)

    @property
    def is_local_command(self) -> bool:
        """A prompt that the profile names as a command which the agent handles by itself."""
        return self.trigger in ("local-command", "retained-command")

    @property
    def own_messages(self) -> list[Message]:
        """The messages under its returned id, one for each connection that was told of it."""
        key = ("user", self.message_id or "")
        return [view.messages[key] for view in self.session.views if key in view.messages]

    @cached_property
    def reports(self) -> list[Update]:
        """All live user-message updates under the returned id, on any connection, in order of arrival."""
        if self.message_id is None:
            return []
        same = [view.messages.get(("user", self.message_id)) for view in self.session.views]
        found = (u for message in same if message is not None for u in message.live if u.seq > self.seq)
        return sorted(found, key=lambda update: update.seq)

    @cached_property
    def report(self) -> Update | None:
        """The first live update that reports this submission: under its id or, where no id was returned, by its mark."""
        found = self.reports or [update for message in self.marked or self._alone for update in message.live]
        return min(found, key=lambda update: update.seq, default=None)

    @property
    def _alone(self) -> list[Message]:
        """Messages of its text that were reported while no other submission had it."""
        if self.nonce is not None or self.session.conversation.is_driven or self.alone_until < self.seq:
            return []
        found = self.session.messages_with(self.text.strip())
        return [m for m in found if m.live and self.seq < m.live[0].seq < self.alone_until]

    @property
    def inserted_at(self) -> float:
        """The first position that tells that its message is in the conversation: its report or a success; infinity where nothing does."""
        reported = self.report.seq if self.report is not None else float("inf")
        return min(reported, self.answered_at if self.request.succeeded else float("inf"))

    @property
    def work(self) -> Work | None:
        """The work on its own connection that was open when it was inserted, or else the first that began after it was sent."""
        if self.view is None:
            return None
        joined = self.view.work_at(self.inserted_at) if self.inserted_at < float("inf") else None
        return joined or next(iter(self.view.works_after(self.seq)), None)

    @property
    def cancels(self) -> list[Event]:
        """What could have cancelled it while it was pending: $/cancel_request for it, session/cancel and close of its session."""
        stops = self.session.stops_between(self.seq, self.answered_at)
        return sorted([*self.request.cancels, *stops], key=lambda event: event.seq)

    @property
    def model_requests(self) -> list[ModelRequest]:
        """What the scripted model was asked for this prompt, side requests left out."""
        return self.session.conversation.model_requests_for.get(self.nonce, []) if self.nonce is not None else []


@dataclass(eq=False)
class Conversation:
    """The whole history in the protocol's terms."""

    history: History
    connections: dict[str, Connection] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    model_requests: list[ModelRequest] = field(default_factory=list)
    profile: dict[str, Any] = field(default_factory=dict)
    controls: list[Event] = field(default_factory=list)

    @property
    def is_driven(self) -> bool:
        """Whether the suite drove it (it says so in a `profile` event), and so tells each wait that ran out."""
        return bool(self.profile)

    @property
    def patience(self) -> float:
        """Seconds."""
        value = self.profile.get("patience")
        return float(value) if isinstance(value, int | float) else FOREIGN_PATIENCE

    @cached_property
    def model_requests_for(self) -> dict[str, list[ModelRequest]]:
        """Nonce -> the model requests for that prompt, side requests left out."""
        found: dict[str, list[ModelRequest]] = {}
        for request in self.model_requests:
            if request.nonce is not None and not request.is_side:
                found.setdefault(request.nonce, []).append(request)
        return found

    @property
    def has_scripted_client(self) -> bool:
        """Whether the client is the suite's own, which misbehaves on purpose: nobody judges it."""
        return self.is_driven and self.profile.get("target", "agent") == "agent"

    @cached_property
    def effects(self) -> list[Event]:
        """The suite's sightings of what a tool did (`tool-effect`)."""
        return [control for control in self.controls if control.name == "tool-effect"]

    @property
    def triggers(self) -> dict[str, str]:
        triggers = self.profile.get("triggers")
        return triggers if isinstance(triggers, dict) else {}

    @property
    def views(self) -> Iterator[View]:
        for connection in self.connections.values():
            yield from connection.views.values()

    @property
    def submissions(self) -> Iterator[Submission]:
        for session in self.sessions.values():
            yield from session.submissions

    def each(self, scope: type[Any]) -> Iterator[Any]:
        """All things of one of the conversation's types, in order."""
        if scope is Conversation:
            yield self
        elif scope is Connection:
            yield from self.connections.values()
        elif scope is Session:
            yield from self.sessions.values()
        elif scope is View:
            yield from self.views
        elif scope is Submission:
            yield from self.submissions
        elif scope is Work:
            yield from (work for view in self.views for work in view.works)
        elif scope is Replay:
            yield from (replay for view in self.views for replay in view.replays)
        elif scope is Message:
            yield from (message for view in self.views for message in view.messages.values())
        elif scope is ToolCall:
            yield from (call for view in self.views for call in view.tool_calls.values())
        elif scope is Terminal:
            yield from (terminal for view in self.views for terminal in view.terminals.values())
        elif scope is Permission:
            yield from (permission for view in self.views for permission in view.permissions)
        elif scope is Request:
            yield from (request for connection in self.connections.values() for request in connection.requests)
        else:
            raise TypeError(f"no rule can be about {scope.__name__}")


def prompt_text(params: Any) -> str:
    """The text of a session/prompt's blocks."""
    return text_of_blocks(params.get("prompt")) if isinstance(params, dict) else ""
