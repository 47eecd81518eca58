"""The rules about prompts: what proves a violation, what is right, and what only looks wrong."""

from typing import Any

import pytest

from tests.story import Story

LONG = "This sentence is long enough to be no coincidence."
PNG = {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}
LINK = {"type": "resource_link", "name": "a", "uri": "file:///w/a"}


def seqs(story: Story, rule: str) -> list[list[int]]:
    return [[event.seq for event, _ in finding.because] for finding in story.outcome(rule).findings]


def foreign() -> Story:
    return Story(driven=False).begin()


def turn(story: Story, text: str, message: str, *, nonce: str | None = None) -> Story:
    id = story.prompt(text, nonce=nonce)
    story.reply(id, messageId=message).user(message, f"{text} {nonce or ''}".strip()).running()
    return story.says(f"a-{message}", "Yes.").idle("end_turn")


def blocks(story: Story, *content: Any) -> Any:
    return story.request("session/prompt", {"sessionId": "s", "prompt": list(content)})


class TestMessageId:
    rule = "prompt.message-id-in-response"

    @pytest.mark.parametrize(
        ("result", "said"),
        [
            ({}, "absent"),
            ({"messageId": None}, "null"),
            ({"messageId": 7}, "7"),
            (None, "absent: the result is no object"),
        ],
    )
    def test_missing(self, result: Any, said: str) -> None:
        story = foreign()
        id = story.prompt("Hello")
        story.agent({"jsonrpc": "2.0", "id": id, "result": result})
        assert story.fails(self.rule) == [f"the result's messageId is {said}"]
        assert seqs(story, self.rule) == [[4, 5]]
        assert story.fails("wire.valid-shape") == []

    def test_right(self) -> None:
        assert turn(foreign(), "Hello", "u").passes(self.rule)

    def test_an_error_is_no_success(self) -> None:
        story = foreign()
        assert story.refuse(story.prompt("Hello"), -32603).silent(self.rule)

    def test_an_error_of_null_is_still_a_success(self) -> None:
        story = foreign()
        id = story.prompt("Hello")
        story.agent({"jsonrpc": "2.0", "id": id, "result": {"messageId": "u"}, "error": None})
        assert story.passes(self.rule)
        assert story.fails("wire.result-or-error") == ["a response with both result and error"]


class TestNoSuccessBeforeInsertion:
    rule = "prompt.no-success-before-insertion"

    def held(self, *, driven: bool) -> Story:
        story = Story(driven=driven).begin()
        story.reply(story.prompt("First", nonce="acp-1" if driven else None), messageId="u1")
        story.user("u1", "First acp-1" if driven else "First").running().says("a1", "At it. ")
        self.second = story.prompt("Second", nonce="acp-2" if driven else None)
        return story.reply(self.second, messageId="u2")

    def test_reported_after_the_hold_window(self) -> None:
        story = self.held(driven=True)
        story.control("window", kind="hold", session="s", began=len(story.recorder.history), seconds=2)
        story.says("a1", "Done.").idle("end_turn").user("u2", "Second acp-2").running().idle("end_turn")
        assert story.fails(self.rule) == ["the prompt was answered with success long before its message was inserted"]

    def test_reported_after_earlier_work_in_a_recording(self) -> None:
        story = self.held(driven=False).after(2).says("a1", "Still.").idle("end_turn").user("u2", "Second")
        assert story.fails(self.rule) == ["the prompt was answered with success long before its message was inserted"]
        assert story.fails("prompt.insertion-reported") == []

    def test_dropped_by_a_cancel(self) -> None:
        story = self.held(driven=False).after(1).cancel().idle("cancelled").after(2).barrier()
        assert story.fails(self.rule) == ["the prompt was answered with success and then dropped by a cancel"]
        assert story.fails("prompt.insertion-reported") == []

    def test_never_appeared(self) -> None:
        story = self.held(driven=False).after(1).idle("end_turn").after(2).barrier()
        assert story.fails(self.rule)
        assert seqs(story, self.rule) == [[9, 10, 13]]

    def test_reported_at_once(self) -> None:
        assert self.held(driven=False).user("u2", "Second").idle("end_turn").passes(self.rule)

    def test_a_fast_cancel_crossed_the_report(self) -> None:
        story = self.held(driven=False).cancel().user("u2", "Second").idle("cancelled").after(2).barrier()
        assert story.passes(self.rule)

    def test_a_message_that_is_worked_on_was_inserted(self) -> None:
        story = foreign()
        story.reply(story.prompt("Hello"), messageId="u").running().says("a", "Hm").cancel().idle("cancelled")
        assert story.fails(self.rule) == []
        assert story.fails("prompt.insertion-reported") == ["the inserted message 'u' was never reported"]

    def test_the_recording_ends_before_the_report(self) -> None:
        assert self.held(driven=False).after(1).cancel().idle("cancelled").passes(self.rule)

    def test_nothing_accepted(self) -> None:
        assert foreign().silent(self.rule)


