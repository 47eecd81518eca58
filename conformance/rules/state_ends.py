"""The session's state: what may follow the idle that ends work, which states are owed, and the background list."""

from collections import deque
from typing import Any

from conformance.conversation import FINAL_STATUSES, STANDARD_STATES, State, Update, View, Work
from conformance.history import Event
from conformance.rules.registry import EXERCISED, MUST, SHOULD, Verdict, rule, violation, warning
from conformance.rules.state import is_done, is_output, patience_with, quiet_barrier

KNOWN_CLIENT_CAPABILITIES = ("auth", "elicitation", "_meta")


@rule(
    "state.standard-states",
    MUST,
    says="Unless the client advertised a custom state, the standard states are reported.",
    source="schema StateUpdate",
    exercised="any state_update",
    proof="work of a prompt starts or ends with a custom state only, where running or idle is owed",
)
def standard_states(view: View) -> Verdict:
    if view.states:
        yield EXERCISED
    if any(name not in KNOWN_CLIENT_CAPABILITIES or name == "_meta" for name in view.connection.client_capabilities):
        return
    following: State | None = None
    for state in reversed(view.states):
        if state.value in STANDARD_STATES:
            following = state
            continue
        work = view.work_at(state.seq)
        if work is None:
            yield from _begun_under(view, state, following)
        elif following is None:
            yield from _ended_under(view, state, work)


def _begun_under(view: View, custom: State, following: State | None) -> Verdict:
    """Work of a prompt that has only a custom state: output follows it, and then an idle or nothing more."""
    if following is not None and not following.is_idle:
        return
    before = view.session.submission_before(custom.seq)
    prompt = before or next(iter(view.session.submissions_after(custom.seq)), None)
    output = view.first_output(custom.seq, following.seq if following is not None else float("inf"))
    if (
        prompt is None
        or not prompt.request.succeeded
        or prompt.view is not view
        or output is None
        or output.seq < prompt.seq
    ):
        return
    end = following.event if following is not None else quiet_barrier(view, output.seq)
    if end is not None:
        yield violation(
            f"work went on under the state {custom.value!r} alone",
            (custom.event, f"the state is {custom.value!r}, which no client asked for"),
            (output.event, "the agent is at work, and no running was reported"),
            (end, "until here"),
        )


def _ended_under(view: View, custom: State, work: Work) -> Verdict:
    """Work whose last state is a custom one, and that has been over for long."""
    last = next((u for u in reversed(work.updates) if not view.is_replayed(u)), custom.update)
    waited = view.connection.out_of_patience(last.event, patience=patience_with(work))
    has_output = any(is_output(update) for update in work.updates)
    if waited is None or not has_output or view.connection.waits_for_client_at(waited.seq):
        return
    if view.session.stops_between(work.seq, waited.seq) or not is_done(work, waited):
        return
    yield violation(
        f"work ended with the state {custom.value!r} alone",
        (work.began.event, "the work begins"),
        (custom.event, f"its last state is {custom.value!r}, which no client asked for"),
        (waited, "and no idle came, while the agent lived"),
    )


@rule(
    "state.idle-after-its-updates",
    SHOULD,
    says="The idle that ends work follows all updates of that work.",
    source="rfd 'Report failures after insertion'",
    exercised="a turn-ending idle without a background list, then the quiet line",
    proof="a chunk or update of an agent message or thought that began in the ended work arrives after that idle "
    "and before new work",
    never="tool calls and terminals listed as background; usage, title, commands and config updates; new "
    "agent-initiated messages",
)
def idle_after_its_updates(work: Work) -> Verdict:
    if work.ended is None or work.stop_reason == "cancelled" or work.ended.background:
        return
    yield EXERCISED
    for update in late_output(work)[:1]:
        yield violation(
            "output of the work came after the idle that ended it",
            (work.ended.event, "the work ends"),
            (update.event, "a message that began in it goes on"),
        )


