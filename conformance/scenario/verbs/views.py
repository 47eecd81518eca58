"""Whose view of a session a condition is about."""

from conformance.scenario.actors import Actor, Chat
from conformance.scenario.stage import Stage
from conformance.scenario.stops import NotBroughtAbout
from conformance.scenario.table import Given


def actor_of(stage: Stage, given: Given, chat: Chat | None = None) -> Actor:
    """The connection that is named, or the one that used the session last, or the only one."""
    name = given.get("by") or (chat.last_actor if chat is not None else None)
    return stage.actor(name)


def chat_of(stage: Stage, given: Given) -> Chat:
    """The session that is named, or the one that was used last."""
    if (alias := given.get("in")) is not None:
        return stage.chat(alias)
    if not stage.chats:
        raise NotBroughtAbout("there is no session")
    return max(stage.chats.values(), key=lambda chat: chat.used)
