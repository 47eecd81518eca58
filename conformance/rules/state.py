"""The session's state: running when foreground work starts, idle when it ends, requires_action in between (schema StateUpdate)."""

from collections.abc import Iterable

from conformance.conversation import BUSY, STANDARD_STATES, Request, State, Submission, Update, View, Work
from conformance.history import Event
from conformance.rules.registry import EXERCISED, MUST, SHOULD, Verdict, rule, violation, warning

OUTPUT = ("agent_message", "agent_message_chunk", "agent_thought", "agent_thought_chunk")
"""Updates that only foreground work of the agent writes; tool calls and terminals may be background."""


def is_output(update: Update) -> bool:
    return update.kind in OUTPUT and not update.view.is_replayed(update)


def submissions_between(view: View, start: float, end: float) -> list[Submission]:
    """Prompts to the session, by anyone, that were pending or sent between two positions, refused ones left out."""
    return [s for s in view.session.submissions if s.seq < end and s.answered_at > start and not s.request.failed]


@rule(
    "state.running-when-work-starts",
    MUST,
    says="running (or requires_action) is reported when foreground work starts.",
    source="schema StateUpdate",
    exercised="agent output or a turn-ending idle after a prompt",
    proof="an idle with a stop reason and no running or requires_action since the previous idle; or agent messages of a prompt's work, and "
    "no running around them",
    never="background updates while idle; a repeated idle snapshot with the same stop reason, also the first after a resume; running before "
    "insertion",
)
def running_when_work_starts(view: View) -> Verdict:
    reasons: dict[str, State] = {}  # stop reasons told so far, by the idle that told them last
    last_idle: State | None = None
    for state in view.states:
        if not state.is_idle:
            continue
        since = last_idle.seq if last_idle is not None else (view.created.seq if view.created is not None else -1)
        if state.before in BUSY:
            yield EXERCISED
        elif state.before == "idle" and state.update.replay is None:
            yield from _unannounced(view, state, since, known=_is_snapshot(view, state, reasons))
        if state.stop_reason is not None:
            reasons[state.stop_reason] = state
        last_idle = state
    yield from _output_without_any_state(view)


def _is_snapshot(view: View, state: State, reasons: dict[str, State]) -> bool:
    """Whether this idle only repeats a stop reason that was told before, here or on another connection."""
    if state.stop_reason is None or state.stop_reason in reasons:
        return True
    others = (other for other in view.session.views if other is not view)
    return any(s.stop_reason == state.stop_reason and s.seq < state.seq for other in others for s in other.states)


def _unannounced(view: View, state: State, since: float, *, known: bool) -> Verdict:
    prompts = [
        s
        for s in submissions_between(view, since, state.seq)
        if s.seq > since and not s.is_local_command and s.seq < state.seq and s.request.succeeded
    ]
    output = [u for u in view.updates_between(max(since, prompts[0].seq if prompts else since), state.seq) if is_output(u)]
    if any(s.value not in STANDARD_STATES for s in view.states if since < s.seq < state.seq):
        return  # state.standard-states
    if prompts and output:
        yield violation(
            "work of a prompt began and ended, and running was never reported",
            (prompts[0].request.event, "this prompt"),
            (output[0].event, "is worked on: output of the agent"),
            (state.event, "the work ends, with no running or requires_action since the idle before"),
        )
    elif prompts and not known:
        yield violation(
            f"idle with the stop reason {state.stop_reason!r}, and running was never reported",
            (prompts[0].request.event, "this prompt"),
            (state.event, "work ends, with no running or requires_action since the idle before"),
        )
    elif not known and state.stop_reason != "error":
        yield warning(
            f"idle with the stop reason {state.stop_reason!r} and no running before it", (state.event, "what work does this end?")
        )


