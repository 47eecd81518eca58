"""The session's state: running when foreground work starts, idle when it ends (schema StateUpdate)."""

from collections.abc import Sequence
from itertools import pairwise

from conformance.conversation import (
    BUSY,
    OUTPUT,
    STANDARD_STATES,
    ModelRequest,
    State,
    Submission,
    Update,
    View,
    Work,
    failed_at_last,
)
from conformance.conversation.span import before, between
from conformance.history import Event
from conformance.rules.insertion import in_order
from conformance.rules.registry import EXERCISED, MUST, SHOULD, Verdict, rule, violation, warning

BURST = 0.05  # seconds within which two lines may have been swapped by one write queue
ASIDE = ("usage_update", "session_info_update", "available_commands_update", "config_option_update", "notice")
"""Updates that say nothing of the work."""


def is_output(update: Update) -> bool:
    return update.kind in OUTPUT and not update.view.is_replayed(update)


@rule(
    "state.running-when-work-starts",
    MUST,
    says="running (or requires_action) is reported when foreground work starts.",
    source="schema StateUpdate",
    exercised="agent output or a turn-ending idle after a prompt",
    proof="an idle with a stop reason and no running or requires_action since the previous idle; or agent messages "
    "of a prompt's work, and no running around them; or a second idle at once with another stop reason; or the model "
    "was asked and held, and no running came within the patience",
    never="background updates while idle; a repeated idle snapshot with the same stop reason, also the first after "
    "a resume; running before insertion; what was cancelled before any work on it began",
)
def running_when_work_starts(view: View) -> Verdict:
    reasons: dict[str, State] = {}  # stop reasons told so far, by the idle that told them last
    last_idle: State | None = None
    cut: State | None = None  # the snapshot of a resume that told open work as idle
    for state in view.states:
        if not state.is_idle:
            cut = None if state.is_busy else cut
            continue
        since = last_idle.seq if last_idle is not None else (view.created.seq if view.created is not None else -1)
        if state.before in BUSY:
            yield EXERCISED
        elif state.before == "idle" and state.update.replay is None and not _goes_on_after(cut, state):
            yield from _unannounced(view, state, since, known=_is_snapshot(view, state, reasons))
        if state.stop_reason is not None:
            reasons[state.stop_reason] = state
        if state.update.replay is None:
            cut = None
        elif state.update.work is not None:
            cut = state
        last_idle = state
    yield from _output_without_any_state(view)
    yield from _asked_without_running(view)


def _asked_without_running(view: View) -> Verdict:
    """A prompt that the scripted model was asked for and holds, and no running though the patience was spent."""
    for submission in view.session.submissions:
        request = next((r for r in submission.model_requests if not (r.is_side or r.is_shared)), None)
        if submission.view is not view or request is None or submission.inserted_at == float("inf"):
            continue
        waited = view.connection.out_of_patience(request.event)
        if waited is None or waited.seq > view.connection.ended_at or submission.inserted_at > waited.seq:
            continue
        answered_at = request.answered.seq if request.answered is not None else float("inf")
        is_told = view.states_between(submission.seq, waited.seq) or view.state_at(submission.seq) != "idle"
        if request.held is not None and answered_at > waited.seq and not is_told:
            yield violation(
                "the model is asked for a prompt, and running is not reported",
                *in_order(
                    (submission.request.event, "this prompt"),
                    (request.event, "is worked on: the model is asked, and holds its answer"),
                    (waited, "and up to here no running came"),
                ),
            )


def _goes_on_after(snapshot: State | None, state: State) -> bool:
    """Whether what the idle ends may be the work that the snapshot of a resume told as idle, and no prompt's:
    replay.state-snapshot is about that."""
    if snapshot is None:
        return False
    return not state.update.view.session.inserted_between(snapshot.seq, state.seq)


def has_command_rules(submission: Submission, view: View) -> bool:
    """Whether it is a command whose states command.same-lifecycle judges; not that of an agent that never reports
    running, for other prompts neither."""
    return submission.is_command and (
        submission.is_local_command or bool(view.works) or submission.session.has_commands_only
    )


