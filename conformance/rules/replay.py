"""Replay: what a session/resume tells, when, and what it leaves alone (schema ResumeSessionRequest; RFD
'Correlation and replay')."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from conformance.conversation import FINAL_STATUSES, MESSAGE_KINDS, SETTLED, Replay, Submission, Update, text_after
from conformance.history import Event
from conformance.rules.registry import EXERCISED, MUST, Verdict, rule, violation, warning
from conformance.wire import encode

INVALID_PARAMS: Final = -32602
OTHER_CAUSES: Final = (-32000, -32002, -32601, -32800)
"""Errors that say nothing of the cursor: login needed, session not found, no such method, cancelled."""


def asked(replay: Replay) -> tuple[Event, str]:
    cursor = replay.cursor
    return (
        replay.request.event,
        f"session/resume with replayFrom {_text(cursor)}" if cursor is not None else "session/resume, no replay asked",
    )


def _text(cursor: Any) -> str:
    """The cursor as it was sent."""
    return encode(cursor).decode("utf-8", "replace").strip()


def has_content(update: Update) -> bool:
    return update.is_chunk or update.sets_content


def is_settled(replay: Replay, kind: str, identifier: str) -> bool:
    """Whether the message is surely of the past: this client had it before the resume, or the session for a second
    and more, or its work had ended before this client came. One that another client was told of just now may be live
    here too."""
    session = replay.view.session
    since = session.known_since(kind, identifier)
    if since >= replay.seq:
        return False
    known = session.conversation.history.events[int(since)]
    own = replay.view.messages.get((kind, identifier))
    if (own is not None and own.first.seq < replay.seq) or replay.request.event.t - known.t >= SETTLED:
        return True
    is_first_here = replay.view.created is None and replay.view.attached is replay.request
    submission = session.accepted_as.get(identifier) if kind == "user" else None
    works = [copy.first.work for copy in session.copies_of(kind, identifier) if copy.first.seq < replay.seq]
    works.append(submission.work if submission is not None else None)
    return is_first_here and any(work is not None and work.ended_at < replay.seq for work in works)


def retold(replay: Replay, updates: Iterable[Update]) -> list[Update]:
    """The updates, of these, that surely tell the past: one that gives a known message its content again; or, in a
    session that has a past, a user message that no prompt of the history explains with agent output after it and no
    work open, which cannot be live. Empty where all may be live."""
    stranger: Update | None = None
    cleared: dict[tuple[str, str], Update] = {}
    has_past = _may_have_past(replay)
    pending = {submission.message_id for submission in replay.pending}  # reported meanwhile, perhaps once more
    for update in updates:
        kind, identifier = MESSAGE_KINDS.get(update.kind), update.message_id
        if kind is None or identifier is None or identifier in pending or not has_content(update):
            continue
        if is_settled(replay, kind, identifier):
            if _may_go_on(replay, kind, identifier, update):
                continue
            if _repeats(replay, kind, identifier, update):
                return [cleared.get((kind, identifier), update)]
            if update.sets_content and not update.body.get("content"):
                cleared[kind, identifier] = update  # by itself it may be a message that is taken back
        elif not has_past or update.work is not None or replay.snapshot not in ("idle", None) or replay.was_busy:
            continue
        elif kind != "user" and stranger is not None:
            return [stranger, update]
        elif kind == "user" and stranger is None and not _is_explained(replay, update):
            stranger = update
    return []


def _may_have_past(replay: Replay) -> bool:
    """Whether anything may have been said in the session before the resume: not where it was made in this history and
    nothing was."""
    session = replay.view.session
    return session.has_history_before(replay.seq) or all(view.created is None for view in session.views)


def _may_go_on(replay: Replay, kind: str, identifier: str, update: Update) -> bool:
    """Whether a known message may still be written: by work that is open, or outside of all work, as it was before."""
    session = replay.view.session
    is_written = replay.was_busy and (update.work is not None or _is_at_work(replay))
    if (is_written and not _is_of_ended_work(replay, kind, identifier)) or (
        kind == "user" and _awaits_work(replay, identifier)
    ):
        first = session.first_update_of(kind, identifier)
        age = replay.request.event.t - first.event.t if first is not None else 0.0
        if kind != "user" or update.is_chunk or age < SETTLED:
            return True
    told = (reversed(copy.before(replay.seq)) for copy in session.copies_of(kind, identifier))
    latest = [last for each in told if (last := next(filter(has_content, each), None)) is not None]
    return kind != "user" and bool(latest) and all(last.work is None and last.replay is None for last in latest)


def _is_of_ended_work(replay: Replay, kind: str, identifier: str) -> bool:
    """Whether, on every connection that had the message, work ended after it was told last, and long ago: what is open
    now does not write it."""
    copies = [copy for copy in replay.view.session.copies_of(kind, identifier) if copy.before(replay.seq)]
    return bool(copies) and all(
        any(
            state.is_idle and replay.request.event.t - state.event.t >= SETTLED
            for state in copy.view.states_between(copy.before(replay.seq)[-1].seq, replay.seq)
        )
        for copy in copies
    )


def _awaits_work(replay: Replay, identifier: str) -> bool:
    """Whether it is the message of a prompt whose work may still have been to come when the resume was asked."""
    session = replay.view.session
    submission, owed = session.accepted_as.get(identifier), session.unfinished(replay.seq)
    if submission is None or owed is None or submission.request.connection.died_at < replay.seq:
        return False
    return owed.seq <= submission.seq


def _is_at_work(replay: Replay) -> bool:
    """Whether work was open when the resume was asked whose process had not died of it."""
    works = (view.work_at(replay.seq) for view in replay.view.session.views)
    return any(work is not None and work.view.connection.died_at > replay.seq for work in works)


def _repeats(replay: Replay, kind: str, identifier: str, update: Update) -> bool:
    """Whether an update of a known message gives it again what it had: live output only goes on, and an edit says
    something new."""
    before = replay.text_before(kind, identifier)
    if update.is_chunk:
        return bool(update.text) and before.startswith(update.text)
    return update.text == before and bool(before) and not _adds_meta(replay, kind, identifier, update)


def _adds_meta(replay: Replay, kind: str, identifier: str, update: Update) -> bool:
    """Whether it says something new beside the content."""
    copies = replay.view.session.copies_of(kind, identifier)
    told = [earlier.body.get("_meta") for copy in copies for earlier in copy.before(replay.seq)]
    return bool(update.body.get("_meta")) and update.body["_meta"] not in told


def _is_explained(replay: Replay, update: Update) -> bool:
    """Whether a prompt of this history may have become that user message meanwhile."""
    pending = (s for s in replay.pending if s.seq < update.seq)
    return any(s.message_id in (None, update.message_id) or s.marks(update.text) for s in pending)


@rule(
    "replay.same-id",
    MUST,
    says="A retained message that is replayed has the id its response returned, also after reconnecting or restarting.",
    source="rfd 'Correlation and replay'",
    exercised="a replay that holds an accepted submission",
    proof="the submission is replayed under another id",
    never="the message absent from replay (live-only, compacted, cleared); a message that only quotes the prompt; one "
    "that was known before, unless as another prompt; an equal text beside the message, in a recording of others",
)
def same_id(replay: Replay) -> Verdict:
    session = replay.view.session
    for message in replay.messages:
        told = message.within(replay)
        submission = session.told_by(text_after(told)) if message.kind == "user" else None
        if (
            submission is None
            or submission.response is None
            or submission.answered_at > replay.seq
            or submission.message_id is None
        ):
            continue
        if message.id == submission.message_id:
            yield EXERCISED
        elif not submission.has_own_nonce and _is_told(replay, submission):
            continue  # somebody else said the same
        elif session.known_since("user", message.id) > replay.seq or _is_of_another(replay, message.id, submission):
            proof = (
                (submission.request.event, "this prompt"),
                (submission.response, f"is accepted as {submission.message_id!r}"),
                asked(replay),
                (told[0].event, f"it is replayed as {message.id!r}"),
            )
            if submission.has_own_nonce or any(view.created is not None for view in session.views):
                yield violation(f"{submission.message_id!r} is replayed as {message.id!r}", *proof)
            else:
                yield warning(
                    f"a message like {submission.message_id!r} is replayed as {message.id!r}: it may be older", *proof
                )


def _is_of_another(replay: Replay, identifier: str, submission: Submission) -> bool:
    """Whether that id was given, before the resume, to another prompt, and its message did not say this one's text."""
    other = replay.view.session.accepted_as.get(identifier)
    if other is None or other is submission or other.answered_at > replay.seq:
        return False
    said = {other.text.strip(), replay.text_before("user", identifier).strip()}
    return submission.text.strip() not in said


