"""Recordings that do not have everything: they begin in the middle, end early, have the lines of one side or of one
client alone. What is left out proves nothing."""

from __future__ import annotations

from conformance.rules import RULES
from tests.story import Story

CANCELLED = "cancel.only-when-cancelled"
UNKNOWN = "cancel.unknown-request-ignored"
ONE = "wire.one-response"


def recording() -> Story:
    return Story(driven=False)


def failed(story: Story) -> set[str]:
    return {rule.id for rule in RULES.values() if story.fails(rule.id)}


def test_the_agents_lines_alone() -> None:
    story = recording().reply(1, protocolVersion=2, info={"name": "a", "version": "1"}, capabilities={"session": {}})
    story.reply(2, sessionId="s").reply(3, messageId="u1").user("u1", "Hi").running().idle("cancelled")
    assert failed(story) == set()
    assert story.silent(CANCELLED)


def test_the_clients_lines_alone() -> None:
    story = recording()
    story.request("initialize", {"protocolVersion": 2, "info": {"name": "t", "version": "1"}, "capabilities": {}})
    story.request("session/new", {"cwd": "/w"})
    story.prompt("Remove it")
    assert failed(story.answer(900, outcome={"outcome": "cancelled"})) == set()


class TestBeginsInTheMiddle:
    def test_of_work_that_was_stopped(self) -> None:
        story = recording().update("state_update", state="requires_action").answer(7, action="cancel").idle("cancelled")
        assert failed(story) == set()
        assert story.silent(CANCELLED)
        later = recording().says("a1", "Done.").idle("end_turn")
        later.reply(later.prompt("Hi"), messageId="u1").user("u1", "Hi").running().idle("cancelled")
        assert failed(later) == {CANCELLED}

    def test_with_the_cancel_of_a_request(self) -> None:
        story = recording().notify("$/cancel_request", {"requestId": 4}).refuse(4, -32800).barrier()
        assert failed(story) == set()
        begun = recording().begin().notify("$/cancel_request", {"requestId": 4}).refuse(4, -32800).barrier()
        assert failed(begun) == {UNKNOWN}

    def test_and_the_agent_is_started_anew(self) -> None:
        story = recording().reply(41, messageId="u8").says("a8", "Done.").idle("end_turn")
        story.reply(story.prompt("Hi"), messageId="u9").user("u9", "Hi").running().says("a9", "Ho").idle("end_turn")
        story.initialize().idle("end_turn", at="bob")
        assert failed(story) == set()
        assert len(story.warns("client.respects-capabilities")) == 1
        assert len(story.warns("wire.response-id")) == 1

    def test_a_response_before_initialize(self) -> None:
        assert failed(recording().control("started", transport="stdio").reply(41).begin()) == {"wire.response-id"}
        assert failed(recording().reply(41).begin()) == set()

    def test_session_new_before_initialize(self) -> None:
        story = recording()
        story.reply(story.request("session/new", {"cwd": "/w"}), sessionId="s")
        assert failed(story.initialize()) == {"client.respects-capabilities"}


class TestEndsEarly:
    def test_while_history_is_replayed(self) -> None:
        story = recording().initialize()
        story.resume(replay=True)
        for at in range(4):
            story.after(25).user(f"u{at}", f"Hi {at}")
        assert failed(story) == set()
        assert failed(story.after(31).says("a9", "Ho", session="t")) >= {ONE}

    def test_while_a_close_stops_work(self) -> None:
        story = recording().begin()
        story.reply(story.prompt("Hi"), messageId="u1").user("u1", "Hi").running()
        story.request("session/close", {"sessionId": "s"})
        story.after(25).says("a1", "So far").after(25).says("a1", "only.")
        assert failed(story) == set()
        assert failed(story.after(60).barrier()) >= {ONE}


def test_work_that_another_client_may_have_stopped() -> None:
    story = recording().begin().user("x1", "Bob asks").running().says("b1", "Well").idle("end_turn")
    story.reply(story.prompt("Hi"), messageId="u1").user("u1", "Hi").running().idle("cancelled")
    assert failed(story) == set()
    assert len(story.warns(CANCELLED)) == 1
    found = recording().initialize()
    resumed = found.resume()
    found.idle().reply(resumed).reply(found.prompt("Hi"), messageId="u1").user("u1", "Hi").running().idle("cancelled")
    assert failed(found) == set()
    assert len(found.warns(CANCELLED)) == 1
