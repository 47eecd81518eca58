"""Commands: what the agent handles by itself goes the way of every prompt (RFD 'Do locally handled commands need
persistent history?')."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from conformance.conversation import (
    BUSY,
    STANDARD_STATES,
    Connection,
    State,
    Submission,
    Update,
    View,
    names_of_commands,
)
from conformance.history import Event
from conformance.rules.insertion import unreported_at
from conformance.rules.registry import EXERCISED, MUST, Verdict, not_applicable, rule, violation
from conformance.rules.state import has_command_rules, is_output, is_stopped_before, patience_with, quiet_barrier

LONG = 1.0  # seconds after which a client's next prompt no longer crosses the states of a command


def names_no_command(submission: Submission) -> bool:
    """Whether the suite drives an agent whose profile names no local command."""
    conversation = submission.session.conversation
    return conversation.is_driven and not any(
        name in conversation.triggers for name in ("local-command", "retained-command")
    )


@rule(
    "command.inserts-a-message",
    MUST,
    says="A locally handled command is inserted as a (possibly live-only) user message; the response carries its id "
    "and an update reports it.",
    source="rfd 'Do locally handled commands need persistent history?'",
    exercised="a prompt that is a local command of the profile, and its success",
    proof="a success without a messageId, or with one that is never reported by the idle or the barrier that follows",
    never="a command that is absent from replay; one that is refused",
)
def inserts_a_message(submission: Submission) -> Verdict:
    if names_no_command(submission):
        yield not_applicable("the profile names no local command")
    response = submission.response
    if not submission.is_local_command or response is None or not submission.request.succeeded:
        return
    yield EXERCISED
    command = (submission.request.event, "a command that the agent handles by itself")
    if submission.message_id is None:
        yield violation(
            "a command was answered without the id of its message", command, (response, "success, and no messageId")
        )
    elif not submission.reports and (late := _unreported(submission)) is not None:
        yield violation(
            f"the message {submission.message_id!r} of a command was never reported",
            command,
            (response, "its message is inserted under this id"),
            (late, "by now it would have been reported, and was not"),
        )


def _unreported(submission: Submission) -> Event | None:
    """As for every prompt; where the command brought no work at all, the quiet line after its response."""
    if (late := unreported_at(submission)) is not None:
        return late
    view, response = submission.view, submission.response
    return quiet_barrier(view, response.seq) if view is not None and response is not None else None


@rule(
    "command.same-lifecycle",
    MUST,
    says="A local command uses the state lifecycle too - running, then idle - though no model is called.",
    source="schema StateUpdate",
    exercised="a prompt that is a local command, and its success, while no other work is open",
    proof="no state update for the command by the barrier on a quiet line, or by the next prompt though its output "
    "came; an idle with a stop reason and no running before it; or running with no idle within the patience",
    never="a command that joins open work, or that is stopped before it begins; an idle snapshot that was told before",
)
def same_lifecycle(submission: Submission) -> Verdict:
    if names_no_command(submission):
        yield not_applicable("the profile names no local command")
    view, response = submission.view, submission.response
    if view is None or response is None or not submission.request.succeeded or not has_command_rules(submission, view):
        return
    since = _its_turn(submission, view)
    following = next(iter(view.session.submissions_after(submission.seq)), None)
    until = following.seq if following is not None else float("inf")
    if since is None or until < since:
        return
    yield EXERCISED
    states = view.states_between(since, until)
    busy = next((state for state in states if state.value in BUSY), None)
    command = (submission.request.event, "a command")
    answered = (response, "is accepted")
    if busy is None and any(state.value not in STANDARD_STATES for state in states):
        return  # state.standard-states
    if busy is None:
        yield from _without_running(submission, states, since, until, command, answered)
    elif submission.work is not None and submission.work.began is busy and submission.work.ended is None:
        late = _silent_since(submission, submission.work.updates[-1])
        if late is not None:
            yield violation(
                "a command left its work open",
                *sorted([command, answered, (busy.event, "work begins")], key=lambda part: part[0].seq),
                (late, "and no idle came within the patience"),
            )


def _its_turn(submission: Submission, view: View) -> float | None:
    """Where the command may begin: where it was sent or, where it waited for open work and its output came after that,
    at the end of that; None where it joined the work."""
    earlier = view.work_at(submission.seq)
    if earlier is None:
        return submission.seq
    waited = submission.inserted_at > earlier.ended_at
    return earlier.ended_at if waited and view.first_output(submission.inserted_at, float("inf")) else None


def _without_running(
    submission: Submission,
    states: Sequence[State],
    since: float,
    until: float,
    command: tuple[Event, str],
    answered: tuple[Event, str],
) -> Verdict:
    view, response = submission.view, submission.response
    if view is None or response is None:
        return
    idle = next((state for state in states if state.stop_reason is not None), None)
    output: Update | None = next((u for u in view.updates_between(since, until) if is_output(u)), None)
    told = view.session.stop_reasons.get(idle.stop_reason or "", {}) if idle is not None else {}
    is_new = not any(seq <= since for seq in told.values())
    late = quiet_barrier(view, output.seq if output is not None else response.seq)
    shown_at = late.seq if late is not None else until
    if output is None and (
        is_stopped_before([submission], idle)
        if idle is not None
        else view.session.stops_between(submission.seq, shown_at)
    ):
        return
    if idle is not None and (is_new or (output is not None and output.seq < idle.seq)):
        parts = sorted([command, answered, (idle.event, "idle with a stop reason")], key=lambda part: part[0].seq)
        yield violation("a command ended work that never began: running was not reported", *parts)
        return
    following = next(iter(view.session.submissions_after(submission.seq)), None)
    if late is not None and late.seq < until:
        shown, part = late, "and up to here neither running nor idle came"
    elif following is not None and output is not None and following.request.event.t - output.event.t >= LONG:
        shown, part = following.request.event, "the client goes on, and neither running nor idle came"
    else:
        return
    told_output = ((output.event, "its output"),) if output is not None else ()
    parts = sorted([command, answered, *told_output, (shown, part)], key=lambda part: part[0].seq)
    yield violation("a command ran without running and idle being reported", *parts)


def _silent_since(submission: Submission, last: Update) -> Event | None:
    """What shows that patience ran out after the last sign of a command's work, with nothing of the client's owed
    to it."""
    connection = submission.request.connection
    output = any(is_output(update) for update in submission.work.updates) if submission.work is not None else False
    if not output and not submission.is_local_command:
        return None  # it may be a command for the model, which takes its time
    if submission.is_local_command:
        late = connection.out_of_patience(last.event)
    elif is_output(last):
        late = connection.out_of_patience(last.event, patience=patience_with(last.work)) if last.work else None
    else:
        return None  # it may have done something for the model, which takes its time
    waits = late is not None and any(r.seq < late.seq < r.answered_at for r in connection.agent_requests)
    unfinished = any(call.status in ("pending", "in_progress") for call in last.view.tool_calls.values())
    return None if waits or (unfinished and not submission.is_local_command) else late


@rule(
    "command.names",
    MUST,
    says="An advertised command's name has no whitespace and is unique in the list.",
    source="schema AvailableCommand",
    exercised="a list of available commands",
    proof="whitespace in a name, or the same name twice in one list",
    never="an empty list; commands of another type",
)
def names(connection: Connection) -> Verdict:
    for event, commands in _lists(connection):
        yield EXERCISED
        given = names_of_commands(commands)
        for name in (name for name in dict.fromkeys(given) if any(character.isspace() for character in name)):
            yield violation(f"whitespace in the name of a command: {name!r}", (event, "the list that advertises it"))
        for name, count in Counter(given).items():
            if count > 1:
                yield violation(f"the command {name!r} stands {count} times in one list", (event, "the list"))


def _lists(connection: Connection) -> list[tuple[Event, Any]]:
    """Every list of commands that this client was given, in order: by updates and by the results of session/new and
    session/resume."""
    updates = (update for view in connection.views.values() for update in view.command_lists)
    found = [(update.event, update.body.get("availableCommands")) for update in updates]
    for request in (r for r in connection.requests if r.method in ("session/new", "session/resume")):
        listed = request.result.get("availableCommands") if isinstance(request.result, dict) else None
        if request.response is not None and isinstance(listed, list):
            found.append((request.response, listed))
    return sorted(found, key=lambda item: item[0].seq)
