"""One life of a transport to an agent: what every transport has in common.

Knows the history that it writes to and who listens; knows no message's meaning. Whatever arrives is recorded
first, then told.
"""

import asyncio
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

from conformance.history import Event, Recorder, controls
from conformance.peers.limits import Limits
from conformance.wire import Envelope, Kind

TRANSPORT_STDIO: Final = "stdio"
TRANSPORT_WEBSOCKET: Final = "websocket"


_MOMENTS: Final = 1.0  # seconds
_LONG: Final = 64 * 1024  # bytes of a line from which on it counts what it takes in memory


class AgentDidNotStart(Exception):
    """The agent could not be started or reached: `what` happened, and a `hint` at what to do (may be empty)."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(f"{what}; {hint}" if hint else what)
        self.what = what
        self.hint = hint


class ConnectionEnded(Exception):
    """Nothing can be sent any more: the agent is gone, closed its input, or does not read it."""


class Connection(ABC):
    """`name` is unique in the history. `ended` is set once nothing more will be received and the end is on record."""

    transport: str

    def __init__(self, name: str, recorder: Recorder, limits: Limits, restart_of: str | None) -> None:
        self.name = name
        self.limits = limits
        self.ended = asyncio.Event()
        self._recorder = recorder
        self._listeners: list[Callable[[Event], None]] = []
        self._count = 0
        self._bytes_received = 0
        self._values_received = 0
        self._heard = 0.0  # when the last bytes came, in the time of the event loop
        self._is_reading = True
        self._is_deaf = False
        self._control(controls.STARTED, transport=self.transport, restart_of=restart_of)

    @property
    def stderr_tail(self) -> str:
        """The end of what the agent wrote to stderr; empty for a transport that has none."""
        return ""

    @property
    def is_ending(self) -> bool:
        """Whether the peer is gone: `ended` is set, or will be as soon as the end is on record."""
        return self.ended.is_set()

    @property
    def is_talking(self) -> bool:
        """Whether part of a line has arrived within the last moments, and its end has not: the peer is not silent."""
        return self._is_in_mid_line() and asyncio.get_running_loop().time() - self._heard < _MOMENTS

    def _is_in_mid_line(self) -> bool:
        return False

    async def catch_up(self) -> None:
        """Returns once all that has arrived by now is on record, so that what is said of silence is true."""
        await asyncio.sleep(0)

    def listen(self, callback: Callable[[Event], None]) -> None:
        """Calls `callback` with each line of the agent and each control event of this life, after it was recorded."""
        self._listeners.append(callback)

    def write(self, data: bytes) -> Event:
        """Records `data` (one message, its newline included), then hands it to the transport without waiting.

        Raises ConnectionEnded, with nothing recorded, where it cannot be written.
        """
        self._check_writable()
        event = self._recorded_own(data)
        self._put(data)
        return event

    def write_torn(self, data: bytes, size: int) -> Event:
        """`write`, on stdio in pieces of `size` bytes: the peer may read the line in parts. Raises ConnectionEnded."""
        self._check_writable()
        event = self._recorded_own(data)
        size = size if self.transport == TRANSPORT_STDIO else len(data)
        for at in range(0, len(data), size):
            self._put(data[at : at + size])
        return event

    def write_together(self, lines: Sequence[bytes]) -> list[Event]:
        """Several messages, each recorded by itself, in one write (on stdio). Raises ConnectionEnded."""
        self._check_writable()
        events = [self._recorded_own(line) for line in lines]
        for data in [b"".join(lines)] if self.transport == TRANSPORT_STDIO else lines:
            self._put(data)
        return events

    async def send(self, data: bytes) -> Event:
        """`write`, then `drain`; reading goes on all the while. Raises ConnectionEnded."""
        event = self.write(data)
        await self.drain()
        return event

    @abstractmethod
    async def drain(self) -> None:
        """Waits while more than `limits.write_buffer` bytes are unread.

        Raises ConnectionEnded when `limits.write_patience` seconds did not suffice.
        """

    def _recorded_own(self, data: bytes) -> Event:
        """Records a message of ours. It counts as one of the connection: an agent that asks without end is answered."""
        self._count += 1
        return self._recorder.sent(self.name, data)

    def stop_reading(self) -> None:
        """From now on nothing of the agent is read or recorded: what it has written and we have not read is lost."""
        self._is_reading = False

    def turn_deaf(self) -> None:
        """From now on what the agent writes is lost, neither recorded nor told; it is still read, so none notices."""
        self._is_deaf = True

    @abstractmethod
    async def close(self) -> None:
        """Ends the connection in an orderly way, and all that was started for it; returns when that is on record."""

    @abstractmethod
    async def cut(self) -> None:
        """Ends the connection at once without a goodbye; what was not read yet is lost."""

    @abstractmethod
    def _check_writable(self) -> None: ...

    @abstractmethod
    def _put(self, data: bytes) -> None: ...

    @abstractmethod
    def _overrun(self) -> None:
        """A limit was reached and is on record: nothing more is read, the peer is ended."""

    def _admit(self, data: bytes) -> bool:
        """Whether `data`, just received, may be parsed; where it passes a limit, that is told and the peer ended."""
        limits = self.limits
        self._heard = asyncio.get_running_loop().time()
        self._bytes_received += len(data)
        self._values_received += data.count(b",") + data.count(b"[") + data.count(b"{")
        if self._values_received > limits.max_values:
            self._limit("max-values", limits.max_values)
        elif self._bytes_received > limits.max_output:
            self._limit("max-output", limits.max_output)
        return self._is_reading

    def _receive(self, envelope: Envelope) -> None:
        if not self._is_reading or self._is_deaf:
            return
        self._count += 1
        if envelope.length > _LONG:
            self._bytes_received += max(0, _held(envelope.message) - envelope.length)
        self._tell(self._recorder.wire(self.name, "agent", envelope))
        if envelope.kind is Kind.TOO_LONG:
            self._limit("max-line", self.limits.max_line, ends=False)
        if self._count >= self.limits.max_events:
            self._limit("max-events", self.limits.max_events)

    def _limit(self, limit: str, value: int | float, *, ends: bool = True) -> None:
        if not self._is_reading:
            return
        self._control(controls.LIMIT, limit=limit, value=value)
        if ends:
            self.stop_reading()
            self._overrun()

    def _control(self, name: str, **fields: Any) -> None:
        self._tell(self._recorder.control(self.name, name, **fields))

    def _tell(self, event: Event) -> None:
        for listener in tuple(self._listeners):
            listener(event)


def _held(message: Any) -> int:
    """Bytes that the strings of a parsed line take: one character beyond the BMP makes all of its string four wide."""
    held, waiting = 0, [message]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            held += sys.getsizeof(item)
        elif isinstance(item, dict):
            waiting.extend(item)
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return held