class TestSuccessWithoutWaiting:
    rule = "prompt.success-without-waiting-for-work"

    def test_the_response_is_the_last(self) -> None:
        story = foreign()
        id = story.prompt("Hello")
        story.user("u", "Hello").running().after(3).idle("end_turn").reply(id, messageId="u")
        assert story.fails(self.rule) == ["the response waited for the end of the work"]
        assert seqs(story, self.rule) == [[4, 5, 7, 8]]

    def test_held_open(self) -> None:
        story = Story().begin()
        id = story.prompt("Hello", nonce="acp-1")
        story.user("u", "Hello acp-1").running()
        story.control("window", kind="hold", session="s", began=len(story.recorder.history), seconds=2)
        message = "the response waited although the message was inserted and the work was held open"
        assert story.fails(self.rule) == [message]
        assert story.reply(id, messageId="u").idle("end_turn").fails(self.rule) == [message]

    @pytest.mark.parametrize("driven", [True, False])
    @pytest.mark.parametrize("response_first", [True, False])
    def test_message_and_response_only_when_the_work_is_over(self, driven: bool, response_first: bool) -> None:
        story = Story(driven=driven).begin()
        id = story.prompt("Hello", nonce="acp-1" if driven else None)
        story.running().says("a", "Hi").idle("end_turn")
        if response_first:
            story.reply(id, messageId="u").user("u", "Hello acp-1")
        else:
            story.user("u", "Hello acp-1").reply(id, messageId="u")
        assert story.silent(self.rule)
        if driven:
            story.control("window", kind="quiet", session="s", began=len(story.recorder.history), seconds=1)
        else:
            story.after(2).barrier()
        message = ["the prompt was inserted and answered only when its work was over"]
        assert (story.fails(self.rule), story.warns(self.rule)) == ((message, []) if driven else ([], message))

    def test_a_prompt_that_waits_for_work_of_the_agents_own(self) -> None:
        story = Story().begin()
        id = story.prompt("Hello", nonce="acp-1")
        story.running().says("a", "Welcome").idle("end_turn")
        story.user("u", "Hello acp-1").reply(id, messageId="u").running().says("b", "Hi").idle("end_turn")
        story.control("window", kind="quiet", session="s", began=len(story.recorder.history), seconds=1)
        assert story.passes(self.rule)

    def test_another_session_was_held_open(self) -> None:
        story = Story().begin()
        story.prompt("Hello", nonce="acp-1")
        story.user("u", "Hello acp-1").running()
        story.control("window", kind="hold", session="other", began=len(story.recorder.history), seconds=2)
        assert story.silent(self.rule)

    def test_a_turn_in_one_burst_is_a_warning(self) -> None:
        story = foreign()
        id = story.prompt("Hello")
        story.user("u", "Hello").running().says("a", "Hi").idle("end_turn").reply(id, messageId="u")
        assert story.fails(self.rule) == []
        assert story.warns(self.rule) == [
            "the response came only after the idle, of a turn too short to rule out that two lines were swapped"
        ]

    def test_a_busy_machine_is_no_fault(self) -> None:
        story = Story().begin()
        id = story.prompt("Hello", nonce="acp-1")
        story.user("u", "Hello acp-1").running().after(0.1).idle("end_turn").after(0.1).reply(id, messageId="u")
        assert story.fails(self.rule) == []

    def test_in_the_midst_of_work(self) -> None:
        story = foreign()
        id = story.prompt("Hello")
        story.user("u", "Hello").running().after(5).reply(id, messageId="u").after(5).idle("end_turn")
        assert story.passes(self.rule)

    def answered_late(self, *, waits: float = 3, more: bool = False, rest: float = 0, driven: bool = False) -> Story:
        """A response that comes some seconds after the report, when all is said but, with `more`, a last word."""
        story = Story(driven=driven).begin()
        id = story.prompt("Hello", nonce="acp-1" if driven else None)
        story.user("u", "Hello acp-1" if driven else "Hello").running().says("a", "Well").after(waits)
        story.says("a", ", hi.").after(0.1).reply(id, messageId="u").after(rest)
        return (story.says("a", " Bye.") if more else story).idle("end_turn")

    def test_in_one_burst_before_the_idle(self) -> None:
        assert self.answered_late().fails(self.rule) == ["the response waited for the end of the work"]

    @pytest.mark.parametrize("more", [{"waits": 0.5}, {"more": True}, {"rest": 0.1}, {"driven": True}])
    def test_before_the_idle_by_chance(self, more: dict[str, Any]) -> None:
        assert self.answered_late(**more).passes(self.rule)

    def test_a_held_prompt_is_not_reported_yet(self) -> None:
        story = foreign().running()
        id = story.prompt("Hello")
        story.after(60).idle("end_turn").user("u", "Hello").reply(id, messageId="u").running()
        assert story.fails(self.rule) == []


class TestRejectedIsError:
    rule = "prompt.rejected-is-error"

    def test_refused_and_reported(self) -> None:
        story = foreign()
        id = blocks(story, {"type": "text", "text": "What is this?"}, PNG)
        story.refuse(id, -32602).user("u", "What is this?")
        assert story.fails(self.rule) == ["the prompt was refused, and its message reported all the same"]
        assert story.fails("prompt.no-error-after-insertion") == []

    def test_taken_and_never_inserted(self) -> None:
        story = foreign()
        story.reply(blocks(story), messageId="u").after(2).barrier()
        assert story.fails(self.rule) == ["the prompt was not inserted, and answered with success instead of an error"]
        assert story.fails("prompt.insertion-reported") == []

    @pytest.mark.parametrize("driven", [True, False])
    def test_taken_for_a_session_that_was_never_there(self, driven: bool) -> None:
        story = Story(driven=driven).begin()
        story.reply(story.prompt("Hello", session="none"), messageId="u")
        story.control("window", kind="quiet", seconds=1, session="s") if driven else story.after(40).barrier()
        assert bool(story.fails(self.rule)) is driven  # a recording may begin later than its session

    def test_refused(self) -> None:
        story = foreign()
        assert story.refuse(blocks(story), -32602).passes(self.rule)

    @pytest.mark.parametrize(("text", "fails"), [("/refuse", 1), ("/refuse that", 0)])
    def test_refused_and_kept(self, text: str, fails: int) -> None:
        story = Story().begin()
        id = story.prompt("/refuse", trigger="fail-before-insertion", refusable="the profile's")
        resumed = story.refuse(id, -32603).resume(replay=True)
        story.user("u1", text).idle().reply(resumed)
        assert len(story.fails(self.rule)) == fails
        if fails:
            assert story.proof(self.rule) == [6, 7, 9]

    def test_somebody_else_may_have_sent_what_was_refused(self) -> None:
        story = foreign()
        id = blocks(story, {"type": "text", "text": "What is this?"}, PNG)
        resumed = story.refuse(id, -32602).resume(replay=True)
        assert story.user("u1", "What is this?").idle().reply(resumed).passes(self.rule)

    def test_an_empty_prompt_may_be_taken(self) -> None:
        story = foreign()
        story.reply(blocks(story), messageId="u").update("user_message", messageId="u", content=[]).after(2).barrier()
        assert story.passes(self.rule)

    def test_nothing_to_refuse(self) -> None:
        assert turn(foreign(), "Hello", "u").silent(self.rule)


