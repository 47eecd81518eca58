"""What the scripted model was asked and did: another channel than the wire, told by the suite's control events."""

from dataclasses import dataclass

from conformance.history import Event


@dataclass(slots=True, eq=False)
class ModelRequest:
    """A request that the scripted model received, and what it did with it. `tail`: what follows its prompt in it, as
    a digest; None in older recordings. `is_shared`: its prompt was sent to several sessions, and nobody can tell whose
    request it is."""

    event: Event
    number: int
    nonce: str | None
    group: str | None
    is_side: bool
    is_last_user: bool
    tail: str | None = None
    held: Event | None = None
    released: Event | None = None
    answered: Event | None = None
    is_shared: bool = False

    @property
    def seq(self) -> int:
        return self.event.seq

    @property
    def was_failed(self) -> bool:
        """The script made it fail: an error status, a dropped or broken stream."""
        return self.answered is not None and bool((self.answered.control or {}).get("injected"))


def failed_at_last(requests: list[ModelRequest]) -> list[ModelRequest]:
    """Of the model requests for one prompt, the failed ones that nothing but the end of its work can follow: all, or
    those after a call of a tool, whose result the model never took; empty where the last one did not fail."""
    since = next((at for at in range(len(requests), 0, -1) if not requests[at - 1].was_failed), 0)
    before = requests[since - 1].answered if since else None
    is_cut_short = not since or (before is not None and (before.control or {}).get("how") == "call-tool")
    return requests[since:] if is_cut_short else []
