"""The agent of tests/simulated.py: a right one, whose every freedom is drawn.

It reads what its clients sent, and works each session in a task of its own. What it writes waits in the queue of the
connection until it is delivered.
"""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.story import Story

NOW, LATER = "now", "later"  # what a task waits for: its next turn at once, or a model that may take minutes
Wait = str | Callable[[], bool]
Task = Iterator[Wait]
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
NONCE = re.compile(r"acp-[\d-]+")
WORDS = ["Let me ", "see. ", "Well, ", "that is it. ", "A longer stretch of words, to be sure. ", "Then\n", "on. "]


@dataclass(eq=False)
class Cable:
    """One connection. `up` is what the agent has not read yet, `down` what the client has not."""

    name: str
    up: deque[dict[str, Any]] = field(default_factory=deque)
    down: deque[tuple[dict[str, Any], Callable[[], object]]] = field(default_factory=deque)
    is_ready: bool = False
    is_cut: bool = False
    chats: set[str] = field(default_factory=set)  # sessions that the client is in
    asked: dict[Any, str] = field(default_factory=dict)  # requests of the agent that the client has not answered
    prompts: list[Any] = field(default_factory=list)  # ids of its prompts
    withdrawn: set[Any] = field(default_factory=set)  # those that the agent has taken back
    requests: int = 0
    asks: int = 0


@dataclass(eq=False)
class Prompt:
    cable: Cable
    id: Any
    blocks: list[dict[str, Any]]
    nonce: str | None = None
    is_command: bool = False


@dataclass(eq=False)
class Ask:
    """A permission that is asked of one client or of several."""

    of: list[tuple[Cable, Any]]
    outcome: str | None = None


@dataclass(eq=False)
class Chat:
    """A session, as the agent keeps it."""

    id: str
    viewers: list[Cable] = field(default_factory=list)
    queue: list[Prompt] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=lambda: {"state": "idle"})
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)  # what is replayed, as whole updates
    missing: list[tuple[Cable, set[str]]] = field(default_factory=list)  # what replays under way have not told yet
    background: list[str] = field(default_factory=list)
    is_busy: bool = False  # a task works it
    is_at_work: bool = False  # from an insertion, or running, to idle
    is_cancelled: bool = False
    has_failed: bool = False  # its model did, for good
    is_held: bool = False  # the script holds its model request
    is_open: bool = True
    ask: Ask | None = None
    model: str = "fast"


class Tale(Story):
    """A story whose pace is drawn."""

    pace: Callable[[], float] | None = None

    def _tick(self) -> None:
        self.now += self.pace() if self.pace is not None else 0.01