def _is_snapshot(view: View, state: State, reasons: dict[str, State]) -> bool:
    """Whether this idle may only repeat a stop reason: one that was told before, here or on another connection, or
    on one that came to the session when it had a past."""
    if state.stop_reason is None or state.stop_reason in reasons or view.created is None:
        return True
    told = view.session.stop_reasons.get(state.stop_reason, {})
    return any(seq < state.seq for other, seq in told.items() if other is not view)


def is_stopped_before(sent: Sequence[Submission], state: State) -> bool:
    """Whether a client stopped any of what had been asked before work on it began, which a request to the model shows:
    of several, the idle may be told for the first, and the others be inserted after it."""
    if state.stop_reason != "cancelled":
        return False
    session = state.update.view.session
    owed = session.unfinished(state.seq)  # it may have been sent before another idle, such as the snapshot of a resume
    asked = [*sent, owed] if owed is not None else sent
    stops = ((prompt, next(iter(session.stops_between(prompt.seq, state.seq)), None)) for prompt in asked)
    return any(stop is not None and not _is_begun_before(prompt, stop) for prompt, stop in stops)


def _is_begun_before(prompt: Submission, stop: Event) -> bool:
    """Whether the scripted model was asked for the prompt before the stop was sent, and not in one moment with it."""
    return any(r.event.t < stop.t - BURST and not (r.is_shared or r.is_side) for r in prompt.model_requests)


def _ends_twice(view: View, state: State) -> State | None:
    """The idle before this one, where that ended the same work with another reason: neither a client nor a process of
    the agent beside it can have begun other work since, nor waits for any."""
    session, first = view.session, before(view.states, state.seq)
    if first is None or not first.is_idle or first.stop_reason is None or first.update.replay is not None:
        return None
    is_alone = len(session.views) == 1 and not session.stops_between(first.seq, state.seq)
    is_asked = session.submissions_between(first.seq, state.seq) or session.unfinished(state.seq) is not None
    is_opened = view.replay_after(first.seq) is not None or session.first_background < state.seq
    return first if is_alone and not is_asked and not is_opened else None


def _unannounced(view: View, state: State, since: float, *, known: bool) -> Verdict:
    if any(s.value not in STANDARD_STATES for s in view.states_between(since, state.seq)):
        return  # state.standard-states
    is_all_read = not view.connection.unread_between(since, state.seq)
    sent = [s for s in view.session.submissions_between(since, state.seq) if s.request.succeeded]
    sent = [*_inserted_later(view, since, state.seq), *sent]
    prompt = next((s for s in sent if not has_command_rules(s, view)), None)
    if sent and prompt is None:
        return  # command.same-lifecycle
    if prompt is None:
        output = view.first_output(since, state.seq)
    else:
        output = _first_sign(view, prompt.seq if prompt.seq > since else prompt.inserted_at, state.seq)
    if known and (output is None or prompt is None or _is_begun_later(view, state, prompt, output)):
        return
    if prompt is not None and output is not None:
        yield violation(
            "work of a prompt began and ended, and running was never reported",
            (prompt.request.event, "this prompt"),
            (output.event, "is worked on: output of the agent"),
            (state.event, "the work ends, with no running or requires_action since the idle before"),
        )
    elif prompt is not None and state.stop_reason != "error" and not is_stopped_before(sent, state):
        yield violation(
            f"idle with the stop reason {state.stop_reason!r}, and running was never reported",
            (prompt.request.event, "this prompt"),
            (state.event, "work ends, with no running or requires_action since the idle before"),
        )
    elif output is not None and prompt is None and is_all_read:
        yield violation(
            "work of the agent's own began and ended, and running was never reported",
            (output.event, "output of the agent"),
            (state.event, f"work ends ({state.stop_reason}), with no running or requires_action since the idle before"),
        )
    elif state.stop_reason != "error" and (first := _ends_twice(view, state)) is not None:
        yield violation(
            "work ended, and ended once more with another reason",
            (first.event, f"the work ends ({first.stop_reason})"),
            (state.event, f"work ends ({state.stop_reason}), and none had begun: no running came, nor a prompt"),
        )
    elif state.stop_reason != "error":  # state.background-failure-is-not-a-stop
        yield warning(
            f"idle with the stop reason {state.stop_reason!r} and no running before it",
            (state.event, "what work does this end?"),
        )


