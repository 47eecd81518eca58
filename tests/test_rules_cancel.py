"""Cancellation: what ends as cancelled, what may not, and what becomes of prompts and permissions meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.rules import RULES, judge
from tests.story import Story, proves

ENDS = "cancel.ends-idle-cancelled"
ABORT = "cancel.abort-errors-are-cancelled"
UPDATES = "cancel.updates-before-idle"
SUCCEEDS = "cancel.prompt-still-succeeds"
REQUEST = "cancel.request-before-insertion"
UNKNOWN = "cancel.unknown-request-ignored"
HELD = "cancel.held-prompts-cancelled"
APPROVED = "cancel.permissions-not-approved"
WITHDRAWN = "cancel.permission-requests-withdrawn"
QUIET = "cancel.idle-session-is-quiet"
ONLY = "cancel.only-when-cancelled"


def at_work(*, driven: bool = False, text: str = "Long job") -> Story:
    """One prompt, inserted and being worked on, with the first words of the answer."""
    story = Story(driven=driven).begin()
    first = story.prompt(text, nonce="acp-1" if driven else None)
    story.reply(first, messageId="u1").user("u1", text + (" acp-1" if driven else ""))
    return story.running().says("a1", "Well").after(1)


def cancel_request(story: Story, id: object) -> Story:
    return story.notify("$/cancel_request", {"requestId": id})


def ask(story: Story, *, id: int = 900, call: str = "c1") -> Story:
    """A tool call of the agent that waits for permission."""
    story.update("tool_call_update", toolCallId=call, title="delete", kind="execute", status="pending")
    options = [
        {"optionId": "y", "name": "Yes", "kind": "allow_once"},
        {"optionId": "n", "name": "No", "kind": "reject_once"},
    ]
    subject = {"type": "tool_call", "toolCall": {"toolCallId": call, "title": "delete"}}
    story.asks(
        "session/request_permission",
        {"sessionId": "s", "title": "delete", "subject": subject, "options": options},
        id=id,
    )
    return story.update("state_update", state="requires_action").after(1)


def allow(story: Story, id: int = 900) -> Story:
    return story.answer(id, outcome={"outcome": "selected", "optionId": "y"})


def dismiss(story: Story, id: int = 900) -> Story:
    return story.answer(id, outcome={"outcome": "cancelled"})


def failed(story: Story) -> set[str]:
    """All rules of the cancel area that find a violation."""
    rules = [rule for rule in RULES.values() if rule.area == "cancel"]
    outcomes = judge(story.recorder.history, rules)
    assert not [outcome.broken for outcome in outcomes.values() if outcome.broken]
    for outcome in outcomes.values():
        for finding in outcome.findings:
            proves(finding)
    return {id for id, outcome in outcomes.items() if any(f.kind == "violation" for f in outcome.findings)}


class TestEndsIdleCancelled:
    def test_a_cancelled_idle_is_right(self) -> None:
        story = at_work().cancel().idle("cancelled")
        assert story.passes(ENDS)
        assert failed(story) == set()

    def test_a_client_that_is_gone_sees_no_idle(self) -> None:
        """Nothing tells of its end; another one takes over much later."""
        story = at_work().cancel().after(300).initialize(at="bob")
        story.reply(story.resume(at="bob"), at="bob").idle("cancelled", at="bob")
        story.reply(story.prompt("Again", at="bob"), at="bob", messageId="u2").running(at="bob").idle(
            "end_turn", at="bob"
        )
        assert story.fails(ENDS) == []
        assert story.barrier().fails(ENDS)

    def test_no_idle_within_the_patience_in_a_recording(self) -> None:
        story = at_work().cancel().after(60).barrier()
        assert story.fails(ENDS) == ["cancelled work was never reported as ended"]
        assert failed(story) == {ENDS}

    def cancelled_in_a_row(self, lengths: list[float], cancels: list[float], alone: float = 1.5) -> Story:
        """Works that last so long and are cancelled after so long, and one that is left alone."""
        story = Story().begin()
        for number, (length, cancel) in enumerate([*zip(lengths, cancels, strict=True), (alone, None)]):
            id = story.prompt("Count", nonce=f"acp-{number}")
            story.reply(id, messageId=f"u{number}").user(f"u{number}", f"Count acp-{number}").running()
            began = story.now
            if cancel is not None:
                story.now = began + cancel
                story.cancel()
            story.now = began + length - 0.01
            story.idle("end_turn")
        return story

    @pytest.mark.parametrize("hears", [True, False])
    def test_an_agent_that_reads_nothing_while_it_works(self, hears: bool) -> None:
        story = at_work(driven=True).cancel()
        if hears:
            story.barrier()
        story.after(2).idle("end_turn")
        assert (len(story.fails(ENDS)), len(story.warns(ENDS))) == ((1, 0) if hears else (0, 1))

    @pytest.mark.parametrize(("silences", "fails"), [([1.2], 0), ([0.6, 0.6], 1), ([3.5], 1)])
    def test_a_machine_that_stands_still(self, silences: list[float], fails: int) -> None:
        story = Story().begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u1").running().barrier().idle("end_turn")
        story.reply(story.prompt("Hello", nonce="acp-2"), messageId="u2").running().cancel()
        for number, silence in enumerate(silences):
            story.after(silence).says("a", f"{number}")
        story.idle("end_turn")
        assert (len(story.fails(ENDS)), len(story.warns(ENDS))) == (fails, 1 - fails)

    @pytest.mark.parametrize("are_told", [True, False])
    @pytest.mark.parametrize(("reason", "rule"), [("end_turn", ENDS), ("error", ABORT)])
    def test_the_cancel_of_another_process_s_client(self, reason: str, rule: str, are_told: bool) -> None:
        """Both are at work in the session; the cancel is meant for what its sender knows of."""
        story = Story().begin().initialize(at="bob")
        story.reply(story.resume(at="bob"), at="bob")
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u1").user("u1", "Hello acp-1").running()
        story.reply(story.prompt("Hello", nonce="acp-2", at="bob"), at="bob", messageId="u2").running(at="bob")
        story.user("u2", "Hello acp-2", at="bob")
        if are_told:
            story.user("u2", "Hello acp-2")
        story.barrier(at="bob").cancel().idle("cancelled").after(4).idle(reason, at="bob")
        assert len(story.fails(rule)) == (1 if are_told else 0)

    @pytest.mark.parametrize(("awaited", "fails"), [("idle", 1), ("update", 0)])
    def test_what_ends_when_the_suite_has_waited_for_it_in_vain(self, awaited: str, fails: int) -> None:
        """It lets go of the model when a scenario breaks off."""
        story = at_work(driven=True).cancel()
        story.control("waited", **{"for": awaited, "session": "s", "seconds": 15}).idle("end_turn")
        assert len(story.fails(ENDS)) == fails

    @pytest.mark.parametrize("reason", ["canceled", "_aborted", "user_interrupt"])
    def test_a_stop_that_is_told_in_other_words(self, reason: str) -> None:
        assert at_work(driven=True).cancel().after(0.2).idle(reason).fails(ENDS) == [
            f"cancelled work ended with {reason!r}"
        ]

    def test_each_cancel_ends_the_work_and_none_is_told(self) -> None:
        story = self.cancelled_in_a_row([0.06, 0.12, 0.27], [0.02, 0.08, 0.2])
        assert story.fails(ENDS) == ["each cancel ended the work, and the last one too with 'end_turn'"]

    def test_work_that_was_cancelled_before_it_began_was_not_left_alone(self) -> None:
        story = self.cancelled_in_a_row([0.06, 0.12, 0.27], [0.02, 0.08, 0.2])
        story.cancel().running().idle("end_turn")
        assert len(story.fails(ENDS)) == 1

    @pytest.mark.parametrize(
        ("lengths", "alone"),
        [
            ([0.3, 0.31, 0.3], 1.5),  # it does not hear the cancel before it is done
            ([0.06, 0.12, 0.27], 0.25),  # it takes no longer when it is left alone
            ([0.06, 0.4, 0.25], 1.5),  # now and then
        ],
    )
    def test_work_that_may_have_ended_by_itself(self, lengths: list[float], alone: float) -> None:
        assert self.cancelled_in_a_row(lengths, [0.02, 0.08, 0.2], alone).fails(ENDS) == []

    def test_no_idle_when_the_suite_ran_out_of_patience(self) -> None:
        story = at_work(driven=True).cancel()
        assert story.silent(ENDS)
        story.control("waited", **{"for": "idle", "session": "s", "seconds": 15})
        assert story.fails(ENDS)

    def test_a_wait_that_began_before_the_cancel_shows_nothing(self) -> None:
        story = at_work(driven=True)
        began = story.last.seq
        story.cancel().control("waited", **{"for": "update", "session": "s", "seconds": 15, "began": began})
        assert story.silent(ENDS)

    def test_a_recording_that_stops_or_an_agent_that_died_shows_nothing(self) -> None:
        assert at_work().cancel().silent(ENDS)
        assert at_work().cancel().after(60).control("disconnected").silent(ENDS)

    def test_end_turn_long_after_the_cancel(self) -> None:
        story = at_work().cancel().after(3).says("a1", " done.").idle("end_turn")
        assert story.fails(ENDS) == ["cancelled work ended with 'end_turn'"]
        assert failed(story) == {ENDS}

    def test_end_turn_that_only_the_cancel_explains(self) -> None:
        assert at_work().cancel().after(0.1).idle("end_turn").fails(ENDS)

    @pytest.mark.parametrize("seconds", [0.05, 0.1])
    def test_end_turn_that_crossed_the_cancel_is_a_warning(self, seconds: float) -> None:
        story = at_work().says("a1", ", that is it.").cancel().after(seconds).idle("end_turn")
        assert story.fails(ENDS) == []
        assert len(story.warns(ENDS)) == 1

    @pytest.mark.parametrize("seconds", [0, 0.03])
    def test_end_turn_in_one_burst_with_the_cancel_says_nothing(self, seconds: float) -> None:
        story = at_work().says("a1", ", that is it.").cancel().after(seconds).idle("end_turn")
        assert story.silent(ENDS)

    def test_end_turn_at_once_with_a_tool_call_cancelled(self) -> None:
        story = at_work().update("tool_call_update", toolCallId="c1", title="walk", status="in_progress")
        story.cancel().update("tool_call_update", toolCallId="c1", status="cancelled").idle("end_turn")
        assert story.fails(ENDS)

    def test_end_turn_at_once_with_a_permission_pending(self) -> None:
        story = ask(at_work()).cancel()
        dismiss(cancel_agent_request(story)).idle("end_turn")
        assert failed(story) == {ENDS}

    @pytest.mark.parametrize(("is_cancelled", "fails"), [(True, 0), (False, 1)])
    def test_the_last_words_are_no_progress(self, is_cancelled: bool, fails: int) -> None:
        story = ask(at_work(driven=True))
        if is_cancelled:
            story.cancel()
        story = dismiss(cancel_agent_request(story)).says("a1", " Stopped.").idle("cancelled")
        assert len(story.fails("state.leaves-requires-action")) == fails

    def test_what_is_cancelled_before_work_began(self) -> None:
        for is_cancelled in (True, False):
            story = Story().begin()
            story.reply(story.prompt("Hi", nonce="acp-1"), messageId="u1").user("u1", "Hi acp-1")
            if is_cancelled:
                story.cancel()
            assert bool(story.idle("cancelled").fails("state.running-when-work-starts")) is not is_cancelled

    def test_a_call_that_the_user_had_denied(self) -> None:
        story = ask(at_work(driven=True))
        story.answer(900, outcome={"outcome": "selected", "optionId": "n"}).cancel().running()
        story.update("tool_call_update", toolCallId="c1", status="cancelled").says("a2", "As you like.")
        assert story.idle("end_turn").fails(ENDS) == []

    def test_a_permission_of_background_work_proves_nothing(self) -> None:
        listed = [{"type": "tool_call", "toolCallId": "c1"}]
        story = at_work().update("tool_call_update", toolCallId="c1", title="delete", status="in_progress")
        story.idle("end_turn", background=listed)
        story.reply(story.prompt("More"), messageId="u2").user("u2", "More").running(background=listed)
        story = ask(story).running(background=listed).says("a2", "Done.").cancel().idle("end_turn", background=listed)
        assert story.fails(ENDS) == []

    def test_a_permission_that_another_client_gave(self) -> None:
        story = at_work(driven=True).initialize(at="bob")
        story.running(at="bob").reply(story.resume(at="bob"), at="bob")
        params = {"sessionId": "s", "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}
        params["subject"] = {"type": "tool_call", "toolCall": {"toolCallId": "c1", "title": "delete"}}
        story = ask(story).asks("session/request_permission", params, at="bob")
        story.answer(900, at="bob", outcome={"outcome": "selected", "optionId": "y"})
        for at in ("ada", "bob"):
            story.running(at=at).update("tool_call_update", toolCallId="c1", status="completed", at=at)
        story.says("a2", "Done.").says("a2", "Done.", at="bob").cancel().idle("end_turn").idle("end_turn", at="bob")
        assert story.fails(ENDS) == []

    def test_a_call_given_up_because_the_one_beside_it_failed(self) -> None:
        story = at_work(driven=True)
        for call in ("c1", "c2"):
            story.update("tool_call_update", toolCallId=call, title="walk", status="in_progress")
        story.after(1).cancel().update("tool_call_update", toolCallId="c1", status="failed")
        story.update("tool_call_update", toolCallId="c2", status="cancelled").says("a2", "It failed.").idle("end_turn")
        assert story.fails(ENDS) == []

    def test_end_turn_while_the_model_was_held(self) -> None:
        story = at_work(driven=True)
        story.control("model-request", number=1, api="x", nonce="acp-1", group="chat", side=False, last_user=True)
        story.control("model-held", number=1).cancel().idle("end_turn")
        assert story.fails(ENDS)

    def test_the_model_was_held_for_the_next_work(self) -> None:
        """The line that ended the greeting was read after those of the model."""
        story = Story().begin().running().says("g", "Hello!")
        first = story.prompt("Long job", nonce="acp-1")
        story.control("model-request", number=1, api="x", nonce="acp-1", group="chat", side=False, last_user=True)
        story.control("model-held", number=1).cancel().idle("end_turn")
        story.reply(first, messageId="u1").user("u1", "Long job acp-1").running().idle("cancelled")
        assert story.fails(ENDS) == []

    def test_a_driven_end_turn_without_a_held_model_is_a_warning(self) -> None:
        story = at_work(driven=True).cancel().after(0.4).idle("end_turn")
        assert story.fails(ENDS) == []
        assert story.warns(ENDS)

    def test_a_held_prompt_that_is_inserted_needs_no_idle_between(self) -> None:
        story = at_work()
        second = story.prompt("And this")
        story.cancel().after(1).user("u2", "And this").reply(second, messageId="u2")
        story.says("a2", "Both.").after(40).idle("end_turn")
        assert story.silent(ENDS)

    def test_a_prompt_after_the_patience_proves_the_missing_idle(self) -> None:
        story = at_work().cancel().after(45)
        second = story.prompt("Hello?")
        story.reply(second, messageId="u2").user("u2", "Hello?").running().says("a2", "Yes?").idle("end_turn")
        assert story.fails(ENDS)

    def test_an_agent_that_waits_for_the_client_is_not_blamed(self) -> None:
        story = at_work().asks("_vendor/input", {"sessionId": "s"}, id=7).cancel().after(60).barrier()
        assert story.silent(ENDS)

    def test_a_close_is_judged_elsewhere(self) -> None:
        story = at_work().cancel()
        story.request("session/close", {"sessionId": "s"})
        assert story.after(60).barrier().silent(ENDS)

    def test_the_cancel_of_another_client_counts(self) -> None:
        story = at_work().initialize(at="bob")
        story.reply(story.resume(at="bob"), at="bob").update("state_update", state="requires_action", at="bob")
        assert story.cancel(at="bob").after(60).barrier().barrier(at="bob").fails(ENDS)

    def test_that_of_a_client_which_does_not_know_of_the_work_does_not(self) -> None:
        """Its process, if it is another one, knows nothing of it either."""
        story = at_work().initialize(at="bob").cancel(at="bob").after(60).barrier()
        assert story.silent(ENDS)
        story = at_work().initialize(at="bob")
        story.reply(story.resume(at="bob"), at="bob").idle(at="bob").cancel(at="bob").after(60).barrier()
        assert story.silent(ENDS)

    def test_a_cancel_that_two_clients_see_is_told_once(self) -> None:
        story = at_work().initialize(at="bob")
        story.running(at="bob").cancel().after(60).barrier().barrier(at="bob")
        assert len(story.fails(ENDS)) == 1

    def two_at_work(self) -> Story:
        story = Story().begin().initialize(at="bob")
        story.idle(at="bob").reply(story.resume(at="bob"), at="bob")
        story.reply(story.prompt("Long job", nonce="acp-1"), messageId="u1")
        for at in ("ada", "bob"):
            story.user("u1", "Long job acp-1", at=at).running(at=at).says("a1", "Well", at=at)
        return story.after(1).cancel(at="bob")

    def test_the_end_is_told_to_all(self) -> None:
        story = self.two_at_work().idle("cancelled", at="bob")
        began = story.last.seq
        assert story.passes(ENDS)
        story.control("waited", **{"for": "idle", "session": "s", "seconds": 15, "began": began})
        assert story.fails(ENDS) == ["cancelled work was never reported as ended"]
        assert self.two_at_work().idle("cancelled", at="bob").idle("cancelled").passes(ENDS)

    def test_the_suite_waits_for_the_idle_on_another_connection(self) -> None:
        story = self.two_at_work()
        story.control("waited", **{"for": "idle", "session": "s", "seconds": 15, "began": story.last.seq})
        for at in ("ada", "bob"):
            story.idle("end_turn", at=at)
        assert story.fails(ENDS) == ["cancelled work was never reported as ended"]

    def test_a_wait_for_later_work_of_another_client(self) -> None:
        for is_gone in (True, False):
            story = self.two_at_work()
            if is_gone:
                story.control("cut", at="bob")
            story.idle("cancelled").running()
            story.control("waited", **{"for": "idle", "session": "s", "seconds": 15, "began": story.last.seq})
            assert story.fails(ENDS) == []

    def test_the_session_of_another_process_that_has_the_same_id(self) -> None:
        story = at_work(driven=True).begin(at="bob")
        story.reply(story.prompt("Job", at="bob"), messageId="u1", at="bob").running(at="bob").cancel(at="bob")
        story.idle("cancelled", at="bob").after(2).says("a1", " done.").idle("end_turn")
        assert story.passes(ENDS)

    def test_a_client_that_lags_behind_cancels_no_later_work(self) -> None:
        """What its cancel stopped was over before the other client's next work began."""
        story = Story().begin().initialize(at="bob")
        story.idle(at="bob").reply(story.resume(at="bob"), at="bob")
        story.reply(story.prompt("Long job"), messageId="u1").user("u1", "Long job").running().running(at="bob")
        story.cancel().idle("cancelled")
        story.reply(story.prompt("More"), messageId="u2").user("u2", "More").running().cancel(at="bob")
        story.idle("cancelled", at="bob").running(at="bob").after(3)
        for at in ("ada", "bob"):
            story.says("a2", "Done", at=at).idle("end_turn", at=at)
        assert story.fails(ENDS) == []


