"""The facts are consistent in themselves, and methods and error codes say what they say."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.protocol import methods
from conformance.protocol.errors import ErrorCode, error_name
from conformance.protocol.facts import definition, facts, is_stable
from conformance.protocol.json_schema import json_schema, references, stable_definitions


def nodes(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, list):
        return [inner for item in node for inner in nodes(item)]
    if not isinstance(node, dict):
        return []
    return [node, *(inner for value in node.values() for inner in nodes(value))]


def test_every_reference_leads_to_a_definition() -> None:
    names = {node["ref"] for node in nodes(facts()["definitions"]) if isinstance(node.get("ref"), str)}
    assert names <= set(facts()["definitions"])
    for method in facts()["methods"]:
        assert definition(method["params"])
        assert (method["result"] is None) == (method["kind"] == "notification")


def test_what_is_stable_needs_nothing_unstable() -> None:
    for name in stable_definitions():
        assert all(is_stable(definition(inner)) for inner in references(json_schema(name)))


def test_the_facts_hold_no_prose() -> None:
    texts = [value for node in nodes(facts()) for value in node.values() if isinstance(value, str)]
    assert all(len(text) < 60 for text in texts)


@pytest.mark.parametrize(
    ("name", "field", "expected"),
    [
        ("PromptResponse", "messageId", {"ref": "MessageId", "required": True}),
        ("Notice", "title", {"type": "string", "minLength": 1, "required": True}),
        ("InitializeRequest", "capabilities", {"ref": "ClientCapabilities", "lenient": ["default-on-error"]}),
        ("AgentCapabilities", "providers", None),
    ],
)
def test_a_field_is_a_few_facts(name: str, field: str, expected: dict[str, Any] | None) -> None:
    member = definition(name)["fields"][field]
    assert member == expected if expected is not None else member["unstable"]


def test_the_methods_of_the_agent_are_few() -> None:
    assert set(methods.AGENT_METHODS) == {
        *("session/request_permission", "elicitation/create", "session/update", "elicitation/complete"),
    }
    assert set(methods.PROTOCOL_METHODS) == {"$/cancel_request"}
    assert methods.AGENT_METHODS["session/update"].kind == "notification"
    assert methods.CLIENT_METHODS["session/cancel"].kind == "notification"
    assert methods.CLIENT_METHODS["session/prompt"].result == "PromptResponse"


def test_a_method_belongs_to_its_sender() -> None:
    assert methods.method("session/prompt", "agent") is None
    assert methods.method("$/cancel_request", "agent") == methods.method("$/cancel_request", "client")
    assert methods.request_method("session/update") is None
    assert methods.request_method("session/cancel") is None
    assert methods.is_unstable("session/fork", "client")
    assert not methods.is_unstable("session/fork", "agent")
    assert not methods.is_unstable("session/prompt", "client")


def test_version_1_has_methods_that_version_2_dropped() -> None:
    assert {"fs/read_text_file", "fs/write_text_file", "terminal/create", "session/load"} <= methods.V1_METHODS
    assert "session/prompt" not in methods.V1_METHODS


def test_the_error_codes_are_those_of_the_schema() -> None:
    assert {code.value for code in ErrorCode} == set(definition("ErrorCode")["values"])
    assert error_name(-32601) == "-32601 (method not found)"
    assert error_name(-1) == "-1"
