"""Prompts: what answers session/prompt, when, and under which id (RFD "v2 Prompt Lifecycle", October 2026)."""

import json

from conformance.conversation import Session, Submission, Update, Work
from conformance.history import Event
from conformance.rules.insertion import (
    has_a_used_id,
    in_order,
    inserted_after_its_work,
    reported_too_late,
    submitter_told_since,
    told_since,
    unreported_at,
)
from conformance.rules.refusal import why_refusable
from conformance.rules.registry import EXERCISED, MUST, Verdict, rule, violation, warning

BURST = 0.05  # seconds within which two lines may have been swapped by one write queue
HELD_BACK = 0.25  # seconds between report and response that no write queue explains
ASKED = 0.1  # the same, where the agent answered another request in between; half of it where it answered two
SLOW = 4  # how much longer both may be while the suite drives several agents on a busy machine


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
    says="Success is sent only once the user message is in the conversation; receipt, queueing or a reserved id is "
    "not insertion.",
    source="rfd 'Change the session/prompt response', schema PromptRequest method",
    exercised="a success response to session/prompt",
    proof="success for a prompt that a later cancel drops unreported; or that came while earlier work was open and "
    "whose message is reported only after that work ended or was released, the whole hold window having "
    "passed with other updates in between; or that came while earlier work was open and is never reported by "
    "a barrier request",
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
    if submission.report is not None:
        if earlier is not None:
            yield from reported_too_late(submission, submission.report, response, earlier)
        return
    if any(request.seq >= submission.seq for request in submission.model_requests):
        return  # the model got it: inserted, and not reported (prompt.insertion-reported)
    barrier = unreported_at(submission)
    if barrier is None or told_since(submission, barrier):
        return
    cancel = next(iter(submission.session.stops_between(response.seq, barrier.seq)), None) or _crossed_by(submission)
    started = next(iter(view.works_after(response.seq)), None)
    if cancel is not None and (earlier is not None or started is None or started.seq > cancel.seq):
        yield violation(
            "the prompt was answered with success and then dropped by a cancel",
            *in_order(
                (submission.request.event, "this prompt"),
                (response, "is answered with success, so its message is in the conversation"),
                (cancel, "the session is cancelled"),
                (barrier, "and up to here the message was never reported: it had not been inserted"),
            ),
        )
    elif cancel is None and earlier is not None:
        yield violation(
            "the prompt was answered with success while earlier work was open, and its message never appeared",
            (submission.request.event, "sent while earlier work was open"),
            (response, "is answered with success"),
            (barrier, "and up to here the message was never reported"),
        )


def _crossed_by(submission: Submission) -> Event | None:
    """A cancel that was sent while the prompt was pending behind another one, by an agent that reports what it
    inserts."""
    session = submission.session
    if session.unfinished(submission.seq) is None or not any(message.live for message in session.user_messages):
        return None
    return next(iter(session.stops_between(submission.seq, submission.answered_at)), None)


