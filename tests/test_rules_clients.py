"""Several clients of one agent: one id for all, and each response to whom it is owed."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.rules import RULES
from tests.story import Story

SAME = "clients.same-id-for-all"
SUBMITTER = "clients.response-to-submitter-only"
OWN = "clients.own-association"


def two(*, driven: bool = False) -> Story:
    """ada and bob in the session s."""
    story = Story(driven=driven).begin().initialize(at="bob")
    resumed = story.resume(at="bob")
    return story.idle(at="bob").reply(resumed, at="bob").after(2)


class TestSameIdForAll:
    def test_one_id(self) -> None:
        story = two()
        first = story.prompt("Hi there")
        story.reply(first, messageId="u1").user("u1", "Hi there").user("u1", "Hi there", at="bob")
        assert story.passes(SAME)

    def test_another_id_for_the_other_client(self) -> None:
        story = two(driven=True)
        first = story.prompt("Hi there", nonce="acp-1")
        story.reply(first, messageId="u1").user("u1", "Hi there acp-1").user("x1", "Hi there acp-1", at="bob")
        assert story.fails(SAME) == ["two clients see one message under two ids"]

    def test_in_a_recording_too_and_before_the_response(self) -> None:
        story = two()
        first = story.prompt("Hi there")
        story.user("x1", "Hi there", at="bob").reply(first, messageId="u1").user("u1", "Hi there")
        assert story.fails(SAME)

    def test_a_message_that_quotes_it_and_equal_texts_prove_nothing(self) -> None:
        story = two()
        first = story.prompt("Hi there")
        story.reply(first, messageId="u1").user("u1", "Hi there").user("x1", "ada says: Hi there", at="bob")
        assert story.fails(SAME) == []
        story = two()
        first, other = story.prompt("Hi"), story.prompt("Hi", at="bob")
        story.reply(first, messageId="u1").user("u1", "Hi").reply(other, messageId="u2", at="bob").user(
            "u2", "Hi", at="bob"
        )
        assert story.fails(SAME) == []

    @pytest.mark.parametrize("told", ["Hi acp-1 <context>", "Hi acp-1 <another>"])
    def test_a_message_that_the_agent_expanded_for_both(self, told: str) -> None:
        story = two(driven=True)
        first = story.prompt("Hi", nonce="acp-1")
        story.reply(first, messageId="u1").user("u1", "Hi acp-1 <context>").user("x1", told, at="bob")
        assert bool(story.fails(SAME)) is (told == "Hi acp-1 <context>")

    def test_one_client_exercises_nothing(self) -> None:
        story = Story().begin()
        first = story.prompt("Hi", nonce="acp-1")
        assert story.reply(first, messageId="u1").user("u1", "Hi acp-1").silent(SAME)


class TestResponseToSubmitter:
    def test_each_gets_its_own(self) -> None:
        story = two()
        story.request("session/list", id="q", at="ada")
        story.request("session/list", id="q", at="bob")
        assert story.reply("q", at="bob", sessions=[]).reply("q", sessions=[]).passes(SUBMITTER)

    @pytest.mark.parametrize(("second", "fails"), [("u2", 0), ("u1", 1)])
    def test_a_response_that_is_said_twice_where_it_belongs(self, second: str, fails: int) -> None:
        story = two()
        for name in ("ada", "bob"):
            params = {"sessionId": "s", "prompt": [{"type": "text", "text": "Hi"}]}
            story.request("session/prompt", params, id="same", at=name)
        story.reply("same", messageId="u2", at="bob").reply("same", messageId=second, at="bob")
        assert len(story.fails(SUBMITTER)) == fails

    def test_the_wrong_connection_gets_it(self) -> None:
        story = two()
        story.request("session/prompt", {"sessionId": "s", "prompt": [{"type": "text", "text": "Hi"}]}, id="ada-1")
        story.reply("ada-1", messageId="u1", at="bob")
        assert story.fails(SUBMITTER) == ["the response to session/prompt went to another client"]

    def test_the_wrong_connection_gets_it_twice(self) -> None:
        story = two()
        story.request("session/list", id="q", at="ada")
        story.request("session/list", id="q", at="bob")
        assert story.reply("q", at="bob", sessions=[]).reply("q", at="bob", sessions=[]).fails(SUBMITTER)

    def test_a_response_given_twice_is_judged_elsewhere(self) -> None:
        story = two()
        story.request("session/list", id="q", at="ada")
        story.request("session/list", id="q", at="bob")
        story.reply("q", at="bob", sessions=[]).reply("q", at="bob", sessions=[]).reply("q", sessions=[])
        assert story.fails(SUBMITTER) == []

    def test_a_stray_response_that_nobody_waits_for_is_judged_elsewhere(self) -> None:
        assert two().reply("nobody", at="bob", sessions=[]).fails(SUBMITTER) == []

    @pytest.mark.parametrize(("malformed", "fails"), [(True, 0), (False, 1)])
    def test_an_answer_to_a_line_that_is_no_request(self, malformed: bool, fails: int) -> None:
        story = two()
        prompt = story.prompt("Hi")
        if malformed:
            story.client({"jsonrpc": "2.0", "id": prompt, "method": 7}, at="bob")
        assert len(story.refuse(prompt, -32600, at="bob").fails(SUBMITTER)) == fails

    @pytest.mark.parametrize(
        "line",
        [
            [{"jsonrpc": "2.0", "id": 55, "method": "session/list", "params": {}}],
            b'{"jsonrpc":"2.0","id":55,"method":"session/list","params":{"x":"\xff"}}',
            {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 55}},
            {"jsonrpc": "2.0", "id": "55", "method": "session/list", "params": {}},
            {"jsonrpc": "2.0", "id": 55.0, "method": "session/list", "params": {}},
        ],
    )
    def test_an_answer_to_something_that_its_own_client_sent(self, line: Any) -> None:
        story = two()
        story.request("session/list", id=55)
        story.client(line, at="bob").refuse(55, -32800, at="bob").reply(55, sessions=[])
        assert story.fails(SUBMITTER) == []
        assert bool(story.fails("wire.response-id")) is (isinstance(line, dict) and line.get("id") == "55")

    def test_a_connection_that_is_gone_waits_for_nothing(self) -> None:
        """Each connection counts its requests from one."""
        story = Story().begin()
        lost = story.prompt("Hi", nonce="acp-1")
        story.control("cut").initialize(at="bob").request("session/list", id=lost, at="bob")
        story.reply(lost, at="bob", sessions=[]).reply(lost, at="bob", sessions=[])
        assert story.fails(SUBMITTER) == []

    @pytest.mark.parametrize(("id", "fails"), [("u1", SUBMITTER), ("u2", "wire.response-id")])
    def test_the_response_to_a_lost_prompt_on_the_next_connection(self, id: str, fails: str) -> None:
        story = Story().begin()
        lost = story.prompt("Hi", nonce="acp-1")
        story.user("u1", "Hi acp-1").control("cut").initialize(at="bob").reply(lost, at="bob", messageId=id)
        assert {rule for rule in (SUBMITTER, "wire.response-id") if story.fails(rule)} == {fails}

    def test_one_connection_exercises_nothing(self) -> None:
        assert Story().begin().reply(99).silent(SUBMITTER)


class TestOwnAssociation:
    def together(self, first_id: str, second_id: str) -> Story:
        story = two()
        first, second = story.prompt("Same"), story.prompt("Same", at="bob")
        return story.reply(first, messageId=first_id).reply(second, messageId=second_id, at="bob")

    def test_two_ids_each_reported(self) -> None:
        story = self.together("u1", "u2").user("u1", "Same").user("u2", "Same", at="bob")
        assert story.running().idle("end_turn").passes(OWN)

    def test_one_id_for_both(self) -> None:
        assert self.together("u1", "u1").fails(OWN) == ["two clients' prompts were given one id"]

    def test_one_id_for_one_of_several(self) -> None:
        story = two()
        ids = [story.prompt("Same"), story.prompt("Same"), story.prompt("Same", at="bob")]
        for id, message, at in zip(ids, ("u1", "u2", "u2"), ("ada", "ada", "bob"), strict=True):
            story.reply(id, messageId=message, at=at)
        assert story.fails(OWN) == ["two clients' prompts were given one id"]

    def test_an_answered_prompt_hides_no_pending_one(self) -> None:
        story = two()
        first, later = story.prompt("Same"), story.prompt("Same")
        story.reply(first, messageId="u1")
        second = story.prompt("Same", at="bob")
        story.reply(later, messageId="u2").reply(second, messageId="u2", at="bob")
        assert story.fails(OWN) == ["two clients' prompts were given one id"]

    def test_one_is_never_reported(self) -> None:
        story = self.together("u1", "u2").user("u1", "Same").user("u1", "Same", at="bob")
        story.running().running(at="bob").idle("end_turn").idle("end_turn", at="bob")
        assert story.fails(OWN) == ["of two clients' equal prompts, 'u2' was never reported"]

    def test_one_after_the_other_exercises_nothing(self) -> None:
        story = two()
        first = story.prompt("Same")
        story.reply(first, messageId="u1").user("u1", "Same")
        second = story.prompt("Same", at="bob")
        assert story.reply(second, messageId="u1", at="bob").silent(OWN)

    def test_two_prompts_of_one_client_exercise_nothing(self) -> None:
        story = two()
        first, second = story.prompt("Same"), story.prompt("Same")
        assert story.reply(first, messageId="u1").reply(second, messageId="u1").silent(OWN)


class TestTakenOver:
    """An agent may serve one client of a session at a time: the one that resumed it last. The other one, whose
    connection goes on, is owed nothing of the session any more."""

    def story(self, *, asked: bool = False, **profile: Any) -> Story:
        story = Story(driven=bool(profile), **profile).begin()
        story.reply(story.prompt("Hi", nonce="acp-1"), messageId="u1").user("u1", "Hi acp-1").running().says("a1", "So")
        if asked:
            options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
            params = {"sessionId": "s", "title": "Run?", "options": options}
            story.asks("session/request_permission", params).update("state_update", state="requires_action")
        story.initialize(at="bob")
        resume = story.resume(at="bob")
        state = "requires_action" if asked else "running"
        return story.update("state_update", state=state, at="bob").reply(resume, at="bob")

    def failed(self, story: Story) -> set[str]:
        return {rule.id for rule in RULES.values() if story.fails(rule.id)}

    def test_work(self) -> None:
        story = self.story().says("a1", " be it.", at="bob").idle("end_turn", at="bob").after(90).barrier()
        assert self.failed(story) == set()
        untold = self.story().after(90).barrier().barrier(at="bob")
        assert "state.idle-when-work-ends" in self.failed(untold)
        told = self.story().says("a1", " be it.").says("a1", " be it.", at="bob").idle("end_turn", at="bob")
        assert self.failed(told.after(90).barrier()) == {"state.idle-when-work-ends"}

    @pytest.mark.parametrize("by", ["ada", "bob"])
    def test_a_cancel(self, by: str) -> None:
        story = self.story().cancel(at=by).idle("cancelled", at="bob").after(90).barrier()
        assert self.failed(story) == set()

    def test_a_cancel_of_one_of_several(self) -> None:
        waited = {"for": "idle", "session": "s", "seconds": 15}
        story = self.story(sessions={"shared": True}).cancel().idle("cancelled", at="bob").control("waited", **waited)
        assert len(story.fails("cancel.ends-idle-cancelled")) == 1

    def test_an_answer(self) -> None:
        story = self.story(asked=True).answer(900, outcome={"outcome": "selected", "optionId": "yes"})
        story.running(at="bob").says("a1", " be it.", at="bob").idle("end_turn", at="bob").after(90).barrier()
        assert self.failed(story) == set()

    def test_a_close(self) -> None:
        story = self.story()
        story.reply(story.request("session/close", {"sessionId": "s"}))
        assert self.failed(story.says("a1", " be it.", at="bob").idle("end_turn", at="bob")) == set()


def test_ids_that_end_in_zeros_do_not_look_like_shorter_ones() -> None:
    story = two()
    story.request("session/list", id="1")
    story.request("session/list", id="10", at="bob")
    story.reply("10", sessions=[])
    assert story.fails(SUBMITTER) == ["the response to session/list went to another client"]


def test_a_new_session_that_is_told_twice_to_the_client_that_made_it() -> None:
    story = Story(driven=False).initialize().initialize(at="bob")
    for name in ("ada", "bob"):
        story.request("session/new", {"cwd": "/w"}, id="n", at=name)
    story.reply("n", sessionId="s").reply("n", sessionId="s")
    assert story.fails(SUBMITTER) == []


def test_each_pair_of_prompts_that_were_given_one_id_is_told() -> None:
    story = two()
    for text in ("One", "Two"):
        first, second = story.prompt(text), story.prompt(text, at="bob")
        story.reply(first, messageId=text).reply(second, messageId=text, at="bob")
    assert len(story.fails(OWN)) == 2


def test_a_stray_response_and_a_lost_request_without_named_params() -> None:
    story = two().client({"jsonrpc": "2.0", "id": "x", "method": "_vendor/x", "params": [1]}, at="bob")
    story.control("disconnected", at="bob").reply("x", messageId="u1")
    assert story.fails(SUBMITTER) == []
