"""What goes beyond the schema is found where the schema is closed, and nowhere that anything may stand."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from conformance.protocol.extensions import Part
from conformance.protocol.formats import FORMATS
from conformance.protocol.methods import AGENT_METHODS, CLIENT_METHODS, PROTOCOL_METHODS
from conformance.protocol.validation import custom_values, extensions, odd_formats, unknown_fields
from tests.generated import Maker

METHODS = [*AGENT_METHODS.values(), *CLIENT_METHODS.values(), *PROTOCOL_METHODS.values()]


def update(**fields: Any) -> dict[str, Any]:
    return {"sessionId": "s", "update": fields}


def unknown(method: str, value: Any, part: Part = "params") -> list[tuple[str, str]]:
    return [(found.path, found.definition) for found in unknown_fields(method, value, part)]


def custom(method: str, value: Any, part: Part = "params") -> list[tuple[str, str, str]]:
    return [(found.path, found.value, found.definition) for found in custom_values(method, value, part)]


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({**update(sessionUpdate="notice"), "more": 1}, [("more", "UpdateSessionNotification")]),
        (update(sessionUpdate="agent_message", messageId="m", text="hi"), [("update.text", "AgentMessage")]),
        (
            update(sessionUpdate="agent_message", content=[{"type": "text", "text": "", "a b": 1}]),
            [('update.content[0]["a b"]', "TextContent")],
        ),
        (
            update(sessionUpdate="user_message_chunk", content={"type": "image", "annotations": {"who": 1}}),
            [("update.content.annotations.who", "Annotations")],
        ),
        (update(sessionUpdate="state_update", state="running", error={}), [("update.error", "RunningStateUpdate")]),
        (
            update(sessionUpdate="state_update", state="idle", stopReason="end_turn", error={}),
            [("update.error", "IdleStateUpdate")],
        ),
        (update(sessionUpdate="state_update", state="idle", error={}), [("update.error", "IdleStateUpdate")]),
        (update(sessionUpdate="state_update", state="idle", stopReason="error", error={"data": {"x": 1}}), []),
        (
            update(sessionUpdate="state_update", state="idle", stopReason="error", error={"kind": 1}),
            [("update.error.kind", "Error")],
        ),
        (update(sessionUpdate="tool_call_update", toolCallId="t", rawInput={"x": 1}, rawOutput=[{"y": 1}]), []),
        (update(sessionUpdate="agent_message", _meta={"x": {"y": 1}}), []),
        (update(sessionUpdate="_mine", anything=1), []),
        (update(sessionUpdate="plan_removed", anything=1), []),
        (
            update(sessionUpdate="agent_message_chunk", content={"type": "resource", "resource": {"text": "", "x": 1}}),
            [],  # without a uri it is neither of the two
        ),
        (
            update(
                sessionUpdate="agent_message_chunk",
                content={"type": "resource", "resource": {"uri": "", "text": "", "blob": "", "x": 1}},
            ),
            [("update.content.resource.x", "TextResourceContents")],
        ),
        (update(sessionUpdate=5, x=1), []),
        ("text", []),
        (None, []),
    ],
)
def test_unknown_fields_of_an_update(params: Any, expected: list[tuple[str, str]]) -> None:
    assert unknown("session/update", params) == expected


def test_unknown_fields_of_other_messages() -> None:
    assert unknown("session/prompt", {"sessionId": "s", "prompt": [], "mode": 1}) == [("mode", "PromptRequest")]
    assert unknown("session/prompt", {"messageId": "m", "stopReason": "end_turn"}, "result") == [
        ("stopReason", "PromptResponse")
    ]
    assert unknown("session/close", {"code": 1, "message": "", "details": 1}, "error") == [("details", "Error")]
    assert unknown("session/update", {}, "result") == []
    assert unknown("_mine", {"x": 1}) == []


def test_untagged_lists_are_told_apart_by_their_items() -> None:
    option = {"configId": "c", "name": "n", "type": "select", "currentValue": "v"}
    choice = {"value": "v", "name": "n", "icon": 1}
    flat = {**option, "options": [choice]}
    grouped = {**option, "options": [{"groupId": "g", "name": "n", "options": [choice]}]}
    assert unknown("session/new", {"sessionId": "s", "configOptions": [flat, grouped]}, "result") == [
        ("configOptions[0].options[0].icon", "SessionConfigSelectOption"),
        ("configOptions[1].options[0].options[0].icon", "SessionConfigSelectOption"),
    ]


def test_either_scope_of_an_elicitation_is_known() -> None:
    form = {"message": "m", "mode": "form", "requestedSchema": {"type": "object", "properties": {}}}
    assert unknown("elicitation/create", {**form, "sessionId": "s", "toolCallId": "t"}) == []
    assert unknown("elicitation/create", {**form, "requestId": 1, "url": "u"}) == [("url", "ElicitationFormMode")]


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (update(sessionUpdate="thinking"), [("update.sessionUpdate", "thinking", "SessionUpdate")]),
        (update(sessionUpdate="_thinking"), [("update.sessionUpdate", "_thinking", "SessionUpdate")]),
        (update(sessionUpdate="state_update", state="paused"), [("update.state", "paused", "StateUpdate")]),
        (
            update(sessionUpdate="state_update", state="idle", stopReason="tired"),
            [("update.stopReason", "tired", "IdleStateUpdate")],
        ),
        (update(sessionUpdate="state_update", state="idle", stopReason=None), []),
        (
            update(sessionUpdate="tool_call_update", kind="other", status="done"),
            [("update.status", "done", "ToolCallStatus")],
        ),
        (
            update(sessionUpdate="agent_message", content=[{"type": "text"}, {"type": "html", "annotations": {}}]),
            [("update.content[1].type", "html", "ContentBlock")],
        ),
    ],
)
def test_custom_values_of_an_update(params: Any, expected: list[tuple[str, str, str]]) -> None:
    assert custom("session/update", params) == expected


def test_what_the_protocol_leaves_free_is_no_custom_value() -> None:
    properties = {"zip": {"type": "string", "format": "zip-code"}, "tags": {"type": "array", "items": {"type": "x"}}}
    params = {
        "message": "m",
        "mode": "form",
        "requestId": 1,
        "requestedSchema": {"type": "object", "properties": properties},
    }
    assert custom("elicitation/create", params) == []
    assert custom("session/prompt", {"code": -5, "message": ""}, "error") == []


def test_what_the_unstable_schema_knows_is_marked() -> None:
    (plan,) = custom_values("session/update", update(sessionUpdate="plan_removed", planId="p"), "params")
    assert plan.unstable
    (usage,) = unknown_fields("session/update", update(sessionUpdate="state_update", state="idle", usage={}), "params")
    assert (usage.path, usage.unstable) == ("update.usage", True)
    session = {"fork": {}, "forks": {}}
    found = unknown_fields("initialize", {"capabilities": {"session": session}}, "result")
    assert [(field.path, field.unstable) for field in found] == [
        ("capabilities.session.fork", True),
        ("capabilities.session.forks", False),
    ]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_nothing_is_found_in_what_the_facts_allow(method: Any) -> None:
    for seed in range(30):
        params = Maker(Random(seed)).named(method.params)
        found = extensions(method.name, params, "params")
        assert found.unknown_fields == []
        assert all(value.value == "_custom" for value in found.custom_values)
        if method.result is not None:
            assert unknown(method.name, Maker(Random(seed)).named(method.result), "result") == []


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_unstable_addition_is_marked_as_one(method: Any) -> None:
    for seed in range(30):
        found = extensions(method.name, Maker(Random(seed), unstable=True).named(method.params), "params")
        assert all(field.unstable for field in found.unknown_fields)
        assert all(value.unstable or value.value == "_custom" for value in found.custom_values)


def test_a_key_is_shown_in_few_harmless_words() -> None:
    (found,) = unknown("session/prompt", {"\x1b[31m": 1})
    assert found[0] == '["\\u001b[31m"]'
    assert all(len(path) < 80 for path, _ in unknown("session/prompt", {"x" * 10_000: 1, "é" * 10_000: 2}))


def test_a_flood_is_cut_short() -> None:
    content = [{"type": "text", "text": "", f"x{number}": 1} for number in range(1_000)]
    assert len(unknown("session/update", update(sessionUpdate="agent_message", content=content))) == 100


@pytest.mark.parametrize(
    ("format", "right", "wrong"),
    [
        ("int64", [0, -(2**63), 1.0, "text"], [2**63, -(2**63) - 1, 1e300]),
        ("uint16", [0, 65_535], [-1, 65_536]),
        ("base64", ["", "aGk=", 5], ["aGk", "a b=", "é==="]),
        (
            "uri",
            ["file:///a", "https://example.org/a?b#c", "urn:x", None],
            ["", "a b", "/path", "http://a b", "http:\n"],
        ),
        (
            "date-time",
            ["2026-10-01T09:30:00Z", "2026-10-01t09:30:60.123456789+02:00", 5],
            [
                "",
                "2026-10-01",
                "2026-02-30T00:00:00Z",
                "2026-10-01T25:00:00Z",
                "2026-10-01T09:30:00",
                "２026-10-01T00:00:00Z",
            ],
        ),
    ],
)
def test_formats(format: str, right: list[Any], wrong: list[Any]) -> None:
    assert all(FORMATS[format](value) for value in right)
    assert not any(FORMATS[format](value) for value in wrong)


def test_odd_formats_are_found_though_the_schema_lets_them_pass() -> None:
    params = update(sessionUpdate="usage_update", used=2**64, size=1)
    (odd,) = odd_formats("session/update", params, "params")
    assert (odd.path, odd.value, odd.definition, odd.format) == ("update.used", 2**64, "UsageUpdate", "uint64")
