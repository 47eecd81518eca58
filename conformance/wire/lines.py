"""Lines out of a stream of bytes: newline-delimited JSON, sans-I/O, with a bound on what it keeps.

A line ends at byte 0x0A and nowhere else (not at U+2028, not at a lone carriage return); the carriage return of
"\\r\\n" is dropped. How the bytes were cut into chunks never changes what comes out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from conformance.wire.envelope import Envelope, Kind, read_envelope

MAX_LINE: Final = 64 * 1024 * 1024
KEPT_OF_TOO_LONG: Final = 4 * 1024
"""How many bytes of an over-long line its envelope shows."""


class LineReader:
    """Takes chunks as they arrive, gives envelopes. Holds at most `max_line` bytes; a carriage return counts."""

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._max_line = max_line
        self._pending = bytearray()
        self._is_skipping = False

    def feed(self, data: bytes) -> list[Envelope]:
        """The envelopes of the lines that `data` completes, in order.

        An over-long line gives one TOO_LONG envelope as soon as it passes the limit; the rest of it is dropped.
        """
        envelopes: list[Envelope] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._keep(data[start:end], envelopes)
            if not self._is_skipping:
                line = self._take()
                envelopes.append(read_envelope(line[:-1] if line.endswith(b"\r") else line))
            self._is_skipping = False
            start = end + 1
        if start < len(data):
            self._keep(data[start:], envelopes)
        return envelopes

    @property
    def is_in_mid_line(self) -> bool:
        return bool(self._pending) or self._is_skipping

    def end(self) -> Envelope | None:
        """The stream has ended: the envelope of a last line without a newline (a flaw of it), or None."""
        if not self._pending or self._is_skipping:
            return None
        line = self._take()
        envelope = read_envelope(line)
        return replace(envelope, raw=line, flaws=(*envelope.flaws, "no newline at the end"))

    def _keep(self, piece: bytes, envelopes: list[Envelope]) -> None:
        if self._is_skipping or not piece:
            return
        self._pending += piece
        if len(self._pending) > self._max_line:
            shown = bytes(self._pending[: min(KEPT_OF_TOO_LONG, self._max_line)])
            self._pending, self._is_skipping = bytearray(), True
            flaw = f"longer than {self._max_line} bytes"
            envelopes.append(Envelope(Kind.TOO_LONG, None, shown, (flaw,), self._max_line + 1))

    def _take(self) -> bytes:
        line = bytes(self._pending)
        self._pending = bytearray()
        return line
