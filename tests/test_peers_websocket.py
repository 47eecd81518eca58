"""An agent over WebSocket: frames, ends, hostile servers; and a server that is started for its agent."""

import asyncio
import os
import socket
import sys
import textwrap
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.utils import accept_key

from conformance.history import Event, Recorder
from conformance.peers import (
    AgentDidNotStart,
    ConnectionEnded,
    Limits,
    ScriptedClient,
    WebSocketConnection,
    dial_websocket,
    launch,
    start_server,
)
from conformance.peers.launch import free_port

QUICK = Limits(grace=0.3, terminate_grace=0.3, startup_timeout=20)
Agent = Callable[[ServerConnection], Awaitable[None]]


async def echo(connection: ServerConnection) -> None:
    async for message in connection:
        await connection.send(message)


@asynccontextmanager
async def agent(handler: Agent, **options: Any) -> Any:
    async with serve(handler, "127.0.0.1", 0, close_timeout=0.3, **options) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/acp"


Scene = Callable[[WebSocketConnection, Recorder], Awaitable[None]]


def played(handler: Agent, scene: Scene, **limits: Any) -> list[Event]:
    recorder = Recorder()

    async def whole() -> None:
        async with agent(handler, max_size=None) as url:
            bounds = Limits(grace=0.3, **limits)
            connection = await dial_websocket(url, name="ada", recorder=recorder, limits=bounds)
            try:
                await scene(connection, recorder)
            finally:
                await connection.close()

    asyncio.run(asyncio.wait_for(whole(), 60))
    return recorder.history.events


def names(events: list[Event]) -> list[str]:
    return [event.name or event.dir for event in events]


def raw_server(answer: bytes, *, keeps_open: bool = True) -> Callable[[], Any]:
    """A TCP server that says `answer` to whoever connects."""

    @asynccontextmanager
    async def running() -> Any:
        async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(100)
            writer.write(answer)
            if keeps_open:
                await reader.read()
            writer.close()

        server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        server.close()

    return running


def test_messages_are_text_frames_without_their_newline() -> None:
    async def scene(connection: WebSocketConnection, recorder: Recorder) -> None:
        client = ScriptedClient(connection, recorder, patience=20)
        await client.send('{"text":"ü\u2028"}'.encode())
        seen = await client.until(lambda event: event.dir == "agent", since=0)
        assert seen is not None
        assert seen.message == {"text": "ü\u2028"}

    events = played(echo, scene)
    assert names(events) == ["started", "client", "agent", "closed"]
    assert (events[0].control or {})["transport"] == "websocket"


def test_bytes_that_are_no_text_are_sent_all_the_same() -> None:
    async def scene(connection: WebSocketConnection, recorder: Recorder) -> None:
        client = ScriptedClient(connection, recorder, patience=20)
        await client.send(b"\xff")
        seen = await client.until(lambda event: event.dir == "agent", since=0)
        assert seen is not None
        assert seen.envelope is not None
        assert seen.envelope.raw == b"\xff"

    played(echo, scene)


def test_a_server_that_hangs_up_is_disconnected_with_its_code() -> None:
    async def leaves(connection: ServerConnection) -> None:
        await connection.send("[]")
        await connection.close(4001, "enough")

    async def scene(connection: WebSocketConnection, recorder: Recorder) -> None:
        await connection.ended.wait()
        with pytest.raises(ConnectionEnded):
            connection.write(b"{}\n")

    events = played(leaves, scene)
    assert names(events) == ["started", "agent", "disconnected"]
    assert events[-1].control == {"event": "disconnected", "code": 4001, "reason": "enough"}


def test_cut_reads_nothing_more() -> None:
    async def talks(connection: ServerConnection) -> None:
        while True:
            await connection.send("[]")
            await asyncio.sleep(0)

    async def scene(connection: WebSocketConnection, recorder: Recorder) -> None:
        client = ScriptedClient(connection, recorder, patience=20)
        await client.until(lambda event: event.dir == "agent", since=0)
        pending = await client.request("test/never-answered")
        await client.cut()
        assert pending.response.result() is None

    events = played(talks, scene)
    assert names(events)[-1] == "cut"


@asynccontextmanager
async def mute_server() -> Any:
    """It shakes hands, and reads and says nothing after that, not even goodbye."""
    connected = []

    async def shake_hands(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        key = next(line.split(": ")[1] for line in head.split("\r\n") if line.lower().startswith("sec-websocket-key"))
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept_key(key).encode() + b"\r\n\r\n"
        )
        connected.append(writer)

    server = await asyncio.start_server(shake_hands, "127.0.0.1", 0, limit=1000)
    yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    server.close()
    for writer in connected:
        writer.transport.abort()


def test_a_server_that_reads_nothing_and_never_says_goodbye_does_not_hold_us() -> None:
    recorder = Recorder()

    async def scene() -> None:
        async with mute_server() as url:
            limits = Limits(grace=0.2, write_patience=0.2, write_buffer=1000)
            connection = await dial_websocket(url, name="ada", recorder=recorder, limits=limits)
            with pytest.raises(ConnectionEnded, match="has not read its input"):
                await connection.send(b'"' + b"x" * 8_000_000 + b'"\n')
            await connection.close()

    asyncio.run(asyncio.wait_for(scene(), 60))
    assert names(recorder.history.events) == ["started", "client", "limit", "closed"]


