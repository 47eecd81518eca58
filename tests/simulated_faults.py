"""Small corruptions of a right history, each with the rule that owns it: a response twice, an id changed in one update.

Each takes a `Tape` (the events, to be edited in place) and a dice, and says whether it found a place where it is beyond
excuse.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from conformance.history import History, Recorder
from conformance.history.events import Event
from conformance.wire import envelope_of, read_envelope


@dataclass(eq=False)
class Line:
    """One event; what is sent may be edited."""

    t: float
    conn: str
    dir: str
    said: Any

    @property
    def method(self) -> Any:
        return self.said.get("method") if self.dir != "control" and isinstance(self.said, dict) else None

    @property
    def params(self) -> dict[str, Any]:
        return self.said.get("params", {}) if self.dir != "control" and isinstance(self.said, dict) else {}

    @property
    def update(self) -> dict[str, Any]:
        """The update that it tells; empty for anything else."""
        return self.params.get("update", {}) if self.method == "session/update" else {}

    @property
    def kind(self) -> str:
        return str(self.update.get("sessionUpdate", ""))

    @property
    def session(self) -> Any:
        return self.params.get("sessionId")

    @property
    def result(self) -> Any:
        return self.said.get("result") if self.dir == "agent" and self.method is None else None


class Tape(list[Line]):
    """The events of a history, in order."""

    @classmethod
    def of(cls, history: History) -> Tape:
        return cls(cls._line(event) for event in history.events)

    @staticmethod
    def _line(event: Event) -> Line:
        said = dict(event.control or {}) if event.dir == "control" else copy.deepcopy(event.message)
        return Line(event.t, event.conn, event.dir, said)

    def history(self) -> History:
        now = 0.0
        recorder = Recorder(clock=lambda: now)
        for line in self:
            now = line.t
            if line.dir == "control":
                fields = {key: value for key, value in line.said.items() if key != "event"}
                recorder.control(line.conn, line.said["event"], **fields)
            else:
                told = read_envelope(line.said) if isinstance(line.said, bytes) else envelope_of(line.said)
                recorder.wire(line.conn, line.dir, told)  # type: ignore[arg-type]
        return recorder.history

    def answers(self, method: str) -> list[tuple[Line, Line]]:
        """(request, success) of the clients' requests of that method."""
        pending: dict[tuple[str, Any], Line] = {}
        found = []
        for line in self:
            if line.dir == "client" and line.method == method:
                pending[line.conn, line.said.get("id")] = line
            elif line.dir == "agent" and line.method is None and (line.conn, line.said.get("id")) in pending:
                request = pending.pop((line.conn, line.said["id"]))
                if "result" in line.said:
                    found.append((request, line))
        return found

    def after(self, line: Line) -> list[Line]:
        return self[self.index(line) + 1 :]

    def insert_after(self, line: Line, said: Any, *, conn: str | None = None) -> None:
        self.insert(self.index(line) + 1, Line(line.t, conn or line.conn, "agent", said))

    def told(self, identifier: Any) -> list[Line]:
        """The user messages with that id, on any connection."""
        return [
            line for line in self if line.kind.startswith("user_message") and line.update["messageId"] == identifier
        ]


Fault = Callable[[Tape, random.Random], bool]
FAULTS: dict[str, tuple[str, frozenset[str], Fault]] = {}
"""Name -> (the rule that owns it, must rules that may fail with it, what it does)."""


def fault(owner: str, *also: str) -> Callable[[Fault], Fault]:
    def register(do: Fault) -> Fault:
        FAULTS[do.__name__] = (owner, frozenset(also), do)
        return do

    return register


def pick(dice: random.Random, found: list[Any]) -> Any:
    return dice.choice(found) if found else None


# -- responses


@fault("prompt.message-id-in-response", "command.inserts-a-message")
def no_id(tape: Tape, dice: random.Random) -> bool:
    found = pick(dice, tape.answers("session/prompt"))
    if found:
        del found[1].said["result"]["messageId"]
    return bool(found)


@fault("prompt.distinct-message-ids", "clients.own-association", "prompt.retry-is-a-new-message")
def id_again(tape: Tape, dice: random.Random) -> bool:
    answers = tape.answers("session/prompt")
    pairs = [(a, b) for a in answers for b in answers if a is not b and a[0].session == b[0].session]
    found = pick(dice, pairs)
    if found:
        (_, first), (_, second) = found
        for line in tape.told(second.said["result"]["messageId"]):
            line.update["messageId"] = first.said["result"]["messageId"]
        second.said["result"]["messageId"] = first.said["result"]["messageId"]
    return bool(found)