def _output_without_any_state(view: View) -> Verdict:
    """An agent that reports no state at all: output of a prompt, and still none when a barrier request is answered on a quiet line."""
    if view.attached is not None:
        return
    for submission in view.session.submissions:
        response = submission.response
        if response is None or not submission.request.succeeded or submission.is_local_command or submission.view is not view:
            continue
        if view.work_at(submission.seq) is not None:
            continue
        after = view.first_state_after(submission.seq)
        output = next((u for u in view.updates_between(submission.seq, after.seq if after else float("inf")) if is_output(u)), None)
        if output is None or after is not None:
            continue
        barrier = quiet_barrier(view, output.seq)
        if barrier is not None:
            yield violation(
                "work of a prompt was done, and no state was ever reported",
                (submission.request.event, "this prompt"),
                (output.event, "is worked on: output of the agent"),
                (barrier, "and up to here no running came"),
            )
            return


def quiet_barrier(view: View, seq: float) -> Event | None:
    """The answer to a barrier request that was asked after that position on a quiet connection, or the suite's own quiet window."""
    connection = view.connection
    for control in connection.controls_after(seq):
        about = control.control or {}
        if control.name == "window" and about.get("began", 0) > seq and about.get("session") in (view.id, None):
            return control
        if control.name == "waited":
            return control
    if view.session.conversation.is_driven:
        return None
    after = seq
    while (barrier := connection.barrier_after(after)) is not None and barrier.response is not None:
        last = connection.last_line_before(barrier.seq)
        if last is None or barrier.event.t - last.t >= 1.0:
            return barrier.response
        after = barrier.seq
    return None


@rule(
    "state.idle-when-work-ends",
    MUST,
    says="idle is reported when no foreground activity remains.",
    source="schema StateUpdate",
    exercised="running seen",
    proof="no idle within the patience although the model finished (or failed) all it was asked and nothing else was pending",
    never="work that waits for an answer of the client; a connection that ended",
)
def idle_when_work_ends(work: Work) -> Verdict:
    yield EXERCISED
    if work.ended is not None or work.states[-1].value not in BUSY or work.states[-1].value == "requires_action":
        return
    view, connection = work.view, work.view.connection
    last = [u for u in work.updates if not view.is_replayed(u)][-1:] or [work.began.update]
    waited = connection.out_of_patience(last[0].event)
    if waited is None or waited.seq > connection.ended_at or _waits_for_client(connection.agent_requests, waited.seq):
        return
    if view.session.stops_between(work.seq, float("inf")) and not _long_before_stop(view, last[0], waited):
        return  # cancel.ends-idle-cancelled
    prompts = submissions_between(view, work.seq, waited.seq)
    models = [r for r in view.session.conversation.model_requests if r.seq > work.seq and r.seq < waited.seq and not r.is_side]
    if any(request.answered is None for request in models) or (models and all(request.was_failed for request in models)):
        return  # the model still holds it; or prompt.failure-ends-idle-error
    output = next((u for u in work.updates if is_output(u)), None)
    done = models[-1].answered if models else output.event if output is not None else None
    if done is None or not prompts or any(s.is_local_command for s in prompts):
        return
    yield violation(
        "work came to its end and was never reported as idle",
        (work.began.event, "the work begins"),
        *([(done, "the model has answered all it was asked" if models else "it has its output")] if done.seq < last[0].seq else []),
        (last[0].event, "its last sign"),
        (waited, "and no idle came within the patience, while the agent lived"),
    )


def _waits_for_client(requests: Iterable[Request], until: float) -> bool:
    """Whether a request of the agent, sent before that position, was still unanswered there."""
    return any(request.seq < until and request.answered_at > until for request in requests)


def _long_before_stop(view: View, last: Update, waited: Event) -> bool:
    """In a foreign recording: whether patience had run out already when the session was cancelled or closed."""
    stop = next(iter(view.session.stops_between(last.seq, waited.seq)), None)
    return stop is not None and not view.session.conversation.is_driven and stop.t - last.event.t >= view.session.conversation.patience


