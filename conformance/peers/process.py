"""An agent as a child process that speaks over stdin and stdout.

Reading, writing and stderr never wait for one another. The process leads a group of its own; when the connection ends,
so does all that the process has started.
"""

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from conformance.history import Recorder, controls
from conformance.peers.connection import TRANSPORT_STDIO, AgentDidNotStart, Connection, ConnectionEnded
from conformance.peers.family import MARK, Family
from conformance.peers.limits import Limits
from conformance.wire import LineReader

_SLICE: Final = 16 * 1024  # bytes between two breaths of the event loop: a chunk of empty lines is thousands of events
_BACKLOG: Final = 1024 * 1024  # bytes received and not yet recorded, beyond which the pipe is left alone
_LAST_RESORT: Final = 10.0  # seconds for the kernel to end what was killed
_STDIN, _STDOUT, _STDERR = 0, 1, 2


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


class ChildProcess(asyncio.SubprocessProtocol):
    """A running child: its pipes, its exit, its family. Keeps stdout for whoever takes it, and the tail of stderr."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.family: Family = cast(Family, None)  # set by `spawn` before anyone sees this object
        self.transport: asyncio.SubprocessTransport = cast(asyncio.SubprocessTransport, None)
        self.chunks: deque[bytes] = deque()
        self.backlog = 0
        self.received = 0
        self.arrived = asyncio.Event()  # a chunk, or the end of stdout
        self.output_ended = False
        self.is_paused = False
        self.exited = asyncio.Event()
        self.writable = asyncio.Event()
        self.writable.set()
        self.input_ended = False
        self.was_signalled = False
        self.stderr = bytearray()

    # -- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        chunk = cast(bytes, data)
        if fd == _STDERR:
            self.stderr += chunk
            del self.stderr[: -self.limits.stderr_tail]
            return
        self.chunks.append(chunk)
        self.backlog += len(chunk)
        self.received += len(chunk)
        self.arrived.set()
        if self.backlog > _BACKLOG and not self.is_paused:
            self.is_paused = True
            self._stdout.pause_reading()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == _STDIN:
            self.input_ended = True
            self.writable.set()
        elif fd == _STDOUT:
            self.output_ended = True
            self.arrived.set()

    def process_exited(self) -> None:
        self.exited.set()
        self.writable.set()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    # -- what the suite calls

    async def take(self) -> bytes | None:
        """The next chunk of stdout, as soon as there is one; None at its end."""
        while not self.chunks:
            if self.output_ended:
                return None
            self.arrived.clear()
            await self.arrived.wait()
        chunk = self.chunks.popleft()
        self.backlog -= len(chunk)
        if self.is_paused and self.backlog <= _BACKLOG // 2 and not self.output_ended:
            self.is_paused = False
            self._stdout.resume_reading()
        return chunk

    def drop_output(self) -> None:
        """Reads no more: what has arrived and was not taken is lost."""
        self.chunks.clear()
        self.backlog = 0
        self.output_ended = True
        self.arrived.set()
        if (pipe := self.transport.get_pipe_transport(_STDOUT)) is not None:
            pipe.close()

    def put(self, data: bytes) -> None:
        if (pipe := self._stdin) is not None:
            pipe.write(data)

    def end_input(self) -> None:
        """Closes stdin; what was not read by then is given up."""
        self.input_ended = True
        pipe = self._stdin
        if pipe is None or pipe.is_closing():
            return
        if pipe.get_write_buffer_size():
            pipe.abort()
        else:
            pipe.close()

    async def wait_exit(self, seconds: float) -> bool:
        """Whether the process has ended, after at most `seconds`."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.exited.wait(), seconds)
        return self.exited.is_set()

    async def kill(self) -> None:
        """Ends the process and its whole family at once, and waits until it has ended."""
        if not self.exited.is_set():
            self.was_signalled = True
        await self.family.kill_all()
        await self.wait_exit(_LAST_RESORT)

    async def terminate(self) -> None:
        """Asks the group to end, and kills it where it does not."""
        self.was_signalled = True
        self.family.terminate()
        if not await self.wait_exit(self.limits.terminate_grace):
            await self.kill()

    async def sweep(self) -> tuple[int, int]:
        """The leader has ended: gives the rest some grace, then ends it.

        Returns how many had to be ended, in the group of the leader and outside of it.
        """
        deadline = asyncio.get_running_loop().time() + self.limits.terminate_grace
        members = await asyncio.to_thread(self.family.members)
        while members and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)
            members = await asyncio.to_thread(self.family.members)
        if members:
            await self.family.kill_all()
        self.family.forget()
        in_group = sum(member.in_group for member in members)
        return in_group, len(members) - in_group

    def release(self) -> None:
        """Gives the pipes back; to be called once everything has ended."""
        self.end_input()
        self.transport.close()

    def stderr_text(self) -> str:
        return self.stderr.decode("utf-8", "replace")

    def exit_facts(self) -> dict[str, Any]:
        """The fields of an `exited` event."""
        status = self.transport.get_returncode()
        by_itself = not self.was_signalled
        if status is None or status >= 0:
            return {"code": status, "signal": None, "by_itself": by_itself}
        with contextlib.suppress(ValueError):
            return {"code": None, "signal": signal.Signals(-status).name, "by_itself": by_itself}
        return {"code": None, "signal": f"signal {-status}", "by_itself": by_itself}

    @property
    def _stdin(self) -> asyncio.WriteTransport | None:
        return cast("asyncio.WriteTransport | None", self.transport.get_pipe_transport(_STDIN))

    @property
    def _stdout(self) -> asyncio.ReadTransport:
        return cast(asyncio.ReadTransport, self.transport.get_pipe_transport(_STDOUT))