@fault("wire.one-response")
def twice(tape: Tape, dice: random.Random) -> bool:
    method = dice.choice(["session/prompt", "session/list", "session/new", "session/resume"])
    found = pick(dice, tape.answers(method))
    if found:
        tape.insert_after(found[1], copy.deepcopy(found[1].said))
    return bool(found)


@fault("wire.response-id")
def id_of_another_type(tape: Tape, dice: random.Random) -> bool:
    found = pick(dice, [line for line in tape if line.result is not None and isinstance(line.said["id"], int)])
    if found:
        found.said["id"] = str(found.said["id"])
    return found is not None


@fault("wire.result-or-error")
def both(tape: Tape, dice: random.Random) -> bool:
    found = pick(dice, [line for line in tape if line.result is not None])
    if found:
        found.said["error"] = {"code": -32603, "message": "Oh"}
    return found is not None


@fault("prompt.no-error-after-insertion", "cancel.prompt-still-succeeds")
def error_for_an_inserted_one(tape: Tape, dice: random.Random) -> bool:
    stops = {line.session for line in tape if line.method in ("session/cancel", "session/close")}
    answers = [(q, r) for q, r in tape.answers("session/prompt") if q.session not in stops and is_unique(tape, q)]
    found = pick(dice, [(q, r) for q, r in answers if tape.told(r.said["result"]["messageId"])])
    if found:
        del found[1].said["result"]
        found[1].said["error"] = {"code": -32603, "message": "Oh"}
    return bool(found) and not any(line.method == "$/cancel_request" for line in tape)


def is_unique(tape: Tape, prompt: Line) -> bool:
    """Whether no other prompt has its text, nor can: the suite sent it."""
    if tape[0].dir != "control":
        return False

    def text(line: Line) -> str:
        return "".join(block.get("text", "") for block in line.params["prompt"])

    return sum(line.method == "session/prompt" and text(line) == text(prompt) for line in tape) == 1


# -- user messages


@fault("prompt.insertion-reported", "command.inserts-a-message", "prompt.no-success-before-insertion")
def not_reported(tape: Tape, dice: random.Random) -> bool:
    answers = [(q, r) for q, r in tape.answers("session/prompt") if has_ended(tape, q.conn, q.session, r)]
    found = pick(dice, answers)
    if any(line.method in ("session/resume", "session/close", "session/cancel") for line in tape):
        return False
    if found:
        for line in tape.told(found[1].said["result"]["messageId"]):
            tape.remove(line)
    return bool(found)


def has_ended(tape: Tape, conn: str, session: Any, line: Line) -> bool:
    """Whether, after that line, the client is told of running and then of idle."""
    states = [e.update["state"] for e in tape.after(line) if is_state(e) and (e.conn, e.session) == (conn, session)]
    return "running" in states and "idle" in states[states.index("running") :]


def is_state(line: Line) -> bool:
    return line.kind == "state_update"


@fault("prompt.one-id-for-all-updates", "clients.same-id-for-all", "replay.same-id", "command.inserts-a-message")
def reported_under_another_id(tape: Tape, dice: random.Random) -> bool:
    answers = [(q, r) for q, r in tape.answers("session/prompt") if is_unique(tape, q)]
    found = pick(dice, [(q, r) for q, r in answers if tape.told(r.said["result"]["messageId"])])
    if found:
        for line in tape.told(found[1].said["result"]["messageId"]):
            line.update["messageId"] = "another"
    return bool(found)


@fault("clients.same-id-for-all", "replay.same-id")
def another_id_for_another_client(tape: Tape, dice: random.Random) -> bool:
    found = []
    for request, answer in tape.answers("session/prompt"):
        told = tape.told(answer.said["result"].get("messageId"))
        others = {line.conn for line in told} - {request.conn}
        if is_unique(tape, request) and others and any(line.conn == request.conn for line in told):
            found.append([line for line in told if line.conn in others])
    chosen = pick(dice, found)
    for line in chosen or []:
        line.update["messageId"] = "another"
    return bool(chosen)


# -- states


@fault("cancel.only-when-cancelled")
def cancelled_by_nobody(tape: Tape, dice: random.Random) -> bool:
    stops = {"session/cancel", "session/close", "$/cancel_request", "session/request_permission"}
    idles = [line for line in tape if is_state(line) and line.update.get("stopReason") == "end_turn"]
    found = pick(dice, idles)
    if found is None or any(line.method in stops for line in tape):
        return False
    for line in idles:
        line.update["stopReason"] = "cancelled"
    return any(line.method == "session/prompt" for line in tape)


