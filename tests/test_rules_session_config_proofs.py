"""Configuration options, closer: which events prove each fault, and what is near a fault and none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.story import Story
from tests.test_rules_session_list import select

RULE = "session.config-options"
MODE = select("mode", "ask", "ask", "code")
MODEL = select("model", "m1", "m1", "m2")
LEVEL = select("level", "low", "low", "high")


def having(*options: Any) -> Story:
    """The options are told by event 4; a setting is 5 and its answer 6."""
    story = Story().initialize()
    return story.reply(story.request("session/new", {"cwd": "/w"}), sessionId="s", configOptions=list(options))


def set_(story: Story, name: Any, value: Any, **more: Any) -> Any:
    params = {"sessionId": "s", "configId": name, "type": "id", "value": value} | more
    return story.request("session/set_config_option", params)


def test_the_proof() -> None:
    assert having(MODE, MODE).proof(RULE) == [4]
    story = having(MODE)
    assert story.reply(set_(story, "mode", "code")).proof(RULE) == [4, 5, 6]
    story = having(MODE)
    assert story.reply(set_(story, "mode", "x"), configOptions=[MODE]).proof(RULE) == [4, 5, 6]
    for code in (-32601, -32603):
        story = having(MODE)
        assert story.refuse(set_(story, "mode", "x"), code).proof(RULE) == [4, 5, 6]
    story = having(MODE, MODEL, LEVEL)
    assert story.reply(set_(story, "mode", "code"), configOptions=[MODE]).proof(RULE) == [4, 5, 6]
    story = having(MODE, MODEL)
    story.reply(set_(story, "mode", "code"), configOptions=[MODE])
    story.reply(set_(story, "model", "m2"), configOptions=[MODE, MODEL])
    (finding,) = [f for f in story.outcome(RULE).findings if f.kind == "violation"]
    assert [event.seq for event, _ in finding.because] == [4, 6, 7, 8]


def test_an_answer_without_a_list_and_then_another_setting() -> None:
    story = having(MODE)
    story.reply(set_(story, "mode", "code")).reply(set_(story, "mode", "x"), configOptions=[MODE])
    assert len(story.fails(RULE)) == 2


@pytest.mark.parametrize("code", [-32000, -32002])
def test_refused_for_another_reason(code: int) -> None:
    story = having(MODE)
    assert story.refuse(set_(story, "mode", "x"), code).fails(RULE) == []


def test_a_setting_that_the_client_cancelled() -> None:
    story = having(MODE)
    id = set_(story, "mode", "x")
    assert story.notify("$/cancel_request", {"requestId": id}).refuse(id, -32800).fails(RULE) == []


@pytest.mark.parametrize(
    ("name", "value", "more"),
    [(5, "x", {}), (None, "x", {}), ("mode", "x", {"type": "boolean"}), ("mode", True, {}), ("flag", "x", {})],
)
def test_what_nobody_can_tell_to_be_offered(name: Any, value: Any, more: Any) -> None:
    flag = {"configId": "flag", "name": "flag", "type": "_own", "currentValue": 1}
    story = having(MODE, flag)
    assert story.refuse(set_(story, name, value, **more), -32603).fails(RULE) == []


@pytest.mark.parametrize("name", [{}, [], 5])
def test_a_name_of_another_shape(name: Any) -> None:
    story = having(MODE, MODEL, LEVEL)
    story.reply(set_(story, name, "x"), configOptions=[MODE])
    assert story.fails(RULE) == []
    assert story.warns(RULE)


def test_an_option_of_a_type_of_its_own_may_list_anything() -> None:
    assert having({**select("x", "other", "a", "a"), "type": "_tree"}).passes(RULE)


def test_an_option_that_the_answer_has() -> None:
    story = having(MODE)
    story.reply(set_(story, "model", "m1"), configOptions=[MODE, MODEL])
    assert story.fails(RULE) == []


def test_a_session_without_options() -> None:
    story = having()
    assert story.reply(set_(story, "mode", "x")).silent(RULE)
    story = Story().begin()
    assert story.refuse(set_(story, "mode", "x"), -32603).silent(RULE)


def test_by_the_list_that_the_client_had() -> None:
    story = having(MODE)
    id = set_(story, "mode", "plan")
    story.update("config_option_update", configOptions=[select("mode", "plan", "ask", "plan")])
    assert story.refuse(id, -32603).proof(RULE) == [4, 5, 7]
    story = having(MODE).update("config_option_update", configOptions=[select("mode", "plan", "ask", "plan")])
    assert story.refuse(set_(story, "mode", "plan"), -32603).fails(RULE) == []


def test_an_option_that_another_client_took_away() -> None:
    for taken in (True, False):
        story = having(MODE, MODEL)
        id = set_(story, "mode", "ask")
        if taken:
            story.update("config_option_update", configOptions=[MODE])
        assert len(story.reply(id, configOptions=[MODE]).fails(RULE)) == (not taken)


def test_each_session_has_its_own() -> None:
    story = having(MODE)
    story.reply(story.request("session/new", {"cwd": "/w"}), sessionId="t", configOptions=[MODEL])
    story.reply(set_(story, "model", "m2", sessionId="t"), configOptions=[MODEL])
    story.reply(story.request("session/resume", {"sessionId": "u", "cwd": "/w"}), configOptions=[LEVEL])
    assert story.reply(set_(story, "level", "x", sessionId="u"), configOptions=[LEVEL]).proof(RULE) == [10, 11, 12]


def test_an_answer_with_no_option_left() -> None:
    story = having(MODE, MODEL)
    assert len(story.reply(set_(story, "mode", "code"), configOptions=[]).fails(RULE)) == 1


@pytest.mark.parametrize(("options", "fails"), [([5], 0), ([{"value": 5}], 0), ([{"options": 5, "value": "x"}], 1)])
def test_choices_of_another_shape(options: Any, fails: int) -> None:
    assert len(having({**MODE, "options": options}).fails(RULE)) == fails
