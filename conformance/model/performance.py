"""One request being answered: replies turned into a provider's events, on the wire and in the history.

What the agent can see is on record before it is sent: a failure before its status, the end of an answer before its last
event.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

from conformance.history import Recorder, controls
from conformance.model.asked import Asked
from conformance.model.dialects import Answer, Dialect, Stream
from conformance.model.http import ClientGone, HttpConnection
from conformance.model.replies import PLAIN, Reply, pieces
from conformance.model.tools import ToolCall, tool_call

_ABANDONED: Final = "abandoned"
_NO_JSON: Final = b'{"scripted": garbage'
_MESSAGES: Final = {
    401: "The scripted model refuses this credential.",
    403: "The scripted model forbids this.",
    429: "The scripted model has a rate limit.",
    529: "The scripted model is overloaded.",
}


class Performance:
    """Answers one request, however many replies that takes; every request gets exactly one `model-answered` event."""

    def __init__(
        self,
        connection: HttpConnection,
        dialect: Dialect,
        asked: Asked,
        number: int,
        recorder: Recorder,
        name: str,
        tool_arguments: Mapping[str, Any],
    ) -> None:
        self._connection = connection
        self._dialect = dialect
        self._asked = asked
        self._number = number
        self._recorder = recorder
        self._name = name
        self._tool_arguments = tool_arguments
        self._stream: Stream | None = None  # once the response has begun

    async def play(self, due: Callable[[], Reply], hold: Callable[[], AbstractContextManager[asyncio.Event]]) -> None:
        """Answers with the reply that `due` gives; after a stall, held until what `hold` gives is set, with the next.

        Raises ClientGone.
        """
        try:
            reply = due()
            while reply.kind == "stall":
                with hold() as released:  # it can be released from the moment that its request is on record
                    if reply.chunks and self._asked.stream:
                        await self._say(reply.chunks, reply.delay)
                    self._control(controls.MODEL_HELD)
                    await self._while_connected(released.wait())
                self._control(controls.MODEL_RELEASED)
                reply = PLAIN if reply.times is None else due()
            await self._perform(reply)
        except (ClientGone, asyncio.CancelledError):
            self._answered(_ABANDONED)
            raise

    async def _perform(self, reply: Reply) -> None:
        match reply.kind:
            case "fail":
                await self._fail(reply)
            case "drop" | "end-early" | "garbage":
                await self._break(reply)
            case _:
                await self._answer(reply)

    async def _answer(self, reply: Reply) -> None:
        call = None
        if reply.kind == "call-tool":
            call = tool_call(reply, self._asked.tools, self._tool_arguments)
        how = "say" if reply.kind == "call-tool" and call is None else reply.kind
        said = _spoken(reply, call)
        thought = reply.text or "Let me think." if reply.kind == "think" else ""
        facts = {"tool": call.tool.name} if call is not None else {}
        if not self._asked.stream:
            await self._pause(reply.delay)
            body = self._dialect.whole(self._asked, Answer("".join(said), thought, call), self._number)
            self._answered(how, 200, **facts)
            await self._connection.respond(200, json.dumps(body, ensure_ascii=False).encode())
            return
        stream = await self._begun()
        if thought:
            await self._send(stream.think(thought))
        await self._say(said, reply.delay)
        if call is not None:
            await self._send(stream.call(call))
        self._answered(how, 200, **facts)
        await self._send(stream.close())
        await self._connection.finish()

    async def _fail(self, reply: Reply) -> None:
        await self._pause(reply.delay)
        message = reply.text or _MESSAGES.get(reply.status, "The scripted model fails on purpose.")
        if self._asked.stream and (reply.chunks or self._stream is not None):
            await self._say(reply.chunks, 0)
            stream = await self._begun()
            self._answered("fail", reply.status)
            await self._send(stream.fail(reply.status, message))
            await self._connection.finish()
            return
        self._answered("fail", reply.status)
        body = json.dumps(self._dialect.error(reply.status, message)).encode()
        await self._connection.respond(reply.status, body)

    async def _break(self, reply: Reply) -> None:
        """Ends in a way that no client can take for an answer."""
        if not self._asked.stream and reply.kind == "garbage":
            self._answered("garbage", 200)
            await self._connection.respond(200, _NO_JSON)
            return
        if reply.status == 0 or not self._asked.stream:
            self._answered(reply.kind)
            if reply.status != 0:
                whole = self._dialect.whole(self._asked, Answer("Understood."), self._number)
                await self._connection.respond_partly(200, json.dumps(whole).encode())
            await self._connection.abort()
            return
        await self._say(reply.chunks or ("Under",), reply.delay)
        self._answered(reply.kind, 200)
        if reply.kind == "garbage":
            await self._connection.chunk(b"data: " + _NO_JSON + b"\n\n")
        if reply.kind == "drop":
            await self._connection.abort()
        else:
            await self._connection.finish()

    async def _say(self, said: tuple[str, ...], delay: float) -> None:
        stream = await self._begun()
        for piece in said:
            await self._pause(delay)
            await self._send(stream.say(piece))

    async def _begun(self) -> Stream:
        if self._stream is None:
            self._stream = self._dialect.stream(self._asked, self._number)
            await self._connection.begin()
            await self._send(self._stream.open())
        return self._stream

    async def _send(self, events: Iterator[bytes]) -> None:
        for data in events:
            await self._connection.chunk(data)

    async def _pause(self, seconds: float) -> None:
        if seconds > 0:
            await self._while_connected(asyncio.sleep(seconds))

    async def _while_connected(self, waiting: Coroutine[Any, Any, Any]) -> None:
        """Waits, and raises ClientGone as soon as there is nobody to wait for."""
        waited, leaving = asyncio.create_task(waiting), asyncio.create_task(self._connection.gone.wait())
        try:
            await asyncio.wait({waited, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not waited.done():
                raise ClientGone
        finally:
            waited.cancel()
            leaving.cancel()

    def _answered(self, how: str, status: int | None = None, **facts: Any) -> None:
        injected = how in ("fail", "drop", "end-early", "garbage")
        self._control(controls.MODEL_ANSWERED, how=how, status=status, injected=injected, **facts)

    def _control(self, event: str, **facts: Any) -> None:
        self._recorder.control(self._name, event, number=self._number, **facts)


def _spoken(reply: Reply, call: ToolCall | None) -> tuple[str, ...]:
    """What a reply says, in the pieces that a stream sends."""
    match reply.kind:
        case "stream":
            return reply.chunks or pieces(reply.text or "Understood.")
        case "think":
            return reply.chunks or pieces("Understood.")
        case "call-tool" if call is not None:
            return pieces(reply.text) if reply.text else ()
        case "call-tool":
            return pieces("There is no tool to call.")
    text = reply.text if reply.text is not None else "Understood."
    return reply.chunks or (pieces(text) if text else ())
