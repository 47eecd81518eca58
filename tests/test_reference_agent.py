"""Statements about the reference agent, driven over its pipes as a client would."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from conformance.protocol.extensions import extensions
from conformance.protocol.validation import error_problems, params_problems, result_problems

REFERENCE = Path(__file__).parent.parent / "fixtures" / "agents" / "reference.py"
PATIENCE = 20.0
CWD = "/somewhere/else"

Json = dict[str, Any]


class Client:
    """One process of the agent, and everything it wrote."""

    def __init__(self, *arguments: str, environment: dict[str, str] | None = None) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
        self.process = subprocess.Popen(
            [sys.executable, str(REFERENCE), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=inherited | (environment or {}),
        )
        self.seen: list[Json] = []
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._last_id = 0
        self._methods: dict[int, str] = {}
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def send(self, **message: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def until(self, is_wanted: Callable[[Json], bool]) -> Json:
        """The next message that is wanted, from those that come from here on."""
        while True:
            message = json.loads(self._lines.get(timeout=PATIENCE))
            self.assert_valid(message)
            self.seen.append(message)
            if is_wanted(message):
                return dict(message)

    def assert_valid(self, message: Json) -> None:
        """Valid under the schema, with no field or value of the agent's own invention."""
        if "error" in message:
            assert error_problems(message["error"]) == []
        elif "method" in message:
            assert params_problems(message["method"], message["params"], "agent") == []
            found = extensions(message["method"], message["params"], "params", "agent")
            assert (found.unknown_fields, found.custom_values) == ([], [])
        elif message["id"] in self._methods:
            method = self._methods[message["id"]]
            assert result_problems(method, message["result"]) == []
            found = extensions(method, message["result"], "result")
            assert (found.unknown_fields, found.custom_values) == ([], [])

    def request(self, method: str, **params: Any) -> int:
        self._last_id += 1
        self._methods[self._last_id] = method
        self.send(id=self._last_id, method=method, params=params)
        return self._last_id

    def response(self, request_id: Any) -> Json:
        for message in self.seen:
            if is_response(message, request_id):
                return message
        return self.until(lambda message: is_response(message, request_id))

    def call(self, method: str, **params: Any) -> Json:
        return self.response(self.request(method, **params))

    def result(self, method: str, **params: Any) -> Json:
        return dict(self.call(method, **params)["result"])

    def code(self, method: str, **params: Any) -> int:
        return int(self.call(method, **params)["error"]["code"])

    def initialize(self, **capabilities: Any) -> Json:
        info = {"name": "test", "version": "1"}
        return self.result("initialize", protocolVersion=2, info=info, capabilities=capabilities)

    def new_session(self, cwd: str = CWD) -> str:
        return str(self.result("session/new", cwd=cwd)["sessionId"])

    def prompt(self, session: str, *blocks: str | Json) -> int:
        prompt = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
        return self.request("session/prompt", sessionId=session, prompt=prompt)

    def turn(self, session: str, *blocks: str | Json) -> str:
        """A whole turn; the message's id."""
        request_id = self.prompt(session, *blocks)
        self.idle()
        return str(self.response(request_id)["result"]["messageId"])

    def idle(self) -> Json:
        return update_of(self.until(lambda message: update_of(message).get("state") == "idle"))

    def updates(self, kind: str, since: int = 0) -> list[Json]:
        return [u for m in self.seen[since:] if (u := update_of(m)).get("sessionUpdate") == kind]

    def resume(self, session: str, **params: Any) -> list[Json]:
        """The updates between the request and its response."""
        since = len(self.seen)
        self.result("session/resume", sessionId=session, cwd=CWD, **params)
        return [update_of(message) for message in self.seen[since:-1]]

    def replay(self, session: str) -> list[Json]:
        return self.resume(session, replayFrom={"type": "start"})

    def kinds(self, since: int = 0) -> list[str]:
        return [name_of(message) for message in self.seen[since:]]

    def close(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE)


def is_response(message: Json, request_id: Any) -> bool:
    return "method" not in message and message.get("id") == request_id


def update_of(message: Json) -> Json:
    if message.get("method") != "session/update":
        return {}
    return dict(message["params"]["update"])


def name_of(message: Json) -> str:
    """What kind of message it is, in a word."""
    update = update_of(message)
    if update:
        return str(update.get("state", update["sessionUpdate"]))
    if "method" in message:
        return str(message["method"])
    return "result" if "result" in message else f"error {message['error']['code']}"


def text_in(updates: list[Json]) -> str:
    return "".join(str(update["content"]) for update in updates if "content" in update)


@pytest.fixture
def start() -> Iterator[Callable[..., Client]]:
    clients: list[Client] = []

    def start_one(*arguments: str, **options: Any) -> Client:
        clients.append(Client(*arguments, **options))
        return clients[-1]

    yield start_one
    for client in clients:
        client.process.kill()
        client.process.wait()
        assert client.process.stdin is not None
        assert client.process.stdout is not None
        client.process.stdin.close()


@pytest.fixture
def client(start: Callable[..., Client]) -> Client:
    one = start()
    one.initialize()
    return one


