"""A scenario as data: what it says of itself, and its steps. Knows nothing of files and of agents."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `arguments` has a value for each key that was given, with the names in it not yet filled in
    ("{session.chat}"); nested steps are tuples of steps. `line` is its place in the file."""

    verb: str
    arguments: Mapping[str, Any]
    line: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario file. `id` is its path under the folder of scenarios, without the ending: "prompt/identical"; for
    a file from elsewhere the path by which it was asked for."""

    id: str
    path: Path
    title: str
    about: str
    exercises: tuple[str, ...]
    needs: tuple[str, ...]
    steps: tuple[Step, ...]

    @property
    def area(self) -> str:
        return self.id.rpartition("/")[0]

    @property
    def transcript(self) -> str:
        """The name of its transcript file."""
        name = self.id.removesuffix(self.path.suffix) if self.path.suffix else self.id
        return "-".join(part for part in re.split(r"[/\\:]+", name) if part not in ("", ".", "..")) + ".ndjson"
