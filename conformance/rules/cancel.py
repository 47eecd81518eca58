"""session/cancel: how cancelled work ends (schema CancelSessionNotification, IdleStateUpdate)."""

from itertools import chain, takewhile
from typing import Final

from conformance.conversation import (
    Connection,
    ModelRequest,
    Permission,
    Submission,
    Update,
    View,
    Work,
)
from conformance.conversation.span import between
from conformance.history import Event
from conformance.rules.cancel_pattern import ended_each_time
from conformance.rules.registry import EXERCISED, MUST, Verdict, rule, violation, warning
from conformance.wire import encode

STOPPED: Final = ("abort", "cancel", "interrupt")
"""What stands in words for work that was stopped."""
BURST: Final = 0.05
"""Seconds within which an idle may have been on its way when the cancel was sent."""
ENDING: Final = 0.25
"""Seconds within which an idle may be the natural end of output that came just before it."""
LONG: Final = 1.0
"""Seconds after which no idle of a driven agent can have crossed the cancel."""
STILL: Final = 3.0
"""Seconds that a busy machine may stand still: as long as nothing shows that the agent ran, less proves nothing."""
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


def had_long(connection: Connection, sent: Event, event: Event) -> bool:
    """Whether the agent had LONG to meet what was sent before the event came. Unless it answered something that was
    sent later, a silence counts for half of that at most; one that is longer than STILL counts for what it is."""
    if apart(sent, event) < LONG or connection.barrier_after(sent.seq, event.seq) is not None:
        return apart(sent, event) >= LONG
    lived, last = 0.0, sent
    for line in chain(between(connection.agent_events, sent.seq, event.seq), (event,)):
        silence, last = apart(last, line), line
        lived += silence if silence > STILL else min(silence, LONG / 2)
        if lived >= LONG:
            return True
    return False


def cancelled_here(work: Work) -> Event | None:
    """The first session/cancel while the work was open; None where there is none, and where its sender sees the
    same work itself, so that one cancel is judged once: there, unless all is well there and not here."""
    if work.cancel is None:
        return None
    sender, cancel = work.cancel
    own = sender.views.get(work.view.id)
    same = own.work_at(cancel.seq) if own is not None and own is not work.view else None
    if same is None or (same.stop_reason == "cancelled" != work.stop_reason and _is_alone_beside(work, same)):
        return cancel
    return None


def _is_alone_beside(work: Work, same: Work) -> bool:
    """Whether no work before it, on its connection, can be what another connection knew as that work: the lines of one
    may be late."""
    return work.previous is None or work.previous.ended_at < same.seq


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
    "model was held, a tool call ended as cancelled, a permission was pending, it says so in other words), had time "
    "enough to see the cancel, or ended with each of several cancels, sooner than any that was left alone",
    never="an end that crossed the cancel, or an agent that reads nothing at all while it works: a warning, and "
    "nothing in one burst with it; a held prompt that is "
    "inserted and goes on with no idle between; an agent that waits for another answer of the client; a permission "
    "of earlier or background work, or given elsewhere; a tool call that the user denied, or one beside a failed one",
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
        conversation, sent = work.view.session.conversation, following.request
        is_heard = work.view.connection.last_sign_after(sent.seq) is not None  # a client that is gone sees no idle
        if is_heard and not conversation.is_driven and apart(cancel, sent.event) >= conversation.patience:
            yield violation(
                "cancelled work was never reported as ended",
                *proof,
                (sent.event, "the patience ran out, no idle came, and the client goes on"),
            )
        return
    late = no_idle_by(work, cancel)
    if late is not None and (work.ended is None or (late.seq < work.ended_at and _is_for_idle(late, work.view))):
        yield violation(
            "cancelled work was never reported as ended", *proof, (late, "no idle came within the patience")
        )
    elif work.ended is None:
        return
    elif work.stop_reason != "error":  # cancel.abort-errors-are-cancelled
        reason = repr(work.stop_reason) if work.stop_reason is not None else "no stop reason"
        cut = cut_short(work, cancel)
        middle = (cut,) if cut is not None and cut[0].seq > cancel.seq else ()
        begun = (cut,) if cut is not None and cut[0].seq < cancel.seq else ()
        because = (proof[0], *begun, proof[1], *middle, (work.ended.event, f"the work ends with {reason}"))
        if cut is not None or names_a_stop(reason) or not may_have_crossed(work, cancel):
            yield violation(f"cancelled work ended with {reason}", *because)
        elif each := ended_each_time(work):
            yield violation(f"each cancel ended the work, and the last one too with {reason}", *each)
        elif apart(cancel, work.ended.event) >= BURST:
            yield warning(
                f"work that was being cancelled ended with {reason}: it may have ended by itself just then", *because
            )


