"""Names in braces: "{session.chat}" in a text of a scenario stands for what the run knows under that name.

A text that is nothing but one name takes the value as it is, a number stays a number. Braces around anything else
are plain text.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from conformance.scenario.model import Step

_NAME = re.compile(r"\{([A-Za-z][A-Za-z0-9_.-]*)\}")

PLAIN: Final = {
    "workdir": "the working folder of the scenario's agent, an absolute path; restarts share it",
    "round": "which round of `repeat` or `for-each` this is, counted from 1",
}
OF: Final = {
    "session": "the sessionId of a session",
    "message": "the messageId that a prompt was answered with",
    "request": "the JSON-RPC id of a request",
    "nonce": "the nonce of a prompt",
}
"""First part -> what it stands for; the second part names a session, or a prompt or request."""


def names_in(text: str) -> list[str]:
    return _NAME.findall(text)


def is_name(value: Any) -> bool:
    """Whether the value is one name and nothing else."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def filled(value: Any, look_up: Callable[[str], Any]) -> Any:
    """`value` with every name replaced by what `look_up` says of it. Steps inside it stay as they are."""
    if isinstance(value, str):
        if "{" not in value:
            return value
        if (whole := _NAME.fullmatch(value)) is not None:
            return look_up(whole.group(1))
        return _NAME.sub(lambda found: str(look_up(found.group(1))), value)
    if isinstance(value, Step):
        return value
    if isinstance(value, Mapping):
        return {filled(key, look_up): filled(item, look_up) for key, item in value.items()}
    if isinstance(value, Sequence):
        return type(value)(filled(item, look_up) for item in value)  # type: ignore[call-arg]
    return value