@rule(
    "prompt.success-without-waiting-for-work",
    MUST,
    says="Once the message is inserted the success response is sent without waiting for processing to finish.",
    source="rfd 'Change the session/prompt response', schema PromptRequest method",
    exercised="an accepted prompt whose message was reported and whose work was held open or has ended",
    proof="the message was reported and the response had not arrived when the idle that ends its work arrived; or "
    "the message was reported, the model was held for the hold window, and the response came only after "
    "release; in one burst with the idle only where another request was answered meanwhile, or the wait was long; "
    "or, in a recording of others, it came long after the report, when all was said, and in one burst with the idle",
    never="response and idle in one burst: a warning, since one write queue may have swapped them",
)
def success_without_waiting_for_work(submission: Submission) -> Verdict:
    view, report, response = submission.view, submission.own_report, submission.response
    if (
        view is None
        or report is None
        or submission.request.failed
        or (submission.message_id is not None and (not submission.reports or has_a_used_id(submission)))
    ):
        return
    work = view.work_at(report.seq) or next(iter(view.works_after(report.seq)), None)
    if work is None:
        yield from inserted_after_its_work(submission, report)
        return
    windows = (w for w in submission.request.connection.windows_after(report.seq, "hold") if work.holds(w.seq))
    held = next((w for w in windows if (w.control or {}).get("session") in (view.id, None)), None)
    if work.ended is None and held is None:
        return
    if submission.answered_at < min(work.ended_at, held.seq if held is not None else float("inf")):
        yield EXERCISED
        yield from _answered_with_its_end(submission, report, work)
    elif held is not None and submission.answered_at > held.seq:
        yield violation(
            "the response waited although the message was inserted and the work was held open",
            (submission.request.event, "this prompt"),
            (report.event, "its message is reported: it is inserted"),
            (held, "the hold window passes, the prompt is not answered"),
            *([(response, "the answer comes only now")] if response is not None else []),
        )
    elif work.ended is not None and response is not None:
        proof = (
            (submission.request.event, "this prompt"),
            (report.event, "its message is reported: it is inserted"),
            (work.ended.event, "its work has ended, and the prompt is still not answered"),
            (response, "the answer comes only now"),
        )
        slow = SLOW if submission.session.conversation.is_driven else 1
        connection = submission.request.connection
        asked = connection.barrier_after(report.seq, work.ended_at)
        again = connection.barrier_after(asked.answered_at, work.ended_at) if asked is not None else None
        enough = ASKED if again is None else ASKED / 2
        if asked is not None and asked.response is not None and response.t - report.event.t >= enough:
            meanwhile = (asked.response, f"{asked.method}, sent after that, is answered: the agent was free to answer")
            yield violation("the response waited for the end of the work", *proof[:2], meanwhile, *proof[2:])
        elif response.t - report.event.t >= HELD_BACK * slow or response.t - work.ended.event.t >= BURST * slow:
            yield violation("the response waited for the end of the work", *proof)
        else:
            yield warning(
                "the response came only after the idle, of a turn too short to rule out that two lines were swapped",
                *proof,
            )


def _answered_with_its_end(submission: Submission, report: Update, work: Work) -> Verdict:
    """A response that came long after the report, after all that the agent said, and in one burst with the idle: where
    the suite drives, it holds the model to see that, and a busy machine makes all slow."""
    view, response, ended = submission.view, submission.response, work.ended
    if view is None or response is None or ended is None or submission.session.conversation.is_driven:
        return
    said = view.first_output(report.seq, response.seq)
    is_late = response.t - report.event.t >= HELD_BACK * SLOW and ended.event.t - response.t < BURST
    goes_on = any(update.kind != "state_update" for update in view.updates_between(response.seq, ended.seq))
    if said is not None and is_late and not goes_on and work.cancel is None:
        yield violation(
            "the response waited for the end of the work",
            (submission.request.event, "this prompt"),
            (report.event, "its message is reported: it is inserted"),
            (said.event, "it is worked on"),
            (response, "the answer comes only when all is said"),
            (ended.event, "in one burst with the end of the work"),
        )


@rule(
    "prompt.rejected-is-error",
    MUST,
    says="A request that is not inserted is answered with a JSON-RPC error, and produces no user-message update.",
    source="rfd 'Change the session/prompt response', schema PromptRequest method",
    exercised="a prompt refused for its own sake (a block type not advertised, an empty array, an unknown session, "
    "invalid params, or the profile's fail-before-insertion trigger)",
    proof="such a prompt is answered with an error and yet reported in a user message; or answered with success and "
    "never inserted",
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
            *in_order(
                (submission.request.event, why), (response, "it is refused"), (report.event, "its message is reported")
            ),
        )
    elif submission.request.failed and (kept := _kept(submission)) is not None:
        yield violation(
            "the prompt was refused, and its message kept all the same",
            (submission.request.event, why),
            (response, "it is refused"),
            (kept.event, "a replay tells of its message"),
        )
    elif (
        submission.request.succeeded
        and submission.report is None
        and (barrier := unreported_at(submission) or _silent_for_good(submission)) is not None
    ):
        if told_since(submission, barrier):
            return
        yield violation(
            "the prompt was not inserted, and answered with success instead of an error",
            (submission.request.event, why),
            (response, "it is answered with success"),
            (barrier, "and up to here no message of it was reported"),
        )


def _kept(submission: Submission) -> Update | None:
    """Where a replay first tells of the refused prompt, which no other explains: the suite knows all prompts."""
    session = submission.session
    if submission.nonce is None or not session.conversation.is_driven:
        return None
    found = [m.first for m in session.replayed_with(submission.nonce) if m.id not in session.accepted_as]
    return min((told for told in found if told.seq > submission.answered_at), key=lambda told: told.seq, default=None)