def names_a_stop(told: str) -> bool:
    """Whether what an agent tells of the end of work says in its own words that it was stopped."""
    return any(word in told.lower() for word in STOPPED)


def no_idle_by(work: Work, cancel: Event) -> Event | None:
    """What shows that the idle of cancelled work is missing: the suite's wait for it ran out, or a line of the
    agent that came later than the patience allows. None where that is not shown, and where something else explains
    it."""
    view, connection = work.view, work.view.connection
    waits = [
        wait
        for other in view.session.views
        for wait in other.connection.waits_after(cancel.seq)
        if _began(wait, cancel) >= cancel.seq and (other is view or _is_in_vain(wait, other, cancel))
    ]
    late = min(waits, key=lambda wait: wait.seq, default=None)
    if late is None and not view.session.conversation.is_driven:
        late = connection.out_of_patience(cancel)
    if late is None or late.seq > connection.ended_at or view.is_taken_over(late.seq):
        return None
    if any(request.seq > cancel.seq for request in (*view.session.closes, *view.session.deletes)):
        return None  # session.close-cancels-first
    waiting = (r for r in connection.agent_requests if r.seq < late.seq and r.answered_at > late.seq and not r.cancels)
    if any(request.method != "session/request_permission" for request in waiting):
        return None
    return late


def _began(wait: Event, cancel: Event) -> float:
    return float((wait.control or {}).get("began", cancel.seq))


def _is_for_idle(late: Event, view: View) -> bool:
    """Whether the suite's wait for an idle of the session ran out: what it lets go of after that may end the work."""
    about = late.control or {}
    return about.get("for") == "idle" and about.get("session") == view.id


def _is_in_vain(wait: Event, other: View, cancel: Event) -> bool:
    """Whether a wait on another client's connection shows that the work which it saw at the cancel did not end."""
    work = other.work_at(cancel.seq)
    return work is not None and work.ended_at > wait.seq and _is_for_idle(wait, other)


def model_held(work: Work, cancel: Event) -> Event | None:
    """Where the script held the model for this work, from before the cancel until the work's end."""
    before = work.previous.ended_at if work.previous is not None else -1.0
    asked = between(work.view.session.conversation.model_requests, before, cancel.seq)
    return next((request.held for request in asked if _is_held(request, work, cancel)), None)


def cut_short(work: Work, cancel: Event) -> tuple[Event, str] | None:
    """What shows that the cancel, and nothing else, ended the work: it could not have ended by itself just then."""
    view, held = work.view, model_held(work, cancel)
    if held is not None:
        return held, "the model is held: the work cannot end by itself"
    for permission in between(view.permissions, work.seq, cancel.seq):
        pending = permission.request.answered_at > cancel.seq and not permission.is_approved
        withdrawn = permission.withdrawn is not None and permission.withdrawn.seq < cancel.seq
        approved = view.session.approved_since.get(permission.tool_call_id or "", float("inf")) < cancel.seq
        if pending and not withdrawn and not approved and is_of_work(permission, work):
            return permission.request.event, "and waits for a permission that nobody gives"
    for update in view.updates_between(cancel.seq, work.ended_at):
        is_cancelled = update.kind == "tool_call_update" and update.body.get("status") == "cancelled"
        if is_cancelled and _is_stopped(update, work, cancel):
            return update.event, "a tool call of it is cancelled"
    return None


def is_of_work(permission: Permission, work: Work) -> bool:
    """Whether it is asked for this foreground work, and not for a tool call of earlier or background work."""
    background = listed_in_background(work)
    if permission.work is not work or background is None or permission.tool_call_id in background:
        return False
    call = work.view.tool_calls.get(permission.tool_call_id or "")
    first = call.first.update if call is not None and call.steps else None
    return first is None or first.replay is not None or work.holds(first.seq)