class Agent:
    """The agent's side: what it reads, and the tasks that work on it. `World` schedules them and is its user."""

    dice: random.Random
    story: Tale
    chats: dict[str, Chat]

    def __init__(self, dice: random.Random) -> None:
        self.chats = {}
        self.tasks: list[list[Any]] = []  # [task, what it waits for]
        self.ids = 0
        self.known: set[str] = set()  # sessions that the clients have heard of
        self.model_requests = 0
        self.has_model = False
        self.when_busy = dice.choice(["hold", "hold", "join", "refuse"])
        self.honours = dice.random() < 0.7  # $/cancel_request of a prompt that waits
        self.report_as = dice.choice(["whole", "chunks", "both", "any"])
        self.replay_as = dice.choice(["whole", "chunks", "any"])
        self.tells_background = dice.random() < 0.4
        self.snapshots = dice.choice([0.0, 0.05, 0.2])
        self.asks_all = dice.random() < 0.5
        self.keeps_commands = dice.random() < 0.5

    def maybe(self, share: float) -> bool:
        return self.dice.random() < share

    def new_id(self, kind: str) -> str:
        self.ids += 1
        return f"{kind}{self.ids}"

    def start(self, task: Task) -> None:
        self.tasks.append([task, NOW])

    # -- what it writes

    def write(self, cable: Cable, message: dict[str, Any], then: Callable[[], object] = lambda: None) -> None:
        if not cable.is_cut:
            cable.down.append(({"jsonrpc": "2.0", **message}, then))

    def reply(self, cable: Cable, id: Any, result: Any, then: Callable[[], object] = lambda: None) -> None:
        self.write(cable, {"id": id, "result": result}, then)

    def refuse(self, cable: Cable, id: Any, code: int, message: str) -> None:
        self.write(cable, {"id": id, "error": {"code": code, "message": message}})

    def tell(self, chat: Chat, update: dict[str, Any], to: Cable | None = None, entry: str | None = None) -> None:
        """An update to each client of the session, or to one. `entry`: not to those whose replay has yet to tell it."""
        if self.maybe(0.02):
            update = {**update, "_meta": {"vendor": 1}}
        for cable in [to] if to is not None else chat.viewers:
            if entry is None or not any(of is cable and entry in ids for of, ids in chat.missing):
                params = {"sessionId": chat.id, "update": update}
                self.write(cable, {"method": "session/update", "params": params})

    def state(self, chat: Chat, state: str, to: Cable | None = None, **more: Any) -> None:
        if to is None:
            chat.state = {"state": state, **more}
        update = {"sessionUpdate": "state_update", "state": state, **more}
        if self.tells_background:
            update["background"] = [{"type": "tool_call", "toolCallId": call} for call in chat.background]
        self.tell(chat, update, to)

    def snapshot(self, chat: Chat, to: Cable | None = None) -> None:
        self.state(chat, to=to, **chat.state)

    def aside(self, chat: Chat) -> None:
        """What may come at any time."""
        if self.maybe(self.snapshots):
            self.snapshot(chat)
        if self.maybe(0.03):
            self.tell(
                chat,
                self.dice.choice(
                    [
                        {"sessionUpdate": "usage_update", "used": 10, "size": 1000},
                        {"sessionUpdate": "session_info_update", "title": "A title"},
                        {"sessionUpdate": "available_commands_update", "availableCommands": []},
                        {"sessionUpdate": "notice", "severity": "info", "title": "Trying again"},
                        {"sessionUpdate": "_vendor_mood", "mood": "fine"},
                    ]
                ),
            )

    def message(self, chat: Chat, kind: str, id: str, text: str) -> None:
        """One more piece of a message of the agent."""
        entry = chat.entries.setdefault(id, {"sessionUpdate": kind, "messageId": id, "content": []})
        if (entry["content"] and self.maybe(0.2)) or (not entry["content"] and self.maybe(0.3)):
            entry["content"] = [{"type": "text", "text": text_of(entry) + text}]
            self.tell(chat, dict(entry), entry=id)
        else:
            entry["content"] = [{"type": "text", "text": text_of(entry) + text}]
            chunk = {"type": "text", "text": text}
            self.tell(chat, {"sessionUpdate": f"{kind}_chunk", "messageId": id, "content": chunk}, entry=id)

    def call(self, chat: Chat, id: str, status: str | None, **more: Any) -> None:
        """An update of a tool call."""
        update = {"sessionUpdate": "tool_call_update", "toolCallId": id, **more}
        if status is not None:
            update["status"] = status
        chat.entries[id] = {**chat.entries.get(id, {}), **update}
        self.tell(chat, update, entry=id)

    # -- what it reads

    def read(self, cable: Cable) -> None:
        message = cable.up.popleft()
        method, id, params = message.get("method"), message.get("id"), message.get("params", {})
        chat = self.chats.get(params.get("sessionId"))
        if method is None:
            self.hear(cable, id, message["result"]["outcome"])
        elif method == "initialize":
            capabilities = {"session": {"delete": {}}}
            given = {"protocolVersion": 2, "info": {"name": "a", "version": "1"}, "capabilities": capabilities}
            self.reply(cable, id, given, lambda: setattr(cable, "is_ready", True))
        elif method == "session/new":
            self.new(cable, id)
        elif method == "session/list":
            names = [*self.chats]
            sessions = [{"sessionId": name, "cwd": "/w"} for name in names]
            self.reply(
                cable, id, {"sessions": sessions}, lambda: self.known.update(each["sessionId"] for each in sessions)
            )
        elif method == "session/prompt":
            self.take(cable, id, chat, params["prompt"])
        elif method == "session/cancel":
            self.stop(chat, cable)
        elif method == "$/cancel_request":
            self.withdraw(cable, params["requestId"])
        elif method == "session/resume" and chat is not None:
            self.start(self.resuming(cable, id, chat, "replayFrom" in params))
        elif method in ("session/close", "session/delete"):
            self.end(chat)
            self.start(self.closing(cable, id, chat, method == "session/delete"))
        elif method == "session/set_config_option" and chat is not None and cable in chat.viewers:
            self.set(cable, id, chat, params["value"])
        elif method in ("session/resume", "session/set_config_option"):
            self.refuse(cable, id, -32002, "Session not found")
        else:
            self.refuse(cable, id, -32601, "Method not found")

    def options(self, chat: Chat) -> list[dict[str, Any]]:
        values = [{"value": value, "name": value} for value in ("fast", "deep")]
        return [{"type": "select", "configId": "model", "name": "Model", "currentValue": chat.model, "options": values}]

    def new(self, cable: Cable, id: Any) -> None:
        chat = self.chats.setdefault(name := self.new_id("s"), Chat(name, [cable]))
        given = {"sessionId": name, "configOptions": self.options(chat)}
        early = self.maybe(0.2)
        if early:
            self.snapshot(chat)
        self.reply(cable, id, given, lambda: (cable.chats.add(name), self.known.add(name)))
        if self.maybe(0.2):
            chat.is_busy = True
            self.start(self.working(chat, is_own=True))

    def set(self, cable: Cable, id: Any, chat: Chat, value: str) -> None:
        if value not in ("fast", "deep"):
            self.refuse(cable, id, -32602, "No such value")
            return
        chat.model = value
        self.reply(cable, id, {"configOptions": self.options(chat)})
        for other in chat.viewers:
            if other is not cable:
                self.tell(chat, {"sessionUpdate": "config_option_update", "configOptions": self.options(chat)}, other)

    def take(self, cable: Cable, id: Any, chat: Chat | None, blocks: list[dict[str, Any]]) -> None:
        if chat is None or not chat.is_open or cable not in chat.viewers:
            self.refuse(cable, id, -32002, "Session not found")
        elif (chat.is_busy or chat.queue) and self.when_busy == "refuse":
            self.refuse(cable, id, -32603, "Busy")
        else:
            chat.queue.append(Prompt(cable, id, blocks))
            if not chat.is_busy:
                chat.is_busy = True
                self.start(self.working(chat))

    def stop(self, chat: Chat | None, cable: Cable) -> None:
        if chat is not None and cable in chat.viewers and chat.is_busy:
            chat.is_cancelled = chat.is_at_work
            self.drop(chat)

    def end(self, chat: Chat | None) -> None:
        if chat is not None:
            chat.is_open = False
            chat.is_cancelled = chat.is_at_work
            self.drop(chat)

    def drop(self, chat: Chat) -> None:
        for prompt in chat.queue:
            self.refuse(prompt.cable, prompt.id, -32800, "Cancelled")
        chat.queue.clear()

    def withdraw(self, cable: Cable, id: Any) -> None:
        for chat in self.chats.values():
            for prompt in [prompt for prompt in chat.queue if prompt.cable is cable and prompt.id == id]:
                if self.honours:
                    chat.queue.remove(prompt)
                    self.refuse(cable, id, -32800, "Cancelled")

    def hear(self, cable: Cable, id: Any, outcome: dict[str, Any]) -> None:
        """The answer to a permission; the first one counts."""
        for chat in self.chats.values():
            if chat.ask is not None and (cable, id) in chat.ask.of:
                chat.ask.of.remove((cable, id))
                if chat.ask.outcome is None and not chat.is_cancelled:
                    chat.ask.outcome = outcome.get("optionId", "cancelled")

    def leave(self, chat: Chat, cable: Cable) -> None:
        """A client is gone: it answers nothing any more."""
        if cable in chat.viewers:
            chat.viewers.remove(cable)
        chat.queue = [prompt for prompt in chat.queue if prompt.cable is not cable or self.maybe(0.5)]
        if chat.ask is not None:
            chat.ask.of = [(of, id) for of, id in chat.ask.of if of is not cable]
            if not chat.ask.of and chat.ask.outcome is None:
                chat.ask.outcome = "gone"

    # -- its tasks

    def resuming(self, cable: Cable, id: Any, chat: Chat, is_asked: bool) -> Task:
        yield lambda: chat.is_open or not chat.is_busy
        chat.is_open = True
        entries = list(chat.entries) if is_asked else []
        missing = (cable, set(entries))
        chat.missing.append(missing)
        if cable not in chat.viewers:
            chat.viewers.append(cable)
        for each in entries:
            self.told_again(chat, cable, each)
            missing[1].discard(each)
            if self.maybe(0.5):
                yield NOW
        chat.missing.remove(missing)
        self.snapshot(chat, cable)
        if self.maybe(0.3):
            yield NOW
        self.reply(cable, id, {"configOptions": self.options(chat)}, lambda: cable.chats.add(chat.id))

    def told_again(self, chat: Chat, cable: Cable, id: str) -> None:
        entry = chat.entries[id]
        kind = entry["sessionUpdate"]
        is_chunked = self.replay_as == "chunks" or (self.replay_as == "any" and self.maybe(0.5))
        if kind == "tool_call_update" or not is_chunked:
            self.tell(chat, dict(entry), cable)
            return
        self.tell(chat, {**entry, "content": []}, cable)
        for block in pieces(self.dice, entry["content"]):
            self.tell(chat, {"sessionUpdate": f"{kind}_chunk", "messageId": id, "content": block}, cable)

    def closing(self, cable: Cable, id: Any, chat: Chat | None, is_deleted: bool) -> Task:
        if chat is not None:
            yield lambda: not chat.is_busy
            chat.viewers.clear()
            if is_deleted:
                self.chats.pop(chat.id, None)
        self.reply(cable, id, {})

    def working(self, chat: Chat, is_own: bool = False) -> Task:
        """Work of a prompt, of several, or of the agent's own."""
        if self.maybe(0.5):
            yield NOW
        while is_own or chat.queue:
            chat.is_at_work = True
            if is_own:
                self.state(chat, "running")
            is_command, prompt = False, None
            if chat.queue:
                prompt = chat.queue.pop(0)
                is_command = text_of({"content": prompt.blocks}).startswith("/status")
                yield from self.insert(chat, prompt, is_command)
            is_own = False
            nonce = NONCE.search(text_of({"content": prompt.blocks})) if prompt is not None else None
            yield from self.turn_of(chat, is_command, nonce[0] if nonce is not None else None)
            chat.is_at_work = chat.is_cancelled = False
            self.aside(chat)
            if chat.queue:
                yield NOW
        chat.is_busy = False

    def insert(self, chat: Chat, prompt: Prompt, is_command: bool) -> Task:
        message = self.new_id("u")
        content = [dict(block) for block in prompt.blocks]
        steps: list[Callable[[], object]] = [
            lambda: self.reply(prompt.cable, prompt.id, {"messageId": message}),
            lambda: self.reported(chat, message, content, not is_command or self.keeps_commands),
        ]
        if chat.state["state"] == "idle":
            steps.append(lambda: self.state(chat, "running"))
        self.dice.shuffle(steps)
        for step in steps:
            step()
            if self.maybe(0.5):
                yield NOW

    def reported(self, chat: Chat, id: str, content: list[dict[str, Any]], is_kept: bool) -> None:
        way = self.dice.choice(["whole", "chunks", "both"]) if self.report_as == "any" else self.report_as
        whole = {"sessionUpdate": "user_message", "messageId": id, "content": content}
        if way != "whole":
            if self.maybe(0.3):
                self.tell(chat, {**whole, "content": []}, entry=id)
            for block in pieces(self.dice, content):
                self.tell(chat, {"sessionUpdate": "user_message_chunk", "messageId": id, "content": block}, entry=id)
        if way != "chunks":
            self.tell(chat, whole, entry=id)
        if is_kept:
            chat.entries[id] = whole

    def thinking(self, chat: Chat, nonce: str) -> Task:
        """The scripted model's part, with what the suite records of it; it may be held, and fail once or for good."""
        chat.has_failed = False
        for last in (False, True):
            self.model_requests += 1
            number = {"number": self.model_requests}
            asked = {"api": "openai-chat", "nonce": nonce, "group": None, "side": False, "last_user": True}
            self.story.control("model-request", at="model", **number, **asked, stream=True)
            chat.is_held = self.maybe(0.3)
            if chat.is_held:
                self.story.control("model-held", at="model", **number)
                yield lambda: chat.is_cancelled or not chat.is_held
                if not chat.is_held:
                    self.story.control("model-released", at="model", **number)
                chat.is_held = False
            if chat.is_cancelled:
                self.story.control("model-answered", at="model", **number, how="abandoned", status=None, injected=False)
                return
            chat.has_failed = self.maybe(0.2)
            how, status = ("fail", 500) if chat.has_failed else ("say", 200)
            self.story.control("model-answered", at="model", **number, how=how, status=status, injected=chat.has_failed)
            yield NOW
            if last or not chat.has_failed or self.maybe(0.5):
                return

    def turn_of(self, chat: Chat, is_command: bool, nonce: str | None) -> Task:
        """From running to idle."""
        calls: list[str] = []
        reason = "end_turn"
        chat.has_failed = False
        if self.has_model and nonce is not None and not is_command:
            yield from self.thinking(chat, nonce)
        for _ in range(1 if is_command else self.dice.randint(0, 4)):
            if chat.is_cancelled or chat.has_failed:
                break
            if chat.queue and self.when_busy == "join" and not is_command:
                yield from self.insert(chat, chat.queue.pop(0), False)
            if is_command:
                yield from self.speaking(chat, "agent_message", 1)
            elif (luck := self.dice.random()) < 0.5:
                yield from self.speaking(chat, "agent_message", self.dice.randint(1, 5))
            elif luck < 0.65:
                yield from self.speaking(chat, "agent_thought", self.dice.randint(1, 3))
            else:
                yield from self.acting(chat, calls)
            self.aside(chat)
        yield NOW if is_command or self.maybe(0.5) else LATER
        if chat.has_failed:
            reason = "error"
        elif not self.has_model and not is_command and not chat.is_cancelled and self.maybe(0.2):
            reason = self.dice.choice(["max_tokens", "refusal", "max_turn_requests", "_paused", "error", "error"])
        for call in calls:
            if chat.entries[call].get("status") in ("pending", "in_progress"):
                self.call(chat, call, "cancelled" if chat.is_cancelled else "failed")
        if chat.is_cancelled:
            reason = "cancelled"
        more = {"error": {"code": -32000, "message": "Who are you?"}} if reason == "error" else {}
        self.state(chat, "idle", stopReason=reason, **more)

    def speaking(self, chat: Chat, kind: str, count: int) -> Task:
        id = self.new_id("a" if kind == "agent_message" else "t")
        for _ in range(count):
            if chat.is_cancelled:
                return
            self.message(chat, kind, id, self.dice.choice(WORDS))
            yield self.dice.choice([NOW, NOW, LATER])

    def acting(self, chat: Chat, calls: list[str]) -> Task:
        """A tool call, with or without a permission."""
        id = self.new_id("call")
        calls.append(id)
        self.call(chat, id, "pending", title="Look", kind="execute")
        yield NOW
        if chat.viewers and not chat.is_cancelled and self.maybe(0.5):
            yield from self.asking(chat, id)
            assert chat.ask is not None
            outcome, chat.ask = chat.ask.outcome, None
            if outcome is not None and not chat.is_cancelled:
                self.state(chat, "running")
            if outcome != "yes" or chat.is_cancelled:
                self.call(chat, id, "cancelled" if chat.is_cancelled else "failed")
                return
        if chat.is_cancelled:
            return
        for status in ("in_progress", self.dice.choice(["completed", "completed", "failed"])):
            self.call(chat, id, status)
            yield self.dice.choice([NOW, LATER])
            if chat.is_cancelled:
                return

    def asking(self, chat: Chat, call: str) -> Task:
        ask = chat.ask = Ask([])
        subject = {"type": "tool_call", "toolCall": {"toolCallId": call, "title": "Look"}}
        params = {"sessionId": chat.id, "title": "May I?", "subject": subject, "options": OPTIONS}
        for cable in list(chat.viewers) if self.asks_all else [self.dice.choice(chat.viewers)]:
            cable.asks += 1
            id = cable.asks
            ask.of.append((cable, id))
            message = {"id": id, "method": "session/request_permission", "params": params}
            self.write(cable, message, lambda cable=cable, id=id: cable.asked.update({id: chat.id}))
        self.state(chat, "requires_action")
        yield lambda: ask.outcome is not None or chat.is_cancelled
        for cable, id in ask.of:
            message = {"method": "$/cancel_request", "params": {"requestId": id}}
            self.write(cable, message, lambda cable=cable, id=id: cable.withdrawn.add(id))


def text_of(entry: dict[str, Any]) -> str:
    return "".join(block.get("text", "") for block in entry["content"])


def pieces(dice: random.Random, content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The content as chunks: a text in one piece or two."""
    found = []
    for block in content:
        at = dice.randint(0, len(block.get("text", "")))
        if block["type"] == "text" and 0 < at < len(block["text"]):
            found += [{"type": "text", "text": part} for part in (block["text"][:at], block["text"][at:])]
        else:
            found.append(block)
    return found
