"""What a target offers to the fuzzer: from its profile and from what it said in `initialize`. Data only."""

from dataclasses import dataclass
from typing import Any

from conformance.scenario.setting import Setting


@dataclass(frozen=True, slots=True)
class World:
    """`shares` says that a second connection sees the sessions of the first, `reconnects` that it can come when the
    first is gone. `blocks` are kinds of content block that a prompt may have; `triggers` names of the profile's."""

    has_model: bool = True
    triggers: tuple[str, ...] = ()
    can_restart: bool = True
    reconnects: bool = False
    is_process: bool = True
    shares: bool = False
    deletes: bool = True
    blocks: tuple[str, ...] = ("text", "resource_link")


def world_of(setting: Setting, capabilities: dict[str, Any]) -> World:
    session = capabilities.get("session")
    session = session if isinstance(session, dict) else {}
    prompt = session.get("prompt")
    prompt = prompt if isinstance(prompt, dict) else {}
    marked = {"image": "image", "audio": "audio", "embeddedContext": "resource"}
    blocks = [block for marker, block in marked.items() if isinstance(prompt.get(marker), dict)]
    return World(
        has_model=setting.has_model,
        triggers=tuple(sorted(setting.triggers)),
        can_restart=setting.can_restart and setting.survives_restart,
        reconnects=setting.is_websocket,
        is_process=setting.is_process,
        shares=setting.shares_connections,
        deletes=isinstance(session.get("delete"), dict),
        blocks=("text", "resource_link", *blocks),
    )