@fault("wire.open-enum-values")
def reserved_word(tape: Tape, dice: random.Random) -> bool:
    found = pick(dice, [line for line in tape if is_state(line) and line.update.get("stopReason") == "_paused"])
    if found:
        found.update["stopReason"] = "paused"
    return found is not None


@fault("prompt.error-object-shape", "wire.valid-shape")
def error_in_words(tape: Tape, dice: random.Random) -> bool:
    found = pick(dice, [line for line in tape if line.update.get("stopReason") == "error"])
    if found:
        found.update["error"] = "Who are you?"
    return found is not None


@fault(
    "state.running-when-work-starts", "command.same-lifecycle", "cancel.ends-idle-cancelled", "replay.state-snapshot"
)
def never_running(tape: Tape, dice: random.Random) -> bool:
    for line in [line for line in tape if is_state(line) and line.update["state"] != "idle"]:
        tape.remove(line)
    works = [line for line in tape if line.kind.startswith("agent_") and line.session]
    return any(has_idle_after(tape, line) for line in works) and not any(e.method == "session/resume" for e in tape)


def has_idle_after(tape: Tape, line: Line) -> bool:
    return any(is_state(e) and (e.conn, e.session) == (line.conn, line.session) for e in tape.after(line))


@fault("cancel.updates-before-idle", "state.background-list-is-complete")
def words_after_the_cancelled_idle(tape: Tape, dice: random.Random) -> bool:
    found = []
    for at, line in enumerate(tape):
        if line.update.get("stopReason") != "cancelled":
            continue
        before = [e for e in tape[:at] if (e.conn, e.session) == (line.conn, line.session)]
        previous = [e.update.get("state") for e in before if is_state(e)][-1:]
        chunk = before[-1] if before and before[-1].kind == "agent_message_chunk" else None
        if chunk is not None and previous == ["running"]:
            found.append((chunk, line))
    chosen = pick(dice, found)
    if chosen:
        chunk, idle = chosen
        tape.insert_after(idle, copy.deepcopy(chunk.said))
    return bool(chosen) and not any(line.method == "session/resume" for line in tape)


# -- resumes


def windows(tape: Tape) -> list[tuple[Line, list[Line], Line]]:
    """(the resume, the updates of its session within the window, its response), where no other resume overlaps."""
    found = []
    for request, answer in tape.answers("session/resume"):
        between = tape[tape.index(request) + 1 : tape.index(answer)]
        own = [e for e in between if e.conn == request.conn and e.session == request.session]
        overlaps = [
            other
            for other, told in tape.answers("session/resume")
            if other is not request
            and other.session == request.session
            and other.conn == request.conn
            and tape.index(other) < tape.index(answer)
            and tape.index(told) > tape.index(request)
        ]
        if not overlaps:
            found.append((request, [e for e in own if e.kind], answer))
    return found


@fault("replay.state-snapshot")
def no_snapshot(tape: Tape, dice: random.Random) -> bool:
    found = pick(dice, [w for w in windows(tape) if not any(is_state(e) and e.update["state"] != "idle" for e in w[1])])
    for line in found[1] if found else []:
        if is_state(line):
            tape.remove(line)
    return bool(found)


@fault("replay.same-id")
def replayed_under_another_id(tape: Tape, dice: random.Random) -> bool:
    ids = {
        answer.said["result"]["messageId"]: answer
        for request, answer in tape.answers("session/prompt")
        if is_unique(tape, request)
    }
    found = []
    for request, told, _ in windows(tape):
        for line in told:
            answer = ids.get(line.update.get("messageId")) if line.kind == "user_message" else None
            if answer is not None and tape.index(answer) < tape.index(request) and line.t - answer.t > 3:
                found.append((line.update["messageId"], told))
    chosen = pick(dice, found)
    if chosen:
        identifier, told = chosen
        for line in told:
            if line.update.get("messageId") == identifier:
                line.update["messageId"] = "another"
    return bool(chosen)


@fault("replay.reset-before-chunks", "replay.no-doubled-content")
def no_reset(tape: Tape, dice: random.Random) -> bool:
    found = []
    for request, told, _ in windows(tape):
        for line in told:
            if line.kind == "user_message" and line.update["content"] == []:
                same = [e for e in tape[: tape.index(request)] if e.update.get("messageId") == line.update["messageId"]]
                later = [e for e in told if e.update.get("messageId") == line.update["messageId"]]
                is_chunked = all(e.kind == "user_message_chunk" for e in later if e is not line)
                if is_chunked and any(e.conn == line.conn for e in same) and line.t - same[-1].t > 3:
                    found.append(line)
    chosen = pick(dice, found)
    if chosen:
        tape.remove(chosen)
    return chosen is not None


