"""The rules about the session's state: when running and idle are owed, and what a snapshot is not."""

from typing import Any

import pytest

from tests.story import Story

CALL = {"type": "tool_call", "toolCallId": "c"}
TERMINAL = {"type": "terminal", "terminalId": "t"}


def foreign(**more: Any) -> Story:
    return Story(driven=False).begin(**more)


def accepted(story: Story, text: str = "Hello", message: str = "u") -> Story:
    return story.reply(story.prompt(text), messageId=message).user(message, text)


def tool(story: Story, status: str, id: str = "c", **more: Any) -> Story:
    return story.update("tool_call_update", toolCallId=id, title="Look", status=status, **more)


def ask(
    story: Story, *, id: Any = "p", call: str = "c", method: str = "session/request_permission", at: str = "ada"
) -> Story:
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
    subject = {"type": "tool_call", "toolCall": {"toolCallId": call, "title": "Look", "status": "pending"}}
    params = {"sessionId": "s", "title": "May I?", "subject": subject, "options": options}
    return story.asks(method, params, id=id, at=at)


def allow(story: Story, id: Any = "p") -> Story:
    return story.answer(id, outcome={"outcome": "selected", "optionId": "yes"})


def waits(story: Story) -> Story:
    return story.update("state_update", state="requires_action")