class TestDistinctIds:
    rule = "prompt.distinct-message-ids"

    def test_shared(self) -> None:
        story = turn(turn(foreign(), "go on", "u"), "go on", "u")
        assert story.fails(self.rule) == ["two submissions were answered with the messageId 'u'"]
        assert story.fails("prompt.insertion-reported") == []

    def test_shared_by_two_connections(self) -> None:
        story = turn(foreign(), "go on", "u").initialize(at="bob")
        story.reply(story.resume(at="bob"), at="bob")
        assert story.reply(story.prompt("go on", at="bob"), at="bob", messageId="u").fails(self.rule)

    def test_distinct(self) -> None:
        assert turn(turn(foreign(), "go on", "u1"), "go on", "u2").passes(self.rule)

    def test_one_is_no_two(self) -> None:
        assert turn(foreign(), "go on", "u").silent(self.rule)

    @pytest.mark.parametrize(("id", "fails"), [("u1", True), ("u2", False)])
    def test_that_of_a_message_which_was_there(self, id: str, fails: bool) -> None:
        """An agent that counts its messages from one again when it resumes a session."""
        story = Story(driven=False).initialize()
        again = story.resume(replay=True)
        story = turn(story.user("u1", "Old").idle().reply(again), "New", id)
        said = ["a submission was answered with the messageId 'u1' of an earlier message"] if fails else []
        assert story.fails(self.rule) == said

    def test_two_processes_that_count_by_themselves(self) -> None:
        story = turn(foreign(), "Hello", "u").begin(at="bob")
        story.reply(story.prompt("Hello", at="bob"), at="bob", messageId="u")
        assert story.fails(self.rule) == []


class TestInsertionReported:
    rule = "prompt.insertion-reported"

    def test_never_until_the_idle(self) -> None:
        story = foreign()
        story.reply(story.prompt("Hello"), messageId="u").running().says("a", "Hi").idle("end_turn")
        assert story.fails(self.rule) == ["the inserted message 'u' was never reported"]
        assert seqs(story, self.rule) == [[4, 5, 8]]

    @pytest.mark.parametrize(("steps", "fails"), [("close", 0), ("close resume", 1), ("refused", 1), ("", 1)])
    def test_told_to_those_who_are_attached(self, steps: str, fails: int) -> None:
        """One of two clients has closed the session, and prompts in it all the same."""
        story = foreign().initialize(at="bob")
        if "close" in steps:
            story.reply(story.request("session/close", {"sessionId": "s"}))
        elif steps == "refused":
            story.refuse(story.request("session/close", {"sessionId": "s"}), -32603)
        story.reply(story.resume(at="bob"), at="bob")
        if "resume" in steps:
            story.reply(story.resume())
        id = story.prompt("Hello")
        story.user("u", "Hello", at="bob").reply(id, messageId="u")
        for at in ("bob", "ada"):
            story.running(at=at).says("a", "Hi", at=at).idle("end_turn", at=at)
        assert len(story.fails(self.rule)) == fails

    def test_nobody_is_attached_to_a_closed_session(self) -> None:
        story = foreign()
        story.reply(story.request("session/close", {"sessionId": "s"}))
        assert story.reply(story.prompt("Hello"), messageId="u").after(2).barrier().fails(self.rule) == []

    def test_never_though_running_came_first(self) -> None:
        story = foreign()
        id = story.prompt("Hello")
        story.running().reply(id, messageId="u").says("a", "Hi").idle("end_turn")
        assert story.fails(self.rule)

    def test_never_until_a_barrier(self) -> None:
        story = foreign()
        assert story.reply(story.prompt("Hello"), messageId="u").after(2).barrier().fails(self.rule)

    def test_never_in_a_quiet_window(self) -> None:
        story = Story().begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u")
        began = len(story.recorder.history)
        assert story.barrier().control("window", kind="quiet", session="s", began=began).fails(self.rule)

    def test_only_in_a_later_replay(self) -> None:
        story = foreign()
        story.reply(story.prompt("Hello"), messageId="u").running().says("a", "Hi").idle("end_turn")
        id = story.resume(replay=True)
        assert story.user("u", "Hello").idle().reply(id).fails(self.rule)

    @pytest.mark.parametrize("first", [True, False])
    def test_before_or_after_the_response(self, first: bool) -> None:
        story = foreign()
        id = story.prompt("Hello")
        if first:
            story.user("u", "Hello").reply(id, messageId="u")
        else:
            story.reply(id, messageId="u").user("u", "Hello")
        assert story.running().idle("end_turn").passes(self.rule)

    def test_in_chunks_only(self) -> None:
        story = foreign()
        story.reply(story.prompt("Hello"), messageId="u").chunk("user_message", "u", "Hello").running()
        assert story.idle("end_turn").passes(self.rule)

    def test_the_idle_of_earlier_work_does_not_count(self) -> None:
        story = foreign().running()
        assert story.reply(story.prompt("Hello"), messageId="u").says("a", "So.").idle("end_turn").passes(self.rule)

    def test_a_busy_line_is_no_barrier(self) -> None:
        story = foreign()
        assert story.reply(story.prompt("Hello"), messageId="u").barrier().passes(self.rule)

    def test_within_a_resume(self) -> None:
        story = foreign()
        story.reply(story.prompt("Hello"), messageId="u")
        id = story.resume(replay=True)
        story.user("u", "Hello").running().idle("end_turn").reply(id)
        assert story.passes(self.rule)

    def test_a_close_ends_it(self) -> None:
        story = foreign()
        story.reply(story.prompt("Hello"), messageId="u")
        story.reply(story.request("session/close", {"sessionId": "s"}))
        assert story.after(5).barrier().fails(self.rule) == []

    def test_late_is_a_warning(self) -> None:
        story = foreign()
        story.reply(story.prompt("Hello"), messageId="u").running().says("a", "Hi").idle("end_turn").user("u", "Hello")
        assert story.fails(self.rule) == []
        assert story.warns(self.rule) == ["the inserted message 'u' was reported late"]

    def test_not_accepted(self) -> None:
        story = foreign()
        assert story.refuse(story.prompt("Hello"), -32603).silent(self.rule)