def _is_told(replay: Replay, submission: Submission) -> bool:
    """Whether the window tells the submission under its own id too."""
    own = replay.view.messages.get(("user", submission.message_id or ""))
    return own is not None and replay.view.session.told_by(text_after(own.within(replay))) is submission


@rule(
    "replay.before-response",
    MUST,
    says="With replayFrom start, all retained history is reported before the session/resume response.",
    source="schema ResumeSessionRequest, docs 'Resuming Sessions'",
    exercised="a resume with replayFrom start that replays at least one message",
    proof="history is told after the response with no new work: a known message is given its content again; or, where "
    "the window told nothing, user messages and answers that no prompt of the history explains come while no work is "
    "open; or a tool call that was over is told, which the window left out",
    never="output of work that runs on; an edit of an earlier message; agent-initiated messages; what another "
    "resume is told at the same time",
)
def before_response(replay: Replay) -> Verdict:
    response = replay.request.response
    if response is None or not replay.request.succeeded or not replay.asks_for_history:
        return
    told = any(True for _ in replay.messages)
    if told:
        yield EXERCISED
    if replay.view.another_replays(replay):
        return
    after = after_response(replay)
    late = retold(replay, after)
    if not late or (len(late) > 1 and told):
        late = [u for u in after if was_finished(replay, u) and not _is_of_the_window(replay, u)][:1]
    if late:
        yield violation(
            "history was told after the response to session/resume",
            asked(replay),
            (response, "is answered: all history has been told"),
            *((update.event, _what_it_is(update)) for update in late),
        )


