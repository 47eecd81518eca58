"""The scripted client: requests find their answers, an agent's own requests find ours, waits end."""

import asyncio
import sys
import textwrap
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from conformance.history import Event, Recorder
from conformance.peers import Limits, ScriptedClient, start_process
from conformance.peers.answers import ELICITATION, PERMISSION, Policy, answer

LIMITS = Limits(grace=5, terminate_grace=0.3)

# Says, line by line, what the notification "say" tells it to say; answers "test/echo".
PUPPET = """
    import json, sys
    for line in sys.stdin:
        call = json.loads(line)
        if call.get("method") == "say":
            print(json.dumps(call["params"]), flush=True)
        elif call.get("method") == "test/echo":
            print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": call.get("params")}), flush=True)
        elif call.get("method") == "leave":
            sys.exit()
"""
OPTIONS = [{"optionId": "no", "kind": "reject_once"}, {"optionId": "yes", "kind": "allow_once"}]


def played(scene: Callable[[ScriptedClient], Awaitable[None]]) -> list[Event]:
    recorder = Recorder()

    async def whole() -> None:
        command = [sys.executable, "-u", "-c", textwrap.dedent(PUPPET)]
        connection = await start_process(command, name="ada", recorder=recorder, limits=LIMITS)
        client = ScriptedClient(connection, recorder, patience=20)
        try:
            await scene(client)
        finally:
            await client.close()

    asyncio.run(asyncio.wait_for(whole(), 60))
    return recorder.history.events


def asks(id: Any, method: str = PERMISSION, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {"sessionId": "s", "options": OPTIONS, **params}}


def answers(events: list[Event]) -> list[Any]:
    """What the client answered, as [id, result or error]."""
    sent = [event.message for event in events if event.dir == "client" and isinstance(event.message, dict)]
    return [[m["id"], m.get("result", m.get("error"))] for m in sent if "method" not in m]


async def settle(client: ScriptedClient) -> None:
    assert await client.response(await client.request("test/echo")) is not None


def test_answers_find_their_request_by_type_and_value_of_the_id() -> None:
    async def scene(client: ScriptedClient) -> None:
        number = await client.request("none/such", id=1)
        text = await client.request("none/such", id="1")
        await client.notify("say", {"jsonrpc": "2.0", "id": "1", "result": "for the text"})
        answered = await client.response(text)
        assert answered is not None
        assert answered.message["result"] == "for the text"
        assert await client.response(number, patience=0) is None

    played(scene)


def test_answers_inside_a_batch_array_count() -> None:
    async def scene(client: ScriptedClient) -> None:
        pending = [await client.request("none/such", id=name) for name in "ab"]
        await client.notify("say", [{"jsonrpc": "2.0", "id": name, "result": name} for name in "ba"])
        assert [await client.response(request) for request in pending] != [None, None]

    played(scene)


def test_a_request_whose_agent_leaves_is_answered_with_none() -> None:
    async def scene(client: ScriptedClient) -> None:
        pending = await client.request("none/such")
        await client.notify("leave")
        assert await client.response(pending) is None
        assert await client.until(lambda event: False, since=0) is None

    played(scene)


@pytest.mark.parametrize(
    ("policy", "outcome"),
    [
        ("allow", {"outcome": {"outcome": "selected", "optionId": "yes"}}),
        ("deny", {"outcome": {"outcome": "selected", "optionId": "no"}}),
        ("cancel", {"outcome": {"outcome": "cancelled"}}),
        ({"outcome": {"outcome": "_mine"}}, {"outcome": {"outcome": "_mine"}}),
        ({"error": {"code": -32603, "message": "no"}}, {"code": -32603, "message": "no"}),
    ],
)
def test_permission_is_answered_by_policy(policy: Policy, outcome: Any) -> None:
    async def scene(client: ScriptedClient) -> None:
        client.policies[PERMISSION] = policy
        await client.notify("say", asks(7))
        await settle(client)

    assert answers(played(scene)) == [[7, outcome]]


