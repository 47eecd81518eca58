"""Replay reports; it runs nothing (RFD 'Do locally handled commands need persistent history?')."""

from collections.abc import Iterator
from typing import Any

from conformance.conversation import (
    MESSAGE_KINDS,
    SETTLED,
    Message,
    Permission,
    Replay,
    Submission,
    Update,
    Work,
    task_of,
    text_after,
)
from conformance.conversation.span import between
from conformance.history import Event
from conformance.rules.insertion import in_order
from conformance.rules.registry import EXERCISED, MUST, Verdict, rule, violation, warning
from conformance.rules.replay import asked

OUTPUT = ("agent_message", "agent_message_chunk", "agent_thought", "agent_thought_chunk", "tool_call_update")
Part = tuple[Event, str]


@rule(
    "replay.does-not-execute",
    MUST,
    says="Replaying a message or command reports it; nothing is executed again.",
    source="rfd 'Do locally handled commands need persistent history?'",
    exercised="a replay that holds a command or a prompt",
    proof="the model is asked for the replayed prompt again; or work that no prompt began starts in the window of an "
    "idle session whose prompts were all worked off, with new output; or at once after it, with the output of earlier "
    "work again and nothing else",
    never="a title, summary or suggestion request that quotes the prompt, or one that asks something else after it; "
    "the same prompt in another session; work "
    "that was interrupted and goes on, or that an earlier prompt still owes, or that a new message of another client "
    "brings, a warning where its text is that of a recorded prompt; a permission that is asked outside work, at each "
    "start; an agent that works unasked, or has background work: a warning",
)
def does_not_execute(replay: Replay) -> Verdict:
    told = [submission for submission in map(_submission_of(replay), replay.messages) if submission is not None]
    if not told or replay.request.response is None:
        return
    yield EXERCISED
    yield from _asked_again(replay, told)
    owed = replay.view.session.unfinished(replay.seq)
    if replay.was_busy or any(s.seq < replay.closes for s in replay.pending):
        return
    if owed is not None and owed.request.connection.ended_at > replay.seq:
        return
    begun = replay.view.works_after(replay.seq)[:1]
    prompts = replay.view.session.submissions_after(replay.seq)[:1]
    if begun and _is_of_a_new_message(replay, begun[0]):
        return
    if begun and (not prompts or begun[0].seq < prompts[0].seq):
        yield from _ran(replay, begun[0], prompts[0].seq if prompts else float("inf"))
    yield from _asked_permission(replay)


def _submission_of(replay: Replay) -> Any:
    session = replay.view.session
    return lambda message: session.accepted_as.get(message.id) if message.kind == "user" else None


def _asked_again(replay: Replay, told: list[Submission]) -> Verdict:
    """Requests to the scripted model that have a replayed prompt as their last user message, and after it what a
    request of its own work had."""
    prompts = replay.view.session.submissions_after(replay.seq)[:1]
    until = prompts[0].seq if prompts else float("inf")
    owed = replay.view.session.unfinished(replay.seq)
    for submission in told:
        if owed is not None and owed.seq <= submission.seq:
            continue  # it waited for other work, and its own is to come
        if submission.answered_at > replay.seq or submission.work is None or submission.work.ended_at > replay.seq:
            continue
        if not _was_worked_off(submission, replay.seq):
            continue
        for request in submission.model_requests:
            if not replay.seq < request.seq < until or request.is_shared:
                continue
            if submission.work.stop_reason == "cancelled":
                continue  # it may have been on its way when the work was stopped: the model is another channel
            proof = in_order(
                (submission.request.event, "this prompt"),
                (submission.work.began.event, "was worked on"),
                asked(replay),
                (request.event, "the model is asked for it again"),
            )
            earlier = (r.tail for r in submission.model_requests if r.seq < submission.work.ended_at)
            is_same = request.tail is None or request.tail in earlier  # else it is asked about what came of the prompt
            if request.is_last_user and is_same and not request.is_side:
                yield violation("a replayed prompt was run again", *proof)
                return
            begun = next(iter(replay.view.works_after(replay.seq)), None)
            if not request.is_side and begun is not None and begun.seq < until:
                yield warning("the model was asked something with a replayed prompt in it", *proof)


def _was_worked_off(submission: Submission, seq: int) -> bool:
    """Whether the model had said its last word on the prompt by then. An idle alone may be told too early: the first
    request, the next one after a tool call, or after an answer that is still held, is no second run."""
    before = [request for request in submission.model_requests if request.seq < seq and not request.is_side]
    if not before:
        return submission.work is not None and any(update.kind in OUTPUT for update in submission.work.updates)
    answered = before[-1].answered
    return answered is not None and answered.seq < seq and (answered.control or {}).get("how") != "call-tool"


def _ran(replay: Replay, work: Work, until: float) -> Verdict:
    """What there is to say of work that began after the resume though no prompt was sent, which is sent at `until`."""
    in_window = work.seq < replay.closes
    put_out = [u for u in work.updates if u.kind in OUTPUT and not _is_known(replay, u)]
    new = [update for update in put_out if update.seq < until]
    before = _last_told(replay, work)
    again = next((part for update in _firsts(new) if (part := _said_before(replay, update)) is not None), None)
    unasked = works_by_itself(replay)
    proof: list[Part] = [asked(replay)]
    if in_window and before is not None:
        proof.append((before.event, "the replay tells this message"))
    proof.append((work.began.event, "work begins, and nobody sent a prompt"))
    is_proof = _is_all_said_before(replay, put_out) and not (in_window and before is None)
    is_proof = is_proof and not _is_later(replay, work) and not _may_be_asked_for(replay, work)
    if again is not None and not unasked and (is_proof or not in_window):
        tell = violation if is_proof else warning  # other work may begin with like words
        yield tell("what was done before was done again at a replay", again[0], *proof, again[1])
    elif new and in_window:
        proof.append((new[0].event, "it has new output"))
        is_alone = not replay.view.another_replays(replay)  # else it may greet who asked before
        if before is not None and _all_ended(replay) and not unasked and is_alone:
            yield violation("a replay set off work", *proof)
        else:
            yield warning("work began within a replay: set off by it?", *proof)


