"""Statements about the reference agent and the model that it speaks to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.driven import Client, Json, Start, started, text_in


@pytest.fixture
def start() -> Iterator[Start]:
    with started() as start_one:
        yield start_one


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
def talker(start: Start, model: ScriptedModel) -> Client:
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


def test_a_model_that_is_not_there_is_a_failure_too(start: Start) -> None:
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
