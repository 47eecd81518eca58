"""Decides, event by event, whether what a step waits for has come. Pure: fed with events, no clock, no I/O.

A scenario has to know when work has ended before it goes on, on any agent: updates before responses and after them,
running before insertion, prompts that are queued or join the work that runs, an idle that belongs to earlier work.
Nothing here is a judgement.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from conformance.history import Event
from conformance.scenario import sight
from conformance.wire import request_key


@dataclass(frozen=True, slots=True)
class Met:
    """It has come. `event` is what showed it."""

    event: Event | None = None


@dataclass(frozen=True, slots=True)
class Missed:
    """It has not come. `ran_out` where all patience was given to a living connection; else `why` nothing can come any
    more."""

    why: str
    ran_out: bool
    conn: str = ""
    about: tuple[tuple[str, Any], ...] = ()  # fields of the `waited` that tells it


@dataclass(slots=True)
class Sent:
    """A request of the scenario, found again by its alias. `nonce` is None where its text is not its own."""

    alias: str
    conn: str
    id: Any
    method: str
    seq: int
    session: str | None = None
    nonce: str | None = None
    response: Event | None = None

    @property
    def message_id(self) -> str | None:
        result = sight.result_of(self.response) if self.response is not None else None
        identifier = result.get("messageId") if isinstance(result, dict) else None
        return identifier if isinstance(identifier, str) else None

    def is_answered_by(self, event: Event) -> bool:
        return event.conn == self.conn and any(
            "method" not in message and "id" in message and request_key(message["id"]) == request_key(self.id)
            for _, message in sight.messages(event)
        )


class MessageWatch:
    """Whether the user message that a prompt became has been reported (on one connection, or on any where `conn` is
    None)."""

    def __init__(self, sent: Sent, conn: str | None = None) -> None:
        self._sent, self._conn = sent, conn
        self._texts: dict[tuple[str, str], str] = {}
        self._seen: set[str] = set()
        self.is_reported = False

    def feed(self, event: Event) -> bool:
        """Takes the event in; returns whether the message is reported by now."""
        if self.is_reported:
            return True
        if event.seq > self._sent.seq and (found := sight.update(event)) is not None and found[0] == self._sent.session:
            self._see(event.conn, found[1])
        identifier = self._sent.message_id
        self.is_reported = self.is_reported or (identifier is not None and identifier in self._seen)
        return self.is_reported

    def _see(self, conn: str, body: dict[str, Any]) -> None:
        user = sight.user_text(body)
        if user is None or (self._conn is not None and conn != self._conn):
            return
        identifier, text, is_appended = user
        self._seen.add(identifier)
        key = (conn, identifier)
        self._texts[key] = self._texts.get(key, "") + text if is_appended else text
        if self._sent.nonce is not None and self._sent.nonce in self._texts[key]:
            self.is_reported = True


class Ending(Enum):
    """How sure it is that the work is over."""

    OPEN = "open"
    PROBABLE = "probable"
    """An idle came that may belong to other work: it is over if nothing more comes for a while."""
    OVER = "over"


class WorkWatch:
    """Whether the work that follows a mark has ended, as one connection sees the session.

    `prompt` is what the work belongs to. Where no prompt began it, `opening` is the session/new or session/resume by
    which the connection came to the session: work may then run already, or never begin. `busy` says whether work ran
    at the mark already: its idle is not taken for the end of what the prompt began, unless the prompt was inserted
    before it and so joined that work.
    """

    def __init__(
        self, session: str, conn: str, *, prompt: Sent | None = None, opening: Sent | None = None, busy: bool = False
    ) -> None:
        self._session, self._conn, self._prompt, self._opening = session, conn, prompt, opening
        marked = prompt or opening
        self.mark = marked.seq if marked is not None else -1
        self._message = MessageWatch(prompt) if prompt is not None else None
        self._has_begun = self._is_working = busy
        self._has_run = False  # running was reported after the mark
        self._was_refused = False
        self.ending = Ending.OPEN

    @property
    def is_decided(self) -> bool:
        """Nothing is owed any more: what was asked is answered, and the work is over, or probably so."""
        if self.ending is Ending.PROBABLE:
            return self._prompt is None or self._prompt.response is not None
        return self.ending is Ending.OVER

    def feed(self, event: Event) -> Ending:
        if event.seq <= self.mark:
            return self.ending
        for sent in (self._prompt, self._opening):
            if sent is not None and sent.response is None and sent.is_answered_by(event):
                sent.response = event
        if self._message is not None:
            self._message.feed(event)
        self._look_at_the_answer()
        if event.conn == self._conn and (found := sight.update(event)) is not None and found[0] == self._session:
            self._see(found[1])
        return self.ending

    def _look_at_the_answer(self) -> None:
        prompt, opening = self._prompt, self._opening
        if prompt is not None:
            if prompt.response is not None and not self._was_refused and sight.error_of(prompt.response) is not None:
                self._was_refused = True
                if not self._is_working:
                    self.ending = Ending.OVER
        elif (
            opening is not None and opening.response is not None and not self._is_working and self.ending is Ending.OPEN
        ):
            self.ending = Ending.PROBABLE

    @property
    def _is_inserted(self) -> bool:
        prompt, message = self._prompt, self._message
        if prompt is None or message is None:
            return True
        return message.is_reported or (prompt.response is not None and not self._was_refused)

    def _see(self, body: dict[str, Any]) -> None:
        state = sight.state_of(body)
        if sight.is_busy(state):
            self._has_begun = self._is_working = self._has_run = True
            self.ending = Ending.OPEN
        elif state == "idle":
            self._is_working = False
            self.ending = self._at_idle(isinstance(body.get("stopReason"), str))

    def _at_idle(self, has_reason: bool) -> Ending:
        if self._was_refused:
            return Ending.OVER
        if self._is_inserted:
            return Ending.OVER if self._has_begun or has_reason else Ending.PROBABLE
        return Ending.PROBABLE if self._has_run else self.ending


ENDED: Final = "the connection ended before it came"