def _inserted_later(view: View, start: float, end: float) -> list[Submission]:
    """Prompts that were sent before the first of two positions and inserted between them, as far as this connection was
    told: they waited for the work that ended there."""
    found = view.session.inserted_between(start, end)
    return [s for s in found if s.seq < start and s.request.succeeded and not s.was_told_before(start, view)]


def _first_sign(view: View, start: float, end: float) -> Update | None:
    """The first message or thought of the agent between two positions or, of an agent that lists no background work,
    the first tool call that begins there."""
    said = view.first_output(start, end)
    if said is not None or view.session.first_background < float("inf"):
        return said
    told = (u for u in view.updates_between(start, end) if u.kind == "tool_call_update" and u.replay is None)
    calls = ((u, view.tool_calls.get(str(u.body.get("toolCallId")))) for u in told)
    return next((u for u, call in calls if call is not None and call.steps and call.first.update is u), None)


def _is_begun_later(view: View, state: State, prompt: Submission, output: Update) -> bool:
    """Whether an idle that may be a mere snapshot is followed by work before any other prompt is sent or inserted,
    by more works than there are prompts, or by nothing that would tell. In the foreign recording of an agent without
    background work the idle itself tells: such an agent has no news between the insertion and the work."""
    asked, works = view.session.submissions_after(state.seq), view.works_after(state.seq)
    following = next(iter(asked), None)
    if works:
        waiting = [s for s in _inserted_later(view, state.seq, works[0].seq) if s is not prompt]
        is_first = not waiting and (following is None or works[0].seq < following.seq)
        return is_first or len(works) > len(asked) + len(waiting)
    lists_background = view.session.first_background < float("inf")
    may_have_news = lists_background or view.session.conversation.is_driven or output.seq < prompt.inserted_at
    return following is None and may_have_news and quiet_barrier(view, state.seq) is None


def _output_without_any_state(view: View) -> Verdict:
    """An agent that reports no state of a prompt's work at all: its output, on a connection that was told of the
    prompt while all was idle, and still no state when a barrier request is answered on a quiet line."""
    last = view.states[-1].seq if view.states else -1
    if view.state_at(last) != "idle":
        return
    for submission in view.session.submissions_after(last):
        if not submission.request.succeeded or has_command_rules(submission, view):
            continue
        is_own = submission.view is view
        if not submission.is_known_to(view, float("inf")):
            continue
        if any(other.work_at(submission.seq) is not None for other in view.session.views):
            continue
        output = view.first_output(submission.seq if is_own else submission.inserted_at, float("inf"))
        barrier = quiet_barrier(view, output.seq) if output is not None else None
        if output is not None and barrier is not None:
            yield violation(
                "work of a prompt was done, and no state was ever reported",
                (submission.request.event, "this prompt"),
                (output.event, "is worked on: output of the agent"),
                (barrier, "and up to here no running came"),
            )
        return


def quiet_barrier(view: View, seq: float) -> Event | None:
    """The answer to a barrier request that was asked after that position on a quiet connection, or the suite's own
    quiet window or spent patience."""
    connection = view.connection
    if view.session.conversation.is_driven:
        windows = (w for w in connection.windows_after(seq) if (w.control or {}).get("session") in (view.id, None))
        waited = connection.out_of_patience(view.session.conversation.history.events[max(int(seq), 0)])
        shown = [event for event in (next(windows, None), waited) if event is not None]
        return min(shown, key=lambda event: event.seq, default=None)
    barrier = connection.quiet_barrier_after(seq)
    return barrier.response if barrier is not None else None