class TestOneIdForAllUpdates:
    rule = "prompt.one-id-for-all-updates"

    def test_another_id(self) -> None:
        story = foreign()
        story.reply(story.prompt("Hello"), messageId="u").user("x", "Hello").running().says("a", "Hi").idle("end_turn")
        assert story.fails(self.rule) == ["the response names 'u', the message is reported as 'x'"]
        assert story.fails("prompt.insertion-reported") == []

    def test_twice_under_two_ids(self) -> None:
        story = Story().begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u").user("u", "Hello acp-1").user(
            "x", "Hello acp-1"
        )
        assert story.fails(self.rule)
        assert story.fails("prompt.one-submission-one-message") == [
            "one submission was reported as 2 messages: 'u', 'x'"
        ]

    def test_another_client_may_have_said_the_same(self) -> None:
        story = turn(foreign(), "continue", "u").user("x", "continue")
        assert story.fails(self.rule) == []
        assert story.warns(self.rule)

    def test_a_schedule_says_the_same_again(self) -> None:
        story = turn(foreign(), "check it", "u").after(60).user("x", "check it").running().says("b", "All is well")
        assert story.idle("end_turn").passes(self.rule)

    def test_two_prompts_whose_ids_are_mixed_up(self) -> None:
        story = foreign()
        first, second = story.prompt("One"), story.prompt("Two")
        story.user("u1", "One").user("u2", "Two").reply(first, messageId="u2").reply(second, messageId="u1")
        assert len(story.fails(self.rule)) == 2

    def test_one_that_quotes_it(self) -> None:
        story = Story().begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u").user("u", "Hello acp-1")
        assert story.user("x", "You said: Hello acp-1. And now?").passes(self.rule)

    def test_equal_texts_prove_nothing(self) -> None:
        story = foreign()
        first, second = story.prompt("go on"), story.prompt("go on")
        story.user("x", "go on").user("y", "go on").reply(first, messageId="y").reply(second, messageId="x")
        assert story.passes(self.rule)

    def in_pieces(self, *pieces: tuple[str, str]) -> Story:
        story = Story().begin()
        story.reply(story.prompt("Hello dear agent", nonce="acp-1"), messageId="u1")
        for id, text in pieces:
            story.chunk("user_message", id, text)
        return story.running().says("a", "Hi").idle("end_turn")

    def test_each_chunk_under_an_id_of_its_own(self) -> None:
        story = self.in_pieces(("u1", "Hello "), ("u2", "dear "), ("u3", "agent acp-1"))
        assert story.fails(self.rule) == ["the response names 'u1', the message is reported as 'u2'"]

    @pytest.mark.parametrize(
        "pieces",
        [
            [("u1", "Hello "), ("u1", "dear "), ("u1", "agent acp-1")],
            [("u1", "Hello "), ("u2", "what else?"), ("u1", "dear agent acp-1")],
            [("u1", "Hello "), ("u2", "dear "), ("u3", "all")],
            [("u1", "Hello dear agent acp-1"), ("u2", "dear "), ("u3", "agent acp-1")],
        ],
    )
    def test_chunks_under_its_own_and_what_is_no_piece_of_it(self, pieces: list[tuple[str, str]]) -> None:
        assert self.in_pieces(*pieces).fails(self.rule) == []

    @pytest.mark.parametrize(
        ("pieces", "fails"),
        [
            (("Mend the parser", " and add tests for it"), 1),
            (("Mend the parser and", " add ", "tests for it"), 1),
            (("Mend the parser and add tests", " for it"), 0),  # that may be a message of another client's
            (("Mend the parser", " and add something else"), 0),
        ],
    )
    def test_in_a_recording_of_others(self, pieces: tuple[str, ...], fails: int) -> None:
        story = foreign()
        story.reply(story.prompt("Mend the parser and add tests for it"), messageId="u0")
        for number, text in enumerate(pieces):
            story.chunk("user_message", f"u{number}", text)
        assert len(story.running().says("a", "Hi").idle("end_turn").fails(self.rule)) == fails

    def test_not_accepted(self) -> None:
        story = foreign()
        assert story.refuse(story.prompt("Hello"), -32603).silent(self.rule)


class TestOneSubmissionOneMessage:
    rule = "prompt.one-submission-one-message"

    def test_one(self) -> None:
        assert turn(Story().begin(), "Hello", "u", nonce="acp-1").passes(self.rule)

    def test_none(self) -> None:
        assert Story().begin().silent(self.rule)


class TestRetry:
    rule = "prompt.retry-is-a-new-message"

    def lost(self, *, driven: bool = False) -> Story:
        story = Story(driven=driven).begin()
        story.prompt("Publish")
        story.user("u1", "Publish")
        if driven:
            story.control("cut")
        story.after(1).initialize(at="bob")
        id = story.resume(replay=True, at="bob")
        story.update("user_message", at="bob", messageId="u1", content=[{"type": "text", "text": "Publish"}])
        return story.update("state_update", at="bob", state="idle").reply(id, at="bob")

    @pytest.mark.parametrize("driven", [True, False])
    def test_the_old_id_again(self, driven: bool) -> None:
        story = self.lost(driven=driven)
        story.reply(story.prompt("Publish", at="bob"), at="bob", messageId="u1")
        assert story.fails(self.rule) == [
            "the prompt that was sent again got the id 'u1' of a message that was there before it"
        ]
        assert story.fails("prompt.distinct-message-ids") == []

    @pytest.mark.parametrize("driven", [True, False])
    def test_a_new_id(self, driven: bool) -> None:
        story = self.lost(driven=driven)
        assert story.reply(story.prompt("Publish", at="bob"), at="bob", messageId="u2").passes(self.rule)

    def test_a_new_session_of_the_next_life_counts_anew(self) -> None:
        story = Story().begin()
        story.prompt("Publish")
        story.user("u1", "Publish").control("cut").begin(at="bob")
        assert story.reply(story.prompt("Publish", at="bob"), at="bob", messageId="u1").fails(self.rule) == []

    def test_not_sent_again(self) -> None:
        assert self.lost().silent(self.rule)


