"""Prompts: what answers session/prompt, when, and under which id (RFD "v2 Prompt Lifecycle", October 2026)."""

from conformance.conversation import Session, Submission, Update, Work
from conformance.history import Event
from conformance.rules.refusal import why_refusable
from conformance.rules.registry import EXERCISED, MUST, SHOULD, Verdict, rule, violation, warning

BURST = 0.05  # seconds within which two lines may have been swapped by one write queue
HELD_BACK = 0.25  # seconds between report and response that no write queue explains
QUIET = 0.5  # seconds of silence in a recording that the suite did not drive


@rule(
    "prompt.message-id-in-response",
    MUST,
    says="A successful session/prompt result carries messageId as a string. Absent, null or another type is invalid.",
    source="rfd 'Change the session/prompt response', schema PromptResponse",
    exercised="a success response to session/prompt",
    proof="result.messageId is absent, null or not a string",
)
def message_id_in_response(submission: Submission) -> Verdict:
    request = submission.request
    if not request.succeeded or request.response is None or submission.is_local_command:
        return
    yield EXERCISED
    if submission.message_id is None:
        result = request.result
        value = result.get("messageId", "absent") if isinstance(result, dict) else "absent: the result is no object"
        yield violation(
            f"the result's messageId is {'null' if value is None else value}",
            (request.event, "this prompt"),
            (request.response, "is answered with success and without the id of the inserted message"),
        )


@rule(
    "prompt.no-success-before-insertion",
    MUST,
    says="Success is sent only once the user message is in the conversation; receipt, queueing or a reserved id is not insertion.",
    source="rfd 'Change the session/prompt response', schema PromptRequest method",
    exercised="a success response to session/prompt",
    proof="success for a prompt that a later cancel drops unreported; or that came while earlier work was open and whose message is "
    "reported only after that work ended or was released, the whole hold window having passed with other updates in between; or that "
    "came while earlier work was open and is never reported by a barrier request",
    never="a success, a running state and a fast cancel, and the report a few milliseconds later",
)
def no_success_before_insertion(submission: Submission) -> Verdict:
    view, response = submission.view, submission.response
    if submission.message_id is None or response is None:
        return
    yield EXERCISED
    if view is None or submission.marked_elsewhere:
        return
    earlier = view.work_at(response.seq)
    earlier = earlier if earlier is not None and earlier.seq < submission.seq else None
    report = submission.report
    if report is not None:
        held = held_until(submission, report, earlier) if earlier is not None else None
        if held is not None:
            yield violation(
                "the prompt was answered with success long before its message was inserted",
                (submission.request.event, "sent while earlier work was open"),
                (response, "answered with success"),
                (held, "the work went on, the message was not reported"),
                (report.event, "its message is reported only now, after that work was over"),
            )
        return
    if any(request.seq >= submission.seq for request in submission.model_requests):
        return  # the model got it: inserted, and not reported (prompt.insertion-reported)
    cancel = next((event for event in submission.session.stops_between(response.seq, float("inf"))), None)
    barrier = unreported_at(submission)
    if barrier is None:
        return
    if cancel is not None and cancel.seq < barrier.seq and (cancel.message.get("method") == "session/cancel"):
        yield violation(
            "the prompt was answered with success and then dropped by a cancel",
            (submission.request.event, "this prompt"),
            (response, "is answered with success, so its message is in the conversation"),
            (cancel, "the session is cancelled"),
            (barrier, "and up to here the message was never reported: it had not been inserted"),
        )
    elif earlier is not None:
        yield violation(
            "the prompt was answered with success while earlier work was open, and its message never appeared",
            (submission.request.event, "sent while earlier work was open"),
            (response, "is answered with success"),
            (barrier, "and up to here the message was never reported"),
        )


def held_until(submission: Submission, report: Update, earlier: Work) -> Event | None:
    """The update that shows that the report was held back until `earlier` was over; None where that is not shown."""
    response = submission.response
    if response is None or earlier.ended is None or report.seq < earlier.ended_at:
        return None
    between = [u for u in earlier.updates if response.seq < u.seq <= earlier.ended_at]
    windows = [
        control
        for control in submission.request.connection.controls
        if control.name == "window" and response.seq < control.seq < report.seq and (control.control or {}).get("kind") == "hold"
    ]
    if windows and between:
        return windows[0]
    if not submission.session.conversation.is_driven and len(between) > 1 and report.event.t - response.t >= 1.0:
        return between[0].event
    return None


