"""The session's state, closer: which events prove each fault, and what is near a fault and none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.story import Story
from tests.test_rules_state import CALL, TERMINAL, accepted, allow, ask, foreign, tool, waits

RUNNING = "state.running-when-work-starts"
IDLE = "state.idle-when-work-ends"
LEAVES = "state.leaves-requires-action"
BLOCKED = "state.requires-action-when-blocked"
STANDARD = "state.standard-states"
AFTER = "state.idle-after-its-updates"
FAILURE = "state.background-failure-is-not-a-stop"
ANNOUNCED = "state.background-announced"
EVERY = "state.background-on-every-update"
COMPLETE = "state.background-list-is-complete"


def custom(story: Story) -> Story:
    return story.update("state_update", state="_pondering")


class TestRunning:
    def test_the_proof(self) -> None:
        assert accepted(foreign()).says("a", "Hi").idle("end_turn").proof(RUNNING) == [4, 7, 8]
        assert accepted(foreign()).idle("end_turn").proof(RUNNING) == [4, 7]
        assert foreign().says("a", "Ready.").idle("end_turn").proof(RUNNING) == [4, 5]
        assert accepted(foreign()).says("a", "Hi").after(2).barrier().proof(RUNNING) == [4, 7, 9]
        assert foreign().idle("end_turn").proof(RUNNING) == [4]

    def test_an_error_is_told_otherwise(self) -> None:
        assert accepted(foreign()).idle("error").fails(RUNNING) == []
        assert foreign().idle("error").warns(RUNNING) == []

    def test_a_stop_reason_that_another_client_was_told_before(self) -> None:
        story = foreign().initialize(at="bob")
        story.reply(story.resume(at="bob"), at="bob").running(at="bob").idle("refusal", at="bob")
        assert story.idle("refusal").warns(RUNNING) == []
        later = foreign().initialize(at="bob")
        later.reply(later.resume(at="bob"), at="bob").idle("refusal").running(at="bob").idle("refusal", at="bob")
        assert later.warns(RUNNING) == ["idle with the stop reason 'refusal' and no running before it"]

    @pytest.mark.parametrize("words", ["", "Hi"])
    def test_a_local_command_has_a_rule_of_its_own(self, words: str) -> None:
        story = Story(triggers={"local-command": "/a"}).begin()
        story.reply(story.prompt("/a", trigger="local-command"), messageId="u").user("u", "/a")
        if words:
            story.says("a", words)
        assert story.idle("end_turn").fails("command.same-lifecycle")
        assert story.silent(RUNNING)

    def test_output_that_nobody_would_call_a_prompts(self) -> None:
        refused = foreign()
        refused.refuse(refused.prompt("Hello"), -32603).says("a", "Hi").after(2).barrier()
        assert refused.fails(RUNNING) == []
        other = foreign().initialize(at="bob")
        other.reply(other.resume(at="bob"), at="bob").reply(other.prompt("Hello", at="bob"), at="bob", messageId="u")
        assert other.says("a", "Hi").after(2).barrier().fails(RUNNING) == []

    def test_output_of_the_agents_own_within_open_work(self) -> None:
        story = accepted(foreign().running()).says("a", "Hi").after(2).barrier()
        assert story.fails(RUNNING) == []


class TestIdle:
    def test_the_proof(self) -> None:
        assert accepted(foreign()).running().says("a", "Blue.").after(60).barrier().proof(IDLE) == [7, 8, 10]
        story = Story().begin().running().control("waited", **{"for": "idle", "session": "s", "seconds": 15})
        assert story.warns(IDLE) == ["work did not end within the patience: it takes very long, or it never will"]
        assert story.proof(IDLE) == [5, 6]

    @pytest.mark.parametrize(
        "kind", ["usage_update", "session_info_update", "available_commands_update", "config_option_update", "notice"]
    )
    def test_what_comes_aside_is_no_word_of_the_work(self, kind: str) -> None:
        story = accepted(foreign()).running().says("a", "Blue.").after(20).update(kind).after(20).barrier()
        assert story.proof(IDLE) == [7, 8, 11]

    @pytest.mark.parametrize("status", ["pending", "in_progress", "paused"])
    def test_a_tool_call_that_is_left_open(self, status: str) -> None:
        story = tool(accepted(foreign()).running(), status).says("a", "Blue.").after(60).barrier()
        assert story.passes(IDLE)

    @pytest.mark.parametrize("kind", ["agent_thought", "plan_update", "tool_call_update"])
    def test_a_last_word_that_is_none(self, kind: str) -> None:
        story = accepted(foreign()).running().says("a", "Blue.")
        story.update(kind, messageId="t", toolCallId="c", status="completed", title="t").after(60).barrier()
        assert story.passes(IDLE)

    def test_longer_pauses_make_patience_longer(self) -> None:
        story = accepted(foreign()).running().says("a", "One").after(25).says("a", "two").after(45).barrier()
        assert story.passes(IDLE)
        assert story.after(10).barrier().fails(IDLE)

    def test_work_that_has_ended_or_waits(self) -> None:
        assert accepted(foreign()).running().says("a", "Hi").idle("end_turn").after(60).barrier().passes(IDLE)
        story = waits(accepted(foreign()).running().says("a", "Hi")).after(60).barrier()
        assert story.passes(IDLE)

    @pytest.mark.parametrize("first", [True, False])
    def test_one_of_two_model_requests_is_still_open(self, first: bool) -> None:
        story = Story(model="openai-chat").begin()
        story.reply(story.prompt("Hi", nonce="acp-1"), messageId="u").user("u", "Hi acp-1").running()
        for number in (1, 2):
            story.control("model-request", at="", number=number, nonce="acp-1", group="chat", last_user=True)
            if number == (2 if first else 1):
                story.control("model-answered", at="", number=number, how="say", status=200, injected=False)
        story.says("a", "Hm").control("waited", **{"for": "idle", "session": "s", "seconds": 15})
        assert story.passes(IDLE)

    def test_an_end_without_a_reason(self) -> None:
        assert foreign().running().idle().proof("state.stop-reason-at-end") == [4, 5]

    def test_the_connection_had_ended(self) -> None:
        story = accepted(foreign()).running().says("a", "Blue.").control("cut").after(60).barrier()
        assert story.passes(IDLE)


class TestRequiresAction:
    def test_the_proof(self) -> None:
        answered = allow(waits(ask(accepted(foreign()).running()))).says("a", "Done.").idle("end_turn")
        assert answered.proof(LEAVES) == [9, 10, 11]
        silent = allow(waits(ask(accepted(foreign()).running()))).after(40).barrier()
        assert silent.proof(LEAVES) == [9, 10, 12]
        blocked = allow(ask(accepted(foreign()).running()).after(3))
        assert blocked.proof(BLOCKED) == [8, 9]

    @pytest.mark.parametrize(("seconds", "fails"), [(0.0, 0), (0.06, 1)])
    def test_lines_of_one_burst_may_have_changed_places(self, seconds: float, fails: int) -> None:
        story = allow(waits(ask(accepted(foreign()).running()))).says("a", "Done.").after(seconds).running()
        assert (len(story.fails(LEAVES)), len(story.warns(LEAVES))) == (fails, 1 - fails)

    @pytest.mark.parametrize(
        ("method", "params", "fails"),
        [
            ("elicitation/create", {"mode": "form"}, 1),
            ("elicitation/create", {"mode": "url"}, 0),
            ("elicitation/create", {}, 0),
            ("_vendor/ask", {"mode": "url"}, 1),
        ],
    )
    def test_what_an_answer_ends(self, method: str, params: Any, fails: int) -> None:
        story = waits(accepted(foreign()).running().asks(method, {"sessionId": "s", **params}, id="p"))
        story.answer("p", action="accept").says("a", "Done.").idle("end_turn")
        assert len(story.fails(LEAVES)) == fails
        assert story.outcome(LEAVES).exercised

    @pytest.mark.parametrize(("first", "second"), [("p", "q"), ("q", "p")])
    def test_the_last_of_several_answers_counts(self, first: str, second: str) -> None:
        story = waits(ask(ask(accepted(foreign()).running(), id="p"), id="q", call="d"))
        story = allow(allow(story, first), second).says("a", "Done.").idle("end_turn")
        assert story.proof(LEAVES) == [10, 12, 13]

    def test_a_request_about_another_session(self) -> None:
        story = waits(accepted(foreign()).running().asks("_vendor/ask", {"sessionId": "other"}, id="p"))
        assert story.answer("p").says("a", "Done.").idle("end_turn").silent(LEAVES)

    def test_another_tool_call_that_is_at_work_or_done(self) -> None:
        for status, silent in (("in_progress", True), ("pending", False), ("completed", False)):
            story = allow(ask(tool(accepted(foreign()).running(), status, "other")).after(3))
            assert story.silent(BLOCKED) is silent, status
            assert bool(story.fails(BLOCKED)) is not silent

    def test_how_long_it_was_blocked(self) -> None:
        for seconds, fails in ((0.9, 0), (1.1, 1)):
            story = allow(ask(accepted(foreign()).running()).after(seconds))
            assert len(story.fails(BLOCKED)) == fails

    def test_what_comes_aside_is_no_work(self) -> None:
        story = ask(accepted(foreign()).running()).update("usage_update", used=1, size=2).after(3)
        assert allow(story).fails(BLOCKED)

    def test_never_answered_in_a_recording(self) -> None:
        assert ask(accepted(foreign()).running()).after(3).barrier().silent(BLOCKED)


class TestStandardStates:
    def test_the_proof(self) -> None:
        assert custom(accepted(foreign())).says("a", "Hi").idle("end_turn").proof(STANDARD) == [7, 8, 9]
        assert custom(accepted(foreign())).says("a", "Hi").after(2).barrier().proof(STANDARD) == [7, 8, 10]
        assert custom(accepted(foreign()).running().says("a", "Hi")).after(60).barrier().proof(STANDARD) == [7, 9, 11]

    def test_running_follows_it(self) -> None:
        assert custom(accepted(foreign())).says("a", "Hi").running().idle("end_turn").fails(STANDARD) == []

    def test_no_prompt_or_a_refused_one(self) -> None:
        assert custom(foreign()).says("a", "Hi").idle("end_turn").fails(STANDARD) == []
        story = foreign()
        custom(story.refuse(story.prompt("Hello"), -32603)).says("a", "Hi").idle("end_turn")
        assert story.fails(STANDARD) == []

    def test_a_prompt_of_another_connection(self) -> None:
        story = foreign().initialize(at="bob")
        story.reply(story.resume(at="bob"), at="bob").reply(story.prompt("Hello", at="bob"), at="bob", messageId="u")
        assert custom(story).says("a", "Hi").idle("end_turn").fails(STANDARD) == []

    def test_a_prompt_that_comes_after_it(self) -> None:
        story = accepted(custom(foreign())).says("a", "Hi").idle("end_turn")
        assert story.proof(STANDARD) == [4, 8, 9]
        assert accepted(custom(foreign()).says("a", "Hi")).idle("end_turn").fails(STANDARD) == []

    @pytest.mark.parametrize(("name", "fails"), [("auth", 1), ("elicitation", 1), ("_meta", 0), ("states", 0)])
    def test_what_a_client_advertised(self, name: str, fails: int) -> None:
        story = custom(accepted(foreign(client={name: {}}))).says("a", "Hi").idle("end_turn")
        assert len(story.fails(STANDARD)) == fails

    def test_a_cancel_meanwhile(self) -> None:
        story = custom(accepted(foreign()).running().says("a", "Hi").cancel()).after(60).barrier()
        assert story.fails(STANDARD) == []

    def test_nothing_was_said_or_nothing_shows_that_it_is_over(self) -> None:
        assert custom(accepted(foreign()).running()).after(60).barrier().fails(STANDARD) == []
        assert custom(accepted(foreign()).running().says("a", "Hi")).barrier().fails(STANDARD) == []

    def test_the_agent_waits_for_the_client(self) -> None:
        story = custom(ask(accepted(foreign()).running().says("a", "Hi"))).after(60).barrier()
        assert story.fails(STANDARD) == []


class TestBackground:
    def test_late_words(self) -> None:
        story = foreign().running().says("a", "1").idle("end_turn").says("a", "2").says("a", "3")
        assert story.proof(AFTER) == [6, 7]
        assert foreign().running().says("a", "1").idle("end_turn", background=[CALL]).says("a", "2").silent(AFTER)

    def test_a_failure_told_as_a_stop(self) -> None:
        assert foreign().running().idle("end_turn").idle("error").proof(FAILURE) == [5, 6]
        assert foreign().idle().idle("error").proof(FAILURE) == [4, 5]

    def test_a_failure_that_something_explains(self) -> None:
        story = foreign()
        id = story.prompt("Hello")
        story.running().idle("end_turn").idle("error").reply(id, messageId="u")
        assert story.passes(FAILURE)
        story = foreign().initialize(at="bob")
        story.reply(story.resume(at="bob"), at="bob").running(at="bob").idle("error", at="bob")
        assert story.idle().idle("error").passes(FAILURE)

    def test_a_failure_that_was_told_before(self) -> None:
        assert foreign().running().idle("error").idle().idle("error").passes(FAILURE)

    def test_a_failure_that_was_told_of_earlier_work(self) -> None:
        story = foreign().running().idle("error").running().idle("end_turn").idle("error")
        assert story.proof(FAILURE) == [7, 8]

    def test_a_failure_in_a_resume_is_a_snapshot(self) -> None:
        story = foreign().running().idle("end_turn")
        id = story.resume()
        assert story.idle("error").reply(id).silent(FAILURE)

    def test_listed(self) -> None:
        def ended(*items: Any) -> Story:
            return tool(foreign().running(background=[]), "in_progress").idle("end_turn", background=list(items))

        assert ended({**CALL, "toolCallId": "x"}).proof(ANNOUNCED) == [6]
        assert ended(CALL).idle(background=[]).proof(ANNOUNCED) == [6, 7]
        assert ended({"type": "terminal", "terminalId": "c"}).fails(ANNOUNCED)  # that is the id of a tool call
        assert ended({"type": "tool_call", "toolCallId": 5}, "x").fails(ANNOUNCED) == []

    @pytest.mark.parametrize("status", ["pending", "in_progress", "paused"])
    def test_dropped_while_at_work(self, status: str) -> None:
        story = tool(foreign().running(background=[]), status).idle("end_turn", background=[CALL]).idle(background=[])
        assert story.proof(ANNOUNCED) == [6, 7]

    def test_a_terminal_is_dropped(self) -> None:
        story = foreign().running(background=[]).update("terminal_update", terminalId="t", command="serve")
        story.idle("end_turn", background=[TERMINAL]).idle(background=[])
        assert story.proof(ANNOUNCED) == [6, 7]
        story.update("terminal_update", terminalId="t", exitStatus={"exitCode": 0})
        assert story.proof(ANNOUNCED) == [6, 7]  # too late

    def test_another_client_saw_it_begin_or_end(self) -> None:
        story = foreign().initialize(at="bob")
        story.reply(story.resume(at="bob"), at="bob")
        story.update("tool_call_update", at="bob", toolCallId="c", title="t", status="in_progress")
        story.running(background=[]).idle("end_turn", background=[CALL])
        story.update("tool_call_update", at="bob", toolCallId="c", status="completed")
        assert story.idle(background=[]).passes(ANNOUNCED)

    def test_left_out_once(self) -> None:
        story = foreign().running(background=[]).idle("end_turn").running().idle("end_turn")
        assert story.proof(EVERY) == [4, 5]

    @pytest.mark.parametrize("body", [{"background": 5}, {"background": []}])
    def test_a_list_of_another_shape_is_another_rules(self, body: Any) -> None:
        assert foreign().running(background=[]).idle("end_turn", **body).passes(EVERY)

    def test_after_a_close_the_list_begins_afresh(self) -> None:
        story = foreign().running(background=[]).idle("end_turn", background=[])
        story.reply(story.request("session/close", {"sessionId": "s"}))
        assert story.idle().passes(EVERY)


class TestComplete:
    def ended(self, *items: Any, status: str = "in_progress") -> Story:
        return tool(foreign().running(background=[]).says("a", "1"), status).idle("end_turn", background=list(items))

    def test_the_proof(self) -> None:
        assert tool(self.ended(), "completed").proof(COMPLETE) == [6, 7, 8]
        assert self.ended().after(2).barrier().proof(COMPLETE) == [6, 7, 9]
        assert self.ended(status="completed").says("a", "2").says("a", "3").proof(COMPLETE) == [7, 8]
        story = foreign().running(background=[]).update("terminal_update", terminalId="t", command="serve")
        story.idle("end_turn", background=[]).update("terminal_output_chunk", terminalId="t", data="aGk=")
        assert story.proof(COMPLETE) == [5, 6, 7]

    @pytest.mark.parametrize(
        ("status", "fails"), [("failed", 0), ("cancelled", 0), ("in_progress", 1), ("completed", 1)]
    )
    def test_a_tool_call_of_earlier_work(self, status: str, fails: int) -> None:
        story = self.ended(CALL).running(background=[CALL]).idle("end_turn", background=[])
        assert len(tool(story, status).fails(COMPLETE)) == fails

    @pytest.mark.parametrize("status", ["failed", "cancelled"])
    def test_of_this_work_any_end_goes_on(self, status: str) -> None:
        assert tool(self.ended(), status).fails(COMPLETE)

    def test_a_terminal_that_had_exited_or_is_new(self) -> None:
        story = foreign().running(background=[]).update("terminal_update", terminalId="t", exitStatus={"exitCode": 0})
        story.idle("end_turn", background=[]).update("terminal_output_chunk", terminalId="t", data="aGk=")
        assert story.passes(COMPLETE)
        story.update("terminal_update", terminalId="t2", command="serve")
        assert story.update("terminal_output_chunk", terminalId="t2", data="aGk=").passes(COMPLETE)

    def test_a_listed_terminal(self) -> None:
        story = foreign().running(background=[]).update("terminal_update", terminalId="t", command="serve")
        story.idle("end_turn", background=[TERMINAL]).update("terminal_output_chunk", terminalId="t", data="aGk=")
        assert story.passes(COMPLETE)

    @pytest.mark.parametrize("status", ["pending", "completed", "paused"])
    def test_only_what_is_in_progress_is_left_so(self, status: str) -> None:
        assert self.ended(status=status).after(2).barrier().passes(COMPLETE)

    def test_a_new_prompt_may_be_what_goes_on(self) -> None:
        story = self.ended()
        story.prompt("More")
        assert tool(story, "completed").fails(COMPLETE) == []

    def test_new_work_may_be_what_goes_on(self) -> None:
        assert tool(self.ended().running(background=[]), "completed").fails(COMPLETE) == []
        assert self.ended().running(background=[]).after(2).barrier().fails(COMPLETE) == []
