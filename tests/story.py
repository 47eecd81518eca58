"""A builder of tiny histories for the tests of the rules: each call is one event.

    story = Story().begin()                 # initialize and session/new, answered: session "s", connection "ada"
    first = story.prompt("Hello", nonce="acp-1")              # returns the JSON-RPC id
    story.reply(first, messageId="u1").user("u1", "Hello acp-1").running().says("a1", "Hi").idle("end_turn")
    assert story.fails("prompt.insertion-reported") == []     # the messages of its violations

Time moves 10 ms an event; `after(seconds)` moves it further. `at="bob"` puts an event on another connection.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance.history import Recorder, read_transcript
from conformance.history.events import Event
from conformance.rules import RULES, Finding, Kind, Outcome, judge
from conformance.wire import envelope_of, read_envelope


class Story:
    def __init__(self, *, driven: bool = True, **profile: Any) -> None:
        self.now = 0.0
        self._next = 0
        self.recorder = Recorder(clock=lambda: self.now)
        if driven:
            self.control("profile", at="", **{"triggers": {}, "sessions": {}, "model": None, "patience": 15, **profile})

    # -- events

    def after(self, seconds: float) -> Story:
        self.now += seconds
        return self

    def _tick(self) -> None:
        self.now += 0.01

    def control(self, name: str, /, *, at: str = "ada", **fields: Any) -> Story:
        self._tick()
        if name == "waited":  # it tells the end of a wait
            self.now += fields.get("seconds", 0)
        self.recorder.control(at, name, **fields)
        return self

    def client(self, message: Any, *, at: str = "ada") -> Story:
        self._tick()
        self.recorder.wire(at, "client", read_envelope(message) if isinstance(message, bytes) else envelope_of(message))
        return self

    def agent(self, message: Any, *, at: str = "ada") -> Story:
        self._tick()
        self.recorder.wire(at, "agent", read_envelope(message) if isinstance(message, bytes) else envelope_of(message))
        return self

    def request(self, method: str, params: Any = None, *, id: Any = None, at: str = "ada") -> Any:
        """A request of the client; returns its id."""
        if id is None:
            self._next += 1
            id = self._next
        self.client({"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}, at=at)
        return id

    def notify(self, method: str, params: Any, *, at: str = "ada") -> Story:
        return self.client({"jsonrpc": "2.0", "method": method, "params": params}, at=at)

    def reply(self, id: Any, *, at: str = "ada", **result: Any) -> Story:
        return self.agent({"jsonrpc": "2.0", "id": id, "result": result}, at=at)

    def refuse(self, id: Any, code: int, message: str = "no", *, at: str = "ada", **more: Any) -> Story:
        return self.agent({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message, **more}}, at=at)

    def asks(self, method: str, params: Any, *, id: Any = 900, at: str = "ada") -> Story:
        """A request of the agent."""
        return self.agent({"jsonrpc": "2.0", "id": id, "method": method, "params": params}, at=at)

    def answer(self, id: Any, *, at: str = "ada", **result: Any) -> Story:
        """The client's response to it."""
        return self.client({"jsonrpc": "2.0", "id": id, "result": result}, at=at)

    # -- the protocol's words

    def begin(self, *, at: str = "ada", session: str = "s", capabilities: Any = None, client: Any = None) -> Story:
        self.initialize(at=at, capabilities=capabilities, client=client)
        new = self.request("session/new", {"cwd": "/w"}, at=at)
        return self.reply(new, at=at, sessionId=session)

    def initialize(self, *, at: str = "ada", capabilities: Any = None, client: Any = None) -> Story:
        asked = {"protocolVersion": 2, "info": {"name": "t", "version": "1"}, "capabilities": client or {}}
        given = capabilities if capabilities is not None else {"session": {}}
        id = self.request("initialize", asked, at=at)
        return self.reply(id, at=at, protocolVersion=2, info={"name": "a", "version": "1"}, capabilities=given)

    def prompt(self, text: str, *, nonce: str | None = None, session: str = "s", at: str = "ada", **marks: Any) -> Any:
        """session/prompt; the nonce is added to the text and told, unless it stands there already."""
        self._next += 1
        id = self._next
        if nonce is not None and nonce not in text:
            text = f"{text} {nonce}"
        if nonce is not None or marks:
            self.control("submits", at=at, id=id, session=session, nonce=nonce, **marks)
        params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
        return self.request("session/prompt", params, id=id, at=at)

    def update(self, kind: str, /, *, session: str = "s", at: str = "ada", **body: Any) -> Story:
        params = {"sessionId": session, "update": {"sessionUpdate": kind, **body}}
        return self.agent({"jsonrpc": "2.0", "method": "session/update", "params": params}, at=at)

    def user(self, id: str, text: str, **more: Any) -> Story:
        return self.update("user_message", messageId=id, content=[{"type": "text", "text": text}], **more)

    def says(self, id: str, text: str, **more: Any) -> Story:
        """One agent_message_chunk."""
        return self.update("agent_message_chunk", messageId=id, content={"type": "text", "text": text}, **more)

    def chunk(self, kind: str, id: str, text: str, **more: Any) -> Story:
        return self.update(f"{kind}_chunk", messageId=id, content={"type": "text", "text": text}, **more)

    def running(self, **more: Any) -> Story:
        return self.update("state_update", state="running", **more)

    def idle(self, reason: str | None = None, **more: Any) -> Story:
        if reason is not None:
            more["stopReason"] = reason
        return self.update("state_update", state="idle", **more)

    def barrier(self, *, at: str = "ada") -> Story:
        return self.reply(self.request("session/list", at=at), at=at, sessions=[])

    def cancel(self, *, session: str = "s", at: str = "ada") -> Story:
        return self.notify("session/cancel", {"sessionId": session}, at=at)

    def resume(self, *, replay: Any = None, session: str = "s", at: str = "ada") -> Any:
        """session/resume; returns its id. `replay` is the replayFrom; True stands for the start."""
        params: dict[str, Any] = {"sessionId": session, "cwd": "/w"}
        if replay is not None:
            params["replayFrom"] = {"type": "start"} if replay is True else replay
        return self.request("session/resume", params, at=at)

    # -- verdicts

    @property
    def last(self) -> Event:
        return self.recorder.history.events[-1]

    def outcome(self, rule: str) -> Outcome:
        outcome = judge(self.recorder.history, [RULES[rule]])[rule]
        assert outcome.broken is None, outcome.broken
        for finding in outcome.findings:
            proves(finding)
        return outcome

    def fails(self, rule: str) -> list[str]:
        """The messages of the rule's violations; empty where it does not fail."""
        return [finding.message for finding in self.outcome(rule).findings if finding.kind is Kind.VIOLATION]

    def warns(self, rule: str) -> list[str]:
        return [finding.message for finding in self.outcome(rule).findings if finding.kind is Kind.WARNING]

    def proof(self, rule: str) -> list[int]:
        """The positions of the events that the rule's only finding names."""
        (finding,) = self.outcome(rule).findings
        return [event.seq for event, _ in finding.because]

    def passes(self, rule: str) -> bool:
        """Exercised, and nothing found."""
        outcome = self.outcome(rule)
        return outcome.exercised and not outcome.findings

    def silent(self, rule: str) -> bool:
        """Neither exercised nor found."""
        outcome = self.outcome(rule)
        return not outcome.exercised and not outcome.findings


def recorded(path: Path) -> Any:
    """The history in a transcript."""
    return read_transcript(path)


def proves(finding: Finding) -> None:
    """A finding says in words what happened, and names the events that show it, in order, each with its part."""
    assert isinstance(finding.message, str)
    assert finding.because, f"names no event that proves it: {finding.message}"
    for event, part in finding.because:
        assert isinstance(event, Event), finding.message
        assert isinstance(part, str), finding.message
        assert part, finding.message
    named = [event.seq for event, _ in finding.because]
    assert named == sorted(set(named)), f"events out of order or named twice: {finding.message}"
