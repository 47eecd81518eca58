"""Cancellation, closer: which events prove each fault, and what is near a fault and none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.story import Story
from tests.test_rules_cancel import (
    ABORT,
    APPROVED,
    ENDS,
    HELD,
    ONLY,
    QUIET,
    REQUEST,
    SUCCEEDS,
    UNKNOWN,
    UPDATES,
    WITHDRAWN,
    allow,
    ask,
    at_work,
    cancel_agent_request,
    cancel_request,
    dismiss,
)


class TestEnds:
    """In `at_work()` work begins with event 7, and the cancel after it is 9; driven two later each."""

    def test_the_proof(self) -> None:
        assert at_work().cancel().after(60).barrier().proof(ENDS) == [7, 9, 11]
        assert at_work().cancel().after(3).idle("end_turn").proof(ENDS) == [7, 9, 10]
        waited = at_work(driven=True).cancel().control("waited", **{"for": "idle", "session": "s", "seconds": 15})
        assert waited.proof(ENDS) == [9, 11, 12]
        story = at_work().cancel().after(45)
        story.reply(story.prompt("Hello?"), messageId="u2").user("u2", "Hello?").idle("end_turn")
        assert story.proof(ENDS) == [7, 9, 10]
        assert at_work().says("a1", "!").cancel().after(0.1).idle("end_turn").proof(ENDS) == [7, 10, 11]

    def test_what_cut_it_short(self) -> None:
        story = at_work().update("tool_call_update", toolCallId="c1", title="walk", status="in_progress")
        story.cancel().update("tool_call_update", toolCallId="c1", status="cancelled").idle("end_turn")
        assert story.proof(ENDS) == [7, 10, 11, 12]
        story = ask(at_work()).cancel()
        dismiss(story).idle("end_turn")
        assert story.proof(ENDS) == [7, 10, 12, 14]

    def held(self, **answered: int) -> Story:
        story = at_work(driven=True)
        story.control("model-request", number=1, nonce="acp-1", group="chat", side=False, last_user=True)
        story.control("model-held", number=1).cancel()
        if answered:
            story.control("model-released", number=1)
        return story.idle("end_turn")

    def test_a_model_that_was_held_until_the_end(self) -> None:
        assert self.held().proof(ENDS) == [9, 12, 13, 14]
        assert self.held(released=1).fails(ENDS) == []

    def test_a_model_that_was_held_for_another_session_or_only_then(self) -> None:
        story = at_work(driven=True).cancel()
        story.control("model-request", number=1, nonce="acp-1", group="chat", side=False, last_user=True)
        assert story.control("model-held", number=1).idle("end_turn").fails(ENDS) == []
        story = at_work(driven=True)
        story.control("model-request", number=1, nonce="acp-9", group="chat", side=False, last_user=True)
        assert story.control("model-held", number=1).cancel().idle("end_turn").fails(ENDS) == []

    @pytest.mark.parametrize("how", ["withdrawn before", "answered before", "approved"])
    def test_a_permission_that_cuts_nothing_short(self, how: str) -> None:
        story = ask(at_work())
        if how == "withdrawn before":
            cancel_agent_request(story)
        if how == "answered before":
            dismiss(story)
        story.cancel()
        if how == "approved":
            allow(story)
        if how == "withdrawn before":
            dismiss(story)
        assert story.idle("end_turn").fails(ENDS) == []

    @pytest.mark.parametrize(("gap", "found"), [(0.03, (0, 0)), (0.045, (0, 1)), (0.2, (0, 1)), (0.25, (1, 0))])
    def test_how_soon_an_end_may_have_crossed(self, gap: float, found: Any) -> None:
        story = at_work().says("a1", "!").cancel().after(gap).idle("end_turn")
        assert (len(story.fails(ENDS)), len(story.warns(ENDS))) == found

    def test_output_long_before_makes_no_natural_end(self) -> None:
        assert at_work().cancel().after(0.1).idle("end_turn").fails(ENDS)
        story = at_work().update("usage_update", used=1, size=2).cancel().after(0.1).idle("end_turn")
        assert story.fails(ENDS)

    @pytest.mark.parametrize("kind", ["tool_call_update", "tool_call_content_chunk", "agent_thought_chunk"])
    def test_output_of_every_kind(self, kind: str) -> None:
        story = at_work().update(kind, toolCallId="c", messageId="t", title="t").cancel().after(0.1).idle("end_turn")
        assert (story.fails(ENDS), len(story.warns(ENDS))) == ([], 1)

    @pytest.mark.parametrize("which", ["session/close", "session/delete"])
    def test_a_close_or_delete_after_it(self, which: str) -> None:
        story = at_work().cancel()
        story.request(which, {"sessionId": "s"})
        assert story.after(60).barrier().silent(ENDS)
        story = at_work()
        story.request("session/delete", {"sessionId": "s"})
        assert story.cancel().after(60).barrier().fails(ENDS)

    def test_what_the_agent_waits_for(self) -> None:
        story = at_work().asks("_vendor/input", {"sessionId": "s"}, id=7).answer(7).cancel().after(60).barrier()
        assert story.fails(ENDS)
        story = at_work().asks("_vendor/input", {"sessionId": "s"}, id=7).cancel()
        assert cancel_agent_request(story, 7).after(60).barrier().fails(ENDS)


class TestAborts:
    def test_the_proof(self) -> None:
        assert at_work().cancel().after(1).idle("error").proof(ABORT) == [7, 9, 10]
        assert at_work().cancel().idle("error").warns(ABORT)
        assert at_work().cancel().idle("error").proof(ABORT) == [7, 9, 10]

    @pytest.mark.parametrize("words", ["Aborted", "was CANCELLED", "interrupted"])
    def test_what_names_an_abort(self, words: str) -> None:
        story = at_work().cancel().idle("error", error={"code": -32603, "message": words})
        assert story.fails(ABORT) == ["cancelled work was reported as failed"]

    @pytest.mark.parametrize(("gap", "fails"), [(0.03, 0), (0.04, 1)])
    def test_how_soon_it_may_have_failed_by_itself(self, gap: float, fails: int) -> None:
        assert len(at_work().cancel().after(gap).idle("error").fails(ABORT)) == fails

    def test_another_end_that_did_not_cross_exercises_it(self) -> None:
        assert at_work().cancel().after(3).idle("end_turn").passes(ABORT)
        assert at_work().says("a1", "!").cancel().idle("end_turn").silent(ABORT)


class TestUpdates:
    def test_the_proof(self) -> None:
        assert at_work().cancel().idle("cancelled").says("a1", "!").says("a1", "?").proof(UPDATES) == [8, 10, 11]
        story = at_work().update("tool_call_update", toolCallId="c1", title="walk", status="in_progress").cancel()
        story.idle("cancelled").update("tool_call_update", toolCallId="c1", status="completed")
        assert story.proof(UPDATES) == [9, 11, 12]

    def test_any_update_of_a_message_with_content(self) -> None:
        story = at_work().cancel().idle("cancelled").update("agent_message", messageId="a1", content=None)
        assert story.fails(UPDATES)
        story = at_work().cancel().idle("cancelled").user("u1", "Long job")
        assert story.passes(UPDATES)

    def test_lists_that_stood_at_the_end(self) -> None:
        job = {"type": "tool_call", "toolCallId": "c1"}

        def ended(*lists: Any) -> Story:
            story = Story(driven=False).begin().running()
            story.update("tool_call_update", toolCallId="c1", title="watch", status="in_progress")
            for listed in lists[:-1]:
                story.running(background=listed)
            story.cancel().idle("cancelled", background=lists[-1])
            return story.update("tool_call_update", toolCallId="c1", status="completed")

        assert ended([job], []).passes(UPDATES)
        assert ended([job], [], []).fails(UPDATES)
        assert ended([5]).passes(UPDATES)
        assert ended([{"type": "terminal", "terminalId": "c1"}]).passes(UPDATES)


class TestPrompts:
    def reported(self) -> tuple[Story, Any]:
        story = Story(driven=False).begin()
        first = story.prompt("Long job")
        return story.user("u1", "Long job").running(), first

    def test_an_inserted_one(self) -> None:
        story, first = self.reported()
        story.cancel().idle("cancelled").refuse(first, -32800)
        assert story.proof(SUCCEEDS) == [4, 5, 7, 9]
        story, first = self.reported()
        assert cancel_request(story, first).refuse(first, -32800).silent(SUCCEEDS)
        assert story.proof(REQUEST) == [4, 5, 7, 8]
        story, first = self.reported()
        assert cancel_request(story.cancel(), first).refuse(first, -32603).proof(SUCCEEDS) == [4, 5, 7, 9]

    def test_a_report_after_the_cancel_exercises_nothing(self) -> None:
        story = Story(driven=False).begin()
        first = story.prompt("Long job")
        story.cancel().user("u1", "Long job").reply(first, messageId="u1")
        assert story.silent(SUCCEEDS)

    def test_a_cancel_after_the_answer(self) -> None:
        story, first = self.reported()
        story.refuse(first, -32603)
        assert cancel_request(story, first).silent(SUCCEEDS)
        assert story.silent(REQUEST)

    def test_answered_twice(self) -> None:
        story = at_work()
        second = story.prompt("And this")
        cancel_request(story, second).refuse(second, -32800).refuse(second, -32800)
        assert story.proof(REQUEST) == [9, 10, 11, 12]
        story.barrier().reply(99)
        assert story.proof(REQUEST) == [9, 10, 11, 12]
        other = story.request("session/list")
        assert story.reply(other, sessions=[]).reply(other, sessions=[]).passes(REQUEST)

    def test_held_for_ever(self) -> None:
        story = at_work()
        second = story.prompt("And this")
        cancel_request(story, second).idle("end_turn").after(60).barrier()
        assert story.proof(REQUEST) == [7, 9, 10, 11, 13]

    @pytest.mark.parametrize("meanwhile", ["running", "cancel", "close"])
    def test_held_for_ever_with_a_reason(self, meanwhile: str) -> None:
        story = at_work()
        second = story.prompt("And this")
        cancel_request(story, second).idle("end_turn").after(20)
        if meanwhile == "running":
            story.running().idle("end_turn")
        if meanwhile == "cancel":
            story.cancel()
        if meanwhile == "close":
            story.reply(story.request("session/close", {"sessionId": "s"}))
        assert story.after(40).barrier().fails(REQUEST) == []

    def test_outlived(self) -> None:
        story = at_work()
        second = story.prompt("And this")
        story.cancel().idle("cancelled").after(1).user("u2", "And this").reply(second, messageId="u2")
        assert story.proof(HELD) == [7, 9, 10, 11, 12]
        story = at_work()
        story.prompt("And this")
        story.cancel().idle("cancelled").after(60).barrier()
        assert story.proof(HELD) == [7, 9, 10, 11, 13]
        story = at_work()
        second = story.prompt("And this")
        story.cancel().refuse(second, -32603).idle("cancelled")
        assert story.proof(HELD) == [7, 9, 10, 11]

    @pytest.mark.parametrize(("gap", "fails"), [(0.02, 0), (0.04, 1)])
    def test_how_soon_an_insertion_may_have_crossed(self, gap: float, fails: int) -> None:
        story = at_work()
        second = story.prompt("And this")
        story.cancel().idle("cancelled").after(gap - 0.01).user("u2", "And this").reply(second, messageId="u2")
        assert len(story.fails(HELD)) == fails

    def test_work_that_began_after_the_prompt_holds_nothing(self) -> None:
        story = Story(driven=False).begin()
        first = story.prompt("Long job")
        story.running().cancel().idle("cancelled").after(1).user("u1", "Long job").reply(first, messageId="u1")
        assert story.silent(HELD)


class TestUnknown:
    def test_the_proof(self) -> None:
        story = cancel_request(Story(driven=False).begin(), 77)
        assert story.refuse(77, -32800).refuse(77, -32800).proof(UNKNOWN) == [4, 5]
        story = Story(driven=False).begin()
        listing = story.request("session/list")
        cancel_request(story.reply(listing, sessions=[]), listing).refuse(listing, -32800)
        assert story.proof(UNKNOWN) == [4, 5, 6, 7]
        story = cancel_request(Story().begin(), 77).control("exited", by_itself=True)
        assert story.proof(UNKNOWN) == [5, 6]
        story = cancel_request(Story().begin(), 77)
        listing = story.request("session/list")
        story.control("waited", **{"for": "response", "id": listing, "seconds": 15})
        assert story.proof(UNKNOWN) == [5, 6, 7]

    def test_the_end_after_more_was_sent(self) -> None:
        story = cancel_request(Story().begin(), 77)
        story.request("session/list")
        assert story.control("disconnected").proof(UNKNOWN) == [5, 7]
        story = cancel_request(Story().begin(), 77)
        story.request("session/list")
        story.request("session/list")
        assert story.control("disconnected").fails(UNKNOWN) == []

    def test_it_lived_on(self) -> None:
        story = cancel_request(Story().begin(), 77).running().control("exited", by_itself=True)
        assert story.fails(UNKNOWN) == []

    def test_a_second_answer_from_before(self) -> None:
        story = Story(driven=False).begin()
        listing = story.request("session/list")
        story.reply(listing, sessions=[]).reply(listing, sessions=[])
        assert cancel_request(story, listing).barrier().passes(UNKNOWN)


class TestPermissions:
    def test_the_proof(self) -> None:
        def went_on(status: str, *, approved: bool = True) -> Story:
            story = ask(at_work()).cancel()
            if approved:
                allow(story)
            return story.update("tool_call_update", toolCallId="c1", status=status)

        assert went_on("in_progress").proof(APPROVED) == [10, 12, 13, 14]
        assert went_on("completed").proof(APPROVED) == [10, 12, 13, 14]
        assert went_on("in_progress", approved=False).proof(APPROVED) == [10, 12, 13]
        story = went_on("completed", approved=False)
        assert (story.fails(APPROVED), story.proof(APPROVED)) == ([], [10, 12, 13])

    def test_the_proof_of_an_effect(self) -> None:
        story = allow(ask(at_work(driven=True)).cancel())
        asked = story.last.seq - 3
        story.control("tool-effect", at="", nonce=None)
        assert story.proof(APPROVED) == [asked, asked + 2, asked + 3, asked + 4]

    def test_a_call_that_already_ran_goes_on(self) -> None:
        story = at_work()
        story = ask(story)
        story.update("tool_call_update", toolCallId="c1", status="in_progress").cancel()
        assert allow(story).update("tool_call_update", toolCallId="c1", status="in_progress").passes(APPROVED)

    def test_not_withdrawn(self) -> None:
        assert ask(at_work()).cancel().after(60).barrier().proof(WITHDRAWN) == [10, 12, 14]
        assert dismiss(ask(at_work()).cancel().after(1)).proof(WITHDRAWN) == [10, 12, 13]
        assert dismiss(ask(at_work()).cancel().after(0.9)).fails(WITHDRAWN) == []
        assert ask(at_work()).cancel().idle("cancelled").barrier().proof(WITHDRAWN) == [10, 12, 15]

    def test_withdrawn_before_the_cancel(self) -> None:
        story = cancel_agent_request(ask(at_work())).cancel().after(60).barrier()
        assert story.silent(WITHDRAWN)


class TestOnly:
    def test_the_proof(self) -> None:
        assert at_work().idle("cancelled").proof(ONLY) == [4, 9]
        assert Story(driven=False).begin().running().idle("cancelled").proof(ONLY) == [4, 5]
        story = Story(driven=False).begin().cancel().after(5).barrier()
        story.reply(story.prompt("Hi"), messageId="u").user("u", "Hi").running().idle("cancelled")
        assert story.proof(ONLY) == [4, 7, 11]
        assert story.proof(QUIET) == [4, 7, 11]

    def test_a_notification_that_is_answered(self) -> None:
        story = Story(driven=False).begin().cancel().refuse(None, -32601)
        assert story.proof(QUIET) == [4, 5]
        story = Story(driven=False).begin().cancel()
        story.request("session/list")
        assert story.refuse(None, -32601).fails(QUIET) == []

    @pytest.mark.parametrize(
        "method", ["_vendor/stop", "session/set_config_option", "session/cancel_all", "terminal/kill"]
    )
    def test_what_else_of_a_client_may_stop_work(self, method: str) -> None:
        story = at_work()
        story.request(method, {"sessionId": "s"})
        assert story.idle("cancelled").passes(ONLY)
        story = at_work()
        story.request("session/list")
        assert story.idle("cancelled").fails(ONLY)

    @pytest.mark.parametrize(("method", "passes"), [("_vendor/stop", True), ("$/cancel_request", True), ("x", False)])
    def test_notifications_that_may_stop_work(self, method: str, passes: bool) -> None:
        assert at_work().notify(method, {"requestId": 1}).idle("cancelled").passes(ONLY) is passes

    def test_a_stop_that_is_said_wrongly(self) -> None:
        for method in ("session/cancel", "$/cancel_request"):
            story = at_work()
            story.request(method, {"sessionId": "s"})
            assert story.idle("cancelled").passes(ONLY), method
        assert at_work().notify("session/close", {"sessionId": "s"}).idle("cancelled").passes(ONLY)
        assert at_work().notify("session/cancel", {"session": "s"}).idle("cancelled").passes(ONLY)
        assert len(at_work().cancel(session="t").idle("cancelled").fails(ONLY)) == 1
        asked = at_work().asks("session/request_permission", {"sessionId": "s", "title": "?", "options": []}, id=5)
        assert asked.answer("5", outcome={"outcome": "cancelled"}).idle("cancelled").passes(ONLY)

    def test_a_prompt_in_the_meantime(self) -> None:
        story = at_work()
        story.prompt("No, wait")
        story.idle("cancelled")
        assert story.warns(ONLY) == ["work ended as cancelled; a prompt that came meanwhile may have stopped it"]
        assert story.proof(ONLY) == [4, 10]
        story = at_work().user("x", "No, wait").idle("cancelled")
        assert (story.fails(ONLY), story.proof(ONLY)) == ([], [4, 10])