def cancel_agent_request(story: Story, id: int = 900) -> Story:
    return story.agent({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}})


@pytest.mark.parametrize(("reason", "is_met"), [("end_turn", False), ("cancelled", True)])
def test_a_cancel_that_crossed_an_end_may_be_met_in_the_next_work(reason: str, is_met: bool) -> None:
    rule = "cancel.only-when-cancelled"
    story = at_work().cancel().idle(reason)
    asked = story.prompt("Next")
    story.reply(asked, messageId="u2").user("u2", "Next").running().idle("cancelled")
    assert bool(story.fails(rule)) == is_met
    assert bool(story.warns(rule)) == (not is_met)


def test_a_resume_may_take_a_question_with_it() -> None:
    rule = "cancel.only-when-cancelled"
    for is_asked in (True, False):
        story = at_work()
        if is_asked:
            story.asks("session/request_permission", {"sessionId": "s", "title": "May I?", "options": []})
        story.reply(story.resume()).idle("cancelled")
        assert bool(story.warns(rule)) == is_asked
        assert bool(story.fails(rule)) == (not is_asked)


class TestAbortErrors:
    def test_the_abort_that_leaks(self) -> None:
        story = at_work().cancel().idle("error", error={"code": -32603, "message": "AbortError: aborted"})
        assert story.fails(ABORT) == ["cancelled work was reported as failed"]
        assert failed(story) == {ABORT}

    def test_an_error_that_names_nothing_and_had_time(self) -> None:
        assert at_work().cancel().after(0.1).idle("error").fails(ABORT)

    def test_an_error_at_once_while_the_model_was_held(self) -> None:
        story = at_work(driven=True)
        story.control("model-request", number=1, api="x", nonce="acp-1", group="chat", side=False, last_user=True)
        assert failed(story.control("model-held", number=1).cancel().idle("error")) == {ABORT}

    def test_a_failure_that_leaves_tool_calls_cancelled_may_have_crossed(self) -> None:
        story = at_work(driven=True).update("tool_call_update", toolCallId="c1", title="walk", status="in_progress")
        story.cancel().update("tool_call_update", toolCallId="c1", status="cancelled")
        story.idle("error", error={"code": -32000, "message": "Sign in"})
        assert (story.fails(ABORT), len(story.warns(ABORT))) == ([], 1)

    def test_an_error_that_crossed_the_cancel_is_a_warning(self) -> None:
        story = at_work().cancel().idle("error", error={"code": -32000, "message": "Sign in"})
        assert story.fails(ABORT) == []
        assert story.warns(ABORT)

    @pytest.mark.parametrize(
        ("told", "seconds", "fails"), [("Interrupted line", 0.2, 0), ("Other", 0.2, 1), ("Interrupted line", 2, 1)]
    )
    def test_an_agent_all_of_whose_works_fail_so(self, told: str, seconds: float, fails: int) -> None:
        error = {"code": -32000, "message": "Interrupted line"}
        story = at_work(driven=True).cancel().barrier().after(seconds).idle("error", error={**error, "message": told})
        story.running().idle("error", error=error)
        assert len(story.fails(ABORT)) == fails

    def test_an_injected_failure_is_no_abort(self) -> None:
        story = at_work(driven=True)
        story.control("model-request", number=1, api="x", nonce="acp-1", group="chat", side=False, last_user=True)
        story.cancel().control("model-answered", number=1, how="fail", status=500, injected=True).after(1).idle("error")
        assert story.silent(ABORT)

    def test_nor_is_one_on_record_before_the_work_that_it_ended(self) -> None:
        """The second of two identical prompts: nobody can tell which of the requests is whose."""
        story = Story().begin()
        story.reply(story.prompt("Hello [acp-1]", nonce="acp-1"), messageId="m1").running()
        second = story.prompt("Hello [acp-1]", nonce="acp-1", exact=True)
        for number, injected in ((1, False), (2, True)):
            story.control("model-request", number=number, nonce="acp-1", group="s", side=False, last_user=True)
            story.control("model-answered", number=number, how="garbage", status=200, injected=injected)
        story.idle("end_turn").user("m2", "Hello [acp-1]").reply(second, messageId="m2").running()
        assert story.cancel().after(0.1).idle("error", error={"code": -1, "message": "broken"}).silent(ABORT)

    def test_cancelled_passes_and_no_cancel_exercises_nothing(self) -> None:
        assert at_work().cancel().idle("cancelled").passes(ABORT)
        assert at_work().idle("error").silent(ABORT)


