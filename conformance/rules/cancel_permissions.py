"""Permission requests of cancelled work: withdrawn, and never an approval (schema CancelSessionNotification,
RequestPermissionOutcome)."""

from conformance.conversation import Connection, Permission, ToolStep
from conformance.history import Event
from conformance.rules.cancel import LONG, apart, is_of_work
from conformance.rules.registry import EXERCISED, MUST, SHOULD, Verdict, rule, violation, warning
from conformance.rules.tool import effect_after

RUNS = ("in_progress", "completed")


def cancelled_with(permission: Permission) -> tuple[Connection, Event] | None:
    """The session/cancel that found this permission request pending for the foreground work it cancels, with its
    sender. None for requests of earlier or background work and for ones that were answered or withdrawn before."""
    work = permission.work
    if work is None or work.cancel is None:
        return None
    sender, cancel = work.cancel
    withdrawn = permission.withdrawn
    if not permission.seq < cancel.seq < permission.request.answered_at or (
        withdrawn is not None and withdrawn.seq < cancel.seq
    ):
        return None
    return (sender, cancel) if is_of_work(permission, work) else None


@rule(
    "cancel.permissions-not-approved",
    MUST,
    says="Permission requests of cancelled work are treated as not approved; a late approval does not resume it.",
    source="schema CancelSessionNotification, RequestPermissionOutcome",
    exercised="session/cancel with a pending session/request_permission, then a late approval",
    proof="the tool call goes to in_progress after the cancel, or to completed after the late approval, or its effect "
    "is seen",
    never="a tool call that another client approved before, or of earlier or background work; completed with no "
    "approval and no in_progress (a refusal text): a warning",
)
def permissions_not_approved(permission: Permission) -> Verdict:
    found = cancelled_with(permission)
    if found is None:
        return
    sender, cancel = found
    view, work = permission.view, permission.work
    approval = permission.answer if permission.is_approved else None
    if approval is not None:
        yield EXERCISED
    effect = effect_after(permission, approval or cancel) if not permission.is_denied else None
    if effect is not None:
        given = [(approval, "a late approval, which counts for nothing")] if approval is not None else []
        yield violation(
            "the effect of an operation was seen whose permission counts for nothing",
            (permission.request.event, "permission is asked"),
            (cancel, "and the session is cancelled with that request pending"),
            *given,
            (effect, "its effect is seen all the same"),
        )
        return
    call = view.tool_calls.get(permission.tool_call_id or "")
    if call is None or work is None or view.session.approvals[call.id] > permission.is_approved:
        return
    if approval is not None and sender is not view.connection and approval.seq < work.ended_at:
        return  # the order of two connections' lines is not the agent's
    step = _goes_on(call.steps_after(cancel.seq))
    if step is None or (permission.is_denied and permission.request.answered_at < step.update.seq):
        return  # tool.denied-is-not-run
    proof = [
        (permission.request.event, f"permission is asked for the tool call {call.id!r}"),
        (cancel, "and the session is cancelled with that request pending"),
        *(
            [(approval, "a late approval, which counts for nothing")]
            if approval is not None and approval.seq < step.update.seq
            else []
        ),
        (step.update.event, f"the tool call is {step.status}"),
    ]
    if step.status != "completed" or len(proof) == 4:
        yield violation("a tool call of cancelled work went on without a permission that counts", *proof)
    else:
        yield warning(
            "a tool call of cancelled work was completed without permission: run, or closed with a refusal?", *proof
        )


def _goes_on(steps: list[ToolStep]) -> ToolStep | None:
    """The first step that takes the call to a status of running or having run; one that only repeats the status is
    none."""
    return next((step for step in steps if step.status in RUNS and step.before != step.status), None)


@rule(
    "cancel.permission-requests-withdrawn",
    SHOULD,
    says="Pending permission requests of cancelled work are withdrawn with $/cancel_request.",
    source="schema CancelSessionNotification",
    exercised="session/cancel with a pending session/request_permission that the client did not answer at once by "
    "itself",
    proof="no $/cancel_request for it, though the client left it open for the patience, past the end of the work, or "
    "for a second",
    never="a request that the client answered by itself right after its cancel: nothing is left to withdraw",
)
def permission_requests_withdrawn(permission: Permission) -> Verdict:
    found = cancelled_with(permission)
    if found is None:
        return
    cancel, request, connection = found[1], permission.request, permission.view.connection
    if permission.withdrawn is not None:
        yield EXERCISED
        return
    work, answer = permission.work, permission.answer
    proof = (
        (request.event, "permission is asked"),
        (cancel, "the session is cancelled with that request pending"),
    )
    until = answer.seq if answer is not None else float("inf")
    barrier = connection.barrier_after(work.ended_at, until) if work is not None and work.ended is not None else None
    shown = (
        (answer if answer is not None and apart(cancel, answer) >= LONG else None)
        or (barrier.response if barrier is not None else None)
        or (connection.out_of_patience(cancel) if answer is None else None)
    )
    if shown is not None:
        still = "the client answers it after all this time" if shown is answer else "and the request is still open"
        yield violation("a permission request of cancelled work was not withdrawn", *proof, (shown, still))
