"""Clients that drive the reference agent as an editor would, over its pipes or over WebSocket, and keep what it wrote.

Every line that they read is held against the schema: nothing invalid, no field or value of the agent's own.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from conformance.protocol.extensions import extensions
from conformance.protocol.validation import error_problems, params_problems, result_problems

REFERENCE = Path(__file__).parent.parent / "fixtures" / "agents" / "reference.py"
PATIENCE = 20.0
CWD = "/somewhere/else"

Json = dict[str, Any]
Start = Callable[..., "Client"]


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
        self._begin()

    def _begin(self) -> None:
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
            assert found.unknown_fields == []
            assert all(str(custom.value).startswith("_") for custom in found.custom_values)
        elif message["id"] in self._methods:
            method = self._methods[message["id"]]
            assert result_problems(method, message["result"]) == []
            found = extensions(method, message["result"], "result")
            assert found.unknown_fields == []
            assert all(str(custom.value).startswith("_") for custom in found.custom_values)

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


@contextmanager
def started() -> Iterator[Start]:
    """Starts any number of agents; all are gone at the end."""
    clients: list[Client] = []

    def start(*arguments: str, **options: Any) -> Client:
        clients.append(Client(*arguments, **options))
        return clients[-1]

    try:
        yield start
    finally:
        for client in clients:
            client.process.kill()
            client.process.wait()
            assert client.process.stdin is not None
            client.process.stdin.close()


class Socket(Client):
    """One WebSocket connection to an agent that listens."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket
        self._begin()

    def _read(self) -> None:
        for message in self.socket:
            self._lines.put(message.encode() if isinstance(message, str) else message)

    def write(self, line: bytes) -> None:
        self.socket.send(line.decode())


@contextmanager
def listening() -> Iterator[Callable[[], Socket]]:
    """One agent that listens; each call is one more connection to it, initialized."""
    command = [sys.executable, str(REFERENCE), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert process.stderr is not None
    url = process.stderr.readline().decode().split()[-1]
    with ExitStack() as stack:
        stack.callback(process.stderr.close)
        stack.callback(process.wait)
        stack.callback(process.kill)

        def dial() -> Socket:
            from websockets.sync.client import connect

            socket = Socket(stack.enter_context(connect(url, max_size=None)))
            socket.initialize()
            return socket

        yield dial