class TestUpdatesBeforeIdle:
    def test_a_message_that_goes_on(self) -> None:
        story = at_work().cancel().idle("cancelled").after(0.4).says("a1", " more")
        assert failed(story) == {UPDATES}
        (finding,) = story.outcome(UPDATES).findings
        assert [part for _, part in finding.because][-1] == "a message of it ('a1') goes on"

    def test_a_tool_call_that_goes_on(self) -> None:
        story = at_work().update("tool_call_update", toolCallId="c1", title="walk", status="in_progress").cancel()
        story.idle("cancelled").update("tool_call_update", toolCallId="c1", status="completed")
        assert failed(story) == {UPDATES}

    def test_metadata_of_a_tool_call(self) -> None:
        story = at_work().update("tool_call_update", toolCallId="c1", title="walk", status="in_progress").cancel()
        story.update("tool_call_update", toolCallId="c1", status="cancelled").idle("cancelled")
        assert story.update("tool_call_update", toolCallId="c1", _meta={"x": 1}).passes(UPDATES)
        assert story.update("tool_call_update", toolCallId="c1", title="walked").fails(UPDATES)

    @pytest.mark.parametrize(
        ("background", "late", "fails"),
        [
            ([], {"exitStatus": {"exitCode": 143}}, 1),
            ([{"type": "terminal", "terminalId": "t1"}], {"exitStatus": {"exitCode": 0}}, 0),
            ([{"type": "tool_call", "toolCallId": "c1"}], {"exitStatus": {"exitCode": 0}}, 0),
            (None, {"exitStatus": {"exitCode": 143}}, 0),  # it tells nothing of what runs on
            ([], {"_meta": {"x": 1}}, 0),
        ],
    )
    def test_a_terminal_that_goes_on(self, background: Any, late: dict[str, Any], fails: int) -> None:
        story = (
            at_work()
            .update("terminal_update", terminalId="t1", command="make")
            .update(
                "tool_call_update", toolCallId="c1", title="make", content=[{"type": "terminal", "terminalId": "t1"}]
            )
        )
        story.cancel().update("tool_call_update", toolCallId="c1", status="cancelled")
        story.idle("cancelled", **({} if background is None else {"background": background}))
        assert len(story.update("terminal_update", terminalId="t1", **late).fails(UPDATES)) == fails

    @pytest.mark.parametrize(
        ("status", "seconds", "fails"),
        [("cancelled", 1, 1), (None, 1, 1), ("cancelled", 0.5, 0), ("completed", 1, 0), ("failed", 1, 0)],
    )
    def test_a_terminal_that_says_more_where_nothing_is_listed(
        self, status: str | None, seconds: float, fails: int
    ) -> None:
        content = [{"type": "terminal", "terminalId": "t1"}]
        story = at_work().update(
            "tool_call_update", toolCallId="c1", title="make", status="in_progress", content=content
        )
        story.update("terminal_update", terminalId="t1", command="make").cancel()
        if status is not None:
            story.update("tool_call_update", toolCallId="c1", status=status)
        story.idle("cancelled").after(seconds)
        assert len(story.update("terminal_output_chunk", terminalId="t1", data="aGk=").fails(UPDATES)) == fails

    def test_updates_before_the_idle_are_right(self) -> None:
        assert at_work().cancel().says("a1", " stopped").idle("cancelled").barrier().passes(UPDATES)

    def test_background_work_goes_on(self) -> None:
        story = at_work().update("tool_call_update", toolCallId="c1", title="watch", status="in_progress").cancel()
        story.idle("cancelled", background=[{"type": "tool_call", "toolCallId": "c1"}])
        assert story.update("tool_call_update", toolCallId="c1", status="completed").passes(UPDATES)

    def test_background_work_listed_as_its_terminal_goes_on(self) -> None:
        content = [{"type": "terminal", "terminalId": "t1"}]
        story = at_work().update(
            "tool_call_update", toolCallId="c1", title="serve", status="in_progress", content=content
        )
        story.cancel().idle("cancelled", background=[{"type": "terminal", "terminalId": "t1"}])
        assert story.update("tool_call_update", toolCallId="c1", status="completed").passes(UPDATES)

    def test_a_background_item_of_an_unknown_type_may_be_the_call(self) -> None:
        story = at_work().update("tool_call_update", toolCallId="c1", title="watch", status="in_progress").cancel()
        story.idle("cancelled", background=[{"type": "_job", "id": "c1"}])
        assert story.update("tool_call_update", toolCallId="c1", status="completed").passes(UPDATES)

    def test_a_call_that_ran_before_the_work_is_not_of_it(self) -> None:
        story = Story(driven=False).begin().running()
        story.update("tool_call_update", toolCallId="c0", title="watch", status="in_progress").idle("end_turn")
        story.running().cancel().idle("cancelled").update("tool_call_update", toolCallId="c0", status="completed")
        assert story.passes(UPDATES)

    def test_a_call_that_a_replay_tells_of_while_at_work_may_be_of_earlier_work(self) -> None:
        story = Story(driven=False).begin().initialize(at="bob")
        story.update("tool_call_update", toolCallId="c0", title="watch", status="in_progress").running()
        resumed = story.resume(replay=True, at="bob")
        story.running(at="bob").update("tool_call_update", toolCallId="c0", status="in_progress", at="bob")
        story.reply(resumed, at="bob").cancel().idle("cancelled", at="bob")
        assert story.update("tool_call_update", toolCallId="c0", status="cancelled", at="bob").passes(UPDATES)

    def test_new_messages_usage_and_metadata_are_not_flagged(self) -> None:
        story = at_work().cancel().idle("cancelled").update("usage_update", used=1, size=2)
        story.update("agent_message", messageId="a1", _meta={"x": 1}).says("a9", "By the way")
        assert story.passes(UPDATES)

    def test_a_message_in_new_work_or_in_a_replay_is_not_flagged(self) -> None:
        story = at_work().cancel().idle("cancelled").after(2)
        resumed = story.resume(replay=True)
        story.update("agent_message", messageId="a1", content=[{"type": "text", "text": "Well"}]).idle("cancelled")
        story.reply(resumed).running().says("a1", " then").idle("end_turn")
        assert story.passes(UPDATES)