class TestRunning:
    rule = "state.running-when-work-starts"

    def test_a_turn_without_it(self) -> None:
        story = accepted(foreign()).says("a", "Hi").idle("end_turn")
        assert story.fails(self.rule) == ["work of a prompt began and ended, and running was never reported"]
        assert [event.seq for event, _ in story.outcome(self.rule).findings[0].because] == [4, 7, 8]

    def test_a_silent_turn_without_it(self) -> None:
        assert accepted(foreign()).idle("end_turn").fails(self.rule)

    def test_the_second_turn_without_it(self) -> None:
        story = accepted(foreign()).running().says("a", "Hi").idle("end_turn")
        story = accepted(story, "More", "u2").says("a2", "Hi").idle("end_turn")
        assert story.proof(self.rule) == [10, 13, 14]

    def test_the_second_turn_without_it_of_an_agent_with_news_of_its_own(self) -> None:
        story = accepted(foreign()).running().says("a", "Hi").idle("end_turn", background=[CALL])
        story = accepted(story, "More", "u2").says("a2", "Hi").idle("end_turn", background=[CALL])
        assert story.passes(self.rule)  # so far the idle may be a snapshot of the first one
        assert accepted(story, "And more", "u3").fails(self.rule)

    def test_the_turn_of_a_prompt_that_waited_without_it(self) -> None:
        story = foreign()
        waiting = [story.prompt(text) for text in ("One", "Two", "Three")]
        for number, text in enumerate(("One", "Two", "Three")):
            story.user(f"u{number}", text).reply(waiting[number], messageId=f"u{number}")
            if number != 1:
                story.running()
            story.says(f"a{number}", "Hi").idle("end_turn")
        assert story.fails(self.rule) == ["work of a prompt began and ended, and running was never reported"]

    def test_the_second_turn_of_tool_calls_only_without_it(self) -> None:
        story = accepted(foreign()).running().idle("end_turn")
        tool(accepted(story, "More", "u2"), "completed").idle("end_turn").after(2).barrier()
        assert story.fails(self.rule) == ["work of a prompt began and ended, and running was never reported"]

    def test_a_snapshot_before_a_waiting_prompt_is_inserted(self) -> None:
        story = tool(accepted(foreign()).running(), "in_progress").idle("end_turn", background=[CALL])
        more = story.prompt("More")
        tool(story.says("b", "By the way"), "completed").idle("end_turn", background=[]).user("u2", "More")
        story.reply(more, messageId="u2").running(background=[]).idle("end_turn", background=[]).after(2).barrier()
        assert story.passes(self.rule)

    def test_a_snapshot_before_work_that_two_prompts_share(self) -> None:
        story = accepted(foreign()).running().idle("end_turn", background=[])
        one, two = story.prompt("One"), story.prompt("Two")
        story.user("u1", "One").reply(one, messageId="u1").says("b", "By the way").idle("end_turn", background=[])
        story.running(background=[]).user("u2", "Two").reply(two, messageId="u2").idle("end_turn", background=[])
        assert story.after(2).barrier().passes(self.rule)

    def test_a_prompt_that_waited_while_another_ran_without_it(self) -> None:
        story = accepted(foreign()).running()
        waiting = story.prompt("More")
        story.says("a", "Hi").idle("end_turn").reply(waiting, messageId="u2").user("u2", "More")
        story = accepted(story.says("a2", "Hi").idle("end_turn"), "And more", "u3")
        assert story.fails(self.rule) == ["work of a prompt began and ended, and running was never reported"]

    def test_a_prompt_that_is_taken_into_the_work(self) -> None:
        story = accepted(foreign()).running()
        story.reply(story.prompt("More"), messageId="u2").user("u2", "More")
        story.says("a", "Hi").idle("end_turn").says("b", "By the way").idle("end_turn")
        assert accepted(story, "And more", "u3").passes(self.rule)

    def test_work_of_its_own_without_it(self) -> None:
        assert foreign().says("a", "Ready.").idle("end_turn").fails(self.rule)

    def test_no_state_at_all(self) -> None:
        story = accepted(foreign()).says("a", "Hi").after(2).barrier()
        assert story.fails(self.rule) == ["work of a prompt was done, and no state was ever reported"]
        assert accepted(foreign()).says("a", "Hi").barrier().fails(self.rule) == []

    def test_no_state_after_a_resume(self) -> None:
        story = Story(driven=False).initialize()
        resume = story.resume()
        accepted(story.idle("end_turn").reply(resume)).says("a", "Hi").after(2).barrier()
        assert story.fails(self.rule) == ["work of a prompt was done, and no state was ever reported"]

    def test_no_state_for_another_client(self) -> None:
        story = foreign().initialize(at="bob")
        resume = story.resume(at="bob")
        accepted(story.idle(at="bob").reply(resume, at="bob")).user("u", "Hello", at="bob").running()
        story.says("a", "Hi").says("a", "Hi", at="bob").idle("end_turn").after(2).barrier(at="bob")
        assert story.fails(self.rule) == ["work of a prompt was done, and no state was ever reported"]

    def test_two_messages_on_a_line(self) -> None:
        story = foreign()
        story.prompt("Hello")
        line = b'{"jsonrpc":"2.0","id":3,"result":{"messageId":"u"}}{"jsonrpc":"2.0","method":"session/update"}'
        assert story.agent(line).user("u", "Hello").says("a", "Hi").idle("end_turn").fails(self.rule) == []

    def test_an_idle_that_nothing_explains(self) -> None:
        assert foreign().idle("end_turn").warns(self.rule)

    def test_right(self) -> None:
        assert accepted(foreign()).running().says("a", "Hi").idle("end_turn").passes(self.rule)
        assert accepted(waits(foreign())).idle("end_turn").passes(self.rule)

    def test_before_insertion(self) -> None:
        assert accepted(foreign().running()).says("a", "Hi").idle("end_turn").passes(self.rule)

    def test_snapshots(self) -> None:
        story = accepted(foreign()).running().idle("end_turn").idle("end_turn").idle()
        assert story.after(60).update("usage_update", used=1, size=2).idle("end_turn").passes(self.rule)

    def test_a_snapshot_between_a_prompt_and_its_work(self) -> None:
        story = accepted(foreign()).running().says("a", "Hi").idle("end_turn", background=[])
        story = accepted(story, "More", "u2").says("b", "By the way: the build is green.")
        assert story.idle("end_turn", background=[]).running().idle("end_turn", background=[]).passes(self.rule)

    @pytest.mark.parametrize("told", [True, False])
    def test_a_snapshot_before_the_work_of_two_prompts(self, told: bool) -> None:
        story = accepted(foreign()).running().says("a", "Hi").idle("end_turn", background=[])
        story = accepted(story, "More", "u2").says("b", "By the way").idle("end_turn", background=[])
        third = story.prompt("Third")
        if told:
            story.running(background=[]).says("c", "More.").idle("end_turn", background=[])
        story.reply(third, messageId="u3").user("u3", "Third").running(background=[]).idle("end_turn", background=[])
        assert bool(story.fails(self.rule)) is not told

    def test_the_first_idle_after_a_resume(self) -> None:
        story = Story(driven=False).initialize()
        story.reply(story.resume()).idle("end_turn")
        assert story.fails(self.rule) == story.warns(self.rule) == []

    def test_a_recording_that_begins_in_the_middle(self) -> None:
        assert Story(driven=False).says("a", "so on.").idle("end_turn").fails(self.rule) == []

    def test_background_updates(self) -> None:
        story = tool(accepted(foreign()).running(), "in_progress").idle("end_turn", background=[CALL]).after(60)
        assert tool(story, "completed").idle("end_turn", background=[]).passes(self.rule)

    def test_nothing_happened(self) -> None:
        assert foreign().silent(self.rule)

    def test_a_prompt_that_was_stopped_before_it_began_across_a_resume(self) -> None:
        story = Story().begin()
        first, resumed = story.prompt("Hello", nonce="acp-1"), story.resume()
        story.user("u1", "Hello acp-1").reply(first, messageId="u1").idle().reply(resumed).cancel()
        later = story.prompt("Again", nonce="acp-2")
        story.idle("cancelled").user("u2", "Again acp-2").reply(later, messageId="u2").running().idle("end_turn")
        assert story.fails("state.running-when-work-starts") == []

    @pytest.mark.parametrize(("before", "fails"), [(0.2, 1), (0.01, 0)])
    def test_a_stop_after_the_model_was_asked(self, before: float, fails: int) -> None:
        story = Story().begin()
        first = story.prompt("Hello", nonce="acp-1")
        story.user("u1", "Hello acp-1").reply(first, messageId="u1")
        story.control("model-request", number=1, nonce="acp-1", last_user=True).control("model-held", number=1)
        story.after(before).cancel().idle("cancelled")
        assert len(story.fails("state.running-when-work-starts")) == fails

    @pytest.mark.parametrize(
        ("held", "state", "fails"), [(True, None, 1), (False, None, 0), (True, "_thinking", 0), (True, "running", 0)]
    )
    def test_no_running_while_the_model_is_held(self, held: bool, state: str | None, fails: int) -> None:
        story = Story().begin()
        first = story.prompt("Hello", nonce="acp-1")
        story.user("u1", "Hello acp-1").reply(first, messageId="u1")
        story.control("model-request", number=1, nonce="acp-1", last_user=True)
        story.control("model-held" if held else "model-answered", number=1)
        if state is not None:
            story.update("state_update", state=state)
        story.after(15).control("waited", **{"for": "state", "session": "s", "seconds": 15})
        assert len(story.fails("state.running-when-work-starts")) == fails

    @pytest.mark.parametrize(
        ("first", "second", "between", "fails"),
        [
            ("cancelled", "end_turn", "nothing", 1),
            ("cancelled", "cancelled", "nothing", 0),
            ("cancelled", "error", "nothing", 0),
            ("end_turn", "cancelled", "a cancel", 0),
            ("cancelled", "end_turn", "a prompt", 0),
            ("cancelled", "end_turn", "another client", 0),
        ],
    )
    def test_an_end_that_is_told_twice(self, first: str, second: str, between: str, fails: int) -> None:
        story = Story().begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u1").running().cancel().idle(first)
        if between == "a cancel":
            story.cancel()
        elif between == "a prompt":
            story.prompt("More", nonce="acp-2")
        elif between == "another client":
            story.initialize(at="bob").idle(at="bob").reply(story.resume(at="bob"), at="bob")
        assert len(story.idle(second).fails("state.running-when-work-starts")) == fails

    @pytest.mark.parametrize(("reason", "fails"), [("cancelled", 0), ("refusal", 1)])
    def test_a_command_that_was_stopped_and_a_prompt_that_came_after_the_stop(self, reason: str, fails: int) -> None:
        story = Story(triggers={"retained-command": "/remember"}).begin()
        command = story.prompt("/remember", trigger="retained-command")
        story.user("u1", "/remember").reply(command, messageId="u1").cancel()
        later = story.prompt("Hello", nonce="acp-2")
        story.idle(reason).user("u2", "Hello acp-2").reply(later, messageId="u2").running().idle("end_turn")
        assert len(story.fails("state.running-when-work-starts")) == fails


