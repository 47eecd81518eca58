"""Requests and responses, closer: which events prove each fault, when an answer is owed, and what is near a fault and
none."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.rules import RULES
from tests.story import Story

ID = "wire.response-id"
ONE = "wire.one-response"
OUTCOME = "wire.result-or-error"
NOTIFICATIONS = "wire.no-reply-to-notifications"
IDS = "wire.request-ids"


def foreign() -> Story:
    return Story(driven=False).begin()


class TestResponseId:
    def test_the_proof(self) -> None:
        story = foreign()
        story.request("session/list")
        assert story.reply("3", sessions=[]).proof(ID) == [4, 5]
        assert foreign().reply(77).proof(ID) == [4]
        rounded = Story(driven=False).begin()
        rounded.request("session/list", id=2**53 + 1)
        assert rounded.reply(2**53, sessions=[]).proof(ID) == [4, 5]

    def test_under_an_id_of_like_look_that_was_answered_before(self) -> None:
        story = foreign()
        for identifier in (7, "7", "07"):
            story.request("session/list", id=identifier)
        for _ in range(3):
            story.reply(7, sessions=[])
        assert len(story.after(60).barrier().fails(ID)) == 2
        assert story.fails("wire.one-response") == []

    def test_before_any_initialize(self) -> None:
        assert Story(driven=False).reply(17, sessions=[]).proof(ID) == [0]
        assert Story(driven=False).reply(None).fails(NOTIFICATIONS) == []

    def test_only_an_error_refuses_a_malformed_line(self) -> None:
        assert foreign().client(b"{").reply(None).fails(ID)
        assert foreign().client(b"{").refuse(None, -32700).fails(ID) == []
        assert foreign().refuse(None, -32700).client(b"{").fails(ID)
        assert foreign().client(b"{").refuse(77, -32600).fails(ID)
        assert foreign().refuse(4711, -32600).client(b'{"jsonrpc":"2.0","id":4711}').fails(ID)

    def test_a_cancel_that_named_it_later(self) -> None:
        story = foreign().refuse(99, -32800).notify("$/cancel_request", {"requestId": 99})
        assert story.fails(ID)

    @pytest.mark.parametrize("lives", [True, False])
    def test_a_request_of_another_connection(self, lives: bool) -> None:
        story = foreign().initialize(at="bob")
        story.request("session/list", id=50, at="bob")
        if not lives:
            story.control("cut", at="bob")
        assert bool(story.reply(50, sessions=[]).fails(ID)) is not lives


class TestOneResponse:
    def test_the_proof(self) -> None:
        story = foreign()
        id = story.request("session/list")
        assert story.reply(id, sessions=[]).reply(id, sessions=[]).reply(id, sessions=[]).proof(ONE) == [4, 5, 6]
        assert story.fails(ONE) == ["session/list was answered 3 times"]
        story = foreign()
        story.request("session/close", {"sessionId": "s"})
        assert story.after(60).barrier().proof(ONE) == [4, 6]

    def test_twice_after_a_cancel_is_another_rules(self) -> None:
        story = foreign()
        id = story.request("session/list")
        story.reply(id).notify("$/cancel_request", {"requestId": id}).reply(id)
        assert story.passes(ONE)
        story = foreign()
        id = story.request("session/list")
        story.reply(id).reply(id).notify("$/cancel_request", {"requestId": id})
        assert story.fails(ONE)

    def test_a_wait_for_something_else(self) -> None:
        story = Story().begin()
        story.request("session/close", {"sessionId": "s"})
        story.control("waited", **{"for": "idle", "session": "s", "seconds": 15})
        assert story.fails(ONE) == []

    def test_it_had_ended_before_patience_ran_out(self) -> None:
        story = Story().begin()
        id = story.request("session/close", {"sessionId": "s"})
        story.control("exited").control("waited", **{"for": "response", "id": id, "seconds": 15})
        assert story.fails(ONE) == []

    @pytest.mark.parametrize("id", [None, "33", 4])
    def test_an_answer_under_a_wrong_id_is_another_rules(self, id: Any) -> None:
        story = foreign()
        story.request("session/close", {"sessionId": "s"}, id=33)
        assert story.reply(id).after(60).barrier().fails(ONE) == []

    @pytest.mark.parametrize("line", [b'[{"jsonrpc": "2.0", "id": 33, "result": {}}]\n', b'{"jsonrpc": "2.0",\n'])
    def test_an_answer_in_a_broken_line_is_another_rules(self, line: bytes) -> None:
        story = foreign()
        story.request("session/close", {"sessionId": "s"}, id=33)
        story.agent(line).after(60).barrier()
        assert story.fails(ONE) == []
        assert len(story.fails("wire.only-messages-on-stdout")) == 1

    def test_a_cancelled_prompt_has_rules_of_its_own(self) -> None:
        story = foreign()
        id = story.prompt("Hello")
        assert story.notify("$/cancel_request", {"requestId": id}).after(60).barrier().fails(ONE) == []


class TestPrompts:
    def waited(self, story: Story, id: Any) -> list[str]:
        return story.control("waited", **{"for": "response", "id": id, "seconds": 15}).fails(ONE)

    def test_of_a_session_that_nothing_was_told_of(self) -> None:
        story = Story().initialize()
        assert self.waited(story, story.prompt("Hi", session="other"))
        recorded = Story(driven=False).initialize()
        recorded.prompt("Hi", session="other")
        assert recorded.after(60).barrier().fails(ONE) == []

    @pytest.mark.parametrize("state", ["running", "requires_action"])
    def test_its_own_work_that_needs_the_model(self, state: str) -> None:
        for answered in (False, True):
            story = Story(model="openai-chat").begin()
            id = story.prompt("Hi", nonce="acp-1")
            story.update("state_update", state=state)
            story.control("model-request", at="", number=1, nonce="acp-1", group="chat", last_user=True)
            if answered:
                story.control("model-answered", at="", number=1, how="say")
            assert bool(self.waited(story, id)) is answered

    def test_work_that_was_open_before_it(self) -> None:
        story = Story().begin().running()
        assert self.waited(story, story.prompt("Hi")) == []

    @pytest.mark.parametrize(("idle_for", "owed"), [(7.3, False), (7.6, True)])
    def test_work_that_was_over_just_now(self, idle_for: float, owed: bool) -> None:
        story = Story().begin().running()
        id = story.prompt("Hi")
        story.after(30).idle("end_turn").after(idle_for - 0.01)
        story.recorder.control("ada", "waited", **{"for": "response", "id": id, "seconds": 15})
        assert bool(story.fails(ONE)) is owed

    def test_work_that_was_over_before_it(self) -> None:
        story = Story().begin().running().idle("end_turn")
        assert self.waited(story, story.prompt("Hi"))

    def test_in_a_recording_the_session_went_on_telling(self) -> None:
        story = foreign()
        story.prompt("Hi")
        story.after(20).update("usage_update", used=1, size=2).after(20).barrier()
        assert story.fails(ONE) == []
        assert story.after(20).barrier().proof(ONE) == [4, 9]

    def test_in_a_recording_what_was_told_before_it_counts_for_nothing(self) -> None:
        story = foreign().update("usage_update", used=1, size=2)
        story.prompt("Hi")
        assert story.after(31).barrier().fails(ONE)

    @pytest.mark.parametrize(("open_", "owed"), [(True, False), (False, True)])
    def test_work_of_another_session(self, open_: bool, owed: bool) -> None:
        story = Story().begin()
        story.reply(story.request("session/new", {"cwd": "/w"}), sessionId="other").running(session="other")
        if not open_:
            story.idle("end_turn", session="other")
        assert bool(self.waited(story, story.prompt("Hi"))) is owed

    @pytest.mark.parametrize(("answered", "owed"), [(False, False), (True, True)])
    def test_work_that_asks_another_client(self, answered: bool, owed: bool) -> None:
        story = Story().begin().initialize(at="bob")
        story.idle(at="bob").reply(story.resume(at="bob"), at="bob")
        id = story.prompt("Hi")
        options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
        story.running().asks(
            "session/request_permission", {"sessionId": "s", "title": "?", "options": options}, at="bob"
        )
        if answered:
            story.answer(900, at="bob", outcome={"outcome": "selected", "optionId": "y"})
        assert bool(self.waited(story, id)) is owed


class TestNumbers:
    @pytest.mark.parametrize(("id", "told"), [(5, "nothing"), (5.0, "warning"), ("5", "violation"), (5.5, "violation")])
    def test_an_id_in_another_form(self, id: Any, told: str) -> None:
        story = foreign()
        story.request("session/list", id=5)
        kinds = [str(f.kind) for f in story.reply(id, sessions=[]).outcome("wire.response-id").findings]
        assert kinds == [told] * (told != "nothing")
        story = foreign().asks("_ask", {}, id=5).answer(id)
        assert [str(f.kind) for f in story.outcome("client.wire").findings] == [told] * (told != "nothing")


class TestArrays:
    items = [{"jsonrpc": "2.0", "id": 77, "method": "session/list", "params": {}}]  # noqa: RUF012

    @pytest.mark.parametrize(("id", "fails"), [(77, 0), (78, 1)])
    def test_an_item_is_answered(self, id: int, fails: int) -> None:
        assert len(foreign().client(self.items).reply(id, sessions=[]).fails("wire.response-id")) == fails
        assert len(foreign().client(self.items).refuse(id, -32600).fails("wire.response-id")) == fails


class TestOthers:
    @pytest.mark.parametrize("message", [{}, {"error": "no"}, {"result": 1, "error": {"code": 1, "message": "x"}}])
    def test_an_outcome(self, message: Any) -> None:
        story = foreign()
        id = story.request("session/list")
        assert story.agent({"jsonrpc": "2.0", "id": id, **message}).proof(OUTCOME) == [5]

    def test_an_outcome_after_other_lines(self) -> None:
        story = foreign().running().agent({"jsonrpc": "2.0", "id": 9, "method": 5}).asks("_x", {})
        assert story.passes(OUTCOME)
        assert story.agent({"jsonrpc": "2.0", "id": story.request("session/list")}).proof(OUTCOME) == [8]

    @pytest.mark.parametrize("pending", [True, False])
    def test_an_answer_that_may_be_a_requests(self, pending: bool) -> None:
        story = foreign()
        id = story.prompt("Hi")
        if not pending:
            story.reply(id, messageId="u1")
        story.cancel().refuse(None, -32800)
        assert bool(story.fails(NOTIFICATIONS)) is not pending
        assert bool(story.fails("wire.response-id")) is pending

    def test_a_notification_is_answered(self) -> None:
        story = foreign().notify("_x", {}).cancel().refuse(None, -32601)
        assert story.proof(NOTIFICATIONS) == [5, 6]
        assert foreign().cancel().refuse(5, -32601).passes(NOTIFICATIONS)

    @pytest.mark.parametrize(("id", "right"), [(1.0, True), ("a", True), (7, True), (1.5, False), (True, False)])
    def test_an_id_of_the_agents(self, id: Any, right: bool) -> None:
        story = foreign().asks("_ask", {}, id=id)
        assert story.passes(IDS) is right
        assert right or story.proof(IDS) == [4]

    def test_an_id_that_is_used_again(self) -> None:
        assert foreign().asks("_ask", {}, id=1).asks("_ask", {}, id=1).proof(IDS) == [4, 5]


@pytest.mark.parametrize("line", [{"result": None}, {"error": {"code": -32601, "message": "no"}}])
def test_an_answer_to_a_notification_that_has_no_id(line: dict[str, Any]) -> None:
    story = Story().begin().cancel().agent({"jsonrpc": "2.0", **line})
    assert len(story.fails("wire.no-reply-to-notifications")) == 1
    assert story.fails("wire.only-messages-on-stdout") == []
    asked = Story().begin().cancel()
    asked.request("session/list")
    assert asked.agent({"jsonrpc": "2.0", **line}).fails("wire.no-reply-to-notifications") == []
    assert len(asked.fails("wire.only-messages-on-stdout")) == 1


def test_a_request_that_is_sent_back_with_its_result() -> None:
    story = Story().begin()
    asked = story.request("session/list", id=61)
    story.agent({"jsonrpc": "2.0", "id": asked, "method": "session/list", "params": {}, "result": {"sessions": []}})
    story.control("waited", **{"for": "response", "id": asked, "seconds": 15})
    assert len(story.fails("wire.only-messages-on-stdout")) == 1
    assert story.fails("wire.known-methods") == story.fails(ONE) == []


@pytest.mark.parametrize("asked_too", [True, False])
def test_a_response_to_another_client_is_another_rules(asked_too: bool) -> None:
    story = Story(sessions={"shared": True}).begin().initialize(at="bob")
    asked = story.request("session/list", id=55)
    if asked_too:
        story.request("session/list", id=55, at="bob")
        story.reply(55, at="bob", sessions=[])
    story.reply(55, at="bob", sessions=[]).control("waited", **{"for": "response", "id": asked, "seconds": 15})
    assert story.fails(ONE) == []
    assert len(story.fails("clients.response-to-submitter-only")) == 1


class TestTwoRequestsWithOneId:
    """Where a client has two requests with one id pending, nobody can tell which response is whose."""

    def story(self) -> Story:
        story = foreign()
        story.request("session/prompt", {"sessionId": "s", "prompt": [{"type": "text", "text": "Hi"}]}, id=9)
        return story

    def failed(self, story: Story) -> set[str]:
        return {rule.id for rule in RULES.values() if story.fails(rule.id)}

    def test_answers_in_another_order(self) -> None:
        story = self.story()
        story.request("session/prompt", {"sessionId": "s", "prompt": [{"type": "text", "text": "Ho"}]}, id=9)
        story.user("u1", "Hi").running().user("u2", "Ho").reply(9, messageId="u2").reply(9, messageId="u1")
        assert self.failed(story.idle("end_turn")) == {"client.wire"}

    def test_only_the_second_is_refused(self) -> None:
        story = self.story()
        story.request("session/list", id=9)
        story.refuse(9, -32600).user("u1", "Hi").running().reply(9, messageId="u1").idle("end_turn")
        assert self.failed(story) == {"client.wire"}

    def test_only_one_is_answered(self) -> None:
        story = self.story()
        story.request("session/list", id=9)
        story.user("u1", "Hi").running().reply(9, messageId="u1").idle("end_turn").after(60).barrier()
        assert self.failed(story) == {"client.wire"}

    def test_what_was_owed_before_the_second_came(self) -> None:
        story = self.story().after(60).barrier().after(60).barrier()
        story.request("session/list", id=9)
        assert self.failed(story) == {"client.wire", ONE}

    def test_one_after_the_other(self) -> None:
        story = self.story().refuse(9, -32603).user("u1", "Hi")
        story.request("session/list", id=9)
        assert self.failed(story.reply(9, sessions=[])) == {"prompt.no-error-after-insertion"}

    def test_of_the_agent(self) -> None:
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        asked = {"sessionId": "s", "title": "Run?", "options": options}
        story = foreign().asks("session/request_permission", asked, id=5)
        story.asks("session/request_permission", asked, id=5).cancel()
        story.answer(5, outcome={"outcome": "selected", "optionId": "no such"})
        assert self.failed(story.answer(5, outcome={"outcome": "cancelled"})) == {IDS}
