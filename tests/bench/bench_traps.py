"""Whether `check` stays linear where it is made hard: recordings of one thing over and over. Run: python
tests/bench/bench_traps.py [things]

Each trap is judged at a quarter of its size and at its whole size. A cost an event that grows with the size is
quadratic; the slowest rules are named.
"""

import gc
import sys
import time
from collections.abc import Callable
from typing import Any

from conformance.conversation import read
from conformance.history import History
from conformance.history.events import Direction, Event
from conformance.rules import RULES
from conformance.rules.oracle import decide
from conformance.wire import Envelope, envelope_of, read_envelope

Story = Callable[["Traffic", int], None]
TRAPS: dict[str, Story] = {}


class Traffic:
    """Grows a history, one message a hundredth of a second."""

    def __init__(self) -> None:
        self.history = History()
        self._id = 0
        self.connect("ada")
        self.answer(self.ask("session/new", {"cwd": "/w"}), {"sessionId": "s"})

    def connect(self, name: str) -> None:
        """What follows is on a new connection, whose ids begin anew."""
        self._conn, self._id = name, 0
        id = self.ask("initialize", {"protocolVersion": 2, "info": INFO, "capabilities": {}})
        self.answer(id, {"protocolVersion": 2, "info": INFO, "capabilities": {"session": {}}})

    def add(self, direction: Direction, message: Any) -> None:
        self._add(direction, envelope_of({"jsonrpc": "2.0", **message} if isinstance(message, dict) else message))

    def raw(self, direction: Direction, line: bytes) -> None:
        self._add(direction, read_envelope(line))

    def _add(self, direction: Direction, envelope: Envelope) -> None:
        at = len(self.history.events)
        self.history.events.append(Event(at, at / 100, self._conn, direction, envelope))

    def ask(self, method: str, params: Any, id: Any = None) -> Any:
        self._id += 1
        self.add("client", {"id": self._id if id is None else id, "method": method, "params": params})
        return self._id if id is None else id

    def answer(self, id: Any, result: Any) -> None:
        self.add("agent", {"id": id, "result": result})

    def update(self, kind: str, session: str = "s", **body: Any) -> None:
        params = {"sessionId": session, "update": {"sessionUpdate": kind, **body}}
        self.add("agent", {"method": "session/update", "params": params})

    def state(self, state: str, session: str = "s", **body: Any) -> None:
        self.update("state_update", session, state=state, **body)

    def prompt(self, text: str) -> Any:
        return self.ask("session/prompt", {"sessionId": "s", "prompt": [{"type": "text", "text": text}]})

    def cancel(self) -> None:
        self.add("client", {"method": "session/cancel", "params": {"sessionId": "s"}})

    def permission(self, id: Any) -> None:
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        subject = {"type": "tool_call", "toolCall": {"toolCallId": f"c{id}", "title": "Look", "status": "pending"}}
        params = {"sessionId": "s", "title": "May I?", "subject": subject, "options": options}
        self.add("agent", {"id": id, "method": "session/request_permission", "params": params})


INFO = {"name": "bench", "version": "1"}
YES = {"outcome": {"outcome": "selected", "optionId": "yes"}}


def trap(story: Story) -> Story:
    TRAPS[story.__name__.replace("_", " ")] = story
    return story


@trap
def prompts_that_nobody_answers(traffic: Traffic, count: int) -> None:
    for number in range(count):
        traffic.prompt(f"Question {number}")


@trap
def prompts_accepted_and_never_reported(traffic: Traffic, count: int) -> None:
    for number in range(count):
        traffic.answer(traffic.prompt("Again"), {"messageId": f"u{number}"})


@trap
def turns_without_any_state(traffic: Traffic, count: int) -> None:
    for number in range(count):
        traffic.answer(traffic.prompt(f"Question {number}"), {"messageId": f"u{number}"})
        traffic.update("agent_message", messageId=f"a{number}", content=[{"type": "text", "text": "Yes."}])


@trap
def turns_without_running(traffic: Traffic, count: int) -> None:
    for number in range(count):
        traffic.answer(traffic.prompt(f"Question {number}"), {"messageId": f"u{number}"})
        traffic.update("agent_message", messageId=f"a{number}", content=[{"type": "text", "text": "Yes."}])
        traffic.state("idle", stopReason=f"_{number}")


