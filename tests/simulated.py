"""Right agents, made up: from a seed a whole history in which no must rule is broken.

One agent with one to three clients and sessions, as coroutines that a dice schedules: each connection is a pair of
queues, so that what one side sends crosses what the other sends, and each session is worked by one task. All that the
prompt lifecycle leaves open is drawn (prompts held, joined or refused; reports before or after responses; whole or in
chunks), and so is what the user does meanwhile. A driven history has the control events that the suite would record.
Pure: no process, no clock.

    python -m tests.simulated --seeds 5000         # which rules fail, and at which seeds
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from typing import Any

from conformance.history import History
from conformance.rules import RULES, Kind, judge
from tests.simulated_agent import LATER, NOW, Agent, Cable, Tale

TEXTS = ["go on", "again", "What is in a.txt?", "Tidy up, please.", "why?"]


class World(Agent):
    def __init__(self, seed: int) -> None:
        self.dice = dice = random.Random(seed)
        super().__init__(dice)
        self.cables: list[Cable] = []
        self.driven = dice.random() < 0.5
        self.has_model = self.driven and dice.random() < 0.7
        more: dict[str, Any] = {
            "triggers": {"local-command": "/status"},
            "sessions": {"shared": True, "survives-restart": True},
            "model": "openai-chat" if self.has_model else None,
            "hold_window": 1.5,
            "quiet_window": 0.6,
        }
        self.story = Tale(driven=self.driven, **(more if self.driven else {}))
        self.story.pace = self.pace
        self.names = 0
        self.texts: list[tuple[list[dict[str, Any]], str | None]] = []
        self.integers = dice.random() < 0.5
        self.clients = dice.choice([1, 1, 2, 3])
        self.pauses = dice.choice([0.0, 0.02, 0.06])

    # -- the scheduler

    def run(self, moves: int | None = None) -> Tale:
        for _ in range(self.dice.randint(1, self.clients)):
            self.connect()
        for _ in range(moves if moves is not None else self.dice.randint(40, 400)):
            self.step(self.dice.random())
        self.settle()
        return self.story

    def step(self, luck: float) -> None:
        if luck < 0.12:
            self.act()
        elif luck < 0.12 + self.pauses:
            self.pause()
        else:
            self.machinery()

    def machinery(self) -> bool:
        """One message delivered or read, or one turn of one task. False where all is still."""
        moves: list[Callable[[], object]] = []
        for cable in self.cables:
            if cable.down:
                moves += [lambda cable=cable: self.deliver(cable)] * 3
            if cable.up:
                moves += [lambda cable=cable: self.read(cable)] * 2
        moves += [lambda entry=entry: self.turn(entry) for entry in self.tasks if self.is_ready(entry)]
        if moves:
            self.dice.choice(moves)()
        return bool(moves)

    def is_ready(self, entry: list[Any]) -> bool:
        return entry[1]() if callable(entry[1]) else True

    def turn(self, entry: list[Any]) -> None:
        if entry[1] == LATER and self.is_still():
            self.story.after(self.dice.choice([0.01, 0.1, 0.5, 3]))
        try:
            entry[1] = next(entry[0])
        except StopIteration:
            self.tasks.remove(entry)

    def deliver(self, cable: Cable) -> None:
        message, then = cable.down[0]
        self.story.agent(message, at=cable.name)
        cable.down.popleft()
        then()

    def pace(self) -> float:
        """Seconds to the next event: short ones while anything is under way, since it crosses what comes meanwhile."""
        if any(cable.up or cable.down for cable in self.cables):
            return self.dice.choice([0.0003, 0.0005, 0.001, 0.002])
        return self.dice.choice([0.0004, 0.001, 0.004, 0.02, 0.07, 0.4, 1.5])

    def is_still(self) -> bool:
        """Nobody owes anything at once: nothing is under way, and each task waits for its model or for a user."""
        return not any(cable.down or cable.up for cable in self.cables) and not any(
            entry[1] == NOW or (callable(entry[1]) and entry[1]()) for entry in self.tasks
        )

    def pause(self) -> None:
        if self.is_still():
            self.story.after(self.dice.choice([0.5, 2, 8, 20, 70, 300]))

    def settle(self) -> None:
        """All that is owed comes; the clients answer what they are asked."""
        while True:
            while self.machinery():
                pass
            held = [chat for chat in self.chats.values() if chat.is_held]
            for chat in held:
                chat.is_held = False
            if held:
                continue
            asked = [cable for cable in self.cables if cable.asked and not cable.is_cut]
            if not asked:
                break
            self.answer(self.dice.choice(asked))
        if self.dice.random() < 0.5:
            for cable in self.cables:
                self.window(cable)

    # -- the clients

    def act(self) -> None:
        ready = [cable for cable in self.cables if cable.is_ready and not cable.is_cut]
        if not ready or (len(ready) < self.clients and self.dice.random() < 0.1):
            if sum(not cable.is_cut for cable in self.cables) < self.clients:
                self.connect()
            return
        cable = self.dice.choice(ready)
        if cable.asked and self.dice.random() < 0.5:
            self.answer(cable)
            return
        moves = {
            self.new_session: 2 if len(self.chats) < 3 else 0,
            self.prompt: 8,
            self.cancel: 2,
            self.cancel_request: 2,
            self.resume: 2,
            self.close: 0.4,
            self.listing: 0.5,
            self.configure: 0.5,
            self.cut: 0.4,
            self.extension: 0.2,
            self.window: 1,
            self.release: 2 if self.has_model else 0,
            self.hold: 4 if self.has_model else 0,
        }
        self.dice.choices([*moves], [*moves.values()])[0](cable)

    def connect(self) -> None:
        self.names += 1
        cable = Cable(f"c{self.names}")
        self.cables.append(cable)
        if self.driven:
            self.story.control("started", at=cable.name, transport="websocket", restart_of=None)
        info = {"name": "t", "version": "1"}
        self.request(cable, "initialize", {"protocolVersion": 2, "info": info, "capabilities": {}})

    def request(self, cable: Cable, method: str, params: dict[str, Any], **marks: Any) -> Any:
        id = cable.requests if self.integers else f"r{cable.requests}"
        cable.requests += 1
        if marks and self.driven:
            self.story.control("submits", at=cable.name, id=id, session=params["sessionId"], **marks)
        self.send(cable, {"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return id

    def send(self, cable: Cable, message: dict[str, Any]) -> None:
        self.story.client(message, at=cable.name)
        cable.up.append(message)

    def new_session(self, cable: Cable) -> None:
        self.request(cable, "session/new", {"cwd": "/w"})

    def chat_of(self, cable: Cable) -> str | None:
        return self.dice.choice(sorted(cable.chats)) if cable.chats else None

    def prompt(self, cable: Cable) -> None:
        session = self.chat_of(cable)
        if session is None:
            return
        for _ in range(self.dice.choice([1, 1, 1, 1, 2, 3])):
            is_command = self.dice.random() < 0.08
            is_exact = bool(self.texts) and not is_command and self.dice.random() < 0.15
            if is_exact:
                blocks, nonce = self.dice.choice(self.texts)
            else:
                text = "/status" if is_command else self.dice.choice(TEXTS)
                nonce = f"acp-{len(self.texts)}-{self.dice.randrange(10**6):06}" if self.driven else None
                if nonce is not None or self.dice.random() < 0.5:
                    text += f" [{nonce or self.dice.randrange(10**6)}]"
                blocks = [{"type": "text", "text": text}]
                if self.dice.random() < 0.2:
                    blocks.append({"type": "resource_link", "uri": "file:///w/a.txt", "name": "a.txt"})
                if self.dice.random() < 0.1:
                    blocks.append({"type": "text", "text": "Thanks."})
                if not is_command:
                    self.texts.append((blocks, nonce))
            marks = {
                "nonce": nonce,
                "alias": "prompt",
                "trigger": "local-command" if is_command else None,
                "exact": is_exact,
                "refusable": None,
            }
            cable.prompts.append(
                self.request(cable, "session/prompt", {"sessionId": session, "prompt": blocks}, **marks)
            )

    def cancel(self, cable: Cable) -> None:
        session = self.chat_of(cable)
        if session is not None:
            self.send(cable, {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})
            self.dismiss(cable, session)

    def dismiss(self, cable: Cable, session: str) -> None:
        for id in [id for id, of in cable.asked.items() if of == session]:
            self.answer(cable, id, "cancelled")

    def cancel_request(self, cable: Cable) -> None:
        id = self.dice.choice([*cable.prompts[-4:], 9999])
        self.send(cable, {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}})

    def answer(self, cable: Cable, id: Any = None, choice: str | None = None) -> None:
        id = self.dice.choice([*cable.asked]) if id is None else id
        del cable.asked[id]
        choice = "cancelled" if id in cable.withdrawn else choice or self.dice.choice(["yes", "yes", "no", "cancelled"])
        outcome = {"outcome": "cancelled"} if choice == "cancelled" else {"outcome": "selected", "optionId": choice}
        self.send(cable, {"jsonrpc": "2.0", "id": id, "result": {"outcome": outcome}})

    def resume(self, cable: Cable) -> None:
        if self.known:
            params = {"sessionId": self.dice.choice(sorted(self.known)), "cwd": "/w"}
            if self.dice.random() < 0.7:
                params["replayFrom"] = {"type": "start"}
            self.request(cable, "session/resume", params)

    def close(self, cable: Cable) -> None:
        session = self.chat_of(cable)
        if session is not None:
            cable.chats.discard(session)
            self.request(cable, "session/close", {"sessionId": session})
            self.dismiss(cable, session)

    def listing(self, cable: Cable) -> None:
        self.request(cable, "session/list", {})

    def configure(self, cable: Cable) -> None:
        session = self.chat_of(cable)
        if session is not None:
            value = self.dice.choice(["fast", "deep", "none"])
            params = {"sessionId": session, "configId": "model", "type": "id", "value": value}
            self.request(cable, "session/set_config_option", params)

    def extension(self, cable: Cable) -> None:
        self.request(cable, "_vendor/ping", {})

    def cut(self, cable: Cable) -> None:
        cable.is_cut = True
        for _ in range(self.dice.randint(0, len(cable.up))):
            self.read(cable)
        cable.up.clear()
        cable.down.clear()
        if self.driven:
            self.story.control("cut", at=cable.name)
        for chat in self.chats.values():
            self.leave(chat, cable)

    def release(self, cable: Cable) -> None:
        for chat in self.chats.values():
            chat.is_held = chat.is_held and self.maybe(0.5)

    def hold(self, cable: Cable) -> None:
        """The suite lets the hold window pass, or waits for an idle in vain, while the model is held."""
        chats = [chat for chat in self.chats.values() if chat.is_held and chat.id in cable.chats]
        if not chats or not self.is_still():
            return
        began = len(self.story.recorder.history.events)
        if self.maybe(0.3):
            wait = {"for": "idle", "session": chats[0].id, "id": None, "seconds": 15, "began": began}
            self.story.control("waited", at=cable.name, **wait)
            return
        self.story.after(1.6)
        self.listing(cable)
        self.read(cable)
        self.deliver(cable)
        window = {"kind": "hold", "session": chats[0].id, "began": began, "seconds": 1.5}
        self.story.control("window", at=cable.name, **window)

    def window(self, cable: Cable) -> None:
        """The suite waits until all is quiet, and asks for the list."""
        if not cable.is_ready or cable.is_cut or not self.is_still():
            return
        began = len(self.story.recorder.history.events)
        self.story.after(0.7)
        self.listing(cable)
        self.read(cable)
        self.deliver(cable)
        if self.driven:
            for session in sorted(cable.chats):
                kind = {"kind": "quiet", "session": session, "began": began, "seconds": 0.6}
                self.story.control("window", at=cable.name, **kind)


def failed(history: History, level: str = "must") -> set[str]:
    """The rules of that level that find a violation. No rule may break."""
    found = set()
    for id, outcome in judge(history).items():
        assert outcome.broken is None, f"{id}: {outcome.broken}"
        if RULES[id].level == level and any(finding.kind is Kind.VIOLATION for finding in outcome.findings):
            found.add(id)
    return found


def brief(message: dict[str, Any]) -> str:
    """A message in few words."""
    params = message.get("params", {})
    update = params.get("update")
    if update is None:
        return " ".join(f"{key}={value}" for key, value in message.items() if key != "jsonrpc")
    body = {key: value for key, value in update.items() if key != "sessionUpdate"}
    return f"{params['sessionId']} {update['sessionUpdate']} {body}"


def show(history: History, rule: str) -> None:
    """The whole history, a line an event, and what the rule finds in it."""
    arrows = {"client": "->", "agent": "<-", "control": "--"}
    for event in history.events:
        said = event.control if event.dir == "control" else brief(event.message)
        print(f"{event.seq:4} {event.t:8.3f} {event.conn} {arrows[event.dir]} {said}"[:140])
    for finding in judge(history, [RULES[rule]])[rule].findings:
        print(finding.kind, finding.message, *[f"\n    {event.seq}: {part}" for event, part in finding.because])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--level", default="must")
    parser.add_argument("--rule", help="show the history of the first seed, and what this rule finds")
    given = parser.parse_args()
    if given.rule:
        show(World(given.first).run().recorder.history, given.rule)
        return
    found: dict[str, list[int]] = {}
    for seed in range(given.first, given.first + given.seeds):
        for id in failed(World(seed).run().recorder.history, given.level):
            found.setdefault(id, []).append(seed)
    for id, seeds in sorted(found.items()):
        print(f"{id}: {len(seeds)} seeds, such as {seeds[:6]}")
    print(f"{given.seeds} seeds, {len(found)} rules that fail")


if __name__ == "__main__":
    main()
