"""Prompts, commands of the profile, and what cancels them. Each prompt carries a nonce of its own, so that its message
is recognised."""

import re
from collections.abc import Mapping
from typing import Any, Final

from conformance.history import controls
from conformance.model import Reply, ScriptedModel
from conformance.profile import TRIGGERS
from conformance.scenario.actors import Actor, Chat
from conformance.scenario.needs import TRIGGER, missing
from conformance.scenario.shapes import Choice, Flag, Id, Json, Key, ListOf, Name, Number, Text
from conformance.scenario.stage import Stage, pause
from conformance.scenario.stops import NotApplicable
from conformance.scenario.table import Given, verb
from conformance.scenario.verbs.keys import AFTER, AS, BY, ID, IN, META

DEFAULT_TEXT: Final = "Answer with one word."
_MARKERS: Final = {"image": "image", "audio": "audio", "resource": "embeddedContext"}
_BASELINE: Final = ("text", "resource_link")


@verb(
    "prompt",
    "Sends a prompt, and does not wait for anything",
    {
        "by": BY,
        "in": IN,
        "text": Key(Text(), f'The text; "{DEFAULT_TEXT}" by default. A nonce is added to it'),
        "blocks": Key(Json("list"), "Content blocks in place of the text; a text block with the nonce is added"),
        "fill": Key(
            Number("a number of characters", least=1),
            "So many characters of text, for very long prompts; beside `blocks` a block more",
        ),
        "nonce": Key(Flag(), "false: send the text or the blocks as they are"),
        "same-as": Key(Name("request"), "Repeats an earlier prompt to the letter, its nonce included"),
        "session-id": Key(Text(), "A sessionId to be sent in place of the session's: the agent must refuse the prompt"),
        "refusable": Key(Text(), "Why the agent may refuse it for its own sake, where that is not plain"),
        "as": AS,
        "id": ID,
        "meta": META,
        "unread": Key(
            Flag(), "true: nothing of what the agent writes from here on is read; only a cut or a restart can follow"
        ),
        "after": AFTER,
    },
    short="in",
)
async def prompt(stage: Stage, given: Given) -> None:
    actor, chat = stage.actor(given.get("by")), stage.chat(given["in"])
    earlier = stage.request_named(given["same-as"]) if "same-as" in given else None
    if earlier is not None:
        blocks = stage.blocks[earlier.alias]
        nonce = earlier.nonce or _nonce_in(blocks)  # one that repeats another has none of its own
    else:
        nonce = stage.new_nonce() if given.get("nonce", True) else None
        blocks = _blocks(given, nonce)
    params: dict[str, Any] = {"sessionId": given.get("session-id", chat.id), "prompt": blocks}
    if "meta" in given:
        params["_meta"] = given["meta"]
    await pause(given.get("after", 0))
    await _submit(stage, actor, given, params, nonce=nonce, exact=earlier is not None)


def _nonce_in(blocks: list[Any]) -> str | None:
    text = blocks[-1].get("text") if blocks and isinstance(blocks[-1], dict) else None
    found = re.search(r"\[(acp-[0-9a-f]{10})\]\Z", text) if isinstance(text, str) else None
    return found[1] if found is not None else None


def _blocks(given: Given, nonce: str | None) -> list[Any]:
    mark = f"[{nonce}]"
    if "blocks" in given:
        blocks = list(given["blocks"])
        if "fill" in given:
            blocks.append({"type": "text", "text": _filler(DEFAULT_TEXT, given["fill"])})
        return [*blocks, {"type": "text", "text": mark}] if nonce is not None and blocks else blocks
    text = given.get("text", DEFAULT_TEXT)
    if "fill" in given:
        text = _filler(text, given["fill"])
    return [{"type": "text", "text": f"{text} {mark}" if nonce is not None else text}]


