"""Reads a profile: TOML, then every key and value checked, each error with its line and the closest known word."""

import difflib
import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from conformance.profiles.facts import (
    APIS,
    TEMPLATE,
    TEMPLATES,
    TRANSPORTS,
    TRIGGERS,
    AgentSection,
    ModelSection,
    Profile,
    ProfileLimits,
    Sessions,
)

_TABLE: Final = ("tool", "acp-conformance")


class ProfileError(Exception):
    """A profile that cannot be used; says the file, the line and the key, and what to write instead."""


def read_profile(path: Path, name: str) -> Profile:
    """The profile in a file, under a name of its own. Raises ProfileError."""
    text = _text(path)
    tables: Any = _toml(path, text)
    prefix: tuple[str, ...] = ()
    if path.name == "pyproject.toml":
        prefix = _TABLE
        for key in _TABLE:
            tables = tables.get(key, {}) if isinstance(tables, dict) else {}
        if not tables:
            raise ProfileError(f"{path}: there is no table [tool.acp-conformance] in it")
    reader = _Reader(str(path), text, prefix)
    return reader.profile(tables, name)


def has_profile(pyproject: Path) -> bool:
    """Whether a pyproject.toml has the table of a profile. Raises ProfileError where it cannot be read."""
    return _TABLE[1] in _toml(pyproject, _text(pyproject)).get(_TABLE[0], {})


def split_command(command: str) -> tuple[str, ...]:
    """Words as a shell would split them, backslashes kept on Windows. Raises ValueError for an open quote."""
    if sys.platform != "win32":
        return tuple(shlex.split(command))
    return tuple(word.strip('"') for word in shlex.split(command, posix=False))


