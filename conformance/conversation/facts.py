"""The protocol's own terms, as facts read from a history: requests, updates, messages, works, replays, tool calls,
permissions.

Each names the events it stands on. Nothing here judges; what several rules need to know of the traffic is said here
once. Filled by `conformance.conversation.reader` in one pass and not changed after it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from conformance.conversation.span import Span
from conformance.history import Event

if TYPE_CHECKING:
    from conformance.conversation.connections import Connection
    from conformance.conversation.submissions import Submission
    from conformance.conversation.views import View

BUSY: Final = ("running", "requires_action")
STANDARD_STATES: Final = ("running", "idle", "requires_action")
KNOWN_STOP_REASONS: Final = ("end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "error")
OUTPUT: Final = ("agent_message", "agent_message_chunk", "agent_thought", "agent_thought_chunk")
"""Updates that only foreground work of the agent writes; tool calls and terminals may be background."""
FINAL_STATUSES: Final = ("completed", "failed", "cancelled")
MESSAGE_KINDS: Final = {
    "user_message": "user",
    "user_message_chunk": "user",
    "agent_message": "agent",
    "agent_message_chunk": "agent",
    "agent_thought": "thought",
    "agent_thought_chunk": "thought",
}
"""Update kind -> kind of the message it is about (schema SessionUpdate)."""

SETTLED: Final = 1.0
"""Seconds after which an update of a message is no longer under way to another client."""


@dataclass(slots=True, eq=False)
class Request:
    """A request of either side with all that answered it. `id` may be of any JSON type: rules judge that."""

    event: Event
    connection: Connection
    id: Any
    method: str
    params: Any
    response: Event | None = None
    later_responses: list[Event] = field(default_factory=list)
    cancels: list[Event] = field(default_factory=list)  # $/cancel_request of the sender that names it
    shares_id: bool = False  # its id was still pending in this direction when it was sent
    unclear_since: float = float("inf")  # where two with its id were pending first: what answers which, nobody can tell

    @property
    def seq(self) -> int:
        return self.event.seq

    @property
    def result(self) -> Any:
        """The result of a success response; None where there is none (and where the result is null: see
        `succeeded`)."""
        return self.response.message.get("result") if self.response is not None else None

    @property
    def error(self) -> Any:
        """The error of an error response, as it came; None where there is none."""
        return self.response.message.get("error") if self.response is not None else None

    @property
    def succeeded(self) -> bool:
        """Answered with a result. An error of null beside it is no error, though it must not stand there
        (wire.result-or-error)."""
        message = self.response.message if self.response is not None else {}
        return "result" in message and message.get("error") is None

    @property
    def failed(self) -> bool:
        """Answered with an error, of whatever shape. With a result beside it nobody knows what it says
        (wire.result-or-error)."""
        message = self.response.message if self.response is not None else {}
        return "error" in message and message.get("result") is None and not self.succeeded

    @property
    def error_code(self) -> int | None:
        error = self.error
        return whole_number(error.get("code")) if isinstance(error, dict) else None

    @property
    def session_id(self) -> str | None:
        session = self.params.get("sessionId") if isinstance(self.params, dict) else None
        return session if isinstance(session, str) else None

    @property
    def answered_at(self) -> float:
        """The position of the response; infinity where there is none."""
        return self.response.seq if self.response is not None else float("inf")


def whole_number(value: Any) -> int | None:
    """The integer that a JSON value is, 2.0 included (JSON Schema says so); None where it is none."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(slots=True, eq=False)
class Update:
    """One session/update notification as one connection saw it. `kind` is "" and `body` {} where they are malformed."""

    event: Event
    view: View
    kind: str
    body: dict[str, Any]
    work: Work | None  # the foreground work that was open when it arrived; an idle that ends a work is of that work
    replay: Replay | None  # the first resume of the session that was pending on that connection when it arrived

    @property
    def seq(self) -> int:
        return self.event.seq

    @property
    def message_id(self) -> str | None:
        identifier = self.body.get("messageId")
        return identifier if isinstance(identifier, str) else None

    @property
    def is_chunk(self) -> bool:
        return self.kind.endswith("_chunk")

    @property
    def sets_content(self) -> bool:
        """A whole-message update that says what the content is: an array, or null, which clears it."""
        return not self.is_chunk and "content" in self.body

    @property
    def text(self) -> str:
        """The text of its content blocks, joined; chunks have one block, whole updates an array."""
        return text_of_blocks(self.body.get("content"))