class TestNoErrorAfterInsertion:
    rule = "prompt.no-error-after-insertion"

    @pytest.mark.parametrize("driven", [True, False])
    @pytest.mark.parametrize("first", [True, False])
    def test_an_error_beside_a_report(self, driven: bool, first: bool) -> None:
        story = Story(driven=driven).begin()
        id = story.prompt("Hello", nonce="acp-1" if driven else None)
        text = "Hello acp-1" if driven else "Hello"
        if first:
            story.user("u", text).refuse(id, -32603)
        else:
            story.refuse(id, -32603).user("u", text)
        assert story.fails(self.rule) == ["a prompt whose message is in the conversation was answered with an error"]

    def test_the_same_text_is_sent_again_after_it(self) -> None:
        story = foreign()
        id = story.prompt("Hello")
        turn(story.user("u", "Hello").refuse(id, -32603), "Hello", "u2")
        assert story.fails(self.rule)

    def test_which_of_two_equal_prompts_was_reported(self) -> None:
        story = foreign()
        first, second = story.prompt("Hello"), story.prompt("Hello")
        story.refuse(first, -32603).reply(second, messageId="u").user("u", "Hello")
        assert story.passes(self.rule)

    def test_a_cancel_has_rules_of_its_own(self) -> None:
        story = foreign()
        id = story.prompt("Hello")
        assert story.user("u", "Hello").cancel().refuse(id, -32800).silent(self.rule)

    def test_refused_before_insertion(self) -> None:
        story = foreign()
        assert story.refuse(story.prompt("Hello"), -32000).idle("error").passes(self.rule)

    def test_neither_error_nor_failure(self) -> None:
        assert turn(foreign(), "Hello", "u").silent(self.rule)

    def test_an_error_and_a_replay_that_tells_the_message(self) -> None:
        story = Story().begin()
        first = story.prompt("Hello", nonce="acp-1")
        story.running().idle("end_turn").refuse(first, -32603)
        assert story.passes(self.rule)
        resumed = story.resume(replay=True)
        story.user("u1", "Hello acp-1").idle().reply(resumed)
        assert story.fails(self.rule)


def failing(story: Story, *, how: str = "fail", injected: bool = True, number: int = 1) -> Story:
    story.control("model-request", at="", number=number, api="openai-chat", nonce="acp-1", group="chat", last_user=True)
    return story.control("model-answered", at="", number=number, how=how, status=401, injected=injected)


class TestFailureEndsIdleError:
    rule = "prompt.failure-ends-idle-error"

    def failed(self) -> Story:
        story = Story(model="openai-chat").begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u").user("u", "Hello acp-1").running()
        return failing(story)

    def test_end_turn(self) -> None:
        story = self.failed().idle("end_turn")
        assert story.fails(self.rule) == ["the failed work ended with end_turn instead of error"]

    def test_no_idle(self) -> None:
        story = self.failed().control("waited", **{"for": "idle", "session": "s", "seconds": 15})
        assert story.fails(self.rule) == ["the failure was never told: no idle came"]
        assert story.fails("state.idle-when-work-ends") == []

    def test_another_client_is_told_of_the_message_sooner(self) -> None:
        """The end of earlier work comes late on the submitter's line; it is not that of the failed work."""
        story = Story(model="openai-chat").begin().initialize(at="bob")
        story.reply(story.resume(at="bob"), at="bob").running().running(at="bob")
        second = story.prompt("Hello", nonce="acp-1")
        story.idle("end_turn", at="bob").user("u", "Hello acp-1", at="bob")
        failing(story).idle("end_turn").user("u", "Hello acp-1").running().reply(second, messageId="u").idle("error")
        assert story.passes(self.rule)

    def after_a_tool(self) -> Story:
        story = Story(model="openai-chat").begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u").user("u", "Hello acp-1").running()
        failing(story, how="call-tool", injected=False)
        return failing(failing(story, number=2), number=3)

    def test_after_a_tool(self) -> None:
        assert self.after_a_tool().idle("error").passes(self.rule)
        message = "the failed work ended with end_turn instead of error"
        assert self.after_a_tool().idle("end_turn").fails(self.rule) == [message]

    def test_no_idle_after_a_tool(self) -> None:
        story = self.after_a_tool().control("waited", **{"for": "idle", "session": "s", "seconds": 15})
        assert story.fails(self.rule) == ["the failure was never told: no idle came"]
        assert story.fails("state.idle-when-work-ends") == []

    def test_a_retry_after_a_tool_that_succeeds(self) -> None:
        story = failing(self.after_a_tool(), number=4, how="say", injected=False)
        assert story.idle("end_turn").silent(self.rule)

    def test_a_failure_after_the_last_word(self) -> None:
        story = Story(model="openai-chat").begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u").user("u", "Hello acp-1").running()
        failing(failing(story, how="say", injected=False), number=2)
        assert story.idle("end_turn").silent(self.rule)

    def test_the_wait_was_nearly_over(self) -> None:
        story = Story(model="openai-chat").begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u").user("u", "Hello acp-1").running().after(60)
        story = failing(story)
        story.now -= 14
        story.control("waited", **{"for": "idle", "session": "s", "seconds": 15})
        assert story.fails(self.rule) == []

    def test_error(self) -> None:
        assert self.failed().idle("error", error={"code": -32000, "message": "log in"}).passes(self.rule)

    @pytest.mark.parametrize(("reason", "fails"), [("error", 0), ("end_turn", 1)])
    def test_the_model_was_heard_before_the_idle_of_earlier_work(self, reason: str, fails: int) -> None:
        story = Story(model="openai-chat").begin().running()
        id = story.prompt("Hello", nonce="acp-1")
        failing(story).idle("end_turn")  # of the earlier work: it and the model's lines come by two ways
        story.reply(id, messageId="u").user("u", "Hello acp-1").running().idle(reason)
        assert len(story.fails(self.rule)) == fails

    def test_no_reason_is_a_warning(self) -> None:
        story = self.failed().idle()
        assert (story.fails(self.rule), len(story.warns(self.rule))) == ([], 1)

    @pytest.mark.parametrize("told", ["API Error: 529 overloaded", "Error: connection refused.", None])
    def test_a_failure_that_is_only_told_in_words_is_a_warning(self, told: str | None) -> None:
        story = foreign()
        story.reply(story.prompt("Hello"), messageId="u").user("u", "Hello").running()
        if told is None:
            story.update("notice", severity="error", title="The provider failed")
        else:
            story.says("a", told)
        assert (story.idle("end_turn").fails(self.rule), len(story.warns(self.rule))) == ([], 1)

    @pytest.mark.parametrize("said", ["Errors are values.", "The error was mended.", "Errands done."])
    def test_words_about_errors(self, said: str) -> None:
        story = foreign()
        story.reply(story.prompt("Hello"), messageId="u").user("u", "Hello").running().says("a", said)
        story.update("notice", severity="error", title="No telemetry")
        assert story.idle("end_turn").silent(self.rule)

    def test_a_reason_of_its_own(self) -> None:
        assert self.failed().idle("_overloaded").passes(self.rule)

    def test_a_retry_that_succeeds(self) -> None:
        assert failing(self.failed(), how="say", injected=False, number=2).idle("end_turn").silent(self.rule)

    def test_cancelled_meanwhile(self) -> None:
        assert self.failed().cancel().idle("cancelled").silent(self.rule)

    def test_the_process_exits(self) -> None:
        assert self.failed().control("exited", code=1, by_itself=True).silent(self.rule)