def _filler(text: str, length: int) -> str:
    return (f"{text} These lines say nothing.\n" * (length // len(text) + 1))[:length]


@verb(
    "command",
    "Sends a command of the agent: a prompt of the profile, word for word, or one that the agent advertises",
    {
        "by": BY,
        "in": IN,
        "trigger": Key(Choice(tuple(TRIGGERS), "trigger"), "A trigger of the profile"),
        "advertised": Key(
            ListOf(Text(), least=1),
            "Names of commands, without the slash; the first one that the agent advertises is sent",
        ),
        "as": AS,
        "id": ID,
        "after": AFTER,
    },
    one_of=("trigger", "advertised"),
)
async def command(stage: Stage, given: Given) -> None:
    actor, chat, trigger = stage.actor(given.get("by")), stage.chat(given["in"]), given.get("trigger")
    text = _advertised(stage, actor, chat, given) if trigger is None else _of_profile(stage, trigger)
    if trigger == "permission" and stage.model is not None:
        _let_the_model_ask(stage.model, chat, text)
    params = {"sessionId": chat.id, "prompt": [{"type": "text", "text": text}]}
    await pause(given.get("after", 0))
    await _submit(stage, actor, given, params, trigger=trigger)


def _of_profile(stage: Stage, trigger: str) -> str:
    if trigger not in stage.setting.triggers:
        raise NotApplicable(missing(TRIGGER + trigger, stage.setting) or "")
    return stage.setting.triggers[trigger]


def _let_the_model_ask(model: ScriptedModel, chat: Chat, text: str) -> None:
    """An agent asks for permission by itself, or when its model, to which it passes the prompt on, calls a tool."""
    model.expect(text, group=chat.group)
    model.script(text, [Reply("call-tool", effect="made-by-the-trigger", times=1)])


def _advertised(stage: Stage, actor: Actor, chat: Chat, given: Given) -> str:
    known = stage.commands_of(actor, chat)
    name = next((name for name in given["advertised"] if name in known), None)
    if name is None:
        raise stage.not_brought_about(f"the agent advertises none of the commands {', '.join(given['advertised'])}")
    return f"/{name}"


async def _submit(
    stage: Stage,
    actor: Actor,
    given: Given,
    params: dict[str, Any],
    *,
    nonce: str | None = None,
    exact: bool = False,
    trigger: str | None = None,
) -> None:
    chat, alias = stage.chat(given["in"]), given.get("as", "prompt")
    refusable = given.get("refusable") or why_refusable(actor, params, chat.id, trigger)
    if stage.model is not None and nonce is not None:
        stage.model.expect(nonce, group=chat.group)
    if given.get("unread"):
        actor.is_deaf = True
        actor.client.connection.turn_deaf()

    def record(number: Any) -> None:
        facts = {"nonce": nonce, "alias": alias, "trigger": trigger, "exact": exact, "refusable": refusable}
        stage.record(actor.conn, controls.SUBMITS, id=number, session=params["sessionId"], **facts)

    sent = await stage.send_request(
        actor,
        "session/prompt",
        params,
        alias=alias,
        id=given.get("id"),
        session=params["sessionId"],
        nonce=None if exact else nonce,
        before=record,
    )
    stage.blocks[sent.alias] = params["prompt"]
    if params["sessionId"] == chat.id:
        chat.prompt, chat.last_actor, chat.used = sent, actor.name, sent.seq


def why_refusable(actor: Actor, params: Mapping[str, Any], session: str, trigger: str | None) -> str | None:
    """Why an agent may or must refuse this prompt for its own sake; None for a prompt that it has no reason to
    refuse."""
    if trigger == "fail-before-insertion":
        return "the profile's prompt that the agent refuses"
    if params["sessionId"] != session:
        return "the session is unknown"
    if not params["prompt"]:
        return "the prompt is empty"
    for block in params["prompt"]:
        kind = block.get("type") if isinstance(block, dict) else None
        if not isinstance(kind, str):
            return "a block has no type"
        if kind in _MARKERS:
            if not actor.advertises(f"session.prompt.{_MARKERS[kind]}"):
                return f"{kind} blocks are not advertised"
        elif kind not in _BASELINE:
            return f"{kind} is no known type of block"
    return None


@verb(
    "cancel",
    "Sends session/cancel: the session's foreground work is to stop",
    {"by": BY, "in": IN, "after": AFTER},
    short="in",
)
async def cancel(stage: Stage, given: Given) -> None:
    actor, chat = stage.actor(given.get("by")), stage.chat(given["in"])
    await pause(given.get("after", 0))
    await stage.notify(actor, "session/cancel", {"sessionId": chat.id})


@verb(
    "cancel-request",
    "Sends $/cancel_request for a request, answered or not",
    {
        "by": BY,
        "of": Key(Name("request"), "The prompt or request"),
        "id": Key(Id(), "A JSON-RPC id in its place, also one that was never used"),
        "after": AFTER,
    },
    short="of",
    one_of=("of", "id"),
)
async def cancel_request(stage: Stage, given: Given) -> None:
    identifier = stage.request_named(given["of"]).id if "of" in given else given["id"]
    await pause(given.get("after", 0))
    await stage.notify(stage.actor(given.get("by")), "$/cancel_request", {"requestId": identifier})
