"""session/cancel: how cancelled work ends, and that nothing else ends so (schema CancelSessionNotification,
IdleStateUpdate)."""

import json
from typing import Final

from conformance.conversation import MESSAGE_KINDS, Connection, ModelRequest, Session, Submission, Update, Work
from conformance.conversation.span import between
from conformance.history import Event
from conformance.rules.cancel_pattern import ended_each_time, hears_at_work
from conformance.rules.registry import EXERCISED, MUST, SHOULD, Finding, Kind, Verdict, rule, violation, warning

BURST: Final = 0.05
"""Seconds within which an idle may have been on its way when the cancel was sent."""
ENDING: Final = 0.25
"""Seconds within which an idle may be the natural end of output that came just before it."""
LONG: Final = 1.0
"""Seconds after which no idle of a driven agent can have crossed the cancel."""
OVERTAKEN: Final = "work ended as cancelled by a stop that was on its way when its prompt was sent"
OUTPUT: Final = (
    "agent_message",
    "agent_message_chunk",
    "agent_thought",
    "agent_thought_chunk",
    "tool_call_update",
    "tool_call_content_chunk",
)


def apart(earlier: Event, later: Event) -> float:
    """Seconds between two events, to the millisecond."""
    return round(later.t - earlier.t, 3)


def cancelled_here(work: Work) -> Event | None:
    """The first session/cancel while the work was open; None where there is none, and where its sender sees the
    same work itself, so that one cancel is judged once."""
    if work.cancel is None:
        return None
    sender, cancel = work.cancel
    own = sender.views.get(work.view.id)
    if own is not None and own is not work.view and own.work_at(cancel.seq) is not None:
        return None
    return cancel


def taken_up(work: Work, cancel: Event) -> Submission | None:
    """The first submission that was inserted after the cancel while the work was open: its own work may go on from
    the cancelled one with no idle between (schema StateUpdate: an idle is owed when no foreground work remains)."""
    return next(iter(work.view.session.inserted_between(cancel.seq, work.ended_at)), None)


@rule(
    "cancel.ends-idle-cancelled",
    MUST,
    says="session/cancel of active foreground work ends in idle with stopReason 'cancelled'.",
    source="schema CancelSessionNotification, docs 'Cancellation'",
    exercised="session/cancel sent while running was the last reported state, and what followed it",
    proof="no idle within the patience; or the idle says something else although the work was surely cut short (the "
    "model was held, a tool call ended as cancelled, a permission was pending), had time enough to see the cancel, "
    "or ended with each of several cancels, sooner than any that was left alone",
    never="an end that crossed the cancel, or an agent that reads nothing at all while it works: a warning, and "
    "nothing in one burst with it; a held prompt that is "
    "inserted and goes on with no idle between; an agent that waits for another answer of the client",
)
def ends_idle_cancelled(work: Work) -> Verdict:
    cancel = cancelled_here(work)
    if cancel is None:
        return
    if work.stop_reason == "cancelled":
        yield EXERCISED
        return
    proof = ((work.began.event, "work is open"), (cancel, "the client cancels it"))
    following = taken_up(work, cancel)
    if following is not None:
        conversation = work.view.session.conversation
        if not conversation.is_driven and apart(cancel, following.request.event) >= conversation.patience:
            yield violation(
                "cancelled work was never reported as ended",
                *proof,
                (following.request.event, "the patience ran out, no idle came, and the client goes on"),
            )
        return
    if work.ended is None:
        late = no_idle_by(work, cancel)
        if late is not None:
            yield violation(
                "cancelled work was never reported as ended", *proof, (late, "no idle came within the patience")
            )
    elif work.stop_reason != "error":  # cancel.abort-errors-are-cancelled
        reason = repr(work.stop_reason) if work.stop_reason is not None else "no stop reason"
        cut = cut_short(work, cancel)
        middle = (cut,) if cut is not None and cut[0].seq > cancel.seq else ()
        begun = (cut,) if cut is not None and cut[0].seq < cancel.seq else ()
        because = (proof[0], *begun, proof[1], *middle, (work.ended.event, f"the work ends with {reason}"))
        if cut is not None or not may_have_crossed(work, cancel):
            yield violation(f"cancelled work ended with {reason}", *because)
        elif each := ended_each_time(work):
            yield violation(f"each cancel ended the work, and the last one too with {reason}", *each)
        elif apart(cancel, work.ended.event) >= BURST:
            yield warning(
                f"work that was being cancelled ended with {reason}: it may have ended by itself just then", *because
            )