def _what_it_is(update: Update) -> str:
    if update.kind == "tool_call_update":
        return f"a tool call that was over ({update.body.get('toolCallId')!r})"
    if update.kind == "terminal_update":
        return f"a terminal that had exited ({update.body.get('terminalId')!r})"
    return f"a message of the past ({update.message_id!r})"


def _is_of_the_window(replay: Replay, update: Update) -> bool:
    """Whether the window told of that tool call or terminal."""
    terminal = replay.view.terminals.get(str(update.body.get("terminalId")))
    if terminal is not None and any(replay.holds(told) for told in terminal.updates):
        return True
    call = replay.view.tool_calls.get(str(update.body.get("toolCallId")))
    return call is not None and any(replay.holds(step.update) for step in call.steps)


def after_response(replay: Replay) -> Sequence[Update]:
    """Updates between the response and whatever begins next: work, a prompt, another resume. None where work was
    open."""
    view, closes = replay.view, replay.closes
    if view.work_at(closes) is not None:
        return []
    ends = [s.seq for s in view.session.submissions_after(replay.seq)[:1]] + [
        work.seq for work in view.works_after(replay.seq)[:1]
    ]
    if (other := view.replay_after(replay.seq)) is not None:
        ends.append(other.seq)
    return view.updates_between(closes, min(ends, default=float("inf")))


@rule(
    "replay.none-unless-asked",
    MUST,
    says="With replayFrom omitted or null nothing of the history is replayed.",
    source="docs 'Resuming Sessions'",
    exercised="a resume without replayFrom of a session with history",
    proof="a message of earlier history is told again, or a finished tool call, or user messages and answers that no "
    "prompt explains",
    never="state, commands, config, usage and title updates; updates of work that is still running, or of a message "
    "that is written outside of work; a message taken back or given another content; the report of a prompt that was "
    "pending; a plan: a warning",
)
def none_unless_asked(replay: Replay) -> Verdict:
    response, session = replay.request.response, replay.view.session
    if replay.cursor is not None or response is None or not replay.request.succeeded:
        return
    if replay.view.another_replays(replay):
        return  # what another resume is told at the same time
    if session.has_history_before(replay.seq):
        yield EXERCISED
    told = retold(replay, replay.updates) or retold(replay, after_response(replay))
    again = [u for u in replay.updates if was_finished(replay, u)]
    plan = next((u for u in replay.updates if u.kind == "plan_update" and not replay.was_busy), None)
    found = told[:1] or again[:1]
    if found:
        parts = [asked(replay), (found[0].event, "history is told all the same"), (response, "the response")]
        yield violation("history was replayed unasked", *sorted(parts, key=lambda part: part[0].seq))
    elif plan is not None and session.has_history_before(replay.seq):
        yield warning(
            "a plan was told at a resume that asked for no history", asked(replay), (plan.event, "is it of the past?")
        )


