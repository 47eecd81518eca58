"""The scripted model: what it does when it is asked, from here on or a number of times."""

from typing import Any, Final

from conformance.model import AUTO, Reply
from conformance.scenario.shapes import Choice, Either, Flag, Json, Key, ListOf, Name, Number, Shape, Table, Text
from conformance.scenario.stage import Stage
from conformance.scenario.stops import NotApplicable
from conformance.scenario.table import Given, verb

_CHUNKS: Final = Key(ListOf(Text()), "Pieces of text that are streamed before it happens")
_TIMES: Final = Key(
    Either((Choice(("always",), "number"), Number("a number", least=1)), "a number or always"), "For how many requests"
)
_STATUS: Final = Number("an HTTP status", least=100)

_KINDS: Final[dict[str, Key]] = {
    "say": Key(Text(), "Answers with this text"),
    "stream": Key(
        Either(
            (ListOf(Text(), least=1), Number("a number of pieces", least=1)), "a list of pieces, or a number of them"
        ),
        "Answers with these pieces, one by one, or with so many",
    ),
    "think": Key(Text(), "Answers with this reasoning, then a sentence"),
    "call-tool": Key(
        Either(
            (
                Choice((AUTO,), "tool", ".+"),
                Table(
                    "`call-tool`",
                    {
                        "name": Key(Text(), "The tool; by default whichever runs a command"),
                        "arguments": Key(Json("table"), "Its arguments; for a command {command: ...}"),
                        "effect": Key(
                            Text(),
                            "A file that the command is to create: where it is there later, that is on record",
                        ),
                        "text": Key(Text(), "What is said before it"),
                    },
                ),
            ),
            "auto, the name of a tool, or a table",
        ),
        "Calls a tool of the agent, once",
    ),
    "stall": Key(Flag(), "Does not answer until it is released"),
    "fail": Key(
        Either(
            (_STATUS, Table("`fail`", {"status": Key(_STATUS, "The HTTP status"), "times": _TIMES, "chunks": _CHUNKS})),
            "a status or a table",
        ),
        "Answers with this HTTP status",
    ),
    "drop": Key(Flag(), "Drops the line in mid-stream"),
    "end-early": Key(Flag(), "Ends the stream without its last events"),
    "garbage": Key(Flag(), "Answers with what nobody can read"),
}
_HOW: Final[dict[str, Key]] = {
    "times": _TIMES,
    "delay": Key(Number("a number of milliseconds", fraction=True), "Milliseconds before each piece of `stream`"),
    "chunks": _CHUNKS,
}
_REPLY: Final[Shape] = Table("a reply", {**_KINDS, **_HOW}, one_of=tuple(_KINDS))


@verb(
    "model",
    "Says what the scripted model does when it is asked",
    {
        "in": Key(Name("session"), "For the requests of a session; without `in` and `for`: for all"),
        "for": Key(Name("request"), "For the requests of one prompt"),
        **_KINDS,
        **_HOW,
        "replies": Key(ListOf(_REPLY, least=1), "Several replies, one after the other"),
        "release": Key(Flag(), "true: what it holds goes on"),
        "optional": Key(Flag(), "true: the step is left out where the target has no scripted model"),
    },
    one_of=(*_KINDS, "replies", "release"),
)
async def model(stage: Stage, given: Given) -> None:
    if stage.model is None and given.get("optional"):
        return
    if stage.model is None:
        raise NotApplicable("it needs the scripted model, and the profile has no [model]")
    key: str | None = None
    if "for" in given:
        key = stage.request_named(given["for"]).nonce
    elif "in" in given:
        key = stage.chat(given["in"]).group
    if "release" in given:
        stage.model.release(key)
        return
    replies = [reply(one) for one in given["replies"]] if "replies" in given else [reply(given)]
    stage.effects.update({each.effect for each in replies if each.effect is not None})
    stage.model.script(key, replies)


def reply(given: Given) -> Reply:
    kind = next(kind for kind in _KINDS if kind in given)
    value = given[kind]
    how: dict[str, Any] = {"chunks": tuple(given.get("chunks", ())), "delay": given.get("delay", 0) / 1000}
    times = given.get("times", 1 if kind in ("call-tool", "stall") else "always")
    match kind:
        case "say" | "think":
            how["text"] = value
        case "stream":
            how["chunks"] = (
                tuple(value) if isinstance(value, tuple) else tuple(f"word {n} " for n in range(1, value + 1))
            )
        case "call-tool" if isinstance(value, str):
            how["tool"] = value
        case "call-tool":
            how |= {"tool": value.get("name", AUTO), "arguments": value.get("arguments", {})}
            how |= {"effect": value.get("effect"), "text": value.get("text")}
        case "fail" if isinstance(value, dict):
            times = value.get("times", times)
            how |= {"status": value.get("status", 500), "chunks": tuple(value.get("chunks", how["chunks"]))}
        case "fail":
            how["status"] = value
    return Reply(kind, times=None if times == "always" else times, **how)  # type: ignore[arg-type]
