"""What a profile says: plain facts, frozen, with their defaults."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Api = Literal["openai-responses", "openai-chat", "anthropic-messages"]
APIS: Final[tuple[Api, ...]] = ("openai-responses", "openai-chat", "anthropic-messages")
Transport = Literal["stdio", "websocket"]
TRANSPORTS: Final[tuple[Transport, ...]] = ("stdio", "websocket")

TRIGGERS: Final = {
    "local-command": "a prompt that the agent handles by itself and does not keep",
    "retained-command": "a prompt that the agent handles by itself and keeps in the history",
    "permission": "a prompt that makes the agent ask for permission, by itself or for a tool that its model calls",
    "background": "a prompt that starts background work",
    "fail-before-insertion": "a prompt that the agent rejects before it inserts the message",
}
TEMPLATES: Final = {
    "model.url": "where the scripted model listens, with /v1",
    "model.origin": "the same without /v1",
    "workdir": "a fresh folder that the restarts of one scenario share",
    "python": "the Python that runs the suite",
    "fixtures": "the fixtures of the suite",
    "peers": "the folder that ACP_PEERS_DIR names, else the current one",
    "port": "a free TCP port",
}
TEMPLATE: Final = re.compile(r"\{([a-z][a-z._-]*)\}")


@dataclass(frozen=True, slots=True)
class AgentSection:
    """How the agent is started. `command` is None where the command line has to name it (or `url` a running server).

    `files` are templates by their path under the workdir. `install` is the one command that installs the agent.
    `server` starts the same agent as a WebSocket server at `server_url`: for what needs several connections to it.
    """

    command: tuple[str, ...] | None = None
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    startup_timeout: float = 60.0
    transport: Transport = "stdio"
    url: str | None = None
    install: str | None = None
    server: tuple[str, ...] | None = None
    server_url: str = "ws://127.0.0.1:{port}/"


@dataclass(frozen=True, slots=True)
class ModelSection:
    """The provider API that the agent speaks, and the environment that leads it to the scripted model.

    `tool_arguments` are added to those of each tool call that the scripted model makes up, such as what makes this
    agent ask for permission first.
    """

    api: Api
    env: Mapping[str, str] = field(default_factory=dict)
    tool_arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sessions:
    shared: bool = False  # two processes of the agent see one store
    survives_restart: bool = False


@dataclass(frozen=True, slots=True)
class ProfileLimits:
    """Seconds, bytes and counts; None lifts a limit."""

    patience: float = 15.0  # of one wait
    hold_window: float = 0.6  # that a held model is held, to see what the agent does meanwhile
    quiet_window: float = 0.25  # without an update, before a session counts as quiet
    scenario: float = 120.0
    run: float = 3600.0
    grace: float = 5.0  # for the exit after stdin was closed
    max_line: int = 16 * 1024 * 1024
    max_output: int = 64 * 1024 * 1024
    max_events: int = 50_000
    max_values: int = 2_000_000
    max_memory: int | None = 4 * 1024 * 1024 * 1024
    max_processes: int | None = 256
    max_file: int | None = 4 * 1024 * 1024 * 1024  # of one file that the agent writes, where the system can bound it


@dataclass(frozen=True, slots=True)
class Profile:
    """`expect` names rules that are known to fail, and why. `path` is where the profile was read from, for messages."""

    name: str = "default"
    agent: AgentSection = AgentSection()
    model: ModelSection | None = None
    triggers: Mapping[str, str] = field(default_factory=dict)
    sessions: Sessions = Sessions()
    limits: ProfileLimits = ProfileLimits()
    expect: Mapping[str, str] = field(default_factory=dict)
    path: str = ""
