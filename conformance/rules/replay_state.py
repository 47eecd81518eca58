"""The state that a resume tells: there, after the history, and as it is (schema ResumeSessionResponse)."""

from typing import Final

from conformance.conversation import BUSY, OUTPUT, Connection, ModelRequest, Permission, Replay, Update, Work
from conformance.history import Event
from conformance.rules.insertion import in_order
from conformance.rules.registry import EXERCISED, MUST, Verdict, rule, violation
from conformance.rules.replay import asked, retold, was_finished
from conformance.rules.replay_runs import works_by_itself
from conformance.rules.state import ASIDE
from conformance.rules.tool import BURST

Part = tuple[Event, str]
OF_SERVERS: Final = "websocket"
"""The transport whose connections are of one process, where none of them is started by itself."""


@rule(
    "replay.state-snapshot",
    MUST,
    says="A current state_update is sent after any replay and before the response.",
    source="schema ResumeSessionResponse",
    exercised="a successful resume",
    proof="no state_update of the session between the request and its response, or history told after the last one; "
    "or idle from a server, whose work the model held from before the request until after the response, and whose "
    "output then came to this client too; or idle, whereas another client sees work go on, of which this one is told "
    "too; or idle told to the client of work that then goes on without a new running, "
    "or with the permission that it waited for; or running or requires_action with nothing to do, nothing done and "
    "nothing asked until the suite's patience was spent",
    never="live output of running work after the snapshot; what another resume is told at the same time; work of "
    "another process, or that a stop may have ended",
)
def state_snapshot(replay: Replay) -> Verdict:
    response = replay.request.response
    if response is None or not replay.request.succeeded:
        return
    yield EXERCISED
    states = [state for state in replay.states if state.value]
    if not states:
        yield violation(
            "session/resume was answered without a state_update before it",
            asked(replay),
            *((update.event, "the last update before the response") for update in replay.updates[-1:]),
            (response, "the response, and nothing told the session's state"),
        )
        return
    after = [update for update in replay.updates if update.seq > states[-1].seq]
    late = retold(replay, after) or [update for update in after if was_finished(replay, update)]
    if late and not replay.view.another_replays(replay):
        yield violation(
            "the state_update came before the replay instead of after it",
            asked(replay),
            (states[-1].event, "the last state_update before the response"),
            (late[0].event, "history is told after it"),
            (response, "the response, and no state_update in between"),
        )
    elif (found := _untold_work(replay)) is not None:
        work, request, output = found
        yield violation(
            "the state was told as idle while work was open",
            *in_order(
                (work.began.event, f"{work.began.value}: work begins, as another client sees it"),
                (request.event, "the model is asked, and holds its answer"),
                asked(replay),
                (states[-1].event, "the last state_update before the response"),
                (response, "the response"),
                (output.event, "this client is told of that work too, which went on with the model's answer"),
            ),
        )
    elif proof := _ended_by_snapshot(replay) or _told_elsewhere(replay):
        yield violation("the state was told as idle while work was open", *in_order(asked(replay), *proof))
    elif (waited := _busy_with_nothing(replay)) is not None:
        yield violation(
            f"the state was told as {states[-1].value}, and nothing was going on",
            asked(replay),
            (states[-1].event, "the last state_update before the response; all prompts had been worked off"),
            (response, "the response"),
            (waited, "up to here nothing was told, the model was not asked, and nothing was asked of the client"),
        )


def _untold_work(replay: Replay) -> tuple[Work, ModelRequest, Update] | None:
    """Work that another client of the server saw and that was surely open over the whole window, since the model held
    its answer, and the first output that this client was told of it after that."""
    if replay.snapshot != "idle" or not _is_of_server(replay.request.connection):
        return None
    session = replay.view.session
    for view in session.views:
        work = view.work_at(replay.seq)
        if view is replay.view or work is None or session.stops_between(work.seq, replay.closes):
            continue
        request = _held_over(replay, work)
        if request is None or request.released is None or not _is_of_server(view.connection):
            continue
        following = next(iter(view.works_after(work.seq)), None)
        until = following.seq if following is not None else float("inf")  # one client is told sooner than the other
        for update in replay.view.updates_between(request.released.seq, until):
            message = view.messages.get(("agent", update.message_id or ""))
            if update.kind in OUTPUT and update.replay is None and message is not None and message.first.work is work:
                return work, request, update
    return None


def _busy_with_nothing(replay: Replay) -> Event | None:
    """Where the suite's patience was spent on a session that was told as busy though all was worked off, with no sign
    of work at all."""
    view, conversation, connection = replay.view, replay.view.session.conversation, replay.request.connection
    if replay.snapshot not in BUSY or replay.may_have_work or conversation.profile.get("model") is None:
        return None
    if replay.request.response is None or works_by_itself(replay):
        return None
    waited = connection.out_of_patience(replay.request.response)
    if waited is None or waited.seq > connection.ended_at or connection.waits_for_client_at(waited.seq):
        return None
    told = view.updates_between(replay.closes, waited.seq)
    asked_since = view.session.submissions_between(replay.seq, waited.seq)
    model = any(replay.seq < request.seq < waited.seq for request in conversation.model_requests)
    return None if model or asked_since or any(update.kind not in ASIDE for update in told) else waited


