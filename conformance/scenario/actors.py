"""Who and what a scenario is about while it runs: the clients behind its connections, and its sessions. No I/O."""

from dataclasses import dataclass, field
from typing import Any

from conformance.peers import ScriptedClient
from conformance.scenario.watching import Sent


@dataclass(slots=True)
class Actor:
    """A client of the scenario, over all lives of its connection."""

    name: str
    client: ScriptedClient
    lives: int = 1
    is_open: bool = True  # we have not closed or cut it
    answer: dict[str, Any] | None = None  # what `initialize` was answered with
    was_provoked: bool = False  # bytes that are no message were sent: whatever it does now is its answer to them
    is_deaf: bool = False  # nothing of it is read any more

    @property
    def conn(self) -> str:
        return self.client.name

    @property
    def capabilities(self) -> dict[str, Any]:
        found = self.answer.get("capabilities") if self.answer is not None else None
        return found if isinstance(found, dict) else {}

    @property
    def has_sessions(self) -> bool:
        """It advertises sessions, or answers in a shape (that of version 1) which says nothing of them."""
        if isinstance(self.capabilities.get("session"), dict):
            return True
        return self.answer is not None and "capabilities" not in self.answer and "agentCapabilities" in self.answer

    def advertises(self, path: str) -> bool:
        here: Any = self.capabilities
        for name in path.split("."):
            here = here.get(name) if isinstance(here, dict) else None
        return isinstance(here, dict)


@dataclass(slots=True)
class Chat:
    """A session. `group` is its name to the scripted model, `last_actor` the client that used it last, `prompt` the
    latest one.

    `openings` has, for each connection, the session/new or the latest session/resume by which it came to the
    session.
    """

    alias: str
    id: str
    cwd: str
    group: str
    last_actor: str
    used: int  # the position of its last use
    prompt: Sent | None = None
    openings: dict[str, Sent] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)  # of session/new or the latest session/resume