def was_finished(replay: Replay, update: Update) -> bool:
    """Whether the update is about a tool call that had its final status before the resume, or a terminal that had
    exited, and only says so again. What another client was told of just now may be on its way to this one."""
    if update.kind == "terminal_update":
        terminal = replay.view.terminals.get(str(update.body.get("terminalId")))
        had_exited = terminal is not None and terminal.exited is not None and terminal.exited.seq < replay.seq
        return had_exited and update.body.get("exitStatus") is not None
    if update.kind != "tool_call_update" or update.body.get("status") not in FINAL_STATUSES:
        return False
    title = update.body.get("title")
    for view in replay.view.session.views:
        call = view.tool_calls.get(str(update.body.get("toolCallId")))
        steps = call.steps_before(replay.seq) if call is not None else []
        if not steps or steps[-1].status not in FINAL_STATUSES or title is None:
            continue
        is_old = view is replay.view or replay.request.event.t - steps[-1].update.event.t >= SETTLED
        if is_old and any(step.update.body.get("title") == title for step in steps):
            return True
    return False


@rule(
    "replay.bad-cursor-rejected",
    MUST,
    says="An unsupported cursor type or malformed cursor is rejected with -32602; nothing is replayed instead.",
    source="schema ReplayFrom",
    exercised="a resume with an unknown or malformed replayFrom",
    proof="success, or another code, or history told in its place",
    never="a cursor type with a leading underscore in a recording, which the agent may support; an error about the "
    "session or a login",
)
def bad_cursor_rejected(replay: Replay) -> Verdict:
    response = replay.request.response
    why = why_bad(replay.cursor, is_driven=replay.view.session.conversation.is_driven)
    if why is None or response is None or replay.request.error_code in OTHER_CAUSES:
        return
    yield EXERCISED
    past = (u for u in replay.updates if replay.view.is_replayed(u) and has_content(u))
    told = next((u for u in past if u.work is None or u.work.seq < replay.seq or _is_known(replay, u)), None)
    proof = (replay.request.event, f"session/resume with replayFrom {_text(replay.cursor)}: {why}")
    if replay.request.succeeded:
        history = ((told.event, "history is replayed"),) if told is not None else ()
        yield violation("a cursor that cannot be served was accepted", proof, *history, (response, "success"))
    elif replay.request.error_code != INVALID_PARAMS:
        yield violation(
            f"a bad cursor was rejected with {replay.request.error_code}", proof, (response, "-32602 is owed")
        )
    elif told is not None and not replay.was_busy:
        yield violation(
            "history was replayed though the cursor was rejected",
            proof,
            (told.event, "history"),
            (response, "rejected"),
        )
    elif (late := retold(replay, after_response(replay))) and not replay.view.another_replays(replay):
        yield violation(
            "history was replayed after the cursor was rejected",
            proof,
            (response, "rejected"),
            *((update.event, "history") for update in late),
        )


def _is_known(replay: Replay, update: Update) -> bool:
    """Whether its message was told before the resume: what is new in work that began since is that work's."""
    kind = MESSAGE_KINDS[update.kind]
    return update.message_id is not None and replay.view.session.known_since(kind, update.message_id) < replay.seq


def why_bad(cursor: Any, *, is_driven: bool) -> str | None:
    """Why no agent can serve the cursor; None where one may."""
    if cursor is None:
        return None
    if not isinstance(cursor, dict):
        return "no cursor object"
    kind = cursor.get("type")
    if not isinstance(kind, str):
        return "a cursor without a type"
    if kind == "start" or (kind.startswith("_") and not is_driven):
        return None
    return "a cursor type that does not exist"