def late_output(work: Work) -> list[Update]:
    """Updates of messages that began in the work, after its idle and before other work or a resume that replays."""
    view = work.view
    if work.ended is None:
        return []
    following = next(iter(view.works_after(work.ended.seq)), None)
    resume = view.history_asked_after(work.ended.seq)  # what it brings too late is replay.before-response
    until = min((span.seq for span in (following, resume) if span is not None), default=float("inf"))
    late = []
    for update in view.updates_between(work.ended.seq, until):
        message = view.message_of(update) if is_output(update) and update.replay is None else None
        if message is not None and work.began_with(message.first):
            late.append(update)
    return late


@rule(
    "state.background-failure-is-not-a-stop",
    MUST,
    says="A failure of background activity while idle is not a stop reason.",
    source="rfd 'Report failures after insertion', table",
    exercised="idle, then another idle with no running between",
    proof="the second idle carries stopReason 'error' and the first did not, and no prompt came in between",
)
def background_failure_is_not_a_stop(view: View) -> Verdict:
    earlier: State | None = None
    for state in view.states:
        if state.is_idle and earlier is not None and earlier.is_idle and state.update.replay is None:
            yield EXERCISED
            if state.stop_reason == "error" and not _explained(view, earlier, state):
                tell = (
                    violation if view.created is not None or any(w.seq < state.seq for w in view.works[:1]) else warning
                )
                yield tell(
                    "an idle session was told to have stopped with an error",
                    (earlier.event, f"the session is idle ({earlier.stop_reason or 'no stop reason'})"),
                    (state.event, "no work began since, and yet work is said to have ended with an error"),
                )
        earlier = state if state.value in STANDARD_STATES else earlier


def _explained(view: View, earlier: State, state: State) -> bool:
    """Whether a prompt explains an idle that says error, or an error that was told before, on whatever connection, and
    of which no later work is known."""
    session, work = view.session, view.work_before(state.seq)
    before = session.submission_before(earlier.seq)
    is_pending = before is not None and before.answered_at > earlier.seq
    since = work.seq if work is not None else -1
    told = (told for other in session.views for told in other.states_between(since, state.seq))
    return (
        is_pending
        or bool(session.submissions_between(earlier.seq, state.seq))
        or any(each.stop_reason == "error" for each in told)
    )


def _items(state: State) -> dict[tuple[str, str], Any]:
    """The listed items that name a tool call or terminal: (type, id)."""
    found = {}
    for item in state.background or []:
        if isinstance(item, dict):
            for kind, key in (("tool_call", "toolCallId"), ("terminal", "terminalId")):
                if item.get("type") == kind and isinstance(item.get(key), str):
                    found[kind, item[key]] = item
    return found


def _announced_at(view: View, kind: str, identifier: str) -> float:
    """The first position, on any connection of the session, where the item was announced."""
    seqs = []
    for other in view.session.views:
        call, terminal = other.tool_calls.get(identifier), other.terminals.get(identifier)
        if kind == "tool_call" and call is not None and call.steps:
            seqs.append(call.first.update.seq)
        if kind == "terminal" and terminal is not None:
            seqs.append(terminal.updates[0].seq)
    return min(seqs, default=float("inf"))


def _finished_by(view: View, kind: str, identifier: str, seq: float) -> bool:
    for other in view.session.views:
        call, terminal = other.tool_calls.get(identifier), other.terminals.get(identifier)
        status = call.status_at(seq) if kind == "tool_call" and call is not None else None
        if status is not None and status not in ("pending", "in_progress", "paused"):
            return True
        if kind == "terminal" and terminal is not None and terminal.exited is not None and terminal.exited.seq <= seq:
            return True
    return False


