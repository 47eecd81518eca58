"""The state that a resume tells while another client of the server sees work."""

from __future__ import annotations

from typing import Any

import pytest

from tests.story import Story
from tests.test_rules_replay import SNAPSHOT

SAID = "the state was told as idle while work was open"


def held(*, transport: str = "websocket") -> Story:
    """ada's work, whose model request is held; bob is connected too."""
    story = Story(model="m")
    for name in ("ada", "bob"):
        story.control("started", at=name, transport=transport)
    story.begin().initialize(at="bob")
    prompt = story.prompt("one", nonce="acp-1")
    story.user("m1", "one acp-1").reply(prompt, messageId="m1").running()
    story.control("model-request", at="", number=1, nonce="acp-1", last_user=True)
    return story.control("model-held", at="", number=1).after(2)


def resumed(story: Story, state: str = "idle") -> Story:
    asked = story.resume(replay=True, at="bob")
    story.user("m1", "one acp-1", at="bob").update("state_update", state=state, at="bob")
    return story.reply(asked, at="bob").after(3)


def answered(story: Story, *, to: tuple[str, ...] = ("ada", "bob")) -> Story:
    story.control("model-released", at="", number=1).control("model-answered", at="", number=1)
    for name in to:
        story.says("a1", "Answer", at=name)
    for name in to:
        story.idle("end_turn", at=name)
    return story


@pytest.mark.parametrize(("state", "fails"), [("idle", [SAID]), ("running", [])])
def test_the_state_while_the_model_is_held(state: str, fails: list[str]) -> None:
    assert answered(resumed(held(), state)).fails(SNAPSHOT) == fails


def test_the_proof() -> None:
    story = answered(resumed(held()))
    history = story.recorder.history.events
    ran = next(event.seq for event in history if "'running'" in str(event.message))
    asked = next(event.seq for event in history if "'session/resume'" in str(event.message))
    output = next(e.seq for e in history if e.conn == "bob" and "Answer" in str(e.message))
    assert story.proof(SNAPSHOT) == [ran, ran + 1, asked, asked + 2, asked + 3, output]


def test_processes_know_nothing_of_each_other() -> None:
    assert answered(resumed(held(transport="stdio"))).fails(SNAPSHOT) == []


def test_a_client_that_is_never_told_of_the_work() -> None:
    assert answered(resumed(held()), to=("ada",)).fails(SNAPSHOT) == []


def test_work_that_a_cancel_may_have_ended() -> None:
    assert answered(resumed(held().cancel())).fails(SNAPSHOT) == []


def test_work_that_the_model_did_not_hold_all_the_time() -> None:
    story = held().control("model-released", at="", number=1).control("model-answered", at="", number=1)
    resumed(story).says("a1", "Answer").says("a1", "Answer", at="bob")
    assert story.idle("end_turn").idle("end_turn", at="bob").fails(SNAPSHOT) == []


RUNNING_ON = ["the state was told as idle while work was open"]


def at_work(**more: Any) -> Story:
    """A prompt that is worked on."""
    story = Story(**more).begin()
    return story.reply(story.prompt("one", nonce="acp-1"), messageId="m1").user("m1", "one acp-1").running()


def told(story: Story, state: str) -> Story:
    """A resume on the same connection, with this snapshot."""
    resumed = story.resume(replay=True)
    return story.user("m1", "one acp-1").update("state_update", state=state).reply(resumed)


@pytest.mark.parametrize("driven", [True, False])
def test_idle_amid_work_that_goes_on(driven: bool) -> None:
    story = told(at_work(driven=driven).says("a1", "Half "), "idle")
    story.says("a1", "of an answer").idle("end_turn")
    assert story.fails(SNAPSHOT) == RUNNING_ON
    assert story.fails("state.running-when-work-starts") == []


def test_idle_time_after_time() -> None:
    story = told(told(at_work().says("a1", "Half "), "idle"), "idle").says("a1", "of an answer").idle("end_turn")
    assert story.fails(SNAPSHOT) == RUNNING_ON
    assert story.fails("state.running-when-work-starts") == []


def test_work_that_ended_meanwhile() -> None:
    story = at_work().says("a1", "An answer")
    resumed = story.resume(replay=True)
    story.user("m1", "one acp-1").idle("end_turn").idle().reply(resumed).says("a2", "By the way")
    assert story.passes(SNAPSHOT)


def test_a_prompt_without_running_after_the_snapshot() -> None:
    story = told(at_work().says("a1", "An answer"), "idle")
    story.reply(story.prompt("two", nonce="acp-2"), messageId="m2").user("m2", "two acp-2").says("a2", "B")
    assert len(story.idle("end_turn").fails("state.running-when-work-starts")) == 1
    assert story.passes(SNAPSHOT)


