"""An agent as a child process that speaks over stdin and stdout.

Reading, writing and stderr never wait for one another. The process leads a group of its own; when the connection ends,
so does all that the process has started.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from conformance.history import Recorder, controls
from conformance.peers.child import ChildProcess, spawn, watch
from conformance.peers.connection import TRANSPORT_STDIO, Connection, ConnectionEnded
from conformance.peers.limits import Limits
from conformance.wire import LineReader

_SLICE: Final = 16 * 1024  # bytes between two breaths of the event loop: a chunk of empty lines is thousands of events
_LINES: Final = 200  # lines between two breaths


async def start_process(
    command: Sequence[str],
    *,
    name: str,
    recorder: Recorder,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    restart_of: str | None = None,
) -> "ProcessConnection":
    """Starts `command`, without a shell, and records `started`. `env` is the whole environment (None: ours).

    Raises AgentDidNotStart where there is no such program or folder, or it cannot be executed.
    """
    process = await spawn(command, cwd=cwd, env=env, limits=limits or Limits())
    return ProcessConnection(process, name, recorder, limits or Limits(), restart_of)


class ProcessConnection(Connection):
    """NDJSON over the pipes of a child process."""

    transport = TRANSPORT_STDIO

    def __init__(
        self, process: ChildProcess, name: str, recorder: Recorder, limits: Limits, restart_of: str | None
    ) -> None:
        super().__init__(name, recorder, limits, restart_of)
        self.process = process
        self._is_closing = False
        self._lines = LineReader(limits.max_line)
        self._parsed = 0  # bytes of stdout
        self._life = asyncio.create_task(self._live(), name=f"agent {name}")
        self._watch = asyncio.create_task(watch(process, self._limit), name=f"watch {name}")
        self._gone = asyncio.Event()
        self._killing: asyncio.Task[None] | None = None

    @property
    def stderr_tail(self) -> str:
        return self.process.stderr_text()

    async def close(self) -> None:
        if not self._is_closing and not self._gone.is_set():
            self._is_closing = True
            if not self.process.exited.is_set():
                self._control(controls.CLOSED)
            self.process.end_input()
            if not await self.process.wait_exit(self.limits.grace):
                self._control(controls.LINGERED, seconds=self.limits.grace)
                await self.process.terminate()
        await self._life

    async def cut(self) -> None:
        if not self._is_closing and not self._gone.is_set():
            self._is_closing = True
            self.stop_reading()
            self._control(controls.CUT)
            await self.process.kill()
        await self._life

    def stop_reading(self) -> None:
        super().stop_reading()
        self.process.drop_output()

    @property
    def is_ending(self) -> bool:
        return self.process.exited.is_set() or super().is_ending

    def _is_in_mid_line(self) -> bool:
        return self._lines.is_in_mid_line

    async def catch_up(self) -> None:
        process, arrived = self.process, self.process.received
        while self._parsed < arrived and self._is_reading and (process.backlog or not process.output_ended):
            await asyncio.sleep(0)

    def _check_writable(self) -> None:
        if self.process.exited.is_set():
            raise ConnectionEnded(f"{self.name}: the agent has exited")
        if self.process.input_ended or self._is_closing:
            raise ConnectionEnded(f"{self.name}: the input of the agent is closed")

    def _put(self, data: bytes) -> None:
        self.process.put(data)

    async def drain(self) -> None:
        if self.process.writable.is_set():
            return
        try:
            await asyncio.wait_for(self.process.writable.wait(), self.limits.write_patience)
        except TimeoutError:
            seconds = self.limits.write_patience
            self._limit("write-patience", seconds, ends=False)
            raise ConnectionEnded(f"{self.name}: the agent has not read its input for {seconds:g} s") from None

    def _overrun(self) -> None:
        if self._killing is None:
            self._killing = asyncio.create_task(self.process.kill(), name=f"kill {self.name}")

    async def _live(self) -> None:
        """From the first byte to the last process: reads, and records each end once, after the lines before it."""
        process = self.process
        reading = asyncio.create_task(self._read(), name=f"read {self.name}")
        exiting = asyncio.create_task(process.exited.wait(), name=f"exit {self.name}")
        try:
            await asyncio.wait({reading, exiting}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await self._read_the_rest(reading)
            await reading
            if self._is_reading and not self._is_closing:
                self._control(controls.DISCONNECTED)
            if not await process.wait_exit(self.limits.trailing_output):
                self.ended.set()  # it hung up and lives; what it does now ends with close()
                await process.exited.wait()
            self._control(controls.EXITED, **process.exit_facts())
            self.ended.set()
            leftover = await process.sweep()
            if leftover and not process.was_signalled:
                self._control(controls.LEFTOVER, count=leftover)
        finally:
            self.ended.set()
            self._gone.set()
            for task in (reading, exiting, self._watch):
                task.cancel()
            if self._killing is not None:
                await self._killing
            if not process.exited.is_set():
                await process.kill()
            process.release()

    async def _read(self) -> None:
        lines = self._lines
        while (chunk := await self.process.take()) is not None and self._admit(chunk):
            for start in range(0, len(chunk), _SLICE):
                slice_ = chunk[start : start + _SLICE]
                for number, envelope in enumerate(lines.feed(slice_), 1):
                    self._receive(envelope)
                    if number % _LINES == 0:
                        await asyncio.sleep(0)
                self._parsed += len(slice_)
                if len(chunk) > _SLICE:
                    await asyncio.sleep(0)
        if (last := lines.end()) is not None:
            self._receive(last)

    async def _read_the_rest(self, reading: asyncio.Task[None]) -> None:
        """The process is gone; what it wrote is still to be read. Children that hold the pipe open must not hold us."""
        process = self.process
        for _ in range(5):
            received = process.received
            await asyncio.wait({reading}, timeout=self.limits.trailing_output)
            while not reading.done() and process.backlog:
                await asyncio.wait({reading}, timeout=0.05)
            if reading.done() or process.received == received:
                break
        if not reading.done():
            process.drop_output()