class TestIdle:
    rule = "state.idle-when-work-ends"

    def test_a_silence_that_the_next_prompt_broke_is_the_users(self) -> None:
        story = foreign()
        story.reply(story.prompt("One"), messageId="u1").user("u1", "One").running().says("a", "Done.").after(45)
        story.reply(story.prompt("Two"), messageId="u2").user("u2", "Two").says("b", "Done.").after(60)
        assert story.barrier().fails(self.rule) == ["work came to its end and was never reported as idle"]

    def test_a_cancel_long_after_the_last_word_has_a_rule_of_its_own(self) -> None:
        story = accepted(foreign()).running().says("a", "Blue.").after(45).cancel().after(60).barrier()
        assert (story.fails(self.rule), len(story.fails("cancel.ends-idle-cancelled"))) == ([], 1)

    def test_work_of_which_nothing_comes_is_a_warning(self) -> None:
        story = Story().begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u").user("u", "Hello acp-1").running()
        story.control("waited", **{"for": "idle", "session": "s", "seconds": 15})
        assert (story.fails(self.rule), len(story.warns(self.rule))) == ([], 1)

    def test_a_silence_of_its_own(self) -> None:
        story = foreign()
        story.reply(story.prompt("One"), messageId="u1").user("u1", "One").running().says("a", "So ").after(45)
        assert story.says("a", "far").after(60).barrier().fails(self.rule) == []

    def test_never_in_a_recording(self) -> None:
        story = accepted(foreign()).running().says("a", "Blue.").after(60).barrier()
        assert story.fails(self.rule) == ["work came to its end and was never reported as idle"]

    def test_running_that_only_a_resume_told(self) -> None:
        """Nothing is at work: replay.state-snapshot is about that."""
        story = Story(model="openai-chat").begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u").user("u", "Hello acp-1").running()
        story.control("model-request", at="", number=1, nonce="acp-1", last_user=True)
        story.control("model-answered", at="", number=1, how="say").idle("end_turn").initialize(at="bob")
        resumed = story.resume(at="bob")
        story.running(at="bob").reply(resumed, at="bob")
        story.control("waited", at="bob", **{"for": "idle", "session": "s", "seconds": 15})
        assert story.fails(self.rule) == []

    @pytest.mark.parametrize(("own", "fails"), [(True, 1), (False, 0)])
    def test_a_model_that_is_heard_sooner_than_the_agent(self, own: bool, fails: int) -> None:
        story = Story(model="openai-chat").begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u").user("u", "Hello acp-1")
        story.control("model-request", at="", number=1, nonce="acp-1" if own else None, last_user=True)
        story.control("model-answered", at="", number=1, how="say").running()
        story.control("waited", **{"for": "idle", "session": "s", "seconds": 15})
        assert len(story.fails(self.rule)) == fails

    def test_never_when_driven(self) -> None:
        assert self.answered().control("waited", **{"for": "idle", "session": "s", "seconds": 15}).fails(self.rule)

    def answered(self, how: str = "say") -> Story:
        story = Story(model="openai-chat").begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u").user("u", "Hello acp-1").running()
        story.control("model-request", at="", number=1, nonce="acp-1", group="chat", last_user=True)
        return story.control("model-answered", at="", number=1, how=how, status=200, injected=False).says("a", "Blue.")

    def test_a_tool_call_is_still_to_come(self) -> None:
        story = self.answered("call-tool").control("waited", **{"for": "idle", "session": "s", "seconds": 15})
        assert story.passes(self.rule)

    def test_the_model_was_asked_by_another_session_meanwhile(self) -> None:
        story = self.answered("call-tool")
        story.reply(story.request("session/new", {"cwd": "/w"}), sessionId="t")
        story.reply(story.prompt("Two", nonce="acp-2", session="t"), messageId="v").running(session="t")
        story.control("model-request", at="", number=2, nonce="acp-2", group="t", last_user=True)
        story.control("model-answered", at="", number=2, how="say", status=200, injected=False)
        story.idle("end_turn", session="t").control("waited", **{"for": "idle", "session": "s", "seconds": 15})
        assert story.passes(self.rule)

    @pytest.mark.parametrize("seconds", [31, 600])
    def test_a_tool_takes_its_time(self, seconds: float) -> None:
        story = tool(accepted(foreign()).running().says("a", "They take long."), "in_progress")
        assert story.after(seconds).barrier().passes(self.rule)

    def test_the_model_takes_its_time(self) -> None:
        assert accepted(foreign()).running().after(100).barrier().passes(self.rule)
        story = tool(tool(accepted(foreign()).running(), "in_progress"), "completed")
        assert story.after(100).barrier().passes(self.rule)

    def test_the_client_is_asked(self) -> None:
        story = ask(accepted(foreign()).running().says("a", "May I?"))
        assert story.after(100).barrier().passes(self.rule)

    def test_a_cancel_has_a_rule_of_its_own(self) -> None:
        assert accepted(foreign()).running().says("a", "Hm").after(1).cancel().after(100).barrier().passes(self.rule)

    def test_the_connection_ended(self) -> None:
        assert self.answered().control("exited", code=1, by_itself=True).passes(self.rule)

    def test_the_recording_ends(self) -> None:
        assert accepted(foreign()).running().says("a", "Blue.").passes(self.rule)

    def test_no_work(self) -> None:
        assert foreign().silent(self.rule)