class TestErrorIdle:
    @pytest.mark.parametrize(
        "error", ["quota", 7, {"code": "x", "message": "y"}, {"code": 1}, [], {"code": True, "message": ""}]
    )
    def test_no_error_object(self, error: Any) -> None:
        story = foreign().running().idle("error", error=error)
        assert story.fails("prompt.error-object-shape") == ["error is no JSON-RPC error object"]
        assert story.fails("wire.valid-shape") == []

    @pytest.mark.parametrize(
        "error", [None, {"code": -32603, "message": "no"}, {"code": 1, "message": "", "data": [1]}]
    )
    def test_right_shapes(self, error: Any) -> None:
        assert foreign().running().idle("error", error=error).passes("prompt.error-object-shape")

    def test_details(self) -> None:
        assert foreign().running().idle("error").fails("prompt.error-details")
        assert foreign().running().idle("error", error={"code": 1, "message": "no"}).passes("prompt.error-details")
        assert foreign().running().idle("end_turn").silent("prompt.error-details")

    def test_only_on_error(self) -> None:
        rule = "prompt.error-only-on-error-stop"
        error = {"code": 1, "message": "no"}
        story = foreign().running().idle("end_turn", error=error)
        assert story.fails(rule) == ["error beside the stop reason 'end_turn'"]
        assert story.fails("wire.no-unknown-root-fields") == []
        assert foreign().running().idle("error", error=error).passes(rule)
        assert foreign().running().idle("end_turn", error=None).passes(rule)
        assert foreign().running().silent(rule)


class TestToolCallsFinished:
    rule = "prompt.tool-calls-finished-before-error-idle"

    def failed(self, *, status: str = "in_progress", **idle: Any) -> Story:
        story = foreign().running().update("tool_call_update", toolCallId="c", title="Look", status=status)
        return story.idle("error", **idle)

    def test_left_in_progress(self) -> None:
        assert self.failed().fails(self.rule) == ["the tool call 'c' was left in_progress"]

    def test_finished(self) -> None:
        assert self.failed(status="failed").passes(self.rule)

    @pytest.mark.parametrize(
        "item", [{"type": "tool_call", "toolCallId": "c"}, {"type": "terminal", "terminalId": "t"}]
    )
    def test_goes_on_in_the_background(self, item: Any) -> None:
        assert self.failed(background=[item]).silent(self.rule)

    def test_no_failure(self) -> None:
        story = foreign().running().update("tool_call_update", toolCallId="c", title="Look", status="in_progress")
        assert story.idle("end_turn").silent(self.rule)


class TestContentIsReported:
    rule = "prompt.content-is-reported"

    def reported(self, *chunks: str, nonce: str | None = "acp-1") -> Story:
        story = Story(driven=nonce is not None).begin()
        story.reply(story.prompt("Hello", nonce=nonce), messageId="u")
        for text in chunks:
            story.chunk("user_message", "u", text)
        return story.running().idle("end_turn")

    def test_doubled(self) -> None:
        assert self.reported("Hello acp-1", "Hello acp-1").fails(self.rule) == [
            "the message holds the prompt's text 2 times"
        ]
        assert self.reported("Hello", "Hello", nonce=None).fails(self.rule)

    def test_lost(self) -> None:
        assert self.reported("Hello").fails(self.rule) == ["the message does not hold the prompt's text"]

    @pytest.mark.parametrize(
        ("told", "fails"),
        [("Mend the parser", 1), ("Mend the parser and add tests", 0), ("<user>Mend the parser", 0)],
    )
    def test_cut_off(self, told: str, fails: int) -> None:
        story = foreign()
        story.reply(story.prompt("Mend the parser and add tests, please"), messageId="u").user("u", told)
        story.running().idle("end_turn")
        message = "the message holds no more than the beginning of the prompt's text"
        assert story.fails(self.rule) == [message] * fails

    def test_never_any_content(self) -> None:
        story = foreign()
        story.reply(story.prompt("Hello"), messageId="u").update("user_message", messageId="u").running()
        assert story.idle("end_turn").fails(self.rule) == ["the message was reported without any content"]

    def test_chunks_and_then_the_whole(self) -> None:
        story = Story().begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u").chunk("user_message", "u", "Hello acp-1")
        assert story.user("u", "Hello acp-1").running().idle("end_turn").passes(self.rule)

    def test_a_template_around_it(self) -> None:
        assert self.reported("<user>", "Hello acp-1", "</user>").passes(self.rule)
        assert self.reported("<user>Hello</user>", nonce=None).passes(self.rule)

    def test_not_over_yet(self) -> None:
        story = foreign()
        assert story.reply(story.prompt("Hello"), messageId="u").user("u", "Hello").running().silent(self.rule)


class TestConsolidatingChunk:
    rule = "prompt.no-consolidating-chunk"

    def test_the_whole_once_more(self) -> None:
        story = foreign().running().says("a", LONG[:20]).says("a", LONG[20:]).says("a", LONG)
        assert story.fails(self.rule) == ["a chunk repeats the whole message so far, so that a client shows it twice"]

    def test_a_whole_update_replaces(self) -> None:
        story = foreign().running().says("a", LONG[:20]).says("a", LONG[20:30]).says("a", LONG[30:])
        content = [{"type": "text", "text": LONG}]
        assert story.update("agent_message", messageId="a", content=content).passes(self.rule)

    def test_short_repetitions(self) -> None:
        assert foreign().running().says("a", "ha").says("a", "ha").says("a", "haha").passes(self.rule)

    def test_two_chunks_say_nothing(self) -> None:
        assert foreign().running().says("a", LONG).says("a", "!").silent(self.rule)


