"""Sequences that mutation or shrinking has made, brought into order again: no step names what is not there, none needs
what the target does not offer."""

import re
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, Final

from conformance.fuzz.world import World
from conformance.fuzz.writing import Steps

_NAMING: Final = ("of", "same-as", "response", "message", "model-request", "for")  # keys whose value names a request
_ALIASES: Final = frozenset({"as", "in", "begun", "idle", *_NAMING})
_IN_BRACES: Final = re.compile(r"(?<=\{session\.)[^}.]+")


def fitting(steps: Steps, world: World) -> Steps:
    """The steps that can be taken in this world, of a sequence that was made for another one."""
    kept = []
    for place, step in enumerate(steps):
        ((verb, given),) = step.items()
        name = given["as"] if verb == "connect" and isinstance(given, dict) else given if verb == "connect" else ""
        impossible = (
            (verb == "connect" and place and not (world.shares if name != "ada" else world.reconnects))
            or (verb == "restart" and not world.can_restart)
            or (verb == "delete" and not world.deletes)
            or (verb == "command" and given["trigger"] not in world.triggers)
            or ((verb == "model" or "model-request" in given) and not world.has_model)
        )
        if not impossible:
            kept.append(step)
    return repaired(kept)


def repaired(steps: Steps) -> Steps:
    """The steps without those that name a connection, a session or a prompt that is not there; nothing follows the end
    of the last connection. Of requests with the same alias, later ones take another. A line has its end, unless the
    connection ends with it: what came next would be the same line."""
    clients: set[str] = set()
    sessions: set[str] = set()
    asked: set[str] = set()
    prompts: set[str] = set()
    open_: set[str] = set()
    kept: Steps = []
    for step in steps:
        ((verb, given),) = step.items()
        if verb == "connect":
            name = given if isinstance(given, str) else given["as"]
            if name in open_:
                continue
            clients.add(name)
            open_.add(name)
        elif not open_ and verb != "restart":
            continue
        elif verb in ("disconnect", "cut") and isinstance(given, str):
            open_.discard(given)
        elif isinstance(given, dict):
            if given.get("by", "ada") not in (clients if verb == "restart" else open_):
                continue
            if not set(_names(given, "in", "begun", "idle")) <= sessions or not set(_named(given)) <= asked:
                continue
            if "same-as" in given and given["same-as"] not in prompts:
                continue  # only what the suite knows by a nonce can be told from its twin
            if verb in ("prompt", "command") and "as" in given:
                (prompts.add if verb == "prompt" else prompts.discard)(given["as"])
            if verb in ("disconnect", "cut"):
                open_.discard(given["by"])
            elif verb == "restart":
                open_.add(given["by"])
            elif verb == "new-session":
                sessions.add(given["as"])
            elif "as" in given:
                asked.add(given["as"])
            if not _sessions_in(given) <= sessions:
                continue
        kept.append(step)
    return [_ended(step, following) for step, following in zip_longest(kept, kept[1:])]


def joined(sequences: Sequence[Steps]) -> Steps:
    """One sequence that does what these did one after the other on one process: the aliases of the earlier ones are
    kept apart, and their sessions are closed."""
    made: Steps = []
    for number, steps in enumerate(sequences[:-1], 1):
        earlier = [renamed(step, f"{{}}-{number}".format) for step in steps]
        made += [*earlier, *_closing(earlier)]
    return repaired([*made, *sequences[-1]])


def renamed(step: dict[str, Any], rename: Callable[[str], str]) -> dict[str, Any]:
    """The step with other aliases of sessions and requests."""
    ((verb, given),) = step.items()
    if not isinstance(given, dict):
        return step
    aliases = _ALIASES - {"as"} if verb == "connect" else _ALIASES
    return {verb: {key: _named_anew(value, rename, is_alias=key in aliases) for key, value in given.items()}}


def _named_anew(value: Any, rename: Callable[[str], str], *, is_alias: bool) -> Any:
    """An alias, or several; or any value in which aliases of sessions stand in braces."""
    if isinstance(value, str):
        return rename(value) if is_alias else _IN_BRACES.sub(lambda found: rename(found.group()), value)
    if isinstance(value, list):
        return [_named_anew(item, rename, is_alias=is_alias) for item in value]
    if isinstance(value, dict):
        return {key: _named_anew(item, rename, is_alias=False) for key, item in value.items()}
    return value


def _closing(steps: Steps) -> Steps:
    """Closes the sessions that the steps leave open."""
    made: dict[str, dict[str, Any]] = {}
    for step in steps:
        ((verb, given),) = step.items()
        if verb == "new-session":
            made[given["as"]] = {"close": {"by": given["by"], "in": given["as"]}}
        elif verb in ("close", "delete"):
            made.pop(given["in"], None)
    return list(made.values())


def _ended(step: dict[str, Any], following: dict[str, Any] | None) -> dict[str, Any]:
    given = step.get("send")
    if not isinstance(given, dict) or "ending" not in given:
        return step
    gone = [end.get("by") if isinstance(end, dict) else end for end in (following or {}).values()]
    if following is not None and set(following) & {"disconnect", "cut"} and gone == [given.get("by")]:
        return step
    return {"send": {key: value for key, value in given.items() if key != "ending"}}


def _names(given: dict[str, Any], *keys: str) -> list[str]:
    found: list[str] = []
    for key in keys:
        value = given.get(key, [])
        found += [value] if isinstance(value, str) else [str(item) for item in value or ()]
    return found


def _named(given: dict[str, Any]) -> list[str]:
    return _names(given, *_NAMING)


def _sessions_in(value: Any) -> set[str]:
    """Aliases of sessions that stand in braces anywhere in a value."""
    if isinstance(value, str):
        return {part.partition("}")[0] for part in value.split("{session.")[1:]}
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {name for key, item in items for name in (*_sessions_in(key), *_sessions_in(item))}
