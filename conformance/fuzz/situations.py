"""Coverage of the protocol: which step was met in which situation with which reaction. Pure, but for the stage it looks
at.

A situation is what the client knows as a step begins: the state of the step's session, what is pending, what is held.
A reaction is what the agent sends from then until the next step begins.
"""

from dataclasses import dataclass
from typing import Any, Final

from conformance.history import Event, History
from conformance.scenario import sight
from conformance.scenario.model import Step
from conformance.scenario.stage import Stage
from conformance.wire import Kind, request_key

Triple = tuple[str, str, str]
"""Situation, step, reaction."""

_TELLING: Final = ("replay", "wait", "trigger", "permissions", "held", "method", "release")
_ENDS: Final = ("exited", "disconnected", "waited", "limit", "leftover")
_KINDS_OF_MODEL: Final = ("say", "stream", "think", "call-tool", "stall", "fail", "drop", "end-early", "garbage")


@dataclass(frozen=True, slots=True)
class Mark:
    """Where in the history a step began, in which situation, and what it is."""

    seq: int
    situation: str
    step: str


def situation(stage: Stage, step: Step, past: tuple[str, ...] = ()) -> Mark:
    """The mark of a step that is about to be performed. `past` is what was done to its session lately."""
    given = step.arguments
    actor = stage.actors.get(given.get("by", "")) or next(iter(stage.actors.values()), None)
    if actor is None or not actor.is_open:
        return Mark(stage.now, "not connected", spoken(step))
    chat = stage.chats.get(str(given.get("in", "")))
    pending = [sent.method.rpartition("/")[2] for sent in stage.unanswered(actor.conn)]
    words = [
        (stage.state(actor.conn, chat.id) or "quiet") if chat is not None else "-",
        *past,
        *(f"{min(pending.count(name), 3)} {name}" for name in sorted(set(pending))),
    ]
    if actor.client.held:
        words.append("asked")
    if len(stage.actors) > 1:
        words.append("two clients")
    if actor.lives > 1:
        words.append("restarted")
    return Mark(stage.now, ", ".join(words), spoken(step))


class Past:
    """What was done to each session and is not undone: cancels in a row, a close, a delete."""

    _ENDS: Final = ("cancel", "close", "delete")

    def __init__(self) -> None:
        self._done: dict[str, tuple[str, ...]] = {}

    def of(self, step: Step) -> tuple[str, ...]:
        return self._done.get(str(step.arguments.get("in", "")), ())

    def note(self, step: Step) -> None:
        session, done = str(step.arguments.get("in", "")), self.of(step)
        if step.verb in self._ENDS:
            self._done[session] = (*done, f"after {step.verb}")[-3:]
        elif step.verb == "resume" or (step.verb == "prompt" and "after close" not in done):
            self._done.pop(session, None)


def spoken(step: Step) -> str:
    """The verb with what changes its meaning."""
    given = step.arguments
    words = [f"{key}={_short(given[key])}" for key in _TELLING if key in given]
    words += [kind for kind in _KINDS_OF_MODEL if step.verb == "model" and kind in given]
    words += [key for key in ("same-as", "blocks", "refusable") if key in given]
    if step.verb in ("require", "wait"):
        words += [key for key in given if key not in ("by", "in", "patience", "otherwise")][:1]
    return " ".join([step.verb, *words])


def triples(history: History, marks: tuple[Mark, ...]) -> list[Triple]:
    """One for each step, in order. An answer is the reaction to the step that asked, all else to the latest step."""
    asked: dict[tuple[str, str, Any], tuple[str, int]] = {}
    starts = [mark.seq for mark in marks]
    reactions: list[set[str]] = [set() for _ in marks]
    at = -1
    for event in history:
        while at + 1 < len(starts) and starts[at + 1] <= event.seq:
            at += 1
        if event.dir == "client" and isinstance(event.message, dict) and "id" in event.message:
            asked[event.conn, *request_key(event.message["id"])] = (str(event.message.get("method")), at)
        elif at >= 0:
            found, to = _reaction(event, asked, at)
            if found:
                reactions[max(0, to)].add(found)
    return [
        (mark.situation, mark.step, " + ".join(sorted(found)[:6]) or "nothing")
        for mark, found in zip(marks, reactions, strict=True)
    ]


def _reaction(event: Event, asked: dict[tuple[str, str, Any], tuple[str, int]], at: int) -> tuple[str, int]:
    """What the event is as a reaction ("" for none), and to which step."""
    if event.dir == "control":
        return event.name if event.name in _ENDS else "", at
    if event.dir != "agent" or event.envelope is None:
        return "", at
    found = sight.update(event)
    if found is not None:
        return sight.state_of(found[1]) or sight.kind_of(found[1])[:40], at
    message = event.message
    if event.envelope.kind not in (Kind.RESULT, Kind.ERROR) or not isinstance(message, dict):
        method = message.get("method") if isinstance(message, dict) else None
        return f"calls {str(method)[:40]}" if method is not None else event.envelope.kind.value, at
    method, to = asked.get((event.conn, *request_key(message.get("id"))), ("nobody", at))
    error = message.get("error")
    said = error.get("code") if isinstance(error, dict) else "ok"
    return f"{method.rpartition('/')[2][:40]} {said}", to


def _short(value: Any) -> str:
    return value[:24] if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else "{...}"