@rule(
    "state.idle-when-work-ends",
    MUST,
    says="idle is reported when no foreground activity remains.",
    source="schema StateUpdate",
    exercised="running seen",
    proof="no idle within the patience although the model finished all it was asked; in a foreign recording, "
    "although the agent said its last word long ago, left no tool call unfinished, and went on answering",
    never="work that waits for an answer of the client; a model or tool that takes its time, which is a warning at "
    "most; a connection that ended",
)
def idle_when_work_ends(work: Work) -> Verdict:
    yield EXERCISED
    if work.ended is not None or work.states[-1].value != "running":
        return
    view, connection = work.view, work.view.connection
    last = next(
        (u for u in reversed(work.updates) if not view.is_replayed(u) and u.kind not in ASIDE), work.began.update
    )
    patience = patience_with(work)
    waited = connection.out_of_patience(last.event, patience=patience)
    if waited is None or waited.seq > connection.ended_at or connection.waits_for_client_at(waited.seq):
        return
    before = view.session.submission_before(work.seq)
    since = before.seq if before is not None and before.work is work else work.seq
    stop = next(iter(view.session.stops_between(since, float("inf"))), None)
    if stop is not None and (view.session.conversation.is_driven or stop.seq < waited.seq):
        return  # cancel.ends-idle-cancelled
    if _is_a_command(work) or view.is_taken_over(waited.seq):
        return
    done = _done_at(work, last, waited)
    if done is None:
        if (waited.control or {}).get("for") == "idle" and not _model_requests_of(work, waited):
            yield warning(
                "work did not end within the patience: it takes very long, or it never will",
                *in_order((work.began.event, "the work begins"), (waited, "no idle came, while the agent lived")),
            )
        return
    yield violation(
        "work came to its end and was never reported as idle",
        *in_order(
            (work.began.event, "the work begins"),
            (done, "its last word"),
            (waited, "no idle came, while the agent lived"),
        ),
    )


def patience_with(work: Work) -> float:
    """Seconds of silence that are no pause of this work: more than the patience, and than twice its longest pause.
    Where a prompt broke a silence, it was the user's."""
    session = work.view.session
    pauses = (
        later.event.t - earlier.event.t
        for earlier, later in pairwise(work.updates)
        if not session.inserted_between(earlier.seq, later.seq + 1)
    )
    return max(2 * max(pauses, default=0.0), session.conversation.patience)


def _is_a_command(work: Work) -> bool:
    """Whether a command is what began it: command.same-lifecycle is about that."""
    before = work.view.session.submission_before(work.seq)
    return before is not None and before.work is work and has_command_rules(before, work.view)


def is_done(work: Work, waited: Event) -> bool:
    """Whether the work has nothing more to do, by its own last word or by the model's last answer."""
    last = next(
        (u for u in reversed(work.updates) if not work.view.is_replayed(u) and u.kind not in (*ASIDE, "state_update")),
        None,
    )
    return last is not None and _done_at(work, last, waited) is not None


def _model_requests_of(work: Work, waited: Event) -> list[ModelRequest]:
    """What the scripted model was asked meanwhile, not for another session: what becomes of the work is its to say. For
    the work's own prompts also just before it, unless a resume told of it: the model and the agent are heard by two
    ways."""
    session, before = work.view.session, work.previous.ended_at if work.previous is not None else -1.0
    before = work.seq if work.began.update.replay is not None else before
    own = {submission.nonce for submission in session.inserted_between(before, waited.seq)} - {None}
    asked = between(session.conversation.model_requests, before, waited.seq)
    asked_in = session.conversation.sessions_with
    return [
        r
        for r in asked
        if not r.is_side
        and (r.seq > work.seq or r.nonce in own)
        and session.id in asked_in.get(r.nonce or "", {session.id})
    ]


def _done_at(work: Work, last: Update, waited: Event) -> Event | None:
    """What shows that the work has nothing more to do: the model's last answer, or the agent's last word with no
    tool call left open."""
    view = work.view
    if models := _model_requests_of(work, waited):
        final = models[-1].answered
        if any(r.answered is None for r in models) or final is None or failed_at_last(models):
            return None  # the model still holds it; or prompt.failure-ends-idle-error
        goes_on = (final.control or {}).get("how") == "call-tool" or view.connection.out_of_patience(final) is None
        return None if goes_on else final
    if last.kind not in ("agent_message", "agent_message_chunk"):
        return None
    named = dict.fromkeys(str(u.body.get("toolCallId")) for u in work.updates if u.kind.startswith("tool_call"))
    calls = [call for identifier in named if (call := view.tool_calls.get(identifier)) is not None]
    return None if any(call.status in ("pending", "in_progress", "paused") for call in calls) else last.event


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
            "the work ended without a stop reason",
            (work.began.event, "the work begins"),
            (work.ended.event, "it ends, and nothing says why"),
        )
