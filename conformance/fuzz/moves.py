"""The sequence layer: moves of a conversation - sessions, prompts, cancels, resumes, the model - in an order of chance.

A move adds a step to a draft, which knows what was begun so far; a move for which nothing is there adds none.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from conformance.fuzz.repairing import repaired
from conformance.fuzz.values import Values
from conformance.fuzz.world import World
from conformance.fuzz.writing import Steps

DELAYS: Final = (*[0] * 12, 1, 2, 5, 10, 25)
"""Milliseconds before a step, as often as they stand here: real agents fail by races."""

DELAYED: Final = frozenset(
    ["prompt", "command", "cancel", "cancel-request", "resume", "close", "delete", "send", "request", "answer"]
)
"""Verbs that can be delayed."""

GATE: Final = 0.02
"""Of the patience: how long a step waits for what the next one would like to find."""

Given = dict[str, Any]


@dataclass(slots=True)
class Draft:
    """A sequence as far as it goes."""

    random: Random
    world: World
    steps: Steps = field(default_factory=lambda: [{"connect": "ada"}])
    clients: list[str] = field(default_factory=lambda: ["ada"])
    sessions: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)  # aliases of prompts
    resumed: list[str] = field(default_factory=list)

    def add(self, verb: str, given: Any) -> None:
        self.steps.append({verb: given})

    def by(self) -> str:
        return self.random.choice(self.clients)

    def session(self) -> str | None:
        """The newest session most of the time."""
        if not self.sessions:
            return None
        return self.sessions[-1] if self.random.random() < 0.8 else self.random.choice(self.sessions)

    def about(self) -> Given | None:
        """Who does it, in which session, after which delay."""
        session = self.session()
        return None if session is None else {"by": self.by(), "in": session, **self.after()}

    def after(self) -> Given:
        delay = self.random.choice(DELAYS)
        return {"after": delay} if delay else {}


Move = Callable[[Draft], None]


def sequence_layer(random: Random, world: World) -> Steps:
    """A conversation of some twelve steps."""
    draft = Draft(random, world)
    if random.random() < 0.95:
        _new_session(draft)
    for _ in range(random.choice([3, 5, 8, 8, 12, 12, 18])):
        move(draft)
    return repaired(draft.steps)


def move(draft: Draft) -> None:
    """One more move; some are made several times in a row."""
    known = [(made, weight) for made, weight, is_there in MOVES if is_there(draft.world)]
    chosen = draft.random.choices([made for made, _ in known], [weight for _, weight in known])[0]
    for _ in range(draft.random.choice([1] * 9 + [2, 2, 3])):
        chosen(draft)


def _new_session(draft: Draft) -> None:
    if len(draft.sessions) >= 3:
        return
    alias = f"s{len(draft.sessions) + 1}"
    draft.sessions.append(alias)
    draft.add("new-session", {"by": draft.by(), "as": alias})


def _prompt(draft: Draft) -> None:
    about = draft.about()
    if about is None:
        return
    alias = f"p{len(draft.asked) + 1}"
    chance, random = draft.random.random(), draft.random
    given: Given = {**about, "as": alias}
    if chance < 0.15 and draft.asked:
        given["same-as"] = random.choice(draft.asked)
    elif chance < 0.25:
        values = Values(random)
        given["blocks"] = [values.block(random.choice(draft.world.blocks)) for _ in range(random.randint(1, 3))]
    elif chance < 0.29:
        given["session-id"] = "no-such-session"
    elif chance < 0.33:
        fresh = random.randrange(10**6)
        given["id"] = random.choice([f"p-{fresh}", 10**9 + fresh])
    elif chance < 0.36:
        given["text"] = random.choice(["/unknown command", "x" * 3_000, "é 😀 \u2028", "/status"])
    draft.asked.append(alias)
    draft.add("prompt", given)


def _command(draft: Draft) -> None:
    about = draft.about()
    if about is not None:
        draft.asked.append(f"p{len(draft.asked) + 1}")
        trigger = draft.random.choice(draft.world.triggers)
        draft.add("command", {**about, "trigger": trigger, "as": draft.asked[-1]})


def _cancel(draft: Draft) -> None:
    if (about := draft.about()) is not None:
        draft.add("cancel", about)


def _cancel_request(draft: Draft) -> None:
    what: Given
    if (draft.asked or draft.resumed) and draft.random.random() < 0.85:
        what = {"of": draft.random.choice([*draft.asked[-3:], *draft.resumed[-1:]])}
    else:
        what = {"id": draft.random.choice([0, 10**6, "nobody"])}
    draft.add("cancel-request", {"by": draft.by(), **what, **draft.after()})


def _resume(draft: Draft) -> None:
    about = draft.about()
    if about is None:
        return
    given: Given = {**about, "replay": draft.random.choice(["start", "start", "none"])}
    if draft.random.random() < 0.4:
        draft.resumed.append(f"r{len(draft.resumed) + 1}")
        given |= {"wait": False, "as": draft.resumed[-1]}
    draft.add("resume", given)


def _close(draft: Draft) -> None:
    if (about := draft.about()) is not None:
        given = {"wait": False} if draft.random.random() < 0.4 else {}
        draft.add("close", {**about, **given})
        _afterwards(draft, about)


def _afterwards(draft: Draft, about: Given) -> None:
    """What is asked of a session that is gone, or going, one time in two; then what there is: after a delete, or one
    time in four."""
    steps: dict[str, Given] = {"delete": {}, "close": {}, "cancel": {}, "resume": {"replay": "start"}, "prompt": {}}
    if not draft.world.deletes:
        del steps["delete"]
    verb = draft.random.choice(list(steps)) if draft.random.random() < 0.5 else ""
    if verb:
        draft.add(verb, {"by": about["by"], "in": about["in"], **draft.after(), **steps[verb]})
    if verb == "delete" or draft.random.random() < 0.25:
        _list(draft)


def _close_and_resume(draft: Draft) -> None:
    if (about := draft.about()) is not None:
        draft.add("close", about)
        draft.add("resume", {**about, "replay": draft.random.choice(["start", "none"])})


def _delete(draft: Draft) -> None:
    if (about := draft.about()) is not None:
        draft.add("delete", {**about, **({"wait": False} if draft.random.random() < 0.4 else {})})
        _afterwards(draft, about)


def _config(draft: Draft) -> None:
    if (about := draft.about()) is not None:
        draft.add("set-config", {key: value for key, value in about.items() if key != "after"})


def _list(draft: Draft) -> None:
    draft.add("list", {"by": draft.by(), "pages": 1})


def _answer(draft: Draft) -> None:
    policies = ["hold", "hold", "allow", "deny", "cancel"]
    given: Given = {"by": draft.by(), "permissions": draft.random.choice(policies)}
    draft.add("answer", given)


def _answer_held(draft: Draft) -> None:
    draft.add("answer", {"by": draft.by(), "held": draft.random.choice(["allow", "deny", "cancel"]), **draft.after()})


def _model(draft: Draft) -> None:
    about = {"in": draft.random.choice(draft.sessions)} if draft.sessions and draft.random.random() < 0.7 else {}
    draft.add("model", {**about, **_reply(draft.random)})


def _reply(random: Random) -> Given:
    times = {"times": random.choice([1, 1, 2])}
    chunks = {"chunks": ["One ", "piece."]} if random.random() < 0.4 else {}
    match random.randrange(10):
        case 0 | 1:
            return {"stall": True, **chunks}
        case 2:
            return {"fail": {"status": random.choice([401, 429, 500, 529]), **times, **chunks}}
        case 3:
            return {random.choice(["drop", "end-early", "garbage"]): True, **times, **chunks}
        case 4 | 5:
            return {"call-tool": "auto"}
        case 6:
            return {"think": "Let me see.", **times}
        case 7:
            return {"say": random.choice(["Done.", "x" * 2_000, ""]), **times}
    return {"stream": ["Slowly ", "comes ", "the answer."], "delay": random.choice([2, 5, 15]), **times}


def _release(draft: Draft) -> None:
    draft.add("model", {"release": True})


def _gate(draft: Draft) -> None:
    """Waits a moment for what makes the next step interesting."""
    conditions: list[Given] = [{"begun": session} for session in draft.sessions[-1:]]
    conditions += [{"idle": [session]} for session in draft.sessions[-1:]] * 3
    for alias in draft.asked[-1:]:
        conditions += [{"response": [alias]}, {"message": alias}]
        if draft.world.has_model:
            conditions.append({"model-request": alias})
    if draft.sessions and (draft.world.triggers or draft.world.has_model):
        conditions.append({"request": "session/request_permission", "in": draft.sessions[-1]})
    if conditions:
        draft.add("require", {**draft.random.choice(conditions), "patience": GATE})


def _race(draft: Draft) -> None:
    """A prompt, perhaps a model that misbehaves, and something that comes in between."""
    random = draft.random
    if draft.world.has_model and random.random() < 0.5:
        _model(draft)
    _prompt(draft)
    if draft.asked and random.random() < 0.6:
        alias = draft.asked[-1]
        seen = {"model-request": alias} if draft.world.has_model and random.random() < 0.6 else {"message": alias}
        draft.add("require", {**seen, "patience": GATE})
    random.choice([_cancel, _cancel, _cancel_request, _resume, _close, _prompt, _config, _garbage])(draft)


def _garbage(draft: Draft) -> None:
    text = draft.random.choice(["{", "hello", "[1,", '{"jsonrpc":'])
    draft.add("send", {"by": draft.by(), "text": text, **draft.after()})


def _restart(draft: Draft) -> None:
    draft.add("restart", {"by": "ada", "how": draft.random.choice(["close", "cut"])})
    _come_back(draft, "ada")


def _leave(draft: Draft) -> None:
    draft.add(draft.random.choice(["disconnect", "disconnect", "cut"]), {"by": "ada", **draft.after()})


def _reconnect(draft: Draft) -> None:
    """The line is lost, the agent goes on; the client comes back."""
    _come_again(draft, "ada")


def _second_reconnects(draft: Draft) -> None:
    if "bob" in draft.clients:
        _come_again(draft, "bob")


def _come_again(draft: Draft, name: str) -> None:
    draft.add(draft.random.choice(["cut", "cut", "disconnect"]), {"by": name, **draft.after()})
    draft.add("connect", {"as": name})
    _come_back(draft, name)


def _come_back(draft: Draft, name: str) -> None:
    for session in draft.sessions[-2:]:
        draft.add("resume", {"by": name, "in": session, "replay": draft.random.choice(["start", "start", "none"])})


def _second_client(draft: Draft) -> None:
    """It comes, sees what there is of a session, and both go on in it; or it goes."""
    random = draft.random
    if "bob" in draft.clients and random.random() < 0.4:
        draft.add(random.choice(["disconnect", "cut"]), {"by": "bob", **draft.after()})
        draft.clients.remove("bob")
        return
    if "bob" not in draft.clients:
        draft.clients.append("bob")
        draft.add("connect", {"as": "bob"})
    if draft.sessions:
        given = {"by": "bob", "in": draft.sessions[-1], "replay": random.choice(["start", "start", "none"])}
        draft.add("resume", {**given, **({"wait": False} if random.random() < 0.3 else {})})


def _always(world: World) -> bool:
    return True


MOVES: Final[tuple[tuple[Move, float, Callable[[World], bool]], ...]] = (
    (_new_session, 2, _always),
    (_prompt, 14, _always),
    (_race, 6, _always),
    (_command, 6, lambda world: bool(world.triggers)),
    (_cancel, 8, _always),
    (_cancel_request, 5, _always),
    (_resume, 7, _always),
    (_close, 3, _always),
    (_close_and_resume, 3, _always),
    (_delete, 1.5, lambda world: world.deletes),
    (_config, 2, _always),
    (_list, 2.5, _always),
    (_answer, 3, _always),
    (_answer_held, 3, _always),
    (_model, 8, lambda world: world.has_model),
    (_release, 3, lambda world: world.has_model),
    (_gate, 9, _always),
    (_garbage, 1.5, _always),
    (_second_client, 1.5, lambda world: world.shares and world.is_process),
    (_second_client, 8, lambda world: world.shares and not world.is_process),
    (_second_reconnects, 2, lambda world: world.reconnects and world.shares),
    (_reconnect, 0.25, lambda world: world.reconnects),
    (_restart, 0.25, lambda world: world.can_restart),
    (_leave, 0.15, lambda world: world.is_process),
)
"""Each move with its weight and when it is there. What costs a process is rare."""
