"""What a scenario can need of the target, and what to add to the profile where it is missing.

A need is decided before anything is started, except a capability: that is known once the agent has answered
`initialize`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from conformance.profile import TRIGGERS
from conformance.scenario.setting import Setting

CAPABILITY: Final = "capability."
TRIGGER: Final = "trigger."


@dataclass(frozen=True, slots=True)
class Need:
    """`missing` says why it is not given and what would give it; None where it is."""

    says: str
    missing: Callable[[Setting], str | None]


def _model(setting: Setting) -> str | None:
    if setting.has_model:
        return None
    return (
        "it needs the scripted model, and nothing says how the agent is pointed at it; "
        'add to acp-conformance.toml, for example: [model] api = "openai-chat", '
        'env = { OPENAI_BASE_URL = "{model.url}" }'
    )


def _second_connection(setting: Setting) -> str | None:
    if setting.shares_connections:
        return None
    return (
        "it needs a second connection to the same sessions; add [sessions] shared = true "
        'where two processes of the agent see one store, [agent] server = "..." where it can serve WebSocket, '
        "or test a server with --url ws://..."
    )


def _restart(setting: Setting) -> str | None:
    if not setting.can_restart:
        return "it needs to restart the agent, and a running server cannot be restarted; give its command in a profile"
    return None


def _process(setting: Setting) -> str | None:
    return (
        None
        if setting.is_process
        else "it needs an agent that is started as a process and speaks over its stdin and stdout"
    )


def _websocket(setting: Setting) -> str | None:
    if setting.is_websocket:
        return None
    return "it needs WebSocket; use --url ws://... or [agent] transport"


NEEDS: Final[Mapping[str, Need]] = {
    "model": Need("the scripted model serves the agent", _model),
    "second-connection": Need("a second connection sees the same sessions", _second_connection),
    "restart": Need("the agent can be restarted and keeps its sessions", _restart),
    "process": Need("the agent is a process of ours, spoken to over its stdin and stdout", _process),
    "websocket": Need("the agent is spoken to over WebSocket", _websocket),
}


_CAPABILITY_PATHS: Final = (
    "auth",
    "session",
    "session.additionalDirectories",
    "session.delete",
    "session.mcp",
    "session.mcp.http",
    "session.mcp.stdio",
    "session.prompt",
    "session.prompt.audio",
    "session.prompt.embeddedContext",
    "session.prompt.image",
)

ALL_NEEDS: Final = (
    *NEEDS,
    *(TRIGGER + name for name in TRIGGERS),
    *(CAPABILITY + path for path in _CAPABILITY_PATHS),
)


def missing(need: str, setting: Setting) -> str | None:
    """Why `need` is not given, with what to add to the profile; None where it is given or only `initialize` can
    tell."""
    if need.startswith(TRIGGER):
        name = need.removeprefix(TRIGGER)
        if name in setting.triggers:
            return None
        return f'it needs {TRIGGERS[name]}; add to acp-conformance.toml: [triggers] {name} = "..."'
    if need.startswith(CAPABILITY):
        return None
    return NEEDS[need].missing(setting)


def missing_capability(need: str, capabilities: Any) -> str | None:
    """Why a capability need is not given by what the agent answered to `initialize`; None where it is."""
    path = need.removeprefix(CAPABILITY)
    here = capabilities
    for name in path.split("."):
        here = here.get(name) if isinstance(here, dict) else None
    return None if isinstance(here, dict) else f"the agent does not advertise capabilities.{path}"