class TestPromptStillSucceeds:
    def reported(self) -> tuple[Story, object]:
        story = Story(driven=False).begin()
        first = story.prompt("Long job")
        return story.user("u1", "Long job").running(), first

    def test_an_error_to_an_inserted_prompt(self) -> None:
        story, first = self.reported()
        story.cancel().idle("cancelled").refuse(first, -32800)
        assert failed(story) == {SUCCEEDS}

    def test_one_that_only_a_replay_tells_of(self) -> None:
        story = Story(driven=False).begin()
        first = story.prompt("Long job")
        story.running().says("a1", "Well").cancel().refuse(first, -32800).idle("cancelled")
        replay = story.after(2).resume(replay=True)
        story.user("u1", "Long job").idle("cancelled").reply(replay)
        assert failed(story) == {SUCCEEDS}

    def test_another_error_after_a_request_cancel(self) -> None:
        story, first = self.reported()
        cancel_request(story, first).refuse(first, -32603)
        assert failed(story) == {SUCCEEDS}

    def test_success_is_right(self) -> None:
        story, first = self.reported()
        story.cancel().reply(first, messageId="u1").idle("cancelled")
        assert story.passes(SUCCEEDS)
        assert failed(story) == set()

    def test_a_prompt_that_was_not_inserted_may_be_refused(self) -> None:
        story = at_work()
        second = story.prompt("And this")
        assert story.cancel().refuse(second, -32800).idle("cancelled").silent(SUCCEEDS)

    def test_equal_texts_prove_nothing(self) -> None:
        story = at_work(text="continue")
        second = story.prompt("continue")
        assert story.user("u2", "continue").cancel().refuse(second, -32800).silent(SUCCEEDS)