def no_idle_by(work: Work, cancel: Event) -> Event | None:
    """What shows that the idle of cancelled work is missing: the suite's wait for it ran out, or a line of the
    agent that came later than the patience allows. None where that is not shown, and where something else explains
    it."""
    view, connection = work.view, work.view.connection
    late = None
    for control in connection.controls_after(cancel.seq):
        if control.name == "waited" and (control.control or {}).get("began", cancel.seq) >= cancel.seq:
            late = control
            break
    if late is None and not view.session.conversation.is_driven:
        late = connection.out_of_patience(cancel)
    if late is None or any(request.seq > cancel.seq for request in (*view.session.closes, *view.session.deletes)):
        return None  # session.close-cancels-first
    waiting = (r for r in connection.agent_requests if r.seq < late.seq and r.answered_at > late.seq and not r.cancels)
    if any(request.method != "session/request_permission" for request in waiting):
        return None
    return late


def cut_short(work: Work, cancel: Event) -> tuple[Event, str] | None:
    """What shows that the cancel, and nothing else, ended the work: it could not have ended by itself just then."""
    conversation, view = work.view.session.conversation, work.view
    held = next((r.held for r in conversation.model_requests if _is_held(r, work, cancel)), None)
    if held is not None:
        return held, "the model is held: the work cannot end by itself"
    for permission in view.permissions:
        pending = permission.seq < cancel.seq < permission.request.answered_at
        withdrawn = permission.withdrawn is not None and permission.withdrawn.seq < cancel.seq
        if permission.work is work and pending and not withdrawn and not permission.is_approved:
            return permission.request.event, "and waits for a permission that nobody gives"
    for update in view.updates_between(cancel.seq, work.ended_at):
        is_cancelled = update.kind == "tool_call_update" and update.body.get("status") == "cancelled"
        if is_cancelled and _is_stopped(update, work, cancel):
            return update.event, "a tool call of it is cancelled"
    return None


def _is_stopped(update: Update, work: Work, cancel: Event) -> bool:
    """Whether a tool call that the work made, and not one of earlier or background work, is cancelled only now."""
    call = work.view.tool_calls.get(str(update.body.get("toolCallId")))
    if update.replay is not None or call is None or not call.steps:
        return False
    is_its_own = work.began_with(call.first.update) and call.id not in (listed_in_background(work) or ())
    return is_its_own and call.status_at(cancel.seq) != "cancelled"


def _is_held(request: ModelRequest, work: Work, cancel: Event) -> bool:
    """Whether the script held this model request of the work from before the cancel until the work's end."""
    if request.held is None or request.is_shared or not work.seq < request.seq or request.held.seq > cancel.seq:
        return False
    if request.released is not None and request.released.seq < work.ended_at:
        return False
    return any(submission.nonce == request.nonce for submission in work.view.session.submissions)


def may_have_crossed(work: Work, cancel: Event) -> bool:
    """Whether the idle may have been on its way, or just due, when the cancel was sent."""
    if work.ended is None:
        return False
    gap = apart(cancel, work.ended.event)
    if work.view.session.conversation.is_driven:
        return gap < LONG or not hears_at_work(work)
    last = next((u for u in reversed(work.updates) if u.kind in OUTPUT), None)
    return gap < BURST or (gap < ENDING and last is not None and apart(last.event, work.ended.event) < ENDING)


@rule(
    "cancel.abort-errors-are-cancelled",
    MUST,
    says="Errors raised by aborting are reported as cancelled, never as error.",
    source="schema IdleStateUpdate cancelled",
    exercised="session/cancel while running was the last reported state, and the end of that work",
    proof="the work ends with stopReason 'error' after session/cancel, with no failure injected",
    never="a failure of the scripted model; an error that names no abort and came in one burst with the cancel: a "
    "warning",
)
def abort_errors_are_cancelled(work: Work) -> Verdict:
    cancel = cancelled_here(work)
    if cancel is None or work.ended is None or taken_up(work, cancel) is not None:
        return
    if _may_have_failed(work):
        return
    if work.stop_reason == "cancelled" or (work.stop_reason != "error" and not may_have_crossed(work, cancel)):
        yield EXERCISED
    if work.stop_reason != "error":
        return
    proof = (
        (work.began.event, "work is open"),
        (cancel, "the client cancels it"),
        (work.ended.event, "it ends with stopReason 'error'"),
    )
    told = json.dumps(work.ended.update.body.get("error")).lower()
    names_abort = any(word in told for word in ("abort", "cancel", "interrupt"))
    if names_abort or apart(cancel, work.ended.event) >= BURST:
        yield violation("cancelled work was reported as failed", *proof)
    else:
        yield warning(
            "work that was being cancelled was reported as failed: it may have failed by itself just then", *proof
        )


