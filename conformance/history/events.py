"""A history: the append-only list of everything that was sent, received and done.

Knows events and their order; knows nothing of the protocol's meaning, of files or of clocks.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from conformance.wire import Envelope

Direction = Literal["client", "agent", "control"]


@dataclass(frozen=True, slots=True)
class Event:
    """One line on the wire, or one thing that the suite did or saw (a control event).

    `seq` counts from 0 within the history; `t` is in seconds since its start; `conn` names one life of a transport (a
    restarted agent is another connection). `envelope` is set for what `client` and `agent` sent, `control` for the
    rest: its "event" is one of `conformance.history.controls`.
    """

    seq: int
    t: float
    conn: str
    dir: Direction
    envelope: Envelope | None = None
    control: Mapping[str, Any] | None = None

    @property
    def message(self) -> Any:
        """The parsed JSON of a wire event; None where nothing could be parsed and for control events."""
        return self.envelope.message if self.envelope is not None else None

    @property
    def name(self) -> str:
        """The name of a control event; the empty string for a wire event."""
        return str(self.control.get("event", "")) if self.control is not None else ""


@dataclass(slots=True)
class History:
    """Events in the order in which they were recorded, with the header of the transcript that holds them."""

    header: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    flaws: list[str] = field(default_factory=list)  # what was lost or cut while it was recorded or read

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)
