"""Sessions: made, resumed, listed, configured, closed, deleted."""

from typing import Any, Final

from conformance.history import Event
from conformance.scenario import sight
from conformance.scenario.actors import Actor, Chat
from conformance.scenario.shapes import Choice, Either, Flag, Json, Key, ListOf, NewName, Number, Text
from conformance.scenario.stage import Stage
from conformance.scenario.stops import Broken, NotApplicable
from conformance.scenario.table import Given, verb
from conformance.scenario.verbs.keys import AFTER, AS, BY, ID, IN, META
from conformance.scenario.watching import Sent

AUTHENTICATION_REQUIRED: Final = -32000
_NO_WAIT: Final = Key(Flag(), "false: go on without its response")
_CWD: Final = Key(Text(), "The working folder, an absolute path; {workdir} by default")
_MOST_PAGES: Final = 50


@verb(
    "new-session",
    "Makes a session",
    {
        "by": BY,
        "as": Key(NewName("session"), "The name of the session", required=True),
        "cwd": _CWD,
        "additional-directories": Key(ListOf(Text()), "additionalDirectories"),
        "mcp-servers": Key(Json("list"), "mcpServers"),
        "meta": META,
    },
)
async def new_session(stage: Stage, given: Given) -> None:
    actor = stage.actor(given.get("by"))
    if not actor.has_sessions:
        raise NotApplicable("the agent does not advertise capabilities.session")
    cwd = given.get("cwd", str(stage.setting.workdir))
    sent = await stage.send_request(actor, "session/new", _setup(given, cwd))
    response = await stage.answered(actor, sent)
    result = sight.result_of(response)
    identifier = result.get("sessionId") if isinstance(result, dict) else None
    if not isinstance(identifier, str):
        raise _no_session(stage, response)
    alias = given["as"]
    chat = Chat(alias, identifier, cwd, stage.unique(alias), actor.name, sent.seq, openings={actor.conn: sent})
    chat.result = result if isinstance(result, dict) else {}
    stage.chats[alias] = chat


def _setup(given: Given, cwd: str) -> dict[str, Any]:
    params: dict[str, Any] = {"cwd": cwd}
    if "additional-directories" in given:
        params["additionalDirectories"] = list(given["additional-directories"])
    if "mcp-servers" in given:
        params["mcpServers"] = given["mcp-servers"]
    if "meta" in given:
        params["_meta"] = given["meta"]
    return params


def _no_session(stage: Stage, response: Event) -> Exception:
    error = sight.error_of(response)
    if error is None:
        return stage.not_brought_about("session/new was answered with no sessionId")
    if error.get("code") == AUTHENTICATION_REQUIRED:
        return Broken(
            f"the agent wants a login before it makes a session ({sight.spoken_error(error)}); "
            "log in once with the agent's own command, or use a profile whose [model] and [agent] env need no account"
        )
    return stage.not_brought_about(f"session/new was answered with {sight.spoken_error(error)}")


@verb(
    "resume",
    "Resumes a session on a connection, with replay or without",
    {
        "by": BY,
        "in": IN,
        "replay": Key(
            Either(
                (Choice(("start", "none"), "replay"), Json("table")), "start, none, or a table to be sent as replayFrom"
            ),
            "start: all that is kept; none (by default): nothing; a table is sent as replayFrom",
        ),
        "as": AS,
        "cwd": _CWD,
        "additional-directories": Key(ListOf(Text()), "additionalDirectories"),
        "mcp-servers": Key(Json("list"), "mcpServers"),
        "id": ID,
        "wait": _NO_WAIT,
        "after": AFTER,
        "meta": META,
    },
    short="in",
)
async def resume(stage: Stage, given: Given) -> None:
    actor, chat = stage.actor(given.get("by")), stage.chat(given["in"])
    params = {"sessionId": chat.id, **_setup(given, given.get("cwd", chat.cwd))}
    replay = given.get("replay", "none")
    if replay != "none":
        params["replayFrom"] = {"type": "start"} if replay == "start" else replay
    sent = await stage.about_session(actor, chat, "session/resume", params, given)
    if given.get("wait", True):
        response = await stage.answered(actor, sent)
        result = sight.result_of(response)
        if isinstance(result, dict):
            chat.openings[actor.conn], chat.result = sent, {**chat.result, **result}
        elif "as" not in given:  # nobody asks how it ended, so it was meant to succeed
            error = sight.error_of(response) or {}
            raise stage.not_brought_about(f"session/resume was answered with {sight.spoken_error(error)}")
    else:
        chat.openings[actor.conn] = sent