async def spawn(
    command: Sequence[str], *, cwd: Path | str | None, env: Mapping[str, str] | None, limits: Limits
) -> ChildProcess:
    """Starts a child in a group of its own. Raises AgentDidNotStart."""
    if not command:
        raise AgentDidNotStart("the command is empty", "give the command that starts the agent")
    environment = dict(os.environ if env is None else env)
    environment[MARK] = mark = secrets.token_hex(8)
    loop = asyncio.get_running_loop()
    options: dict[str, Any] = {"start_new_session": True}
    if sys.platform == "win32":
        options = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    try:
        transport, child = await loop.subprocess_exec(
            lambda: ChildProcess(limits),
            *_resolved(command, environment, cwd),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=environment,
            **options,
        )
    except (OSError, ValueError) as error:
        raise _did_not_start(command, cwd, error) from None
    child.family = Family(transport.get_pid(), mark)
    cast(asyncio.WriteTransport, transport.get_pipe_transport(_STDIN)).set_write_buffer_limits(high=limits.write_buffer)
    return child


class ProcessConnection(Connection):
    """NDJSON over the pipes of a child process."""

    transport = TRANSPORT_STDIO

    def __init__(
        self, process: ChildProcess, name: str, recorder: Recorder, limits: Limits, restart_of: str | None
    ) -> None:
        super().__init__(name, recorder, limits, restart_of)
        self.process = process
        self._is_closing = False
        self._life = asyncio.create_task(self._live(), name=f"agent {name}")
        self._watch = asyncio.create_task(self._watch_resources(), name=f"watch {name}")
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
            in_group, escaped = await process.sweep()
            if (in_group or escaped) and not process.was_signalled:
                self._control(controls.LEFTOVER, count=in_group, daemons=escaped)
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
        lines = LineReader(self.limits.max_line)
        received = 0
        while (chunk := await self.process.take()) is not None:
            received += len(chunk)
            for start in range(0, len(chunk), _SLICE):
                for envelope in lines.feed(chunk[start : start + _SLICE]):
                    self._receive(envelope)
                if len(chunk) > _SLICE:
                    await asyncio.sleep(0)
            if received > self.limits.max_output:
                self._limit("max-output", self.limits.max_output)
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

    async def _watch_resources(self) -> None:
        limits = self.limits
        while limits.max_memory is not None or limits.max_processes is not None:
            await asyncio.sleep(limits.watch_interval)
            members = await asyncio.to_thread(self.process.family.members)
            memory = sum(member.memory for member in members)
            if limits.max_memory is not None and memory > limits.max_memory:
                self._limit("max-memory", limits.max_memory)
            if limits.max_processes is not None and len(members) > limits.max_processes:
                self._limit("max-processes", limits.max_processes)


def _resolved(command: Sequence[str], env: Mapping[str, str], cwd: Path | str | None) -> list[str]:
    """The command with the full path of its program where PATH has it: Windows finds `.cmd` files only so."""
    program = command[0]
    if os.path.dirname(program):
        return list(command)
    found = shutil.which(program, path=env.get("PATH"))
    return [os.path.abspath(found), *command[1:]] if found else list(command)


def _did_not_start(command: Sequence[str], cwd: Path | str | None, error: Exception) -> AgentDidNotStart:
    program = repr(command[0])
    if cwd is not None and not Path(cwd).is_dir():
        return AgentDidNotStart(f"the folder {str(cwd)!r} to start the agent in does not exist", "mend `cwd`")
    if isinstance(error, FileNotFoundError):
        where = "there is no such file" if os.path.dirname(command[0]) else "it is not on PATH"
        return AgentDidNotStart(f"cannot start {program}: {where}", "check the command, or install the agent")
    if isinstance(error, PermissionError):
        hint = "make it executable, or name its interpreter"
        return AgentDidNotStart(f"cannot start {program}: it is not executable", hint)
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    hint = "a script needs its interpreter in the command or in a first line #!"
    return AgentDidNotStart(f"cannot start {program}: {reason}", hint)