class TestBlocks:
    baseline, unsupported, advertised = (
        "prompt.baseline-content",
        "prompt.unsupported-block-rejected",
        "prompt.advertised-block-accepted",
    )
    text = {"type": "text", "text": "Look"}  # noqa: RUF012

    def able(self, **more: Any) -> Story:
        return Story(driven=False).begin(capabilities={"session": {"prompt": {"image": {}, **more}}})

    def test_a_link_is_refused(self) -> None:
        story = turn(foreign(), "Hello", "u")
        story.refuse(blocks(story, self.text, LINK), -32602)
        assert story.fails(self.baseline) == ["a resource_link in a prompt was refused with -32602"]

    def test_a_link_is_taken(self) -> None:
        story = foreign()
        assert story.reply(blocks(story, self.text, LINK), messageId="u").passes(self.baseline)

    @pytest.mark.parametrize("code", [-32603, -32000, -32002])
    def test_an_error_that_may_be_about_something_else(self, code: int) -> None:
        story = turn(foreign(), "Hello", "u")
        assert story.refuse(blocks(story, self.text, LINK), code).fails(self.baseline) == []

    def test_an_error_though_text_goes_before_and_after(self) -> None:
        story = turn(foreign(), "Hello", "u")
        assert turn(story.refuse(blocks(story, LINK), -32603), "Again", "u2").fails(self.baseline)

    def test_a_passing_failure_of_an_agent_that_takes_links(self) -> None:
        story = turn(foreign(), "Hello", "u")
        story.refuse(blocks(story, self.text, LINK), -32603, "quota exhausted").after(60)
        story.reply(blocks(story, self.text, LINK), messageId="u2").user("u2", "Look").running().idle("end_turn")
        assert turn(story, "Again", "u3").passes(self.baseline)

    def test_a_busy_agent_may_refuse_anything(self) -> None:
        story = turn(foreign(), "Hello", "u").running()
        assert story.refuse(blocks(story, self.text, LINK), -32602).fails(self.baseline) == []

    def test_no_link(self) -> None:
        assert turn(foreign(), "Hello", "u").silent(self.baseline)

    def test_unadvertised_and_taken(self) -> None:
        story = foreign()
        assert story.reply(blocks(story, PNG), messageId="u").fails(self.unsupported) == [
            "a block of type 'image' was accepted unadvertised"
        ]

    def test_unadvertised_and_refused_otherwise(self) -> None:
        story = foreign()
        assert story.refuse(blocks(story, PNG), -32603).fails(self.unsupported) == [
            "it was refused with -32603, not with -32602"
        ]
        busy = foreign().running()
        assert busy.refuse(blocks(busy, PNG), -32603).fails(self.unsupported) == []

    def test_unadvertised_and_refused(self) -> None:
        story = foreign()
        assert story.refuse(blocks(story, PNG), -32602).passes(self.unsupported)
        story = foreign()
        assert story.refuse(blocks(story, {"type": "hologram"}), -32602).passes(self.unsupported)

    def test_what_nobody_can_tell(self) -> None:
        story = foreign()
        assert story.reply(blocks(story, {"type": "_hologram"}), messageId="u").silent(self.unsupported)
        story = Story(driven=False).running()  # the initialize is not in the recording
        assert story.reply(blocks(story, PNG), messageId="u").silent(self.unsupported)
        story = self.able()
        assert story.reply(blocks(story, PNG), messageId="u").silent(self.unsupported)
        story = Story(driven=False).begin(capabilities={"session": {"prompt": {"image": True}}})
        assert story.reply(blocks(story, PNG), messageId="u").silent(self.unsupported)

    @pytest.mark.parametrize("marker", [None, False])
    def test_what_is_denied_is_not_advertised(self, marker: object) -> None:
        story = Story(driven=False).begin(capabilities={"session": {"prompt": {"image": marker}}})
        assert story.reply(blocks(story, PNG), messageId="u").fails(self.unsupported)

    def test_advertised_and_refused(self) -> None:
        story = self.able()
        assert story.refuse(blocks(story, PNG), -32602).fails(self.advertised) == [
            "a block of the advertised type 'image' was refused with -32602"
        ]

    def test_advertised_and_taken(self) -> None:
        story = self.able()
        assert story.reply(blocks(story, PNG), messageId="u").passes(self.advertised)

    @pytest.mark.parametrize("data", ["no base64!", "AAAA"])
    def test_a_picture_that_may_be_none(self, data: str) -> None:
        story = self.able()
        assert story.refuse(blocks(story, {**PNG, "data": data}), -32602).fails(self.advertised) == []

    def refusing(self, story: Story, code: int = -32602) -> Story:
        """A link, an image that is advertised or not, and text, all refused with the same code."""
        for content in (LINK, PNG):
            story.refuse(blocks(story, self.text, content), code, "unknown session")
        return story

    @pytest.mark.parametrize("capabilities", [None, {"session": {"prompt": {"image": {}}}}])
    def test_a_session_that_is_not_there(self, capabilities: Any) -> None:
        story = turn(Story(driven=False).begin(capabilities=capabilities), "Hello", "u")
        self.refusing(story.reply(story.request("session/close", {"sessionId": "s"})))
        assert [story.fails(rule) for rule in (self.baseline, self.unsupported, self.advertised)] == [[], [], []]
        code = -32602 if capabilities else -32603
        story = turn(Story().begin(capabilities=capabilities), "Hello", "u").control("cut").control("exited", code=0)
        story.initialize(at="bob", capabilities=capabilities)
        id = story.request("session/prompt", {"sessionId": "s", "prompt": [PNG]}, at="bob")
        story.refuse(id, code, at="bob")
        assert [story.fails(rule) for rule in (self.unsupported, self.advertised)] == [[], []]

    def test_a_session_that_was_closed_and_resumed(self) -> None:
        story = turn(self.able(), "Hello", "u")
        story.reply(story.request("session/close", {"sessionId": "s"}))
        story = self.refusing(story.idle().reply(story.resume()))
        assert story.fails(self.baseline)
        assert story.fails(self.advertised)

    def test_work_that_is_about_to_begin(self) -> None:
        story = self.able()
        first, second, third = story.prompt("One"), blocks(story, LINK), blocks(story, PNG)
        story.reply(first, messageId="u1").user("u1", "One").running().refuse(second, -32602, "busy")
        story.refuse(third, -32602, "busy").says("a", "x").idle("end_turn")
        assert [story.fails(rule) for rule in (self.baseline, self.advertised)] == [[], []]
        story = foreign()
        first, second = story.prompt("One"), blocks(story, PNG)
        story.reply(first, messageId="u1").user("u1", "One").running().refuse(second, -32600, "busy").idle("end_turn")
        assert story.fails(self.unsupported) == []
        assert len(story.warns(self.unsupported)) == 1

    def test_nothing_advertised(self) -> None:
        story = foreign()
        assert story.refuse(blocks(story, PNG), -32602).silent(self.advertised)