@verb(
    "close",
    "Closes a session",
    {"by": BY, "in": IN, "as": AS, "id": ID, "wait": _NO_WAIT, "after": AFTER},
    short="in",
)
async def close(stage: Stage, given: Given) -> None:
    actor, chat = stage.actor(given.get("by")), stage.chat(given["in"])
    await _wait(
        stage, given, actor, await stage.about_session(actor, chat, "session/close", {"sessionId": chat.id}, given)
    )


@verb(
    "delete",
    "Deletes a session",
    {"by": BY, "in": IN, "as": AS, "id": ID, "wait": _NO_WAIT, "after": AFTER},
    short="in",
)
async def delete(stage: Stage, given: Given) -> None:
    actor, chat = stage.actor(given.get("by")), stage.chat(given["in"])
    await _wait(
        stage, given, actor, await stage.about_session(actor, chat, "session/delete", {"sessionId": chat.id}, given)
    )


async def _wait(stage: Stage, given: Given, actor: Actor, sent: Sent) -> None:
    if given.get("wait", True):
        await stage.answered(actor, sent)


@verb(
    "list",
    "Lists the sessions, page after page",
    {
        "by": BY,
        "as": AS,
        "cwd": Key(Text(), "Only sessions of this working folder"),
        "pages": Key(Number("a number of pages", least=1), f"The most pages to ask for; {_MOST_PAGES} by default"),
    },
    short="by",
)
async def list_(stage: Stage, given: Given) -> None:
    actor = stage.actor(given.get("by"))
    params: dict[str, Any] = {"cwd": given["cwd"]} if "cwd" in given else {}
    for _ in range(given.get("pages", _MOST_PAGES)):
        response = await stage.ask(actor, "session/list", params, alias=given.get("as"))
        result = sight.result_of(response)
        cursor = result.get("nextCursor") if isinstance(result, dict) else None
        if not isinstance(cursor, str):
            return
        params = {**params, "cursor": cursor}


@verb(
    "set-config",
    "Sets a config option of the session to another of its values",
    {
        "by": BY,
        "in": IN,
        "option": Key(Text(), "The configId; by default the first option that has another value"),
        "value": Key(Json(), "The value, whatever it is; by default one that the option offers and does not have"),
        "type": Key(Choice(("id", "boolean"), "type", ".*"), "The type of the value; by default that of the option"),
        "again": Key(Flag(), "true: the value that the option has already"),
        "as": AS,
        "id": ID,
    },
    short="in",
)
async def set_config(stage: Stage, given: Given) -> None:
    actor, chat = stage.actor(given.get("by")), stage.chat(given["in"])
    found = _value_for(chat, given.get("option"), again=given.get("again", False))
    if found is None and not ("option" in given and "value" in given):
        raise stage.not_brought_about("the session has no config option with another value")
    option, kind, value = found or (given["option"], "id", None)
    params = {
        "sessionId": chat.id,
        "configId": given.get("option", option),
        "type": given.get("type", kind),
        "value": given.get("value", value),
    }
    response = await stage.answered(
        actor, await stage.about_session(actor, chat, "session/set_config_option", params, given)
    )
    result = sight.result_of(response)
    if isinstance(result, dict) and isinstance(result.get("configOptions"), list):
        chat.result = {**chat.result, "configOptions": result["configOptions"]}  # what is on record stays as it was


def _value_for(chat: Chat, wanted: str | None, *, again: bool) -> tuple[str, str, Any] | None:
    """(configId, type, value): a value that an option offers and does not have, or (`again`) the one that it has."""
    options = chat.result.get("configOptions")
    for option in options if isinstance(options, list) else []:
        if (
            not isinstance(option, dict)
            or not isinstance(identifier := option.get("configId"), str)
            or wanted not in (None, identifier)
        ):
            continue
        if option.get("type") == "boolean" and isinstance(current := option.get("currentValue"), bool):
            return identifier, "boolean", current if again else not current
        for value in _values(option.get("options")):
            if (value == option.get("currentValue")) is again:
                return identifier, "id", value
    return None


def _values(options: Any) -> list[str]:
    """The values of a select, those of its groups among them."""
    found: list[str] = []
    for option in options if isinstance(options, list) else []:
        if isinstance(option, dict):
            if isinstance(value := option.get("value"), str):
                found.append(value)
            found.extend(_values(option.get("options")))
    return found
