"""The prompts that were submitted: what was sent, what answered each, and how the tester recognises the message it
became."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from conformance.conversation.facts import Message, Request, Update, Work, text_of_blocks
from conformance.conversation.model_requests import ModelRequest
from conformance.conversation.span import Span, before
from conformance.history import Event

if TYPE_CHECKING:
    from conformance.conversation.sessions import Session
    from conformance.conversation.views import View


@dataclass(eq=False)
class Submission:
    """One session/prompt: what was sent, what answered it, and how the tester recognises the message that it became."""

    request: Request
    session: Session
    text: str
    nonce: str | None = (
        None  # by the suite, or the text itself where it is unique in foreign traffic (settled after the pass)
    )
    has_own_nonce: bool = False  # a token that stands in no other text: found anywhere in a message it marks it
    alias: str | None = None
    trigger: str | None = None  # name of the profile's trigger that it is
    refusable: str | None = None  # why the agent may or must refuse it for its own sake
    alone_until: float = float(
        "inf"
    )  # position of the next submission with the same text; -1 where an earlier one had it

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
        return self._returned_id if self.request.response is not None else None

    @cached_property
    def _returned_id(self) -> str | None:
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
        """User messages, on any connection, whose live text shows this submission and that came after it. Empty
        where another submission has the same text."""
        if self.nonce is None:
            return []
        return [
            message
            for message in self.session.messages_with(self.nonce)
            if message.live and message.live[0].seq > self.seq
        ]

    def is_whole(self, message: Message) -> bool:
        """Whether the message's live text is the submission's text and nothing more: not one that quotes it."""
        return message.live_text.strip() == self.text.strip()

    @cached_property
    def marked_elsewhere(self) -> Message | None:
        """The message under another id than the returned one that this submission became; None where it has the
        returned id, or where that is not certain."""
        if self.message_id is None or any(m.id == self.message_id for m in self.marked):
            return None
        if any(update.is_chunk or update.sets_content for update in self.reports):
            return None
        return next((m for m in self.marked if m.id != self.message_id and self.is_whole(m)), None)

    @cached_property
    def own_report(self) -> Update | None:
        """The first live update that reports this submission on the submitter's own connection: lines of different
        connections say nothing about each other's order."""
        if self.reports:
            return next((update for update in self.reports if update.view is self.view), None)
        found = [update for message in self.marked for update in message.live if update.view is self.view]
        return min(found, key=lambda update: update.seq, default=None)

    @property
    def is_local_command(self) -> bool:
        """A prompt that the profile names as a command which the agent handles by itself."""
        return self.trigger in ("local-command", "retained-command")

    def was_told_before(self, seq: float, view: View) -> bool:
        """Whether the connection of `view` was told of its message before that position."""
        own = view.messages.get(("user", self.message_id or ""))
        told = [message for message in (own, *self.marked) if message is not None and message.view is view]
        return any(message.first.seq < seq for message in told)

    def is_known_to(self, view: View, seq: float) -> bool:
        """Whether the client of `view` sent it, or was told of its message before that position."""
        return self.view is view or self.was_told_before(seq, view)

    @cached_property
    def is_command(self) -> bool:
        """A local command of the profile; in a foreign recording, a prompt that begins with a command that its sender
        had been told of."""
        if self.session.conversation.is_driven:
            return self.is_local_command
        word = self.text.split(maxsplit=1)[:1]
        return bool(word) and word[0].startswith("/") and word[0][1:] in self._commands_known

    @property
    def _commands_known(self) -> list[str]:
        """Names in the last list of commands that the submitter had when it sent the prompt."""
        last = before(self.view.command_lists, self.seq) if self.view is not None else None
        return [name for name in names_of_commands(last.body.get("availableCommands")) if name] if last else []

    @property
    def own_messages(self) -> list[Message]:
        """The messages under its returned id, one for each connection that was told of it."""
        return self.session.user_messages_with.get(self.message_id or "", [])

    @cached_property
    def reports(self) -> Sequence[Update]:
        """All live user-message updates under the returned id, on any connection, in order of arrival."""
        if self.message_id is None:
            return []
        found = [message.live for message in self.own_messages if message.live]
        after = [Span(live, bisect_right(live, self.seq, key=lambda update: update.seq)) for live in found]
        if len(after) == 1:
            return after[0]
        return sorted((update for live in after for update in live), key=lambda update: update.seq)

    @cached_property
    def report(self) -> Update | None:
        """The first live update that reports this submission: under its id or, where no id was returned, by its
        mark."""
        if self.reports:
            return self.reports[0]
        found = [update for message in self.marked or self._alone for update in message.live]
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
        """The first position that tells that its message is in the conversation: its report or a success; infinity
        where nothing does."""
        reported = self.report.seq if self.report is not None else float("inf")
        return min(reported, self.answered_at if self.request.succeeded else float("inf"))

    @property
    def ceased_at(self) -> float:
        """Where it was refused or the process that had it was gone; infinity where neither is told."""
        return min(self.request.connection.died_at, float("inf") if self.request.succeeded else self.answered_at)

    @property
    def work(self) -> Work | None:
        """The work on its own connection that was open when it was told of there, or else the first that began after
        that, or else the first after it was sent."""
        if self.view is None:
            return None
        told = self.own_report.seq if self.own_report is not None else float("inf")
        inserted = min(told, self.answered_at if self.request.succeeded else float("inf"))
        inserted = self.inserted_at if inserted == float("inf") else inserted
        if inserted == float("inf"):
            return next(iter(self.view.works_after(self.seq)), None)
        joined = self.view.work_at(inserted)
        after = next(iter(self.view.works_after(inserted)), None)
        return joined or after or next(iter(self.view.works_after(self.seq)), None)

    @property
    def cancels(self) -> list[Event]:
        """What could have cancelled it while it was pending: $/cancel_request for it, session/cancel and close of
        its session."""
        stops = self.session.stops_between(self.seq, self.answered_at)
        return sorted([*self.request.cancels, *stops], key=lambda event: event.seq)

    @property
    def model_requests(self) -> list[ModelRequest]:
        """What the scripted model was asked for this prompt, side requests left out."""
        return self.session.conversation.model_requests_for.get(self.nonce, []) if self.nonce is not None else []


def names_of_commands(commands: Any) -> list[str]:
    """The names in a list of available commands, those of other types left out."""
    items = [item for item in commands if isinstance(item, dict)] if isinstance(commands, list) else []
    return [item["name"] for item in items if isinstance(item.get("name"), str) and item.get("type") == "command"]


def prompt_text(params: Any) -> str:
    """The text of a session/prompt's blocks."""
    return text_of_blocks(params.get("prompt")) if isinstance(params, dict) else ""