def _ended_by_snapshot(replay: Replay) -> list[Part]:
    """Of work that was open on this client's own connection, and that the window told as idle: what shows that it was
    open all the time, since it went on. Empty where nothing does."""
    view, session = replay.view, replay.view.session
    work, state = view.work_at(replay.seq), next((s for s in reversed(replay.states) if s.is_idle), None)
    if work is None or work.ended is None or state is None or replay.snapshot != "idle" or state.background:
        return []
    if not replay.seq < work.ended_at < replay.closes or session.stops_between(work.seq, replay.closes):
        return []
    prompts, works = session.inserted_between(replay.seq, float("inf")), view.works_after(replay.seq)
    until = prompts[0].inserted_at if prompts else float("inf")
    parts: list[Part] = [
        (work.began.event, f"{work.began.value}: work begins"),
        (state.event, "the last state_update before the response: idle"),
    ]
    if (permission := _asked_over(replay, work)) is not None:
        step = _goes_on(permission, until)
        asked_for = (permission.request.event, "permission is asked for, and the answer is to come")
        return [*parts, asked_for, (step.event, "the call goes on when it is given")] if step is not None else []
    ends = min([until, *(other.seq for other in works[:1])])
    output = view.first_output(replay.closes, ends)
    if output is None:
        return []
    request = _held_over(replay, work)
    if request is not None and request.released is not None and output.seq > request.released.seq:
        held = (request.event, "the model is asked, and holds its answer")
        return [*parts, held, (output.event, "the work goes on with the model's answer, and no other began")]
    end = next((s for s in view.states_between(output.seq, ends) if s.is_idle and s.stop_reason is not None), None)
    if work.ended.stop_reason is not None or end is None:
        return []
    return [*parts, (output.event, "the work goes on, and no other began"), (end.event, "here it ends")]


def _told_elsewhere(replay: Replay) -> list[Part]:
    """Of work that another client saw begin before the window and end after it: a message of it that began before, and
    that both clients are told more of after the window. Empty where the window told it, or nothing shows it."""
    view, session, response = replay.view, replay.view.session, replay.request.response
    state = next((s for s in reversed(replay.states) if s.is_idle), None)
    if response is None or state is None or replay.snapshot != "idle" or session.conversation.is_driven:
        return []
    for other in session.views:
        work = other.work_at(replay.seq)
        if other is view or work is None or work.ended_at < replay.closes or work.view.is_replayed(work.began.update):
            continue
        if session.stops_between(work.seq, replay.closes):
            continue
        following = next(iter(view.works_after(replay.seq)), None)
        until = min(work.ended_at, following.seq if following is not None else float("inf"))
        there, here = other.first_output(replay.closes, work.ended_at), view.first_output(replay.closes, until)
        if here is None or there is None or min(here.event.t, there.event.t) - response.t <= BURST:
            continue
        told = (other.messages.get(("agent", update.message_id or "")) for update in (here, there) if update.is_chunk)
        began = [message.first.seq for message in told if message is not None]
        if len(began) == 2 and all(work.seq < seq < replay.seq for seq in began):
            return [
                (work.began.event, f"{work.began.value}: work begins, as another client sees it"),
                (state.event, "the last state_update before the response: idle"),
                (response, "the response"),
                (here.event, "a message of that work, begun before, goes on for this client"),
                (there.event, "a message of that work goes on for the other client, for whom no other began"),
            ]
    return []


def _asked_over(replay: Replay, work: Work) -> Permission | None:
    """A permission that the work waited for from before the resume was asked until after its response, and that was
    then given."""
    if replay.view.state_at(replay.seq) != "requires_action":
        return None
    for permission in replay.view.permissions:
        is_open = permission.seq < replay.seq and permission.request.answered_at > replay.closes
        if permission.work is work and is_open and permission.is_approved and permission.withdrawn is None:
            return permission
    return None


def _goes_on(permission: Permission, until: float) -> Update | None:
    """The first step of the call, after the permission for it was given, by which it runs or has run."""
    call = permission.view.tool_calls.get(permission.tool_call_id or "")
    steps = call.steps_after(permission.request.answered_at) if call is not None else []
    ran = (s.update for s in steps if s.names in ("in_progress", "completed") and s.update.seq < until)
    return next(ran, None)


def _held_over(replay: Replay, work: Work) -> ModelRequest | None:
    """The work's model request that was held from before the resume was asked until after its response."""
    session = replay.view.session
    nonces = {submission.nonce for submission in session.submissions if submission.has_own_nonce}
    for request in session.conversation.model_requests:
        if request.is_shared or request.is_side or request.nonce not in nonces or request.seq < work.seq:
            continue
        if request.held is None or request.held.seq > replay.seq or request.released is None:
            continue
        if request.released.seq > replay.closes and (request.answered is None or request.answered.seq > replay.closes):
            return request
    return None


def _is_of_server(connection: Connection) -> bool:
    started = connection.started.control if connection.started is not None else None
    return started is not None and started.get("transport") == OF_SERVERS