@rule(
    "state.stop-reason-at-end",
    SHOULD,
    says="The idle that ends foreground work says why.",
    source="schema IdleStateUpdate",
    exercised="running, then idle",
    proof="no stopReason, or null",
    never="a snapshot in answer to a resume",
)
def stop_reason_at_end(work: Work) -> Verdict:
    if work.ended is None or work.ended.update.replay is not None:
        return
    yield EXERCISED
    if work.stop_reason is None:
        yield violation(
            "the work ended without a stop reason", (work.began.event, "the work begins"), (work.ended.event, "it ends, and nothing says why")
        )


@rule(
    "state.leaves-requires-action",
    MUST,
    says="After requires_action the agent reports running when progress resumes or idle when work ends.",
    source="schema RequiresActionStateUpdate",
    exercised="requires_action, then the blocking request answered",
    proof="agent output of that work, or nothing at all within the patience, with no running or idle after the answer",
    never="a tool call's final status before the idle that ends the work",
)
def leaves_requires_action(work: Work) -> Verdict:
    connection = work.view.connection
    for state in work.states:
        if state.value != "requires_action":
            continue
        following = next((s for s in work.states if s.seq > state.seq and s.value in STANDARD_STATES), None)
        until = following.seq if following is not None else float("inf")
        asked = connection.agent_requests_between(work.seq, until)
        blocking = [r for r in asked if r.answered_at > state.seq and r.session_id in (work.view.id, None)]
        if not blocking or any(request.answered_at > until for request in blocking):
            continue
        answer = max((r.response for r in blocking if r.response is not None), key=lambda event: event.seq)
        yield EXERCISED
        resumed = next((u for u in work.view.updates_between(answer.seq, until) if is_output(u) or _is_at_work(u)), None)
        proof = [(state.event, "the work waits for the user"), (answer, "who has answered all that was asked")]
        if resumed is not None:
            yield violation("the work went on, and running was not reported", *proof, (resumed.event, "progress, with no running before it"))
        elif following is None and (waited := connection.out_of_patience(answer)) is not None:
            if not work.view.session.stops_between(state.seq, waited.seq):
                yield violation("neither running nor idle followed the answer", *proof, (waited, "and nothing came within the patience"))


def _is_at_work(update: Update) -> bool:
    return update.kind == "tool_call_update" and update.body.get("status") == "in_progress"


@rule(
    "state.requires-action-when-blocked",
    SHOULD,
    says="requires_action is reported while the whole foreground workflow waits for the user.",
    source="schema StateUpdate",
    exercised="a pending session/request_permission left unanswered for the hold window with no other update",
    proof="the state is still running at the end of the hold window",
    never="a permission of background work",
)
def requires_action_when_blocked(view: View) -> Verdict:
    for permission in view.permissions:
        until = permission.answer.seq if permission.answer is not None else float("inf")
        window = _hold_window(view, permission.seq, until)
        if window is None:
            continue
        updates = view.updates_between(permission.seq, window.seq)
        if any(u.kind not in ("state_update", "usage_update", "session_info_update") for u in updates):
            continue
        state = view.state_at(window.seq)
        if state == "requires_action":
            yield EXERCISED
        elif state == "running" and permission.work is not None:
            yield violation(
                "all work waited for the user, and the state was still running",
                (permission.request.event, "the agent asks for permission"),
                (window, "nothing else happens for the hold window, and the state is running"),
            )


def _hold_window(view: View, start: float, end: float) -> Event | None:
    """The event by which the hold window had passed between two positions: the suite's own, or the next line a second later."""
    connection = view.connection
    for control in connection.controls_after(start):
        about = control.control or {}
        if control.seq < end and control.name == "window" and about.get("kind") == "hold" and about.get("began", 0) >= start:
            return control
    if view.session.conversation.is_driven or end == float("inf"):
        return None
    events = view.session.conversation.history.events
    first, last = events[int(start)], events[int(end)]
    return last if last.t - first.t >= 1.0 else None
