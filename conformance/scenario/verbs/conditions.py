"""What a step can wait for: responses, the end of work, updates, requests of the agent, requests to the model.

Each looks at what came since the last prompt (or resume) of its session, so it does not matter whether it came
before the step began. Where the work ends first, what only work brings is not waited for any longer.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from conformance.history import Event, controls
from conformance.scenario import sight
from conformance.scenario.actors import Actor, Chat
from conformance.scenario.needs import CAPABILITY, missing_capability
from conformance.scenario.shapes import Choice, ListOf, Name, Text
from conformance.scenario.stage import Stage
from conformance.scenario.table import Given, condition
from conformance.scenario.verbs.views import actor_of, chat_of
from conformance.scenario.watching import ENDED, Ending, MessageWatch, Met, Missed, Sent, WorkWatch

_KINDS: Final = (
    *(
        "user_message",
        "user_message_chunk",
        "agent_message",
        "agent_message_chunk",
        "agent_thought",
        "agent_thought_chunk",
    ),
    *(
        "state_update",
        "tool_call_update",
        "tool_call_content_chunk",
        "terminal_update",
        "terminal_output_chunk",
        "plan_update",
    ),
    *("available_commands_update", "config_option_update", "session_info_update", "usage_update", "notice"),
    *("compaction_update", "compaction_summary_chunk"),
)
_STATES: Final = ("running", "idle", "requires_action")
_STATUSES: Final = ("pending", "in_progress", "paused", "completed", "failed", "cancelled")
_REQUESTS: Final = ("session/request_permission", "elicitation/create")
_SETTLING: Final = 2  # quiet windows after an idle that may belong to other work; one where it surely does not


class _Clock:
    """The seconds that are left of a wait with several parts."""

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + seconds
        self.seconds = seconds

    @property
    def left(self) -> float:
        return max(0.0, self._deadline - self._loop.time())


# -- responses


async def _responses(stage: Stage, aliases: tuple[str, ...], seconds: float) -> Missed | None:
    """None once all are there."""
    clock, began = _Clock(seconds), stage.now
    missing: list[Sent] = []
    for sent in [stage.request_named(alias) for alias in aliases]:
        await stage.until_answered(sent, clock.left)
        if sent.response is None:
            if clock.left > 0:
                return Missed(ENDED, False, sent.conn)
            missing.append(sent)
    for sent in missing:
        await stage.out_of_patience(sent.conn, "response", seconds, began, id=sent.id, session=sent.session)
    if not missing:
        return None
    return Missed(f"{missing[0].method} ({missing[0].alias}) was not answered", True, missing[0].conn)


@condition("response", "The response to a prompt or request, or to all of several", Name("request", many=True))
async def response(stage: Stage, given: Given, seconds: float) -> Met | Missed:
    return await _responses(stage, given["response"], seconds) or Met()


@condition("accepted", "All of them are answered with success", Name("request", many=True), waits=False)
async def accepted(stage: Stage, given: Given, seconds: float) -> Met | Missed:
    return await _responses(stage, given["accepted"], seconds) or _answered(stage, given["accepted"], with_error=False)


@condition("refused", "All of them are answered with an error", Name("request", many=True), waits=False)
async def refused(stage: Stage, given: Given, seconds: float) -> Met | Missed:
    return await _responses(stage, given["refused"], seconds) or _answered(stage, given["refused"], with_error=True)


def _answered(stage: Stage, aliases: tuple[str, ...], *, with_error: bool) -> Met | Missed:
    for sent in [stage.request_named(alias) for alias in aliases]:
        error = sight.error_of(sent.response) if sent.response is not None else None
        if (error is not None) is not with_error:
            what = f"with {sight.spoken_error(error)}" if error is not None else "with success"
            return Missed(f"{sent.method} ({sent.alias}) was answered {what}", False, sent.conn)
    return Met()


@condition("pending", "None of them is answered yet", Name("request", many=True), waits=False)
async def pending(stage: Stage, given: Given, seconds: float) -> Met | Missed:
    for sent in [stage.request_named(alias) for alias in given["pending"]]:
        if sent.response is not None:
            return Missed(f"{sent.method} ({sent.alias}) was answered already", False, sent.conn)
    return Met()


@condition("capability", "The agent advertises it: a path below capabilities, like session.delete", Text(), waits=False)
async def capability(stage: Stage, given: Given, seconds: float) -> Met | Missed:
    actor = actor_of(stage, given)
    why = missing_capability(CAPABILITY + given["capability"], actor.capabilities)
    return Met() if why is None else Missed(why, False, actor.conn)


# -- work


async def _of_work(
    stage: Stage,
    chat: Chat,
    actor: Actor,
    wanted: Callable[[Event], bool],
    what: str,
    given: Given,
    seconds: float,
    *,
    prompt: Sent | None = None,
) -> Met | Missed:
    """Waits for an event that only work brings; not longer than the work lasts, unless the step says `beyond-idle`."""
    clock, began = _Clock(seconds), stage.now
    watch = stage.work_watch(chat, actor.conn, prompt)
    ended = actor.client.connection.ended
    may_end = not given.get("beyond-idle")
    start = watch.mark + 1
    found: list[Event] = []

    def hear(event: Event) -> bool:
        if wanted(event):
            found.append(event)
            return True
        before = watch.is_decided
        watch.feed(event)
        return watch.is_decided is not before

    while clock.left > 0 and not found:
        settling = watch.is_decided and may_end
        share = 1 if watch.ending is Ending.OVER else _SETTLING
        patience = min(clock.left, share * stage.quiet_seconds(actor)) if settling else clock.left
        event = await stage.waits.until(hear, since=start, patience=patience, ended=ended)
        if event is not None:
            start = event.seq + 1
        elif ended.is_set():
            return Missed(ENDED, False, actor.conn)
        elif settling and watch.is_decided:
            return Missed(f"the work ended without {what}", False, actor.conn)
    if found:
        return Met(found[0])
    await stage.out_of_patience(actor.conn, what, seconds, began, session=chat.id)
    return Missed(f"{what} did not come", True, actor.conn)


async def _until_over(stage: Stage, watch: WorkWatch, actor: Actor, clock: _Clock) -> bool:
    """Whether the work that `watch` follows has ended, waiting for it as long as the clock allows."""
    start, ended = watch.mark + 1, actor.client.connection.ended

    def hear(event: Event) -> bool:
        before = (watch.is_decided, watch.ending)
        watch.feed(event)
        return (watch.is_decided, watch.ending) != before

    while watch.ending is not Ending.OVER:
        settling = watch.is_decided
        patience = min(clock.left, _SETTLING * stage.quiet_seconds(actor)) if settling else clock.left
        event = await stage.waits.until(hear, since=start, patience=patience, ended=ended)
        if event is None:
            return settling and not ended.is_set()
        start = event.seq + 1
    return True


@condition(
    "idle",
    "The work that the latest prompt began (or the one named by `after`) has ended in idle",
    Name("session", many=True),
)
async def idle(stage: Stage, given: Given, seconds: float) -> Met | Missed:
    clock, began = _Clock(seconds), stage.now
    for chat in [stage.chat(alias) for alias in given["idle"]]:
        actor = actor_of(stage, given, chat)
        prompt = stage.request_named(given["after"]) if "after" in given else None
        if not await _until_over(stage, stage.work_watch(chat, actor.conn, prompt), actor, clock):
            if actor.client.connection.ended.is_set():
                return Missed(ENDED, False, actor.conn)
            await stage.out_of_patience(actor.conn, "idle", seconds, began, session=chat.id)
            return Missed(f"the work of {chat.alias} did not end", True, actor.conn)
    return Met()


class _Count:
    """Counts until the `times` of the step are reached."""

    def __init__(self, given: Given) -> None:
        self._left = int(given.get("times", 1))

    def __call__(self, is_one: bool) -> bool:
        self._left -= is_one
        return self._left <= 0


async def _an_update(
    stage: Stage, chat: Chat, is_one: Callable[[dict[str, Any]], bool], what: str, given: Given, seconds: float
) -> Met | Missed:
    """Waits for an update of the session that `is_one` accepts, or `times` of them, as long as its work lasts."""
    actor = actor_of(stage, given, chat)
    return await _of_work(stage, chat, actor, _times(given, chat, actor, is_one), what, given, seconds)


def _times(given: Given, chat: Chat, actor: Actor, is_one: Callable[[dict[str, Any]], bool]) -> Callable[[Event], bool]:
    """Whether, by an event, `times` updates of the session that `is_one` accepts have come on the connection."""
    count = _Count(given)

    def wanted(event: Event) -> bool:
        found = sight.update(event) if event.conn == actor.conn else None
        return count(found is not None and found[0] == chat.id and is_one(found[1]))

    return wanted


@condition(
    "state",
    "The session's state is, or has been since the latest prompt, one of these",
    ListOf(Choice(_STATES, "state", "_.*"), or_one=True),
)
async def state(stage: Stage, given: Given, seconds: float) -> Met | Missed:
    chat = chat_of(stage, given)
    actor = actor_of(stage, given, chat)
    if "times" not in given and stage.state(actor.conn, chat.id) in given["state"]:
        return Met()
    what = f"the state {' or '.join(given['state'])}"
    return await _an_update(stage, chat, lambda body: sight.state_of(body) in given["state"], what, given, seconds)


@condition(
    "begun",
    "There is a sign of work since the latest prompt: a busy state, output, or its end already",
    Name("session"),
)
async def begun(stage: Stage, given: Given, seconds: float) -> Met | Missed:
    def is_sign(body: dict[str, Any]) -> bool:
        return sight.state_of(body) is not None or sight.kind_of(body) in sight.OUTPUT

    return await _an_update(stage, stage.chat(given["begun"]), is_sign, "a sign of work", given, seconds)


@condition(
    "update",
    "An update of one of these kinds since the latest prompt or resume; `times` of them",
    ListOf(Choice(_KINDS, "kind of update", "_.*"), or_one=True),
)
async def update(stage: Stage, given: Given, seconds: float) -> Met | Missed:
    what = f"an update {' or '.join(given['update'])}"
    return await _an_update(
        stage, chat_of(stage, given), lambda body: sight.kind_of(body) in given["update"], what, given, seconds
    )


@condition(
    "tool",
    "A tool call in one of these statuses since the latest prompt",
    ListOf(Choice(_STATUSES, "status", "_.*"), or_one=True),
)
async def tool(stage: Stage, given: Given, seconds: float) -> Met | Missed:
    what = f"a tool call that is {' or '.join(given['tool'])}"
    return await _an_update(
        stage, chat_of(stage, given), lambda body: sight.tool_status(body) in given["tool"], what, given, seconds
    )


@condition(
    "finished",
    "A tool call or a terminal has come to its end since the latest prompt: a final status, or an exit status",
    Name("session"),
)
async def finished(stage: Stage, given: Given, seconds: float) -> Met | Missed:
    what = "the end of a tool call or terminal"
    return await _an_update(stage, stage.chat(given["finished"]), sight.is_finish, what, given, seconds)


@condition("message", "The user message that a prompt became is reported, on the connection `by`", Name("request"))
async def message(stage: Stage, given: Given, seconds: float) -> Met | Missed:
    sent = stage.request_named(given["message"])
    chat = next((chat for chat in stage.chats.values() if chat.id == sent.session), None)
    if chat is None:
        return Missed("its session is not known", False, sent.conn)
    actor = actor_of(stage, given, chat)
    watch = MessageWatch(sent, actor.conn)
    return await _of_work(
        stage, chat, actor, watch.feed, f"the user message of {sent.alias}", given, seconds, prompt=sent
    )


@condition(
    "request",
    "A request of the agent, like session/request_permission, since the latest prompt",
    Choice(_REQUESTS, "request", "[_$a-z].*"),
)
async def request(stage: Stage, given: Given, seconds: float) -> Met | Missed:
    chat = chat_of(stage, given)
    actor = actor_of(stage, given, chat)
    count = _Count(given)

    def wanted(event: Event) -> bool:
        asked = sight.request_of(event) if event.conn == actor.conn else None
        return count(
            asked is not None and asked[0] == given["request"] and sight.session_in(asked[1]) in (None, chat.id)
        )

    return await _of_work(stage, chat, actor, wanted, f"a request {given['request']}", given, seconds)


@condition("exit", "The agent's process has exited, or its server has hung up", Name("connection"))
async def exit_(stage: Stage, given: Given, seconds: float) -> Met | Missed:
    actor, began = stage.actor(given["exit"]), stage.now
    event = await stage.waits.until(lambda event: sight.ends(event, actor.conn), since=0, patience=seconds)
    if event is not None:
        return Met(event)
    await stage.out_of_patience(actor.conn, "exit", seconds, began)
    return Missed("the agent did not exit", True, actor.conn)


# -- the scripted model


@condition(
    "model-request",
    "The scripted model was asked for a prompt (or for a session); `times` times since it was sent",
    Name("request", also="session"),
)
async def model_request(stage: Stage, given: Given, seconds: float) -> Met | Missed:
    name = given["model-request"]
    sent: Sent | None = stage.sent.get(name)
    chat = stage.chats.get(name) or next(
        (chat for chat in stage.chats.values() if sent is not None and chat.id == sent.session), None
    )
    if chat is None:
        return Missed("its session is not known", False)
    actor = actor_of(stage, given, chat)
    count, since = _Count(given), sent.seq if sent is not None else chat.used
    nonce = sent.nonce if sent is not None else None

    def wanted(event: Event) -> bool:
        about = event.control if event.name == controls.MODEL_REQUEST and event.seq > since else None
        if about is None or about.get("side"):
            return False
        return count(about.get("nonce") == nonce if nonce is not None else about.get("group") == chat.group)

    return await _of_work(stage, chat, actor, wanted, "a request to the model", given, seconds, prompt=sent)
