"""The session's state while the work waits for the user: requires_action, and what follows it (schema
RequiresActionStateUpdate)."""

from collections import deque
from itertools import zip_longest

from conformance.conversation import STANDARD_STATES, Permission, Request, Update, View, Work
from conformance.conversation.span import between
from conformance.history import Event
from conformance.rules.registry import EXERCISED, MUST, SHOULD, Verdict, rule, violation, warning
from conformance.rules.state import ASIDE, BURST, is_output

BLOCKING = ("session/request_permission", "elicitation/create")
"""Requests that the work may wait for: what another one is about only the agent knows."""


@rule(
    "state.leaves-requires-action",
    MUST,
    says="After requires_action the agent reports running when progress resumes or idle when work ends.",
    source="schema RequiresActionStateUpdate",
    exercised="requires_action, then the blocking request answered",
    proof="agent output of that work, or nothing at all within the patience, with no running or idle after the answer",
    never="a tool call's final status before the idle that ends the work; silence while another client is still "
    "asked, or after the answer to a request of another kind",
)
def leaves_requires_action(work: Work) -> Verdict:
    connection, view = work.view.connection, work.view
    states = [state for state in work.states if state.value in STANDARD_STATES]
    asked = deque(connection.agent_requests_between(work.seq, work.ended_at))
    open_requests: list[Request] = []
    latest = -1.0  # where the last of them is answered
    for state, following in zip_longest(states, states[1:]):
        until = following.seq if following is not None else float("inf")
        while asked and asked[0].seq < until:
            request = asked.popleft()
            if request.session_id in (view.id, None):
                open_requests.append(request)
                latest = max(latest, request.answered_at)
        if latest == float("inf") or latest > until:
            continue
        open_requests = [request for request in open_requests if request.answered_at > state.seq]
        if state.value != "requires_action" or not open_requests:
            continue
        answer = max((r.response for r in open_requests if r.response is not None), key=lambda event: event.seq)
        yield EXERCISED
        if any(_goes_on_elsewhere(request) for request in open_requests):
            continue
        resumed = next(
            (u for u in view.updates_between(answer.seq, until) if is_output(u) or _is_at_work(u, work)), None
        )
        proof = [(state.event, "the work waits for the user"), (answer, "who has answered all that was asked")]
        if resumed is not None:
            is_burst = following is not None and not following.is_idle and following.event.t - resumed.event.t < BURST
            tell = warning if is_burst else violation
            yield tell(
                "the work went on, and running was not reported",
                *proof,
                (resumed.event, "progress, with no running before it"),
            )
        elif following is None:
            waited = connection.out_of_patience(answer)
            if (
                waited is not None
                and all(request.method in BLOCKING for request in open_requests)
                and not view.session.stops_between(state.seq, waited.seq)
                and not _asks_elsewhere(view, waited.seq)
            ):
                yield violation(
                    "neither running nor idle followed the answer",
                    *proof,
                    (waited, "and nothing came within the patience"),
                )


def _asks_elsewhere(view: View, seq: float) -> bool:
    """Whether another client of the session was still asked something at that position."""
    return any(
        request.seq < seq < request.answered_at
        for other in view.session.views
        if other is not view
        for request in other.connection.agent_requests_of.get(view.id, [])
    )


def _goes_on_elsewhere(request: Request) -> bool:
    """Whether the answer does not end what the user has to do: a page that was opened, which the user still has to
    deal with."""
    return (
        request.method == "elicitation/create"
        and isinstance(request.params, dict)
        and request.params.get("mode") != "form"
    )


def _is_at_work(update: Update, work: Work) -> bool:
    """Whether a tool call of that work begins to run; one that began before it may run in the background."""
    if update.kind != "tool_call_update" or update.body.get("status") != "in_progress":
        return False
    call = update.view.tool_calls.get(str(update.body.get("toolCallId")))
    return call is not None and bool(call.steps) and work.began_with(call.first.update)


@rule(
    "state.requires-action-when-blocked",
    SHOULD,
    says="requires_action is reported while the whole foreground workflow waits for the user.",
    source="schema StateUpdate",
    exercised="a pending session/request_permission left unanswered for the hold window with no other update",
    proof="the state is still running at the end of the hold window",
    never="a permission of background work",
)
def requires_action_when_blocked(view: View) -> Verdict:
    for permission in view.permissions:
        until = permission.answer.seq if permission.answer is not None else float("inf")
        window = _hold_window(view, permission.seq, until)
        if window is None:
            continue
        updates = view.updates_between(permission.seq, window.seq)
        if any(u.kind not in ("state_update", *ASIDE) for u in updates) or _has_other_work(permission):
            continue
        state = view.state_at(window.seq)
        if state == "requires_action":
            yield EXERCISED
        elif state == "running" and permission.work is not None:
            yield violation(
                "all work waited for the user, and the state was still running",
                (permission.request.event, "the agent asks for permission"),
                (window, "nothing else happens for the hold window, and the state is running"),
            )


def _has_other_work(permission: Permission) -> bool:
    """Whether another tool call was at work beside the one that asks, or the one that asks is of earlier, background
    work."""
    work, view = permission.work, permission.view
    if work is None:
        return False
    asking = view.tool_calls.get(permission.tool_call_id or "")
    if asking is not None and asking.steps and asking.first.update.seq < work.seq:
        return True
    told = (u for u in between(work.updates, -1, permission.seq) if u.kind == "tool_call_update")
    calls = (view.tool_calls.get(str(update.body.get("toolCallId"))) for update in told)
    others = (call for call in calls if call is not None and call.id != permission.tool_call_id)
    return any(call.status_at(permission.seq) == "in_progress" for call in others)


def _hold_window(view: View, start: float, end: float) -> Event | None:
    """The event by which the hold window had passed between two positions: the suite's own, or the next line a
    second later."""
    window = next(view.connection.windows_after(start - 1, "hold"), None)
    if window is not None and window.seq < end:
        return window
    if view.session.conversation.is_driven or end == float("inf"):
        return None
    events = view.session.conversation.history.events
    first, last = events[int(start)], events[int(end)]
    return last if last.t - first.t >= 1.0 else None