class TestStopReason:
    rule = "state.stop-reason-at-end"

    def test_none(self) -> None:
        assert foreign().running().idle().fails(self.rule) == ["the work ended without a stop reason"]
        assert foreign().running().update("state_update", state="idle", stopReason=None).fails(self.rule)

    def test_one(self) -> None:
        assert foreign().running().idle("_bored").passes(self.rule)

    def test_a_snapshot_in_a_resume(self) -> None:
        story = foreign().running()
        id = story.resume()
        assert story.idle().reply(id).silent(self.rule)

    def test_still_at_work(self) -> None:
        assert foreign().running().silent(self.rule)


class TestLeavesRequiresAction:
    rule = "state.leaves-requires-action"

    def answered(self) -> Story:
        return allow(waits(ask(accepted(foreign()).running())))

    def test_words(self) -> None:
        story = self.answered().says("a", "Done.").idle("end_turn")
        assert story.fails(self.rule) == ["the work went on, and running was not reported"]

    def test_last_words_of_what_was_stopped_before_it_asked(self) -> None:
        story = foreign()
        id = story.prompt("Hello")
        story.cancel().user("u", "Hello").reply(id, messageId="u").running()
        story = allow(waits(ask(story)))
        assert story.says("a", "(interrupted)").idle("cancelled").fails(self.rule) == []

    def test_last_words_that_an_earlier_stop_does_not_explain(self) -> None:
        story = allow(waits(ask(accepted(foreign().cancel()).running())))
        assert story.says("a", "(interrupted)").idle("cancelled").fails(self.rule)

    def test_a_tool_call(self) -> None:
        assert tool(self.answered(), "in_progress").after(1).running().fails(self.rule)
        assert tool(self.answered(), "in_progress").running().fails(self.rule) == []

    def test_nothing(self) -> None:
        assert self.answered().after(40).barrier().fails(self.rule) == ["neither running nor idle followed the answer"]

    def test_last_words_of_what_a_client_stopped_where_the_history_breaks_off(self) -> None:
        story = allow(waits(ask(accepted(foreign()).running())).cancel()).says("a", "Stopped.")
        assert story.fails(self.rule) == []
        assert self.answered().says("a", "Done.").fails(self.rule)

    def test_nothing_after_an_answer_that_may_not_be_what_it_waits_for(self) -> None:
        story = waits(accepted(foreign()).running()).asks("_vendor/x", {"sessionId": "s"}, id="x").answer("x", ok=True)
        assert story.after(40).barrier().fails(self.rule) == []

    @pytest.mark.parametrize("answered", [True, False])
    def test_nothing_while_another_client_is_asked(self, answered: bool) -> None:
        story = accepted(Story().begin()).running().initialize(at="bob")
        story.running(at="bob").reply(story.resume(at="bob"), at="bob")
        waits(ask(ask(story), id="q", at="bob"))
        story.update("state_update", state="requires_action", at="bob")
        story.client({"jsonrpc": "2.0", "id": "p", "error": {"code": -32601, "message": "no"}})
        if answered:
            story.answer("q", at="bob", outcome={"outcome": "selected", "optionId": "yes"})
        story.control("waited", **{"for": "idle", "session": "s", "seconds": 15})
        assert story.fails(self.rule) == (["neither running nor idle followed the answer"] if answered else [])

    def test_words_before_something_else_is_asked(self) -> None:
        story = allow(ask(waits(accepted(foreign()).running()))).after(1).says("a", "Next").after(1)
        waits(ask(story, id="q", call="d"))
        assert allow(story, "q").running().idle("end_turn").fails(self.rule) == [
            "the work went on, and running was not reported"
        ]

    def test_words_in_one_burst_with_the_next_question(self) -> None:
        story = allow(ask(waits(accepted(foreign()).running()))).says("a", "Next")
        waits(ask(story, id="q", call="d"))
        assert allow(story, "q").running().idle("end_turn").warns(self.rule)

    def test_asked_again_at_once(self) -> None:
        story = ask(allow(ask(waits(accepted(foreign()).running()))), id="q", call="d")
        assert allow(story, "q").running().says("a", "Done").idle("end_turn").passes(self.rule)

    def test_a_client_that_another_one_answers_for(self) -> None:
        story = foreign().initialize(at="bob")
        resume = story.resume(at="bob")
        story.idle(at="bob").reply(resume, at="bob")
        ask(accepted(story).running().running(at="bob"))
        allow(waits(story).update("state_update", state="requires_action", at="bob")).running().says("a", "Hi")
        assert story.says("a", "Hi", at="bob").fails(self.rule) == ["the work went on, and running was not reported"]

    @pytest.mark.parametrize("after", ["running", "idle"])
    def test_right(self, after: str) -> None:
        story = self.answered()
        assert (story.running().says("a", "Done.") if after == "running" else story.idle("end_turn")).passes(self.rule)

    def test_a_final_status_before_the_idle(self) -> None:
        assert tool(self.answered(), "failed").idle("end_turn").passes(self.rule)

    def test_one_of_two_is_answered(self) -> None:
        story = allow(waits(ask(ask(accepted(foreign()).running(), id="q", call="d"))))
        assert story.after(60).barrier().silent(self.rule)

    def test_a_page_that_the_user_still_has_to_deal_with(self) -> None:
        story = waits(
            accepted(foreign()).running().asks("elicitation/create", {"mode": "url", "sessionId": "s"}, id="p")
        )
        assert story.answer("p", action="accept").after(300).barrier().passes(self.rule)

    def test_cancelled(self) -> None:
        assert self.answered().cancel().after(40).barrier().fails(self.rule) == []

    def test_never_answered(self) -> None:
        assert waits(ask(accepted(foreign()).running())).after(90).barrier().silent(self.rule)

    def test_background_work_goes_on(self) -> None:
        story = tool(foreign().running(), "in_progress", "bg").idle("end_turn", background=[])
        story = tool(allow(waits(ask(accepted(story).running()))), "in_progress", "bg")
        assert story.running().passes(self.rule)


