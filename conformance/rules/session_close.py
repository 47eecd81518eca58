"""Closing a session: what it ends, what it answers, and the silence after it (schema CloseSessionRequest)."""

from bisect import bisect_right

from conformance.conversation import Connection, Conversation, Request, State, Submission, View, Work
from conformance.history import Event
from conformance.protocol.errors import ErrorCode, error_name
from conformance.rules.cancel import BURST, LONG, apart, cut_short
from conformance.rules.cancel_pattern import closed_each_time
from conformance.rules.insertion import in_order
from conformance.rules.registry import EXERCISED, MUST, SHOULD, Verdict, rule, violation, warning
from conformance.rules.session import NAMES_NO_OWN, closed_before, sessions_there
from conformance.wire import shown

OWN_REASONS = (
    ErrorCode.INVALID_PARAMS,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.METHOD_NOT_FOUND,
    ErrorCode.AUTHENTICATION_REQUIRED,
)
"""Codes with which a request may be refused for its own sake, whatever happens to the session."""


def closes_of(view: View) -> list[Request]:
    """The session/close requests of this connection for this session that succeeded, in order."""
    return [close for close in view.session.closes if close.connection is view.connection and close.succeeded]


@rule(
    "session.close-cancels-first",
    MUST,
    says="session/close of a busy session sends the final updates and idle 'cancelled' before its response.",
    source="schema CloseSessionRequest",
    exercised="session/close while running with the model held, or while running at all",
    proof="no idle before the close response though the session was running, also where the work began while the close "
    "was pending; or queued work that was done after the close had cancelled what was open; or an idle of another "
    "reason though the model was held, a permission was pending, a tool call ended as cancelled, or each of three "
    "closes or more ended the work, sooner than work that is left alone",
    never="work that ended by itself while the close was on its way; closing an idle session",
)
def close_cancels_first(connection: Connection) -> Verdict:
    for view in connection.views.values():
        yield from _closed_at_work(view)
    if each := closed_each_time(connection):
        yield violation("each session/close ended the work, and none was told as 'cancelled'", *each)


def _closed_at_work(view: View) -> Verdict:
    for close in closes_of(view):
        if close.response is None:
            continue
        if (begun := _begun_meanwhile(view, close)) is not None:
            yield violation(
                "session/close was answered while work was open that had begun meanwhile",
                (close.event, "the session is closed"),
                (begun.began.event, f"{begun.began.value}: queued work begins"),
                (close.response, "the close is answered, and no idle came before it"),
            )
        work = view.work_at(close.seq)
        if work is None or view.is_taken_over(close.seq):
            continue
        running = (work.began.event, f"{work.began.value}: foreground work begins")
        asked = (close.event, "the session is closed while that work is open")
        if work.ended is None or work.ended_at > close.answered_at:
            late = [(work.ended.event, "its idle comes only now")] if work.ended is not None else []
            yield violation(
                "session/close of a busy session was answered before the work was reported as cancelled",
                running,
                asked,
                (close.response, "the close is answered, and no idle came before it"),
                *late,
            )
        elif work.stop_reason == "cancelled":
            yield EXERCISED
            if (ran := _ran_meanwhile(view, close, work)) is not None and ran.ended is not None:
                yield violation(
                    "a prompt that waited was worked off while its session was being closed",
                    *in_order(running, asked),
                    (work.ended.event, "it ends as cancelled: the agent has read the close"),
                    (ran.began.event, f"{ran.began.value}: queued work begins"),
                    (ran.ended.event, f"and ends with {_reason(ran.ended)}"),
                    (close.response, "the close is answered"),
                )
        elif (cut := cut_short(work, close.event)) is not None:
            told = (work.ended.event, f"so only the close can have ended it; its idle says {_reason(work.ended)}")
            yield violation(
                f"the work that session/close ended was reported with {_reason(work.ended)} instead of 'cancelled'",
                *in_order(running, asked, cut, told, (close.response, "the close is answered")),
            )
        elif work.stop_reason in (None, "error"):
            yield warning(
                f"the work that was open at session/close ended with {_reason(work.ended)} instead of 'cancelled'",
                running,
                asked,
                (work.ended.event, "the close ended it, or it ended by itself at that moment"),
            )


def _begun_meanwhile(view: View, close: Request) -> Work | None:
    """The work that began while the close was pending and was open at its response; None where a prompt or a resume,
    sent after the close, may have brought it."""
    work, resumed = view.work_at(close.answered_at), view.replay_after(close.seq)
    is_opened = resumed is not None and resumed.seq < close.answered_at
    if work is None or work.seq < close.seq or is_opened or view.session.submissions_between(close.seq, work.seq):
        return None
    return work


