"""Cancellation of prompts: $/cancel_request and session/cancel before and after insertion (RFD 'Report failures
after insertion')."""

from conformance.conversation import Connection, Request, Submission, Work
from conformance.conversation.span import between
from conformance.history import Event
from conformance.rules.cancel import BURST, LONG, apart, had_long, model_held
from conformance.rules.insertion import reported_at_all
from conformance.rules.registry import EXERCISED, MUST, SHOULD, Finding, Verdict, rule, violation, warning
from conformance.wire import request_key

CANCELLED = -32800


def in_order(*parts: tuple[Event, str]) -> list[tuple[Event, str]]:
    return sorted(parts, key=lambda part: part[0].seq)


@rule(
    "cancel.prompt-still-succeeds",
    MUST,
    says="A prompt whose message was inserted is answered with success and its id, also when the session or the "
    "request is cancelled.",
    source="rfd 'Report failures after insertion'",
    exercised="session/cancel sent while the prompt's response was pending and its message already reported",
    proof="an error response to that prompt, also where its message is only replayed",
    never="-32800 to a $/cancel_request, and a close: cancel.request-before-insertion and "
    "session.close-answers-prompts judge them",
)
def prompt_still_succeeds(submission: Submission) -> Verdict:
    request, response = submission.request, submission.response
    cancels = [event for event in submission.cancels if event.seq < submission.answered_at and is_cancel(event)]
    told = reported_at_all(submission) if cancels else None
    if response is None or told is None:
        return
    if request.succeeded and told.seq < cancels[-1].seq:
        yield EXERCISED
    elif any(
        r.was_failed and r.answered is not None and r.answered.seq < cancels[0].seq for r in submission.model_requests
    ):
        return  # the failure that came first is what it was answered with: prompt.no-error-after-insertion
    elif request.failed and not (request.error_code == CANCELLED and of_the_request(cancels)):
        yield violation(
            f"a cancelled prompt was answered with the error {request.error_code}, though its message is in the "
            f"conversation",
            *in_order(
                (request.event, "this prompt"),
                (told, "its message is reported: it is inserted"),
                (cancels[0], "the client cancels"),
                (response, "the prompt is answered with an error, which says that it was not inserted"),
            ),
        )


def is_cancel(event: Event) -> bool:
    return event.message.get("method") in ("session/cancel", "$/cancel_request")


def of_the_request(cancels: list[Event]) -> bool:
    return any(event.message.get("method") == "$/cancel_request" for event in cancels)


@rule(
    "cancel.request-before-insertion",
    MUST,
    says="$/cancel_request of a prompt answers -32800 only before insertion; whatever the outcome, the request gets "
    "exactly one response.",
    source="rfd 'Report failures after insertion', docs 'Cancellation'",
    exercised="$/cancel_request for a pending prompt, and its response",
    proof="-32800, and its message reported at any time, live or in replay; two responses; or none although the work "
    "that held the prompt has ended",
    never="a $/cancel_request that is not honoured: a held prompt may stay pending until the work that holds it ends",
)
def request_before_insertion(submission: Submission) -> Verdict:
    request, response = submission.request, submission.response
    cancels = [event for event in request.cancels if event.seq < submission.answered_at]
    if not cancels:
        return
    cancel = (cancels[0], "the client cancels the request")
    if response is None:
        yield from _held_for_ever(submission, cancels[0])
        return
    yield EXERCISED
    told = reported_at_all(submission) if request.failed and request.error_code == CANCELLED else None
    if told is not None:
        yield violation(
            "a prompt was answered with -32800, though its message is in the conversation",
            *in_order(
                (request.event, "this prompt"),
                cancel,
                (response, "it is answered as cancelled, which says that it was not inserted"),
                (told, "its message is reported: it was inserted"),
            ),
        )
    if request.later_responses and not _answers_all_twice(request.connection):
        yield violation(
            "a cancelled prompt was answered twice",
            (request.event, "this prompt"),
            *in_order(cancel, (response, "a response"), (request.later_responses[0], "another response")),
        )


def _answers_all_twice(connection: Connection) -> bool:
    """Whether a request that nobody cancelled is answered twice as well: wire.one-response is about that."""
    return any(request.later_responses and not request.cancels for request in connection.requests)