class TestRequestBeforeInsertion:
    def test_cancelled_after_insertion(self) -> None:
        story = Story(driven=False).begin()
        first = story.prompt("Long job")
        story.user("u1", "Long job").running()
        cancel_request(story, first).refuse(first, -32800).idle("cancelled")
        assert failed(story) == {REQUEST}

    def test_cancelled_and_reported_later(self) -> None:
        story = at_work()
        second = story.prompt("And this")
        cancel_request(story, second).refuse(second, -32800).idle("end_turn").user("u2", "And this")
        assert story.fails(REQUEST)

    def test_cancelled_and_there_in_the_replay(self) -> None:
        story = at_work()
        second = story.prompt("And this")
        cancel_request(story, second).refuse(second, -32800).idle("end_turn").after(3)
        resumed = story.resume(replay=True)
        story.user("u1", "Long job").user("u2", "And this").idle().reply(resumed)
        assert story.fails(REQUEST)

    def test_an_old_message_of_a_resumed_session_is_no_proof(self) -> None:
        story = Story(driven=False).initialize()
        resumed = story.resume()
        story.idle().reply(resumed)
        first = story.prompt("continue")
        cancel_request(story, first).refuse(first, -32800)
        again = story.resume(replay=True)
        assert story.user("u0", "continue").idle().reply(again).fails(REQUEST) == []

    def test_two_responses(self) -> None:
        story = at_work()
        second = story.prompt("And this")
        cancel_request(story, second).refuse(second, -32800).reply(second, messageId="u2")
        assert "a cancelled prompt was answered twice" in story.fails(REQUEST)

    def test_no_response_though_the_work_has_ended(self) -> None:
        story = at_work()
        second = story.prompt("And this")
        cancel_request(story, second).idle("end_turn").after(60).barrier()
        assert story.fails(REQUEST) == ["a cancelled prompt was never answered"]

    def test_a_held_prompt_may_stay_pending_while_the_work_runs(self) -> None:
        story = at_work()
        second = story.prompt("And this")
        assert cancel_request(story, second).after(60).barrier().silent(REQUEST)

    def test_either_answer_before_insertion_is_right(self) -> None:
        story = at_work()
        second, third = story.prompt("And this"), story.prompt("And that")
        cancel_request(cancel_request(story, second), third).refuse(second, -32800).idle("end_turn")
        story.reply(third, messageId="u3").user("u3", "And that")
        assert story.passes(REQUEST)


class TestUnknownRequest:
    def test_ignored(self) -> None:
        assert cancel_request(at_work(), 99).barrier().passes(UNKNOWN)

    def test_an_unknown_id_is_answered(self) -> None:
        story = cancel_request(at_work(), 99).refuse(99, -32800).barrier()
        assert story.fails(UNKNOWN) == ["a $/cancel_request that cancels nothing was answered"]

    def test_of_a_request_before_the_recording(self) -> None:
        assert cancel_request(Story(driven=False), 99).refuse(99, -32800).fails(UNKNOWN) == []

    @pytest.mark.parametrize("params", [{}, {"requestId": None}])
    def test_one_that_names_nothing_and_a_line_that_cannot_be_read(self, params: Any) -> None:
        story = at_work().notify("$/cancel_request", params).client(b"{")
        assert story.refuse(None, -32700).barrier().fails(UNKNOWN) == []

    @pytest.mark.parametrize("is_driven", [True, False])
    def test_the_next_request_with_that_id_is_cancelled(self, is_driven: bool) -> None:
        story = cancel_request(at_work(driven=is_driven), 99).barrier()
        story.refuse(story.request("session/list", id=99), -32800)
        assert bool(story.fails(UNKNOWN)) is is_driven
        assert bool(story.warns(UNKNOWN)) is not is_driven

    def test_what_its_own_client_cancels_may_be(self) -> None:
        story = cancel_request(at_work(driven=True), 99)
        story.request("session/list", id=99)
        assert cancel_request(story, 99).refuse(99, -32800).fails(UNKNOWN) == []
        story = cancel_request(at_work(driven=True), 99)
        story.request("session/prompt", {"sessionId": "s", "prompt": []}, id=99)
        assert story.cancel().refuse(99, -32800).fails(UNKNOWN) == []

    @pytest.mark.parametrize(("code", "is_own"), [(-32800, False), (-32603, False), (-32800, True)])
    def test_a_request_of_another_client_with_that_id(self, code: int, is_own: bool) -> None:
        story = at_work(driven=True).initialize(at="bob")
        story.request("session/list", id=99, at="bob")
        if is_own:
            story.request("session/list", id=99)
        cancel_request(story, 99).refuse(99, code, at="bob")
        assert bool(story.fails(UNKNOWN)) is (code == -32800 and not is_own)

    def test_an_answered_request_is_answered_again(self) -> None:
        story = Story(driven=False).begin()
        listed = story.request("session/list")
        story.reply(listed, sessions=[])
        assert cancel_request(story, listed).refuse(listed, -32800).fails(UNKNOWN)

    def test_an_answer_that_crossed_the_cancel_is_right(self) -> None:
        story = Story(driven=False).begin()
        listed = story.request("session/list")
        assert cancel_request(story, listed).reply(listed, sessions=[]).barrier().silent(UNKNOWN)

    def test_the_agent_dies_of_it(self) -> None:
        story = cancel_request(at_work(driven=True), 99).control("exited", code=1, signal=None, by_itself=True)
        assert story.fails(UNKNOWN) == ["the agent ended at a $/cancel_request that it should ignore"]

    def test_we_ended_it(self) -> None:
        assert cancel_request(at_work(driven=True), 99).control("closed").silent(UNKNOWN)

    def test_nothing_is_answered_any_more(self) -> None:
        story = cancel_request(at_work(driven=True), 99)
        listed = story.request("session/list")
        assert story.after(15).control("waited", **{"for": "response", "id": listed, "seconds": 15}).fails(UNKNOWN)


