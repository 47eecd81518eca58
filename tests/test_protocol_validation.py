"""A value has the shape of its definition, or there are sentences that say where and why not."""

from __future__ import annotations

from random import Random
from typing import Any

import jsonschema
import pytest

from conformance.protocol.json_schema import json_schema, stable_definitions
from conformance.protocol.methods import AGENT_METHODS, CLIENT_METHODS, Side
from conformance.protocol.validation import (
    error_problems,
    params_problems,
    problems_of,
    result_problems,
)
from tests.generated import ODDITIES, Maker, mutated


def update(**fields: Any) -> dict[str, Any]:
    return {"sessionId": "s", "update": fields}


TOOL = {"sessionUpdate": "tool_call_update", "toolCallId": "t"}
FORM = {"message": "m", "mode": "form", "sessionId": "s", "requestedSchema": {"type": "object", "properties": {}}}


@pytest.mark.parametrize(
    ("params", "sentences"),
    [
        (
            update(sessionUpdate="agent_message", messageId="m", content=[{"type": "text", "text": None}]),
            ["update.content[0].text is null, must be a string (TextContent)"],
        ),
        (update(sessionUpdate="agent_message"), ["update.messageId is missing, must be a string (AgentMessage)"]),
        (update(), ["update.sessionUpdate is missing, must be a string (SessionUpdate)"]),
        (update(sessionUpdate=5), ["update.sessionUpdate is 5, must be a string (SessionUpdate)"]),
        ({"sessionId": "s", "update": None}, ["update is null, must be an object (SessionUpdate)"]),
        ([], ["params is an empty array, must be an object (UpdateSessionNotification)"]),
        (None, ["params is null, must be an object (UpdateSessionNotification)"]),
        (update(sessionUpdate="state_update"), ["update.state is missing, must be a string (StateUpdate)"]),
        (
            update(sessionUpdate="state_update", state="idle", stopReason=5),
            ["update.stopReason is 5, must be a string or null (IdleStateUpdate)"],
        ),
        (
            update(sessionUpdate="state_update", state="idle", stopReason="error", error={"code": "x"}),
            [
                'update.error.code is "x", must be an integer (Error)',
                "update.error.message is missing, must be a string (Error)",
            ],
        ),
        (
            update(sessionUpdate="usage_update", used=-1, size=1.5),
            [
                "update.used is -1, must be at least 0 (UsageUpdate)",
                "update.size is 1.5, must be an integer (UsageUpdate)",
            ],
        ),
        (
            update(sessionUpdate="notice", severity="info", title=""),
            ['update.title is "", must have at least 1 character (Notice)'],
        ),
        (update(**TOOL, kind=5), ["update.kind is 5, must be a string or null (ToolCallUpdate)"]),
        (
            update(**TOOL, content=[{"type": "diff", "changes": [{"operation": "move", "path": "/x"}]}]),
            ["update.content[0].changes[0].oldPath is missing, must be a string (DiffPathPairChange)"],
        ),
        (
            update(**TOOL, content=[{"type": "content", "content": {"type": "resource", "resource": {"uri": "u"}}}]),
            [
                "update.content[0].content.resource has neither text nor blob, must have one of them "
                "(EmbeddedResourceResource)"
            ],
        ),
        (update(sessionUpdate="_mine", whatever=None), []),
        (update(sessionUpdate="plan_removed", planId=5), []),
        (update(sessionUpdate="state_update", state="idle", stopReason="_tired", error=5), []),
        (update(sessionUpdate="state_update", state="idle", stopReason=None), []),
        (update(sessionUpdate="state_update", state="idle", usage="unstable"), []),
    ],
)
def test_an_update_is_right_or_says_where_it_is_wrong(params: Any, sentences: list[str]) -> None:
    assert [problem.message for problem in params_problems("session/update", params, "agent")] == sentences


@pytest.mark.parametrize(
    ("params", "sentences"),
    [
        (FORM, []),
        ({**FORM, "requestId": 1}, ["params has both sessionId and requestId, must have only one of them"]),
        (
            {**FORM, "mode": "_x", "requestId": 1},
            ["params has both sessionId and requestId, must have only one of them"],
        ),
        (
            {"message": "m", "mode": "url", "elicitationId": "e", "url": "u"},
            ["params has neither sessionId nor requestId, must have one of them"],
        ),
        (
            {"message": "m", "mode": "url", "elicitationId": "e", "url": "u", "requestId": True},
            ["requestId is true, must be an integer or a string"],
        ),
        (
            {**FORM, "requestedSchema": {"type": "array", "properties": {"a b": {"type": "string", "minLength": -1}}}},
            [
                'requestedSchema.type is "array", must be "object"',
                'requestedSchema.properties["a b"].minLength is -1, must be at least 0',
            ],
        ),
    ],
)
def test_an_elicitation_is_right_or_says_where_it_is_wrong(params: Any, sentences: list[str]) -> None:
    problems = params_problems("elicitation/create", params, "agent")
    assert [problem.message.rpartition(" (")[0] for problem in problems] == sentences