def unreported_at(submission: Submission) -> Event | None:
    """Where it is certain that the accepted message would have been reported: the idle that ends work begun after the response, or the
    answer to a barrier request on a quiet connection with no work open. None where the history does not get there."""
    view, response = submission.view, submission.response
    if view is None or response is None:
        return None
    for work in view.works_after(response.seq):
        if work.ended is not None:
            return work.ended.event
    connection = submission.request.connection
    windows = [c for c in connection.controls if c.name == "window" and c.seq > response.seq]
    for window in windows:
        about = window.control or {}
        if about.get("session") in (submission.session.id, None) and about.get("began", 0) > response.seq:
            if view.work_at(window.seq) is None and view.state_at(window.seq) in ("idle", None):
                return window
    if submission.session.conversation.is_driven:
        return None
    after = response.seq
    while (barrier := connection.barrier_after(after)) is not None and barrier.response is not None:
        last = max((event.t for event in connection.agent_events if response.seq <= event.seq < barrier.seq), default=response.t)
        if barrier.event.t - last >= QUIET and view.work_at(barrier.response.seq) is None:
            return barrier.response
        after = barrier.seq
    return None


@rule(
    "prompt.success-without-waiting-for-work",
    MUST,
    says="Once the message is inserted the success response is sent without waiting for processing to finish.",
    source="rfd 'Change the session/prompt response', schema PromptRequest method",
    exercised="an accepted prompt whose message was reported and whose work was held open or has ended",
    proof="the message was reported and the response had not arrived when the idle that ends its work arrived; or the message was reported, "
    "the model was held for the hold window, and the response came only after release",
    never="response and idle in one burst: a warning, since one write queue may have swapped them",
)
def success_without_waiting_for_work(submission: Submission) -> Verdict:
    view, report, response = submission.view, submission.report, submission.response
    if view is None or report is None or submission.request.failed:
        return
    work = view.work_at(report.seq) or next(iter(view.works_after(report.seq)), None)
    if work is None:
        return
    held = next(
        (
            control
            for control in submission.request.connection.controls
            if control.name == "window"
            and (control.control or {}).get("kind") == "hold"
            and (control.control or {}).get("began", 0) > report.seq
            and work.holds(control.seq)
        ),
        None,
    )
    if work.ended is None and held is None:
        return
    if response is not None and response.seq < min(work.ended_at, held.seq if held else float("inf")):
        yield EXERCISED
    elif held is not None and (response is None or response.seq > held.seq):
        yield violation(
            "the response waited although the message was inserted and the work was held open",
            (submission.request.event, "this prompt"),
            (report.event, "its message is reported: it is inserted"),
            (held, "the hold window passes, the prompt is not answered"),
            *([(response, "the answer comes only now")] if response is not None else []),
        )
    elif work.ended is not None and response is not None and response.seq > work.ended_at:
        proof = (
            (submission.request.event, "this prompt"),
            (report.event, "its message is reported: it is inserted"),
            (work.ended.event, "its work has ended, and the prompt is still not answered"),
            (response, "the answer comes only now"),
        )
        if response.t - report.event.t >= HELD_BACK or response.t - work.ended.event.t >= BURST:
            yield violation("the response waited for the end of the work", *proof)
        else:
            yield warning("the response came after the idle, in one burst with the whole turn", *proof)
    elif response is not None:
        yield EXERCISED


@rule(
    "prompt.rejected-is-error",
    MUST,
    says="A request that is not inserted is answered with a JSON-RPC error, and produces no user-message update.",
    source="rfd 'Change the session/prompt response', schema PromptRequest method",
    exercised="a prompt refused for its own sake (a block type not advertised, an empty array, an unknown session, invalid params, or the "
    "profile's fail-before-insertion trigger)",
    proof="such a prompt is answered with an error and yet reported in a user message; or answered with success and never inserted",
)
def rejected_is_error(submission: Submission) -> Verdict:
    why = why_refusable(submission)
    response = submission.response
    if why is None or response is None:
        return
    yield EXERCISED
    if submission.request.failed and (report := submission.report) is not None:
        yield violation(
            "the prompt was refused, and its message reported all the same",
            *sorted(
                [(submission.request.event, why), (response, "it is refused"), (report.event, "its message is reported")],
                key=lambda part: part[0].seq,
            ),
        )
    elif submission.request.succeeded and submission.report is None and (barrier := unreported_at(submission)) is not None:
        yield violation(
            "the prompt was not inserted, and answered with success instead of an error",
            (submission.request.event, why),
            (response, "it is answered with success"),
            (barrier, "and up to here no message of it was reported"),
        )


@rule(
    "prompt.distinct-message-ids",
    MUST,
    says="Every accepted submission has its own messageId, also when its content equals another's; an id is never used again in the "
    "session for another submission, also after a resume or a restart.",
    source="rfd 'Correlate prompts with accepted user messages', schema MessageId",
    exercised="two accepted submissions in one session",
    proof="two success responses of one session carry the same messageId",
)
def distinct_message_ids(session: Session) -> Verdict:
    accepted = sorted(session.accepted, key=lambda submission: submission.answered_at)
    if len(accepted) > 1:
        yield EXERCISED
    first_use: dict[str | None, Submission] = {}
    for submission in accepted:
        earlier = first_use.setdefault(submission.message_id, submission)
        if earlier is not submission and earlier.response is not None and submission.response is not None:
            yield violation(
                f"two submissions were answered with the messageId {submission.message_id!r}",
                (earlier.request.event, "one submission"),
                (earlier.response, "gets this id"),
                (submission.request.event, "another submission"),
                (submission.response, "gets it again"),
            )


