"""The cancelled stop reason: what nobody stopped does not end with it (schema IdleStateUpdate,
CancelSessionNotification)."""

from collections.abc import Sequence
from typing import Final

from conformance.conversation import MESSAGE_KINDS, Connection, Session, Work
from conformance.conversation.span import between, first_after
from conformance.history import Event
from conformance.rules.cancel import LONG, apart
from conformance.rules.registry import EXERCISED, MUST, SHOULD, Finding, Kind, Verdict, rule, violation, warning

OVERTAKEN: Final = "work ended as cancelled by a stop that was on its way when its prompt was sent"


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
    "a stop of the session that this one is a subagent of; what began when the recording did; "
    "work that something else of a client may have stopped (a prompt, a stop of its subagent): a warning",
)
def only_when_cancelled(work: Work) -> Verdict:
    if work.stop_reason != "cancelled" or work.ended is None or not _is_all_recorded(work):
        return
    yield EXERCISED
    finding = stopped_by_nobody(work)
    if finding is not None:
        yield finding


def _is_all_recorded(work: Work) -> bool:
    """Whether the history would show who stopped the work: no client of the session has its lines left out, and what
    began it stands there too."""
    view, connection = work.view, work.view.connection
    if not all(other.connection.client_events for other in view.session.views):
        return False
    is_known = connection.shows_its_beginning or view.created is not None or view.attached is not None
    return is_known or work.previous is not None or bool(view.session.submissions_between(-1, work.seq))


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
    conversation = session.conversation
    parents, kids = conversation.worked_for_by(session), conversation.subagents_of.get(session.id, set())
    related = [None, session.id, *(parent.id for parent in parents), *kids]
    if session.stops_between(since, ended.seq) or any(
        _is_stop(view.connection, related, since, ended.seq) for view in session.views
    ):
        return None
    if any(parent.stops_between(before, ended.seq) for parent in parents):
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
    if any(conversation.sessions[kid].stops_between(since, ended.seq) for kid in kids & conversation.sessions.keys()):
        return warning("work ended as cancelled; the stop of its subagent may have stopped it", *proof)
    if interrupts or strange:
        return warning("work ended as cancelled; a prompt that came meanwhile may have stopped it", *proof)
    is_joined = session.creations == 0 and any(view.attached is not None for view in session.views)
    has_others = is_joined or session.first_stranger < ended.seq
    if has_others and not conversation.is_driven:
        return warning("work ended as cancelled; a client that is not recorded may have stopped it", *proof)
    if (resumed := _resumed_while_asked(work)) is not None:
        why = "work ended as cancelled; a resume while a permission was asked for may have taken the question with it"
        return warning(why, *sorted((*proof, (resumed, "the session is resumed")), key=lambda part: part[0].seq))
    if stale is not None and stale.conn != ended.event.conn and apart(stale, first[0]) < LONG:
        return None  # the order of two connections' lines is not the agent's
    was_met = work.previous is not None and work.previous.stop_reason == "cancelled"
    if latest is not stale and since > before and was_met:
        latest = None  # it had ended the work before when the prompt was sent
    if latest is not None and apart(latest, first[0]) < LONG and _was_on_its_way(work, latest, first[0]):
        return warning(OVERTAKEN, *proof)
    return violation("work that nobody stopped ended as cancelled", *proof)


def _resumed_while_asked(work: Work) -> Event | None:
    """A session/resume while a permission of the work was pending."""
    asked = between(work.view.permissions, work.seq, work.ended_at)
    if not asked:
        return None
    replays = (replay for v in work.view.session.views for replay in between(v.replays, work.seq, work.ended_at))
    return next((r.request.event for r in replays if any(p.seq < r.seq < p.request.answered_at for p in asked)), None)


def _was_on_its_way(work: Work, stop: Event, event: Event) -> bool:
    """Whether the agent had answered nothing that was sent after `stop` when `event` was sent: it may have met both at
    once."""
    return work.view.connection.barrier_after(stop.seq, event.seq) is None


def _is_stop(connection: Connection, related: Sequence[str | None], start: float, end: float) -> bool:
    """Whether something of this client between two positions may have stopped work, session/cancel and its like
    apart: an intervention, an answer about one of these sessions or none, or that it left."""
    if start < connection.ended_at < end or between(connection.interventions, start, end):
        return True
    return any(between(connection.refusals_of.get(about, []), start, end) for about in related)


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
    nameless = [response for response in connection.strays if response.message.get("id") is None]
    for view in connection.views.values():
        for sender, cancel in view.session.cancels:
            if sender is not connection or not _is_idle(view.session, cancel):
                continue
            stray = first_after(nameless, cancel.seq)
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
