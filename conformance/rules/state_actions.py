"""The session's state while the work waits for the user: requires_action, and what follows it (schema
RequiresActionStateUpdate)."""

from collections import deque
from collections.abc import Iterator
from itertools import zip_longest

from conformance.conversation import STANDARD_STATES, Permission, Request, State, ToolStep, Update, View, Work
from conformance.conversation.span import between, first_after
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
    never="a tool call's final status before the idle that ends the work; last words of work that a client stopped; "
    "silence while another client is still "
    "asked, or after the answer to a request of another kind",
)
def leaves_requires_action(work: Work) -> Verdict:
    states = [state for state in work.states if state.value in STANDARD_STATES]
    asked = deque(_asked_in(work))
    open_requests: list[Request] = []
    latest = -1.0  # where the last of them is answered
    for state, following in zip_longest(states, states[1:]):
        until = following.seq if following is not None else float("inf")
        is_asked_throughout = latest > until
        while asked and asked[0].seq < until:
            request = asked.popleft()
            open_requests.append(request)
            latest = max(latest, request.answered_at)
        if is_asked_throughout:
            continue
        open_requests = [request for request in open_requests if request.answered_at > state.seq]
        if state.value != "requires_action":
            continue
        is_more_asked = bool(work.view.connection.unread_between(work.seq, state.seq))  # or may be
        for answered, next_asked in _answers(open_requests, until):
            yield EXERCISED
            if any(_goes_on_elsewhere(request) for request in answered) or is_more_asked:
                break
            yield from _after_the_answer(work, state, answered, next_asked, following)


def _asked_in(work: Work) -> list[Request]:
    """What the agent asked in that work, of this client or, where it asked nothing of it, of the others, in order."""
    view = work.view
    own = view.connection.agent_requests_between(work.seq, work.ended_at)
    here = [request for request in own if request.session_id in (view.id, None)]
    others = (other.connection.agent_requests_of.get(view.id, []) for other in view.session.views if other is not view)
    elsewhere = (request for asked in others for request in between(asked, work.seq, work.ended_at))
    return here or sorted(elsewhere, key=lambda request: request.seq)


def _answers(requests: list[Request], until: float) -> Iterator[tuple[list[Request], Request | None]]:
    """Each time before that position when all that had been asked was answered: what was asked since the time before,
    and what was asked next."""
    begin, latest = 0, -1.0  # where the last of those so far is answered
    for at, request in enumerate(requests):
        if begin < at and latest < request.seq:
            yield requests[begin:at], request
            begin = at
        latest = max(latest, request.answered_at)
    if requests and latest < until:
        yield requests[begin:], None


def _after_the_answer(
    work: Work, state: State, answered: list[Request], next_asked: Request | None, following: State | None
) -> Verdict:
    """What there is to say of what follows until something else is asked or another state is told."""
    connection, view = work.view.connection, work.view
    answer = max((r.response for r in answered if r.response is not None), key=lambda event: event.seq)
    beyond = next_asked.event if next_asked is not None else following.event if following is not None else None
    until = beyond.seq if beyond is not None else float("inf")
    told = view.updates_between(answer.seq, until)
    resumed = next((u for u in told if is_output(u) or _is_at_work(u, work)), None)
    proof = [(state.event, "the work waits for the user"), (answer, "who has answered all that was asked")]
    is_end = next_asked is None and following is not None and following.is_idle
    may_end = is_end or beyond is None  # where the history breaks off
    if resumed is not None and may_end and view.session.stops_between(_asked_for(work, state), resumed.seq):
        return  # the last words of what a client stopped, perhaps before it was asked anything
    if resumed is not None:
        is_burst = beyond is not None and not is_end and beyond.t - resumed.event.t < BURST
        tell = warning if is_burst else violation
        yield tell(
            "the work went on, and running was not reported",
            *proof,
            (resumed.event, "progress, with no running before it"),
        )
    elif beyond is None:
        waited = connection.out_of_patience(answer)
        if (
            waited is not None
            and all(request.method in BLOCKING for request in answered)
            and not view.session.stops_between(state.seq, waited.seq)
            and not _asks_elsewhere(view, waited.seq)
            and not view.is_taken_over(waited.seq)
        ):
            yield violation(
                "neither running nor idle followed the answer",
                *proof,
                (waited, "and nothing came within the patience"),
            )


def _asked_for(work: Work, state: State) -> float:
    """The position of the first prompt of that work until then, which a cancel may have followed before anything was
    reported; else where the work begins."""
    before = work.previous.ended_at if work.previous is not None else -1.0
    submissions = work.view.session.inserted_between(before, state.seq)
    return min((submission.seq for submission in submissions), default=work.seq)


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
    signs = [update for update in view.updates if update.kind not in ("state_update", *ASIDE)]
    beside_others = _beside_other_calls(view)
    for permission in view.permissions:
        until = permission.answer.seq if permission.answer is not None else float("inf")
        window = _hold_window(view, permission.seq, until)
        if window is None or permission in beside_others or _is_of_earlier_work(permission):
            continue
        sign = first_after(signs, permission.seq)
        if sign is not None and sign.seq < window.seq:
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


def _is_of_earlier_work(permission: Permission) -> bool:
    """Whether the call that asks began before the work: it is background work."""
    asking = permission.view.tool_calls.get(permission.tool_call_id or "")
    return (
        permission.work is not None
        and asking is not None
        and bool(asking.steps)
        and asking.first.update.seq < permission.work.seq
    )


def _beside_other_calls(view: View) -> set[Permission]:
    """The permissions that were asked for while another tool call, told of in the same work, was at work."""
    steps = deque(sorted(((s, call.id) for call in view.tool_calls.values() for s in call.steps), key=_place))
    at_work: set[str] = set()
    work: Work | None = None
    found = set()
    for permission in view.permissions:
        while steps and steps[0][0].update.seq < permission.seq:
            step, identifier = steps.popleft()
            if step.update.work is not work:
                work, at_work = step.update.work, set()
            if step.status == "in_progress":
                at_work.add(identifier)
            else:
                at_work.discard(identifier)
        if work is not None and permission.work is work and any(other != permission.tool_call_id for other in at_work):
            found.add(permission)
    return found


def _place(step: tuple[ToolStep, str]) -> int:
    return step[0].update.seq


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