@pytest.mark.parametrize(
    ("method", "result", "sentences"),
    [
        ("session/prompt", {"messageId": "u1"}, []),
        ("session/prompt", {}, ["messageId is missing, must be a string (PromptResponse)"]),
        ("session/prompt", {"messageId": None}, ["messageId is null, must be a string (PromptResponse)"]),
        ("session/close", None, ["result is null, must be an object (CloseSessionResponse)"]),
        ("session/close", {}, []),
        (
            "initialize",
            {"protocolVersion": 70_000, "info": {"name": "n"}, "capabilities": {"session": True}},
            [
                "protocolVersion is 70000, must be at most 65535 (InitializeResponse)",
                "info.version is missing, must be a string (Implementation)",
                "capabilities.session is true, must be an object or null (SessionCapabilities)",
            ],
        ),
        (
            "session/set_config_option",
            {"configOptions": [{"configId": "c", "name": "n", "type": "select", "currentValue": "v", "options": []}]},
            ["configOptions[0].options is an empty array, must have at least 1 item (SessionConfigSelectOptions)"],
        ),
        ("session/fork", None, []),
        ("_mine", 5, []),
    ],
)
def test_a_result_is_right_or_says_where_it_is_wrong(method: str, result: Any, sentences: list[str]) -> None:
    assert [problem.message for problem in result_problems(method, result)] == sentences


def test_an_error_object_has_an_integer_code_and_a_message() -> None:
    assert error_problems({"code": -32000, "message": "", "data": [1]}) == []
    assert [problem.path for problem in error_problems({"code": 1.5, "message": None})] == ["code", "message"]
    assert [problem.message for problem in error_problems("no")] == ['error is "no", must be an object (Error)']


def test_absent_params_are_right_where_nothing_is_required() -> None:
    assert params_problems("auth/logout", None, "client") == []
    assert params_problems("session/list", None, "client") == []
    assert len(params_problems("session/new", None, "client")) == 1
    assert len(params_problems("auth/logout", [], "client")) == 1


def test_a_method_that_is_not_the_senders_is_not_judged() -> None:
    assert params_problems("session/prompt", None, "agent") == []
    assert params_problems("session/update", None, "client") == []
    assert len(params_problems("$/cancel_request", {}, "agent")) == len(
        params_problems("$/cancel_request", {}, "client")
    )


@pytest.mark.parametrize(
    ("method", "params", "lenient"),
    [
        ("session/prompt", {"sessionId": 5, "prompt": []}, [False, False]),
        ("session/new", {"cwd": "/", "mcpServers": None}, [True]),  # null means the default
        ("session/new", {"cwd": "/", "mcpServers": [None]}, [False]),
        ("session/new", {"cwd": "/", "mcpServers": 5}, [False]),
        ("initialize", {"protocolVersion": 2, "info": {"name": "n", "version": "v"}, "capabilities": 5}, [True]),
        ("initialize", {"protocolVersion": 2, "info": {"name": "n", "version": 5}}, [False]),
        ("session/prompt", {"sessionId": "s", "prompt": [{"type": "text"}]}, [False]),
        ("session/prompt", {"sessionId": "s", "prompt": [{"type": "text", "text": "", "annotations": 5}]}, [True]),
    ],
)
def test_a_problem_knows_whether_receivers_are_told_to_read_over_it(
    method: str, params: Any, lenient: list[bool]
) -> None:
    assert [problem.is_lenient for problem in params_problems(method, params, "client")] == lenient


def test_items_that_receivers_skip_are_lenient_but_not_their_list() -> None:
    assert [problem.is_lenient for problem in problems_of("Diff", {"changes": [5]})] == [True]
    assert [problem.is_lenient for problem in problems_of("Diff", {"changes": 5})] == [False]
    assert [problem.is_lenient for problem in problems_of("Diff", {})] == [False]


@pytest.mark.parametrize("name", stable_definitions())
def test_what_is_made_from_the_facts_is_valid_with_unstable_additions_too(name: str) -> None:
    for seed in range(20):
        for unstable in (False, True):
            value = Maker(Random(seed), unstable=unstable).named(name)
            assert problems_of(name, value) == []


@pytest.mark.parametrize(
    "name", sorted({entry.params for entry in [*AGENT_METHODS.values(), *CLIENT_METHODS.values()]})
)
def test_both_validators_agree_and_every_rejection_is_explained(name: str) -> None:
    reference = jsonschema.Draft202012Validator(json_schema(name))
    random = Random(name)
    verdicts = set()
    for _ in range(25):
        value = mutated(Maker(random).named(name), random)
        is_valid = reference.is_valid(value)
        problems = problems_of(name, value)
        assert (problems == []) == is_valid, value
        assert all("(" in problem.message and problem.definition for problem in problems)
        verdicts.add(is_valid)
    assert False in verdicts


@pytest.mark.parametrize(
    "oddity", [*ODDITIES, 10**5_000, -(10**5_000), "\ud800", {"\udfff": 1}], ids=lambda oddity: type(oddity).__name__
)
@pytest.mark.parametrize(("method", "sender"), [("session/update", "agent"), ("session/new", "client")])
def test_nothing_raises(method: str, sender: Side, oddity: Any) -> None:
    deep: Any = oddity
    for _ in range(490):
        deep = [deep]
    for value in (oddity, deep, {"sessionId": oddity, "cwd": oddity, "update": oddity, "mcpServers": oddity}):
        assert len(params_problems(method, value, sender)) <= 20
    assert params_problems("session/update", update(sessionUpdate="_x", value=oddity, deep=deep), "agent") == []


def test_a_flood_of_errors_is_cut_short() -> None:
    params = update(sessionUpdate="agent_message", messageId="m", content=[5] * 100_000)
    assert len(params_problems("session/update", params, "agent")) == 20