@fault("replay.none-unless-asked")
def replayed_unasked(tape: Tape, dice: random.Random) -> bool:
    found = []
    for request, told, _ in windows(tape):
        at = tape.index(request)
        known = {
            e.update["messageId"]
            for e in tape[:at]
            if e.kind in ("user_message", "agent_message") and request.t - e.t > 3
        }
        if "replayFrom" in request.params and any(
            e.update.get("messageId") in known and e.update["content"] for e in told
        ):
            found.append(request)
    chosen = pick(dice, found)
    if chosen:
        del chosen.params["replayFrom"]
    return chosen is not None


@fault("replay.before-response", "replay.state-snapshot")
def replayed_after_the_response(tape: Tape, dice: random.Random) -> bool:
    found = []
    for request, told, answer in windows(tape):
        at = tape.index(request)
        known = {e.update["messageId"] for e in tape[:at] if e.kind == "user_message" and request.t - e.t > 3}
        idle = all(e.update["state"] == "idle" for e in told if is_state(e))
        if idle and "replayFrom" in request.params and any(e.update.get("messageId") in known for e in told):
            found.append((request, told, answer))
    chosen = pick(dice, found)
    if chosen:
        request, told, answer = chosen
        tape.remove(answer)
        answer.t = told[0].t
        tape.insert(tape.index(told[0]), answer)
    return bool(chosen)


# -- the rest


@fault("session.silent-after-close")
def words_after_the_close(tape: Tape, dice: random.Random) -> bool:
    found = pick(dice, tape.answers("session/close"))
    if found:
        update = {"sessionUpdate": "usage_update", "used": 1, "size": 2}
        params = {"sessionId": found[0].session, "update": update}
        tape.insert_after(found[1], {"jsonrpc": "2.0", "method": "session/update", "params": params})
    return bool(found) and not any(line.method == "session/resume" for line in tape)


@fault("session.updates-of-known-sessions")
def a_ghost(tape: Tape, dice: random.Random) -> bool:
    found = pick(dice, [line for line in tape if line.kind == "agent_message_chunk"])
    if found:
        found.params["sessionId"] = "ghost"
    return found is not None


@fault("wire.no-unknown-root-fields")
def a_field(tape: Tape, dice: random.Random) -> bool:
    found = pick(dice, [line for line in tape if line.kind == "agent_message_chunk"])
    if found:
        found.update["vendor"] = 1
    return found is not None


@fault("wire.known-methods")
def a_method(tape: Tape, dice: random.Random) -> bool:
    found = pick(dice, [line for line in tape if line.dir == "agent"])
    if found:
        tape.insert_after(found, {"jsonrpc": "2.0", "method": "session/mood", "params": {}})
    return found is not None


@fault("wire.only-messages-on-stdout")
def a_banner(tape: Tape, dice: random.Random) -> bool:
    found = pick(dice, [line for line in tape if line.dir == "agent"])
    if found:
        tape.insert_after(found, b"Welcome!")
    return found is not None


@fault("wire.valid-shape")
def a_number_for_a_text(tape: Tape, dice: random.Random) -> bool:
    found = pick(dice, [line for line in tape if line.kind == "agent_message_chunk"])
    if found:
        found.update["content"]["text"] = 7
    return found is not None


@fault("wire.no-reply-to-notifications", "wire.response-id")
def an_answer_to_a_cancel(tape: Tape, dice: random.Random) -> bool:
    found = pick(dice, [line for line in tape if line.method == "session/cancel"])
    if found:
        tape.insert_after(found, {"jsonrpc": "2.0", "id": None, "result": {}})
    return found is not None


@fault("cancel.unknown-request-ignored")
def an_answer_to_nothing(tape: Tape, dice: random.Random) -> bool:
    found = pick(dice, [line for line in tape if line.params.get("requestId") == 9999])
    if found:
        error = {"code": -32800, "message": "Cancelled"}
        tape.insert_after(found, {"jsonrpc": "2.0", "id": 9999, "error": error})
    return found is not None


@fault("wire.request-ids")
def a_request_without_id(tape: Tape, dice: random.Random) -> bool:
    asks = [line for line in tape if line.method == "session/request_permission"]
    found = pick(dice, asks)
    if found:
        again = copy.deepcopy(found.said)
        again["id"] = None
        tape.insert_after(found, again)
    return found is not None


