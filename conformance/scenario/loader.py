"""Reads scenario files: text to `Scenario`, with every problem told at once, each where it stands. Runs nothing."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from conformance.scenario import verbs  # noqa: F401  (enters the verbs into their table)
from conformance.scenario.errors import Problem, ScenarioError
from conformance.scenario.files import scenario_files
from conformance.scenario.model import Scenario, Step
from conformance.scenario.needs import ALL_NEEDS
from conformance.scenario.reading import BAD, Reading, spoken
from conformance.scenario.shapes import Choice, Key, ListOf, Steps, Table, Text
from conformance.scenario.spelling import closest
from conformance.scenario.table import LATER, VERBS
from conformance.scenario.yaml12 import Node, YamlError, read_yaml

MOST_BYTES: Final = 1 << 20
FILE: Final = Table(
    "a scenario",
    {
        "title": Key(Text(), "What happens, as a statement", required=True),
        "about": Key(Text(), "Why this matters, and what the scenario brings about"),
        "exercises": Key(ListOf(Text()), "Ids of the rules that this scenario is meant to exercise"),
        "needs": Key(
            ListOf(Choice(ALL_NEEDS, "need")),
            "What the target must have: model, trigger.NAME, second-connection, restart, capability.PATH ...",
        ),
        "steps": Key(Steps(), "What is done, in order", required=True),
    },
)


def load(path: Path, id: str | None = None, *, rules: Collection[str] | None = None) -> Scenario:
    """The scenario in a file. `id` is its path without the ending where none is given; `rules`, where given, are the
    rules there are.

    Raises ScenarioError.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ScenarioError(path, [Problem(f"it cannot be read: {error.strerror or error}", 1, 1)]) from None
    if len(data) > MOST_BYTES:
        raise ScenarioError(path, [Problem(f"longer than {MOST_BYTES} bytes: this is no scenario", 1, 1)])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ScenarioError(path, [Problem("not UTF-8", line, 1)]) from None
    return parse(text, path, id or path.with_suffix("").as_posix(), rules=rules)


def load_all(folder: Path, *, rules: Collection[str] | None = None) -> list[Scenario]:
    """Every scenario under `folder`, by id. Raises ScenarioError for the first file that cannot be used."""
    return [load(path, id, rules=rules) for id, path in scenario_files(folder)]


def parse(text: str, path: Path | str, id: str, *, rules: Collection[str] | None = None) -> Scenario:
    """The scenario in `text`, which stands in `path`. Raises ScenarioError."""
    reading = Reading(_step)
    try:
        root = read_yaml(text)
    except YamlError as error:
        raise ScenarioError(path, [Problem(error.message, error.line, error.column, error.length)], text) from None
    found = (
        FILE.read(root, reading)
        if root.kind == "table"
        else reading.complain(root, "a scenario is a table: title, steps, ...")
    )
    if root.kind == "table":
        _known_rules(root, reading, rules)
    if reading.problems or found is BAD:
        raise ScenarioError(path, reading.problems, text)
    return Scenario(
        id,
        Path(path),
        " ".join(found["title"].split()),
        " ".join(found.get("about", "").split()),
        found.get("exercises", ()),
        found.get("needs", ()),
        found["steps"],
    )


def _step(node: Node, reading: Reading) -> Step | None:
    """A step: a table with one key, the verb."""
    if node.kind == "scalar" and isinstance(node.value, str) and node.value in VERBS:
        reading.complain(node, f'write "{node.value}: ..." with what it is about')
        return None
    if node.kind != "table" or not node.value:
        reading.complain(node, f'a step is a verb and what it is about, like "connect: ada", not {spoken(node)}')
        return None
    (key, value), *others = node.value
    verb = VERBS.get(key.value)
    if verb is None:
        if key.value in LATER:
            reading.complain(key, f'"{key.value}" is for testing clients, and that is not available yet')
        else:
            reading.complain(key, f'unknown verb "{key.value}"{_verb_hint(key.value)}')
        return None
    if others:
        reading.complain(others[0][0], f'one verb a step: begin a new one with "- {others[0][0].value}"')
        return None
    arguments: Any = _scoped(verb.name, value, reading)
    return None if arguments is BAD else Step(verb.name, arguments, key.line)


def _scoped(name: str, value: Node, reading: Reading) -> Any:
    """The arguments of a step; the name that a for-each gives to its values is known inside it only."""
    variable = value.get("as") if name == "for-each" else None
    if variable is None or not isinstance(variable.value, str):
        return VERBS[name].table.read(value, reading)
    reading.variables.append(variable.value)
    try:
        return VERBS[name].table.read(value, reading)
    finally:
        reading.variables.pop()


def _verb_hint(word: str) -> str:
    found = closest(word, VERBS)
    return f'; did you mean "{found[0]}"?' if found else "; `acp-conformance scenarios --verbs` lists them"


def _known_rules(root: Node, reading: Reading, rules: Collection[str] | None) -> None:
    listed = root.get("exercises")
    for item in listed.value if rules is not None and listed is not None and listed.kind == "list" else ():
        if isinstance(item.value, str) and item.value not in (rules or ()):
            reading.complain(item, f'no rule is called "{item.value}"{_short_hint(item.value, rules or ())}')


def _short_hint(word: str, known: Collection[str]) -> str:
    found = closest(word, known)
    return f'; did you mean "{found[0]}"?' if found else "; `acp-conformance rules` lists them"