class TestTheWorkOfAnAnsweredPrompt:
    @pytest.mark.parametrize(
        ("held", "reason", "also", "fails"),
        [
            (True, "cancelled", None, 1),
            (False, "cancelled", None, 0),  # it may have ended so by itself
            (True, "end_turn", None, 0),
            (True, "cancelled", "session/cancel", 0),
            (True, "cancelled", "another $/cancel_request", 0),
        ],
    )
    def test_stopped_by_a_cancel_of_its_request(self, held: bool, reason: str, also: str | None, fails: int) -> None:
        story = Story().begin()
        prompt = story.prompt("Hello", nonce="acp-1")
        story.user("u1", "Hello acp-1").reply(prompt, messageId="u1").running()
        story.control("model-request", number=1, nonce="acp-1", last_user=True)
        if held:
            story.control("model-held", number=1)
        story.notify("$/cancel_request", {"requestId": prompt})
        if also == "session/cancel":
            story.cancel()
        elif also is not None:
            story.notify("$/cancel_request", {"requestId": "other"})
        assert len(story.idle(reason).fails("cancel.unknown-request-ignored")) == fails


class TestHeldPrompts:
    def held(self) -> tuple[Story, object]:
        story = at_work()
        second = story.prompt("And this")
        return story.after(1).cancel(), second

    def test_refused_is_right(self) -> None:
        story, second = self.held()
        assert story.refuse(second, -32800).idle("cancelled").passes(HELD)

    def test_inserted_after_the_cancelled_work(self) -> None:
        story, second = self.held()
        story.idle("cancelled").after(0.1).reply(second, messageId="u2").user("u2", "And this").running().idle(
            "end_turn"
        )
        assert failed(story) == {HELD}

    def test_never_answered(self) -> None:
        story, _ = self.held()
        story.idle("cancelled").after(60).barrier()
        assert story.fails(HELD) == ["a held prompt was neither inserted nor refused after the cancel"]

    def test_inserted_before_the_work_ended_may_have_crossed(self) -> None:
        story, second = self.held()
        assert story.user("u2", "And this").reply(second, messageId="u2").idle("cancelled").silent(HELD)

    def test_another_code_is_a_warning(self) -> None:
        story, second = self.held()
        story.refuse(second, -32603).idle("cancelled")
        assert story.fails(HELD) == []
        assert story.warns(HELD)

    @pytest.mark.parametrize("is_second", [False, True])
    def test_an_insertion_while_a_second_cancel_is_on_its_way_is_a_warning(self, is_second: bool) -> None:
        story = Story().begin()
        first = story.prompt("Go on")
        if is_second:
            story.cancel()
        story.user("u1", "Go on").reply(first, messageId="u1").running()
        second = story.prompt("And this")
        story.cancel().idle("cancelled").after(0.1).user("u2", "And this").reply(second, messageId="u2").running()
        assert bool(story.warns(HELD)) == is_second
        assert bool(story.fails(HELD)) == (not is_second)

    def test_no_held_prompt_exercises_nothing(self) -> None:
        assert at_work().cancel().idle("cancelled").silent(HELD)


class TestPermissions:
    def test_a_late_approval_that_resumes_the_work(self) -> None:
        story = cancel_agent_request(ask(at_work()).cancel()).idle("cancelled").after(2)
        allow(story).running().update("tool_call_update", toolCallId="c1", status="in_progress")
        assert APPROVED in failed(story)
        assert UPDATES not in failed(story)

    def test_completed_after_a_late_approval(self) -> None:
        story = allow(cancel_agent_request(ask(at_work()).cancel()))
        story.update("tool_call_update", toolCallId="c1", status="completed").idle("cancelled")
        assert failed(story) == {APPROVED}

    def test_a_late_approval_that_is_ignored(self) -> None:
        story = cancel_agent_request(ask(at_work()).cancel())
        story.update("tool_call_update", toolCallId="c1", status="cancelled").idle("cancelled").after(2)
        assert allow(story).barrier().passes(APPROVED)
        assert failed(story) == set()

    @pytest.mark.parametrize("is_approved", [True, False])
    def test_the_effect_of_what_was_not_approved(self, is_approved: bool) -> None:
        story = cancel_agent_request(ask(at_work(driven=True)).cancel())
        story.update("tool_call_update", toolCallId="c1", status="cancelled").idle("cancelled")
        if is_approved:
            allow(story)
        story.control("tool-effect", at="", nonce=None, detail="the file is there")
        assert failed(story) == {APPROVED}
        assert story.fails("tool.denied-is-not-run") == []

    def test_the_effect_of_what_was_denied_or_approved_in_time(self) -> None:
        story = dismiss(ask(at_work(driven=True)).cancel()).idle("cancelled")
        assert story.control("tool-effect", at="", nonce=None).fails(APPROVED) == []
        story = ask(allow(ask(at_work(driven=True))), id=901, call="c2").cancel().idle("cancelled")
        assert story.control("tool-effect", at="", nonce=None).fails(APPROVED) == []

    def test_an_approval_before_the_cancel_counts(self) -> None:
        story = allow(ask(at_work())).cancel().update("tool_call_update", toolCallId="c1", status="in_progress")
        assert story.idle("cancelled").silent(APPROVED)

    def test_the_permission_of_an_earlier_work_s_call(self) -> None:
        """It goes on in the background, with no list that says so."""
        story = at_work().update("tool_call_update", toolCallId="c1", title="delete", status="pending")
        story.idle("end_turn")
        story.reply(story.prompt("More"), messageId="u2").user("u2", "More").running()
        story = allow(ask(story).says("a2", "Hm").cancel().idle("cancelled"))
        story.update("tool_call_update", toolCallId="c1", status="in_progress").after(60).barrier()
        assert story.silent(APPROVED)
        assert story.silent(WITHDRAWN)

    def test_completed_without_approval_may_be_a_refusal(self) -> None:
        story = cancel_agent_request(ask(at_work()).cancel())
        story.update("tool_call_update", toolCallId="c1", status="completed").idle("cancelled")
        assert story.fails(APPROVED) == []
        assert story.warns(APPROVED)

    def test_a_denied_call_that_runs_is_judged_elsewhere(self) -> None:
        story = dismiss(ask(at_work()).cancel()).update("tool_call_update", toolCallId="c1", status="in_progress")
        assert story.silent(APPROVED)

    def test_left_open_after_the_cancel(self) -> None:
        story = ask(at_work()).cancel().idle("cancelled").after(60).barrier()
        assert failed(story) == {WITHDRAWN}

    def test_answered_late_and_never_withdrawn(self) -> None:
        assert dismiss(ask(at_work()).cancel().idle("cancelled").after(5)).fails(WITHDRAWN)

    def test_withdrawn_is_right(self) -> None:
        assert dismiss(cancel_agent_request(ask(at_work()).cancel())).idle("cancelled").passes(WITHDRAWN)

    def test_answered_by_the_client_at_once_leaves_nothing_to_withdraw(self) -> None:
        story = dismiss(ask(at_work()).cancel()).idle("cancelled").barrier()
        assert story.silent(WITHDRAWN)
        assert failed(story) == set()

    def test_a_permission_of_background_work_is_not_covered(self) -> None:
        listed = [{"type": "tool_call", "toolCallId": "c1"}]
        story = (
            ask(at_work()).running(background=listed).cancel().idle("cancelled", background=listed).after(60).barrier()
        )
        assert story.silent(WITHDRAWN)


