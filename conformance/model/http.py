"""HTTP/1.1 as a server needs it for a few API calls: requests in, whole or streamed responses out, with limits.

Knows no provider. Each connection notices when its client leaves, so that a held answer is not held for nobody.
"""

import asyncio
import contextlib
import zlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, cast

MAX_HEAD: Final = 64 * 1024
MAX_BODY: Final = 16 * 1024 * 1024
MAX_BODIES: Final = 64 * 1024 * 1024
"""Bytes of bodies that all connections of one server hold at a time."""
MAX_VALUES: Final = 500_000  # commas and brackets: what a body of "[],[],..." takes is forty times its size


class BadRequest(Exception):
    """A request that cannot be read: the status to answer with, and why. The connection is of no use after it."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class ClientGone(Exception):
    """The client has closed the connection; there is nobody to answer."""


@dataclass(frozen=True, slots=True)
class Request:
    """`path` without its query; header names in lower case; the body decoded from its transfer and content codings."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    keeps_alive: bool
    is_old: bool  # HTTP/1.0, which knows no chunks


class Budget:
    """What the connections of one server may hold between them."""

    def __init__(self, size: int = MAX_BODIES) -> None:
        self.left = size


class HttpConnection:
    """One client. `gone` is set as soon as it has closed its side."""

    def __init__(self, reader: asyncio.StreamReader, gone: asyncio.Event, budget: Budget | None = None) -> None:
        self.gone = gone
        self._budget = budget or Budget()
        self._held = 0
        self._reader = reader
        self._writer: asyncio.StreamWriter = cast(asyncio.StreamWriter, None)  # set once the connection is made
        self._request: Request | None = None
        self._is_chunked = False

    def attach(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def request(self) -> Request | None:
        """The next request; None when the client leaves instead. Raises BadRequest."""
        self._give_back()
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        except asyncio.LimitOverrunError:
            raise BadRequest(431, "the head of the request is too long") from None
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise BadRequest(400, "this is no HTTP/1.1 request")
        headers: dict[str, str] = {}
        for line in filter(None, lines[1:]):
            name, colon, value = line.partition(":")
            if not colon:
                raise BadRequest(400, "a header has no colon")
            headers[name.strip().lower()] = value.strip()
        if "100-continue" in headers.get("expect", "").lower():
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            body = decoded(await self._body(headers), headers.get("content-encoding", ""))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        self._take(len(body) - self._held)
        if body.count(b",") + body.count(b"[") + body.count(b"{") > MAX_VALUES:
            raise BadRequest(413, f"the body holds more than {MAX_VALUES} values")
        is_old = words[2] == "HTTP/1.0"
        wishes = headers.get("connection", "").lower()
        keeps_alive = "close" not in wishes and (not is_old or "keep-alive" in wishes)
        self._request = Request(words[0], words[1].split("?")[0], headers, body, keeps_alive, is_old)
        return self._request

    async def respond(self, status: int, body: bytes, content_type: str = "application/json", **headers: str) -> None:
        """A whole response. Raises ClientGone."""
        length = {"Content-Length": str(len(body)), **headers}
        is_head = self._request is not None and self._request.method == "HEAD"
        await self._write(self._head(status, content_type, length) + (b"" if is_head else body))

    async def respond_partly(self, status: int, body: bytes, content_type: str = "application/json") -> None:
        """A response that promises the whole body and gives its first half."""
        head = self._head(status, content_type, {"Content-Length": str(len(body))})
        await self._write(head + body[: len(body) // 2])

    async def begin(self, content_type: str = "text/event-stream; charset=utf-8") -> None:
        """The head of a streamed response. Raises ClientGone."""
        self._is_chunked = self._request is None or not self._request.is_old
        coding = {"Transfer-Encoding": "chunked"} if self._is_chunked else {}
        await self._write(self._head(200, content_type, {"Cache-Control": "no-cache", **coding}))

    async def chunk(self, data: bytes) -> None:
        """A piece of a streamed response. Raises ClientGone."""
        await self._write(b"%x\r\n%s\r\n" % (len(data), data) if self._is_chunked else data)

    async def finish(self) -> None:
        """The end of a streamed response, as HTTP has it. Raises ClientGone."""
        if self._is_chunked:
            await self._write(b"0\r\n\r\n")

    async def abort(self) -> None:
        """Drops the connection; what was written before is sent."""
        with contextlib.suppress(ClientGone):
            await self._write(b"")
        self._writer.close()

    def close(self) -> None:
        self._give_back()
        self._request = None
        self._writer.close()

    def _take(self, size: int) -> None:
        if size > self._budget.left:
            raise BadRequest(413, f"the bodies of all requests are longer than {MAX_BODIES} bytes")
        self._budget.left -= size
        self._held += size

    def _give_back(self) -> None:
        self._budget.left += self._held
        self._held = 0

    def _head(self, status: int, content_type: str, headers: Mapping[str, str]) -> bytes:
        with contextlib.suppress(ValueError):
            phrase = HTTPStatus(status).phrase
            return _head(status, phrase, content_type, headers, self._request)
        return _head(status, "Status", content_type, headers, self._request)

    async def _write(self, data: bytes) -> None:
        if self.gone.is_set():
            raise ClientGone
        self._writer.write(data)
        try:
            await self._writer.drain()
        except ConnectionError:
            raise ClientGone from None

    async def _body(self, headers: Mapping[str, str]) -> bytes:
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return await self._chunked_body()
        text = headers.get("content-length", "0")
        if not text.isdecimal():
            raise BadRequest(400, "Content-Length is no number")
        if len(text) > 12 or int(text) > MAX_BODY:
            raise BadRequest(413, f"the body is longer than {MAX_BODY} bytes")
        self._take(int(text))
        return await self._reader.readexactly(int(text))

    async def _chunked_body(self) -> bytes:
        body = bytearray()
        while True:
            line = await self._line()
            try:
                size = int(line.split(b";")[0], 16)
            except ValueError:
                raise BadRequest(400, "the size of a chunk is no number") from None
            if size < 0 or len(body) + size > MAX_BODY:
                raise BadRequest(413, f"the body is longer than {MAX_BODY} bytes")
            if size == 0:
                while await self._line() != b"":
                    pass  # trailers
                return bytes(body)
            self._take(size)
            body += await self._reader.readexactly(size)
            await self._reader.readexactly(2)

    async def _line(self) -> bytes:
        try:
            return (await self._reader.readuntil(b"\r\n"))[:-2]
        except asyncio.LimitOverrunError:
            raise BadRequest(400, "a line is too long") from None


Handler = Callable[[HttpConnection], Awaitable[None]]


class HttpProtocol(asyncio.StreamReaderProtocol):
    """Ties a connection to its handler, and sets `gone` when the client leaves."""

    def __init__(self, handler: Handler, budget: Budget | None = None) -> None:
        self._gone = asyncio.Event()
        reader = asyncio.StreamReader(limit=MAX_HEAD)
        connection = HttpConnection(reader, self._gone, budget)

        async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection.attach(writer)
            await handler(connection)

        super().__init__(reader, serve)

    def eof_received(self) -> bool:
        self._gone.set()
        super().eof_received()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()
        super().connection_lost(exc)


def decoded(body: bytes, codings: str) -> bytes:
    """The body without its content codings. Raises BadRequest: 415 for an unknown coding, 413 for a bomb."""
    for coding in reversed([coding.strip().lower() for coding in codings.split(",") if coding.strip()]):
        if coding == "identity":
            continue
        try:
            if coding in ("gzip", "x-gzip"):
                body = _bounded(zlib.decompressobj(wbits=31), body)
            elif coding == "deflate":
                body = _bounded(zlib.decompressobj(), body)
            elif coding == "zstd" and (zstd := _zstd()) is not None:
                body = zstd(body)
            else:
                raise BadRequest(415, f"the content coding {coding[:20]!r} is not supported")
        except (zlib.error, EOFError, ValueError):
            raise BadRequest(400, f"the body is no {coding}") from None
    return body


def _bounded(decompressor: Any, body: bytes) -> bytes:
    plain = decompressor.decompress(body, MAX_BODY + 1)
    if len(plain) > MAX_BODY:
        raise BadRequest(413, f"the body is longer than {MAX_BODY} bytes")
    return cast(bytes, plain)


def _zstd() -> Callable[[bytes], bytes] | None:
    """A bounded zstd decoder where this Python has one (3.14), or a known package is installed."""
    import importlib

    with contextlib.suppress(ImportError):
        standard: Any = importlib.import_module("compression.zstd")

        def unpack(body: bytes) -> bytes:
            try:
                return _bounded(standard.ZstdDecompressor(), body)
            except standard.ZstdError as error:
                raise ValueError from error

        return unpack
    with contextlib.suppress(ImportError):
        package: Any = importlib.import_module("zstandard")

        def read(body: bytes) -> bytes:
            try:
                plain: bytes = package.ZstdDecompressor().stream_reader(body).read(MAX_BODY + 1)
            except package.ZstdError as error:
                raise ValueError from error
            if len(plain) > MAX_BODY:
                raise BadRequest(413, f"the body is longer than {MAX_BODY} bytes")
            return plain

        return read
    return None


def _head(status: int, phrase: str, content_type: str, headers: Mapping[str, str], request: Request | None) -> bytes:
    has_length = "Content-Length" in headers or "Transfer-Encoding" in headers
    keeps = request is not None and request.keeps_alive and has_length
    lines = [f"HTTP/1.1 {status} {phrase}", f"Content-Type: {content_type}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines.append(f"Connection: {'keep-alive' if keeps else 'close'}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
