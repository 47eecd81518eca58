"""What work does: its tool calls, terminals and the permissions it asks for, as one connection saw them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from conformance.conversation.facts import Request, Update, Work
from conformance.history import Event
from conformance.wire import encode

if TYPE_CHECKING:
    from conformance.conversation.views import View


@dataclass(slots=True, eq=False)
class ToolCall:
    """A tool call as one connection saw it. `steps` are its tool_call_update bodies with the status that stands
    after each."""

    id: str
    view: View
    steps: list[ToolStep] = field(default_factory=list)
    chunks: list[Update] = field(default_factory=list)

    @property
    def first(self) -> ToolStep:
        return self.steps[0]

    @property
    def status(self) -> str:
        return self.steps[-1].status if self.steps else "pending"

    def status_at(self, seq: float) -> str | None:
        """The status that stood at that position; None before it was announced."""
        at = bisect_right(self.steps, seq, key=lambda step: step.update.seq) - 1
        return self.steps[at].status if at >= 0 else None

    @property
    def terminal_ids(self) -> set[str]:
        """Ids of the terminals that its content shows: its processes."""
        shown = [step.update.body.get("content") for step in self.steps] + [
            [chunk.body.get("content")] for chunk in self.chunks
        ]
        items = (item for content in shown if isinstance(content, list) for item in content if isinstance(item, dict))
        return {str(item.get("terminalId")) for item in items if item.get("type") == "terminal"}

    def steps_before(self, seq: float) -> list[ToolStep]:
        return self.steps[: bisect_left(self.steps, seq, key=lambda step: step.update.seq)]

    def steps_after(self, seq: float) -> list[ToolStep]:
        return self.steps[bisect_right(self.steps, seq, key=lambda step: step.update.seq) :]


@dataclass(frozen=True, slots=True, eq=False)
class ToolStep:
    """One tool_call_update: the status it names (None where it leaves it) and the one that stands after it."""

    update: Update
    names: str | None
    status: str
    before: str | None  # the status before it; None for the first


def task_of(update: Update) -> bytes:
    """What a tool_call_update says that its call does; equal for calls that do the same."""
    return encode([update.body.get(name) for name in ("title", "kind", "rawInput")])


@dataclass(slots=True, eq=False)
class Terminal:
    """An agent-owned terminal as one connection saw it."""

    id: str
    view: View
    updates: list[Update] = field(default_factory=list)
    exited: Update | None = None  # the update that reported its exitStatus


@dataclass(slots=True, eq=False)
class Permission:
    """A session/request_permission with its answer and, where the agent took it back, its withdrawal."""

    request: Request
    view: View
    tool_call_id: str | None
    work: Work | None

    @property
    def seq(self) -> int:
        return self.request.seq

    @property
    def answer(self) -> Event | None:
        return self.request.response

    @property
    def withdrawn(self) -> Event | None:
        return self.request.cancels[0] if self.request.cancels else None

    @property
    def options(self) -> list[dict[str, Any]]:
        options = self.request.params.get("options") if isinstance(self.request.params, dict) else None
        return [option for option in options if isinstance(option, dict)] if isinstance(options, list) else []

    @property
    def outcome(self) -> dict[str, Any]:
        result = self.request.result
        outcome = result.get("outcome") if isinstance(result, dict) else None
        return outcome if isinstance(outcome, dict) else {}

    @property
    def selected(self) -> dict[str, Any] | None:
        """The offered option that the client selected; None for another outcome and for an option that was not
        offered."""
        if self.outcome.get("outcome") != "selected":
            return None
        return next((option for option in self.options if option.get("optionId") == self.outcome.get("optionId")), None)

    @property
    def is_approved(self) -> bool:
        option = self.selected
        return option is not None and not str(option.get("kind", "")).startswith("reject")

    @property
    def is_denied(self) -> bool:
        """Answered, and surely no approval (schema RequestPermissionOutcome): a reject option, cancelled, an option
        that was not offered, an outcome of another kind, an error. A custom option kind is neither."""
        if self.answer is None:
            return False
        option = self.selected
        return option is None or str(option.get("kind", "")).startswith("reject")
