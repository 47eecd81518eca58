"""The one linear pass that reads a history as a conversation.

Matches responses to requests by connection, sender and id; follows each session as each connection sees it; keeps what
the suite says of its own doing. Never raises on what an agent wrote: malformed parts are simply not understood here
(the wire rules judge them).
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from conformance.conversation.calls import Permission, Terminal, ToolCall, ToolStep
from conformance.conversation.connections import Connection
from conformance.conversation.facts import (
    BUSY,
    MESSAGE_KINDS,
    STANDARD_STATES,
    Message,
    Replay,
    Request,
    State,
    Update,
    Work,
)
from conformance.conversation.model_requests import ModelRequest
from conformance.conversation.sessions import Session
from conformance.conversation.submissions import Submission, prompt_text
from conformance.conversation.traffic import is_empty_response
from conformance.conversation.views import View
from conformance.conversation.whole import Conversation
from conformance.history import Event, History
from conformance.wire import Kind, request_key

_ENDS = ("closed", "cut", "disconnected", "exited")


def read(history: History) -> Conversation:
    """The conversation of a history, in time and memory linear in its length."""
    reader = _Reader(Conversation(history))
    for event in history.events:
        if event.dir == "control":
            reader.control(event)
        else:
            reader.line(event)
    reader.settle()
    return reader.conversation


@dataclass(slots=True)
class _Open:
    """What is going on in a view while it is read."""

    state: str | None = None
    work: Work | None = None
    replays: list[Replay] = field(default_factory=list)


class _Reader:
    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self._open: dict[View, _Open] = {}
        self._marks: dict[tuple[str, Any], dict[str, Any]] = {}  # (connection, id key) -> the suite's `submits`
        self._models: dict[int, ModelRequest] = {}
        self._unanswered: dict[
            tuple[str, str, str, Any], deque[Request]
        ] = {}  # (connection, sender, id key) -> its pending requests
        self._pending: dict[Session, dict[Request, Submission]] = {}  # prompts not answered yet
        self._unreadable: dict[str, deque[int]] = {}  # connection -> lines whose answer may name no id
        self._working: Counter[Session] = Counter()  # how many views have work open

    # -- the suite's own events

    def control(self, event: Event) -> None:
        about = event.control or {}
        conversation = self.conversation
        conversation.controls.append(event)
        if event.conn:
            self._connection(event.conn).controls.append(event)
        match event.name:
            case "profile":
                conversation.profile = dict(about)
            case "started":
                self._connection(event.conn).started = event
            case "submits":
                self._marks[event.conn, request_key(about.get("id"))] = dict(about)
            case "model-request":
                request = ModelRequest(
                    event,
                    _number(about),
                    _text(about.get("nonce")),
                    _text(about.get("group")),
                    about.get("side") is True,
                    about.get("last_user") is True,
                    _text(about.get("tail")),
                )
                self._models[request.number] = request
                conversation.model_requests.append(request)
            case "model-held" | "model-released" | "model-answered":
                if (known := self._models.get(_number(about))) is not None:
                    setattr(known, event.name.removeprefix("model-"), event)
            case name if name in _ENDS:
                connection = self._connection(event.conn)
                connection.ended = connection.ended or event
                if name == "exited":
                    connection.exited = event

    # -- the wire

    def line(self, event: Event) -> None:
        connection = self._connection(event.conn)
        from_agent = event.dir == "agent"
        (connection.agent_events if from_agent else connection.client_events).append(event)
        envelope = event.envelope
        if envelope is None:
            return
        kind, message = envelope.kind, envelope.message
        if not from_agent and (kind is Kind.ARRAY or (envelope.flaws and kind is not Kind.NOTIFICATION)):
            self._unreadable.setdefault(event.conn, deque()).append(event.seq)
        if kind is Kind.NOTIFICATION:
            method, params = message.get("method"), message.get("params")
            if from_agent:
                if method == "session/update":
                    self._update(connection, event, params)
                connection.agent_notifications.append(event)
            else:
                connection.notifications.append(event)
                if method == "session/cancel" and (session := self._session_of(params)) is not None:
                    session.cancels.append((connection, event))
            if method == "$/cancel_request":
                self._cancel_request(connection, event, params)
        elif kind in (Kind.RESULT, Kind.ERROR) or self._is_meant_as_response(connection, event):
            self._response(connection, event, message.get("id"))
        elif kind is Kind.REQUEST:
            self._request(connection, event, message)

    def _is_meant_as_response(self, connection: Connection, event: Event) -> bool:
        """A line with an id and nothing else, or a pending request itself to which the outcome was added."""
        message, sender = event.message, "client" if event.dir == "agent" else "agent"
        if not isinstance(message, dict) or ("result" not in message and "error" not in message):
            return is_empty_response(message)
        pending = self._unanswered.get((connection.name, sender, *request_key(message.get("id"))), ())
        return any(request.method == message.get("method") for request in pending)

    def _request(self, connection: Connection, event: Event, message: dict[str, Any]) -> None:
        by_agent = event.dir == "agent"
        sender = "agent" if by_agent else "client"
        request = Request(
            event,
            connection,
            message.get("id"),
            str(message.get("method")),
            message.get("params"),
        )
        same_id = connection.by_id.setdefault((sender, *request_key(request.id)), [])
        unanswered = self._unanswered.setdefault((connection.name, sender, *request_key(request.id)), deque())
        if unanswered:
            request.shares_id = True
            unanswered[-1].unclear_since = min(unanswered[-1].unclear_since, request.seq)
            request.unclear_since = request.seq
        unanswered.append(request)
        same_id.append(request)
        (connection.agent_requests if by_agent else connection.requests).append(request)
        session = self._session_of(request.params)
        if by_agent:
            if request.method == "session/request_permission" and session is not None:
                self._permission(connection, session, request)
            return
        if session is None:
            return
        match request.method:
            case "session/prompt":
                self._submission(connection, session, request)
            case "session/resume":
                view = self._view(connection, session)
                replay = Replay(request, view, was_busy=self._working[session] > 0)
                replay.unanswered = list(self._pending.get(session, {}).values())
                view.replays.append(replay)
                self._now(view).replays.append(replay)
                if view.attached is None and view.created is None and not view.updates:
                    view.attached = request
                connection.known_sessions.setdefault(session.id, event.seq)
            case "session/close":
                session.closes.append(request)
            case "session/delete":
                session.deletes.append(request)

    def _submission(self, connection: Connection, session: Session, request: Request) -> None:
        submission = Submission(request, session, prompt_text(request.params))
        mark = self._marks.pop((connection.name, request_key(request.id)), None)
        if mark is not None:
            submission.nonce = _text(mark.get("nonce"))
            submission.has_own_nonce = submission.nonce is not None
            submission.alias = _text(mark.get("alias"))
            submission.trigger = _text(mark.get("trigger"))
            submission.refusable = _text(mark.get("refusable"))
        session.submissions.append(submission)
        self._pending.setdefault(session, {})[request] = submission

    def _response(self, connection: Connection, event: Event, identifier: Any) -> None:
        sender = "client" if event.dir == "agent" else "agent"
        same_id = connection.by_id.get((sender, *request_key(identifier)))
        if not same_id:
            (connection.strays if event.dir == "agent" else connection.client_strays).append(event)
            if event.dir == "agent":
                self._stray_session(connection, event)
                if identifier is None:
                    self._refused(connection, event)
            return
        unanswered = self._unanswered[connection.name, sender, *request_key(identifier)]
        if not unanswered:
            same_id[-1].later_responses.append(event)
            return
        request = unanswered.popleft()
        request.response = event
        if event.dir == "agent" and request.seq in self._unreadable.get(connection.name, ()):
            self._unreadable[connection.name].remove(request.seq)
        if event.dir != "agent":
            return
        if request.method == "session/new" and request.succeeded:
            self._created(connection, request)
        elif request.method == "session/resume" and request.session_id is not None:
            now = self._now(self._view(connection, self._session(request.session_id)))
            now.replays = [replay for replay in now.replays if replay.request is not request]
        elif request.method == "session/prompt" and request.session_id is not None:
            session = self._session(request.session_id)
            self._pending.get(session, {}).pop(request, None)
            result = request.result if request.succeeded else None
            if isinstance(result, dict) and isinstance(identifier := result.get("messageId"), str):
                session.note("user", identifier, event.seq)

    def _refused(self, connection: Connection, event: Event) -> None:
        """An answer to nobody is one to the first line that is no valid message; if that is a resume, it ends."""
        waiting = self._unreadable.get(connection.name)
        line = waiting.popleft() if waiting else None
        for view in connection.views.values() if line is not None else ():
            now = self._now(view)
            for replay in now.replays:
                if replay.seq == line:
                    replay.refused = event
            now.replays = [replay for replay in now.replays if replay.refused is None]

    def _created(self, connection: Connection, request: Request) -> None:
        identifier = request.result.get("sessionId") if isinstance(request.result, dict) else None
        if isinstance(identifier, str):
            view = self._view(connection, self._session(identifier))
            view.created = view.created or request
            connection.known_sessions.setdefault(identifier, request.seq)

    def _stray_session(self, connection: Connection, event: Event) -> None:
        """A session that a response under a wrong id names is known all the same, from the beginning, since nobody
        knows what it answers: that fault is not to be counted twice."""
        result = event.message.get("result")
        identifier = result.get("sessionId") if isinstance(result, dict) else None
        if isinstance(identifier, str):
            connection.known_sessions.setdefault(identifier, -1)

    def _cancel_request(self, connection: Connection, event: Event, params: Any) -> None:
        identifier = params.get("requestId") if isinstance(params, dict) else None
        same_id = connection.by_id.get((event.dir, *request_key(identifier)))
        if same_id:
            same_id[-1].cancels.append(event)

    def _permission(self, connection: Connection, session: Session, request: Request) -> None:
        view = self._view(connection, session)
        subject = request.params.get("subject")
        subject = subject if isinstance(subject, dict) else {}
        call = subject.get("toolCall")
        identifier = call.get("toolCallId") if isinstance(call, dict) else subject.get("toolCallId")
        now = self._now(view)
        permission = Permission(request, view, identifier if isinstance(identifier, str) else None, now.work)
        view.permissions.append(permission)
        if isinstance(call, dict):  # it counts as a tool_call_update (schema ToolCallPermissionSubject)
            replay = now.replays[0] if now.replays else None
            self._tool_call(view, Update(request.event, view, "tool_call_update", call, now.work, replay))

    # -- session/update

    def _update(self, connection: Connection, event: Event, params: Any) -> None:
        session = self._session_of(params)
        if session is None:
            return
        view = self._view(connection, session)
        now = self._now(view)
        body = params.get("update")
        body = body if isinstance(body, dict) else {}
        kind = _text(body.get("sessionUpdate")) or ""
        update = Update(event, view, kind, body, now.work, now.replays[0] if now.replays else None)
        view.updates.append(update)
        if now.work is not None:
            now.work.updates.append(update)
        if kind in MESSAGE_KINDS:
            if (identifier := update.message_id) is not None:
                self._message(view, MESSAGE_KINDS[kind], identifier, update)
        elif kind == "state_update":
            self._state(view, now, update)
        elif kind == "tool_call_update" or kind == "tool_call_content_chunk":
            self._tool_call(view, update)
        elif kind == "terminal_update" or kind == "terminal_output_chunk":
            self._terminal(view, update)

    def _message(self, view: View, kind: str, identifier: str, update: Update) -> None:
        message = view.messages.get((kind, identifier))
        if message is None:
            message = view.messages[kind, identifier] = Message(kind, identifier, view)
            view.session.note(kind, identifier, update.seq)
        message.updates.append(update)

    def _state(self, view: View, now: _Open, update: Update) -> None:
        value = _text(update.body.get("state")) or ""
        before = now.state if now.state is not None else ("idle" if view.created is not None else None)
        state = State(update, value, before)
        view.states.append(state)
        if value in BUSY and now.work is None:
            now.work = update.work = Work(view, state)
            view.works.append(now.work)
            self._working[view.session] += 1
            now.work.updates.append(update)
        if now.work is not None:
            now.work.states.append(state)
        if value == "idle" and now.work is not None:
            now.work.ended = state
            now.work = None
            self._working[view.session] -= 1
        if value in STANDARD_STATES:
            now.state = value

    def _tool_call(self, view: View, update: Update) -> None:
        identifier = update.body.get("toolCallId")
        if not isinstance(identifier, str):
            return
        call = view.tool_calls.setdefault(identifier, ToolCall(identifier, view))
        if update.is_chunk:
            call.chunks.append(update)
            return
        before = call.steps[-1].status if call.steps else None
        names = update.body.get("status", _ABSENT)
        if names is _ABSENT or not (names is None or isinstance(names, str)):
            call.steps.append(ToolStep(update, None, before or "pending", before))
        else:
            call.steps.append(ToolStep(update, names or "pending", names or "pending", before))

    def _terminal(self, view: View, update: Update) -> None:
        identifier = update.body.get("terminalId")
        if not isinstance(identifier, str):
            return
        terminal = view.terminals.setdefault(identifier, Terminal(identifier, view))
        terminal.updates.append(update)
        if terminal.exited is None and isinstance(update.body.get("exitStatus"), dict):
            terminal.exited = update

    # -- what the pass keeps

    def settle(self) -> None:
        """After the pass: a foreign submission whose text no other one of its session has is its own nonce. Where
        others have the same text, what is reported before the second one was sent can only be the first."""
        self._settle_models()
        for session in self.conversation.sessions.values():
            texts = Counter(submission.text.strip() for submission in session.submissions)
            nonces = Counter(submission.nonce for submission in session.submissions)
            first: dict[str, Submission] = {}
            for submission in session.submissions:
                text = submission.text.strip()
                earlier = first.setdefault(text, submission)
                if earlier is not submission:
                    earlier.alone_until = min(earlier.alone_until, submission.seq)
                    submission.alone_until = -1
                if submission.nonce is None and text and texts[text] == 1:
                    submission.nonce = text
                elif submission.has_own_nonce and nonces[submission.nonce] > 1:
                    submission.nonce, submission.has_own_nonce = None, False

    def _settle_models(self) -> None:
        sessions: dict[str, set[str]] = {}
        for submission in self.conversation.submissions:
            if submission.nonce is not None:
                sessions.setdefault(submission.nonce, set()).add(submission.session.id)
        for request in self.conversation.model_requests:
            request.is_shared = len(sessions.get(request.nonce or "", ())) > 1

    def _connection(self, name: str) -> Connection:
        connection = self.conversation.connections.get(name)
        if connection is None:
            connection = self.conversation.connections[name] = Connection(name, self.conversation)
        return connection

    def _session_of(self, params: Any) -> Session | None:
        identifier = params.get("sessionId") if isinstance(params, dict) else None
        return self._session(identifier) if isinstance(identifier, str) else None

    def _session(self, identifier: str) -> Session:
        session = self.conversation.sessions.get(identifier)
        if session is None:
            session = self.conversation.sessions[identifier] = Session(identifier, self.conversation)
        return session

    def _view(self, connection: Connection, session: Session) -> View:
        view = connection.views.get(session.id)
        if view is None:
            view = connection.views[session.id] = View(connection, session)
            session.views.append(view)
            self._open[view] = _Open()
        return view

    def _now(self, view: View) -> _Open:
        return self._open[view]


_ABSENT: Any = object()


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number(about: Any) -> int:
    number = about.get("number")
    return number if isinstance(number, int) else -1
