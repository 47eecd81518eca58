"""The agent's process and all that it started: who is alive, how much memory they hold, how to end every one of them.

A member is found by its process group, its session, its parents, or a mark in its environment that children inherit: a
child that made itself a daemon has only the mark left. Linux reads /proc; other POSIX systems ask `ps`; Windows knows
only the tree.
"""

import asyncio
import atexit
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MARK: Final = "ACP_CONFORMANCE_PEER"
"""The environment variable that marks a family; its value is unique to one start."""

_PROC: Final = Path("/proc")
_HAS_PROC: Final = (_PROC / "self" / "stat").exists()
_ROUNDS: Final = 50  # of killing, a few hundredths of a second each: a family that forks faster than that is given up
_LAST_HUNT: Final = 3.0  # seconds for those who hid from their family
_FAREWELL: Final = 0.5  # seconds for who left the group to end in an orderly way
_PR_SET_CHILD_SUBREAPER: Final = 36  # <linux/prctl.h>
_living: set[int] = set()
_awaited: set[int] = set()  # leaders whose exit the event loop has not collected yet
_adopts = False
_spawning = 0


@dataclass(frozen=True, slots=True)
class Member:
    """A living process. `memory` is resident, in bytes; `in_group` is false for one that left the agent's group."""

    pid: int
    memory: int
    in_group: bool


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    group: int
    session: int
    memory: int
    began: int  # ticks since boot; 0 where unknown


class Family:
    """What descends from the process `leader`, which leads its own group and session and bears the mark `mark`."""

    def __init__(self, leader: int, mark: str) -> None:
        self.leader = leader
        self._mark = f"{MARK}={mark}".encode()
        self._known: dict[int, int] = {}  # pid -> began; ancestry is lost once a parent dies, so what was seen is kept
        self._leader_began = _began(leader)
        _living.add(leader)
        _awaited.add(leader)

    def members(self) -> list[Member]:
        """Who is alive now, the leader included; zombies are not. Takes some milliseconds; may run in a thread."""
        if sys.platform == "win32":
            return []
        processes = {process.pid: process for process in _processes()}
        leader = processes.get(self.leader)
        if leader is not None and leader.began != self._leader_began:
            return []  # the number was given to another process since
        found = {process.pid: process for process in processes.values() if self._belongs(process)}
        grown = True
        while grown:
            children = [p for p in processes.values() if p.parent in found and p.pid not in found]
            found.update((child.pid, child) for child in children)
            grown = bool(children)
        self._known.update((process.pid, process.began) for process in found.values())
        return [Member(p.pid, p.memory, p.group == self.leader) for p in found.values()]

    def group_is_empty(self) -> bool:
        """Whether no process of the agent's group is left, at the cost of one system call."""
        if sys.platform == "win32":
            return True
        try:
            os.killpg(self.leader, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False

    def terminate(self) -> None:
        """Asks the whole group to end; wakes it first where it was stopped."""
        if sys.platform == "win32":
            with contextlib.suppress(OSError):
                os.kill(self.leader, signal.CTRL_BREAK_EVENT)
        else:
            _signal_group(self.leader, signal.SIGTERM)
            _signal_group(self.leader, signal.SIGCONT)

    def kill(self) -> None:
        """Ends the group at once, in one system call; stopped processes too."""
        _end_group(self.leader)

    async def kill_all(self) -> int:
        """Ends the group at once, and then whoever left it; returns how many are alive nevertheless.

        Who left the group may be no part of the agent: a job of the user's own shell profile, say, with a lock to give
        back. So those are asked first.
        """
        self.kill()
        members = await self._killed_who_left()
        self.forget()
        return len(members)

    async def _killed_who_left(self) -> list[Member]:
        if sys.platform == "win32":
            return []
        members = await self.wait_until_empty(0.0)
        if members:
            _signal_each((member.pid for member in members), signal.SIGTERM)
            _signal_each((member.pid for member in members), signal.SIGCONT)
            members = await self.wait_until_empty(_FAREWELL)
        for attempt in range(_ROUNDS):
            if not members:
                break
            # Stopping all of them first keeps those that fork from getting ahead of us.
            for number in (signal.SIGSTOP, signal.SIGKILL):
                _signal_each((member.pid for member in members), number)
            await asyncio.sleep(0.005 * min(attempt + 1, 10))
            members = await asyncio.to_thread(self.members)
        return members

    async def wait_until_empty(self, seconds: float) -> list[Member]:
        """Who is alive after `seconds`; returns as soon as nobody is."""
        clock = asyncio.get_running_loop().time
        deadline, pause = clock() + seconds, 0.01
        while members := await asyncio.to_thread(self.members):
            if clock() >= deadline:
                break
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 0.1)
        return members

    def leader_exited(self) -> None:
        """The event loop has collected the exit of the leader."""
        _awaited.discard(self.leader)

    def forget(self) -> None:
        """All of it has ended: nothing is left to end when the interpreter does."""
        _living.discard(self.leader)

    def _belongs(self, process: _Process) -> bool:
        if self.leader in (process.pid, process.group, process.session):
            return True
        if self._known.get(process.pid) == process.began and process.began:
            return True
        return process.began >= self._leader_began and self._bears_mark(process.pid)

    def _bears_mark(self, pid: int) -> bool:
        if not _HAS_PROC:
            return False
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                return self._mark in file.read().split(b"\0")
        except OSError:
            return False