@trap
def prompts_refused_after_insertion(traffic: Traffic, count: int) -> None:
    for number in range(count):
        id = traffic.prompt(f"Question {number}")
        content = [{"type": "text", "text": f"Question {number}"}]
        traffic.update("user_message", messageId=f"u{number}", content=content)
        traffic.add("agent", {"id": id, "error": {"code": -32603, "message": "no"}})


@trap
def one_message_of_all_prompts(traffic: Traffic, count: int) -> None:
    for number in range(count):
        traffic.answer(traffic.prompt(f"Question {number}"), {"messageId": "u"})
        traffic.update("user_message_chunk", messageId="u", content={"type": "text", "text": f"Question {number}"})


@trap
def prompts_told_in_part(traffic: Traffic, count: int) -> None:
    for number in range(count):
        traffic.answer(traffic.prompt(f"Question {number}, and what comes of it"), {"messageId": f"u{number}"})
        content = {"type": "text", "text": f"Question {number}"}
        traffic.update("user_message_chunk", messageId=f"u{number}", content=content)


@trap
def terminals_that_go_on(traffic: Traffic, count: int) -> None:
    shown = [{"type": "terminal", "terminalId": f"t{number}"} for number in range(count)]
    traffic.answer(traffic.prompt("Hello"), {"messageId": "u"})
    traffic.state("running")
    for number in range(count):
        content, title = shown[number : number + 1], f"Serve {number}"
        traffic.update("tool_call_update", toolCallId=f"c{number}", title=title, status="completed", content=content)
        traffic.update("terminal_update", terminalId=f"t{number}", command="serve")
    traffic.cancel()
    traffic.state("idle", stopReason="cancelled")
    for number in range(count):
        traffic.update("terminal_output_chunk", terminalId=f"t{number}", data="aGk=")


@trap
def states_of_its_own(traffic: Traffic, count: int) -> None:
    traffic.answer(traffic.prompt("Hello"), {"messageId": "u"})
    for number in range(count):
        traffic.state(f"_{number}")


@trap
def idle_over_and_over(traffic: Traffic, count: int) -> None:
    traffic.answer(traffic.prompt("Hello"), {"messageId": "u"})
    for number in range(count):
        traffic.state("idle", stopReason="error", background=[{"type": "terminal", "terminalId": f"t{number}"}])


@trap
def running_over_and_over(traffic: Traffic, count: int) -> None:
    for _ in range(count):
        traffic.state("running", background=[])
        traffic.update("tool_call_update", toolCallId="c", title="Look", status="in_progress")
        traffic.state("idle", stopReason="end_turn", background=[])


@trap
def permissions_one_by_one(traffic: Traffic, count: int) -> None:
    traffic.answer(traffic.prompt("Hello"), {"messageId": "u"})
    traffic.state("running")
    for number in range(count):
        traffic.permission(number)
        traffic.state("requires_action")
        traffic.add("client", {"id": number, "result": YES})
        traffic.state("running")


@trap
def permissions_all_at_once(traffic: Traffic, count: int) -> None:
    traffic.answer(traffic.prompt("Hello"), {"messageId": "u"})
    traffic.state("running")
    for number in range(count):
        traffic.permission(number)
    traffic.cancel()
    for number in range(count):
        traffic.add("client", {"id": number, "result": YES})
    traffic.state("idle", stopReason="cancelled")


@trap
def sessions(traffic: Traffic, count: int) -> None:
    for number in range(count):
        traffic.answer(traffic.ask("session/new", {"cwd": "/w"}), {"sessionId": f"s{number}"})
        traffic.update("state_update", session=f"s{number}", state="running")


@trap
def resumes(traffic: Traffic, count: int) -> None:
    content = [{"type": "text", "text": "Hello"}]
    traffic.answer(traffic.prompt("Hello"), {"messageId": "u"})
    traffic.update("user_message", messageId="u", content=content)
    for number in range(count):
        params = {"sessionId": "s", "cwd": "/w", "replayFrom": {"type": "start"}}
        id = traffic.ask("session/resume", params)
        traffic.update("user_message", messageId="u", content=content)
        traffic.update("user_message", messageId=f"old{number % 50}", content=content)
        traffic.state("idle")
        traffic.answer(id, {})


