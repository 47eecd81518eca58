"""The recorder: the one place where events come into being, in memory and on disk at once.

Each event is written as one line and flushed before anyone acts on it, so a crash loses at most the last one. A disk
that is full or gone never stops a run: the history in memory goes on and says what is missing from the file.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from conformance.history.events import Direction, Event, History
from conformance.history.redaction import Redactor
from conformance.history.transcript import text_of
from conformance.wire import Envelope, encode, read_envelope


class Recorder:
    """Grows one history. Not thread-safe: one event loop owns it.

    `path` is the transcript to write, or None to keep the history in memory only. `clock` gives seconds.
    """

    def __init__(
        self,
        path: Path | None = None,
        header: dict[str, Any] | None = None,
        *,
        redactor: Redactor | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.history = History({"transcript": 1, "protocol": 2, **(header or {})})
        self._redactor = redactor or Redactor()
        self._clock = clock
        self._began = clock()
        self._listeners: list[Callable[[Event], None]] = []
        self._file: BinaryIO | None = None
        if path is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._file = path.open("wb", buffering=0)
            except OSError as error:
                self._lose(error)
        self._write(encode(self.history.header))

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Calls `listener` with every event from now on, after it was written."""
        self._listeners.append(listener)

    def sent(self, conn: str, data: bytes) -> Event:
        """What the client side wrote, its newline included; bytes that are no message are kept as they are."""
        return self.wire(conn, "client", read_envelope(data.removesuffix(b"\n")))

    def wire(self, conn: str, direction: Direction, envelope: Envelope) -> Event:
        return self._append(conn, direction, envelope, None)

    def control(self, conn: str, name: str, /, **fields: Any) -> Event:
        """`name` and `fields` as `conformance.history.controls` lists them; `conn` is "" for what concerns no
        connection."""
        return self._append(conn, "control", None, {"event": name, **fields})

    def now(self) -> float:
        """Seconds since the history began."""
        return self._clock() - self._began

    def close(self) -> None:
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:
                self._lose(error)
            self._file = None

    def _append(
        self, conn: str, direction: Direction, envelope: Envelope | None, control: dict[str, Any] | None
    ) -> Event:
        event = Event(len(self.history.events), round(self.now(), 6), conn, direction, envelope, control)
        self.history.events.append(event)
        if self._file is not None:
            self._write(text_of(event, self._redactor))
        for listener in tuple(self._listeners):
            listener(event)
        return event

    def _write(self, line: bytes) -> None:
        if self._file is None:
            return
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._lose(error)

    def _lose(self, error: OSError) -> None:
        self.history.flaws.append(f"the transcript could not be written: {error.strerror or error}")
        self._file = None
