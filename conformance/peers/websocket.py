"""An agent that is reached over WebSocket: one text frame a message.

Knows frames and how a connection ends. Several connections may lead to one server; whoever started that ends it.
"""

import asyncio
import contextlib
import inspect
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from conformance.history import Recorder, controls
from conformance.peers.connection import TRANSPORT_WEBSOCKET, AgentDidNotStart, Connection, ConnectionEnded
from conformance.peers.limits import Limits
from conformance.wire import read_envelope

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

_BREATH: Final = 100  # frames between two breaths of the event loop: what is buffered is received without waiting
_TOO_BIG: Final = 1009  # the close code for a message beyond the limit


async def dial_websocket(
    url: str, *, name: str, recorder: Recorder, limits: Limits | None = None, restart_of: str | None = None
) -> "WebSocketConnection":
    """Connects to `url` and records `started`. Raises AgentDidNotStart where nothing speaks WebSocket there."""
    from websockets.asyncio.client import ClientConnection, connect
    from websockets.exceptions import InvalidURI, WebSocketException

    class Impatient(ClientConnection):
        """Hangs up on a peer whose frames cannot be read: the library would wait for its goodbye, and so should we.

        `heard` is told how many bytes came: pings are answered below us, and would be so without end.
        """

        heard: Callable[[int], None] = staticmethod(lambda size: None)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.heard(len(data))
            if self.protocol.parser_exc is not None:
                self.transport.abort()

    bounds = limits or Limits()
    options: dict[str, Any] = {
        "max_size": bounds.max_line,
        "compression": None,
        "ping_interval": None,  # a stopped agent is found out by our own patience, not by the library's
        "open_timeout": bounds.startup_timeout,
        "close_timeout": bounds.grace,
        "user_agent_header": None,
        "logger": _silent(),
        "create_connection": Impatient,
    }
    if "proxy" in inspect.signature(connect.__init__).parameters:
        options["proxy"] = None
    try:
        socket = await connect(url, **options)
    except InvalidURI:
        raise AgentDidNotStart(f"{url!r} is no WebSocket address", "give one such as ws://127.0.0.1:8080/acp") from None
    except TimeoutError:
        what = f"{url} did not answer within {bounds.startup_timeout:g} s"
        raise AgentDidNotStart(what, "check that the agent listens there") from None
    except OSError as error:
        what = f"cannot connect to {url}: {error.strerror or error}"
        raise AgentDidNotStart(what, "check that the agent listens there") from None
    except (WebSocketException, EOFError) as error:
        what = f"{url} does not speak WebSocket: {str(error)[:200]}"
        raise AgentDidNotStart(what, "check the path of the address") from None
    connection = WebSocketConnection(socket, name, recorder, bounds, restart_of)
    socket.heard = connection.heard  # type: ignore[attr-defined]
    return connection


class WebSocketConnection(Connection):
    """One WebSocket. What it sends goes through a queue, so that reading never waits for writing."""

    transport = TRANSPORT_WEBSOCKET

    def __init__(
        self, socket: "ClientConnection", name: str, recorder: Recorder, limits: Limits, restart_of: str | None
    ) -> None:
        super().__init__(name, recorder, limits, restart_of)
        self._socket = socket
        self._is_closing = False
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._bytes_heard = 0
        self._something_to_send = asyncio.Event()
        self._sent = asyncio.Event()
        self._sending = asyncio.create_task(self._send_all(), name=f"send {name}")
        self._life = asyncio.create_task(self._live(), name=f"agent {name}")

    async def close(self) -> None:
        if not self._is_closing and not self.ended.is_set():
            self._is_closing = True
            self._control(controls.CLOSED)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.limits.grace):
                    while self._unsent_bytes and not self.ended.is_set():
                        self._sent.clear()
                        await self._sent.wait()
            # The library gives the peer `close_timeout` to say goodbye; the outer limit is for when it does not return.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._socket.close(), self.limits.grace * 2)
            self._abort()
        await self._life

    async def cut(self) -> None:
        if not self._is_closing and not self.ended.is_set():
            self._is_closing = True
            self.stop_reading()
            self._control(controls.CUT)
            self._abort()
        await self._life

    async def drain(self) -> None:
        seconds = self.limits.write_patience
        try:
            async with asyncio.timeout(seconds):
                while self._unsent_bytes > self.limits.write_buffer and not self.ended.is_set():
                    self._sent.clear()
                    await self._sent.wait()
        except TimeoutError:
            self._limit("write-patience", seconds, ends=False)
            raise ConnectionEnded(f"{self.name}: the agent has not read its input for {seconds:g} s") from None

    def _check_writable(self) -> None:
        if self._is_closing or self.ended.is_set():
            raise ConnectionEnded(f"{self.name}: the connection is closed")

    def _put(self, data: bytes) -> None:
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        self._something_to_send.set()

    def heard(self, size: int) -> None:
        """Counts bytes as they come, those that make no message with them."""
        self._bytes_heard += size
        if self._bytes_heard > self.limits.max_output:
            self._limit("max-output", self.limits.max_output)

    def _overrun(self) -> None:
        self._is_closing = True
        self._control(controls.CUT)
        self._abort()

    def _abort(self) -> None:
        self._socket.transport.abort()

    async def _live(self) -> None:
        try:
            await self._read()
            if self._is_reading and not self._is_closing:
                closed = self._socket.protocol
                reason = (closed.close_reason or "")[:200]
                self._control(controls.DISCONNECTED, code=closed.close_code, reason=reason)
        finally:
            self.ended.set()
            self._sent.set()
            self._sending.cancel()
            self._abort()

    async def _read(self) -> None:
        from websockets.exceptions import ConnectionClosed

        frames = 0
        while self._is_reading:
            try:
                message = await self._socket.recv(decode=False)
            except ConnectionClosed as closed:
                if closed.sent is not None and closed.sent.code == _TOO_BIG:
                    self._limit("max-line", self.limits.max_line, ends=False)
                return
            data = bytes(message) if not isinstance(message, str) else message.encode()
            if not self._admit(data):
                return
            self._receive(read_envelope(data))
            frames += 1
            if frames % _BREATH == 0:
                await asyncio.sleep(0)

    async def _send_all(self) -> None:
        from websockets.exceptions import ConnectionClosed

        while True:
            while self._unsent:
                data = self._unsent.popleft()
                text = data.removesuffix(b"\n")
                with contextlib.suppress(ConnectionClosed):
                    await self._socket.send(_frame(text))
                self._unsent_bytes -= len(data)
                self._sent.set()
            self._something_to_send.clear()
            await self._something_to_send.wait()


def _frame(text: bytes) -> str | bytes:
    """A text frame; for what is no text, which only a scenario's own bytes can be, a binary one."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text


def _silent() -> logging.Logger:
    """What the library has to say is in the history already."""
    logger = logging.getLogger("conformance.peers.websocket")
    logger.propagate = False
    logger.addHandler(logging.NullHandler())
    logger.setLevel(logging.CRITICAL + 1)
    return logger
