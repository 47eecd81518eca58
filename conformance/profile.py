"""Profiles: how an agent is started, which model it speaks to, and what it can be made to do.

A profile is `acp-conformance.toml`, the table `[tool.acp-conformance]` of a pyproject.toml, or a built-in name. Nothing
is started here. Values are templates, see TEMPLATES; `peers.launch` fills them in.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from conformance.profiles.facts import (
    APIS,
    TEMPLATE,
    TEMPLATES,
    TRANSPORTS,
    TRIGGERS,
    AgentSection,
    Api,
    ModelSection,
    Profile,
    ProfileLimits,
    Sessions,
    Transport,
)
from conformance.profiles.reading import ProfileError, has_profile, read_profile, split_command, suggestion

if TYPE_CHECKING:
    from conformance.history import Redactor

__all__ = [
    "APIS",
    "DEFAULT_FILE",
    "TEMPLATE",
    "TEMPLATES",
    "TRANSPORTS",
    "TRIGGERS",
    "AgentSection",
    "Api",
    "ModelSection",
    "Profile",
    "ProfileError",
    "ProfileLimits",
    "Sessions",
    "Transport",
    "built_in_profiles",
    "find_profile",
    "load_profile",
    "redactor_of",
    "with_command",
    "with_url",
]

DEFAULT_FILE: Final = "acp-conformance.toml"
_BUILT_IN: Final = Path(__file__).resolve().parent / "profiles"


def built_in_profiles() -> tuple[str, ...]:
    """The names of the profiles that come with the suite, in alphabetical order."""
    return tuple(sorted(path.stem for path in _BUILT_IN.glob("*.toml")))


def load_profile(name: str) -> Profile:
    """The built-in profile of that name, or the one in that file (in a pyproject.toml: its table).

    Raises ProfileError.
    """
    if name in built_in_profiles():
        return read_profile(_BUILT_IN / f"{name}.toml", name)
    path = Path(name)
    if path.is_file():
        is_named_after_its_folder = path.name in (DEFAULT_FILE, "pyproject.toml")
        return read_profile(path, path.resolve().parent.name if is_named_after_its_folder else path.stem)
    if path.suffix or len(path.parts) > 1:
        raise ProfileError(f"{name}: there is no such file")
    known = ", ".join(built_in_profiles())
    raise ProfileError(f"unknown profile {name!r}{suggestion(name, built_in_profiles())}; built in: {known}")


def find_profile(folder: Path) -> Profile | None:
    """The profile of the project in `folder`: of its acp-conformance.toml, else of its pyproject.toml, else None."""
    if (path := folder / DEFAULT_FILE).is_file():
        return load_profile(str(path))
    path = folder / "pyproject.toml"
    if path.is_file() and has_profile(path):
        return load_profile(str(path))
    return None


def with_command(profile: Profile, command: str) -> Profile:
    """The profile for an agent that the command line names, as one string that is split like a shell would."""
    try:
        words = split_command(command)
    except ValueError as error:
        raise ProfileError(f"--agent {command!r}: {error}") from None
    if not words:
        raise ProfileError("--agent is empty; give the command that starts the agent")
    return replace(profile, agent=replace(profile.agent, command=words, transport="stdio", url=None, server=None))


def with_url(profile: Profile, url: str) -> Profile:
    """The profile for a running server."""
    return replace(profile, agent=replace(profile.agent, command=None, transport="websocket", url=url, server=None))


def as_server(profile: Profile) -> Profile | None:
    """The profile for the same agent as a WebSocket server; None where it does not say how that is started."""
    agent = profile.agent
    if agent.server is None:
        return None
    served = replace(agent, command=agent.server, transport="websocket", url=agent.server_url, server=None)
    return replace(profile, agent=served)


def redactor_of(profile: Profile) -> "Redactor":
    """What masks the secrets that such a run may meet: of our own environment, of the profile's, of the command."""
    from conformance.history import Redactor

    agent, model = profile.agent, profile.model
    given = {**(model.env if model is not None else {}), **agent.env}
    command = [*(agent.command or ()), *([agent.url] if agent.url is not None else [])]
    return Redactor(os.environ, (str(Path.home()),), given=given, command=command)
