"""The oracle and the registry: what a rule yields, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from conformance.conversation import (
    Connection,
    Conversation,
    Message,
    Permission,
    Replay,
    Request,
    Session,
    Submission,
    Terminal,
    ToolCall,
    View,
    Work,
    read,
)
from conformance.rules import RULES, Kind, judge
from conformance.rules.oracle import MOST_FINDINGS, decide
from conformance.rules.registry import EXERCISED, MUST, Rule, not_applicable, rule, violation, warning
from tests.story import Story


def made(scope: type[Any], decide: Any, id: str = "wire.made-up") -> Rule:
    return Rule(id, MUST, "agent", "It is made up.", "nowhere", "a test", "", "", scope, decide)


def everything(*, version: int = 2) -> Story:
    """A thing of each kind on one connection."""
    story = Story(driven=False)
    story.reply(story.request("initialize", {"protocolVersion": version}), protocolVersion=version)
    story.reply(story.request("session/new", {"cwd": "/w"}), sessionId="s")
    story.reply(story.prompt("Hi"), messageId="u").user("u", "Hi").running()
    story.update("tool_call_update", toolCallId="c", title="t").update("terminal_update", terminalId="t")
    subject = {"type": "tool_call", "toolCall": {"toolCallId": "c"}}
    story.asks("session/request_permission", {"sessionId": "s", "title": "?", "subject": subject, "options": []})
    return story.idle("end_turn").reply(story.resume())


SCOPES = (Connection, Session, View, Submission, Work, Replay, Message, ToolCall, Terminal, Permission, Request)


class TestScopes:
    @pytest.mark.parametrize("scope", [Conversation, *SCOPES])
    def test_a_rule_is_asked_of_each_thing_of_its_scope(self, scope: type[Any]) -> None:
        seen: list[Any] = []

        def ask(thing: Any) -> Iterator[Any]:
            seen.append(thing)
            yield EXERCISED

        conversation = read(everything().recorder.history)
        assert decide(made(scope, ask), conversation).exercised
        assert seen
        assert all(type(thing) is scope for thing in seen)
        assert len(seen) == len(list(conversation.each(scope)))

    @pytest.mark.parametrize("scope", SCOPES)
    def test_on_version_1_only_rules_of_every_version_are_asked(self, scope: type[Any]) -> None:
        conversation = read(everything(version=1).recorder.history)

        def ask(thing: Any) -> Iterator[Any]:
            yield EXERCISED

        assert not decide(made(scope, ask), conversation).exercised
        assert decide(made(scope, ask, "init.made-up"), conversation).exercised

    def test_a_session_that_a_connection_of_version_2_sees_too(self) -> None:
        story = everything(version=1).initialize(at="bob")
        conversation = read(story.reply(story.resume(at="bob"), at="bob").recorder.history)
        asked: list[str] = []
        decide(made(Session, lambda session: asked.append(session.id) or iter(())), conversation)
        assert asked == ["s"]
        decide(made(View, lambda view: asked.append(view.connection.name) or iter(())), conversation)
        assert asked == ["s", "bob"]

    def test_what_no_rule_can_be_about(self) -> None:
        with pytest.raises(TypeError, match="int"):
            list(read(Story().recorder.history).each(int))


class TestOutcomes:
    def outcome(self, *said: Any) -> Any:
        conversation = read(everything().recorder.history)
        return decide(made(Conversation, lambda _: iter(said)), conversation)

    def test_findings(self) -> None:
        event = everything().last
        for finding in (violation("wrong", (event, "this")), warning("odd", (event, "this"))):
            outcome = self.outcome(finding)
            assert (outcome.exercised, outcome.findings, outcome.omitted) == (True, (finding,), 0)
            assert (outcome.not_applicable, outcome.broken) == (None, None)
        assert (violation("x").kind, warning("x").kind) == (Kind.VIOLATION, Kind.WARNING)

    @pytest.mark.parametrize(
        "line", [b'[debug] {"jsonrpc":"2.0","method"', b'{"jsonrpc":"2.0"}{"jsonrpc":"2.0"}', b"[{}]"]
    )
    def test_a_line_that_nobody_can_read_may_have_told_what_was_missed(self, line: bytes) -> None:
        story = Story(driven=False).begin().running()
        first = story.last
        conversation = read(story.agent(line).idle("end_turn").recorder.history)
        missed = made(Conversation, lambda _: iter([violation("x", (first, "a"), (story.last, "b"))]), "state.made-up")
        (finding,) = decide(missed, conversation).findings
        assert (finding.kind, [event.seq for event, _ in finding.because]) == (Kind.WARNING, [4, 5, 6])

    def test_a_line_of_a_log_tells_nothing(self) -> None:
        story = Story(driven=False).begin().running()
        first = story.last
        conversation = read(story.agent(b"[info] 2 users").idle("end_turn").recorder.history)
        missed = made(Conversation, lambda _: iter([violation("x", (first, "a"), (story.last, "b"))]), "state.made-up")
        assert decide(missed, conversation).findings[0].kind is Kind.VIOLATION

    def test_no_more_than_so_many(self) -> None:
        finding = violation("wrong", (everything().last, "this"))
        assert MOST_FINDINGS == 50
        for count in (49, 50, 51, 53):
            outcome = self.outcome(*[finding] * count)
            assert (len(outcome.findings), outcome.omitted) == (min(50, count), max(0, count - 50))

    def test_not_applicable_unless_it_was_exercised(self) -> None:
        assert self.outcome(not_applicable("first"), not_applicable("second")).not_applicable == "first"
        assert self.outcome(not_applicable("why"), EXERCISED).not_applicable is None
        assert self.outcome().not_applicable is None
        assert not self.outcome(not_applicable("why")).exercised

    def test_a_rule_that_breaks_keeps_what_it_had_found(self) -> None:
        def breaks(_: Any) -> Iterator[Any]:
            yield EXERCISED
            raise KeyError("oops")

        outcome = decide(made(Conversation, breaks), read(everything().recorder.history))
        assert outcome.exercised
        assert "oops" in (outcome.broken or "")
        assert outcome.omitted == 0

    def test_all_rules_unless_some_are_named(self) -> None:
        history = everything().recorder.history
        assert set(judge(history)) == set(RULES)
        assert set(judge(history, [RULES["wire.utf8"]])) == {"wire.utf8"}


def test_an_id_is_registered_once() -> None:
    with pytest.raises(ValueError, match="is there already"):
        rule("wire.utf8", MUST, says="", source="", exercised="", proof="")(lambda _: iter(()))


def test_an_area_is_the_first_word_of_an_id() -> None:
    assert made(View, None, "tool.one.two").area == "tool"


@pytest.mark.parametrize(
    "area", ["prompt", "command", "state", "cancel", "replay", "clients", "wire", "session", "tool"]
)
def test_what_is_judged_under_version_2_alone(area: str) -> None:
    conversation = read(everything(version=1).recorder.history)
    assert not decide(made(Session, lambda _: iter([EXERCISED]), f"{area}.made-up"), conversation).exercised


@pytest.mark.parametrize(
    ("area", "kind"), [("wire", Kind.VIOLATION), ("init", Kind.VIOLATION), ("state", Kind.WARNING)]
)
def test_a_line_that_nobody_can_read_may_have_told_what_several_lines_prove(area: str, kind: Kind) -> None:
    story = everything().running()
    first = story.last
    story.agent(b'{"jsonrpc": "2.0", "method": "session/update", "par').idle()
    finding = violation("wrong", (first, "this"), (story.last, "and that"))
    conversation = read(story.recorder.history)
    (found,) = decide(made(Conversation, lambda _: iter([finding]), f"{area}.made-up"), conversation).findings
    assert found.kind is kind
