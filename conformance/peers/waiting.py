"""Waiting for an event of a history: first among those recorded already, then as they come."""

import asyncio
from collections.abc import Callable
from typing import Any

from conformance.history import Event, Recorder

Predicate = Callable[[Event], bool]


class Waits:
    """Who waits for what in one history. One of them serves any number of waits at once."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._waiting: dict[asyncio.Future[Event | None], Predicate] = {}
        recorder.listen(self._see)

    async def until(
        self, predicate: Predicate, *, since: int = 0, patience: float, ended: asyncio.Event | None = None
    ) -> Event | None:
        """The first event from `since` (a seq) on that `predicate` accepts.

        None after `patience` seconds, or once `ended` is set. What `predicate` raises is raised here.
        """
        for event in self._recorder.history.events[since:]:
            if predicate(event):
                return event
        if patience <= 0 or (ended is not None and ended.is_set()):
            return None
        future: asyncio.Future[Event | None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = predicate
        ending = asyncio.ensure_future((ended or asyncio.Event()).wait())
        awaited: set[asyncio.Future[Any]] = {future, ending}
        try:
            await asyncio.wait(awaited, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            return future.result() if future.done() else None
        finally:
            del self._waiting[future]
            ending.cancel()

    def _see(self, event: Event) -> None:
        for future, predicate in tuple(self._waiting.items()):
            if future.done():
                continue
            try:
                if predicate(event):
                    future.set_result(event)
            except Exception as error:
                future.set_exception(error)