def _ran_meanwhile(view: View, close: Request, work: Work) -> Work | None:
    """Work that began after the close had cancelled the open one, and ended before its response by itself; None where
    another stop may have cancelled that, also one that was on its way when it began, or a prompt or a resume, sent
    after the close, may have brought it."""
    session, since = view.session, work.previous.seq if work.previous is not None else -1
    stops = [*session.stops_between(since, close.seq), *session.stops_between(close.seq, work.ended_at)]
    if any(stop.seq > work.seq or apart(stop, work.began.event) < LONG for stop in stops):
        return None
    ran = next(iter(view.works_after(work.ended_at)), None)
    if ran is None or ran.ended_at > close.answered_at or ran.stop_reason in ("cancelled", "error", None):
        return None
    resumed = view.replay_after(close.seq)
    is_opened = resumed is not None and resumed.seq < ran.seq
    waited = view.session.inserted_between(
        work.ended_at, ran.ended_at
    )  # without one, it is the agent's own clearing up
    return None if is_opened or not waited or view.session.submissions_between(close.seq, ran.seq) else ran


def _reason(state: State) -> str:
    return f"stopReason {shown(state.stop_reason)}" if state.stop_reason is not None else "no stopReason"


@rule(
    "session.close-answers-prompts",
    MUST,
    says="A prompt pending at close is answered -32800 if its message was not inserted, with success and its id if it "
    "was.",
    source="schema CloseSessionRequest",
    exercised="session/close with a pending prompt",
    proof="an error though the message was reported; another error than -32800, or success, though it never was and "
    "earlier work held it; or no answer within the patience after the close response",
    never="the answer coming after the close response; a prompt that is refused for its own sake, or that is sent "
    "where nobody opened the session; success for a message that no work held, or that is reported before the close "
    "response",
)
def close_answers_prompts(submission: Submission) -> Verdict:
    request = submission.request
    own = (c for c in submission.session.closes if c.connection is request.connection)
    close = next((c for c in own if submission.seq < c.seq < submission.answered_at and not c.failed), None)
    if close is None or submission.view is None:
        return
    sent, closed = (request.event, "this prompt is pending"), (close.event, "when its session is closed")
    report = submission.report
    if submission.response is None:
        waited = (
            request.connection.out_of_patience(close.response, answer_to=request)
            if close.response is not None
            else None
        )
        if waited is not None and close.response is not None:
            yield violation(
                "a prompt that was pending when its session was closed was never answered",
                sent,
                closed,
                (close.response, "the close is answered"),
                (waited, "and up to here the prompt is not"),
            )
        return
    yield EXERCISED
    if not request.failed:
        yield from _success_unreported(submission, close)
        return
    code = error_name(request.error_code) if request.error_code is not None else "an error without a code"
    if report is not None and request.error_code not in OWN_REASONS:
        yield violation(
            f"an inserted prompt was answered with {code} because its session was closed",
            *sorted(
                [
                    sent,
                    closed,
                    (report.event, "its message is reported, so it was inserted"),
                    (submission.response, f"it gets {code}"),
                ],
                key=lambda part: part[0].seq,
            ),
        )
    elif request.error_code not in (ErrorCode.REQUEST_CANCELLED, *OWN_REASONS) and not submission.refusable:
        if any(stop.seq < submission.seq for stop in (*submission.session.closes, *submission.session.deletes)):
            return  # it may have been gone by then
        if not _was_opened(submission.view, submission.seq):
            return  # nobody opened it on this connection
        held = submission.view.work_at(submission.seq) is not None or request.error_code == ErrorCode.RESOURCE_NOT_FOUND
        is_sure = request.error_code == ErrorCode.RESOURCE_NOT_FOUND or not _may_have_been_refused(submission, close)
        finding = violation if held and is_sure else warning
        yield finding(
            f"a prompt that the close kept from being inserted was answered with {code} instead of -32800",
            sent,
            closed,
            (submission.response, f"it gets {code}"),
        )


def _may_have_been_refused(submission: Submission, close: Request) -> bool:
    """Whether the error may have crossed the close: it came in one burst with it and the work went on, or a prompt
    that nothing stopped was refused so as well (the agent takes none while it works)."""
    response, view = submission.response, submission.view
    assert response is not None
    assert view is not None
    others = (s for s in submission.session.submissions if s is not submission and s.request.failed and not s.cancels)
    code = submission.request.error_code
    is_usual = code in view.connection.conversation.refusals or any(o.request.error_code == code for o in others)
    is_heard = any(state.is_idle for state in view.states_between(close.seq, response.seq))
    return is_usual or (apart(close.event, response) < BURST and not is_heard)


def _was_opened(view: View, seq: float) -> bool:
    """Whether the session was made or resumed on its connection before that position."""
    made = view.created is not None and view.created.seq < seq
    return made or any(replay.seq < seq and not replay.request.failed for replay in view.replays)


