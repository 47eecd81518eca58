"""What comes after the idle of cancelled work (schema CancelSessionNotification)."""

from typing import Final

from conformance.conversation import SETTLED, Terminal, Update, Work
from conformance.rules.cancel import OUTPUT, apart, listed_in_background
from conformance.rules.registry import EXERCISED, MUST, Verdict, rule, violation

TERMINAL: Final = ("terminal_update", "terminal_output_chunk")


@rule(
    "cancel.updates-before-idle",
    MUST,
    says="Updates of the cancelled work come before its cancelled idle.",
    source="schema CancelSessionNotification",
    exercised="a cancelled idle, and a line of the agent after it",
    proof="a message, thought, tool or terminal update of the cancelled work after that idle and before other work",
    never="tool calls and terminals in the latest background list, or whose terminal or tool call is; what ran before "
    "the work; replays; metadata with no content",
)
def updates_before_idle(work: Work) -> Verdict:
    if work.stop_reason != "cancelled" or work.ended is None:
        return
    view = work.view
    if view.connection.last_sign_after(work.ended.seq) is not None:
        yield EXERCISED
    following = next(iter(view.works_after(work.ended.seq)), None)
    resume = view.history_asked_after(work.ended.seq)  # what it brings too late is replay.before-response
    until = min((span.seq for span in (following, resume) if span is not None), default=float("inf"))
    background = listed_in_background(work)
    for update in view.updates_between(work.ended.seq, until):
        if update.replay is None and (going := _going_on(work, update, background)) is not None:
            what, first = going
            yield violation(
                "an update of the cancelled work came after the idle that reported its end",
                (first.event, "it begins in the work"),
                (work.ended.event, "the work is reported as ended and cancelled"),
                (update.event, f"{what} goes on"),
            )
            return


def _going_on(work: Work, update: Update, background: set[str] | None) -> tuple[str, Update] | None:
    """What of the work an update after its idle shows to go on, with the update by which that began. A terminal only
    where the idle told what runs on, or long after it: a process takes its time to end."""
    view = work.view
    message = view.message_of(update) if update.kind in OUTPUT else None
    if message is not None:
        says_more = (update.is_chunk or update.sets_content) and work.began_with(message.first)
        return (f"a message of it ({message.id!r})", message.first) if says_more else None
    if background is None or _is_only_metadata(update):
        return None
    if update.kind in OUTPUT:
        call = view.tool_calls.get(str(update.body.get("toolCallId")))
        if call is None or not call.steps or not work.began_with(call.first.update):
            return None
        is_listed = call.id in background or background.intersection(call.terminal_ids)
        return None if is_listed else (f"its tool call {call.id!r}", call.first.update)
    terminal = view.terminals.get(str(update.body.get("terminalId"))) if update.kind in TERMINAL else None
    if terminal is None or not work.began_with(terminal.updates[0]) or work.ended is None:
        return None
    calls = [call for identifier in background if (call := view.tool_calls.get(identifier)) is not None]
    is_shown = terminal.id in background or any(terminal.id in call.terminal_ids for call in calls)
    had_exited = terminal.exited is not None and terminal.exited.seq < work.ended.seq
    if is_shown or had_exited or not (work.ended.background is not None or _outlives(terminal, work, update)):
        return None
    return f"its terminal {terminal.id!r}", terminal.updates[0]


def _outlives(terminal: Terminal, work: Work, update: Update) -> bool:
    """Whether a terminal says more long after the cancelled idle though the tool call that shows it had not come to a
    good end, after which it would run on in the background."""
    if work.ended is None or update.kind != "terminal_output_chunk" or apart(work.ended.event, update.event) < SETTLED:
        return False
    calls = work.view.calls_of_terminals.get(terminal.id, ())
    return bool(calls) and all(call.status_at(work.ended.seq) in ("in_progress", "cancelled") for call in calls)


def _is_only_metadata(update: Update) -> bool:
    return update.body.keys() <= {"sessionUpdate", "toolCallId", "terminalId", "_meta"}