def test_a_held_request_waits_and_a_withdrawn_one_is_cancelled() -> None:
    async def scene(client: ScriptedClient) -> None:
        client.policies[PERMISSION] = "hold"
        for id in (1, 2, 3):
            await client.notify("say", asks(id, sessionId=f"s{id}"))
        await client.notify("say", {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 2}})
        await client.notify("say", {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "3"}})
        await settle(client)
        assert [held.id for held in client.answer_held("allow", session="s3")] == [3]
        assert [held.id for held in client.held] == [1]

    allowed = {"outcome": {"outcome": "selected", "optionId": "yes"}}
    assert answers(played(scene)) == [[2, {"outcome": {"outcome": "cancelled"}}], [3, allowed]]


def test_a_withdrawn_request_can_be_answered_late_on_purpose() -> None:
    async def scene(client: ScriptedClient) -> None:
        client.policies[PERMISSION] = "hold"
        client.answers_withdrawn = False
        await client.notify("say", asks(1))
        await client.notify("say", {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}})
        await settle(client)
        client.answer_held("allow")

    assert answers(played(scene)) == [[1, {"outcome": {"outcome": "selected", "optionId": "yes"}}]]


def test_an_unknown_request_of_the_agent_gets_method_not_found() -> None:
    async def scene(client: ScriptedClient) -> None:
        await client.notify("say", asks("x", "fs/read_text_file"))
        await settle(client)

    [[id, error]] = answers(played(scene))
    assert (id, error["code"]) == ("x", -32601)


@pytest.mark.parametrize("params", [None, [], "x", {"options": "x"}, {"options": [1, {"kind": "allow_once"}]}])
@pytest.mark.parametrize("method", [PERMISSION, ELICITATION])
@pytest.mark.parametrize("policy", ["allow", "deny", "cancel"])
def test_malformed_requests_are_answered_too(method: str, params: Any, policy: Policy) -> None:
    result = answer(method, params, policy)["result"]
    assert result.get("outcome") == {"outcome": "cancelled"} or result.get("action") in ("accept", "decline", "cancel")


def test_an_accepted_form_is_filled_in() -> None:
    form = {
        "mode": "form",
        "requestedSchema": {
            "type": "object",
            "properties": {
                "plan": {"type": "string", "enum": ["bold", "careful"]},
                "name": {"type": "string", "minLength": 3},
                "count": {"type": "integer", "minimum": 2},
                "sure": {"type": "boolean"},
                "tags": {"type": "array", "items": {"anyOf": [{"const": "x", "title": "X"}]}},
                "known": {"type": "string", "default": "this"},
            },
        },
    }
    filled = {"plan": "bold", "name": "xxx", "count": 2, "sure": True, "tags": ["x"], "known": "this"}
    assert answer(ELICITATION, form, "allow") == {"result": {"action": "accept", "content": filled}}


def test_until_finds_what_was_recorded_before_and_what_comes() -> None:
    async def scene(client: ScriptedClient) -> None:
        await settle(client)
        first = await client.until(lambda event: event.dir == "agent", since=0, patience=0)
        assert first is not None
        waiting = asyncio.create_task(client.until(lambda event: event.dir == "agent", since=first.seq + 1))
        await settle(client)
        second = await waiting
        assert second is not None
        assert second.seq > first.seq
        with pytest.raises(ZeroDivisionError):
            await client.until(lambda event: bool(1 / 0), since=0)

    played(scene)


def test_pace_is_the_slowest_quick_answer() -> None:
    async def scene(client: ScriptedClient) -> None:
        await settle(client)
        assert 0 < client.pace < 20
        pace = client.pace
        client.pace = 0.0
        pending = await client.request("session/prompt", id="p")
        await client.notify("say", {"jsonrpc": "2.0", "id": "p", "result": {}})
        await client.response(pending)
        assert client.pace == 0.0
        assert pace > 0

    played(scene)