def text_of_blocks(content: Any, *, other: str = "") -> str:
    """The text of one content block or an array of them; other blocks count as nothing, or as `other`."""
    blocks = content if isinstance(content, list) else [content]
    texts = [block.get("text") if block.get("type") == "text" else other for block in blocks if isinstance(block, dict)]
    return "".join(text for text in texts if isinstance(text, str))


def bare(text: str) -> str:
    """A text without its spaces: blocks may be put together with a line end, or without one."""
    return "".join(text.split())


def text_after(updates: Sequence[Update], *, other: str = "") -> str:
    """The text of a message after these upserts and chunks in order (schema UserMessage: a whole update replaces, a
    chunk appends). Blocks that are no text count as `other`."""
    parts: list[str] = []
    for update in reversed(updates):
        if update.is_chunk or update.sets_content:
            parts.append(text_of_blocks(update.body.get("content"), other=other))
        if update.sets_content:
            break
    return "".join(reversed(parts))


@dataclass(eq=False)
class Message:
    """One message as one connection saw it: all updates that carry its id, in order, live and replayed."""

    kind: str  # "user" | "agent" | "thought"
    id: str
    view: View
    updates: list[Update] = field(default_factory=list)

    @property
    def first(self) -> Update:
        return self.updates[0]

    @cached_property
    def live(self) -> list[Update]:
        """Its updates that are no replay (see `View.is_replayed`)."""
        return [update for update in self.updates if not self.view.is_replayed(update)]

    def before(self, seq: float) -> Sequence[Update]:
        """Its updates before that position."""
        return Span(self.updates, 0, bisect_left(self.updates, seq, key=lambda update: update.seq))

    def within(self, replay: Replay) -> list[Update]:
        first = bisect_right(self.updates, replay.seq, key=lambda update: update.seq)
        last = bisect_left(self.updates, replay.until, key=lambda update: update.seq)
        return [update for update in Span(self.updates, first, last) if self.view.is_replayed(update)]

    @cached_property
    def live_text(self) -> str:
        return text_after(self.live)

    @cached_property
    def bare_text(self) -> str:
        """Its live text without its spaces."""
        return bare(self.live_text)

    @property
    def has_content(self) -> bool:
        return any(update.is_chunk or update.sets_content for update in self.updates)


@dataclass(slots=True, eq=False)
class State:
    """One state_update. `before` is the last standard state that this connection was told (idle at first, None where
    it cannot know)."""

    update: Update
    value: str
    before: str | None

    @property
    def event(self) -> Event:
        return self.update.event

    @property
    def seq(self) -> int:
        return self.update.event.seq

    @property
    def is_idle(self) -> bool:
        return self.value == "idle"

    @property
    def is_busy(self) -> bool:
        return self.value in BUSY

    @property
    def stop_reason(self) -> str | None:
        """The stop reason of an idle; None where it is absent, null or malformed (schema IdleStateUpdate: all the
        same)."""
        reason = self.update.body.get("stopReason")
        return reason if isinstance(reason, str) and self.is_idle else None

    @property
    def background(self) -> list[Any] | None:
        """The background list; None where it is not reported (absent, null, malformed: schema RunningStateUpdate)."""
        listed = self.update.body.get("background")
        return listed if isinstance(listed, list) else None


