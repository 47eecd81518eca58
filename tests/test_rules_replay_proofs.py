"""Replay, closer: which events prove each fault, and what is near a fault and none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.story import Story
from tests.test_rules_replay import (
    AGENT_RESET,
    BEFORE,
    CURSOR,
    DISTINCT,
    DOUBLED,
    NOTICES,
    RESET,
    RUNS,
    SAME_ID,
    SNAPSHOT,
    UNASKED,
    agent,
    failed,
    lived,
    replayed,
)


class TestProofs:
    """After `lived()` the history has ten events, 0 to 9: the prompt is 4, its response 5, its report 6."""

    def test_same_id(self) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        agent(story.user("r0", "Ping?"), "r1", "Pong.").idle().reply(resumed)
        assert story.proof(SAME_ID) == [4, 5, 10, 11]

    def test_before_response(self) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        story.idle().reply(resumed)
        agent(story.user("u1", "Ping?"), "a1", "Pong.")
        assert story.proof(BEFORE) == [10, 12, 13]
        fresh = Story(driven=False).initialize()
        resumed = fresh.resume(replay=True)
        agent(fresh.idle().reply(resumed).user("u1", "Ping?"), "a1", "Pong.")
        assert fresh.proof(BEFORE) == [2, 4, 5, 6]

    def test_unasked(self) -> None:
        story = lived()
        resumed = story.resume()
        story.update("usage_update", used=1, size=2).user("u1", "Ping?").idle().reply(resumed)
        assert story.proof(UNASKED) == [10, 12, 14]

    def test_snapshot(self) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        story.user("u1", "Ping?").reply(resumed)
        assert story.proof(SNAPSHOT) == [10, 11, 12]
        story = lived()
        story.reply(story.resume())
        assert story.proof(SNAPSHOT) == [10, 11]
        story = lived()
        resumed = story.resume(replay=True)
        story.idle().user("u1", "Ping?").reply(resumed)
        assert story.proof(SNAPSHOT) == [10, 11, 12, 13]

    def test_cursor(self) -> None:
        story = lived()
        resumed = story.resume(replay={"type": "offset"})
        story.user("u1", "Ping?").idle().reply(resumed)
        assert story.proof(CURSOR) == [10, 11, 13]
        story = lived()
        story.refuse(story.resume(replay={"type": "offset"}), -32603)
        assert story.proof(CURSOR) == [10, 11]
        story = lived()
        resumed = story.resume(replay={"type": "offset"})
        assert story.user("u1", "Ping?").refuse(resumed, -32602).proof(CURSOR) == [10, 11, 12]

    def test_resets(self) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        story.chunk("user_message", "u1", "Ping?").says("a1", "Pong.").idle().reply(resumed)
        assert (story.proof(RESET), story.proof(AGENT_RESET)) == ([10, 11], [10, 12])
        assert story.proof(DOUBLED) == [6, 10, 11]

    def test_runs(self) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        story.user("u1", "Ping?").running().says("a2", "Pong!").idle("end_turn").reply(resumed)
        assert story.fails(RUNS) == ["a replay set off work"]
        assert story.proof(RUNS) == [10, 11, 12, 13]
        story = lived()
        resumed = story.resume(replay=True)
        story.user("u1", "Ping?").running().says("a2", "Pong.").idle("end_turn").reply(resumed)
        assert story.fails(RUNS) == ["what was done before was done again at a replay"]
        assert story.proof(RUNS) == [8, 10, 11, 12, 13]

    def test_the_model_is_asked_again(self) -> None:
        story = replayed(lived(driven=True), driven=True)
        story.control("model-request", number=1, nonce="acp-1", group="chat", side=False, last_user=True)
        assert story.proof(RUNS) == [6, 9, 12, 17]

    def test_distinct(self) -> None:
        story = lived()
        story.reply(story.prompt("And now?"), messageId="u2").user("u2", "And now?").running().idle("end_turn").after(5)
        resumed = story.resume(replay=True)
        story.update("user_message", messageId="u1", content=[])
        for part in ("Pi", "ng?"):
            story.chunk("user_message", "u1", part)
        story.user("u1", "And now?").idle().reply(resumed)
        assert story.proof(DISTINCT) == [15, 18, 19]


class TestDoubled:
    def test_to_a_client_that_held_nothing(self) -> None:
        story = lived().initialize(at="bob")
        resumed = story.resume(replay=True, at="bob")
        story.user("u1", "Ping?Ping?", at="bob").idle(at="bob").reply(resumed, at="bob")
        assert story.proof(DOUBLED) == [12, 13]

    def test_a_text_that_was_doubled_before(self) -> None:
        story = Story(driven=False).begin()
        first = story.prompt("Ping?")
        story.reply(first, messageId="u1").user("u1", "Ping?Ping?").running().idle("end_turn").after(5)
        resumed = story.resume(replay=True)
        assert story.user("u1", "Ping?Ping?").idle().reply(resumed).passes(DOUBLED)

    def test_an_agent_message_is_no_prompt(self) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        agent(story, "a1", "Pong.Pong.").idle().reply(resumed)
        assert story.silent(DOUBLED)


class TestRuns:
    def test_the_first_request_for_the_prompt_is_no_second_one(self) -> None:
        story = Story(model="openai-chat").begin()
        first = story.prompt("Ping?", nonce="acp-1")
        story.reply(first, messageId="u1").user("u1", "Ping? acp-1").running()
        story.control("model-request", number=1, nonce="acp-1", group="chat", side=False, last_user=True)
        story.says("a1", "Pong.").idle("end_turn").after(5)
        assert replayed(story, driven=True).passes(RUNS)

    def test_nor_is_one_after_the_next_prompt_or_for_another(self) -> None:
        for nonce in ("acp-1", None, "acp-2"):
            story = replayed(lived(driven=True), driven=True)
            if nonce == "acp-1":
                story.prompt("More", nonce="acp-3")
            story.control("model-request", number=1, nonce=nonce, group="chat", side=False, last_user=True)
            assert story.passes(RUNS), nonce

    def test_nor_one_for_work_that_was_cancelled(self) -> None:
        story = Story(model="openai-chat").begin()
        first = story.prompt("Ping?", nonce="acp-1")
        story.reply(first, messageId="u1").user("u1", "Ping? acp-1").running().cancel().idle("cancelled").after(5)
        resumed = story.resume(replay=True)
        story.user("u1", "Ping? acp-1").idle("cancelled").reply(resumed)
        story.control("model-request", number=1, nonce="acp-1", group="chat", side=False, last_user=True)
        assert story.passes(RUNS)

    @pytest.mark.parametrize(
        ("body", "again"),
        [
            ({"title": "rm", "kind": "execute"}, True),
            ({"title": "ls", "kind": "execute"}, False),
            ({"title": "rm", "kind": "other"}, False),
            ({"title": "rm", "kind": "execute", "rawInput": {"a": 1}}, False),
            ({"kind": "execute"}, False),
        ],
    )
    def test_a_tool_that_did_something_else(self, body: Any, again: bool) -> None:
        story = Story(driven=False).begin()
        story.reply(story.prompt("Clean up"), messageId="u1").user("u1", "Clean up").running()
        story.update("tool_call_update", toolCallId="c1", title="rm", kind="execute", status="completed")
        story.idle("end_turn").after(5)
        resumed = story.resume(replay=True)
        story.user("u1", "Clean up").idle("end_turn").reply(resumed).running()
        story.update("tool_call_update", toolCallId="c2", status="completed", **body).idle("end_turn")
        assert bool(story.fails(RUNS)) is again
        assert not again or story.proof(RUNS) == [8, 10, 14, 15]

    def test_an_agent_message_under_the_id_of_a_prompt_is_no_replayed_prompt(self) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        assert agent(story, "u1", "Pong.").idle().reply(resumed).silent(RUNS)

    def test_a_background_list_shows_that_it_works_unasked(self) -> None:
        story = lived()
        story.idle("end_turn", background=[{"type": "tool_call", "toolCallId": "c"}])
        resumed = story.resume(replay=True)
        story.user("u1", "Ping?").running().says("a2", "Pong!").idle("end_turn").reply(resumed)
        assert (story.fails(RUNS), story.warns(RUNS)) == ([], ["work began within a replay: set off by it?"])

    @pytest.mark.parametrize(("title", "answered", "fails"), [("rm", True, 1), ("ls", True, 0), ("rm", False, 0)])
    def test_permission_is_asked(self, title: str, answered: bool, fails: int) -> None:
        def ask(title: str, id: int) -> None:
            options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
            story.asks("session/request_permission", {"sessionId": "s", "title": title, "options": options}, id=id)

        story = Story(driven=False).begin()
        story.reply(story.prompt("Clean up"), messageId="u1").user("u1", "Clean up").running()
        ask("rm", 1)
        if answered:
            story.answer(1, outcome={"outcome": "selected", "optionId": "y"})
        story.idle("end_turn").after(5)
        resumed = story.resume(replay=True)
        story.user("u1", "Clean up")
        ask(title, 2)
        story.idle("end_turn").reply(resumed)
        assert len(story.fails(RUNS)) == fails
        assert not fails or story.proof(RUNS) == [8, 11, 13]


class TestNearFaults:
    def test_what_is_in_the_window_of_a_rejected_cursor_and_no_history(self) -> None:
        story = lived()
        resumed = story.resume(replay={"type": "offset"})
        content = {"type": "content", "content": {"type": "text", "text": "."}}
        story.update("tool_call_content_chunk", toolCallId="c", content=content)
        story.update("user_message", messageId="u1").refuse(resumed, -32602)
        assert story.passes(CURSOR)

    def test_a_resume_that_was_refused_owes_nothing(self) -> None:
        for replay in (True, None):
            story = lived()
            resumed = story.resume(replay=replay)
            story.refuse(resumed, -32603).user("u1", "Ping?")
            for rule in (BEFORE, SNAPSHOT, UNASKED):
                assert story.silent(rule), rule

    def test_a_tail_that_another_client_was_told_is_not_the_message(self) -> None:
        story = Story(driven=False).begin()
        story.reply(story.prompt("Ping?"), messageId="u1").user("u1", "Ping?").running().says("a1", "Pon")
        story.initialize(at="bob")
        story.reply(story.resume(at="bob"), at="bob").says("a1", "g.").says("a1", "g.", at="bob").idle("end_turn")
        story.idle("end_turn", at="bob").after(5)
        resumed = story.resume()
        assert story.says("a1", "Pong.").idle().reply(resumed).fails(UNASKED)

    @pytest.mark.parametrize("other", [{"severity": "error"}, {"title": "Lost"}, {"description": "again"}])
    def test_another_notice(self, other: Any) -> None:
        notice = {"severity": "warning", "title": "Retrying", "description": "once"}
        story = Story(driven=False).begin()
        story.reply(story.prompt("Ping?"), messageId="u1").user("u1", "Ping?").running().update("notice", **notice)
        story.says("a1", "Pong.").idle("end_turn").after(5)
        resumed = story.resume(replay=True)
        story.user("u1", "Ping?").update("notice", **{**notice, **other})
        assert agent(story, "a1", "Pong.").idle().reply(resumed).passes(NOTICES)

    def test_the_same_notice(self) -> None:
        story = Story(driven=False).begin()
        story.reply(story.prompt("Ping?"), messageId="u1").user("u1", "Ping?").running()
        story.update("notice", title="Retrying").says("a1", "Pong.").idle("end_turn").after(5)
        resumed = story.resume(replay=True)
        story.user("u1", "Ping?").update("notice", title="Retrying").idle().reply(resumed)
        assert story.proof(NOTICES) == [8, 11, 13]
        assert failed(story) == {NOTICES}


class TestWhileAtWork:
    """A resume of a session that is at work: what is told then may be live."""

    def busy(self, *, age: float = 5) -> Story:
        """ "Ping?" is worked on, and was reported so many seconds ago."""
        story = Story(driven=False).begin()
        story.reply(story.prompt("Ping?"), messageId="u1").user("u1", "Ping?").running().says("a1", "Po")
        return story.after(age)

    @pytest.mark.parametrize(("age", "fails"), [(0.9, 0), (1.1, 1)])
    def test_a_user_message_that_is_told_again(self, age: float, fails: int) -> None:
        story = self.busy(age=age)
        resumed = story.resume()
        assert len(story.user("u1", "Ping?").running().reply(resumed).fails(UNASKED)) == fails

    def test_an_edit_and_words_that_go_on(self) -> None:
        story = self.busy()
        resumed = story.resume()
        story.user("u1", "Ping!").chunk("user_message", "u1", "Ping?").says("a1", "Po")
        assert agent(story, "a1", "Po").running().reply(resumed).fails(UNASKED) == []

    def test_live_words_first_and_then_history(self) -> None:
        story = lived()
        resumed = story.resume()
        story.running().says("a2", "News.").idle("end_turn").user("u1", "Ping?").reply(resumed)
        assert story.proof(UNASKED) == [10, 14, 15]

    def test_chunks_that_may_be_live_or_of_the_past(self) -> None:
        story = Story(driven=False).initialize()
        resumed = story.resume(replay=True)
        story.chunk("user_message", "u1", "Ping?").running().reply(resumed)
        assert story.warns(RESET) == ["'u1' comes in chunks, and nothing cleared it first: live, or of the past?"]
        assert story.proof(RESET) == [2, 3]

    def test_strangers_in_a_session_at_work_may_be_live(self) -> None:
        story = Story(driven=False).initialize()
        resumed = story.resume()
        assert agent(story.user("u1", "Ping?"), "a1", "Pong.").running().reply(resumed).fails(UNASKED) == []
        idle = Story(driven=False).initialize()
        resumed = idle.resume()
        assert agent(idle.user("u1", "Ping?"), "a1", "Pong.").idle().reply(resumed).fails(UNASKED)


class TestRunsAnew:
    @pytest.mark.parametrize("kind", ["agent_thought_chunk", "agent_thought", "agent_message", "tool_call_update"])
    def test_new_output_of_each_kind(self, kind: str) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        content: Any = {"type": "text", "text": "Hm"}
        content = content if kind.endswith("chunk") else [content]
        story.user("u1", "Ping?").running().update(kind, messageId="x", toolCallId="c", content=content)
        assert story.idle("end_turn").reply(resumed).fails(RUNS) == ["a replay set off work"]

    def test_a_known_tool_call_is_not_new(self) -> None:
        story = Story(driven=False).begin()
        story.reply(story.prompt("Look"), messageId="u1").user("u1", "Look").running()
        story.update("tool_call_update", toolCallId="c", title="ls", status="completed").idle("end_turn").after(5)
        resumed = story.resume(replay=True)
        story.user("u1", "Look").running().update("tool_call_update", toolCallId="c", title="ls", status="completed")
        assert story.idle("end_turn").reply(resumed).passes(RUNS)

    def test_earlier_work_of_its_own_shows_that_it_works_unasked(self) -> None:
        story = lived().running().says("a5", "Indexed.").idle("end_turn").after(5)
        resumed = story.resume(replay=True)
        story.user("u1", "Ping?").running().says("a2", "Pong!").idle("end_turn").reply(resumed)
        assert (story.fails(RUNS), story.warns(RUNS)) == ([], ["work began within a replay: set off by it?"])

    def test_an_answer_that_says_the_prompt_is_no_prompt(self) -> None:
        story = Story(driven=False).begin()
        story.reply(story.prompt("Ping?"), messageId="u1").user("u1", "Ping?").running()
        agent(story, "a1", "Ping?").idle("end_turn").after(5)
        resumed = story.resume(replay=True)
        assert agent(story, "a9", "Ping?").idle().reply(resumed).fails(SAME_ID) == []

    def test_errors_that_say_nothing_of_the_cursor(self) -> None:
        story = lived()
        assert story.refuse(story.resume(replay={"type": "offset"}), -32800).silent(CURSOR)

    def test_a_later_block_that_is_all_that_another_prompt_says(self) -> None:
        story = Story(driven=False).begin()
        blocks = [{"type": "text", "text": "First: "}, {"type": "text", "text": "Ping?"}]
        story.reply(story.request("session/prompt", {"sessionId": "s", "prompt": blocks}), messageId="u1")
        story.running().idle("end_turn").reply(story.prompt("Ping?"), messageId="u2").running().idle("end_turn").after(
            5
        )
        resumed = story.resume(replay=True)
        story.update("user_message", messageId="u1", content=[])
        for block in blocks:
            story.update("user_message_chunk", messageId="u1", content=block)
        assert story.user("u2", "Ping?").idle().reply(resumed).passes(DISTINCT)

    def test_chunks_of_a_message_that_this_client_did_not_have(self) -> None:
        story = Story(driven=False).begin()
        story.reply(story.prompt("Ping?"), messageId="u1").running().idle("end_turn").after(5)
        resumed = story.resume(replay=True)
        story.chunk("user_message", "u1", "Pi").chunk("user_message", "u1", "ng!").idle().reply(resumed)
        assert len(story.outcome(RESET).findings) == 1