class TestRequiresAction:
    rule = "state.requires-action-when-blocked"

    def test_still_running(self) -> None:
        story = ask(accepted(foreign()).running()).after(3)
        assert allow(story).fails(self.rule) == ["all work waited for the user, and the state was still running"]

    def test_in_a_hold_window(self) -> None:
        story = ask(Story().begin().running())
        story.control("window", kind="hold", session="s", began=len(story.recorder.history), seconds=2)
        assert story.fails(self.rule)

    def test_told(self) -> None:
        assert allow(waits(ask(accepted(foreign()).running())).after(3)).passes(self.rule)

    def test_answered_at_once(self) -> None:
        assert allow(ask(accepted(foreign()).running())).silent(self.rule)

    def test_other_work_goes_on(self) -> None:
        assert allow(ask(accepted(foreign()).running()).says("a", "Meanwhile").after(3)).silent(self.rule)
        story = ask(tool(accepted(foreign()).running(), "in_progress", "other")).after(3)
        assert allow(story).silent(self.rule)

    def test_background_work_asks(self) -> None:
        story = tool(foreign().running(), "in_progress").idle("end_turn").running()
        assert allow(ask(story).after(3)).silent(self.rule)
        assert allow(ask(foreign()).after(3)).silent(self.rule)


class TestStandardStates:
    rule = "state.standard-states"

    def custom(self, story: Story) -> Story:
        return story.update("state_update", state="_pondering")

    def test_instead_of_running(self) -> None:
        story = self.custom(accepted(foreign())).says("a", "Hi").idle("end_turn")
        assert story.fails(self.rule) == ["work went on under the state '_pondering' alone"]
        assert story.fails("state.running-when-work-starts") == []

    def test_instead_of_idle(self) -> None:
        story = self.custom(accepted(foreign()).running().says("a", "Hi")).after(60).barrier()
        assert story.fails(self.rule) == ["work ended with the state '_pondering' alone"]
        assert story.fails("state.idle-when-work-ends") == []
        driven = Story().begin()
        driven.reply(driven.prompt("Hello", nonce="acp-1"), messageId="u").user("u", "Hello acp-1").running()
        driven = self.custom(driven.says("a", "Hi")).control("waited", **{"for": "idle", "session": "s", "seconds": 15})
        assert driven.fails(self.rule) == ["work ended with the state '_pondering' alone"]

    def test_it_may_still_be_at_work(self) -> None:
        story = tool(accepted(foreign()).running().says("a", "Hi"), "in_progress")
        assert self.custom(story).after(60).barrier().passes(self.rule)

    def test_beside_them(self) -> None:
        story = self.custom(accepted(self.custom(foreign())).running())
        assert self.custom(story.says("a", "Hi").idle("end_turn")).after(60).barrier().passes(self.rule)

    def test_a_client_that_knows_it(self) -> None:
        story = self.custom(accepted(foreign(client={"_pondering": {}}))).says("a", "Hi").idle("end_turn")
        assert story.fails(self.rule) == []

    def test_no_state(self) -> None:
        assert foreign().silent(self.rule)