@fault("tool.permission-options")
def options_twice(tape: Tape, dice: random.Random) -> bool:
    found = pick(dice, [line for line in tape if line.method == "session/request_permission"])
    if found:
        found.params["options"] = [*found.params["options"], found.params["options"][0]]
    return found is not None


@fault("session.config-options")
def a_value_that_is_no_option(tape: Tape, dice: random.Random) -> bool:
    found = pick(dice, tape.answers("session/new"))
    if found:
        found[1].said["result"]["configOptions"][0]["currentValue"] = "none"
    return bool(found)


@fault("session.list")
def a_relative_folder(tape: Tape, dice: random.Random) -> bool:
    found = pick(dice, [r for _, r in tape.answers("session/list") if r.said["result"]["sessions"]])
    if found:
        found.said["result"]["sessions"][0]["cwd"] = "w"
    return found is not None


@fault("session.baseline-methods")
def no_such_method(tape: Tape, dice: random.Random) -> bool:
    found = pick(dice, tape.answers(dice.choice(["session/list", "session/resume", "session/close"])))
    if found:
        del found[1].said["result"]
        found[1].said["error"] = {"code": -32601, "message": "Method not found"}
    return bool(found)


@fault("session.unique-ids", "session.updates-of-known-sessions")
def a_session_id_again(tape: Tape, dice: random.Random) -> bool:
    found = tape.answers("session/new")
    again = [r for q, r in found[1:] if q.conn == found[0][0].conn]
    if again:
        again[0].said["result"]["sessionId"] = found[0][1].said["result"]["sessionId"]
    return bool(again)


@fault("init.info")
def nameless(tape: Tape, dice: random.Random) -> bool:
    found = pick(dice, tape.answers("initialize"))
    if found:
        del found[1].said["result"]["info"]
    return bool(found)


@fault("init.version")
def version_3(tape: Tape, dice: random.Random) -> bool:
    found = pick(dice, tape.answers("initialize"))
    if found:
        found[1].said["result"]["protocolVersion"] = 3
    return bool(found)


@fault("init.capability-markers")
def a_boolean(tape: Tape, dice: random.Random) -> bool:
    found = pick(dice, tape.answers("initialize"))
    if found:
        found[1].said["result"]["capabilities"]["session"]["delete"] = True
    return bool(found)


@fault("state.background-announced")
def listed_and_never_announced(tape: Tape, dice: random.Random) -> bool:
    found = pick(dice, [line for line in tape if is_state(line) and line.update.get("background") == []])
    if found:
        for line in tape[tape.index(found) :]:
            if is_state(line) and line.session == found.session:
                line.update["background"] = [{"type": "tool_call", "toolCallId": "ghost"}]
    return found is not None


@fault("tool.denied-is-not-run")
def run_after_a_denial(tape: Tape, dice: random.Random) -> bool:
    found = []
    for ask in [line for line in tape if line.method == "session/request_permission"]:
        answers = [e for e in tape.after(ask) if e.dir == "client" and e.conn == ask.conn and "result" in e.said]
        answer = next((e for e in answers if e.said["id"] == ask.said["id"]), None)
        call = ask.params["subject"]["toolCall"]["toolCallId"]
        ends = [e for e in tape.after(ask) if e.conn == ask.conn and e.update.get("toolCallId") == call]
        if answer is None or answer.said["result"]["outcome"].get("optionId") != "no" or not ends:
            continue
        asked = [e for e in tape if e.method == ask.method and e.params["subject"]["toolCall"]["toolCallId"] == call]
        if len(asked) == 1 and ends[0].update.get("status") == "failed" and tape.index(ends[0]) > tape.index(answer):
            found.append(ends[0])
    chosen = pick(dice, found)
    if chosen:
        again = copy.deepcopy(chosen.said)
        chosen.update["status"] = "in_progress"
        again["params"]["update"]["status"] = "completed"
        tape.insert_after(chosen, again)
    return chosen is not None


@fault("tool.one-id-one-call")
def another_call_of_that_id(tape: Tape, dice: random.Random) -> bool:
    found = pick(
        dice, [line for line in tape if line.update.get("status") == "completed" and "title" not in line.update]
    )
    if found:
        said = copy.deepcopy(found.said)
        said["params"]["update"] |= {"status": "pending", "title": "Delete", "kind": "delete"}
        tape.insert_after(found, said)
    return found is not None
