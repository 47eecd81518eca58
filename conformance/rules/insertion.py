"""Whether, and until when, the message of an accepted prompt was owed: what several rules about prompts build on."""

from conformance.conversation import Submission, Update, View, Work
from conformance.history import Event
from conformance.rules.registry import Verdict, violation, warning

Part = tuple[Event, str]
FOREIGN_HOLD = 1.0  # seconds of other updates, in a recording that the suite did not drive


def in_order(*parts: Part | None) -> list[Part]:
    """The parts of a proof in the order of their events; None is left out."""
    return sorted((part for part in parts if part is not None), key=lambda part: part[0].seq)


def told_since(submission: Submission, barrier: Event) -> bool:
    """Whether any line before the barrier, also one that counts as a replay, told of the message."""
    return any(
        submission.seq < update.seq < barrier.seq for message in submission.own_messages for update in message.updates
    )


def submitter_told_since(submission: Submission, barrier: Event) -> bool:
    """Whether any line before the barrier told the submitter of the message, under whatever id; or told anyone, where
    the submitter heard nothing of the session meanwhile: it did not join it, or another client took it over."""
    view = submission.view
    if view is None or not view.updates_between(submission.seq, barrier.seq):
        return told_since(submission, barrier)
    own = (message for message in (*submission.own_messages, *submission.marked) if message.view is view)
    return any(submission.seq < update.seq < barrier.seq for message in own for update in message.updates)


def reported_at_all(submission: Submission) -> Event | None:
    """The update that shows that the submission is in the conversation, also where it is only replayed. In a
    foreign recording an equal text in a replay proves something only where the session was new."""
    if submission.report is not None:
        return submission.report.event
    session = submission.session
    if not submission.has_own_nonce and all(view.created is None for view in session.views):
        return None
    replayed = session.replayed_with(submission.nonce) if submission.nonce is not None else []
    return next((m.first.event for m in replayed if session.known_since("user", m.id) > submission.seq), None)


def unreported_at(submission: Submission) -> Event | None:
    """Where it is certain that the accepted message would have been reported: the idle that ends its work, or a
    barrier request on a quiet connection with no work open. None where the history does not get there, or the
    session is closed before."""
    view, response = submission.view, submission.response
    if view is None or response is None:
        return None
    shown = _its_idle(submission, view, response) or _quiet_after(submission, view, response)
    end = submission.session.end_after(submission.seq)
    return shown if end is None or (shown is not None and shown.seq < end.seq) else None


def _its_idle(submission: Submission, view: View, response: Event) -> Event | None:
    """The idle of the work that began after the response, or after the prompt where no other prompt can be its
    cause."""
    for work in view.works_after(response.seq):
        return work.ended.event if work.ended is not None else None
    work_then = view.work_at(response.seq)
    if work_then is None or work_then.ended is None or work_then.seq < submission.seq:
        return None
    before = submission.session.submission_before(submission.seq)
    is_alone = before is None or before.answered_at < submission.seq
    is_alone = is_alone and not submission.session.submissions_between(submission.seq, work_then.ended_at)
    has_output = any(u.kind.startswith("agent_") for u in view.updates_between(response.seq, work_then.ended_at))
    return work_then.ended.event if is_alone and has_output else None


def _quiet_after(submission: Submission, view: View, response: Event) -> Event | None:
    """The suite's quiet window, or a foreign barrier on a quiet line, after the response and the work that was open
    then."""
    connection = submission.request.connection
    work = view.work_at(response.seq)
    since = work.ended_at if work is not None else response.seq
    shown: Event | None = None
    if submission.session.conversation.is_driven:
        windows = (
            w
            for w in connection.windows_after(since)
            if (w.control or {}).get("session") in (submission.session.id, None)
        )
        shown = next(windows, None)
    elif (barrier := connection.quiet_barrier_after(since)) is not None:
        shown = barrier.response
    return shown if shown is not None and view.state_at(shown.seq) in ("idle", None) else None


def inserted_after_its_work(submission: Submission, report: Update) -> Verdict:
    """What there is to say of a prompt that is reported and answered only when work that it alone can have caused is
    over, and that has no work after that."""
    view, response, session = submission.view, submission.response, submission.session
    work = view.work_before(report.seq) if view is not None else None
    if view is None or response is None or work is None or not submission.seq < work.seq:
        return
    output = view.first_output(work.seq, work.ended_at)
    quiet = _quiet_after(submission, view, max(report.event, response, key=lambda event: event.seq))
    if work.ended is None or work.ended_at > min(report.seq, response.seq) or output is None or quiet is None:
        return
    is_alone = session.unfinished(submission.seq) is None and not session.submissions_between(submission.seq, quiet.seq)
    if not is_alone or session.stops_between(submission.seq, quiet.seq):
        return
    tell = violation if session.conversation.is_driven else warning
    yield tell(
        "the prompt was inserted and answered only when its work was over",
        *in_order(
            (submission.request.event, "this prompt"),
            (work.began.event, "work begins, and nothing else is asked"),
            (output.event, "the agent answers"),
            (work.ended.event, "the work is over"),
            (report.event, "only now the message is reported"),
            (response, "only now the prompt is answered"),
            (quiet, "and no other work is done for it"),
        ),
    )


def reported_too_late(submission: Submission, report: Update, response: Event, earlier: Work) -> Verdict:
    """What there is to say of a message that was reported after the work that was open at its response."""
    held = _held_until(submission, report, response, earlier)
    if held is not None:
        yield violation(
            "the prompt was answered with success long before its message was inserted",
            (submission.request.event, "sent while earlier work was open"),
            (response, "answered with success"),
            (held, "the work went on, the message was not reported"),
            (report.event, "its message is reported only now, after that work was over"),
        )


def _held_until(submission: Submission, report: Update, response: Event, earlier: Work) -> Event | None:
    """The event that shows that the report was held back until `earlier` was over; None where that is not shown."""
    if earlier.ended is None or report.seq < earlier.ended_at:
        return None
    window = next(submission.request.connection.windows_after(response.seq, "hold"), None)
    if window is not None and window.seq < earlier.ended_at:
        return window
    between = earlier.view.updates_between(response.seq, earlier.ended_at)
    waited = report.event.t - response.t
    if not submission.session.conversation.is_driven:
        return between[0].event if between and waited >= FOREIGN_HOLD else None
    asked = submission.request.connection.barrier_after(response.seq, earlier.ended_at)
    return asked.response if asked is not None and between and waited >= submission.session.conversation.hold else None


def has_a_used_id(submission: Submission) -> bool:
    """Whether its id had been another message's before: prompt.distinct-message-ids and
    prompt.retry-is-a-new-message are about that."""
    known = min((message.first.seq for message in submission.own_messages), default=submission.seq)
    return known < submission.seq or submission.session.accepted_as.get(submission.message_id or "") is not submission
