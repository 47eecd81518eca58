"""Prompts: failures after insertion are told by an idle with the stop reason `error`, never by the response."""

import re
from bisect import bisect_left
from itertools import takewhile
from typing import Any

from conformance.conversation import (
    KNOWN_STOP_REASONS,
    ModelRequest,
    State,
    Submission,
    View,
    Work,
    failed_at_last,
)
from conformance.conversation.span import Span
from conformance.rules.insertion import in_order, reported_at_all
from conformance.rules.refusal import why_refusable
from conformance.rules.registry import EXERCISED, MUST, SHOULD, Verdict, rule, violation, warning

SAYING = ("agent_message", "agent_message_chunk", "tool_call_update", "notice")
FAILURE = re.compile(r"\W*((api|provider|internal|model|request) )?error\b\W.{0,300}\Z", re.IGNORECASE | re.DOTALL)
"""A message that is nothing but an error."""


@rule(
    "prompt.no-error-after-insertion",
    MUST,
    says="After insertion a later failure is never an error response to session/prompt, even when the response has "
    "not been sent yet.",
    source="rfd 'Report failures after insertion', schema PromptRequest method",
    exercised="an error response to a prompt that nobody cancelled, or a failure injected after insertion",
    proof="an error response, with no cancel of the session or the request, to a valid prompt that is reported in a "
    "user message, live or in replay",
)
def no_error_after_insertion(submission: Submission) -> Verdict:
    response, report = submission.response, submission.report
    if response is None or why_refusable(submission) is not None:
        return
    if submission.request.succeeded:
        if report is not None and any(request.was_failed for request in submission.model_requests):
            yield EXERCISED
        return
    if submission.cancels or not submission.request.failed:
        return
    yield EXERCISED
    told = reported_at_all(submission)
    if told is None:
        return
    yield violation(
        "a prompt whose message is in the conversation was answered with an error",
        *in_order(
            (submission.request.event, "a valid prompt"),
            (told, "its message is reported: it is inserted"),
            (response, f"the prompt is answered with an error ({submission.request.error_code})"),
        ),
    )


@rule(
    "prompt.failure-ends-idle-error",
    MUST,
    says="When a failure ends foreground work after insertion, the agent reports idle with stopReason 'error'.",
    source="rfd 'Report failures after insertion', schema IdleStateUpdate",
    exercised="work whose every model request failed after the message was inserted, or every one since a call of a "
    "tool, and that ended",
    proof="the work ends with another known stop reason, or no idle arrives within the patience after the last "
    "failure while the agent lives",
    never="a retry that succeeds; a refusal or limit that the model reported; no stop reason at all, or an error that "
    "is only told in words: a warning; a process that exits",
)
def failure_ends_idle_error(submission: Submission) -> Verdict:
    requests, view = failed_at_last(submission.model_requests), submission.view
    report = submission.own_report or submission.report  # other clients may be told of it sooner
    if not submission.model_requests:
        yield from _looks_failed(submission)
    if not requests or view is None or report is None or not submission.request.succeeded:
        return
    if any(request.is_shared for request in requests):
        return
    last = requests[-1]
    asked = view.work_at(requests[0].seq)
    if asked is not None and asked.ended_at < report.seq:
        asked = None  # over before the message was inserted: the model's line was quicker than the agent's
    work = asked or view.work_at(report.seq) or next(iter(view.works_after(report.seq)), None)
    if last.answered is None or work is None or not _is_its_only_cause(work, submission):
        return
    if any(state.stop_reason == "error" for state in view.states_between(report.seq, work.seq)):
        return  # it was told, with no running before it
    proof = in_order(
        (report.event, "the message is inserted"),
        (last.answered, f"the model fails ({'; '.join(sorted({_how(request) for request in requests}))})"),
    )
    if work.ended is not None:
        if work.ended_at < last.answered.seq or submission.session.stops_between(submission.seq, work.ended_at):
            return
        yield EXERCISED
        if work.stop_reason is None:
            yield warning(
                "the failed work ended without a stop reason",
                *proof,
                (work.ended.event, "the work ends, nothing says why"),
            )
        elif work.stop_reason != "error" and work.stop_reason in KNOWN_STOP_REASONS:
            yield violation(
                f"the failed work ended with {work.stop_reason} instead of error",
                *proof,
                (work.ended.event, f"the work ends with {work.stop_reason!r}"),
            )
    elif (waited := submission.request.connection.out_of_patience(last.answered)) is not None:
        yield violation(
            "the failure was never told: no idle came", *proof, (waited, "and no idle arrives within the patience")
        )