def test_it_speaks_version_2_and_nothing_below(start: Callable[..., Client]) -> None:
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


def test_sessions_outlive_the_process(start: Callable[..., Client], tmp_path: Path) -> None:
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
    diff = client.updates("tool_call_update")[-1]["content"][-1]
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


def test_it_asks_in_a_form_only_where_forms_are_taken(start: Callable[..., Client]) -> None:
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
    assert values(client.result("session/set_config_option", **set_option, value="quick")) == ["quick", False]
    assert client.code("session/set_config_option", **set_option, value="nonsense") == -32602
    assert client.code("session/set_config_option", **set_option | {"configId": "x"}, value="quick") == -32602
    assert values(client.result("session/resume", sessionId=session, cwd=CWD)) == ["quick", False]


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
        ("auth/login", {"methodId": "x"}, -32601),
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


# With a model


class ScriptedModel(ThreadingHTTPServer):
    """Answers each request with the next reply: a status, or the events of a stream. Keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.replies: list[int | list[Any]] = []
        self.asked: list[Json] = []

    @property
    def environment(self) -> dict[str, str]:
        return {"OPENAI_BASE_URL": f"http://127.0.0.1:{self.server_address[1]}/v1", "OPENAI_API_KEY": "k"}


class _Answer(BaseHTTPRequestHandler):
    server: ScriptedModel

    def do_POST(self) -> None:
        self.server.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        reply = self.server.replies.pop(0)
        if isinstance(reply, int):
            body = json.dumps({"error": {"message": "not now"}}).encode()
            self.send_response(reply)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_response(200)
        self.end_headers()
        for event in reply:
            text = event if isinstance(event, str) else json.dumps({"choices": [event]})
            self.wfile.write(f"data: {text}\n\n".encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    server = ScriptedModel()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def talker(start: Callable[..., Client], model: ScriptedModel) -> Client:
    client = start(environment=model.environment)
    client.initialize()
    return client


SAYS = [{"delta": {"content": "Hel"}}, {"delta": {"content": "lo"}, "finish_reason": "stop"}, "[DONE]"]


def calls(name: str, **arguments: str) -> list[Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"index": 0, "id": "c1", "function": function}
    return [{"delta": {"tool_calls": [call]}}, {"delta": {}, "finish_reason": "tool_calls"}, "[DONE]"]


def test_the_model_is_asked_and_its_words_are_streamed(talker: Client, model: ScriptedModel) -> None:
    model.replies = [SAYS, SAYS]
    session = talker.new_session()
    talker.turn(session, "first")
    assert text_in(talker.updates("agent_message_chunk")).count("text") == 4
    talker.turn(session, "second")
    roles = [(m["role"], m["content"]) for m in model.asked[1]["messages"]]
    assert roles == [("user", "first"), ("assistant", "Hello"), ("user", "second")]


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (401, -32000),
        (429, -32603),
        (500, -32603),
        (SAYS[:1], -32603),
        (["not JSON"], -32603),
        (["[17]"], -32603),
        ([{"delta": 17}], -32603),
    ],
)
def test_a_failure_of_the_model_ends_the_work_and_not_the_prompt(
    talker: Client, model: ScriptedModel, reply: Any, code: int
) -> None:
    model.replies = [reply, SAYS]
    session = talker.new_session()
    request_id = talker.prompt(session, "doomed")
    idle = talker.idle()
    assert (idle["stopReason"], idle["error"]["code"]) == ("error", code)
    assert "result" in talker.response(request_id)
    assert len(model.asked) == 1
    talker.prompt(session, "next")
    assert talker.idle()["stopReason"] == "end_turn"


def test_a_model_that_is_not_there_is_a_failure_too(start: Callable[..., Client]) -> None:
    client = start(environment={"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
    client.initialize()
    client.prompt(client.new_session(), "hello")
    assert client.idle()["error"]["code"] == -32603


def test_the_model_reads_files_below_the_working_directory_only(
    talker: Client, model: ScriptedModel, tmp_path: Path
) -> None:
    (tmp_path / "note").write_text("the note")
    model.replies = [calls("read_file", path="note"), calls("read_file", path="../x"), calls("fly"), SAYS]
    talker.turn(talker.new_session(str(tmp_path)), "read")
    statuses = [update.get("status") for update in talker.updates("tool_call_update")]
    assert statuses == ["pending", "in_progress", "completed", "pending", "in_progress", "failed", "pending", "failed"]
    assert model.asked[1]["messages"][-1]["content"] == "the note"


@pytest.mark.parametrize(("option", "said"), [("allow", "rehearsed"), ("reject", "did not allow")])
def test_a_command_of_the_model_asks_first_and_the_model_is_told(
    talker: Client, model: ScriptedModel, option: str, said: str
) -> None:
    model.replies = [calls("run_command", command="ls"), SAYS]
    talker.prompt(talker.new_session(), "list")
    request = talker.until(lambda message: message.get("method") == "session/request_permission")
    talker.send(id=request["id"], result={"outcome": {"outcome": "selected", "optionId": option}})
    assert talker.idle()["stopReason"] == "end_turn"
    assert said in model.asked[1]["messages"][-1]["content"]