def _may_have_failed(work: Work) -> bool:
    """Whether the scripted model failed: while the work was open, or for a prompt of it, whose failure may be on record
    before the work is, since the model and the agent are heard by two ways."""
    session, before = work.view.session, work.previous.ended_at if work.previous is not None else -1.0
    texts = [submission.text for submission in session.inserted_between(before, work.ended_at)]
    return any(
        request.was_failed
        and request.answered is not None
        and (work.holds(request.answered.seq) or any(request.nonce and request.nonce in text for text in texts))
        for request in session.conversation.model_requests
    )


@rule(
    "cancel.updates-before-idle",
    MUST,
    says="Updates of the cancelled work come before its cancelled idle.",
    source="schema CancelSessionNotification",
    exercised="a cancelled idle, and a line of the agent after it",
    proof="a message, thought or tool update of the cancelled work after that idle and before other work",
    never="tool calls in the latest background list, or whose terminal is; calls that ran before the work; replays; "
    "metadata with no content",
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
        if update.replay is not None or update.kind not in OUTPUT:
            continue
        message = view.message_of(update)
        if message is not None:
            if not (update.is_chunk or update.sets_content) or not work.began_with(message.first):
                continue
            what, first = f"a message of it ({message.id!r}) goes on", message.first.event
        else:
            call = view.tool_calls.get(str(update.body.get("toolCallId")))
            if call is None or background is None or not call.steps or not work.began_with(call.first.update):
                continue
            if call.id in background or background.intersection(call.terminal_ids):
                continue
            what, first = f"its tool call {call.id!r} goes on", call.first.update.event
        yield violation(
            "an update of the cancelled work came after the idle that reported its end",
            (first, "it begins in the work"),
            (work.ended.event, "the work is reported as ended and cancelled"),
            (update.event, what),
        )
        return


def listed_in_background(work: Work) -> set[str] | None:
    """Ids of tool calls and terminals in the lists that stood at the end of the work; None where a list has items
    of another kind, which may stand for any tool call."""
    lists = [state.background for state in work.states if state.background is not None][-2:]
    found = set()
    for item in (item for listed in lists for item in listed):
        if not isinstance(item, dict) or item.get("type") not in ("tool_call", "terminal"):
            return None
        found.add(str(item.get("toolCallId", item.get("terminalId"))))
    return found


@rule(
    "cancel.only-when-cancelled",
    MUST,
    says="The cancelled stop reason means that the user or client stopped that work; work of another session, or work "
    "nobody stopped, never ends with it.",
    source="schema IdleStateUpdate 'cancelled'",
    exercised="an idle with stopReason 'cancelled' that ends work",
    proof="no session/cancel, session/close or session/delete of that session on any connection since the prompt that "
    "began the work, no $/cancel_request, no permission that was not approved, no answered question, and no client "
    "that left",
    never="a repeated idle snapshot that carries the last stop reason; a cancel between a prompt and its running, "
    "other work in between or not; "
    "work that something else of a client may have stopped (a prompt, a method of the agent's own): a warning",
)
def only_when_cancelled(work: Work) -> Verdict:
    if work.stop_reason != "cancelled" or work.ended is None:
        return
    yield EXERCISED
    finding = stopped_by_nobody(work)
    if finding is not None:
        yield finding


def stopped_by_nobody(work: Work) -> Finding | None:
    """What there is to say of work that ended as cancelled though no client stopped it; None where one did, or may
    have."""
    session, ended = work.view.session, work.ended
    if ended is None or (work.began.update.replay is not None and work.previous is None):
        return None  # work that a resume found open: who knows what happened to it before
    before = work.previous.ended_at if work.previous is not None else -1.0
    submissions = session.inserted_between(before, ended.seq)
    owed = session.unfinished(work.seq)
    since = min((s.seq for s in (*submissions, *([owed] if owed is not None else []))), default=before)
    if session.stops_between(since, ended.seq) or any(
        _is_stop(view.connection, since, ended.seq) for view in session.views
    ):
        return None
    prompts = submissions or ([owed] if owed is not None else [])
    first = (prompts[0].request.event, "this prompt begins work") if prompts else (work.began.event, "work begins")
    latest = next(iter(reversed(session.stops_between(-1, since))), None)
    stale = latest if latest is not None and latest.seq > before else None
    told = ((stale, "the session is stopped while no work is open"),) if stale is not None else ()
    proof = (*told, first, (ended.event, "the work ends as cancelled, and nobody stopped it"))
    own = {submission.message_id for submission in submissions}
    strange = [u for u in work.updates if MESSAGE_KINDS.get(u.kind) == "user" and u.message_id not in own]
    interrupts = [s for s in session.submissions_after(work.seq)[:1] if s.seq < ended.seq]
    recent = next(iter(reversed(session.stops_between(-1, work.seq))), None)
    crossed = recent is not None and apart(recent, work.began.event) < LONG
    if recent is not None and crossed and not submissions and _was_on_its_way(work, recent, work.began.event):
        return warning(
            "work that no prompt began ended as cancelled by a stop that was on its way when it began",
            (recent, "the client stops the session"),
            *proof[len(told) :],
        )
    if interrupts or strange:
        return warning("work ended as cancelled; a prompt that came meanwhile may have stopped it", *proof)
    if (resumed := _resumed_while_asked(work)) is not None:
        why = "work ended as cancelled; a resume while a permission was asked for may have taken the question with it"
        return warning(why, *sorted((*proof, (resumed, "the session is resumed")), key=lambda part: part[0].seq))
    if stale is not None and stale.conn != ended.event.conn and apart(stale, first[0]) < LONG:
        return None  # the order of two connections' lines is not the agent's
    if latest is not stale and since > before:
        latest = None  # it had ended the work before when the prompt was sent
    if latest is not None and apart(latest, first[0]) < LONG and _was_on_its_way(work, latest, first[0]):
        return warning(OVERTAKEN, *proof)
    return violation("work that nobody stopped ended as cancelled", *proof)


def _resumed_while_asked(work: Work) -> Event | None:
    """A session/resume while a permission of the work was pending."""
    replays = (replay for view in work.view.session.views for replay in view.replays if work.holds(replay.seq))
    return next(
        (
            replay.request.event
            for replay in replays
            for asked in work.view.permissions
            if asked.work is work and asked.seq < replay.seq < asked.request.answered_at
        ),
        None,
    )


def _was_on_its_way(work: Work, stop: Event, event: Event) -> bool:
    """Whether the agent had answered nothing that was sent after `stop` when `event` was sent: it may have met both at
    once."""
    return work.view.connection.barrier_after(stop.seq, event.seq) is None


def _is_stop(connection: Connection, start: float, end: float) -> bool:
    """Whether something of this client between two positions may have stopped work, session/cancel and its like
    apart: an intervention, or that it left."""
    return start < connection.ended_at < end or bool(between(connection.interventions, start, end))


@rule(
    "cancel.idle-session-is-quiet",
    SHOULD,
    says="session/cancel with no foreground work needs no completion update and breaks nothing.",
    source="schema CancelSessionNotification",
    exercised="session/cancel while idle, then a prompt whose work ended",
    proof="a response to the notification; or the next prompt's work ends as cancelled and nobody stopped it, also "
    "where the agent took up the prompt before the cancel that was sent first",
    never="an idle snapshot in answer to the cancel; work that may have begun before the prompt was inserted",
)
def idle_session_is_quiet(connection: Connection) -> Verdict:
    for view in connection.views.values():
        for sender, cancel in view.session.cancels:
            if sender is not connection or not _is_idle(view.session, cancel):
                continue
            stray = next((e for e in connection.strays if e.seq > cancel.seq and e.message.get("id") is None), None)
            if stray is not None and connection.last_client_line_before(stray.seq) is cancel:
                yield violation(
                    "a notification was answered",
                    (cancel, "a notification, which has no response"),
                    (stray, "this one has"),
                )
            following = next(iter(view.session.submissions_after(cancel.seq)), None)
            work = following.work if following is not None and following.view is view else None
            if following is None or work is None or work.ended is None:
                continue
            if next(iter(view.session.cancels_between(cancel.seq, following.seq)), None) is not None:
                continue
            yield EXERCISED
            found = stopped_by_nobody(work) if work.stop_reason == "cancelled" else None
            is_overtaken = found is not None and found.message == OVERTAKEN and following.inserted_at < work.seq
            if found is not None and (is_overtaken or found.kind is Kind.VIOLATION):
                yield violation(
                    "a cancel of an idle session ended the next work",
                    (cancel, "no work is open: there is nothing to cancel"),
                    (following.request.event, "the next prompt"),
                    (work.ended.event, "its work ends as cancelled, and nobody stopped it"),
                )


def _is_idle(session: Session, cancel: Event) -> bool:
    """Whether surely no foreground work was open, pending or about to begin when the cancel was sent."""
    if any(view.work_at(cancel.seq) is not None for view in session.views):
        return False
    last = session.submission_before(cancel.seq)
    if last is None or (last.request.failed and last.answered_at < cancel.seq):
        return True
    return last.inserted_at < cancel.seq and last.work is not None and last.work.ended_at < cancel.seq
