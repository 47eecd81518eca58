"""The state that a resume tells while another client of the server sees work."""

from __future__ import annotations

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
