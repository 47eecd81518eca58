"""What a scenario may count on, from the profile and the command line: windows, triggers, what the target can do. Data
only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance import __version__


@dataclass(frozen=True, slots=True)
class Setting:
    """Times in seconds. `workdir` is the agent's folder. `shared` says that two processes of the agent see one
    store."""

    workdir: Path
    seed: int = 0
    patience: float = 15.0
    startup: float = 60.0
    hold_window: float = 0.5
    quiet_window: float = 0.15
    limit: float = 120.0
    triggers: Mapping[str, str] = field(default_factory=dict)
    model_api: str | None = None
    shared: bool = False
    survives_restart: bool = False
    is_process: bool = True
    can_restart: bool = True
    install: str | None = None  # the command that installs the agent
    asks_in_the_end: bool = False  # while work is waited for: one at work is told from one that hangs

    def facts(self) -> dict[str, Any]:
        """What the `profile` event at the head of a history says of it."""
        return {
            "triggers": dict(self.triggers),
            "sessions": {"shared": self.shared, "survives-restart": self.survives_restart},
            "model": self.model_api,
            "patience": self.patience,
            "hold_window": self.hold_window,
            "quiet_window": self.quiet_window,
            "suite": __version__,
        }

    @property
    def has_model(self) -> bool:
        return self.model_api is not None

    @property
    def is_websocket(self) -> bool:
        return not self.is_process

    @property
    def shares_connections(self) -> bool:
        """Whether a second connection sees the sessions of the first: those of one server do, two processes where the
        profile says so."""
        return self.shared or self.is_websocket