def _looks_failed(submission: Submission) -> Verdict:
    """Work that is said to have ended well, and of which an error is all that came: whether a failure ended it cannot
    be seen where the model is not the suite's."""
    work = submission.work
    if work is None or work.ended is None or work.stop_reason != "end_turn" or not submission.request.succeeded:
        return
    since = work.previous.ended_at if work.previous is not None else -1.0
    if next(iter(submission.session.inserted_between(since, work.ended_at)), submission) is not submission:
        return  # told of the first prompt of the work
    told = [u for u in work.updates if u.kind in SAYING and not u.view.is_replayed(u)]
    said = [u for u in told if u.kind != "notice"]
    if any(u.kind == "tool_call_update" for u in said):
        return
    is_told = bool(told) and told[-1].body.get("severity") == "error" and not said
    if is_told or FAILURE.match("".join(u.text for u in said)):
        yield warning(
            "work that brought nothing but an error ended with end_turn",
            (submission.request.event, "this prompt"),
            (told[-1].event, "an error is all that comes of it"),
            (work.ended.event, "and the work is said to have ended well"),
        )


def _how(request: ModelRequest) -> str:
    control = (request.answered.control if request.answered else None) or {}
    status = control.get("status")
    return f"{control.get('how')} {status}" if status else str(control.get("how"))


def _is_its_only_cause(work: Work, submission: Submission) -> bool:
    """Whether no other prompt than this one had the model's answer within the work."""
    group = next((request.group for request in submission.model_requests), None)
    asked = submission.session.conversation.model_requests
    within = Span(asked, bisect_left(asked, work.seq, key=lambda request: request.seq))
    return not any(
        not request.is_side and request.nonce != submission.nonce and request.group in (group, None)
        for request in takewhile(lambda request: work.holds(request.seq), within)
    )


def _error_idles(view: View) -> list[State]:
    return [state for state in view.states if state.stop_reason == "error"]


@rule(
    "prompt.error-object-shape",
    MUST,
    says="error on the error stop reason is absent, null, or a JSON-RPC error object (integer code, string "
    "message, optional data).",
    source="rfd 'Report failures after insertion', schema ErrorStopReason",
    exercised="an idle with stopReason 'error'",
    proof="error is present, not null, and no such object",
)
def error_object_shape(view: View) -> Verdict:
    for state in _error_idles(view):
        yield EXERCISED
        error = state.update.body.get("error")
        if error is not None and not _is_error_object(error):
            yield violation("error is no JSON-RPC error object", (state.event, "this idle's error has another shape"))


def _is_error_object(error: Any) -> bool:
    code = error.get("code") if isinstance(error, dict) else None
    is_whole = (isinstance(code, int) and not isinstance(code, bool)) or (isinstance(code, float) and code.is_integer())
    return is_whole and isinstance(error.get("message"), str)


@rule(
    "prompt.error-details",
    SHOULD,
    says="The error stop reason carries the error.",
    source="rfd 'Report failures after insertion', schema ErrorStopReason",
    exercised="an idle with stopReason 'error'",
    proof="error is absent or null",
)
def error_details(view: View) -> Verdict:
    for state in _error_idles(view):
        yield EXERCISED
        if state.update.body.get("error") is None:
            yield violation(
                "the failure is told without its error", (state.event, "this idle has no error beside the stop reason")
            )


@rule(
    "prompt.error-only-on-error-stop",
    SHOULD,
    says="error stands beside stopReason 'error' only; beside another stop reason it is an unknown field.",
    source="rfd 'Report failures after insertion'",
    exercised="an idle state_update",
    proof="error on an idle whose stopReason is not 'error'",
    never="error: null, which says nothing",
)
def error_only_on_error_stop(view: View) -> Verdict:
    for state in view.states:
        if not state.is_idle:
            continue
        yield EXERCISED
        if state.stop_reason != "error" and state.update.body.get("error") is not None:
            yield violation(
                f"error beside the stop reason {state.stop_reason!r}", (state.event, "this idle carries an error")
            )


@rule(
    "prompt.tool-calls-finished-before-error-idle",
    SHOULD,
    says="Before an error idle, each tool call that the failed work left unfinished gets a final status.",
    source="rfd 'Report failures after insertion'",
    exercised="an error idle with a tool call announced in that work",
    proof="a tool call of that work is still pending or in progress at the error idle and not listed as background",
)
def tool_calls_finished_before_error_idle(work: Work) -> Verdict:
    if work.ended is None or work.stop_reason != "error":
        return
    background = [item for item in work.ended.background or [] if isinstance(item, dict)]
    listed = {item.get("toolCallId") for item in background}
    has_terminals = any(item.get("type") == "terminal" for item in background)  # a process stands for its tool call
    named = dict.fromkeys(str(u.body.get("toolCallId")) for u in work.updates if u.kind == "tool_call_update")
    for call in [call for identifier in named if (call := work.view.tool_calls.get(identifier)) is not None]:
        if not call.steps or not work.began_with(call.first.update) or call.id in listed or has_terminals:
            continue
        yield EXERCISED
        status = call.status_at(work.ended_at)
        if status in ("pending", "in_progress"):
            yield violation(
                f"the tool call {call.id!r} was left {status}",
                (call.first.update.event, "the tool call of this work"),
                (work.ended.event, f"the work ends with an error, and the call is still {status}"),
            )
