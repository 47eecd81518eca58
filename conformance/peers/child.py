"""A child process: its pipes, its exit, its family and its resources. Knows no protocol and no history."""

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from conformance.peers.connection import AgentDidNotStart
from conformance.peers.family import MARK, Family, spawning
from conformance.peers.limits import Limits

_BACKLOG: Final = 1024 * 1024  # bytes received and not yet taken, beyond which the pipe is left alone
_LAST_RESORT: Final = 10.0  # seconds for the kernel to end what was killed
_STDIN, _STDOUT, _STDERR = 0, 1, 2


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
        self.stderr_ended = asyncio.Event()

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
        elif fd == _STDERR:
            self.stderr_ended.set()

    def process_exited(self) -> None:
        if self.family is not None:
            self.family.leader_exited()
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
        if (pipe := self._stdin) is not None and not pipe.is_closing():  # asyncio prints warnings for a closed one
            pipe.write(data)

    def end_input(self) -> None:
        """Closes stdin, once what was written before has been read."""
        self.input_ended = True
        if (pipe := self._stdin) is not None and not pipe.is_closing():
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

    async def sweep(self) -> int:
        """The leader has ended: gives the rest some grace, then ends it; returns how many of its group that were."""
        grace, short = self.limits.grace, self.limits.terminate_grace
        members = await self.family.wait_until_empty(short)
        if any(member.in_group for member in members):  # these are the agent's own: it has as long as the agent had
            members = await self.family.wait_until_empty(max(0.0, grace - short))
        if members:
            await self.family.kill_all()
        self.family.forget()
        return sum(member.in_group for member in members)

    def release(self) -> None:
        """Gives the pipes back; to be called once everything has ended."""
        self.end_input()
        if (pipe := self._stdin) is not None and pipe.get_write_buffer_size():
            pipe.abort()
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
        with spawning():
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
            child.family = Family(transport.get_pid(), mark)
    except (OSError, ValueError) as error:
        raise _did_not_start(command, cwd, error) from None
    _bound_files(transport.get_pid(), limits.max_file)
    cast(asyncio.WriteTransport, transport.get_pipe_transport(_STDIN)).set_write_buffer_limits(high=limits.write_buffer)
    return child


async def watch(child: ChildProcess, tell: Callable[[str, int], None]) -> None:
    """Looks at memory and processes of the family now and then; tells the limit that is passed, its name and value."""
    limits = child.limits
    while limits.max_memory is not None or limits.max_processes is not None:
        await asyncio.sleep(limits.watch_interval)
        members = await asyncio.to_thread(child.family.members)
        if limits.max_memory is not None and sum(member.memory for member in members) > limits.max_memory:
            tell("max-memory", limits.max_memory)
        if limits.max_processes is not None and len(members) > limits.max_processes:
            tell("max-processes", limits.max_processes)


def _bound_files(pid: int, size: int | None) -> None:
    """Bounds each file that the process and its children write; from outside, since it is Linux alone that can."""
    if size is None or sys.platform != "linux":
        return
    import resource

    with contextlib.suppress(OSError, ValueError):
        _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        bound = size if most == resource.RLIM_INFINITY else min(size, most)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (bound, most))


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