def _is_stopped(update: Update, work: Work, cancel: Event) -> bool:
    """Whether a tool call that the work made, and not one of earlier or background work, is cancelled only now, and for
    no other reason that is on record."""
    call = work.view.tool_calls.get(str(update.body.get("toolCallId")))
    if update.replay is not None or call is None or not call.steps:
        return False
    if work.view.session.denied_since.get(call.id, float("inf")) < cancel.seq or _fails_beside(update, work, cancel):
        return False
    is_its_own = work.began_with(call.first.update) and call.id not in (listed_in_background(work) or ())
    return is_its_own and call.status_at(cancel.seq) != "cancelled"


def _fails_beside(update: Update, work: Work, cancel: Event) -> bool:
    """Whether, in one burst with the cancel, another tool call had failed: the ones beside it may be given up."""
    if apart(cancel, update.event) >= BURST:
        return False
    meanwhile = work.view.updates_between(work.seq, update.seq)
    recent = takewhile(lambda other: apart(other.event, cancel) < BURST, reversed(meanwhile))
    return any(other.kind == "tool_call_update" and other.body.get("status") == "failed" for other in recent)


def _is_held(request: ModelRequest, work: Work, cancel: Event) -> bool:
    """Whether the script held this model request of the work from before the cancel until the work's end. The agent
    itself may give it up, but only after the cancel."""
    if request.held is None or request.is_shared or request.is_side or request.held.seq > cancel.seq:
        return False
    if request.answered is not None and request.answered.seq < cancel.seq:
        return False
    if request.released is not None and request.released.seq < work.ended_at:
        return False
    return _asks(work, request)


def _asks(work: Work, request: ModelRequest) -> bool:
    """Whether it may be the work that asks the model: for a prompt that was inserted since the work before it, as the
    last word of the user (else it may be a suggestion of what to say next) or, where none was, for any earlier one
    since it began. The model and the agent are heard by two ways: what is asked now may be of work that is over, or to
    come. Another client's prompt was told of here: what never is, another process of the agent works on."""
    view, before = work.view, work.previous.ended_at if work.previous is not None else -1.0
    prompts = view.session.inserted_between(before, work.ended_at)
    if prompts and not request.is_last_user:
        return False
    if not prompts and request.seq > work.seq:
        prompts = view.session.inserted_between(-1.0, work.ended_at)
    return any(prompt.nonce == request.nonce and prompt.is_known_to(view, work.ended_at) for prompt in prompts)


def may_have_crossed(work: Work, cancel: Event) -> bool:
    """Whether the idle may have been on its way, or just due, when the cancel was sent."""
    if work.ended is None:
        return False
    gap = apart(cancel, work.ended.event)
    if work.view.session.conversation.is_driven:
        is_late = had_long(work.view.connection, cancel, work.ended.event)
        return not (is_late and work.view.hears_at_work)
    last = next((u for u in reversed(work.updates) if u.kind in OUTPUT), None)
    return gap < BURST or (gap < ENDING and last is not None and apart(last.event, work.ended.event) < ENDING)


@rule(
    "cancel.abort-errors-are-cancelled",
    MUST,
    says="Errors raised by aborting are reported as cancelled, never as error.",
    source="schema IdleStateUpdate cancelled",
    exercised="session/cancel while running was the last reported state, and the end of that work",
    proof="the work ends with stopReason 'error' after session/cancel, with no failure injected",
    never="a failure of the scripted model; an error that names no abort and came in one burst with the cancel, or may "
    "have crossed it and is how other work fails as well: a warning",
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
    told = encode(work.error)
    is_natural = told in work.view.own_failures and may_have_crossed(work, cancel)
    is_stopped = apart(cancel, work.ended.event) >= BURST or names_a_stop(told.decode())
    if model_held(work, cancel) is not None or (is_stopped and not is_natural):
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
        request.answered is not None
        and (work.holds(request.answered.seq) or any(request.nonce and request.nonce in text for text in texts))
        for request in session.conversation.failed_model_requests
    )


def listed_in_background(work: Work) -> set[str] | None:
    """Ids of tool calls and terminals in the lists that stood at the end of the work; None where a list has items
    of another kind, which may stand for any tool call."""
    found = set()
    for item in (item for listed in work.view.background_lists(work) for item in listed):
        if not isinstance(item, dict) or item.get("type") not in ("tool_call", "terminal"):
            return None
        found.add(str(item.get("toolCallId", item.get("terminalId"))))
    return found