@pytest.mark.parametrize(("chosen", "fails"), [("yes", RUNNING_ON), ("no", [])])
def test_idle_while_a_permission_is_asked_for(chosen: str, fails: list[str]) -> None:
    story = at_work().update("tool_call_update", toolCallId="c", title="Look", status="pending")
    options = [
        {"optionId": "yes", "name": "Y", "kind": "allow_once"},
        {"optionId": "no", "name": "N", "kind": "reject_once"},
    ]
    subject = {"type": "tool_call", "toolCall": {"toolCallId": "c", "title": "Look"}}
    asked = {"sessionId": "s", "title": "May I?", "subject": subject, "options": options}
    story.asks("session/request_permission", asked, id="p").update("state_update", state="requires_action")
    told(story, "idle").answer("p", outcome={"outcome": "selected", "optionId": chosen}).running()
    story.update("tool_call_update", toolCallId="c", title="Look", status="completed").idle("end_turn")
    assert story.fails(SNAPSHOT) == fails


@pytest.mark.parametrize("state", ["running", "requires_action"])
def test_busy_with_nothing(state: str) -> None:
    story = told(at_work(model="openai-chat").says("a1", "An answer").idle("end_turn").after(3), state)
    assert story.passes(SNAPSHOT)
    story.control("waited", **{"for": "idle", "session": "s", "seconds": 15})
    assert story.fails(SNAPSHOT) == [f"the state was told as {state}, and nothing was going on"]
    resumed, waited = story.proof(SNAPSHOT)[0], story.last.seq
    assert story.proof(SNAPSHOT) == [resumed, resumed + 2, resumed + 3, waited]


def test_busy_with_something() -> None:
    done = at_work(model="openai-chat").says("a1", "An answer").idle("end_turn").after(3)
    told(done, "running").says("a2", "I look around").control(
        "waited", **{"for": "idle", "session": "s", "seconds": 15}
    )
    assert done.passes(SNAPSHOT)


def joined(state: str, *, pause: float = 2.0, both: bool = True) -> Story:
    """A foreign recording: bob resumes while ada is told of work, and what both are told after that."""
    story = Story(driven=False).begin().initialize(at="bob")
    story.reply(story.prompt("one"), messageId="m1").user("m1", "one").running().says("a1", "Work")
    asked = story.after(2).resume(at="bob")
    story.update("state_update", state=state, at="bob").reply(asked, at="bob").after(pause)
    for name in ("ada", "bob") if both else ("ada",):
        story.says("a1", "ing", at=name)
    return story.idle("end_turn").idle("end_turn", at="bob")


def test_a_foreign_recording_in_which_another_client_sees_the_work() -> None:
    story = joined("idle")
    assert story.fails(SNAPSHOT) == [SAID]
    assert story.proof(SNAPSHOT) == [9, 11, 12, 13, 14, 15]


@pytest.mark.parametrize(
    "story", [joined("running"), joined("idle", pause=0), joined("idle", both=False)], ids=["told", "a burst", "alone"]
)
def test_a_foreign_recording_that_does_not_show_it(story: Story) -> None:
    assert story.fails(SNAPSHOT) == []


def test_a_whole_message_that_both_clients_are_told_after_the_window_may_be_an_edit() -> None:
    story = Story(driven=False).begin().initialize(at="bob")
    story.reply(story.prompt("one"), messageId="m1").user("m1", "one").running().says("a1", "Work")
    asked = story.after(2).resume(at="bob")
    story.idle(at="bob").reply(asked, at="bob").after(2)
    for name in ("ada", "bob"):
        story.update("agent_message", messageId="a1", content=[{"type": "text", "text": "Works"}], at=name)
    assert story.idle("end_turn").idle("end_turn", at="bob").fails(SNAPSHOT) == []


def test_an_agent_that_works_unasked_may_be_busy_with_what_it_does_not_tell() -> None:
    done = at_work(model="openai-chat").says("a1", "An answer").idle("end_turn")
    story = told(done.running().says("a2", "By the way").idle("end_turn").after(3), "running")
    story.control("waited", **{"for": "idle", "session": "s", "seconds": 15})
    assert story.passes(SNAPSHOT)


def test_a_model_request_of_another_session_holds_no_work_of_this_one() -> None:
    story = Story(model="m")
    for name in ("ada", "bob"):
        story.control("started", at=name, transport="websocket")
    story.begin().initialize(at="bob")
    story.reply(story.prompt("one", nonce="acp-1"), messageId="m1").user("m1", "one acp-1").running()
    story.control("model-request", at="", number=1, nonce="acp-9", last_user=True)
    story.control("model-held", at="", number=1).after(2)
    assert answered(resumed(story)).fails(SNAPSHOT) == []


def test_idle_amid_work_whose_model_request_is_held() -> None:
    story = at_work(model="m").control("model-request", at="", number=1, nonce="acp-1", last_user=True)
    story = told(story.control("model-held", at="", number=1), "idle").after(3)
    story.control("model-released", at="", number=1).control("model-answered", at="", number=1)
    story.says("a1", "An answer").idle("end_turn")
    assert story.fails(SNAPSHOT) == RUNNING_ON
    assert story.recorder.history.events[story.proof(SNAPSHOT)[1]].name == "model-request"


def test_busy_with_a_question_to_the_client() -> None:
    story = told(at_work(model="openai-chat").says("a1", "An answer").idle("end_turn").after(3), "requires_action")
    story.asks("elicitation/create", {"sessionId": "s", "mode": "form", "message": "Which one?"}, id="e")
    assert story.control("waited", **{"for": "idle", "session": "s", "seconds": 15}).passes(SNAPSHOT)