class TestIdleSession:
    def test_nothing_happens(self) -> None:
        story = Story(driven=False).begin().cancel().idle()
        first = story.prompt("Hi")
        story.reply(first, messageId="u1").user("u1", "Hi").running().says("a1", "Hi").idle("end_turn")
        assert story.passes(QUIET)

    def test_a_stale_cancel_that_ends_the_next_turn(self) -> None:
        story = at_work().idle("end_turn").cancel().after(2)
        second = story.prompt("And now?")
        story.reply(second, messageId="u2").user("u2", "And now?").running().idle("cancelled")
        assert failed(story) == {QUIET, ONLY}

    def test_the_notification_is_answered(self) -> None:
        story = (
            Story(driven=False)
            .begin()
            .cancel()
            .agent({"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "?"}})
        )
        assert story.fails(QUIET) == ["a notification was answered"]

    def test_a_cancel_with_a_prompt_on_its_way_is_no_idle_cancel(self) -> None:
        story = Story(driven=False).begin()
        first = story.prompt("Hi")
        story.cancel().reply(first, messageId="u1").user("u1", "Hi").running().idle("cancelled")
        assert story.silent(QUIET)
        assert failed(story) == set()


class TestOnlyWhenCancelled:
    def test_work_that_may_have_been_stopped_before_the_recording(self) -> None:
        story = Story(driven=False).running().idle("cancelled")
        assert story.silent(ONLY)
        story.reply(story.prompt("More"), messageId="u").user("u", "More").running().idle("cancelled")
        assert story.fails(ONLY)

    def test_work_that_nobody_stopped(self) -> None:
        story = at_work().idle("cancelled")
        assert failed(story) == {ONLY}
        assert story.fails(ONLY) == ["work that nobody stopped ended as cancelled"]

    def test_the_cancel_of_another_session(self) -> None:
        story = at_work()
        new = story.request("session/new", {"cwd": "/w"})
        story.reply(new, sessionId="t").cancel(session="t").idle("cancelled")
        assert failed(story) == {ONLY}

    def test_a_cancel_between_the_prompt_and_running(self) -> None:
        story = Story(driven=False).begin()
        first = story.prompt("Hi")
        story.reply(first, messageId="u1").cancel().user("u1", "Hi").running().idle("cancelled")
        assert story.passes(ONLY)

    def test_a_cancel_that_takes_effect_after_other_work(self) -> None:
        story = Story(driven=False).begin()
        first, second, third = story.prompt("One"), story.prompt("Two"), story.prompt("Three")
        for number, prompt in enumerate((first, second, third), 1):
            story.reply(prompt, messageId=f"u{number}").user(f"u{number}", f"{number}")
        story.running().cancel().idle("end_turn").running().idle("end_turn").running().idle("cancelled")
        assert story.passes(ONLY)

    def test_a_cancel_does_not_reach_a_prompt_that_came_after_it(self) -> None:
        story = Story(driven=False).begin()
        first = story.prompt("One")
        story.reply(first, messageId="u1").user("u1", "One").running().cancel().idle("cancelled")
        second = story.prompt("Two")
        story.reply(second, messageId="u2").user("u2", "Two").running().idle("cancelled")
        assert story.fails(ONLY)

    def test_agent_initiated_work_that_crossed_the_cancel(self) -> None:
        assert Story(driven=False).begin().cancel().running().idle("cancelled").passes(ONLY)

    def test_a_close_and_a_request_cancel_stop_work(self) -> None:
        story = at_work()
        closed = story.request("session/close", {"sessionId": "s"})
        assert story.idle("cancelled").reply(closed).passes(ONLY)
        assert cancel_request(at_work(), 3).idle("cancelled").passes(ONLY)

    def test_a_denied_permission_may_stop_work(self) -> None:
        story = ask(at_work()).answer(900, outcome={"outcome": "selected", "optionId": "n"})
        assert story.running().idle("cancelled").passes(ONLY)

    @pytest.mark.parametrize(("about", "fails"), [("s", 0), ("kid", 0), ("other", 1)])
    def test_a_permission_that_is_denied_in_another_session(self, about: str, fails: int) -> None:
        story = at_work().update("subagent_update", sessionId="kid", title="Kid").running(session=about)
        story.asks("session/request_permission", {"sessionId": about, "title": "May I?", "options": []})
        assert len(dismiss(story).idle("cancelled").fails(ONLY)) == fails

    def test_an_allowed_permission_stops_nothing(self) -> None:
        assert allow(ask(at_work())).running().idle("cancelled").fails(ONLY)

    def test_a_repeated_snapshot(self) -> None:
        story = at_work().cancel().idle("cancelled").after(5)
        resumed = story.resume()
        assert story.idle("cancelled").reply(resumed).idle("cancelled").passes(ONLY)

    def test_a_prompt_in_the_meantime_may_be_the_stop(self) -> None:
        story = at_work()
        second = story.prompt("/stop")
        story.reply(second, messageId="u2").user("u2", "/stop").idle("cancelled")
        assert story.fails(ONLY) == []
        assert story.warns(ONLY)

    @pytest.mark.parametrize("parent", ["s", "other"])
    def test_a_subagent_stops_with_the_session_that_it_works_for(self, parent: str) -> None:
        story = at_work().update("subagent_update", sessionId="kid", title="Kid", session=parent)
        story.running(session="kid").says("k", "Looking", session="kid").after(2).cancel()
        assert bool(story.idle("cancelled", session="kid").idle("cancelled").fails(ONLY)) is (parent != "s")

    def test_the_stop_of_its_subagent_may_stop_it(self) -> None:
        story = at_work().update("subagent_update", sessionId="kid", title="Kid").running(session="kid")
        story.cancel(session="kid").idle("cancelled", session="kid").idle("cancelled")
        assert (story.fails(ONLY), len(story.warns(ONLY))) == ([], 1)

    @pytest.mark.parametrize("method", ["auth/logout", "session/archive"])
    def test_what_a_client_may_stop_work_with(self, method: str) -> None:
        story = at_work()
        asked = story.request(method, {"sessionId": "s"} if method.startswith("session") else {})
        assert story.idle("cancelled").reply(asked).passes(ONLY)

    def test_a_client_that_left(self) -> None:
        assert at_work(driven=True).control("closed").idle("cancelled").passes(ONLY)

    def test_work_that_a_resume_found_open(self) -> None:
        story = Story(driven=False).initialize()
        resumed = story.resume()
        assert story.running().reply(resumed).idle("cancelled").fails(ONLY) == []

    def test_no_cancelled_idle_exercises_nothing(self) -> None:
        assert at_work().idle("end_turn").silent(ONLY)


def test_an_error_for_a_failure_that_came_before_the_cancel_is_told_by_the_rule_about_failures() -> None:
    story = Story(model="openai-chat").begin()
    first = story.prompt("Hello", nonce="acp-1")
    story.user("u1", "Hello acp-1").running()
    story.control("model-request", at="model", number=1, nonce="acp-1", group="chat", side=False, last_user=True)
    story.control("model-answered", at="model", number=1, how="fail", status=500, injected=True)
    story.cancel().refuse(first, -32603)
    assert story.fails("cancel.prompt-still-succeeds") == []


def test_a_cancel_on_its_way_when_the_prompt_was_sent_is_suspicious_only() -> None:
    story = Story().begin()
    story.cancel().reply(story.prompt("Hello", nonce="acp-1"), messageId="u1").user("u1", "Hello acp-1")
    story.running().idle("cancelled")
    assert story.fails("cancel.only-when-cancelled") == []
    assert len(story.warns("cancel.only-when-cancelled")) == 1
    assert story.fails(QUIET) == ["a cancel of an idle session ended the next work"]


@pytest.mark.parametrize("is_inserted_before", [True, False])
def test_a_cancel_that_two_prompts_crossed_may_have_stopped_both(is_inserted_before: bool) -> None:
    story = at_work()
    cancel = story.cancel()
    second = cancel.prompt("And now?")
    if is_inserted_before:
        story.user("u2", "And now?").reply(second, messageId="u2").barrier().idle("cancelled").running()
    else:
        story.idle("cancelled").running().user("u2", "And now?").reply(second, messageId="u2")
    story.idle("cancelled")
    assert story.fails("cancel.only-when-cancelled") == []
    assert len(story.warns("cancel.only-when-cancelled")) == 1


def test_work_that_began_before_its_prompt_was_inserted_may_have_met_the_cancel() -> None:
    story = Story().begin()
    prompt = story.cancel().prompt("Hello", nonce="acp-1")
    story.running().reply(prompt, messageId="u1").user("u1", "Hello acp-1").idle("cancelled")
    assert story.fails(QUIET) == []


def test_a_cancel_that_was_over_when_the_prompt_was_sent_is_a_stale_one() -> None:
    story = Story().begin()
    story.cancel().barrier().reply(story.prompt("Hello", nonce="acp-1"), messageId="u1").user("u1", "Hello acp-1")
    story.running().idle("cancelled")
    assert len(story.fails("cancel.only-when-cancelled")) == 1


def test_a_stop_that_crosses_the_beginning_of_the_agents_own_work_may_have_stopped_it() -> None:
    story = Story().begin()
    story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u1").user("u1", "Hello acp-1").running()
    story.cancel().cancel().idle("cancelled").running().idle("cancelled")
    assert story.fails("cancel.only-when-cancelled") == []


def test_a_call_that_is_cancelled_with_no_other_cause_shows_what_ended_the_work() -> None:
    story = at_work().update("tool_call_update", toolCallId="c1", title="walk", status="in_progress")
    story.cancel().after(0.06).update("tool_call_update", toolCallId="c1", status="cancelled").idle("end_turn")
    assert story.fails(ENDS) == ["cancelled work ended with 'end_turn'"]


def test_a_call_that_goes_on_after_a_cancelled_idle_which_lists_a_terminal_alone() -> None:
    story = at_work().update("tool_call_update", toolCallId="c1", title="walk", status="in_progress").cancel()
    story.idle("cancelled", background=[{"type": "terminal", "terminalId": "t1"}])
    story.update("tool_call_update", toolCallId="c1", status="completed")
    assert story.fails(UPDATES) == ["an update of the cancelled work came after the idle that reported its end"]


def test_work_of_which_the_user_refused_two_things_may_be_stopped_by_that() -> None:
    story = dismiss(ask(dismiss(ask(at_work())), id=901, call="c2"), id=901)
    assert story.idle("cancelled").passes(ONLY)


@pytest.mark.parametrize("is_first_answered", [True, False])
def test_an_error_for_an_inserted_prompt_whose_model_had_not_failed(is_first_answered: bool) -> None:
    story = Story(model="openai-chat").begin()
    first = story.prompt("Long job", nonce="acp-1")
    story.user("u1", "Long job acp-1").running()
    for number in (1, 2) if is_first_answered else (2,):
        story.control("model-request", at="", number=number, nonce="acp-1", last_user=True)
        if number == 1:
            story.control("model-answered", at="", number=1, how="call-tool")
    story.control("model-held", at="", number=2).after(2).cancel().idle("cancelled").refuse(first, -32603)
    assert SUCCEEDS in failed(story)


@pytest.mark.parametrize(("said", "fails"), [(0, 0), (3, 1)])
def test_a_held_prompt_that_is_inserted_after_a_cancel_that_the_agent_had_long_to_read(said: int, fails: int) -> None:
    story = at_work(driven=True).barrier()
    second = story.prompt("And this", nonce="acp-2")
    story.cancel()
    for _ in range(said):
        story.after(0.5).says("a1", ", well")
    story.after(2).idle("end_turn").after(0.1).user("u2", "And this acp-2").reply(second, messageId="u2")
    assert (len(story.fails(HELD)), len(story.warns(HELD))) == (fails, 1 - fails)


def test_a_held_prompt_that_is_inserted_after_a_cancel_that_the_agent_has_read() -> None:
    story = at_work(driven=True).barrier()
    second = story.prompt("And this", nonce="acp-2")
    story.cancel().barrier().idle("end_turn").after(0.1).user("u2", "And this acp-2").reply(second, messageId="u2")
    assert story.fails(HELD) == ["a held prompt was inserted after the cancel"]


@pytest.mark.parametrize("rule", [HELD, REQUEST, UNKNOWN])
@pytest.mark.parametrize("is_own", [True, False])
def test_a_wait_for_another_answer_says_nothing_of_this_one(rule: str, is_own: bool) -> None:
    story = at_work(driven=True)
    if rule == UNKNOWN:
        waits = cancel_request(story, 99).request("session/list")
    else:
        waits = story.prompt("And this", nonce="acp-2")
        story.after(1)
        (story.cancel() if rule == HELD else cancel_request(story, waits)).idle("cancelled")
    story.control("waited", **{"for": "response", "id": waits if is_own else "other", "seconds": 15})
    assert bool(story.fails(rule)) is is_own


def test_a_cancel_of_a_request_without_named_params_names_none() -> None:
    story = at_work().notify("$/cancel_request", [99]).barrier()
    assert story.silent(UNKNOWN)


def test_a_late_approval_of_what_is_no_tool_call() -> None:
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    asked = {"sessionId": "s", "title": "go out", "subject": {"type": "_network"}, "options": options}
    story = at_work().asks("session/request_permission", asked).after(1).cancel()
    assert allow(cancel_agent_request(story)).idle("cancelled").passes(APPROVED)


def test_a_call_that_was_approved_once_and_is_asked_for_once_more() -> None:
    story = allow(ask(ask(at_work()), id=901)).cancel()
    story.update("tool_call_update", toolCallId="c1", status="in_progress").idle("cancelled")
    assert story.fails(APPROVED) == []


def test_an_id_that_is_used_again_and_cancelled_too_late() -> None:
    story = at_work(driven=True)
    story.refuse(story.request("session/list", id=50), -32800)
    story.reply(story.request("session/list", id=50), sessions=[])
    assert cancel_request(story, 50).barrier().passes(UNKNOWN)


def test_cancelled_work_that_ends_with_no_stop_reason() -> None:
    assert at_work().cancel().after(3).idle().fails(ENDS) == ["cancelled work ended with no stop reason"]