def _success_unreported(submission: Submission, close: Request) -> Verdict:
    """Success for a prompt that earlier work held, and of whose message nothing had been told when the close was
    answered: after that nothing more may be."""
    view, response = submission.view, submission.response
    work = view.work_at(submission.seq) if view is not None else None
    is_told = submission.report is not None or submission.marked or any(m.updates for m in submission.own_messages)
    if work is None or close.response is None or response is None or is_told or submission.model_requests:
        return
    yield violation(
        "a prompt that the close kept from being inserted was answered with success",
        *in_order(
            (work.began.event, "work is open"),
            (submission.request.event, "this prompt is pending"),
            (close.event, "when its session is closed"),
            (response, "it gets success, and its message was not reported"),
            (close.response, "after the close response nothing more may come: the message was never inserted"),
        ),
    )


@rule(
    "session.silent-after-close",
    MUST,
    says="After the close response nothing more comes for that session on that connection (prompt responses excepted).",
    source="schema CloseSessionRequest",
    exercised="a close response, then a quiet window or another line of the agent",
    proof="an update or request naming the session",
    never="what comes after the client opened the session again, or of a resume that was pending at the close; other "
    "connections of the session; prompt responses",
)
def silent_after_close(view: View) -> Verdict:
    closes = closes_of(view)
    reopened = [
        request.seq
        for request in (view.connection.requests_of.get(view.id, ()) if closes else ())
        if request.method not in (*NAMES_NO_OWN, "session/set_config_option")
    ]
    for close in closes:
        if close.response is None or _opens_meanwhile(view, close):
            continue
        at = bisect_right(reopened, close.seq)
        until = reopened[at] if at < len(reopened) else float("inf")
        if view.connection.last_sign_after(close.answered_at) is not None or _quiet_after(view, close):
            yield EXERCISED
        said = next(iter(_said_between(view, close.answered_at, until, owed=_owed_idle(view, close))), None)
        if said is not None:
            method = said.message.get("method")
            yield violation(
                f"{method} names a session that was closed on this connection",
                (close.event, "the session is closed"),
                (close.response, "the close is answered: nothing more may come for it here"),
                (said, f"{method} of that session"),
            )
            return


def _opens_meanwhile(view: View, close: Request) -> bool:
    """Whether a resume was pending at the close: it may have been taken up after it."""
    return any(replay.seq < close.seq < replay.closes and not replay.request.failed for replay in view.replays)


def _said_between(view: View, start: float, end: float, *, owed: Event | None) -> list[Event]:
    updates = [update.event for update in view.updates_between(start, end) if update.event is not owed]
    requests = view.connection.agent_requests_of.get(view.id, ())
    asked = [request.event for request in requests if start < request.seq < end]
    return sorted([*updates, *asked], key=lambda event: event.seq)


def _owed_idle(view: View, close: Request) -> Event | None:
    """The idle of the work that was open at the close, where it comes after the response: session.close-cancels-first
    is about it."""
    work = view.work_at(close.seq)
    return (
        work.ended.event if work is not None and work.ended is not None and work.ended_at > close.answered_at else None
    )


def _quiet_after(view: View, close: Request) -> bool:
    return any(control.name == "window" for control in view.connection.controls_after(close.answered_at))


@rule(
    "session.close-is-idempotent",
    SHOULD,
    says="Closing a session that is unknown or not active succeeds.",
    source="schema CloseSessionRequest",
    exercised="session/close of a closed session, or of an id that never existed",
    proof="an error other than -32002 (a failure), -32002 (a warning)",
    never="a missing login; a close that the client itself cancelled",
)
def close_is_idempotent(conversation: Conversation) -> Verdict:
    there = sessions_there(conversation) if conversation.is_driven else set()
    closes = [
        close for session in conversation.sessions.values() for close in session.closes if close.response is not None
    ]
    for close in sorted(closes, key=lambda close: close.seq):
        closed = closed_before(close)
        never = conversation.is_driven and close.session_id not in there
        if (closed is None and not never) or close.connection.is_other_version or close.response is None:
            continue
        yield EXERCISED
        if (
            not close.failed
            or close.cancels
            or close.error_code in (ErrorCode.METHOD_NOT_FOUND, ErrorCode.AUTHENTICATION_REQUIRED)
        ):
            continue
        code = error_name(close.error_code) if close.error_code is not None else "an error without a code"
        what = "closed" if closed is not None else "unknown"
        finding = warning if close.error_code == ErrorCode.RESOURCE_NOT_FOUND else violation
        yield finding(
            f"closing a session that is {what} fails with {code}",
            *([(closed, "the session is closed")] if closed is not None else []),
            (
                close.event,
                "and closed again" if closed is not None else f"{shown(close.session_id)} is closed, and never existed",
            ),
            (close.response, f"this gets {code}"),
        )
