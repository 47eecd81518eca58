"""Sequences as scenario files: steps to YAML, and to scenarios by way of it. Knows the syntax; knows no verb."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from conformance.scenario.loader import parse
from conformance.scenario.model import Scenario

Steps = list[dict[str, Any]]
"""Steps as a file has them: each a table with one key, the verb."""

_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_WORDS: Final = frozenset(["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"])


class NotWritable(Exception):
    """A value that no scenario file can hold, such as NaN."""


def scenario_of(steps: Steps, id: str, *, needs: Sequence[str] = (), title: str = "Generated") -> Scenario:
    """The steps as the loader reads them. Raises ScenarioError where they are none, NotWritable."""
    return parse(text_of(steps, title=title, needs=needs), Path(f"{id}.yaml"), id)


def text_of(
    steps: Steps, *, title: str, about: str = "", exercises: Sequence[str] = (), needs: Sequence[str] = ()
) -> str:
    """The file. Raises NotWritable."""
    lines = [f"title: {quoted(title)}"]
    if about:
        lines.append(f"about: {quoted(about)}")
    for key, values in (("exercises", exercises), ("needs", needs)):
        if values:
            lines.append(f"{key}: {flow(list(values))}")
    lines.append("steps:")
    for step in steps:
        ((verb, given),) = step.items()
        lines.append(f"  - {verb}: {flow(given)}")
    return "\n".join(lines) + "\n"


def flow(value: Any) -> str:
    """A JSON value in YAML's flow style, on one line. Raises NotWritable."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(str(key))}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, str):
        return _scalar(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value) if value.bit_length() < 4000 else _refuse(value)
    if isinstance(value, float) and value - value == 0:
        text = repr(value)
        if "e" in text:
            mantissa, _, exponent = text.partition("e")
            text = f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent}"
        return text
    return _refuse(value)


def quoted(text: str) -> str:
    """A text in double quotes, whatever it holds."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _scalar(text: str) -> str:
    return text if _PLAIN.fullmatch(text) and text.lower() not in _WORDS and len(text) < 60 else quoted(text)


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character == "\n":
        return "\\n"
    if character.isprintable():
        return character
    number = ord(character)
    if 0xD800 <= number < 0xE000:
        raise NotWritable("a scenario file cannot hold half a surrogate pair")
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _refuse(value: Any) -> str:
    raise NotWritable(f"a scenario file cannot hold this {type(value).__name__}")
