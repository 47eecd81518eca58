"""Connections: begun, ended, dropped, begun again; and `initialize`, `login`."""

from typing import Any, Final

from conformance import __version__
from conformance.history import Event
from conformance.scenario import sight
from conformance.scenario.actors import Actor
from conformance.scenario.needs import CAPABILITY, missing_capability
from conformance.scenario.shapes import Choice, Flag, Json, Key, Name, NewName, Number, Table, Text
from conformance.scenario.stage import Stage, pause
from conformance.scenario.stops import Broken, NotApplicable
from conformance.scenario.table import Given, verb
from conformance.scenario.verbs.keys import AFTER, AS, BY

VERSION: Final = 2
INFO: Final = {"name": "acp-conformance", "title": "ACP conformance suite", "version": __version__}
UNSUPPORTED_VERSION: Final = -32022

WITH: Final = Key(
    Table(
        "`with`",
        {
            "version": Key(Number("a number"), "The protocolVersion to ask for, 2 by default"),
            "info": Key(Json(), "The client's info"),
            "capabilities": Key(Json(), "The client's capabilities"),
        },
    ),
    "What differs from the ordinary `initialize`",
)


@verb(
    "connect",
    "Starts the agent, or dials it, and initializes the connection",
    {
        "as": Key(NewName("connection"), "The name of the connection, and of the client behind it", required=True),
        "with": WITH,
        "initialize": Key(Flag(), "false: leave `initialize` to a later step"),
    },
    short="as",
)
async def connect(stage: Stage, given: Given) -> None:
    name = given["as"]
    earlier = stage.actors.get(name)
    if earlier is not None and earlier.is_open and not earlier.client.connection.ended.is_set():
        raise Broken(f"the connection {name!r} is open already; a mistake of the scenario")
    lives = earlier.lives + 1 if earlier is not None else 1
    client = await stage.begin(name if lives == 1 else f"{name}#{lives}")
    stage.actors[name] = actor = Actor(name, client, lives)
    if given.get("initialize", True):
        await initialized(stage, actor, given.get("with", {}))


@verb(
    "initialize",
    "Sends `initialize` and waits for its answer",
    {"by": BY, "with": WITH, "as": AS},
    short="by",
)
async def initialize(stage: Stage, given: Given) -> None:
    actor = stage.actor(given.get("by"))
    wanted = given.get("with", {})
    sent = await stage.send_request(actor, "initialize", initialize_params(wanted), alias=given.get("as"))
    event = await stage.response(
        sent, seconds=max(stage.patience, stage.setting.startup if actor.answer is None else 0)
    )
    if event is None:
        raise await stage.lost(actor, "before it answered initialize")
    if (result := sight.result_of(event)) is not None and isinstance(result, dict):
        actor.answer = result


def initialize_params(wanted: Given) -> dict[str, Any]:
    return {
        "protocolVersion": wanted.get("version", VERSION),
        "info": wanted.get("info", INFO),
        "capabilities": wanted.get("capabilities", {}),
    }


async def initialized(stage: Stage, actor: Actor, wanted: Given) -> None:
    """Initializes, and makes sure that version 2 is spoken, unless the scenario asked for another."""
    try:
        sent = await stage.send_request(actor, "initialize", initialize_params(wanted))
    except Broken:  # an agent that ends at once may do so before or after it is written to
        raise await _unanswered(stage, actor) from None
    await stage.until_answered(sent, stage.setting.startup)
    if sent.response is None:
        raise await _unanswered(stage, actor)
    result = sight.result_of(sent.response)
    actor.answer = result if isinstance(result, dict) else {}
    if "version" not in wanted:
        _check_version(stage, actor, sent.response)
    for need in stage.scenario.needs:
        if need.startswith(CAPABILITY) and (why := missing_capability(need, actor.capabilities)) is not None:
            raise NotApplicable(why)


