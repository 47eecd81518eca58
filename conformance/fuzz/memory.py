"""What an agent's process holds: memory that grows with every round of the same steps, nothing of the earlier rounds
being open any more, and processes that it has started.

Looks at the process where the system tells of it (Linux). An agent may keep what it was
sent: growth counts only beyond a multiple of the bytes that were exchanged.
"""

import sys
from pathlib import Path
from typing import Final

from conformance.fuzz.live import CLIENT, Live
from conformance.fuzz.playing import Ran, on_live
from conformance.history import History, controls
from conformance.history.events import Event
from conformance.peers import ProcessConnection
from conformance.profile import Profile
from conformance.scenario.model import Scenario

MIB: Final = 1024 * 1024
ROUNDS: Final = 9
_SETTLING: Final = 3  # rounds in which caches fill
_LEAST: Final = MIB  # a round
_KEPT: Final = 8  # times the bytes of a round, for an agent that keeps all of it


def resident(live: Live) -> int:
    """Bytes; 0 where that is not known."""
    connection = live.connection
    if not isinstance(connection, ProcessConnection) or sys.platform == "win32":
        return 0
    try:
        pages = Path(f"/proc/{connection.process.family.leader}/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return 0
    import resource

    return int(pages) * resource.getpagesize()


def children(live: Live) -> int:
    """How many processes the agent has started that live; 0 where that is not known (all but Linux)."""
    connection = live.connection
    if not isinstance(connection, ProcessConnection):
        return 0
    try:
        tasks = Path(f"/proc/{connection.process.family.leader}/task").iterdir()
        return sum(len((task / "children").read_text(encoding="ascii").split()) for task in tasks)
    except OSError:
        return 0


async def rounds(profile: Profile, scenario: Scenario, *, seed: int, patience: float) -> Ran:
    """Plays the same steps again and again on one fresh process. The history is that of the last round; where memory
    grew with each, it ends with what was held after them."""
    live = await Live.begin(profile, seed=seed, patience=patience)
    held: list[int] = []
    ran = Ran(History())
    try:
        for _ in range(ROUNDS):
            ran = await on_live(live, scenario, patience=patience, quiet_window=0.05)
            if live.is_spent:
                return ran
            held.append(resident(live))
            if len(held) > _SETTLING and held[-1] - held[-2] < _LEAST + _KEPT * _exchanged(ran.history):
                return ran  # one round without growth is enough
    finally:
        await live.end()
    for number, bytes_ in enumerate(held[_SETTLING - 1 :], _SETTLING):
        control = {"event": controls.MEMORY, "bytes": bytes_, "round": number}
        seq = len(ran.history.events)
        ran.history.events.append(Event(seq, ran.history.events[-1].t, CLIENT, "control", None, control))
    return ran


def _exchanged(history: History) -> int:
    return sum(event.envelope.length for event in history if event.envelope is not None)
