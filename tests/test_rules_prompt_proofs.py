"""Prompts, closer: which events prove each fault, and what is near a fault and none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.story import Story
from tests.test_rules_prompt import LINK, LONG, PNG, blocks, foreign, turn

CONTENT = "prompt.content-is-reported"
CONSOLIDATED = "prompt.no-consolidating-chunk"
BASELINE = "prompt.baseline-content"
UNSUPPORTED = "prompt.unsupported-block-rejected"
ADVERTISED = "prompt.advertised-block-accepted"
FAILURE = "prompt.failure-ends-idle-error"
ONE_ID = "prompt.one-id-for-all-updates"
ONE_MESSAGE = "prompt.one-submission-one-message"
RETRY = "prompt.retry-is-a-new-message"
AUDIO = {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}


class TestContent:
    def test_the_proof(self) -> None:
        story = foreign()
        story.reply(story.prompt("Hi you"), messageId="u").chunk("user_message", "u", "Hi you")
        story.chunk("user_message", "u", "Hi  you").running().idle("end_turn")
        assert story.fails(CONTENT) == ["the message holds the prompt's text 2 times"]
        assert story.proof(CONTENT) == [4, 6, 7]

    @pytest.mark.parametrize("text", ["Hi you and me", "Hi youHi", "Hi", "Hi youHi your"])
    def test_a_text_that_is_not_the_prompt_again(self, text: str) -> None:
        story = foreign()
        story.reply(story.prompt("Hi you"), messageId="u").user("u", text).running().idle("end_turn")
        assert story.passes(CONTENT)

    def test_a_prompt_that_holds_its_own_mark_twice(self) -> None:
        story = Story().begin()
        story.reply(story.prompt("acp-1 acp-1", nonce="acp-1"), messageId="u").user("u", "acp-1 acp-1").running()
        assert story.idle("end_turn").passes(CONTENT)
        assert story.user("u", "acp-1 acp-1 acp-1").barrier().fails(CONTENT) == [
            "the message holds the prompt's text 3 times"
        ]

    def test_without_work_a_barrier_settles_it(self) -> None:
        story = foreign()
        story.reply(story.prompt("Hi"), messageId="u").user("u", "HiHi")
        assert story.silent(CONTENT)
        assert story.barrier().fails(CONTENT)

    def test_a_command_may_be_expanded(self) -> None:
        story = Story(triggers={"local-command": "/a"}).begin()
        story.reply(story.prompt("/a", trigger="local-command"), messageId="u").user("u", "/a/a").running()
        assert story.idle("end_turn").silent(CONTENT)


class TestConsolidatingChunk:
    def test_the_proof(self) -> None:
        story = foreign().running().says("a", LONG[:20]).says("a", LONG[20:]).says("a", LONG)
        assert story.proof(CONSOLIDATED) == [5, 7]
        assert foreign().chunk("agent_thought", "t", LONG[:9]).chunk("agent_thought", "t", LONG[9:]).chunk(
            "agent_thought", "t", LONG
        ).proof(CONSOLIDATED) == [4, 6]

    def test_a_users_words_may_repeat(self) -> None:
        story = foreign()
        for text in (LONG[:20], LONG[20:], LONG):
            story.chunk("user_message", "u", text)
        assert story.silent(CONSOLIDATED)

    @pytest.mark.parametrize(("length", "fails"), [(39, 0), (40, 1)])
    def test_how_long_it_must_be(self, length: int, fails: int) -> None:
        text = LONG[:length]
        story = foreign().running().says("a", text[:5]).says("a", text[5:]).says("a", text)
        assert len(story.fails(CONSOLIDATED)) == fails
        assert story.outcome(CONSOLIDATED).exercised

    def test_after_a_whole_update_it_counts_from_there(self) -> None:
        story = foreign().running().says("a", "x")
        story.update("agent_message", messageId="a", content=[{"type": "text", "text": LONG}])
        story.update("agent_message", messageId="a").says("a", LONG)
        assert story.proof(CONSOLIDATED) == [5, 8]

    def test_in_a_replay_it_tells_the_past(self) -> None:
        story = foreign().running().says("a", LONG[:20]).says("a", LONG[20:]).idle("end_turn").after(5)
        resumed = story.resume(replay=True)
        assert story.says("a", LONG).idle().reply(resumed).passes(CONSOLIDATED)


class TestBlocks:
    text = {"type": "text", "text": "Look"}  # noqa: RUF012

    def able(self, **more: Any) -> Story:
        return Story(driven=False).begin(capabilities={"session": {"prompt": {"image": {}, **more}}})

    def test_a_link_that_is_refused_before_or_after(self) -> None:
        story = turn(foreign(), "Hello", "u")
        story.refuse(blocks(story, LINK), -32602)
        assert story.proof(BASELINE) == [4, 5, 10, 11]
        story = foreign()
        story.refuse(blocks(story, LINK), -32602)
        assert turn(story, "Hello", "u").proof(BASELINE) == [4, 5, 6, 7]

    @pytest.mark.parametrize("code", [-32603, -32800])
    def test_another_error_on_one_side_of_text(self, code: int) -> None:
        story = foreign()
        story.refuse(blocks(story, LINK), code)
        assert turn(turn(story, "Hello", "u"), "More", "u2").fails(BASELINE) == []
        story = turn(turn(foreign(), "Hello", "u"), "More", "u2")
        assert story.refuse(blocks(story, LINK), code).fails(BASELINE) == []

    def test_text_on_another_connection_says_nothing(self) -> None:
        story = turn(foreign(), "Hello", "u").initialize(at="bob")
        id = story.request("session/prompt", {"sessionId": "s", "prompt": [LINK]}, at="bob")
        assert story.refuse(id, -32602, at="bob").fails(BASELINE) == []

    def test_what_was_cancelled_or_is_no_link_alone(self) -> None:
        story = turn(foreign(), "Hello", "u")
        cancelled = blocks(story, LINK)
        assert story.cancel().refuse(cancelled, -32602).fails(BASELINE) == []
        story = turn(foreign(), "Hello", "u")
        assert story.refuse(blocks(story, LINK, PNG), -32602).silent(BASELINE)

    @pytest.mark.parametrize("odd", [{}, [], 5, None])
    def test_blocks_of_an_odd_type(self, odd: Any) -> None:
        story = foreign()
        story.refuse(blocks(story, LINK), -32602)
        story.reply(blocks(story, LINK, {"type": odd}), messageId="u").reply(
            blocks(story, {"type": odd}), messageId="v"
        )
        assert story.fails(BASELINE) == []
        assert turn(story, "Hello", "w").fails(BASELINE) == ["a resource_link in a prompt was refused with -32602"]

    def test_unsupported(self) -> None:
        story = foreign()
        assert story.reply(blocks(story, self.text, PNG), messageId="u").proof(UNSUPPORTED) == [1, 4, 5]
        story = foreign()
        assert story.refuse(blocks(story, PNG), -32603).proof(UNSUPPORTED) == [1, 4, 5]
        for code in (-32000, -32002, -32800):
            story = foreign()
            assert story.refuse(blocks(story, PNG), code).passes(UNSUPPORTED)
        story = foreign().running()
        story.refuse(blocks(story, PNG), -32603)
        assert story.warns(UNSUPPORTED) == ["it was refused with -32603, not with -32602"]

    def test_unsupported_where_the_session_is_gone_or_unknown(self) -> None:
        story = foreign()
        story.reply(story.request("session/close", {"sessionId": "s"}))
        assert story.refuse(blocks(story, PNG), -32603).passes(UNSUPPORTED)
        story = foreign()
        cancelled = blocks(story, PNG)
        assert story.cancel().refuse(cancelled, -32603).passes(UNSUPPORTED)
        story = foreign()
        unknown = story.request("session/prompt", {"sessionId": "other", "prompt": [PNG]})
        assert story.refuse(unknown, -32603).silent(UNSUPPORTED)

    def test_advertised(self) -> None:
        story = self.able()
        story.refuse(blocks(story, self.text, PNG), -32602)
        assert story.fails(ADVERTISED)
        assert story.proof(ADVERTISED) == [1, 4, 5]

    @pytest.mark.parametrize(
        ("kind", "data", "sure"),
        [
            ("image/png", "iVBORw0KGgoA", True),
            ("image/jpeg", "/9j/AAAA", True),
            ("image/gif", "R0lGODAA", True),
            ("image/webp", "AAAA", False),
            ("image/gif", "/9j/AAAA", False),
        ],
    )
    def test_what_is_surely_a_picture(self, kind: str, data: str, sure: bool) -> None:
        story = self.able()
        story.refuse(blocks(story, {"type": "image", "mimeType": kind, "data": data}), -32602)
        assert (len(story.fails(ADVERTISED)), len(story.warns(ADVERTISED))) == ((1, 0) if sure else (0, 1))

    def test_sound_is_never_sure_and_the_suites_own_always(self) -> None:
        story = self.able(audio={})
        assert story.refuse(blocks(story, AUDIO), -32602).warns(ADVERTISED)
        driven = Story().begin(capabilities={"session": {"prompt": {"audio": {}}}})
        assert driven.refuse(blocks(driven, AUDIO), -32602).fails(ADVERTISED)

    def test_what_is_no_base64_may_be_refused(self) -> None:
        for data, fails in (("no base64!", 0), ("AAAA", 1)):
            driven = Story().begin(capabilities={"session": {"prompt": {"audio": {}}}})
            driven.refuse(blocks(driven, {**AUDIO, "data": data}), -32602)
            assert len(driven.fails(ADVERTISED)) == fails

    def test_refused_for_another_reason(self) -> None:
        story = self.able()
        assert story.refuse(blocks(story, PNG), -32603).silent(ADVERTISED)
        story = self.able()
        assert story.refuse(blocks(story, PNG, AUDIO), -32602).silent(ADVERTISED)
        story = self.able()
        story.request("session/prompt", {"sessionId": "s", "prompt": [PNG]})
        assert story.silent(ADVERTISED)


class TestFailure:
    def failing(self, *, before: str = "running") -> Story:
        story = Story(model="openai-chat").begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u").user("u", "Hello acp-1")
        if before == "running":
            story.running()
        story.control("model-request", at="", number=1, nonce="acp-1", group="chat", last_user=True)
        return story.control("model-answered", at="", number=1, how="fail", status=500, injected=True)

    def test_the_proof(self) -> None:
        story = self.failing().idle("end_turn")
        assert story.proof(FAILURE) == [8, 11, 12]
        assert "fail 500" in story.outcome(FAILURE).findings[0].because[1][1]
        story = self.failing().idle()
        assert story.warns(FAILURE) == ["the failed work ended without a stop reason"]
        assert story.proof(FAILURE) == [8, 11, 12]
        waited = self.failing().control("waited", **{"for": "idle", "session": "s", "seconds": 15})
        assert waited.proof(FAILURE) == [8, 11, 12]

    @pytest.mark.parametrize(
        ("reason", "fails"),
        [("end_turn", 1), ("max_tokens", 1), ("max_turn_requests", 1), ("refusal", 1), ("cancelled", 1), ("_own", 0)],
    )
    def test_every_known_end_but_error(self, reason: str, fails: int) -> None:
        assert len(self.failing().idle(reason).fails(FAILURE)) == fails

    def test_work_that_begins_after_the_failure(self) -> None:
        assert self.failing(before="").running().idle("end_turn").proof(FAILURE) == [8, 10, 12]
        assert self.failing(before="").running().idle("error").passes(FAILURE)

    def test_the_model_answered_another_prompt_too(self) -> None:
        for nonce, group, fails in (
            ("acp-2", "chat", 0),
            ("acp-2", None, 0),
            ("acp-2", "other", 1),
            ("acp-1", "chat", 1),
        ):
            story = self.failing()
            story.control("model-request", at="", number=2, nonce=nonce, group=group, last_user=True)
            story.control("model-answered", at="", number=2, how="fail", status=500, injected=True)
            assert len(story.idle("end_turn").fails(FAILURE)) == fails, (nonce, group)

    def test_a_side_request_is_no_other_prompt(self) -> None:
        story = self.failing().control("model-request", at="", number=2, nonce="acp-2", group="chat", side=True)
        assert story.idle("end_turn").fails(FAILURE)

    @pytest.mark.parametrize("parts", [("Error", ": quota"), ("API err", "or: no")])
    def test_in_words_of_several_chunks(self, parts: Any) -> None:
        story = foreign()
        story.reply(story.prompt("Hello"), messageId="u").user("u", "Hello").running()
        for part in parts:
            story.says("a", part)
        assert story.idle("end_turn").warns(FAILURE) == ["work that brought nothing but an error ended with end_turn"]
        assert story.proof(FAILURE) == [4, 9, 10]

    def test_work_for_two_prompts_is_told_once(self) -> None:
        story = foreign()
        for number in (1, 2):
            story.reply(story.prompt(f"Hello {number}"), messageId=f"u{number}").user(f"u{number}", f"Hello {number}")
        story.running().says("a", "Error: quota").idle("end_turn")
        assert story.warns(FAILURE) == ["work that brought nothing but an error ended with end_turn"]

    def test_words_beside_a_tool_call_or_another_end(self) -> None:
        story = foreign()
        story.reply(story.prompt("Hello"), messageId="u").user("u", "Hello").running()
        story.update("tool_call_update", toolCallId="c", title="t").says("a", "Error: quota")
        assert story.idle("end_turn").warns(FAILURE) == []
        story = foreign()
        story.reply(story.prompt("Hello"), messageId="u").user("u", "Hello").running().says("a", "Error: quota")
        assert story.idle("error").warns(FAILURE) == []


class TestIds:
    def test_another_id(self) -> None:
        story = foreign()
        story.reply(story.prompt("Hello"), messageId="u").user("x", "Hello").running().idle("end_turn")
        assert story.proof(ONE_ID) == [4, 5, 6, 8]
        driven = Story().begin()
        driven.reply(driven.prompt("Hello", nonce="acp-1"), messageId="u").user("x", "Hello acp-1")
        assert driven.proof(ONE_ID) == [6, 7, 8]

    def test_one_submission_as_two_messages(self) -> None:
        story = Story().begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u").user("u", "Hello acp-1")
        story.user("x", "Hello acp-1").user("x", "Hello acp-1")
        assert story.fails(ONE_MESSAGE) == ["one submission was reported as 2 messages: 'u', 'x'"]
        assert story.proof(ONE_MESSAGE) == [6, 8, 9]
        story.user("y", "He said: Hello acp-1")
        assert story.proof(ONE_MESSAGE) == [6, 8, 9]

    def test_sent_again(self) -> None:
        story = foreign()
        story.prompt("Hello")
        story.user("u", "Hello").control("cut").initialize(at="ada#2")
        story.reply(story.resume(at="ada#2"), at="ada#2")
        story.reply(story.prompt("Hello", at="ada#2"), at="ada#2", messageId="u")
        assert story.proof(RETRY) == [4, 5, 11, 12]

    def test_sent_again_while_the_first_one_may_still_be_answered(self) -> None:
        story = foreign()
        story.prompt("Hello")
        story.user("u", "Hello")
        story.reply(story.prompt("Hello"), messageId="u")
        assert story.silent(RETRY)


class TestAnswers:
    waiting, rejected = "prompt.success-without-waiting-for-work", "prompt.rejected-is-error"

    def test_the_response_waited(self) -> None:
        story = Story().begin()
        first = story.prompt("Count", nonce="acp-1")
        story.user("u1", "Count acp-1").running().barrier().says("a1", "One").after(0.3).idle("end_turn")
        assert story.reply(first, messageId="u1").proof(self.waiting) == [6, 7, 10, 12, 13]
        held = Story().begin()
        first = held.prompt("Count", nonce="acp-1")
        held.user("u1", "Count acp-1").running()
        held.control("window", kind="hold", session="s", began=held.last.seq + 1, seconds=2)
        assert held.proof(self.waiting) == [6, 7, 9]
        assert held.reply(first, messageId="u1").proof(self.waiting) == [6, 7, 9, 10]

    def test_refused_or_taken_for_its_own_sake(self) -> None:
        story = foreign()
        story.reply(blocks(story), messageId="u").after(2).barrier()
        assert story.proof(self.rejected) == [4, 5, 7]
        story = foreign()
        story.refuse(blocks(story, {"type": "text", "text": "What?"}, PNG), -32602).user("u", "What?")
        assert story.proof(self.rejected) == [4, 5, 6]