class TestIdleAfterUpdates:
    rule = "state.idle-after-its-updates"

    def test_late_words(self) -> None:
        story = foreign().running().says("a", "One, ").idle("end_turn").says("a", "two.")
        assert story.fails(self.rule) == ["output of the work came after the idle that ended it"]

    @pytest.mark.parametrize("kind", ["usage_update", "session_info_update", "agent_message", "tool_call_update"])
    def test_what_may_come(self, kind: str) -> None:
        story = tool(foreign().running().says("a", "One."), "in_progress").idle("end_turn")
        assert story.update(kind, messageId="new", toolCallId="c", title="t", status="completed").passes(self.rule)

    def test_words_of_the_next_work(self) -> None:
        assert foreign().running().says("a", "1").idle("end_turn").running().says("a", "2").passes(self.rule)

    def test_cancelled_work_has_a_rule_of_its_own(self) -> None:
        assert foreign().running().says("a", "1").cancel().idle("cancelled").says("a", "2").silent(self.rule)

    def test_a_replay(self) -> None:
        story = foreign().running().says("a", "1").idle("end_turn")
        id = story.resume(replay=True)
        assert story.says("a", "1").idle().reply(id).passes(self.rule)

    def test_a_replay_that_comes_too_late_has_a_rule_of_its_own(self) -> None:
        story = foreign().running().says("a", "1").idle("end_turn")
        id = story.resume(replay=True)
        story.idle().reply(id).update("agent_message", messageId="a", content=[{"type": "text", "text": "1"}])
        assert (story.fails(self.rule), len(story.fails("replay.before-response"))) == ([], 1)

    def test_late_words_after_a_resume_that_replays_nothing(self) -> None:
        story = foreign().running().says("a", "1").idle("end_turn")
        id = story.resume()
        assert story.idle("end_turn").reply(id).says("a", "2").fails(self.rule)


class TestBackgroundFailure:
    rule = "state.background-failure-is-not-a-stop"

    def test_told_as_a_stop(self) -> None:
        story = foreign().running().idle("end_turn").after(30).idle("error")
        assert story.fails(self.rule) == ["an idle session was told to have stopped with an error"]
        assert story.fails("state.running-when-work-starts") == []

    def test_a_snapshot_of_an_error(self) -> None:
        assert foreign().running().idle("error").idle("error").idle().idle("error").passes(self.rule)

    def test_a_refused_prompt(self) -> None:
        story = foreign().running().idle("end_turn")
        assert story.refuse(story.prompt("Hello"), -32603).idle("error").passes(self.rule)

    def test_work_that_failed(self) -> None:
        assert foreign().running().idle("end_turn").running().idle("error").silent(self.rule)

    def test_a_session_with_a_past(self) -> None:
        story = Story(driven=False).initialize()
        id = story.resume()
        story.idle().reply(id).idle("error")
        assert (story.fails(self.rule), len(story.warns(self.rule))) == ([], 1)

    def test_one_idle(self) -> None:
        assert foreign().running().idle("error").silent(self.rule)


class TestBackgroundAnnounced:
    rule = "state.background-announced"

    def listed(self, *items: Any) -> Story:
        return tool(foreign().running(background=[]), "in_progress").idle("end_turn", background=list(items))

    def test_never_announced(self) -> None:
        assert self.listed({**CALL, "toolCallId": "x"}).fails(self.rule) == [
            "the tool_call 'x' is listed as background work and was never announced"
        ]

    def test_announced_too_late(self) -> None:
        story = self.listed(TERMINAL).update("terminal_update", terminalId="t", command="serve")
        assert story.fails(self.rule)

    def test_dropped_unfinished(self) -> None:
        assert self.listed(CALL).idle(background=[]).fails(self.rule) == [
            "the tool_call 'c' is dropped from the background list unfinished"
        ]

    def test_finished_and_dropped(self) -> None:
        assert tool(self.listed(CALL), "completed").idle(background=[]).passes(self.rule)

    def test_a_terminal(self) -> None:
        story = foreign().running(background=[]).update("terminal_update", terminalId="t", command="serve")
        story.idle("end_turn", background=[TERMINAL])
        story.update("terminal_update", terminalId="t", exitStatus={"exitCode": 0})
        assert story.idle(background=[]).passes(self.rule)

    def test_a_resume_begins_afresh(self) -> None:
        story = self.listed(CALL)
        id = story.resume()
        assert story.idle(background=[]).reply(id).passes(self.rule)

    def test_what_was_there_before_we_came(self) -> None:
        story = Story(driven=False).initialize()
        id = story.resume()
        assert story.idle(background=[CALL]).reply(id).passes(self.rule)

    def test_items_of_another_type(self) -> None:
        assert self.listed({"type": "_cron", "id": 1}).idle(background=[]).fails(self.rule) == []

    def test_nothing_listed(self) -> None:
        assert foreign().running().idle("end_turn").silent(self.rule)


