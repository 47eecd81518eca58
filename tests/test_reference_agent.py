"""Statements about the reference agent and the table of its variants."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.rules import RULES
from tests.driven import CWD, REFERENCE, Client, Json, Start, is_response, name_of, started, text_in, update_of


@pytest.fixture
def start() -> Iterator[Start]:
    with started() as start_one:
        yield start_one


@pytest.fixture
def client(start: Start) -> Client:
    one = start()
    one.initialize()
    return one


def test_it_speaks_version_2_and_nothing_below(start: Start) -> None:
    client = start()
    info = {"name": "test", "version": "1"}
    assert client.result("initialize", protocolVersion=65535, info=info)["protocolVersion"] == 2
    error = client.call("initialize", protocolVersion=1, info=info)["error"]
    assert error["code"] == -32022
    assert error["data"] == {"requested": 1, "supported": [2]}


def test_a_prompt_is_reported_and_answered_before_its_work_and_ends_in_idle(client: Client) -> None:
    session = client.new_session()
    client.until(lambda message: name_of(message) == "available_commands_update")
    since = len(client.seen)
    message_id = client.turn(session, "hello")
    kinds = client.kinds(since)
    assert kinds[:4] == ["user_message", "result", "running", "agent_thought"]
    assert kinds[-2:] == ["usage_update", "idle"]
    assert client.updates("user_message")[0]["messageId"] == message_id
    assert client.updates("state_update")[-1] == {
        "sessionUpdate": "state_update",
        "state": "idle",
        "background": [],
        "stopReason": "end_turn",
    }


def test_equal_prompts_are_different_messages(client: Client) -> None:
    session = client.new_session()
    assert client.turn(session, "same") != client.turn(session, "same")


def test_a_prompt_of_several_blocks_is_streamed_and_replayed_after_a_reset(client: Client) -> None:
    session = client.new_session()
    link = {"type": "resource_link", "name": "notes", "uri": "file:///notes"}
    message_id = client.turn(session, "look", link)
    chunks = [
        {"sessionUpdate": "user_message_chunk", "messageId": message_id, "content": block}
        for block in ({"type": "text", "text": "look"}, link)
    ]
    assert client.updates("user_message_chunk") == chunks
    reset = {"sessionUpdate": "user_message", "messageId": message_id, "content": []}
    assert client.replay(session)[:3] == [reset, *chunks]


def test_a_prompt_that_comes_while_it_works_is_held_and_then_inserted(client: Client) -> None:
    session = client.new_session()
    first, second = client.prompt(session, "first"), client.prompt(session, "second")
    client.idle()
    assert client.response(first)["result"]
    assert not any(is_response(message, second) for message in client.seen)
    client.idle()
    assert client.response(second)["result"]


def test_a_cancel_ends_the_work_and_refuses_what_is_held(client: Client) -> None:
    session = client.new_session()
    first, second = client.prompt(session, "first"), client.prompt(session, "second")
    client.until(lambda message: name_of(message) == "agent_message_chunk")
    client.send(method="session/cancel", params={"sessionId": session})
    assert client.idle()["stopReason"] == "cancelled"
    assert "result" in client.response(first)
    assert client.response(second)["error"]["code"] == -32800
    since = len(client.seen)
    client.turn(session, "third")
    assert "second" not in json.dumps(client.seen[since:])


def test_a_held_prompt_can_be_taken_back_and_an_inserted_one_cannot(client: Client) -> None:
    session = client.new_session()
    first, second = client.prompt(session, "first"), client.prompt(session, "second")
    for request_id in (first, second, str(second), 999):
        client.send(method="$/cancel_request", params={"requestId": request_id})
    assert client.idle()["stopReason"] == "end_turn"
    assert "result" in client.response(first)
    assert client.response(second)["error"]["code"] == -32800
    assert "second" not in json.dumps(client.replay(session))


@pytest.mark.parametrize(
    "block",
    [
        {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        {"type": "hologram"},
        {"type": "text"},
        {"type": "image", "data": 7, "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///x"}},
        {},
    ],
)
def test_a_block_that_it_cannot_take_is_refused_and_nothing_is_reported(client: Client, block: Json) -> None:
    session = client.new_session()
    error = client.response(client.prompt(session, "nonce", block))["error"]
    assert error["code"] == -32602
    assert client.code("session/prompt", sessionId=session, prompt=[]) == -32602
    client.turn(session, "next")
    assert "nonce" not in json.dumps(client.replay(session))


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "data": "AAAA", "mimeType": "image/png", "uri": None},
        {"type": "resource", "resource": {"uri": "file:///x", "text": "x"}},
        {"type": "resource", "resource": {"uri": "file:///x", "blob": "AAAA"}},
        {"type": "resource_link", "name": "x", "uri": "file:///x"},
    ],
)
def test_a_block_that_it_advertises_is_taken(client: Client, block: Json) -> None:
    assert client.turn(client.new_session(), "look", block)


def test_a_session_that_is_unknown_or_closed_is_not_found(client: Client) -> None:
    session = client.new_session()
    client.result("session/close", sessionId=session)
    for name in (session, "nobody"):
        error = client.response(client.prompt(name, "hello"))["error"]
        assert (error["code"], error["data"]) == (-32002, {"sessionId": name})
        client.result("session/close", sessionId=name)
    assert client.code("session/resume", sessionId="nobody", cwd=CWD) == -32002


def test_close_cancels_first_and_is_then_silent(client: Client) -> None:
    session = client.new_session()
    first, second = client.prompt(session, "first"), client.prompt(session, "second")
    client.until(lambda message: name_of(message) == "agent_message_chunk")
    client.result("session/close", sessionId=session)
    assert client.updates("state_update")[-1]["stopReason"] == "cancelled"
    assert "result" in client.response(first)
    assert client.response(second)["error"]["code"] == -32800
    since = len(client.seen)
    other = client.new_session()
    client.turn(other, "more")
    assert all(message["params"]["sessionId"] == other for message in client.seen[since:] if "method" in message)


def test_replay_comes_before_the_response_under_the_same_ids_with_a_snapshot_at_its_end(client: Client) -> None:
    session = client.new_session()
    first, second = client.turn(session, "first"), client.turn(session, "second")
    replayed = client.replay(session)
    assert [u["messageId"] for u in replayed if u["sessionUpdate"] == "user_message"] == [first, second]
    assert [update for update in replayed if update["sessionUpdate"] == "state_update"] == [replayed[-1]]
    assert client.resume(session) == [replayed[-1]]
    assert client.resume(session, replayFrom=None) == [replayed[-1]]


@pytest.mark.parametrize("cursor", [{"type": "_elsewhere"}, {}, "start", 0, []])
def test_a_cursor_that_it_does_not_know_is_refused(client: Client, cursor: Any) -> None:
    session = client.new_session()
    client.turn(session, "hello")
    since = len(client.seen)
    assert client.code("session/resume", sessionId=session, cwd=CWD, replayFrom=cursor) == -32602
    assert client.kinds(since) == ["error -32602"]


def test_a_resume_while_it_works_says_so_and_what_is_being_said(client: Client) -> None:
    session = client.new_session()
    client.prompt(session, "hello")
    client.until(lambda message: name_of(message) == "agent_message_chunk")
    replayed = client.replay(session)
    assert replayed[-1]["state"] == "running"
    assert replayed[-2]["sessionUpdate"] == "agent_message"
    assert client.idle()["stopReason"] == "end_turn"


def test_sessions_outlive_the_process(start: Start, tmp_path: Path) -> None:
    store = str(tmp_path / "sessions.db")
    first = start("--store", store)
    first.initialize()
    session = first.new_session()
    message_id = first.turn(session, "remember me")
    before = first.replay(session)
    first.process.kill()
    second = start("--store", store)
    second.initialize()
    assert [entry["sessionId"] for entry in second.result("session/list")["sessions"]] == [session]
    assert second.response(second.prompt(session, "too early"))["error"]["code"] == -32002
    after = second.replay(session)
    assert after[:-1] == before[:-1]
    assert second.turn(session, "remember me") != message_id


def test_status_is_live_only_and_remember_is_kept_and_not_run_again(client: Client) -> None:
    session = client.new_session()
    live, kept = client.turn(session, "/status"), client.turn(session, "/remember milk")
    assert client.kinds().count("running") == client.kinds().count("idle") == 2
    assert "Note 1 is kept: milk" in text_in(client.updates("agent_message"))
    for _ in range(2):
        replayed = json.dumps(client.replay(session))
        assert live not in replayed
        assert kept in replayed
        assert "Note 1 is kept: milk" in replayed
        assert "Note 2" not in replayed


def test_refuse_fails_before_it_is_inserted(client: Client) -> None:
    session = client.new_session()
    assert client.response(client.prompt(session, "/refuse"))["error"]["code"] == -32603
    client.turn(session, "next")
    assert "/refuse" not in json.dumps(client.updates("user_message"))


def ask(client: Client, outcome: Json | None) -> list[str]:
    """/ask with an answer; the statuses of its tool call and the states, in order."""
    session = client.new_session()
    client.prompt(session, "/ask")
    request = client.until(lambda message: message.get("method") == "session/request_permission")
    assert client.updates("state_update")[-1]["state"] == "requires_action"
    if outcome is None:
        client.send(id=request["id"], error={"code": -32601, "message": "what?"})
    else:
        client.send(id=request["id"], result={"outcome": outcome})
    client.idle()
    return [
        u.get("status") or u["state"] for m in client.seen if (u := update_of(m)) and ("status" in u or "state" in u)
    ]


def test_an_allowed_command_runs_with_a_terminal_and_a_diff(client: Client) -> None:
    seen = ask(client, {"outcome": "selected", "optionId": "allow"})
    assert seen == ["running", "pending", "requires_action", "running", "in_progress", "completed", "idle"]
    diff = client.updates("tool_call_update")[-2]["content"][-1]
    assert diff["changes"] == [{"operation": "add", "path": f"{CWD}/NOTES.md", "fileType": "text"}]
    assert f"+++ {CWD}/NOTES.md" in diff["patch"]["text"]
    assert len(client.updates("terminal_output_chunk")) == 2


@pytest.mark.parametrize(
    "outcome",
    [
        {"outcome": "selected", "optionId": "reject"},
        {"outcome": "selected", "optionId": "whatever"},
        {"outcome": "cancelled"},
        {"outcome": "_approved", "optionId": "allow"},
        None,
    ],
)
def test_everything_else_is_no_approval(client: Client, outcome: Json | None) -> None:
    seen = ask(client, outcome)
    assert seen == ["running", "pending", "requires_action", "running", "failed", "idle"]


def test_a_cancel_withdraws_the_permission_request_and_a_late_approval_changes_nothing(client: Client) -> None:
    session = client.new_session()
    client.prompt(session, "/ask")
    request = client.until(lambda message: message.get("method") == "session/request_permission")
    client.send(method="session/cancel", params={"sessionId": session})
    withdrawn = client.until(lambda message: message.get("method") == "$/cancel_request")
    assert withdrawn["params"] == {"requestId": request["id"]}
    assert client.idle()["stopReason"] == "cancelled"
    assert client.updates("tool_call_update")[-1]["status"] == "cancelled"
    since = len(client.seen)
    client.send(id=request["id"], result={"outcome": {"outcome": "selected", "optionId": "allow"}})
    client.result("session/list")
    assert client.kinds(since) == ["result"]


def test_background_work_is_announced_listed_finished_and_then_dropped(client: Client) -> None:
    session = client.new_session()
    client.prompt(session, "/watch")
    call = client.until(lambda message: name_of(message) == "tool_call_update")["params"]["update"]["toolCallId"]
    assert client.idle()["background"] == [{"type": "tool_call", "toolCallId": call}]
    client.until(lambda message: update_of(message).get("status") == "completed")
    assert client.idle() == {
        "sessionUpdate": "state_update",
        "state": "idle",
        "background": [],
        "stopReason": "end_turn",
    }


def test_it_asks_in_a_form_only_where_forms_are_taken(start: Start) -> None:
    plain, able = start(), start()
    plain.initialize()
    able.initialize(elicitation={"form": {}})
    able.prompt(able.new_session(), "/elicit")
    request = able.until(lambda message: message.get("method") == "elicitation/create")
    able.send(id=request["id"], result={"action": "accept", "content": {"colour": "green"}})
    able.idle()
    assert "Thank you." in text_in(able.updates("agent_message"))
    plain.turn(plain.new_session(), "/elicit")
    assert "elicit" not in json.dumps(plain.updates("available_commands_update"))


def test_sessions_are_listed_newest_first_by_folder_in_pages(client: Client) -> None:
    here = [client.new_session() for _ in range(23)]
    client.new_session("/another")
    first = client.result("session/list", cwd=CWD)
    second = client.result("session/list", cwd=CWD, cursor=first["nextCursor"])
    assert "nextCursor" not in second
    assert [s["sessionId"] for s in first["sessions"] + second["sessions"]] == here[::-1]
    assert client.code("session/list", cursor="nonsense") == -32602
    client.result("session/delete", sessionId=here[0])
    client.result("session/delete", sessionId=here[0])
    assert here[0] not in json.dumps(client.result("session/list", cursor=first["nextCursor"]))


def test_options_are_set_and_answered_with_the_whole_list(client: Client) -> None:
    session = client.new_session()

    def values(result: Json) -> list[Any]:
        return [option["currentValue"] for option in result["configOptions"]]

    set_option = {"sessionId": session, "configId": "mode", "type": "id"}
    assert values(client.result("session/set_config_option", **set_option, value="quick")) == ["quick", "plain", False]
    assert client.code("session/set_config_option", **set_option, value="nonsense") == -32602
    assert client.code("session/set_config_option", **set_option | {"configId": "x"}, value="quick") == -32602
    assert values(client.result("session/resume", sessionId=session, cwd=CWD)) == ["quick", "plain", False]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"what?", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"cursor":NaN}}', -32700),
        (b"\xff\xfe", -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"session/list"}]', -32600),
        (b"17", -32600),
        (b'{"id":null,"method":"session/list"}', -32600),
    ],
)
def test_a_malformed_line_gets_one_error_without_an_id(client: Client, line: bytes, code: int) -> None:
    client.write(line)
    error = client.until(lambda message: "error" in message)
    assert (error["id"], error["error"]["code"]) == (None, code)
    client.result("session/list")


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("session/nothing", {}, -32601),
        ("_vendor/thing", {}, -32601),
        ("auth/login", {"methodId": "x"}, -32602),
        ("session/new", {}, -32602),
        ("session/new", {"cwd": "relative"}, -32602),
        ("session/new", {"cwd": CWD, "mcpServers": [{"type": "http", "name": "x", "url": "http://x"}]}, -32602),
        ("session/new", {"cwd": CWD, "mcpServers": [{"type": "_pigeon", "name": "x"}]}, -32602),
        ("session/new", {"cwd": CWD, "mcpServers": [{"type": "stdio", "name": "x", "command": "x"}]}, -32602),
        ("session/list", {"cwd": "relative"}, -32602),
        ("session/close", {"sessionId": 7}, -32602),
        ("session/prompt", {"sessionId": "x", "prompt": "text"}, -32602),
    ],
)
def test_a_request_that_it_cannot_serve_is_refused(client: Client, method: str, params: Json, code: int) -> None:
    assert client.code(method, **params) == code


def test_a_server_over_stdio_is_taken(client: Client) -> None:
    server = {"type": "stdio", "name": "x", "command": "/bin/x", "args": ["a"], "env": [{"name": "A", "value": "b"}]}
    assert client.result("session/new", cwd=CWD, mcpServers=[server], additionalDirectories=["/more"])["sessionId"]


def test_notifications_get_no_response_whatever_they_say(client: Client) -> None:
    for method in ("_unknown", "session/cancel", "$/cancel_request", "$/unknown"):
        client.send(method=method, params={"sessionId": "nobody", "requestId": None})
        client.send(method=method)
    since = len(client.seen)
    client.result("session/list")
    assert client.kinds(since) == ["result"]


@pytest.mark.parametrize("request_id", ["1", "", "x" * 1000, -5, 2**63 - 1, 10**30])
def test_an_id_comes_back_as_it_was(client: Client, request_id: Any) -> None:
    client.send(id=request_id, method="session/list", params={})
    answer = client.until(lambda message: "result" in message)
    assert type(answer["id"]) is type(request_id)
    assert answer["id"] == request_id


def test_strings_survive_as_they_are(client: Client) -> None:
    session = client.new_session()
    text = "a\u2028b\u0085c\x00d\U0001f600e" + "x" * 700_000
    client.turn(session, text)
    assert client.updates("user_message")[0]["content"][0]["text"] == text
    client.write(
        rb'{"jsonrpc":"2.0","id":"half","method":"session/prompt","params":{"sessionId":"'
        + session.encode()
        + rb'","prompt":[{"type":"text","text":"\ud800"}]}}'
    )
    assert client.response("half")["result"]


def test_it_exits_when_stdin_closes_even_at_work(client: Client) -> None:
    client.prompt(client.new_session(), "hello")
    assert client.close() == 0


def listed() -> Any:
    command = [sys.executable, str(REFERENCE), "--list", "--json"]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def test_every_must_rule_of_the_agents_has_a_fault() -> None:
    broken = {variant["breaks"] for variant in listed()}
    rules = {rule.id for rule in RULES.values() if rule.party == "agent"}
    assert {rule.id for rule in RULES.values() if rule.party == "agent" and rule.level == "must"} <= broken
    assert broken - {None} <= rules


def test_a_variant_that_does_not_exist_is_named_with_the_closest_one() -> None:
    command = [sys.executable, str(REFERENCE), "--fault", "hashed-id"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert ended.returncode == 1
    assert "did you mean 'hashed-ids'" in ended.stderr