@trap
def replays_and_new_messages(traffic: Traffic, count: int) -> None:
    """Each thing is told of once before a replay, once more within it, and then there is as much that is new."""
    content = [{"type": "text", "text": "Hello"}]
    traffic.answer(traffic.prompt("Hello"), {"messageId": "u"})
    traffic.update("user_message", messageId="u", content=content)
    for name in ("old", "new"):
        traffic.state("running")
        for number in range(count // 4):
            text = {"type": "text", "text": f"{name} {number}"}
            traffic.update("agent_message", messageId=f"{name}{number}", content=[text])
            traffic.update("agent_message_chunk", messageId=name, content=text)
            traffic.update("tool_call_update", toolCallId=f"{name}{number}", title=text["text"], status="completed")
            traffic.update("notice", severity="info", title="Note", description=str(number))
        traffic.state("idle", stopReason="end_turn")
        id = traffic.ask("session/resume", {"sessionId": "s", "cwd": "/w", "replayFrom": {"type": "start"}})
        traffic.update("user_message", messageId="u", content=content)
        for number in range(count // 4):
            traffic.update("notice", severity="info", title="Note", description=str(number))
        traffic.state("idle")
        traffic.answer(id, {})


@trap
def answers_under_wrong_ids(traffic: Traffic, count: int) -> None:
    for number in range(count):
        traffic.permission(f"q{number}")
        traffic.add("client", {"id": f"z{number}", "result": YES})


@trap
def resumes_that_nobody_answers(traffic: Traffic, count: int) -> None:
    for number in range(count):
        traffic.ask("session/resume", {"sessionId": "s", "cwd": "/w"})
        traffic.update("agent_message", messageId=f"a{number}", content=[{"type": "text", "text": "Yes."}])


@trap
def cancels(traffic: Traffic, count: int) -> None:
    traffic.answer(traffic.prompt("Hello"), {"messageId": "u"})
    for _ in range(count):
        traffic.state("running")
        traffic.cancel()
        traffic.state("idle", stopReason="cancelled")


@trap
def cancels_and_nothing_else(traffic: Traffic, count: int) -> None:
    traffic.prompt("Hello")
    traffic.state("running")
    for _ in range(count):
        traffic.cancel()


@trap
def cancels_of_unknown_requests(traffic: Traffic, count: int) -> None:
    for number in range(count):
        traffic.add("client", {"method": "$/cancel_request", "params": {"requestId": f"x{number}"}})
        traffic.add("agent", {"id": f"x{number}", "error": {"code": -32800, "message": "no"}})


@trap
def stray_responses(traffic: Traffic, count: int) -> None:
    for number in range(count):
        traffic.answer(f"x{number}", {})


@trap
def null_responses(traffic: Traffic, count: int) -> None:
    for number in range(count):
        traffic.add("client", {"method": f"unknown{number}", "params": {}})
        traffic.add("agent", {"id": None, "error": {"code": -32600, "message": "no"}})


@trap
def arrays(traffic: Traffic, count: int) -> None:
    for _ in range(count):
        traffic.add("client", [{"jsonrpc": "2.0", "id": 1, "method": "session/list"}])


@trap
def one_id_for_all_requests(traffic: Traffic, count: int) -> None:
    for _ in range(count):
        traffic.answer(traffic.ask("session/list", {}, id=7), {"sessions": []})


@trap
def one_id_for_all_pending_requests(traffic: Traffic, count: int) -> None:
    for _ in range(count):
        traffic.ask("session/list", {}, id=7)


@trap
def tool_calls(traffic: Traffic, count: int) -> None:
    traffic.state("running")
    for number in range(count):
        traffic.update("tool_call_update", toolCallId=f"c{number}", title="Look", status="in_progress")
        traffic.update("tool_call_update", toolCallId="c", title="Look", status="in_progress")
    traffic.state("idle", stopReason="error", background=[])


@trap
def closes(traffic: Traffic, count: int) -> None:
    for _ in range(count):
        traffic.state("running")
        id = traffic.ask("session/close", {"sessionId": "s"})
        traffic.state("idle", stopReason="cancelled")
        traffic.answer(id, {})


def turn(traffic: Traffic, session: str, number: int) -> None:
    content = [{"type": "text", "text": f"Question {number}"}]
    id = traffic.ask("session/prompt", {"sessionId": session, "prompt": content})
    traffic.answer(id, {"messageId": f"u{number}"})
    traffic.update("user_message", session, messageId=f"u{number}", content=content)
    traffic.state("running", session)
    traffic.update("agent_message", session, messageId=f"a{number}", content=[{"type": "text", "text": "Yes."}])
    traffic.state("idle", session, stopReason="end_turn")


@trap
def sessions_of_one_turn(traffic: Traffic, count: int) -> None:
    for number in range(count):
        traffic.answer(traffic.ask("session/new", {"cwd": "/w"}), {"sessionId": f"s{number}"})
        turn(traffic, f"s{number}", number)
        traffic.answer(traffic.ask("session/close", {"sessionId": f"s{number}"}), {})


@trap
def sessions_that_wait_together(traffic: Traffic, count: int) -> None:
    for number in range(count):
        traffic.answer(traffic.ask("session/new", {"cwd": "/w"}), {"sessionId": f"s{number}"})
    ids = [
        traffic.ask("session/prompt", {"sessionId": f"s{number}", "prompt": [{"type": "text", "text": "Again"}]})
        for number in range(count)
    ]
    for number, id in enumerate(ids):
        traffic.answer(id, {"messageId": f"u{number}"})


@trap
def sessions_nobody_made(traffic: Traffic, count: int) -> None:
    for number in range(count):
        traffic.state("running", f"z{number}")


@trap
def connections(traffic: Traffic, count: int) -> None:
    for number in range(count):
        traffic.connect(f"c{number}")
        traffic.answer(traffic.ask("session/new", {"cwd": "/w"}), {"sessionId": f"s{number}"})
        traffic.ask("session/prompt", {"sessionId": f"s{number}", "prompt": [{"type": "text", "text": "Hello"}]})
        traffic.answer("stray", {})


@trap
def connections_on_one_session(traffic: Traffic, count: int) -> None:
    for number in range(count):
        traffic.connect(f"c{number}")
        traffic.answer(traffic.ask("session/resume", {"sessionId": "s", "cwd": "/w"}), {})
        turn(traffic, "s", number)


@trap
def lines_that_are_no_messages(traffic: Traffic, count: int) -> None:
    for number in range(count):
        traffic.raw("client", b'{"id": %d, "method"' % number)
        traffic.add("agent", {"id": f"x{number}", "error": {"code": -32700, "message": "no"}})
        traffic.raw("agent", b"user_message")
        traffic.answer(traffic.prompt(f"Question {number}"), {"messageId": f"u{number}"})


@trap
def works_that_nobody_stopped(traffic: Traffic, count: int) -> None:
    traffic.prompt("Hello")
    for number in range(count):
        traffic.state("running")
        traffic.permission(number)
        traffic.add("client", {"id": number, "result": YES})
        traffic.state("idle", stopReason="cancelled")


def cost(story: Story, count: int) -> tuple[float, list[tuple[float, str]]]:
    """Microseconds an event, and what each rule takes of it."""
    traffic = Traffic()
    story(traffic, count)
    # an answered request long after it all: what is missing by then is missing
    events = traffic.history.events
    last = events[-1].t + 100
    for direction, message in (("client", LIST), ("agent", LISTED)):
        at = len(events)
        events.append(Event(at, last, "ada", direction, envelope_of(message)))  # type: ignore[arg-type]
    gc.collect()
    gc.disable()  # as check does
    began = time.process_time()
    conversation = read(traffic.history)
    each = [(time.process_time() - began, "(reading)")]
    for rule in RULES.values():
        began = time.process_time()
        outcome = decide(rule, conversation)
        if outcome.broken:
            raise SystemExit(f"{rule.id} broke:\n{outcome.broken}")
        each.append((time.process_time() - began, rule.id))
    gc.enable()
    us = [(1e6 * seconds / len(events), name) for seconds, name in each]
    return sum(seconds for seconds, _ in us), sorted(us, reverse=True)


LIST = {"jsonrpc": "2.0", "id": "last", "method": "session/list", "params": {}}
LISTED = {"jsonrpc": "2.0", "id": "last", "result": {"sessions": []}}


def main() -> None:
    count = int(sys.argv[1]) if sys.argv[1:] else 10_000
    print(f"{'':38}  {'us at 1/4':>9}  {'us':>7}   slowest")
    for name, story in TRAPS.items():
        small, _ = cost(story, count // 4)
        whole, each = cost(story, count)
        mark = "  <-- grows" if whole > 2 * small and whole > 40 else ""
        slowest = ", ".join(f"{rule} {us:.1f}" for us, rule in each[:3])
        print(f"{name:38}  {small:9.1f}  {whole:7.1f}   {slowest}{mark}")


if __name__ == "__main__":
    main()