class TestBackgroundOnEveryUpdate:
    rule = "state.background-on-every-update"

    @pytest.mark.parametrize("more", [{}, {"background": None}])
    def test_left_out(self, more: Any) -> None:
        story = foreign().running(background=[]).idle("end_turn", **more)
        assert story.fails(self.rule) == ["a state update without the background list"]

    def test_on_every_one(self) -> None:
        assert foreign().running().idle("end_turn", background=[]).running(background=[]).passes(self.rule)

    def test_a_state_of_its_own(self) -> None:
        story = foreign().running(background=[]).update("state_update", state="_pondering")
        assert story.idle("end_turn", background=[]).passes(self.rule)

    @pytest.mark.parametrize("is_closed", [True, False])
    def test_a_close_begins_afresh_and_a_resume_does_not(self, is_closed: bool) -> None:
        story = foreign().running(background=[])
        if is_closed:
            story.idle("cancelled", background=[]).reply(story.request("session/close", {"sessionId": "s"}))
        id = story.resume()
        assert bool(story.running().reply(id).fails(self.rule)) is not is_closed

    def test_never(self) -> None:
        assert foreign().running().idle("end_turn").silent(self.rule)


class TestBackgroundListIsComplete:
    rule = "state.background-list-is-complete"

    def test_a_call_whose_end_a_replay_tells_after_the_idle(self) -> None:
        story = tool(accepted(foreign()).running(background=[]), "pending")
        resumed = story.resume(replay=True)
        story.idle("end_turn", background=[])
        assert tool(story, "failed").idle("end_turn", background=[]).reply(resumed).fails(self.rule) == []

    def ended(self, *items: Any, reason: str = "end_turn", status: str = "in_progress") -> Story:
        story = foreign().running(background=[]).says("a", "Well")
        return tool(story, status).idle(reason, background=list(items))

    def test_a_tool_call_goes_on(self) -> None:
        assert tool(self.ended(), "completed").fails(self.rule) == ["the tool call 'c' goes on and was not listed"]

    def test_a_tool_call_of_earlier_work_goes_on(self) -> None:
        story = self.ended(CALL).running(background=[CALL]).idle("end_turn", background=[])
        assert tool(story, "completed").fails(self.rule) == ["the tool call 'c' goes on and was not listed"]

    def test_a_forgotten_tool_call_of_earlier_work_is_closed(self) -> None:
        story = self.ended(CALL).running(background=[CALL]).idle("end_turn", background=[])
        assert tool(story, "failed").fails(self.rule) == []

    def test_a_tool_call_stays(self) -> None:
        assert self.ended().after(2).barrier().fails(self.rule) == [
            "the tool call 'c' is left in progress and was not listed"
        ]

    def test_words_go_on(self) -> None:
        story = self.ended(status="completed").says("a", ", now")
        assert story.fails(self.rule) == ["the list says that nothing goes on, and output does"]

    def test_a_terminal_goes_on(self) -> None:
        story = foreign().running(background=[]).update("terminal_update", terminalId="t", command="serve")
        story.idle("end_turn", background=[]).update("terminal_output_chunk", terminalId="t", data="aGk=")
        assert story.fails(self.rule) == ["the terminal 't' goes on and was not listed"]

    @pytest.mark.parametrize(
        ("kind", "more", "fails"),
        [
            ("terminal_output_chunk", {"data": "aGk="}, 1),
            ("terminal_update", {"exitStatus": {"exitCode": 1}}, 0),  # it may have been forgotten
        ],
    )
    def test_a_terminal_of_earlier_work(self, kind: str, more: dict[str, Any], fails: int) -> None:
        story = foreign().running(background=[]).update("terminal_update", terminalId="t", command="serve")
        story.idle("end_turn", background=[TERMINAL]).running(background=[TERMINAL]).idle("end_turn", background=[])
        assert len(story.update(kind, terminalId="t", **more).fails(self.rule)) == fails

    def test_listed(self) -> None:
        assert tool(self.ended(CALL), "completed").after(2).barrier().passes(self.rule)

    def test_its_process_is_listed(self) -> None:
        assert tool(self.ended(TERMINAL), "completed").after(2).barrier().passes(self.rule)

    def test_finished_before(self) -> None:
        assert self.ended(status="completed").after(2).barrier().passes(self.rule)

    def test_a_note_on_a_finished_message(self) -> None:
        story = self.ended(status="completed")
        assert story.update("agent_message", messageId="a", _meta={"tokens": 3}).passes(self.rule)

    @pytest.mark.parametrize("shown", ["t", "another"])
    def test_its_tool_call_is_listed(self, shown: str) -> None:
        story = foreign().running(background=[]).update("terminal_update", terminalId="t", command="serve")
        tool(story, "in_progress", content=[{"type": "terminal", "terminalId": shown}])
        story.idle("end_turn", background=[CALL]).update("terminal_output_chunk", terminalId="t", data="aGk=")
        assert bool(story.fails(self.rule)) is (shown != "t")

    def test_an_item_that_nobody_knows(self) -> None:
        assert tool(self.ended({"type": "_cron"}), "completed").passes(self.rule)

    def test_cancelled_or_failed(self) -> None:
        story = foreign().running(background=[])
        story = tool(tool(story, "in_progress").cancel().idle("cancelled", background=[]), "cancelled")
        assert story.passes(self.rule)
        assert self.ended(reason="error").after(2).barrier().passes(self.rule)

    def test_no_list(self) -> None:
        assert tool(foreign().running(), "in_progress").idle("end_turn").silent(self.rule)


