"""How a place in a value is spelled: update.content[0].text, and properties["a b"] for a key that is no plain name."""

from __future__ import annotations

from conformance.wire.json_text import shown

LONGEST_NAME = 60


def below(path: str, step: str | int) -> str:
    """The path of a member or item of what stands at `path` ("" is the whole). A key is agent text: bounded."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    if len(step) <= LONGEST_NAME and step.isascii() and step.isidentifier():
        return f"{path}.{step}" if path else step
    return f"{path}[{shown(step)}]"
