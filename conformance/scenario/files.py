"""Where scenario files lie, and what each says of itself. Reads no steps and checks nothing: the loader does."""

from pathlib import Path
from typing import Final

from conformance.scenario.model import Scenario
from conformance.scenario.yaml12 import read_yaml

ENDINGS: Final = (".yaml", ".yml")


def scenario_files(folder: Path) -> list[tuple[str, Path]]:
    """(id, file) of every scenario under `folder`, by id."""
    found = [path for path in folder.rglob("*") if path.suffix in ENDINGS and path.is_file()]
    return sorted((path.relative_to(folder).with_suffix("").as_posix(), path) for path in found)


def heads(folder: Path) -> list[Scenario]:
    """Every scenario under `folder`, by id, without its steps, which stand last in each file. For scenarios that are
    known to be right: raises whatever comes of one that is not."""
    return [_head(id, path) for id, path in scenario_files(folder)]


def _head(id: str, path: Path) -> Scenario:
    said = read_yaml(path.read_text(encoding="utf-8").partition("\nsteps:")[0] + "\n").plain
    title, about = (" ".join(said.get(name, "").split()) for name in ("title", "about"))
    return Scenario(id, path, title, about, tuple(said.get("exercises", ())), tuple(said.get("needs", ())), ())