def test_a_call_of_earlier_work_that_ends_is_no_sign_of_the_next_prompts_work() -> None:
    story = Story().begin()
    story.reply(story.prompt("One", nonce="acp-1"), messageId="u1").user("u1", "One acp-1").running()
    tool(story, "in_progress").idle("end_turn")
    story.reply(story.prompt("Two", nonce="acp-2"), messageId="u2").user("u2", "Two acp-2")
    tool(story, "completed").idle("end_turn")
    story.control("window", kind="quiet", session="s", began=len(story.recorder.history), seconds=1)
    assert story.fails("state.running-when-work-starts") == []


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_model_that_answered_before_the_patience_ran_out_is_not_held(is_answered: bool) -> None:
    story = Story(model="openai-chat").begin()
    story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u").user("u", "Hello acp-1")
    story.control("model-request", at="", number=1, nonce="acp-1", last_user=True)
    story.control("model-held", at="", number=1)
    if is_answered:
        story.control("model-answered", at="", number=1, how="text")
    story.control("waited", **{"for": "idle", "session": "s", "seconds": 15})
    assert bool(story.fails("state.running-when-work-starts")) is not is_answered


def test_output_between_the_prompt_and_its_acceptance_and_then_an_error_without_running() -> None:
    story = foreign()
    id = story.prompt("Hello")
    story.says("a", "Hi").reply(id, messageId="u").user("u", "Hello").idle("error")
    assert story.fails("state.running-when-work-starts") == [
        "work of a prompt began and ended, and running was never reported"
    ]


def test_a_message_that_another_client_knows_by_its_id_and_output_without_any_state() -> None:
    story = foreign().initialize(at="bob")
    joined = story.resume(at="bob")
    story.idle(at="bob").reply(joined, at="bob").after(5)
    story.reply(story.prompt("/tidy"), messageId="u").user("u", "Tidy up all files", at="bob").says("a", "Ok", at="bob")
    story.after(2).barrier(at="bob")
    assert story.fails("state.running-when-work-starts") == [
        "work of a prompt was done, and no state was ever reported"
    ]


def test_output_while_something_more_is_asked_of_the_user() -> None:
    story = allow(waits(ask(accepted(foreign()).running())))
    story = ask(story, id="q", call="d").says("a", "One more thing.")
    assert allow(story.after(1), "q").running().idle("end_turn").passes("state.leaves-requires-action")


@pytest.mark.parametrize("begins", [True, False])
def test_a_permission_that_no_open_work_waits_for(begins: bool) -> None:
    """Asked by what runs in the background before the work, or still asked when the work has ended."""
    story = ask(Story().begin()).running() if begins else ask(Story().begin().running()).idle("end_turn")
    story.control("window", kind="hold", session="s", began=len(story.recorder.history), seconds=2)
    assert story.silent("state.requires-action-when-blocked")


@pytest.mark.parametrize(("reason", "fails"), [(None, 0), ("end_turn", 1)])
def test_the_list_of_a_snapshot_is_judged_where_it_says_that_the_work_ended(reason: str | None, fails: int) -> None:
    story = tool(accepted(foreign()).running(background=[]), "in_progress")
    resumed = story.resume()
    story.idle(reason, background=[]).reply(resumed)
    assert len(tool(story, "completed").fails("state.background-list-is-complete")) == fails


def test_output_of_later_work_is_none_of_a_custom_state_that_ended_before() -> None:
    story = accepted(foreign()).update("state_update", state="_pondering").idle()
    accepted(story, "More", "u2").running().says("a", "Hi").idle("end_turn")
    assert "work went on under the state '_pondering' alone" not in story.fails("state.standard-states")


@pytest.mark.parametrize("is_new", [True, False])
def test_a_failure_in_the_background_of_a_session_that_never_worked_or_was_joined(is_new: bool) -> None:
    if is_new:
        story = foreign().idle()
    else:
        story = Story(driven=False).initialize()
        joined = story.resume()
        story.idle().reply(joined).running().idle("end_turn")
    assert story.after(30).idle("error").fails("state.background-failure-is-not-a-stop") == [
        "an idle session was told to have stopped with an error"
    ]
