"""A server that is started for its agent and lives as long as its scenario: it is dialled, not spoken to.

What it writes to stdout and stderr is no protocol; the end of it is kept for the report.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from conformance.history import Recorder, controls
from conformance.peers.child import ChildProcess, spawn, watch
from conformance.peers.connection import AgentDidNotStart
from conformance.peers.limits import Limits

_LAST_WORDS: Final = 1.0  # seconds for what a process that has ended wrote before
_RETRY: Final = 0.05  # seconds between two looks whether it listens
_TAKEN: Final = 0.5  # seconds in which whoever has the address before it accepts a connection
_DEFAULT_PORTS: Final = {"ws": 80, "wss": 443, "http": 80, "https": 443}


async def start_server(
    command: Sequence[str],
    *,
    url: str,
    recorder: Recorder,
    name: str = "server",
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> "Server":
    """Starts `command` and waits until something listens where `url` leads.

    Raises AgentDidNotStart where it cannot be started, ends before that, or takes more than `limits.startup_timeout`;
    and where something listens there already, which would be taken for it.
    """
    parts = urlsplit(url)
    if not parts.hostname or parts.scheme not in _DEFAULT_PORTS:
        raise AgentDidNotStart(f"{url!r} is no WebSocket address", "give one such as ws://127.0.0.1:{port}/acp")
    host, port = parts.hostname, parts.port or _DEFAULT_PORTS[parts.scheme]
    with contextlib.suppress(TimeoutError):
        if await asyncio.wait_for(_accepts(host, port), _TAKEN):
            hint = "end that, or let the suite choose: {port} in the address and in the command"
            raise AgentDidNotStart(f"something listens on {host}:{port} before the server is started", hint)
    child = await spawn(command, cwd=cwd, env=env, limits=limits or Limits())
    server = Server(child, url, name, recorder)
    try:
        await server.listens(host, port)
    except BaseException:
        await server.kill()
        raise
    return server


class Server:
    """A running server. Its exit is recorded under `name` where we did not end it; so is a limit that it passed."""

    def __init__(self, child: ChildProcess, url: str, name: str, recorder: Recorder) -> None:
        self.url = url
        self.name = name
        self._child = child
        self._recorder = recorder
        self._is_stopping = False
        self._life = asyncio.create_task(self._live(), name=f"server {name}")
        self._watch = asyncio.create_task(watch(child, self._limit), name=f"watch {name}")
        self._killing: asyncio.Task[None] | None = None

    @property
    def output_tail(self) -> str:
        """The end of what it wrote to stderr."""
        return self._child.stderr_text()

    @property
    def is_running(self) -> bool:
        return not self._child.exited.is_set()

    async def listens(self, host: str, port: int) -> None:
        """Returns once something accepts connections there. Raises AgentDidNotStart."""
        limit = self._child.limits.startup_timeout
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                while self.is_running:
                    if await _accepts(host, port):
                        return
                    await asyncio.sleep(_RETRY)
        if not self.is_running:
            with contextlib.suppress(TimeoutError):  # its last words may still be on their way
                await asyncio.wait_for(self._child.stderr_ended.wait(), _LAST_WORDS)
        said = self.output_tail.strip().splitlines()[-1:]
        hint = f"it said: {said[0][:200]}" if said else "check its command and its address"
        what = f"does not listen on {host}:{port} after {limit:g} s" if self.is_running else "ended before it listened"
        raise AgentDidNotStart(f"the server {what}", hint)

    async def stop(self) -> None:
        """Ends it in an orderly way: its stdin is closed, it is asked to end, then made to."""
        if not self._is_stopping:
            self._is_stopping = True
            self._child.end_input()
            if self.is_running:
                await self._child.terminate()
        await self._life

    async def kill(self) -> None:
        """Ends it at once, as a crash would."""
        if not self._is_stopping:
            self._is_stopping = True
            await self._child.kill()
        await self._life

    async def _live(self) -> None:
        child = self._child
        reading = asyncio.create_task(self._discard(), name=f"read {self.name}")
        try:
            await child.exited.wait()
            if not self._is_stopping:
                self._recorder.control(self.name, controls.EXITED, **child.exit_facts())
            await child.sweep()
        finally:
            reading.cancel()
            self._watch.cancel()
            if self._killing is not None:
                await self._killing
            child.release()

    async def _discard(self) -> None:
        while await self._child.take() is not None:
            pass

    def _limit(self, limit: str, value: int) -> None:
        if self._killing is None and not self._is_stopping:
            self._recorder.control(self.name, controls.LIMIT, limit=limit, value=value)
            self._killing = asyncio.create_task(self._child.kill(), name=f"kill {self.name}")


async def _accepts(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True
