"""The scripted model: one loopback HTTP server that speaks three providers' APIs and does what the scenario says.

Every request for an answer is an event in the history, and so is what became of it. Credentials are never recorded.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from conformance.history import Event, Recorder, controls
from conformance.model.anthropic_messages import MESSAGES
from conformance.model.asked import Asked
from conformance.model.dialects import Dialect
from conformance.model.http import BadRequest, Budget, ClientGone, HttpConnection, HttpProtocol, Request
from conformance.model.openai_chat import CHAT
from conformance.model.openai_responses import RESPONSES
from conformance.model.performance import Performance
from conformance.model.replies import Reply
from conformance.model.script import Belonging, Script
from conformance.model.tools import example
from conformance.wire import parse

MAX_REQUESTS: Final = 5_000
"""Of one run; an agent that asks more often gets 429 and no event."""

_TURNS_OF_A_PIPE: Final = 4
"""Turns of the event loop from bytes in a pipe to the event: what an agent wrote before it asked is recorded first."""

_DIALECTS: Final = {"/responses": RESPONSES, "/chat/completions": CHAT, "/messages": MESSAGES}
_TITLE: Final = "A conversation"


@dataclass(frozen=True, slots=True)
class _Hold:
    belonging: Belonging
    released: asyncio.Event


class ScriptedModel:
    """One server for one scenario. `name` stands for the connection in its events.

    `tool_arguments` go with every tool call that is made up here, where the tool has such parameters.
    """

    def __init__(
        self, recorder: Recorder, *, name: str = "model", tool_arguments: Mapping[str, Any] | None = None
    ) -> None:
        self.name = name
        self._tool_arguments = tool_arguments or {}
        self._recorder = recorder
        self._script = Script()
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], HttpConnection] = {}
        self._holds: list[_Hold] = []
        self._requests: list[tuple[Event, Belonging]] = []
        self._number = 0  # of the last request before these
        self._arrived = asyncio.Event()

    @property
    def origin(self) -> str:
        """Where it listens, without a path; a RuntimeError before `start`."""
        if self._server is None:
            raise RuntimeError("the scripted model is not started")
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @property
    def url(self) -> str:
        """The base URL of the OpenAI APIs."""
        return f"{self.origin}/v1"

    async def start(self) -> None:
        loop, budget = asyncio.get_running_loop(), Budget()
        self._server = await loop.create_server(lambda: HttpProtocol(self._serve, budget), "127.0.0.1", 0)

    async def stop(self) -> None:
        """Ends every connection, held ones too."""
        if self._server is None:
            return
        self._server.close()
        for task, connection in tuple(self._connections.items()):
            connection.close()
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._server = None

    def expect(self, nonce: str, *, group: str) -> None:
        """A request that holds `nonce` is about it, and belongs to `group`. Both are keys for `script`."""
        self._script.expect(nonce, group)

    def script(self, key: str | None, replies: Sequence[Reply]) -> None:
        """What is answered from now on to requests of `key`: a nonce, a group, or None for those without a script."""
        self._script.set(key, replies)

    def forget(self) -> None:
        """Begins anew, with no script and no known nonce; what is held is let go. Numbers go on."""
        self.release(None)
        self._script = Script()
        self._number += len(self._requests)
        self._requests.clear()

    def release(self, key: str | None = None) -> int:
        """Lets the held requests of `key` go on; how many there were."""
        released = [hold for hold in self._holds if self._script.matches(key, hold.belonging)]
        for hold in released:
            hold.released.set()
        return len(released)

    async def requested(self, key: str | None, *, since: int = 0, patience: float) -> Event | None:
        """The first `model-request` of `key` from seq `since` on, side requests aside; None when patience ran out."""
        try:
            async with asyncio.timeout(patience):
                at = 0
                while True:
                    for event, belonging in self._requests[at:]:
                        if event.seq >= since and not belonging.is_side and self._script.matches(key, belonging):
                            return event
                    at = len(self._requests)
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            return None

    # -- serving

    async def _serve(self, connection: HttpConnection) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = connection
        try:
            while (request := await connection.request()) is not None:
                await self._route(connection, request)
                if not request.keeps_alive:
                    break
        except BadRequest as error:
            await self._refuse(connection, error)
        except (ClientGone, ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            connection.close()
            del self._connections[task]

    async def _route(self, connection: HttpConnection, request: Request) -> None:
        path = "/" + request.path.strip("/").removeprefix("v1").strip("/")
        if request.method == "POST" and (dialect := _DIALECTS.get(path)) is not None:
            await self._ask(connection, request, dialect)
        elif request.method == "POST" and path == "/messages/count_tokens":
            await _json(connection, 200, {"input_tokens": 1 + len(request.body) // 4})
        elif request.method in ("GET", "HEAD") and path == "/":
            await _json(connection, 200, {"name": "scripted model"})
        elif request.method in ("GET", "HEAD") and path == "/models":
            listing = {"object": "list", "data": [_model("scripted")], "has_more": False}
            await _json(connection, 200, {**listing, "first_id": "scripted", "last_id": "scripted"})
        elif request.method in ("GET", "HEAD") and path.startswith("/models/"):
            await _json(connection, 200, _model(path.removeprefix("/models/")))
        else:
            await _json(connection, 404, CHAT.error(404, "The scripted model has no such path."))

    async def _ask(self, connection: HttpConnection, request: Request, dialect: Dialect) -> None:
        parsed = parse(request.body.decode("utf-8", "replace"))
        try:
            asked = dialect.read(parsed.value if parsed.is_json else None)
        except ValueError as error:
            await _json(connection, 400, dialect.error(400, f"The request cannot be read: {error}."))
            return
        for _ in range(_TURNS_OF_A_PIPE):
            await asyncio.sleep(0)
        number = self._number + len(self._requests) + 1
        if len(self._requests) >= MAX_REQUESTS:
            await _json(connection, 429, dialect.error(429, "The scripted model was asked too often."))
            return
        belonging = self._note(asked, number)
        performance = Performance(connection, dialect, asked, number, self._recorder, self.name, self._tool_arguments)
        await performance.play(lambda: self._due(asked, belonging), lambda: self._hold(belonging))

    def _note(self, asked: Asked, number: int) -> Belonging:
        belonging = self._script.belonging(asked)
        event = self._recorder.control(
            self.name,
            controls.MODEL_REQUEST,
            number=number,
            api=asked.api,
            nonce=belonging.nonce,
            group=belonging.group,
            side=belonging.is_side,
            stream=asked.stream,
            last_user=belonging.is_last_user,
            tail=belonging.tail,
        )
        self._requests.append((event, belonging))
        self._arrived.set()
        if len(self._requests) == MAX_REQUESTS:
            self._recorder.control(self.name, controls.LIMIT, limit="model-requests", value=MAX_REQUESTS)
        return belonging

    def _due(self, asked: Asked, belonging: Belonging) -> Reply:
        """The scripted reply, or what a side request gets: the failure of its group, else a plausible answer."""
        is_work = belonging.nonce is None and not asked.is_structured and not asked.is_about_titles
        if is_work or not belonging.is_side:
            return self._script.due(belonging)
        if (failure := self._script.is_failing(belonging)) is not None:
            return failure
        return Reply("say", json.dumps(example(asked.schema)) if asked.is_structured else _TITLE)

    @contextmanager
    def _hold(self, belonging: Belonging) -> Iterator[asyncio.Event]:
        hold = _Hold(belonging, asyncio.Event())
        self._holds.append(hold)
        try:
            yield hold.released
        finally:
            self._holds.remove(hold)

    async def _refuse(self, connection: HttpConnection, error: BadRequest) -> None:
        try:
            await _json(connection, error.status, CHAT.error(error.status, str(error)), Connection="close")
        except ClientGone:
            return


async def _json(connection: HttpConnection, status: int, body: Any, **headers: str) -> None:
    await connection.respond(status, json.dumps(body).encode(), **headers)


def _model(id: str) -> dict[str, Any]:
    return {
        "id": id[:200],
        "object": "model",
        "type": "model",
        "display_name": "Scripted",
        "created": 1_750_000_000,
        "created_at": "2026-01-01T00:00:00Z",
        "owned_by": "acp-conformance",
    }
