"""Any method, any bytes; and how what the agent asks is answered."""

import base64
import binascii
import json
from typing import Any, Final

from conformance.history import controls
from conformance.peers import ConnectionEnded
from conformance.scenario.actors import Actor
from conformance.scenario.shapes import Choice, Either, Flag, Json, Key, ListOf, Number, Text
from conformance.scenario.stage import Stage, pause
from conformance.scenario.stops import Broken
from conformance.scenario.table import Given, verb
from conformance.scenario.verbs.keys import AFTER, AS, BY, ID

PERMISSION: Final = "session/request_permission"
ELICITATION: Final = "elicitation/create"
_POLICY: Final = Either(
    (Choice(("allow", "deny", "cancel", "hold"), "answer"), Json("table")),
    "allow, deny, cancel, hold, or a table to be sent as the result",
)


@verb(
    "request",
    "Sends any request, and does not wait for its response",
    {
        "by": BY,
        "method": Key(Text(), "The method", required=True),
        "params": Key(Json(), "Its params, whatever they are; left out where this is left out"),
        "as": AS,
        "id": ID,
        "after": AFTER,
    },
)
async def request(stage: Stage, given: Given) -> None:
    await pause(given.get("after", 0))
    params = given.get("params")
    session = params.get("sessionId") if isinstance(params, dict) else None
    await stage.send_request(
        stage.actor(given.get("by")),
        given["method"],
        params,
        alias=given.get("as"),
        id=given.get("id"),
        session=session,
    )


@verb(
    "notify",
    "Sends any notification",
    {
        "by": BY,
        "method": Key(Text(), "The method", required=True),
        "params": Key(Json(), "Its params, whatever they are"),
        "after": AFTER,
    },
)
async def notify(stage: Stage, given: Given) -> None:
    await pause(given.get("after", 0))
    await stage.notify(stage.actor(given.get("by")), given["method"], given.get("params"))


@verb(
    "send",
    "Sends any bytes as one line, a message or not",
    {
        "by": BY,
        "text": Key(Text(), "The line as text, its newline left out"),
        "json": Key(Json(), "The line as JSON"),
        "base64": Key(Text(), "The line as bytes in base64"),
        "fill": Key(
            Number("a number of characters", least=1),
            "So many characters of one string in a line of JSON, for very long lines",
        ),
        "together": Key(ListOf(Json(), least=1), "Several lines of JSON in one write"),
        "times": Key(Number("a number", least=1), "How often; once by default"),
        "torn": Key(Number("a number of bytes", least=1), "The line is written in pieces of so many bytes"),
        "ending": Key(
            Choice(("newline", "none"), "ending"), "none: no newline ends the line; only a disconnect can follow"
        ),
        "is-message": Key(
            Flag(), "true: it is a message that a client may send, so nothing of what follows is excused"
        ),
        "after": AFTER,
    },
    one_of=("text", "json", "base64", "fill", "together"),
)
async def send(stage: Stage, given: Given) -> None:
    actor = stage.actor(given.get("by"))
    await pause(given.get("after", 0))
    actor.was_provoked = actor.was_provoked or not given.get("is-message", False)
    together = given.get("together")
    lines = [_line(given).removesuffix(b"\n")] if together is None else [_json(message) for message in together]
    connection, ending = actor.client.connection, b"" if given.get("ending") == "none" else b"\n"
    try:
        for _ in range(given.get("times", 1)):
            if "torn" in given:
                connection.write_torn(b"".join(lines) + ending, given["torn"])
            else:
                connection.write_together([line + ending for line in lines])
            await connection.drain()
    except ConnectionEnded:
        raise await stage.lost(actor, "while it was sent a line") from None


def _line(given: Given) -> bytes:
    if "text" in given:
        return str(given["text"]).encode("utf-8", "surrogatepass")
    if "json" in given:
        return _json(given["json"])
    if "fill" in given:
        return (
            b'{"jsonrpc":"2.0","method":"_acp-conformance/long","params":{"text":"' + b"x" * int(given["fill"]) + b'"}}'
        )
    try:
        return base64.b64decode(given["base64"], validate=True)
    except binascii.Error as error:
        raise Broken(f"`base64` of a step is not base64: {error}; a mistake of the scenario") from None


def _json(message: Any) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")


@verb(
    "answer",
    "Says how permission and elicitation requests are answered from here on, and answers those that are held",
    {
        "by": BY,
        "permissions": Key(
            _POLICY, "How permission requests are answered: allow (at first), deny, cancel, hold, or a raw result"
        ),
        "elicitations": Key(
            _POLICY, "How elicitation requests are answered: allow (at first), deny, cancel, hold, or a raw result"
        ),
        "held": Key(_POLICY, "How the requests that are held are answered now"),
        "withdrawn": Key(
            Choice(("at-once", "hold"), "way"),
            "Whether a held request that the agent withdraws is answered at once, as at first",
        ),
        "after": AFTER,
    },
    short="permissions",
)
async def answer(stage: Stage, given: Given) -> None:
    actor = stage.actor(given.get("by"))
    await pause(given.get("after", 0))
    for key, method in (("permissions", PERMISSION), ("elicitations", ELICITATION)):
        if key in given:
            actor.client.policies[method] = given[key]
    if "withdrawn" in given:
        actor.client.answers_withdrawn = given["withdrawn"] == "at-once"
    if "held" in given:
        answer_held(stage, actor, given["held"])


def answer_held(stage: Stage, actor: Actor, policy: Any) -> None:
    """Answers what is held. Where the work was cancelled since, the lateness of the answer is on record."""
    for held in list(actor.client.held):
        if stage.was_stopped_since(held.session, held.event.seq):
            stage.record(actor.conn, controls.LATE_ANSWER, id=held.id)
    actor.client.answer_held(policy)