def _held_for_ever(submission: Submission, cancel: Event) -> Verdict:
    request, view = submission.request, submission.view
    work = view.work_at(cancel.seq) if view is not None else None
    if view is None or work is None or work.ended is None:
        return
    late = request.connection.out_of_patience(work.ended.event, answer_to=request)
    if late is None or view.state_at(late.seq) != "idle" or submission.session.stops_between(request.seq, late.seq):
        return
    if view.works_after(work.ended.seq)[:1] and view.works_after(work.ended.seq)[0].seq < late.seq:
        return
    yield violation(
        "a cancelled prompt was never answered",
        *in_order((request.event, "this prompt"), (work.began.event, "this work is open")),
        (cancel, "the client cancels the request"),
        (work.ended.event, "the work that held it has ended"),
        (late, "and no response came within the patience"),
    )


@rule(
    "cancel.unknown-request-ignored",
    MUST,
    says="$/cancel_request for an unknown or already answered request is ignored; no second response.",
    source="schema CancelRequestNotification",
    exercised="$/cancel_request for an answered id or one never used, and a request answered after it",
    proof="a response that names that id; another request with that id, sent later or by another "
    "client, that is refused as cancelled; the work of a prompt that was answered, ended as cancelled by nothing else "
    "while the model was held; or the connection unusable after",
    never="a recording that began after initialize, for requests that it does not hold",
)
def unknown_request_ignored(connection: Connection) -> Verdict:
    for event in connection.notifications:
        params = event.message.get("params")
        if event.message.get("method") != "$/cancel_request" or not isinstance(params, dict):
            continue
        if params.get("requestId") is None:
            continue  # it names no request; an error with the id null is about a line that could not be read
        key = request_key(params["requestId"])
        named = [r for r in connection.by_id.get(("client", *key), []) if r.seq < event.seq]
        if any(request.answered_at > event.seq for request in named):
            continue  # pending
        if connection.barrier_after(event.seq) is not None:
            yield EXERCISED
        answered = (later for request in named for later in request.later_responses if later.seq > event.seq)
        is_unknown = not named and connection.shows_its_beginning  # else the request may be what is not recorded
        strays = connection.strays_with(params["requestId"], event.seq)[:1] if is_unknown else []
        known = [(named[-1].event, "this request"), (named[-1].response, "is answered")] if named else []
        cancel = (
            event,
            "$/cancel_request for it comes too late" if named else "$/cancel_request for a request that never was",
        )
        for response in [*answered, *strays][:1]:
            yield violation(
                "a $/cancel_request that cancels nothing was answered",
                *((e, part) for e, part in known if e is not None),
                cancel,
                (response, "a response with that id: it should have been ignored"),
            )
        later = connection.by_id.get(("client", *key), []) if not named else []
        for request in [*later[:1], *connection.conversation.pending_elsewhere(params["requestId"], event)]:
            yield from _met_by_another(event, request)
        for request in named[-1:]:
            yield from _stops_work(event, request)
        yield from _unusable_after(connection, event)


def _stops_work(cancel: Event, request: Request) -> Verdict:
    """Whether the cancel of a prompt that was answered ended its work, which the model held and nobody stopped."""
    session = request.connection.conversation.sessions.get(request.session_id or "")
    identifier = request.result.get("messageId") if isinstance(request.result, dict) else None
    if session is None or not isinstance(identifier, str):
        return
    submission = session.accepted_as.get(identifier)
    work = submission.work if submission is not None and submission.request is request else None
    if work is None or work.ended is None or not work.seq < cancel.seq < work.ended_at:
        return
    if work.stop_reason != "cancelled" or (held := model_held(work, cancel)) is None:
        return
    others = (e for view in session.views for e in between(view.connection.interventions, request.seq, work.ended_at))
    is_left = any(request.seq < view.connection.ended_at < work.ended_at for view in session.views)
    if session.stops_between(request.seq, work.ended_at) or any(e is not cancel for e in others) or is_left:
        return
    yield violation(
        "a $/cancel_request for a prompt that had been answered stopped its work",
        *in_order(
            (request.event, "this prompt"),
            (held, "the model is held: its work cannot end by itself"),
            (cancel, "$/cancel_request for it comes too late: it is answered"),
            (work.ended.event, "the work ends as cancelled, and nobody stopped the session"),
        ),
    )


def _met_by_another(cancel: Event, request: Request) -> Verdict:
    """Whether the cancel of an id with no pending request is met by another request that has it, a later one or one of
    another client, which nothing else cancels. An agent may have reasons of its own to do that: in a recording it is
    only a suspicion."""
    conversation = request.connection.conversation
    session = conversation.sessions.get(request.session_id or "")
    since = min(cancel.seq, request.seq)
    is_stopped = session is not None and bool(session.stops_between(since, request.answered_at))
    if request.error_code == CANCELLED and request.response is not None and not request.cancels and not is_stopped:
        tell = violation if conversation.is_driven else warning
        yield tell(
            "a $/cancel_request that cancels nothing was met by another request with that id",
            *in_order(
                (cancel, "$/cancel_request for an id that no request of this client has"),
                (request.event, "another request with that id, which nobody cancels"),
                (request.response, "is answered as cancelled"),
            ),
        )


