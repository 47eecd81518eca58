"""Ctrl-C, TERM and HUP while the suite runs agents: each further signal ends more, and sooner.

The first ends the run in order: agents are told goodbye, what was recorded is judged and reported. The second ends the
agents at once. The third ends the suite. Where the event loop takes no signals (Windows), Ctrl-C alone interrupts.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Iterator
from typing import Any, Final

from conformance.peers.family import end_the_living

_WORDS: Final = "acp-conformance: interrupted; the agents are told goodbye. Once more ends them at once."
_NAMES: Final = ("SIGINT", "SIGTERM", "SIGHUP")


@contextlib.contextmanager
def interruptible(task: "asyncio.Task[Any]") -> Iterator[None]:
    """Within it a signal cancels `task`, which runs in the current event loop."""
    loop = asyncio.get_running_loop()
    count = 0

    def interrupted() -> None:
        nonlocal count
        count += 1
        if count == 1:
            print(_WORDS, file=sys.stderr, flush=True)
            task.cancel()
        elif count == 2:
            end_the_living()
        else:
            raise KeyboardInterrupt

    taken = []
    for number in (getattr(signal, name) for name in _NAMES if hasattr(signal, name)):
        if signal.getsignal(number) is signal.SIG_IGN:  # as under nohup
            continue
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):  # Windows, or not the main thread
            loop.add_signal_handler(number, interrupted)
            taken.append(number)
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)
