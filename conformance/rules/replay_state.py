"""The state that a resume tells: there, after the history, and as it is (schema ResumeSessionResponse)."""

from typing import Final

from conformance.conversation import OUTPUT, Connection, ModelRequest, Replay, Update, Work
from conformance.rules.insertion import in_order
from conformance.rules.registry import EXERCISED, MUST, Verdict, rule, violation
from conformance.rules.replay import asked, retold

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
    "output then came to this client too",
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
    late = retold(replay, (update for update in replay.updates if update.seq > states[-1].seq))
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


def _held_over(replay: Replay, work: Work) -> ModelRequest | None:
    """The work's model request that was held from before the resume was asked until after its response."""
    session = replay.view.session
    nonces = {submission.nonce for submission in session.submissions if submission.has_own_nonce}
    for request in session.conversation.model_requests:
        if request.is_shared or request.nonce not in nonces or request.seq < work.seq:
            continue
        if request.held is None or request.held.seq > replay.seq or request.released is None:
            continue
        if request.released.seq > replay.closes and (request.answered is None or request.answered.seq > replay.closes):
            return request
    return None


def _is_of_server(connection: Connection) -> bool:
    started = connection.started.control if connection.started is not None else None
    return started is not None and started.get("transport") == OF_SERVERS
