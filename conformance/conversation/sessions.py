"""Sessions: what is known of one across all connections that see it. Nothing here judges."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from conformance.conversation.calls import Permission, ToolCall, task_of
from conformance.conversation.facts import (
    BUSY,
    FINAL_STATUSES,
    Message,
    Request,
    Update,
    Work,
    bare,
    text_after,
)
from conformance.conversation.span import Span, after, before, between, first_after
from conformance.conversation.views import View
from conformance.history import Event

if TYPE_CHECKING:
    from conformance.conversation.connections import Connection
    from conformance.conversation.submissions import Submission
    from conformance.conversation.whole import Conversation

_WORD: Final = re.compile(r"[\w-]+")


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
        return after(self.submissions, seq)

    def submissions_between(self, start: float, end: float) -> Sequence[Submission]:
        """Prompts sent between two positions, both left out."""
        return between(self.submissions, start, end)

    def submission_before(self, seq: float) -> Submission | None:
        """The last prompt sent before that position."""
        return before(self.submissions, seq)

    def first_update_of(self, kind: str, message_id: str) -> Update | None:
        """The first update, on any connection, live or replayed, that carries that id."""
        found = [message.first for message in self.copies_of(kind, message_id)]
        return min(found, key=lambda update: update.seq, default=None)

    def copies_of(self, kind: str, message_id: str) -> list[Message]:
        """The message as each connection saw it that was told of it."""
        return [view.messages[kind, message_id] for view in self.views if (kind, message_id) in view.messages]

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
        return between(self.stops, start, end)

    @cached_property
    def _ends(self) -> list[Event]:
        return sorted((request.event for request in (*self.closes, *self.deletes)), key=lambda event: event.seq)

    def end_after(self, seq: float) -> Event | None:
        """The first session/close or session/delete of it after that position."""
        return first_after(self._ends, seq)

    def end_before(self, seq: float) -> Event | None:
        """The last session/close or session/delete of it, by anyone, before that position."""
        return before(self._ends, seq)

    def closes_before(self, seq: float) -> Sequence[Request]:
        """session/close requests of it before that position, in order."""
        return between(self.closes, -1, seq)

    def end_was_before(self, seq: float) -> bool:
        """Whether it was closed or deleted, by anyone, before that position."""
        return bool(self._ends) and self._ends[0].seq < seq

    @cached_property
    def creations(self) -> int:
        """How many session/new returned its id; more than one where two agents, or two lives of one, count by
        themselves."""
        return sum(view.created is not None for view in self.views)

    @cached_property
    def has_commands_only(self) -> bool:
        """Whether every prompt that was accepted is a command."""
        return all(submission.is_command for submission in self.submissions if submission.request.succeeded)

    def cancels_between(self, start: float, end: float) -> Sequence[tuple[Connection, Event]]:
        """session/cancel by anyone between two positions, with the connection that sent it."""
        first = bisect_right(self.cancels, start, key=lambda cancel: cancel[1].seq)
        return Span(self.cancels, first, bisect_left(self.cancels, end, key=lambda cancel: cancel[1].seq))

    def cancel_between(self, start: float, end: float, view: View) -> tuple[Connection, Event] | None:
        """The first session/cancel between two positions that obliges the agent to stop what `view` shows, with the
        connection that sent it: its own, or one that had been told of that work, too. What that of another client is to
        the agent is not said: its process may know nothing of the work. Where the id was given twice, it is about the
        session of its sender."""
        for sender, cancel in self.cancels_between(start, end):
            own = sender.views.get(self.id)
            if own is view:
                return sender, cancel
            if own is None or self.creations > 1 or own.state_at(cancel.seq) not in BUSY:
                continue
            if (work := view.work_at(cancel.seq)) is None or self._is_known_to(own, work):
                return sender, cancel
        return None

    def _is_known_to(self, other: View, work: Work) -> bool:
        """Whether the work may be what another view shows, too: one of its prompts is that client's own, or was told of
        there. Of several processes of an agent each may work in the session for itself."""
        before = work.previous.ended_at if work.previous is not None else -1.0
        inserted = self.inserted_between(before, work.ended_at)
        prompts = [s for s in inserted if s.is_known_to(work.view, work.ended_at)]
        return not prompts or any(prompt.is_known_to(other, work.ended_at) for prompt in prompts)

    @cached_property
    def _insertions(self) -> list[Submission]:
        return sorted((s for s in self.submissions if s.inserted_at < float("inf")), key=lambda s: s.inserted_at)

    def inserted_between(self, start: float, end: float) -> Sequence[Submission]:
        """Submissions whose insertion was told between two positions, in that order."""
        places = self._inserted_at
        return Span(self._insertions, bisect_right(places, start), bisect_left(places, end))

    @cached_property
    def _inserted_at(self) -> list[float]:
        return [submission.inserted_at for submission in self._insertions]

    @cached_property
    def _worked_off(self) -> dict[Submission, float]:
        """Where each submission was surely worked off at the latest: refused, its process gone, or one end of work
        later for each one inserted before it, since work may be for one prompt only; infinity where that is not told.
        A quiet window of the idle session settles all."""
        done = {s: s.ceased_at for s in self.submissions}
        quiet = [
            (control.seq, began)
            for control in self.conversation.controls
            if control.name == "window"
            and (control.control or {}).get("kind") == "quiet"
            and (control.control or {}).get("session") == self.id
            and isinstance(began := (control.control or {}).get("began"), int)
        ]
        for view in self.views:
            steps = sorted([(s.inserted_at, 0, s) for s in self._insertions], key=lambda step: step[0])
            waiting: deque[Submission] = deque()
            ends = [(work.ended_at, work.ended_at, False) for work in view.works if work.ended is not None]
            ends += [(seq, began, True) for seq, began in quiet if view.work_at(seq) is None]
            at = 0
            for seq, since, settles in sorted(ends):
                while at < len(steps) and steps[at][0] < since:
                    waiting.append(steps[at][2])
                    at += 1
                for _ in range(len(waiting) if settles else min(1, len(waiting))):
                    submission = waiting.popleft()
                    done[submission] = min(done[submission], seq)
        return done

    @cached_property
    def _latest_worked_off(self) -> list[float]:
        """For each submission, where it and all before it were worked off."""
        return list(accumulate((self._worked_off[s] for s in self.submissions), max))

    def unfinished(self, seq: float) -> Submission | None:
        """The oldest submission sent before that position that may still have had its work before it then."""
        at = bisect_left(self._latest_worked_off, seq)
        found = self.submissions[at] if at < len(self.submissions) else None
        return found if found is not None and found.seq < seq else None

    @cached_property
    def first_background(self) -> float:
        """Where a background list that is not empty was first told; infinity where none was."""
        told = (state.seq for view in self.views for state in view.states if state.background)
        return min(told, default=float("inf"))

    @cached_property
    def first_unasked_work(self) -> float:
        """Where work that no prompt began first did; infinity where none did. The first that a client sees was not
        begun by what had been worked off before, as another one saw."""
        ends = [-1.0, *sorted(work.ended_at for view in self.views for work in view.works)]
        unasked = (
            work.seq
            for view in self.views
            for before, work in zip([None, *view.works], view.works, strict=False)
            if not self.inserted_between(
                before.ended_at if before is not None else ends[bisect_left(ends, work.seq) - 1], work.ended_at
            )
        )
        return min(unasked, default=float("inf"))

    @cached_property
    def first_said(self) -> dict[tuple[str, str], Update]:
        """(kind, live text) of a message -> the first update, on any connection, of the first that says it."""
        messages = [message for view in self.views for message in view.messages.values() if message.live_text.strip()]
        messages.sort(key=lambda message: -message.first.seq)
        return {(message.kind, message.live_text.strip()): message.first for message in messages}

    @cached_property
    def first_run(self) -> dict[bytes, Update]:
        """What a tool call does -> the first update, on any connection, of the first that does it."""
        firsts = [call.first.update for view in self.views for call in view.tool_calls.values() if call.steps]
        return {task_of(first): first for first in sorted(firsts, key=lambda first: -first.seq)}

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
            texts = {bare(submission.text), *(bare(m.live_text) for m in submission.own_messages)} - {""}
            for text in texts:
                found[text] = (
                    submission if found.get(text, submission) is submission and submission.nonce is not None else None
                )
        return found

    def told_by(self, text: str) -> Submission | None:
        """The only submission that a user message with this whole text, as sent or as reported live, can be."""
        return self._by_text.get(bare(text))

    @cached_property
    def sent_texts(self) -> set[str]:
        """The texts of its submissions, as sent."""
        return {submission.text.strip() for submission in self.submissions}

    def is_a_prompt(self, text: str) -> bool:
        """Whether some submission has this whole text, as sent or as reported live."""
        return bare(text) in self._by_text

    @cached_property
    def first_stranger(self) -> float:
        """Where a live user message that no prompt of the history explains first came; infinity where none did."""
        strange = (m for m in self.user_messages if m.live and m.id not in self.accepted_as)
        return min((m.live[0].seq for m in strange if not self.is_a_prompt(m.live_text)), default=float("inf"))

    @cached_property
    def _approved_at(self) -> dict[str, float]:
        """Tool call -> where a permission request for it, on any connection, was last approved; infinity where one may
        still be."""
        found: dict[str, float] = {}
        for permission in (permission for view in self.views for permission in view.permissions):
            if permission.tool_call_id is not None and (permission.is_approved or permission.answer is None):
                last = found.get(permission.tool_call_id, -1.0)
                found[permission.tool_call_id] = max(last, permission.request.answered_at)
        return found

    def perhaps_approved_since(self, call: ToolCall | None, seq: float) -> bool:
        """Whether a permission request, on any connection, approved that tool call or may still, an approval apart that
        had come when the call had ended before that position."""
        if call is None or call.id not in self._approved_at:
            return False
        ended = (step.update.seq for step in reversed(call.steps_before(seq)) if step.names in FINAL_STATUSES)
        return self._approved_at[call.id] > next(ended, -1)

    @cached_property
    def approved_since(self) -> dict[str, float]:
        """Tool call -> where a permission request for it, on any connection, was first approved."""
        return _first_answers(self, lambda permission: permission.is_approved)

    @cached_property
    def denied_since(self) -> dict[str, float]:
        """Tool call -> where a permission request for it, on any connection, was first denied."""
        return _first_answers(self, lambda permission: permission.is_denied)

    @cached_property
    def approvals(self) -> Counter[str]:
        """How many permission requests for each tool call, on any connection, were approved."""
        permissions = (permission for view in self.views for permission in view.permissions)
        return Counter(p.tool_call_id for p in permissions if p.tool_call_id is not None and p.is_approved)

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
    def user_messages_with(self) -> dict[str, list[Message]]:
        """Id -> the user messages with it, one for each connection that was told of it."""
        found: dict[str, list[Message]] = {}
        for message in self.user_messages:
            found.setdefault(message.id, []).append(message)
        return found

    @cached_property
    def _by_nonce(self) -> dict[str, list[Message]]:
        """Nonce -> user messages whose live text shows it."""
        return self._showing((message, message.live_text) for message in self.user_messages)

    @cached_property
    def _replayed_by_nonce(self) -> dict[str, list[Message]]:
        """Nonce -> user messages that only replays tell of and whose text shows it."""
        replayed = (message for message in self.user_messages if not message.live)
        return self._showing((message, text_after(message.updates)) for message in replayed)

    def _showing(self, texts: Iterable[tuple[Message, str]]) -> dict[str, list[Message]]:
        """Nonce -> those of the messages whose text shows it. A suite's nonce is one word of the text, a foreign one is
        all of it, as is the text of the first of several submissions that have the same."""
        words = {s.nonce for s in self.submissions if s.nonce is not None and s.has_own_nonce}
        whole = {s.nonce for s in self.submissions if s.nonce is not None and not s.has_own_nonce}
        whole |= {s.text.strip() for s in self.submissions if s.nonce is None and s.alone_until > s.seq} - {""}
        found: dict[str, list[Message]] = {}
        for message, text in texts:
            for word in words.intersection(_WORD.findall(text)) if words else ():
                found.setdefault(word, []).append(message)
            if (bare := text.strip()) in whole:
                found.setdefault(bare, []).append(message)
        return found

    def replayed_with(self, nonce: str) -> list[Message]:
        """User messages, on any connection, that only replays tell of and whose text shows the nonce."""
        return self._replayed_by_nonce.get(nonce, [])

    def messages_with(self, nonce: str) -> list[Message]:
        """User messages, on any connection, whose live text shows the nonce."""
        return self._by_nonce.get(nonce, [])


def _first_answers(session: Session, is_so: Callable[[Permission], bool]) -> dict[str, float]:
    """Tool call -> where a permission request for it, on any connection, was first answered so."""
    found: dict[str, float] = {}
    for permission in (permission for view in session.views for permission in view.permissions):
        if permission.tool_call_id is not None and is_so(permission):
            known = found.get(permission.tool_call_id, float("inf"))
            found[permission.tool_call_id] = min(known, permission.request.answered_at)
    return found