def _silent_for_good(submission: Submission) -> Event | None:
    """The suite's quiet window after the success, where nothing was ever told of the session that the prompt names."""
    if submission.session.views or not submission.session.conversation.is_driven:
        return None
    return next(submission.request.connection.windows_after(submission.answered_at, "quiet"), None)


@rule(
    "prompt.distinct-message-ids",
    MUST,
    says="Every accepted submission has its own messageId, also when its content equals another's; an id is never "
    "used again in the session for another submission, also after a resume or a restart.",
    source="rfd 'Correlate prompts with accepted user messages', schema MessageId",
    exercised="two accepted submissions in one session",
    proof="two success responses of one session carry the same messageId, or one that of a message that was there when "
    "the prompt was sent",
)
def distinct_message_ids(session: Session) -> Verdict:
    accepted = sorted(session.accepted, key=lambda submission: submission.answered_at)
    if len(accepted) > 1:
        yield EXERCISED
    lost = {json.dumps(s.blocks, sort_keys=True) for s in session.submissions if s.response is None}
    first_use: dict[tuple[str, str], Submission] = {}
    for submission in accepted:
        life = submission.request.connection.name if session.creations > 1 else ""
        earlier = first_use.setdefault((life, submission.message_id or ""), submission)
        if earlier is submission and not life and json.dumps(submission.blocks, sort_keys=True) not in lost:
            yield from _has_an_earlier_id(submission)  # else it is prompt.retry-is-a-new-message's
        if earlier is not submission and earlier.response is not None and submission.response is not None:
            yield violation(
                f"two submissions were answered with the messageId {submission.message_id!r}",
                *in_order(
                    (earlier.request.event, "one submission"),
                    (earlier.response, "gets this id"),
                    (submission.request.event, "another submission"),
                    (submission.response, "gets it again"),
                ),
            )


def _has_an_earlier_id(submission: Submission) -> Verdict:
    """Whether its id is that of a message that no accepted submission of this history became."""
    known = submission.session.first_update_of("user", submission.message_id or "")
    if known is not None and known.seq < submission.seq and submission.response is not None:
        yield EXERCISED
        yield violation(
            f"a submission was answered with the messageId {submission.message_id!r} of an earlier message",
            (known.event, "this message is in the conversation"),
            (submission.request.event, "a submission"),
            (submission.response, "gets the id of that message"),
        )


@rule(
    "prompt.insertion-reported",
    MUST,
    says="Each inserted user message is reported by user_message or user_message_chunk under the id of the "
    "response, before or after it.",
    source="rfd 'User message reported to clients'",
    exercised="a success response to session/prompt",
    proof="no such update by the idle that ends a running span begun after the response, or by a barrier request on "
    "a quiet connection",
    never="the update arriving before the response; a report in chunks only; a report with no metadata-only update; "
    "a session that is closed meanwhile; a report to those who are attached, where the client had closed the session",
)
def insertion_reported(submission: Submission) -> Verdict:
    response = submission.response
    if submission.message_id is None or response is None or submission.is_local_command:
        return
    yield EXERCISED
    late = unreported_at(submission)
    if (
        late is None
        or submission.marked_elsewhere
        or why_refusable(submission) is not None
        or has_a_used_id(submission)
    ):
        return
    if submitter_told_since(submission, late) or any(True for _ in no_success_before_insertion_findings(submission)):
        return
    proof = (
        (submission.request.event, "this prompt"),
        (response, "is answered with success: its message is inserted under this id"),
        (late, "by now it would have been reported, and was not"),
    )
    own = next((update for update in submission.reports if update.view is submission.view), None)
    if own is None and _had_left(submission):
        return  # who is attached was told; session.unknown-session
    if own is not None:
        told = (own.event, "it is reported only now")
        yield warning(f"the inserted message {submission.message_id!r} was reported late", *proof, told)
    else:
        yield violation(f"the inserted message {submission.message_id!r} was never reported", *proof)


def _had_left(submission: Submission) -> bool:
    """Whether the session was closed on this connection before the prompt, and not resumed there since."""
    connection = submission.request.connection
    before = submission.session.closes_before(submission.seq)
    closes = [own for own in before if own.connection is connection and own.succeeded]
    if not closes or submission.view is None:
        return False
    resumed = submission.view.replay_after(closes[-1].seq)
    return resumed is None or resumed.seq > submission.seq


def no_success_before_insertion_findings(submission: Submission) -> Verdict:
    """What prompt.no-success-before-insertion finds: one fault is told once."""
    return (said for said in no_success_before_insertion(submission) if said is not EXERCISED)