def _unusable_after(connection: Connection, cancel: Event) -> Verdict:
    """Whether the agent ended, or answered nothing any more, with the cancel as the last thing that it was told
    before."""
    if connection.last_sign_after(cancel.seq) is not None:
        return
    following = next(iter(connection.requests_after(cancel.seq)), None)
    ended = connection.ended
    died = ended is not None and (ended.name == "disconnected" or (ended.control or {}).get("by_itself") is True)
    if (
        died
        and ended is not None
        and connection.last_client_line_before(ended.seq) in (cancel, following and following.event)
    ):
        message = "the agent ended at a $/cancel_request that it should ignore"
        yield violation(message, (cancel, "it cancels nothing"), (ended, "the agent ends"))
    elif (
        following is not None and (late := connection.out_of_patience(following.event, answer_to=following)) is not None
    ):
        yield violation(
            "the agent answered nothing any more after a $/cancel_request that it should ignore",
            (cancel, "it cancels nothing"),
            (following.event, "the next request"),
            (late, "was not answered within the patience, and nothing else came"),
        )


@rule(
    "cancel.held-prompts-cancelled",
    SHOULD,
    says="session/cancel also cancels prompts not yet inserted; they are answered -32800.",
    source="schema CancelSessionNotification",
    exercised="session/cancel while a prompt was held by open work: pending, and not reported",
    proof="it is inserted after the idle that ended the cancelled work, or stays unanswered though that work ended",
    never="an insertion that crossed the cancel; another error code, or an agent that reads nothing while it works: a "
    "warning",
)
def held_prompts_cancelled(submission: Submission) -> Verdict:
    request, view = submission.request, submission.view
    if view is None:
        return
    _, cancel = submission.session.cancel_between(request.seq, float("inf"), view) or (None, None)
    if cancel is None or cancel.seq > min(submission.inserted_at, submission.answered_at):
        return
    work = view.work_at(cancel.seq)
    if work is None or work.seq > request.seq:
        return
    held = (
        (work.began.event, "work is open"),
        (request.event, "this prompt is held"),
        (cancel, "the session is cancelled"),
    )
    if request.failed:
        if request.error_code == CANCELLED:
            yield EXERCISED
        elif request.response is not None:
            yield warning(
                f"a held prompt was cancelled with the error {request.error_code}",
                *held,
                (request.response, "its answer: -32800 would say what happened"),
            )
    elif work.ended is not None:
        ended = (work.ended.event, "the cancelled work has ended")
        yield from _outlived(submission, cancel, [*held, ended])


def _outlived(submission: Submission, cancel: Event, proof: list[tuple[Event, str]]) -> Verdict:
    """Whether a held prompt outlived the cancelled work: `proof` ends with that work's idle."""
    idle, request, view = proof[-1][0], submission.request, submission.view
    shown = [e for e in (submission.report.event if submission.report else None, request.response) if e is not None]
    first = min(shown, key=lambda event: event.seq, default=None)
    finding: Finding | None = None
    if first is not None:
        if first.seq > idle.seq and apart(cancel, first) >= BURST:
            work = view.work_at(cancel.seq) if view is not None else None
            is_driven = submission.session.conversation.is_driven
            crossed = (
                is_driven and work is not None and not (work.view.hears_at_work and _was_heard(work, cancel, first))
            )
            tell = warning if crossed else violation
            finding = tell(
                "a held prompt was inserted after the cancel", *proof, (first, "and the held prompt is inserted now")
            )
    elif submission.nonce is not None and view is not None:
        late = request.connection.out_of_patience(idle, answer_to=request)
        if late is not None and view.state_at(late.seq) == "idle":
            message = "a held prompt was neither inserted nor refused after the cancel"
            finding = violation(message, *proof, (late, "it is still pending"))
    if finding is not None:
        yield finding


def _was_heard(work: Work, cancel: Event, event: Event) -> bool:
    """Whether the agent had surely met the cancel by then: it ended the work for it, and not for one before, answered
    what was sent later, or had long enough."""
    earlier = next(iter(reversed(work.view.session.stops_between(-1, work.seq))), None)
    is_first = earlier is None or apart(earlier, work.began.event) >= LONG
    connection = work.view.connection
    is_answered = connection.barrier_after(cancel.seq, event.seq) is not None
    return (work.stop_reason == "cancelled" and is_first) or is_answered or had_long(connection, cancel, event)
