"""The script of a run: which nonce belongs to which group, and which reply is due. Pure; no I/O, no provider's API."""

import hashlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from conformance.model.asked import USER, Asked
from conformance.model.replies import PLAIN, Reply

_MAX_SCANNED: Final = 4 * 1024 * 1024  # characters of one message that are searched for nonces, from its end


@dataclass(frozen=True, slots=True)
class Belonging:
    """What a request is about. `is_side` is true for titles, summaries, suggestions, routers, and what names no known
    prompt.

    `is_last_user` says that the prompt with this nonce is the last user message of the request. `tail` is a digest of
    all that comes after the nonce, of whoever: what asks for the same again has the same.
    """

    nonce: str | None
    group: str | None
    is_side: bool
    is_last_user: bool
    tail: str | None = None


class _Replies:
    """Replies in order, each as often as it says; one without a number stays."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self._due = deque((reply, reply.times) for reply in replies if reply.times is None or reply.times > 0)

    def peek(self) -> Reply | None:
        return self._due[0][0] if self._due else None

    def take(self) -> Reply | None:
        if not self._due:
            return None
        reply, times = self._due[0]
        if times is not None:
            self._due[0] = (reply, times - 1)
            if times <= 1:
                self._due.popleft()
        return reply


class Script:
    """Grows with the scenario. A key is a nonce, a group, or None for all; the closest key with replies left wins."""

    def __init__(self) -> None:
        self._groups: dict[str, str] = {}
        self._replies: dict[str | None, _Replies] = {}
        self._uses_tools = False

    def expect(self, nonce: str, group: str) -> None:
        self._groups.pop(nonce, None)  # what is sent again is the newest again
        self._groups[nonce] = group

    def set(self, key: str | None, replies: Sequence[Reply]) -> None:
        self._replies[key] = _Replies(replies)

    def belonging(self, asked: Asked) -> Belonging:
        """What `asked` is about: the last known nonce of the last user message that has any."""
        self._uses_tools = self._uses_tools or bool(asked.tools)
        is_last, nonce, tail = True, None, None
        for place, (role, text) in reversed([*enumerate(asked.spoken)]):
            if role != USER:
                continue
            if (nonce := self._last_nonce(text)) is not None:
                tail = _digest(text[text.rfind(nonce) :], asked.spoken[place + 1 :])
                break
            is_last = False
        is_bare = not asked.tools and (self._uses_tools or asked.is_about_titles)
        is_stale = nonce is not None and not is_last and nonce != self._newest(self._groups[nonce])
        is_side = nonce is None or asked.is_structured or is_bare or is_stale
        return Belonging(
            nonce, self._groups.get(nonce) if nonce else None, is_side, nonce is not None and is_last, tail
        )

    def due(self, belonging: Belonging) -> Reply:
        """The reply that is due, which is used up by this."""
        for key in self._keys(belonging):
            replies = self._replies.get(key)
            if replies is not None and (reply := replies.take()) is not None:
                return reply
        return PLAIN

    def is_failing(self, belonging: Belonging) -> Reply | None:
        """The failure that a side request shares, nothing used up: its group's; every group's where it names none."""
        if belonging.nonce is not None:
            return _failure([self._next(belonging)])
        groups = sorted(set(self._groups.values()))
        each = [Belonging(None, group, True, False) for group in groups] or [belonging]
        return _failure([self._next(one) for one in each])

    def matches(self, key: str | None, belonging: Belonging) -> bool:
        return key is None or key in (belonging.nonce, belonging.group)

    def _keys(self, belonging: Belonging) -> list[str | None]:
        return [*filter(None, (belonging.nonce, belonging.group)), None]

    def _next(self, belonging: Belonging) -> Reply | None:
        for key in self._keys(belonging):
            replies = self._replies.get(key)
            if replies is not None and (reply := replies.peek()) is not None:
                return reply
        return None

    def _newest(self, group: str) -> str:
        """The nonce of the latest prompt of a group. What asks about an older one after other words of the user, such
        as a suggestion of what to type next, is no work and must not use up what is meant for the newer."""
        return next(nonce for nonce, own in reversed(self._groups.items()) if own == group)

    def _last_nonce(self, text: str) -> str | None:
        searched = text[-_MAX_SCANNED:]
        found = {nonce: at for nonce in self._groups if (at := searched.rfind(nonce)) >= 0}
        return max(found, key=found.__getitem__) if found else None


def _digest(rest: str, following: Sequence[tuple[str, str]]) -> str:
    said = repr((rest, following)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(said, digest_size=8).hexdigest()


def _failure(due: Sequence[Reply | None]) -> Reply | None:
    if due and all(reply is not None and reply.is_injected for reply in due):
        return due[0]
    return None