def _snapshots(view: View, *, begin_at_resumes: bool) -> list[list[State]]:
    """The state updates in runs that one life of the session made: a close begins another, and a resume may."""
    resumes = [replay.seq for replay in view.replays] if begin_at_resumes else []
    breaks = deque(sorted([request.seq for request in view.session.closes] + resumes))
    runs: list[list[State]] = [[]]
    for state in view.states:
        if breaks and breaks[0] < state.seq:
            runs.append([])
        while breaks and breaks[0] < state.seq:
            breaks.popleft()
        runs[-1].append(state)
    return runs


@rule(
    "state.background-announced",
    MUST,
    says="A background item is announced (its tool call or terminal) before the first snapshot that lists it, and "
    "finished before the snapshot that drops it.",
    source="schema BackgroundWork",
    exercised="a non-empty background list",
    proof="a listed id never announced before; or an item dropped with no final status or exitStatus before",
    never="a new process, or a session closed and resumed, that lists nothing: the list starts afresh",
)
def background_announced(view: View) -> Verdict:
    attached_blind = view.created is None and not any(replay.asks_for_history for replay in view.replays)
    for run in _snapshots(view, begin_at_resumes=True):
        listed: dict[tuple[str, str], State] = {}
        for state in run:
            if state.background is None:
                continue
            items = _items(state)
            if items:
                yield EXERCISED
            for kind, identifier in items:
                if (
                    (kind, identifier) not in listed
                    and not attached_blind
                    and not view.connection.unread_between(-1, state.seq)
                    and _announced_at(view, kind, identifier) > state.seq
                ):
                    yield violation(
                        f"the {kind} {identifier!r} is listed as background work and was never announced",
                        (state.event, "the first snapshot that lists it"),
                    )
            for (kind, identifier), since in listed.items():
                if (kind, identifier) not in items and not _finished_by(view, kind, identifier, state.seq):
                    yield violation(
                        f"the {kind} {identifier!r} is dropped from the background list unfinished",
                        (since.event, "a snapshot that lists it"),
                        (state.event, "this one does not, and nothing told that it had finished"),
                    )
            listed = dict.fromkeys(items, state)


@rule(
    "state.background-on-every-update",
    MUST,
    says="An agent that reports background work includes the list on every state update of the session.",
    source="schema RunningStateUpdate",
    exercised="a state_update with a background list, then another",
    proof="a later state_update of the session without the list (absent or null), also in a resume",
    never="the session once it was closed and resumed, or resumed elsewhere: the agent may begin afresh",
)
def background_on_every_update(view: View) -> Verdict:
    for run in _snapshots(view, begin_at_resumes=False):
        first: State | None = None
        for state in run:
            if state.value not in STANDARD_STATES:
                continue
            if first is not None:
                yield EXERCISED
                if state.background is None and state.update.body.get("background") is None:
                    yield violation(
                        "a state update without the background list",
                        (first.event, "the agent reports background work"),
                        (state.event, "and leaves the list out here"),
                    )
                    break
            elif state.background is not None:
                first = state


