"""What the scripted model does when it is asked: a reply, as a scenario writes it. Knows no provider's API."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Kind = Literal["say", "stream", "think", "call-tool", "stall", "fail", "drop", "end-early", "garbage"]

INJECTED: Final[frozenset[Kind]] = frozenset({"fail", "drop", "end-early", "garbage"})
"""The kinds that are failures on purpose."""

AUTO: Final = "auto"
"""The tool name that stands for whichever declared tool runs a command."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One way to answer a request, used `times` times (None: from here on).

    say        `text`, in a few pieces where the agent streams
    stream     `chunks`, one by one, `delay` seconds before each
    think      `text` as reasoning, then `chunks` (or a short sentence) as the answer
    call-tool  a call of `tool` with `arguments`; for "auto" with the command that `arguments` names, or one that
               creates the file `effect`. Said before it: `text`. An agent that declares no tool gets a sentence.
    stall      nothing (after `chunks`, where there are any) until released; then the next reply, or a sentence
    fail       the HTTP `status` with the provider's error body; after `chunks`, an error within the stream
    drop       the connection is cut after `chunks` (by default a word), or at once where `status` is 0
    end-early  the stream ends after `chunks` without the events that end it
    garbage    `chunks`, then what no client can read
    """

    kind: Kind = "say"
    text: str | None = None
    chunks: tuple[str, ...] = ()
    tool: str = AUTO
    arguments: Mapping[str, Any] = field(default_factory=dict)
    effect: str | None = None
    status: int = 500
    delay: float = 0.0  # seconds
    times: int | None = 1

    @property
    def is_injected(self) -> bool:
        return self.kind in INJECTED


PLAIN: Final = Reply("say", "Understood.", times=None)


def pieces(text: str, count: int = 3) -> tuple[str, ...]:
    """`text` cut into at most `count` pieces of about the same length; together they are the text."""
    size = -(-len(text) // count) or 1
    return tuple(text[at : at + size] for at in range(0, len(text), size)) or ("",)