def _new_message(replay: Replay, work: Work) -> Message | None:
    """The last user message before the work, or before its first output, where it is a new one that no recorded prompt
    became: another client's, or one from elsewhere."""
    view = replay.view
    first = next((update for update in work.updates if update.kind in OUTPUT), None)
    told = view.updates_between(replay.seq, first.seq if first is not None else work.ended_at)
    message = next((view.message_of(u) for u in reversed(told) if MESSAGE_KINDS.get(u.kind) == "user"), None)
    is_new = message is not None and message.first.seq > replay.seq and message.id not in view.session.accepted_as
    return message if is_new else None


def _is_of_a_new_message(replay: Replay, work: Work) -> bool:
    """Whether the work is about a new message that says something else than the recorded prompts."""
    message = _new_message(replay, work)
    return message is not None and not replay.view.session.is_a_prompt(text_after(message.updates))


def _may_be_asked_for(replay: Replay, work: Work) -> bool:
    """Whether somebody else may have sent a prompt with the text of a recorded one, once the window was over. Where
    the suite drives it knows all prompts."""
    message = _new_message(replay, work)
    is_driven = replay.view.session.conversation.is_driven
    return not is_driven and message is not None and message.first.seq > replay.closes


def _is_later(replay: Replay, work: Work) -> bool:
    """Whether the work began so long after the response that something else may have set it off."""
    response = replay.request.response
    return response is not None and work.began.event.t - response.t > SETTLED


def _is_known(replay: Replay, update: Update) -> bool:
    message = update.view.message_of(update)
    if message is not None:
        return replay.view.session.known_since(message.kind, message.id) < replay.seq
    calls = (view.tool_calls.get(str(update.body.get("toolCallId"))) for view in replay.view.session.views)
    return any(call is not None and call.steps and call.first.update.seq < replay.seq for call in calls)


def _said_before(replay: Replay, update: Update) -> tuple[Part, Part] | None:
    """(the earlier output, this one) where new output is, under a new id, what the session's earlier work put out."""
    message, session = update.view.message_of(update), replay.view.session
    if message is not None:
        if between(session.conversation.model_requests, replay.seq, update.seq):
            return None  # the script may say one thing to many questions: see `_asked_again`
        earlier = session.first_said.get((message.kind, text_after(message.updates).strip()))
        done = "said"
    else:
        earlier = session.first_run.get(task_of(update))
        done = "run"
    if earlier is None or earlier.seq > replay.seq:
        return None
    return (earlier.event, f"{done} by earlier work"), (update.event, f"and {done} again under another id")


def _is_all_said_before(replay: Replay, updates: list[Update]) -> bool:
    """Whether all that the new work puts out, more than thoughts, was put out before."""
    firsts = list(_firsts(updates))
    is_more = any(MESSAGE_KINDS.get(update.kind) != "thought" for update in firsts)
    return is_more and all(_said_before(replay, update) is not None for update in firsts)


def _firsts(updates: list[Update]) -> Iterator[Update]:
    """The first update of each message, and those of tool calls that say what is done."""
    seen: set[Message] = set()
    for update in updates:
        message = update.view.message_of(update)
        if message not in seen if message is not None else update.body.get("title") is not None:
            yield update
        if message is not None:
            seen.add(message)


def _last_told(replay: Replay, work: Work) -> Update | None:
    """The last message of the past that the window told before the work began."""
    told = [u for u in replay.updates if u.seq < work.seq and replay.view.is_replayed(u)]
    return told[-1] if told else None


def _all_ended(replay: Replay) -> bool:
    """Whether the last prompt before the resume was surely worked off: its work was seen to end, on a connection
    that still lives."""
    last = replay.view.session.submission_before(replay.seq)
    if last is None or last.work is None or last.work.ended_at > replay.seq:
        return False
    return all(view.work_at(replay.seq) is None for view in replay.view.session.views)


def works_by_itself(replay: Replay) -> bool:
    """Whether the agent has shown that it works unasked: work that no prompt began, or a background list that is
    not empty."""
    session = replay.view.session
    return session.first_background < replay.closes or session.first_unasked_work < replay.seq


def _asked_permission(replay: Replay) -> Verdict:
    """A permission request in the window for a tool call that earlier work asked the same permission for."""
    earlier = [p for view in replay.view.session.views for p in view.permissions if p.seq < replay.seq]
    for permission in replay.view.permissions:
        if not replay.seq < permission.seq < replay.closes or not earlier:
            continue
        title = _title(permission)
        answered = (p for p in earlier if p.work is not None and p.request.answered_at < replay.seq)
        same = next((p for p in answered if _title(p) == title), None)
        if same is not None:
            yield violation(
                "permission was asked again at a replay",
                (same.request.event, "asked by earlier work"),
                asked(replay),
                (permission.request.event, "and asked again while the replay goes on"),
            )


def _title(permission: Permission) -> Any:
    return permission.request.params.get("title") if isinstance(permission.request.params, dict) else None
