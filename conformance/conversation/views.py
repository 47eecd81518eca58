"""What each connection sees of a session, in the order in which it was told. Nothing here judges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, Final

from conformance.conversation.calls import Permission, Terminal, ToolCall
from conformance.conversation.facts import (
    MESSAGE_KINDS,
    OUTPUT,
    SETTLED,
    STANDARD_STATES,
    Message,
    Replay,
    Request,
    State,
    Update,
    Work,
    bare,
    text_after,
    text_of_blocks,
)
from conformance.conversation.span import Span, after, before, between, first_after
from conformance.wire import encode

if TYPE_CHECKING:
    from conformance.conversation.connections import Connection
    from conformance.conversation.sessions import Session
    from conformance.conversation.submissions import Submission

MOST_LOST: Final = 20  # prompts without an id that are looked at
BLOCK: Final = "\ufffc"
"""What a block that is no text counts as, where the beginning of a content is looked for."""


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

    @cached_property
    def calls_of_terminals(self) -> dict[str, list[ToolCall]]:
        """The tool calls whose content shows a terminal, by its id."""
        found: dict[str, list[ToolCall]] = {}
        for call in self.tool_calls.values():
            for identifier in call.terminal_ids:
                found.setdefault(identifier, []).append(call)
        return found

    def message_of(self, update: Update) -> Message | None:
        kind = MESSAGE_KINDS.get(update.kind)
        return self.messages.get((kind, update.message_id)) if kind and update.message_id is not None else None

    def is_replayed(self, update: Update) -> bool:
        """Whether a message update inside a resume window tells of the past: its message was known before the
        window, here or on another connection, and was not just being reported, or no prompt that was pending meanwhile
        explains it. Outside windows nothing is a replay."""
        if update.replay is None:
            return False
        kind = MESSAGE_KINDS.get(update.kind)
        if kind is None or update.message_id is None:
            return False
        window = update.replay
        if self.session.known_since(kind, update.message_id) < window.seq:
            return kind != "user" or not self._was_being_reported(update.message_id, window)
        if kind == "user":
            return not any(
                s.message_id == update.message_id or (s.message_id is None and s.marks(update.text))
                for s in window.pending
                if s.seq < update.seq
            )
        return not window.was_busy and not any(s.answered_at < update.seq for s in window.pending)

    def _was_being_reported(self, identifier: str, window: Replay) -> bool:
        """Whether the resume was asked in the middle of a prompt's live report, moments after it began. Where nobody
        was told of the message, that is after the prompt was accepted, with no work ended since; else this client had
        been told the beginning, and what comes first in the window goes on from there, or is all of it."""
        accepted = self.session.accepted_as.get(identifier)
        copies = (copy.before(window.seq) for copy in self.session.copies_of("user", identifier))
        latest = (told[-1].event for told in copies if told)
        answer = accepted.response if accepted is not None else None
        last = max(latest, key=lambda event: event.seq, default=answer)
        if last is None or window.request.event.t - last.t >= SETTLED:
            return False
        if accepted is None:  # the answer may be lost, with the client that asked
            sent = islice(reversed(self.session.submissions_between(-1, window.seq)), MOST_LOST)
            unknown = (s for s in sent if s.message_id is None and not s.request.failed)
            return any(self._goes_on(submission, identifier, window) for submission in unknown)
        if last is answer:
            ended = any(state.is_idle for state in self.states_between(accepted.answered_at, window.seq))
            return not ended and accepted.request.connection.died_at > window.seq
        return self._goes_on(accepted, identifier, window)

    def _goes_on(self, submission: Submission, identifier: str, window: Replay) -> bool:
        """Whether what a window first tells of a message is what was missing of the prompt's content. A client that had
        been in the session may not have been told the beginning yet."""
        message = self.messages[("user", identifier)]
        told = message.before(window.seq)
        joined = next((thing.seq for thing in (self.created, self.attached) if thing is not None), window.seq)
        if (told and told[-1].replay is not None) or (not told and joined >= window.seq):
            return False
        following = (update for update in after(message.updates, window.seq) if update.is_chunk or update.sets_content)
        first = next(following, None)
        if first is None or submission.request.connection.died_at < window.seq:
            return False
        whole, part = bare(text_of_blocks(submission.blocks, other=BLOCK)), bare(text_after(told, other=BLOCK))
        given = bare(text_of_blocks(first.body.get("content"), other=BLOCK))
        return part != whole and (whole.startswith(part + given) if first.is_chunk else whole == given)

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
        return between(self.updates, start, end)

    def last_update_before(self, seq: float) -> Update | None:
        return before(self.updates, seq)

    def is_taken_over(self, seq: float) -> bool:
        """Whether another client had resumed the session at that position and was told of what went on in it, and this
        connection of nothing any more: an agent may serve one client of a session at a time."""
        return self._taken_over < seq

    @cached_property
    def _taken_over(self) -> float:
        """Where another client began to take the session over; infinity where none did, and where the suite was told
        that clients share it."""
        sessions = self.session.conversation.profile.get("sessions")
        if isinstance(sessions, dict) and sessions.get("shared") is True:
            return float("inf")
        last = self.updates[-1].seq if self.updates else -1
        others = (replay for other in self.session.views if other is not self for replay in other.replays)
        return min(
            (
                replay.seq
                for replay in others
                if replay.request.succeeded
                and last < replay.closes
                and replay.view.updates_between(replay.closes, float("inf"))
            ),
            default=float("inf"),
        )

    def works_after(self, seq: float) -> Sequence[Work]:
        """Works that began after that position, in order."""
        return after(self.works, seq)

    def states_between(self, start: float, end: float) -> Sequence[State]:
        """State updates between two positions, both left out."""
        return between(self.states, start, end)

    @cached_property
    def _output(self) -> list[Update]:
        return [update for update in self.updates if update.kind in OUTPUT and not self.is_replayed(update)]

    def first_output(self, start: float, end: float) -> Update | None:
        """The first message or thought of the agent, no replay, between two positions, both left out."""
        found = first_after(self._output, start)
        return found if found is not None and found.seq < end else None

    def replay_after(self, seq: float) -> Replay | None:
        """The first session/resume of it that was asked after that position."""
        return first_after(self.replays, seq)

    @cached_property
    def _asks_for_history(self) -> list[Replay]:
        return [replay for replay in self.replays if replay.asks_for_history]

    def history_asked_after(self, seq: float) -> Replay | None:
        """The first session/resume of it after that position that asks for the history."""
        return first_after(self._asks_for_history, seq)

    @cached_property
    def _with_cursor(self) -> list[Replay]:
        return [replay for replay in self.replays if replay.cursor is not None]

    @cached_property
    def _last_closed(self) -> list[float]:
        """For each of those, where it and all before it had been answered."""
        return list(accumulate((replay.closes for replay in self._with_cursor), max))

    def another_replays(self, replay: Replay) -> bool:
        """Whether another resume, which asked for history, was pending here meanwhile."""
        at = bisect_left(self._with_cursor, replay.seq, key=lambda other: other.seq)
        following = first_after(self._with_cursor, replay.seq)
        is_before = at > 0 and self._last_closed[at - 1] > replay.seq
        return is_before or (following is not None and following.seq < replay.closes)

    @cached_property
    def messages_before_notices(self) -> dict[Update, Message]:
        """Notice -> the message whose update came last before it, within the same window or outside all."""
        latest: dict[Replay | None, Message] = {}
        found: dict[Update, Message] = {}
        for update in self.updates:
            message = self.message_of(update)
            if message is not None:
                latest[update.replay] = message
            elif update.kind == "notice" and update.replay in latest:
                found[update] = latest[update.replay]
        return found

    def work_before(self, seq: float) -> Work | None:
        """The last work that began before that position."""
        return before(self.works, seq)

    @cached_property
    def hears_at_work(self) -> bool:
        """Whether the agent is known to read while it works: it answered a request that was sent in the middle of work,
        or ended work as cancelled. One that does not reads a cancel when nothing is left to stop."""
        barrier = self.connection.barrier_after
        return any(w.stop_reason == "cancelled" or barrier(w.seq, w.ended_at) is not None for w in self.works)

    @cached_property
    def _user_messages(self) -> list[tuple[int, Message]]:
        told = [(message.live[0].seq, message) for message in self.messages.values() if message.live]
        return sorted(((seq, m) for seq, m in told if m.kind == "user"), key=lambda one: one[0])

    def user_messages_after(self, seq: float) -> Iterator[Message]:
        """User messages that it was first told of live after that position, in order."""
        at = bisect_right(self._user_messages, seq, key=lambda one: one[0])
        return (message for _, message in islice(self._user_messages, at, None))

    @cached_property
    def command_lists(self) -> list[Update]:
        """Its available_commands_update updates."""
        return [update for update in self.updates if update.kind == "available_commands_update"]

    @cached_property
    def _with_background(self) -> list[State]:
        return [state for state in self.states if state.background is not None]

    def background_lists(self, work: Work) -> list[list[Any]]:
        """The last two background lists told in this work: those that stood at its end."""
        told = between(self._with_background, work.seq - 1, work.ended_at + 1)
        return [state.background or [] for state in told[-2:]]

    @cached_property
    def own_failures(self) -> set[bytes]:
        """The errors with which works ended that nobody cancelled."""
        failed = (work for work in self.works if work.stop_reason == "error" and work.cancel is None)
        return {encode(work.error) for work in failed}
