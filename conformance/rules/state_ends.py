"""The session's state: what may follow the idle that ends work, which states are owed, and the background list."""

from typing import Any

from conformance.conversation import FINAL_STATUSES, STANDARD_STATES, State, View, Work
from conformance.history import Event
from conformance.rules.registry import EXERCISED, MUST, SHOULD, Verdict, rule, violation
from conformance.rules.state import is_output, quiet_barrier

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
    if any(name not in KNOWN_CLIENT_CAPABILITIES for name in view.connection.client_capabilities):
        return
    customs = [state for state in view.states if state.value not in STANDARD_STATES]
    for custom in customs:
        work = view.work_at(custom.seq)
        following = next((s for s in view.states if s.seq > custom.seq and s.value in STANDARD_STATES), None)
        until = following.seq if following is not None else float("inf")
        if work is None:
            prompt = next((s for s in view.session.submissions if s.seq < custom.seq and s.request.succeeded and s.view is view), None)
            output = next((u for u in view.updates_between(custom.seq, until) if is_output(u)), None)
            if prompt is not None and output is not None and (following is None or following.is_idle):
                yield violation(
                    f"work began under the state {custom.value!r} alone",
                    (custom.event, f"the state is {custom.value!r}, which no client asked for"),
                    (output.event, "the agent is at work, and no running was reported"),
                )
        elif following is None and (barrier := quiet_barrier(view, custom.seq)) is not None:
            if not any(is_output(u) for u in view.updates_between(custom.seq, barrier.seq)):
                yield violation(
                    f"work ended with the state {custom.value!r} alone",
                    (work.began.event, "the work begins"),
                    (custom.event, f"its last state is {custom.value!r}, which no client asked for"),
                    (barrier, "and up to here no idle came"),
                )


@rule(
    "state.idle-after-its-updates",
    SHOULD,
    says="The idle that ends work follows all updates of that work.",
    source="rfd 'Report failures after insertion'",
    exercised="a turn-ending idle without a background list, then the quiet line",
    proof="a chunk or update of an agent message or thought that began in the ended work arrives after that idle and before new work",
    never="tool calls and terminals listed as background; usage, title, commands and config updates; new agent-initiated messages",
)
def idle_after_its_updates(work: Work) -> Verdict:
    if work.ended is None or work.stop_reason == "cancelled" or work.ended.background:
        return
    yield EXERCISED
    for event in late_output(work):
        yield violation(
            "output of the work came after the idle that ended it",
            (work.ended.event, "the work ends"),
            (event, "a message that began in it goes on"),
        )
        return


def late_output(work: Work) -> list[Event]:
    """Updates of messages that began in the work, after its idle and before other work or a resume of the session."""
    view = work.view
    if work.ended is None:
        return []
    following = next(iter(view.works_after(work.ended.seq)), None)
    end = following.seq if following is not None else float("inf")
    late = []
    for update in view.updates_between(work.ended.seq, end):
        message = view.message_of(update) if is_output(update) and update.replay is None else None
        if message is not None and work.holds(message.first.seq):
            late.append(update.event)
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
            if state.stop_reason == "error" and earlier.stop_reason != "error" and not _explained(view, earlier, state):
                yield violation(
                    "an idle session was told to have stopped with an error",
                    (earlier.event, f"the session is idle ({earlier.stop_reason or 'no stop reason'})"),
                    (state.event, "no work began since, and yet work is said to have ended with an error"),
                )
        earlier = state if state.value in STANDARD_STATES else earlier


def _explained(view: View, earlier: State, state: State) -> bool:
    """Whether a prompt, or an error told before, explains an idle that says error."""
    prompts = any(s.answered_at > earlier.seq and s.seq < state.seq for s in view.session.submissions)
    return prompts or any(s.stop_reason == "error" for s in view.states if s.seq < state.seq)


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
        if kind == "tool_call" and call is not None and (status := call.status_at(seq)) is not None:
            if status in FINAL_STATUSES or status not in ("pending", "in_progress", "paused"):
                return True
        if kind == "terminal" and terminal is not None and terminal.exited is not None and terminal.exited.seq <= seq:
            return True
    return False