def test_a_response_at_the_end_is_proven_by_an_answer_to_another_request_meanwhile() -> None:
    story = Story().begin()
    first = story.prompt("Count", nonce="acp-1")
    story.user("u1", "Count acp-1").running().barrier().says("a1", "One").after(0.1).idle("end_turn")
    story.reply(first, messageId="u1")
    assert story.fails("prompt.success-without-waiting-for-work") == ["the response waited for the end of the work"]


def test_a_whole_turn_in_one_burst_before_the_response_is_suspicious_only() -> None:
    story = Story().begin()
    first = story.prompt("Count", nonce="acp-1")
    story.user("u1", "Count acp-1").running().says("a1", "One").idle("end_turn").reply(first, messageId="u1")
    assert story.fails("prompt.success-without-waiting-for-work") == []
    assert len(story.warns("prompt.success-without-waiting-for-work")) == 1


def test_a_queued_prompt_is_no_inserted_one_also_without_a_scripted_model() -> None:
    story = Story(hold_window=0.6).begin()
    story.reply(story.prompt("One", nonce="acp-1"), messageId="u1").user("u1", "One acp-1").running()
    story.reply(story.prompt("Two", nonce="acp-2"), messageId="u2").barrier()
    story.says("a1", "Word").after(0.7).idle("end_turn").user("u2", "Two acp-2").running().idle("end_turn")
    assert len(story.fails("prompt.no-success-before-insertion")) == 1


def test_a_prompt_that_is_reported_before_the_earlier_work_ends_was_inserted_into_it() -> None:
    story = Story(hold_window=0.6).begin()
    story.reply(story.prompt("One", nonce="acp-1"), messageId="u1").user("u1", "One acp-1").running()
    story.reply(story.prompt("Two", nonce="acp-2"), messageId="u2").barrier()
    story.says("a1", "Word").after(0.7).user("u2", "Two acp-2").idle("end_turn")
    assert story.fails("prompt.no-success-before-insertion") == []


def test_two_requests_answered_meanwhile_prove_it_of_a_quick_turn_too() -> None:
    story = Story().begin()
    first = story.prompt("Count", nonce="acp-1")
    story.user("u1", "Count acp-1").running().barrier().barrier().says("a1", "One").idle("end_turn")
    story.reply(first, messageId="u1")
    assert len(story.fails("prompt.success-without-waiting-for-work")) == 1


@pytest.mark.parametrize("is_reported", [True, False])
def test_success_after_a_cancel_that_found_the_prompt_behind_another_one(is_reported: bool) -> None:
    story = foreign()
    story.reply(story.prompt("First"), messageId="u1")
    if is_reported:
        story.user("u1", "First")
    second = story.running().says("a1", "At it. ").prompt("Second")
    story.after(1).cancel().reply(second, messageId="u2").idle("cancelled").after(2).barrier()
    assert story.fails("prompt.no-success-before-insertion") == [
        "the prompt was answered with success and then dropped by a cancel"
        if is_reported
        else "the prompt was answered with success while earlier work was open, and its message never appeared"
    ]


def test_a_message_that_is_reported_only_after_the_idle_of_work_within_which_the_prompt_was_answered() -> None:
    story = Story().begin()
    id = story.prompt("Hello", nonce="acp-1")
    story.running().says("a", "Hi").reply(id, messageId="u").idle("end_turn").after(1).user("u", "Hello acp-1")
    story.control("window", kind="quiet", session="s", began=len(story.recorder.history), seconds=1)
    assert story.fails("prompt.success-without-waiting-for-work") == []


def test_a_prompt_that_was_reported_in_earlier_work_and_then_failed_in_its_own() -> None:
    story = Story(model="openai-chat").begin()
    story.reply(story.prompt("First", nonce="acp-0"), messageId="u0").user("u0", "First acp-0").running()
    story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u").user("u", "Hello acp-1").says("a", "First.")
    failing(story.idle("end_turn").running()).idle("end_turn")
    assert story.fails("prompt.failure-ends-idle-error") == ["the failed work ended with end_turn instead of error"]


def test_a_prompt_to_a_session_that_nobody_opened_has_no_pieces() -> None:
    story = Story().begin()
    story.reply(story.prompt("Hello", nonce="acp-1", session="none"), messageId="u")
    assert story.silent("prompt.one-id-for-all-updates")


def test_a_link_is_refused_after_others_were_taken_and_one_failed() -> None:
    story = turn(foreign(), "Hello", "u")
    taken = blocks(story, LINK)
    story.reply(taken, messageId="u2").user("u2", "").running().says("a", "Read.").idle("end_turn")
    story.refuse(blocks(story, LINK), -32603, "quota exhausted").after(60)
    story.refuse(blocks(story, LINK), -32602)
    assert story.fails("prompt.baseline-content") == ["a resource_link in a prompt was refused with -32602"]


def test_a_refused_prompt_whose_message_comes_while_a_resume_is_pending() -> None:
    story = Story().begin()
    id = story.prompt("What is this?", nonce="acp-1", refusable="an image that was not advertised")
    resumed = story.resume()
    story.user("u", "What is this? acp-1").refuse(id, -32602).idle().reply(resumed)
    assert story.fails("prompt.rejected-is-error") == ["the prompt was refused, and its message reported all the same"]


def test_an_empty_prompt_that_is_taken_and_told_of_in_a_replay_only() -> None:
    story = foreign()
    story.reply(blocks(story), messageId="u").after(5)
    resumed = story.resume(replay=True)
    story.update("user_message", messageId="u", content=[]).idle().reply(resumed).after(2).barrier()
    assert story.passes("prompt.rejected-is-error")