async def _unanswered(stage: Stage, actor: Actor) -> Broken:
    if await stage.has_ended(actor):
        how = stage.exit_of(actor) or "ended the connection"
        install = stage.setting.install
        hint = f"where something is missing: {install}" if install else "run the command by hand to see why"
        why = f"the agent {how} before it answered `initialize`; {hint}"
    else:
        where = "stdin and stdout" if stage.setting.is_process else "WebSocket"
        why = (
            f"the agent did not answer `initialize` within {stage.setting.startup:g} s; "
            f"is it an ACP agent over {where}, and does it need something to start?"
        )
    return Broken(why + stage.last_words(actor), unanswered=True)


def _check_version(stage: Stage, actor: Actor, response: Event) -> None:
    error = sight.error_of(response)
    if error is not None:
        raise Broken(f"the agent answered `initialize` with {sight.spoken_error(error)}{_supported(error)}")
    version = (actor.answer or {}).get("protocolVersion")
    if isinstance(version, int) and not isinstance(version, bool) and version < VERSION:
        raise Broken(
            f"the agent speaks version {version} of the protocol only, and this suite tests version {VERSION}; "
            "update the agent, or start it with the option that turns version 2 on"
        )


def _supported(error: Given) -> str:
    data = error.get("data")
    supported = data.get("supported") if error.get("code") == UNSUPPORTED_VERSION and isinstance(data, dict) else None
    return (
        f"; it supports the versions {supported}, and this suite tests version {VERSION}"
        if isinstance(supported, list)
        else ""
    )


@verb(
    "login",
    "Sends auth/login with an advertised method",
    {"by": BY, "method": Key(Text(), "The methodId; by default the first advertised method of type agent"), "as": AS},
    short="by",
)
async def login(stage: Stage, given: Given) -> None:
    actor = stage.actor(given.get("by"))
    method = given.get("method") or _login_method(actor)
    if method is None:
        raise NotApplicable("the agent advertises no authentication method of type agent")
    await stage.ask(actor, "auth/login", {"methodId": method}, alias=given.get("as"))


def _login_method(actor: Actor) -> str | None:
    methods = (actor.answer or {}).get("authMethods")
    for method in methods if isinstance(methods, list) else []:
        if isinstance(method, dict) and method.get("type") == "agent" and isinstance(method.get("methodId"), str):
            return str(method["methodId"])
    return None


@verb(
    "disconnect",
    "Ends the connection in an orderly way: stdin is closed, or the WebSocket is",
    {"by": Key(Name("connection"), "The connection", required=True), "after": AFTER},
    short="by",
)
async def disconnect(stage: Stage, given: Given) -> None:
    actor = stage.actor(given["by"])
    await pause(given.get("after", 0))
    actor.is_open = False
    await actor.client.close()


@verb(
    "cut",
    "Drops the connection without a goodbye: the process is killed, or the line is dead",
    {"by": Key(Name("connection"), "The connection", required=True), "after": AFTER},
    short="by",
)
async def cut(stage: Stage, given: Given) -> None:
    actor = stage.actor(given["by"])
    await pause(given.get("after", 0))
    actor.is_open = False
    await actor.client.cut()


@verb(
    "restart",
    "Ends the agent, starts it again with the same working folder, and initializes; its sessions must be resumed",
    {
        "by": Key(Name("connection"), "The connection, which keeps its name", required=True),
        "how": Key(
            Choice(("close", "cut"), "way"), "How the old life ends, if it has not yet: close (by default) or cut"
        ),
        "with": WITH,
    },
    short="by",
)
async def restart(stage: Stage, given: Given) -> None:
    old = stage.actor(given["by"])
    ending = [old] if stage.setting.is_process else list(stage.actors.values())  # all that one server serves
    for actor in ending:
        if actor.is_open:
            actor.is_open = False
            await (actor.client.cut() if given.get("how") == "cut" else actor.client.close())
    lives = old.lives + 1
    client = await stage.begin(f"{old.name}#{lives}", restart_of=old.conn)
    stage.actors[old.name] = actor = Actor(old.name, client, lives)
    await initialized(stage, actor, given.get("with", {}))