@dataclass(slots=True, eq=False)
class Work:
    """The span of a session's foreground work as one connection saw it: from running or requires_action to the idle
    that ends it."""

    view: View
    began: State
    ended: State | None = None
    updates: list[Update] = field(default_factory=list)
    states: list[State] = field(default_factory=list)

    @property
    def seq(self) -> int:
        return self.began.seq

    @property
    def ended_at(self) -> float:
        """The position of its idle; infinity while it is open."""
        return self.ended.seq if self.ended is not None else float("inf")

    @property
    def stop_reason(self) -> str | None:
        return self.ended.stop_reason if self.ended is not None else None

    @property
    def error(self) -> Any:
        """What stands as the error of its idle."""
        return self.ended.update.body.get("error") if self.ended is not None else None

    def holds(self, seq: float) -> bool:
        return self.seq <= seq <= self.ended_at

    def began_with(self, update: Update) -> bool:
        """Whether what this first update tells of (a message, a tool call, a terminal) began in the work; not where it
        may be told of the past."""
        is_past = update.replay is not None and (update.message_id is None or self.view.is_replayed(update))
        return self.holds(update.seq) and not is_past

    @property
    def cancel(self) -> tuple[Connection, Event] | None:
        """The first session/cancel while it was open, of anyone who knew of it, with the connection that sent it."""
        return self.view.session.cancel_between(self.seq, self.ended_at, self.view)

    @property
    def previous(self) -> Work | None:
        """The work before it, on the same connection."""
        return self.view.work_before(self.seq)


@dataclass(eq=False)
class Replay:
    """A session/resume and its window: from the request to its response on that connection."""

    request: Request
    view: View
    was_busy: bool = False  # the session was known to be at work when the resume was asked
    unanswered: list[Submission] = field(default_factory=list)  # prompts that were pending when the resume was asked
    refused: Event | None = None  # an error that names no id, which answers a request that could not be read
    _texts: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def seq(self) -> int:
        return self.request.seq

    @property
    def closes(self) -> float:
        """The position of the response; infinity while it is pending."""
        if self.request.response is None and self.refused is not None:
            return self.refused.seq
        return self.request.answered_at

    @property
    def until(self) -> float:
        """Where its updates end: its response or, where none came, the next resume."""
        following = self.view.replay_after(self.seq) if self.closes == float("inf") else None
        return following.seq if following is not None else self.closes

    def holds(self, update: Update) -> bool:
        return self.seq < update.seq < self.until

    @property
    def updates(self) -> Sequence[Update]:
        """Updates of its session, on its connection, within the window."""
        return self.view.updates_between(self.seq, self.until)

    @property
    def cursor(self) -> Any:
        """replayFrom as it was sent; None for absent and null (schema ResumeSessionRequest: the same)."""
        return self.request.params.get("replayFrom") if isinstance(self.request.params, dict) else None

    @property
    def asks_for_history(self) -> bool:
        return isinstance(self.cursor, dict) and self.cursor.get("type") == "start"

    @cached_property
    def pending(self) -> list[Submission]:
        """Submissions that were not answered yet when the resume was asked, and those sent within the window."""
        return [*self.unanswered, *self.view.session.submissions_between(self.seq, self.until)]

    @property
    def may_have_work(self) -> bool:
        """Whether work may have run within the window: it was open, or a prompt was not worked off, or came then."""
        return self.was_busy or bool(self.pending) or self.view.session.unfinished(self.seq) is not None

    @property
    def states(self) -> Sequence[State]:
        """The states told within the window."""
        return self.view.states_between(self.seq, self.until)

    @property
    def snapshot(self) -> str | None:
        """The last standard state told within the window."""
        return next((state.value for state in reversed(self.states) if state.value in STANDARD_STATES), None)

    def text_before(self, kind: str, message_id: str) -> str:
        """The text of a message, as any connection had it when the resume was asked."""
        key = (kind, message_id)
        if key not in self._texts:
            texts = [text_after(message.before(self.seq)) for message in self.view.session.copies_of(*key)]
            self._texts[key] = max(texts, key=len, default="")
        return self._texts[key]

    @property
    def messages(self) -> Iterator[Message]:
        """Messages that the window replays at least one update of."""
        seen = set()
        for update in self.updates:
            message = self.view.message_of(update)
            if message is not None and message not in seen and self.view.is_replayed(update):
                seen.add(message)
                yield message