def _snapshots(view: View) -> list[list[State]]:
    """The state updates in runs that one life of the session made: a close or a resume begins another."""
    breaks = sorted([r.seq for r in view.session.closes] + [replay.seq for replay in view.replays])
    runs: list[list[State]] = [[]]
    for state in view.states:
        while breaks and breaks[0] < state.seq:
            breaks.pop(0)
            runs.append([])
        runs[-1].append(state)
    return runs


@rule(
    "state.background-announced",
    MUST,
    says="A background item is announced (its tool call or terminal) before the first snapshot that lists it, and finished before the "
    "snapshot that drops it.",
    source="schema BackgroundWork",
    exercised="a non-empty background list",
    proof="a listed id never announced before; or an item dropped with no final status or exitStatus before",
    never="a new process, or a session closed and resumed, that lists nothing: the list starts afresh",
)
def background_announced(view: View) -> Verdict:
    attached_blind = view.created is None and not any(replay.asks_for_history for replay in view.replays)
    for run in _snapshots(view):
        listed: dict[tuple[str, str], State] = {}
        for state in run:
            if state.background is None:
                continue
            items = _items(state)
            if items:
                yield EXERCISED
            for kind, identifier in items:
                if (kind, identifier) not in listed and not attached_blind and _announced_at(view, kind, identifier) > state.seq:
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
    proof="a later state_update of the session without the list (absent or null)",
)
def background_on_every_update(view: View) -> Verdict:
    for run in _snapshots(view):
        first: State | None = None
        for state in run:
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
    proof="after that idle, and before new work, a tool call or terminal that is not listed goes on, or output of the ended work does; or a "
    "tool call of work that ended by itself was left in progress and unlisted",
    never="a tool call whose process is listed as a terminal; a list with items of an unknown type; work that was cancelled or failed",
)
def background_list_is_complete(work: Work) -> Verdict:
    ended, view = work.ended, work.view
    if ended is None or ended.background is None:
        return
    yield EXERCISED
    known = _items(ended)
    if len(known) < len(ended.background):
        return
    has_terminals = any(kind == "terminal" for kind, _ in known)
    following = next(iter(view.works_after(ended.seq)), None)
    end = min(
        following.seq if following is not None else float("inf"),
        min((s.seq for s in view.session.submissions_after(ended.seq)[:1]), default=float("inf")),
        min((replay.seq for replay in view.replays if replay.seq > ended.seq), default=float("inf")),
    )
    if events := late_output(work):
        yield violation("the list is complete, and output of the ended work goes on", (ended.event, "the list"), (events[0], "goes on"))
    for update in view.updates_between(ended.seq, end):
        call = view.tool_calls.get(str(update.body.get("toolCallId"))) if update.kind.startswith("tool_call") else None
        if call is None or not call.steps or not work.holds(call.first.update.seq) or ("tool_call", call.id) in known or has_terminals:
            continue
        if call.status_at(ended.seq) not in FINAL_STATUSES and not call.view.is_replayed(update):
            yield violation(
                f"the tool call {call.id!r} goes on and was not listed",
                (call.first.update.event, "a tool call of the work"),
                (ended.event, "the list of all that runs on does not have it"),
                (update.event, "and it goes on"),
            )
            return
    if work.stop_reason in ("error", "cancelled") or has_terminals:
        return
    ids = {update.body.get("toolCallId") for update in work.updates if update.kind == "tool_call_update"}
    for identifier in ids:
        call = view.tool_calls.get(str(identifier))
        if call is not None and ("tool_call", call.id) not in known and call.status_at(ended.seq) == "in_progress":
            if (barrier := quiet_barrier(view, ended.seq)) is not None and barrier.seq < end:
                yield violation(
                    f"the tool call {call.id!r} is left in progress and was not listed",
                    (call.first.update.event, "a tool call of the work"),
                    (ended.event, "the list of all that runs on does not have it"),
                    (barrier, "and up to here it was not finished"),
                )
