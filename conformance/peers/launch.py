"""From a profile to what is started: templates filled in, files written, the program found.

Knows the profile and the machine; starts nothing itself.
"""

import contextlib
import functools
import itertools
import os
import random
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from conformance.peers.connection import AgentDidNotStart
from conformance.peers.limits import Limits
from conformance.profile import TEMPLATE, Profile
from conformance.resources import folder

PEERS_DIR: Final = "ACP_PEERS_DIR"
"""The environment variable that names a folder with installed agents (its node_modules/.bin is searched)."""

_PORTS: Final = range(10_000, 30_000)
"""Below those that a system gives to whoever asks for any: no scripted model or client of ours takes one of these
before the agent does."""
_ENOUGH: Final = 1_000  # ports that one process goes through before it gives the first again


@dataclass(frozen=True, slots=True)
class Launch:
    """What to start and where. `env` is the whole environment; `url` is set for an agent reached over WebSocket.

    `command` is empty where the agent runs already and is only dialled.
    """

    command: tuple[str, ...]
    cwd: Path
    env: dict[str, str]
    url: str | None
    limits: Limits


def limits_of(profile: Profile) -> Limits:
    """The limits of a connection as the profile sets them."""
    limits = profile.limits
    return Limits(
        max_line=limits.max_line,
        max_output=limits.max_output,
        max_events=limits.max_events,
        max_values=limits.max_values,
        max_memory=limits.max_memory,
        max_processes=limits.max_processes,
        max_file=limits.max_file,
        startup_timeout=profile.agent.startup_timeout,
        grace=limits.grace,
    )


def prepare(profile: Profile, *, workdir: Path, model_origin: str | None) -> Launch:
    """What starts the agent of `profile` in `workdir`, which is created; files of an earlier start there are kept.

    `model_origin` is where the scripted model listens ("http://127.0.0.1:1234"), None without one.
    Raises AgentDidNotStart where the program is not found: the hint is the command that installs it.
    """
    agent = profile.agent
    values = _values(workdir, model_origin)
    workdir.mkdir(parents=True, exist_ok=True)
    for name, content in agent.files.items():
        path = workdir / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(fill(content, values), encoding="utf-8")
    env = dict(os.environ)
    env.update({name: fill(value, values) for name, value in (profile.model.env if profile.model else {}).items()})
    env.update({name: fill(value, values) for name, value in agent.env.items()})
    if model_origin is not None:  # a proxy of the user's must not stand between the agent and the scripted model
        for name in ("NO_PROXY", "no_proxy"):
            env[name] = ",".join(filter(None, (env.get(name), "127.0.0.1", "localhost")))
    cwd = Path(fill(agent.cwd, values)) if agent.cwd else Path.cwd()
    command = tuple(fill(word, values) for word in agent.command or ())
    if command:
        program = find_program(command[0], env, cwd)
        if program is None:
            hint = f"install it: {agent.install}" if agent.install else "check the command, or install the agent"
            raise AgentDidNotStart(f"cannot start {command[0]!r}: it is not found", hint)
        if program.parent.name == ".bin":  # its interpreter may be installed beside it
            env["PATH"] = f"{program.parent}{os.pathsep}{env.get('PATH', '')}"
        command = (str(program), *command[1:])
    elif agent.url is None:
        raise AgentDidNotStart("there is no agent to start", "name it with --agent, or as `command` in the profile")
    return Launch(command, cwd, env, fill(agent.url, values) if agent.url else None, limits_of(profile))


def fill(text: str, values: Mapping[str, str]) -> str:
    """`text` with the templates in it replaced; braces around anything else are left alone."""
    return TEMPLATE.sub(lambda found: values.get(found[1], found[0]), text)


def find_program(program: str, env: Mapping[str, str], cwd: Path) -> Path | None:
    """Where `program` is: as a path, in the folder of installed peers, in the node_modules of `cwd`, or on PATH."""
    if os.path.dirname(program):
        path = cwd / program
        return Path(os.path.abspath(path)) if path.exists() else None
    places = [Path(peers) / "node_modules" / ".bin" for peers in (env.get(PEERS_DIR),) if peers]
    places.append(cwd / "node_modules" / ".bin")
    for search in (os.pathsep.join(map(str, places)), env.get("PATH", os.defpath)):
        if (found := shutil.which(program, path=search)) is not None:
            return Path(os.path.abspath(found))
    return None


def _values(workdir: Path, model_origin: str | None) -> dict[str, str]:
    values = {
        "workdir": str(workdir),
        "python": sys.executable,
        "fixtures": str(folder("fixtures")),
        "peers": os.path.abspath(os.environ.get(PEERS_DIR) or "."),
        "port": str(free_port()),
    }
    if model_origin is not None:
        values |= {"model.origin": model_origin, "model.url": f"{model_origin}/v1"}
    return values


def free_port() -> int:
    """One that nobody listens on, and that is not on its way to another agent of this process."""
    for port in itertools.islice(_ports(os.getpid()), _ENOUGH):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise AgentDidNotStart(
        f"no TCP port between {_PORTS[0]} and {_PORTS[-1]} is free", "end what holds them, or name one in the profile"
    )


@functools.cache
def _ports(process: int) -> Iterator[int]:
    """The ports in an order of this process's own; one that is forked from it takes another."""
    return itertools.cycle(random.Random().sample(_PORTS, _ENOUGH))