@rule(
    "prompt.insertion-reported",
    MUST,
    says="Each inserted user message is reported by user_message or user_message_chunk under the id of the response, before or after it.",
    source="rfd 'User message reported to clients'",
    exercised="a success response to session/prompt",
    proof="no such update by the idle that ends a running span begun after the response, or by a barrier request on a quiet connection",
    never="the update arriving before the response; a report in chunks only; a report with no metadata-only update",
)
def insertion_reported(submission: Submission) -> Verdict:
    response = submission.response
    if submission.message_id is None or response is None or submission.is_local_command:
        return
    yield EXERCISED
    if submission.reports or submission.marked_elsewhere or why_refusable(submission) is not None:
        return
    if any(True for _ in no_success_before_insertion_findings(submission)):
        return
    if (barrier := unreported_at(submission)) is not None:
        yield violation(
            f"the inserted message {submission.message_id!r} was never reported",
            (submission.request.event, "this prompt"),
            (response, "is answered with success: its message is inserted under this id"),
            (barrier, "by now it would have been reported, and was not"),
        )


def no_success_before_insertion_findings(submission: Submission) -> Verdict:
    """What prompt.no-success-before-insertion finds: one fault is told once."""
    return (said for said in no_success_before_insertion(submission) if said is not EXERCISED)


@rule(
    "prompt.one-id-for-all-updates",
    MUST,
    says="All updates and chunks of the accepted message carry the returned id.",
    source="rfd 'Correlate prompts with accepted user messages'",
    exercised="a success response and a user-message update that shows the submission",
    proof="the submission is reported live in a user message under an id other than the returned one",
    never="identical prompts: where texts are equal to the letter only counts and ids are compared; a message that merely quotes the prompt",
)
def one_id_for_all_updates(submission: Submission) -> Verdict:
    response = submission.response
    if submission.message_id is None or response is None:
        return
    if submission.reports or submission.marked:
        yield EXERCISED
    if (other := submission.marked_elsewhere) is not None:
        yield violation(
            f"the response names {submission.message_id!r}, the message is reported as {other.id!r}",
            *sorted(
                [
                    (submission.request.event, "this prompt"),
                    (response, f"is answered with the id {submission.message_id!r}"),
                    (other.live[0].event, f"its text is reported under the id {other.id!r}"),
                ],
                key=lambda part: part[0].seq,
            ),
        )


@rule(
    "prompt.one-submission-one-message",
    SHOULD,
    says="One accepted submission is one logical user message (the RFD's working assumption).",
    source="rfd 'Correlate prompts with accepted user messages'",
    exercised="a success response and a user-message update that shows the submission",
    proof="one submission is reported live under two ids",
)
def one_submission_one_message(submission: Submission) -> Verdict:
    if not submission.marked:
        return
    yield EXERCISED
    first: dict[str, Update] = {}
    for message in submission.marked:
        if submission.is_whole(message) and message.id not in first:
            first[message.id] = message.live[0]
    if len(first) > 1 and submission.has_own_nonce:
        yield violation(
            f"one submission was reported as {len(first)} messages: {', '.join(map(repr, first))}",
            (submission.request.event, "this prompt"),
            *((update.event, f"is reported as {identifier!r}") for identifier, update in first.items()),
        )


@rule(
    "prompt.retry-is-a-new-message",
    MUST,
    says="A submission sent again, also after its response was lost, is a new message with a new id; nothing is promised beyond that.",
    source="rfd 'Does returning messageId make retrying safe?'",
    exercised="a prompt whose connection was cut before its response, then the same content submitted again",
    proof="the second submission's id equals an id already reported in the session for another message",
    never="the first submission present, absent, or present twice in replay",
)
def retry_is_a_new_message(session: Session) -> Verdict:
    lost = [s for s in session.submissions if s.response is None and s.request.connection.ended is not None]
    for again in session.accepted:
        first = next((s for s in lost if s.seq < again.seq and s.blocks == again.blocks), None)
        if first is None or again.response is None or again.message_id is None:
            continue
        yield EXERCISED
        known = session.first_update_of("user", again.message_id)
        if known is not None and known.seq < again.seq:
            yield violation(
                f"the prompt that was sent again got the id {again.message_id!r} of a message that was there before it",
                *sorted(
                    [
                        (first.request.event, "this prompt's response was lost"),
                        (known.event, f"the message {again.message_id!r} is reported"),
                        (again.request.event, "the same content is submitted again: a new submission"),
                        (again.response, "and it is given the id of that earlier message"),
                    ],
                    key=lambda part: part[0].seq,
                ),
            )
