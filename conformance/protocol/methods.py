"""The methods of version 2: who may send which, as request or notification, and the definitions of their shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from conformance.protocol.facts import facts

Side = Literal["client", "agent"]


@dataclass(frozen=True, slots=True)
class Method:
    """`sender` is who sends it; `params` and `result` name definitions (a notification has no result)."""

    name: str
    kind: Literal["request", "notification"]
    sender: Literal["client", "agent", "both"]
    params: str
    result: str | None

    @property
    def is_request(self) -> bool:
        return self.kind == "request"


def _methods(entries: Iterable[Mapping[str, Any]]) -> dict[str, Method]:
    return {entry["name"]: _method(entry) for entry in entries}


def _method(entry: Mapping[str, Any]) -> Method:
    return Method(entry["name"], entry["kind"], entry["sender"], entry["params"], entry["result"])


_STABLE: Final = [entry for entry in facts()["methods"] if not entry.get("unstable")]

AGENT_METHODS: Final[Mapping[str, Method]] = _methods(entry for entry in _STABLE if entry["sender"] == "agent")
"""What an agent may call on a client or tell it."""

CLIENT_METHODS: Final[Mapping[str, Method]] = _methods(entry for entry in _STABLE if entry["sender"] == "client")
"""What a client may call on an agent or tell it."""

PROTOCOL_METHODS: Final[Mapping[str, Method]] = _methods(entry for entry in _STABLE if entry["sender"] == "both")
"""What either side may send, beginning with "$/"."""

UNSTABLE_METHODS: Final = tuple(_method(entry) for entry in facts()["methods"] if entry.get("unstable"))
"""What only the unstable schema knows. One name may stand here once for each side."""

V1_METHODS: Final[frozenset[str]] = frozenset(facts()["methods-of-version-1"]) - {entry["name"] for entry in _STABLE}
"""Methods of version 1 that version 2 no longer has, of both sides."""


def method(name: str, sender: Side) -> Method | None:
    """The method of version 2 that `sender` may send under this name, or None."""
    own = AGENT_METHODS if sender == "agent" else CLIENT_METHODS
    return own.get(name) or PROTOCOL_METHODS.get(name)


def request_method(name: str) -> Method | None:
    """The request of this name, whoever sends it (no request of version 2 goes both ways), or None."""
    found = CLIENT_METHODS.get(name) or AGENT_METHODS.get(name)
    return found if found is not None and found.is_request else None


def is_unstable(name: str, sender: Side) -> bool:
    """Whether only the unstable schema lets `sender` send this method."""
    return any(entry.name == name and entry.sender == sender for entry in UNSTABLE_METHODS)
