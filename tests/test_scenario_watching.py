"""When work has ended, decided event by event, for agents of every right kind and some wrong ones."""

from typing import Any

import pytest

from conformance.history import Recorder
from conformance.scenario import sight
from conformance.scenario.watching import Ending, MessageWatch, Sent, WorkWatch
from conformance.wire import envelope_of

CONN, SESSION, NONCE = "ada", "s1", "acp-0000000001"


class Traffic:
    """Events of one session, in order; `prompt` sends one, the rest is the agent's."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self.ids = 0

    def prompt(self, nonce: str | None = NONCE) -> Sent:
        self.ids += 1
        message = {"jsonrpc": "2.0", "id": self.ids, "method": "session/prompt", "params": {"sessionId": SESSION}}
        event = self.recorder.wire(CONN, "client", envelope_of(message))
        return Sent(f"p{self.ids}", CONN, self.ids, "session/prompt", event.seq, SESSION, nonce)

    def agent(self, message: dict[str, Any], conn: str = CONN) -> None:
        self.recorder.wire(conn, "agent", envelope_of({"jsonrpc": "2.0", **message}))

    def update(self, kind: str, conn: str = CONN, **fields: Any) -> None:
        body = {"sessionUpdate": kind, **fields}
        self.agent({"method": "session/update", "params": {"sessionId": SESSION, "update": body}}, conn)

    def user(self, text: str = f"hello [{NONCE}]", id: str = "m1", conn: str = CONN) -> None:
        self.update("user_message", conn, messageId=id, content=[{"type": "text", "text": text}])

    def running(self) -> None:
        self.update("state_update", state="running")

    def idle(self, reason: str | None = "end_turn") -> None:
        self.update("state_update", state="idle", **({"stopReason": reason} if reason else {}))

    def reply(self, sent: Sent, message_id: str = "m1") -> None:
        self.agent({"id": sent.id, "result": {"messageId": message_id}})

    def refuse(self, sent: Sent) -> None:
        self.agent({"id": sent.id, "error": {"code": -32603, "message": "no"}})

    def ending(self, sent: Sent, *, busy: bool = False, conn: str = CONN) -> Ending:
        watch = WorkWatch(SESSION, conn, prompt=sent, busy=busy)
        for event in self.recorder.history:
            watch.feed(event)
        return watch.ending


def test_the_plain_order_ends_with_its_idle() -> None:
    traffic = Traffic()
    sent = traffic.prompt()
    traffic.reply(sent)
    traffic.user()
    traffic.running()
    assert traffic.ending(sent) is Ending.OPEN
    traffic.idle()
    assert traffic.ending(sent) is Ending.OVER


def test_an_idle_before_the_response_ends_the_work_once_the_message_was_reported() -> None:
    traffic = Traffic()
    sent = traffic.prompt()
    traffic.running()
    traffic.user()
    traffic.idle()
    assert traffic.ending(sent) is Ending.OVER


def test_the_idle_of_earlier_work_does_not_end_a_prompt_that_waits() -> None:
    traffic = Traffic()
    traffic.running()
    sent = traffic.prompt()
    traffic.idle()
    assert traffic.ending(sent, busy=True) is Ending.OPEN
    traffic.reply(sent)
    traffic.user()
    assert traffic.ending(sent, busy=True) is Ending.OPEN
    traffic.running()
    traffic.idle()
    assert traffic.ending(sent, busy=True) is Ending.OVER


def test_a_prompt_that_joined_the_running_work_ends_with_it() -> None:
    traffic = Traffic()
    traffic.running()
    sent = traffic.prompt()
    traffic.user()
    traffic.reply(sent)
    traffic.idle()
    assert traffic.ending(sent, busy=True) is Ending.OVER


def test_work_of_the_agents_own_before_the_insertion_is_not_the_prompts() -> None:
    traffic = Traffic()
    sent = traffic.prompt()
    traffic.running()
    traffic.idle()
    assert traffic.ending(sent) is Ending.PROBABLE
    traffic.user()
    traffic.reply(sent)
    traffic.running()
    assert traffic.ending(sent) is Ending.OPEN
    traffic.idle()
    assert traffic.ending(sent) is Ending.OVER


def test_two_prompts_in_one_breath_end_with_the_second_work() -> None:
    traffic = Traffic()
    first = traffic.prompt("acp-1")
    second = traffic.prompt("acp-2")
    traffic.user("[acp-1]", "m1")
    traffic.reply(first, "m1")
    traffic.running()
    traffic.idle()
    assert traffic.ending(first) is Ending.OVER
    assert not decided(traffic, second)
    traffic.user("[acp-2]", "m2")
    traffic.reply(second, "m2")
    traffic.running()
    traffic.idle()
    assert traffic.ending(second) is Ending.OVER


def decided(traffic: Traffic, sent: Sent) -> bool:
    watch = WorkWatch(SESSION, CONN, prompt=sent)
    for event in traffic.recorder.history:
        watch.feed(event)
    return watch.is_decided


def test_an_idle_with_a_reason_ends_work_that_was_never_called_running() -> None:
    traffic = Traffic()
    sent = traffic.prompt()
    traffic.reply(sent)
    traffic.idle()
    assert traffic.ending(sent) is Ending.OVER


def test_an_idle_without_a_reason_and_without_running_is_only_probable() -> None:
    traffic = Traffic()
    sent = traffic.prompt()
    traffic.reply(sent)
    traffic.idle(reason=None)
    assert traffic.ending(sent) is Ending.PROBABLE


def test_a_refused_prompt_has_no_work() -> None:
    traffic = Traffic()
    sent = traffic.prompt()
    traffic.refuse(sent)
    assert traffic.ending(sent) is Ending.OVER


def test_a_refusal_after_running_waits_for_the_idle() -> None:
    traffic = Traffic()
    sent = traffic.prompt()
    traffic.running()
    traffic.refuse(sent)
    assert traffic.ending(sent) is Ending.OPEN
    traffic.idle("error")
    assert traffic.ending(sent) is Ending.OVER


def test_events_from_before_the_prompt_do_not_count() -> None:
    traffic = Traffic()
    traffic.running()
    traffic.idle()
    sent = traffic.prompt()
    assert traffic.ending(sent) is Ending.OPEN


def test_another_connection_sees_the_end_by_the_message_it_is_told() -> None:
    traffic = Traffic()
    sent = traffic.prompt()
    traffic.user(conn="bea")
    traffic.update("state_update", "bea", state="running")
    traffic.update("state_update", "bea", state="idle", stopReason="end_turn")
    assert traffic.ending(sent, conn="bea") is Ending.OVER
    assert traffic.ending(sent, conn="ada") is Ending.OPEN


def test_a_nonce_is_found_across_chunks() -> None:
    traffic = Traffic()
    sent = traffic.prompt()
    for part in ("hello [acp-00", "000000", "01]"):
        traffic.update("user_message_chunk", messageId="m1", content={"type": "text", "text": part})
    watch = MessageWatch(sent)
    assert [watch.feed(event) for event in traffic.recorder.history] == [False, False, False, True]


def test_a_message_is_found_by_the_id_of_the_response_too() -> None:
    traffic = Traffic()
    sent = traffic.prompt(nonce=None)
    traffic.user("something else", "m7")
    traffic.reply(sent, "m7")
    watch = WorkWatch(SESSION, CONN, prompt=sent)
    message = MessageWatch(sent)
    seen = []
    for event in traffic.recorder.history:
        watch.feed(event)
        seen.append(message.feed(event))
    assert seen == [False, False, True]


@pytest.mark.parametrize("content", [None, 7, "text", [None], [{"type": "text"}], {"type": "text", "text": 3}])
def test_malformed_updates_are_about_nothing(content: Any) -> None:
    traffic = Traffic()
    sent = traffic.prompt()
    traffic.update("user_message", messageId="m1", content=content)
    traffic.update("state_update", state=["idle"])
    traffic.agent({"method": "session/update", "params": {"sessionId": SESSION, "update": None}})
    traffic.agent({"method": "session/update", "params": None})
    assert traffic.ending(sent) is Ending.OPEN


def test_the_resume_of_a_quiet_session_is_soon_over() -> None:
    traffic = Traffic()
    opening = traffic.prompt()
    opening.method = "session/resume"
    watch = WorkWatch(SESSION, CONN, opening=opening)
    traffic.agent({"id": opening.id, "result": {}})
    for event in traffic.recorder.history:
        watch.feed(event)
    assert watch.ending is Ending.PROBABLE
    assert watch.is_decided


@pytest.mark.parametrize(
    ("update", "is_one"),
    [
        ({"sessionUpdate": "tool_call_update", "status": "failed"}, True),
        ({"sessionUpdate": "tool_call_update", "status": "paused"}, False),
        ({"sessionUpdate": "tool_call_update"}, False),
        ({"sessionUpdate": "terminal_update", "exitStatus": {"exitCode": 0}}, True),
        ({"sessionUpdate": "terminal_update", "command": "make"}, False),
        ({"sessionUpdate": "agent_message", "status": "completed"}, False),
    ],
)
def test_what_finishes_a_tool_call_or_a_terminal(update: dict[str, Any], is_one: bool) -> None:
    assert sight.is_finish(update) is is_one