@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        ({"max_line": 1000}, "max-line"),
        ({"max_output": 10_000}, "max-output"),
        ({"max_events": 5}, "max-events"),
        ({"max_values": 5}, "max-values"),
    ],
)
def test_a_limit_ends_the_connection_and_is_told(limits: dict[str, int], limit: str) -> None:
    async def talks(connection: ServerConnection) -> None:
        size = 900
        while True:
            await connection.send('["' + "x" * size + '"]')
            size += 20
            await asyncio.sleep(0)

    async def scene(connection: WebSocketConnection, recorder: Recorder) -> None:
        await connection.ended.wait()

    events = played(talks, scene, **limits)
    assert [(event.control or {})["limit"] for event in events if event.name == "limit"] == [limit]
    assert names(events)[-1] in ("cut", "disconnected"), "who waits for more sees that nothing comes"


def test_pings_count_as_output_and_their_end_is_told() -> None:
    async def pings(connection: ServerConnection) -> None:
        while True:
            connection.protocol.send_ping(b"p" * 125)
            connection.send_data()
            await asyncio.sleep(0)

    async def scene(connection: WebSocketConnection, recorder: Recorder) -> None:
        await connection.ended.wait()

    events = played(pings, scene, max_output=100_000)
    assert names(events) == ["started", "limit", "cut"]


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "does not speak WebSocket"),
        (b"\x00\xff rubbish" * 1000, "does not speak WebSocket"),
        (b"", "did not answer within"),
    ],
    ids=["no such path", "rubbish", "silence"],
)
def test_what_is_no_agent_says_so(answer: bytes, says: str) -> None:
    async def scene() -> None:
        async with raw_server(answer)() as url:
            limits = Limits(startup_timeout=20 if answer else 0.2)
            with pytest.raises(AgentDidNotStart, match=says):
                await dial_websocket(url, name="ada", recorder=Recorder(), limits=limits)

    asyncio.run(asyncio.wait_for(scene(), 60))


@pytest.mark.parametrize(
    ("url", "says"), [("http//x", "no WebSocket address"), ("ws://127.0.0.1:1/", "cannot connect")]
)
def test_a_wrong_address_says_so(url: str, says: str) -> None:
    with pytest.raises(AgentDidNotStart, match=says):
        asyncio.run(dial_websocket(url, name="ada", recorder=Recorder()))


# -- servers that are started

LISTENS = """
    import socket, sys, time
    print("on stdout", flush=True)
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    print("on stderr", file=sys.stderr, flush=True)
    while True:
        listener.accept()
"""


def started(code: str, scene: Callable[[Any], Awaitable[None]], limits: Limits = QUICK) -> list[Event]:
    recorder, port = Recorder(), free_port()

    async def whole() -> None:
        command = [sys.executable, "-c", textwrap.dedent(code), str(port)]
        url = f"ws://127.0.0.1:{port}/acp"
        server = await start_server(command, url=url, recorder=recorder, limits=limits)
        try:
            await scene(server)
        finally:
            await server.stop()

    asyncio.run(asyncio.wait_for(whole(), 60))
    return recorder.history.events


def test_who_listens_there_already_is_not_taken_for_the_server() -> None:
    with socket.create_server(("127.0.0.1", free_port())) as other:
        url = "ws://{}:{}/acp".format(*other.getsockname())
        started = start_server([sys.executable, "-c", "assert False"], url=url, recorder=Recorder(), limits=QUICK)
        with pytest.raises(AgentDidNotStart, match=r"something listens on .* before the server is started") as refused:
            asyncio.run(started)
    assert "{port}" in refused.value.hint


def test_no_two_servers_are_given_one_port() -> None:
    ports = [free_port() for _ in range(200)]
    assert len(set(ports)) == len(ports)
    assert max(ports) < 32_768  # where what a system gives to any begins, and with it what takes a port meanwhile


def test_a_port_that_is_listened_on_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as other:
        taken, free = other.getsockname()[1], free_port()
        monkeypatch.setattr(launch, "_ports", lambda process: iter([taken, free]))
        assert free_port() == free
        monkeypatch.setattr(launch, "_ports", lambda process: iter([taken]))
        with pytest.raises(AgentDidNotStart, match="no TCP port between"):
            free_port()


def test_a_server_is_awaited_and_stopped() -> None:
    async def scene(server: Any) -> None:
        assert server.is_running
        assert server.output_tail.strip() == "on stderr"

    assert started(LISTENS, scene) == []


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_server_that_ends_by_itself_is_on_record() -> None:
    async def scene(server: Any) -> None:
        os.kill(server._child.transport.get_pid(), 9)
        await server._child.exited.wait()

    [event] = started(LISTENS, scene)
    assert event.conn == "server"
    assert event.control == {"event": "exited", "code": None, "signal": "SIGKILL", "by_itself": True}


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("import sys; sys.exit('no licence')", "ended before it listened; it said: no licence"),
        ("import time; time.sleep(300)", "does not listen on 127.0.0.1:"),
    ],
)
def test_a_server_that_never_listens_says_so(code: str, says: str) -> None:
    async def scene(server: Any) -> None:
        raise AssertionError("it listens")

    with pytest.raises(AgentDidNotStart, match=says):
        started(code, scene, Limits(startup_timeout=0.5 if "sleep" in code else 20, grace=0.3, terminate_grace=0.3))