def suggestion(word: str, known: Iterable[str]) -> str:
    """ "; did you mean ...?" with the closest known word; empty where none is close."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.55)
    return f"; did you mean {close[0]!r}?" if close else ""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ProfileError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ProfileError(f"{path}: not UTF-8 ({error.reason} at byte {error.start})") from None


def _toml(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"line (\d+)", str(error))
        raise ProfileError(f"{path}:{place[1] if place else 1}: not TOML: {error}") from None


class _Reader:
    """Turns the tables of one file into a profile; knows the file only to say where something is wrong."""

    def __init__(self, path: str, text: str, prefix: tuple[str, ...]) -> None:
        self._path = path
        self._text = text
        self._prefix = prefix

    def profile(self, tables: Any, name: str) -> Profile:
        sections = self._section((), tables, _SECTIONS)
        model = sections.get("model")
        if model is not None and "api" not in model:
            raise self.error(("model",), f"the api is missing; one of {', '.join(APIS)}")
        profile = Profile(
            name,
            AgentSection(**sections.get("agent", {})),
            ModelSection(**model) if model is not None else None,
            sections.get("triggers", {}),
            Sessions(**sections.get("sessions", {})),
            ProfileLimits(**sections.get("limits", {})),
            sections.get("expect", {}),
            self._path,
        )
        self._check_templates(profile)
        self._check_transport(profile)
        return profile

    def error(self, key: tuple[str, ...], message: str) -> ProfileError:
        line = _line_of(self._text, (*self._prefix, *key))
        place = f"{self._path}:{line}" if line else self._path
        return ProfileError(f"{place}: {'.'.join(key)}: {message}" if key else f"{place}: {message}")

    def _section(self, path: tuple[str, ...], table: Any, known: Mapping[str, "_Check"]) -> dict[str, Any]:
        if not isinstance(table, dict):
            raise self.error(path, f"must be a table, is {_shown(table)}")
        values: dict[str, Any] = {}
        for key, value in table.items():
            if key not in known:
                what = "section" if not path else "key"
                words = f"unknown {what} {key!r}{suggestion(key, known)}; known: {', '.join(known)}"
                raise self.error((*path, key), words)
            values[key.replace("-", "_") if path != ("triggers",) else key] = known[key](self, (*path, key), value)
        return values

    def _check_templates(self, profile: Profile) -> None:
        agent = profile.agent
        places: list[tuple[tuple[str, ...], str]] = [(("agent", "command"), word) for word in agent.command or ()]
        places += [(("agent", "server"), word) for word in agent.server or ()]
        places += [(("agent", "cwd"), agent.cwd or ""), (("agent", "url"), agent.url or "")]
        places += [(("agent", "server-url"), agent.server_url)]
        places += [(("agent", "env", name), value) for name, value in agent.env.items()]
        if profile.model is not None:
            places += [(("model", "env", name), value) for name, value in profile.model.env.items()]
        for key, value in places:
            for name in TEMPLATE.findall(value):
                if name not in TEMPLATES:
                    known = ", ".join(f"{{{template}}}" for template in TEMPLATES)
                    raise self.error(key, f"unknown template {{{name}}}{suggestion(name, TEMPLATES)}; known: {known}")
        places += [(("agent", "files", name), text) for name, text in agent.files.items()]
        for key, value in places:
            if profile.model is None and "{model." in value:
                raise self.error(key, "names the scripted model, and the profile has no [model]; add it with its api")

    def _check_transport(self, profile: Profile) -> None:
        agent = profile.agent
        if agent.transport == "websocket" and agent.url is None:
            raise self.error(
                ("agent", "transport"), 'a websocket agent needs a url, such as "ws://127.0.0.1:{port}/acp"'
            )
        if agent.transport == "stdio" and agent.url is not None:
            raise self.error(("agent", "url"), 'a url needs transport = "websocket"')


# -- what a value must be

_Check = Callable[[_Reader, tuple[str, ...], Any], Any]


def _text_value(reader: _Reader, key: tuple[str, ...], value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise reader.error(key, f"must be a text, is {_shown(value)}")
    return value


def _flag(reader: _Reader, key: tuple[str, ...], value: Any) -> bool:
    if not isinstance(value, bool):
        raise reader.error(key, f"must be true or false, is {_shown(value)}")
    return value


def _seconds(reader: _Reader, key: tuple[str, ...], value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 86_400:
        raise reader.error(key, f"must be a number of seconds above 0, is {_shown(value)}")
    return float(value)


def _count(reader: _Reader, key: tuple[str, ...], value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise reader.error(key, f"must be a whole number above 0, is {_shown(value)}")
    return value


_UNITS: Final = {"": 1, "B": 1, "KB": 1024, "KIB": 1024, "MB": 1024**2, "MIB": 1024**2, "GB": 1024**3, "GIB": 1024**3}


def _size(reader: _Reader, key: tuple[str, ...], value: Any) -> int:
    if isinstance(value, str) and (parts := re.fullmatch(r"(\d{1,12})\s*([A-Za-z]*)", value.strip())):
        if (unit := _UNITS.get(parts[2].upper())) and int(parts[1]):
            return int(parts[1]) * unit
    elif isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise reader.error(key, f'must be a size such as 1048576 or "16 MiB", is {_shown(value)}')


def _or_none(check: _Check) -> _Check:
    def checked(reader: _Reader, key: tuple[str, ...], value: Any) -> Any:
        return None if value == "none" else check(reader, key, value)

    return checked


def _texts(reader: _Reader, key: tuple[str, ...], value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise reader.error(key, f"must be a table of texts, is {_shown(value)}")
    for name, item in value.items():
        if not isinstance(item, str):
            raise reader.error((*key, name), f"must be a text, is {_shown(item)}")
    return dict(value)


def _values(reader: _Reader, key: tuple[str, ...], value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise reader.error(key, f"must be a table, is {_shown(value)}")
    return dict(value)


def _files(reader: _Reader, key: tuple[str, ...], value: Any) -> dict[str, str]:
    files = _texts(reader, key, value)
    for name in files:
        path = Path(name)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise reader.error((*key, name), "must be a path below the workdir")
    return files


def _command(reader: _Reader, key: tuple[str, ...], value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        try:
            words = split_command(value)
        except ValueError as error:
            raise reader.error(key, f"{value!r}: {error}") from None
    elif isinstance(value, list) and all(isinstance(word, str) for word in value):
        words = tuple(value)
    else:
        raise reader.error(key, f"must be a text or a list of texts, is {_shown(value)}")
    if not words or not words[0]:
        raise reader.error(key, "is empty; give the command that starts the agent")
    return words


def _one_of(*choices: str) -> _Check:
    def checked(reader: _Reader, key: tuple[str, ...], value: Any) -> Any:
        if value not in choices:
            words = f"{_shown(value)} is none of {', '.join(choices)}"
            raise reader.error(key, words + suggestion(str(value), choices))
        return value

    return checked


def _table(known: Mapping[str, _Check]) -> _Check:
    return lambda reader, key, value: reader._section(key, value, known)


_SECTIONS: Final[Mapping[str, _Check]] = {
    "agent": _table(
        {
            "command": _command,
            "cwd": _text_value,
            "env": _texts,
            "files": _files,
            "startup-timeout": _seconds,
            "transport": _one_of(*TRANSPORTS),
            "url": _text_value,
            "install": _text_value,
            "server": _command,
            "server-url": _text_value,
        }
    ),
    "model": _table({"api": _one_of(*APIS), "env": _texts, "tool-arguments": _values}),
    "triggers": _table(dict.fromkeys(TRIGGERS, _text_value)),
    "sessions": _table({"shared": _flag, "survives-restart": _flag}),
    "limits": _table(
        {
            "patience": _seconds,
            "hold-window": _seconds,
            "quiet-window": _seconds,
            "scenario": _seconds,
            "run": _seconds,
            "grace": _seconds,
            "max-line": _size,
            "max-output": _size,
            "max-events": _count,
            "max-values": _count,
            "max-memory": _or_none(_size),
            "max-processes": _or_none(_count),
            "max-file": _or_none(_size),
        }
    ),
    "expect": _texts,
}


# -- telling where and what else


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


_KEY: Final = r"[\w-]+|\"[^\"]*\"|'[^']*'"
_ASSIGNMENT: Final = re.compile(rf"\s*((?:{_KEY})(?:\s*\.\s*(?:{_KEY}))*)\s*=")


def _line_of(text: str, key: tuple[str, ...]) -> int | None:
    """The line, from 1, on which `key` or the table nearest above it stands: the library's reader tells none."""
    nearest: tuple[int, int] | None = None  # how many parts of the key match, and the line
    table: tuple[str, ...] = ()
    in_text = ""
    for number, line in enumerate(text.splitlines(), 1):
        was_in_text = in_text
        for quotes in re.findall(r"'''|\"\"\"", line):
            in_text = "" if in_text == quotes else in_text or quotes
        if was_in_text:
            continue
        if header := re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", line):
            table = found = _parts(header[1])
        elif assignment := _ASSIGNMENT.match(line):
            found = (*table, *_parts(assignment[1]))
        else:
            continue
        if found == key[: len(found)] and (nearest is None or len(found) > nearest[0]):
            nearest = (len(found), number)
    return nearest[1] if nearest else None


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_KEY, dotted))