@rule(
    "state.background-list-is-complete",
    MUST,
    says="A reported background list is a complete snapshot: [] means that nothing runs in the background.",
    source="schema IdleStateUpdate, BackgroundWork",
    exercised="a turn-ending idle with a background list",
    proof="after that idle, and before new work, a tool call or terminal that is not listed goes on, or output of "
    "the ended work does; or a tool call of work that ended by itself was left in progress and unlisted",
    never="a tool call whose process is listed as a terminal, or a terminal whose tool call is listed; a list with "
    "items of an unknown type; work that was cancelled",
)
def background_list_is_complete(work: Work) -> Verdict:
    ended, view = work.ended, work.view
    if ended is None or ended.background is None:
        return
    yield EXERCISED
    known = _items(ended)
    if ended.update.replay is not None and work.stop_reason is None:
        return  # the snapshot of a resume: replay.state-snapshot
    if len(known) < len(ended.background) or work.stop_reason == "cancelled":
        return  # an item of a type of its own may be anything; cancel.updates-before-idle
    end = _next_beginning(view, ended.seq)
    if not known and (late := [u for u in late_output(work) if u.is_chunk]):
        yield violation(
            "the list says that nothing goes on, and output does", (ended.event, "the list"), (late[0].event, "goes on")
        )
    has_terminals = any(kind == "terminal" for kind, _ in known)
    for update in view.updates_between(ended.seq, end):
        if update.replay is not None and update.replay.asks_for_history:
            continue  # told of the past
        goes_on = _goes_on_unlisted(update, work, known, has_terminals=has_terminals)
        if goes_on is not None:
            what, began = goes_on
            yield violation(
                f"{what} goes on and was not listed",
                (began, "it begins"),
                (ended.event, "the list of all that runs on does not have it"),
                (update.event, "and it goes on"),
            )
            return
    if work.stop_reason == "error" or has_terminals:
        return  # what a failure left unfinished is prompt.tool-calls-finished-before-error-idle
    named = dict.fromkeys(str(u.body.get("toolCallId")) for u in work.updates if u.kind == "tool_call_update")
    for call in [call for identifier in named if (call := view.tool_calls.get(identifier)) is not None]:
        if ("tool_call", call.id) in known or call.status_at(ended.seq) != "in_progress":
            continue
        if call.first.update.replay is not None:
            continue  # it may be of earlier work, here or elsewhere
        barrier = quiet_barrier(view, ended.seq)
        if barrier is not None and barrier.seq < end:
            yield violation(
                f"the tool call {call.id!r} is left in progress and was not listed",
                (call.first.update.event, "a tool call of the work"),
                (ended.event, "the list of all that runs on does not have it"),
                (barrier, "and up to here it was not finished"),
            )


def _next_beginning(view: View, seq: float) -> float:
    """Where what comes may be of something new: the next work, prompt or resume."""
    work = next(iter(view.works_after(seq)), None)
    prompt = next(iter(view.session.submissions_after(seq)), None)
    return min(
        (thing.seq for thing in (work, prompt, view.replay_after(seq)) if thing is not None), default=float("inf")
    )


def _goes_on_unlisted(
    update: Update, work: Work, known: dict[tuple[str, str], Any], *, has_terminals: bool
) -> tuple[str, Event] | None:
    """What an update after the idle shows to go on though it began before it and is not listed, with the event of its
    beginning. A tool call may be listed as the terminal that is its process, and a terminal as the tool call that shows
    it; of earlier work a tool call that is only closed as failed or cancelled, or a terminal that only ends, may have
    been forgotten."""
    view, ended_at = work.view, work.ended_at
    if update.kind.startswith("tool_call") and not has_terminals:
        call = view.tool_calls.get(str(update.body.get("toolCallId")))
        if call is None or not call.steps or ("tool_call", call.id) in known or call.first.update.seq > ended_at:
            return None
        is_forgotten = not work.holds(call.first.update.seq) and update.body.get("status") in ("failed", "cancelled")
        if call.first.update.replay is not None or is_forgotten or call.status_at(ended_at) in FINAL_STATUSES:
            return None
        return f"the tool call {call.id!r}", call.first.update.event
    if update.kind.startswith("terminal"):
        terminal = view.terminals.get(str(update.body.get("terminalId")))
        if terminal is None or ("terminal", terminal.id) in known or terminal.updates[0].seq > ended_at:
            return None
        is_forgotten = not work.began_with(terminal.updates[0]) and update.kind != "terminal_output_chunk"
        if is_forgotten or terminal.updates[0].replay is not None:
            return None
        listed = (view.tool_calls.get(identifier) for kind, identifier in known if kind == "tool_call")
        if any(call is not None and terminal.id in call.terminal_ids for call in listed):
            return None
        had_exited = terminal.exited is not None and terminal.exited.seq < ended_at
        return None if had_exited else (f"the terminal {terminal.id!r}", terminal.updates[0].event)
    return None