def _end_group(leader: int) -> None:
    if sys.platform == "win32":
        command = ["taskkill", "/T", "/F", "/PID", str(leader)]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(command, capture_output=True, check=False, timeout=10)
    else:
        _signal_group(leader, signal.SIGKILL)


def _signal_group(leader: int, number: int) -> None:
    if sys.platform == "win32":
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _signal_each(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _processes() -> Iterator[_Process]:
    return _from_proc() if _HAS_PROC else _from_ps()


def _from_proc() -> Iterator[_Process]:
    if sys.platform == "win32":
        return
    page = os.sysconf("SC_PAGE_SIZE")
    with os.scandir(_PROC) as entries:
        pids = [entry.name for entry in entries if entry.name.isdigit()]
    for pid in pids:
        fields = _stat(int(pid))
        if not fields:
            continue
        if fields[0] in (b"Z", b"X"):
            _collect(int(pid), int(fields[1]))
            continue
        parent, group, session, began, pages = (int(fields[at]) for at in (1, 2, 3, 19, 21))
        yield _Process(int(pid), parent, group, session, pages * page, began)


def _stat(pid: int) -> list[bytes]:
    """The fields of /proc/PID/stat from the state on; empty where the process has ended since."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            stat = file.read()
    except OSError:
        return []
    return stat[stat.rfind(b")") + 2 :].split()


def _began(pid: int) -> int:
    fields = _stat(pid) if _HAS_PROC else []
    return int(fields[19]) if fields else 0


def _from_ps() -> Iterator[_Process]:
    command = ["ps", "-A", "-o", "pid=,ppid=,pgid=,rss=,stat="]
    try:
        listing = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10).stdout
    except (OSError, subprocess.SubprocessError):
        return
    for line in listing.splitlines():
        fields = line.split()
        if len(fields) == 5 and all(field.isdigit() for field in fields[:4]) and not fields[4].startswith("Z"):
            pid, parent, group, kilobytes = (int(field) for field in fields[:4])
            yield _Process(pid, parent, group, 0, kilobytes * 1024, 0)


@atexit.register
def end_the_living() -> None:
    """Ends the groups of all agents at once; the last resort of an interpreter that ends in mid-run, too."""
    for leader in tuple(_living):
        _end_group(leader)


@contextlib.contextmanager
def spawning() -> Iterator[None]:
    """While a leader is started whose number is not known yet, no dead child of ours is collected."""
    global _spawning
    _spawning += 1
    try:
        yield
    finally:
        _spawning -= 1


def adopt_orphans() -> bool:
    """From now on, whoever loses its parent among our descendants becomes our own child, and cannot hide from
    `end_orphans`. For a process that starts nothing but agents. Linux alone can do that; whether it was done."""
    global _adopts
    if sys.platform != "linux" or not _HAS_PROC:
        return False
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        _adopts = ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    return _adopts


def end_orphans() -> None:
    """After `adopt_orphans`, once no agent runs any more: ends whoever hid from its family, and all of theirs, since
    they become ours in turn. As elsewhere, each is asked first."""
    if not _adopts or sys.platform == "win32":
        return
    deadline = time.monotonic() + _FAREWELL
    _signal_each(_orphans(), signal.SIGTERM)
    _signal_each(_orphans(), signal.SIGCONT)
    while _orphans() and time.monotonic() < deadline:
        time.sleep(0.02)
    # Without a pause: what forks and exits without end has always one of its own among our children, dead or alive.
    deadline = time.monotonic() + _LAST_HUNT
    while (orphans := _orphans()) and time.monotonic() < deadline:
        _signal_each(orphans, signal.SIGKILL)
        for pid in orphans:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _orphans() -> list[int]:
    """Our children that are no agents, the dead that nobody has collected among them."""
    found: list[int] = []
    try:
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    except OSError:  # a kernel that does not list them, or a thread that has ended
        me = os.getpid()
        found = [pid for pid in map(int, filter(str.isdigit, os.listdir(_PROC))) if _parent(pid) == me]
    return [pid for pid in found if pid not in _awaited]


def _parent(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def _collect(pid: int, parent: int) -> None:
    if sys.platform == "win32":
        return
    if _adopts and not _spawning and parent == os.getpid() and pid not in _awaited:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
