"""What a row of cancels or closes proves, to the hundredth of a second; and more that is near a fault of cancels."""

from __future__ import annotations

from typing import Any

import pytest

from tests.story import Story
from tests.test_rules_cancel import ENDS, QUIET, UPDATES, ask, at_work

CLOSES = "session.close-cancels-first"


def row(
    lengths: list[float], stops: list[float], *, alone: float = 1.5, how: str = "cancel", last: str = "end_turn"
) -> Story:
    """Works that last so long and are stopped after so long, and first one that is left alone."""
    story = Story().initialize()
    for number, (length, after) in enumerate([(alone, None), *zip(lengths, stops, strict=True)]):
        session = f"s{number}" if how == "close" else "s"
        if how == "close" or number == 0:
            story.reply(story.request("session/new", {"cwd": "/w"}), sessionId=session)
        id = story.prompt("Count", nonce=f"acp-{number}", session=session)
        story.reply(id, messageId=f"u{number}").user(f"u{number}", f"Count acp-{number}", session=session)
        story.running(session=session)
        began, close = story.now, None
        if after is not None:
            story.now = began + after - 0.01
            if how == "cancel":
                story.cancel()
            else:
                close = story.request("session/close", {"sessionId": session})
        story.now = began + length - 0.01
        story.idle(last if number == len(lengths) else "end_turn", session=session)
        if close is not None:
            story.reply(close)
    return story


@pytest.mark.parametrize("how", ["cancel", "close"])
class TestRows:
    def fails(self, story: Story, how: str) -> bool:
        rule = ENDS if how == "cancel" else CLOSES
        return bool(story.fails(rule))

    def test_three_are_a_row(self, how: str) -> None:
        assert self.fails(row([0.06, 0.12, 0.27], [0.02, 0.08, 0.2], how=how), how)
        assert not self.fails(row([0.06, 0.27], [0.02, 0.2], how=how), how)

    def test_how_much_they_differ(self, how: str) -> None:
        assert self.fails(row([0.10, 0.15, 0.21], [0.08, 0.13, 0.18], how=how), how)
        assert not self.fails(row([0.10, 0.15, 0.19], [0.08, 0.13, 0.17], how=how), how)

    def test_how_soon_each_end_follows_the_stop(self, how: str) -> None:
        assert self.fails(row([0.10, 0.20, 0.30], [0.08, 0.18, 0.20], how=how), how)  # 0.08 of 0.2
        assert not self.fails(row([0.10, 0.20, 0.30], [0.08, 0.18, 0.17], how=how), how)  # 0.11 of 0.2

    def test_how_long_one_lasts_that_is_left_alone(self, how: str) -> None:
        lengths, stops = [0.06, 0.12, 0.27], [0.02, 0.08, 0.2]
        assert self.fails(row(lengths, stops, how=how, alone=0.29), how)
        assert not self.fails(row(lengths, stops, how=how, alone=0.26), how)

    @pytest.mark.parametrize("reason", ["cancelled", "error"])
    def test_one_that_was_told(self, how: str, reason: str) -> None:
        assert not self.fails(row([0.06, 0.12, 0.27, 0.1], [0.02, 0.08, 0.2, 0.05], how=how, last=reason), how)


def test_the_proof_of_cancels() -> None:
    story = row([0.06, 0.12, 0.27], [0.02, 0.08, 0.2])
    (finding,) = [f for f in story.outcome(ENDS).findings if f.kind == "violation"]
    named = [(event.message["params"].get("update", {}).get("state"), part) for event, part in finding.because]
    assert named == [
        ("running", "work that nobody stops"),
        ("idle", "takes its time"),
        (None, "cancelled 0.020 s after it began"),
        ("idle", "it ends 0.040 s later, with end_turn"),
        (None, "cancelled 0.080 s after it began"),
        ("idle", "it ends 0.040 s later, with end_turn"),
        (None, "cancelled 0.200 s after it began"),
        ("idle", "it ends 0.070 s later, with end_turn"),
    ]


def test_the_proof_of_closes() -> None:
    (finding,) = row([0.06, 0.12, 0.27], [0.02, 0.08, 0.2], how="close").outcome(CLOSES).findings
    assert [part for _, part in finding.because if part.startswith("closed")] == [
        "closed 0.020 s after it began",
        "closed 0.080 s after it began",
        "closed 0.200 s after it began",
    ]


def test_closes_by_another_client_or_that_failed_stop_nothing() -> None:
    for how in ("another", "failed", "late"):
        story = Story().initialize().initialize(at="bob")
        for number, (length, after) in enumerate([(1.5, None), (0.06, 0.02), (0.12, 0.08), (0.27, 0.2)]):
            session, at = f"s{number}", "bob" if how == "another" else "ada"
            story.reply(story.request("session/new", {"cwd": "/w"}), sessionId=session)
            story.reply(story.prompt("Count", session=session), messageId="u").running(session=session)
            began, close = story.now, None
            if after is not None:
                story.now = began + after
                close = story.request("session/close", {"sessionId": session}, at=at)
            story.now = began + length
            if how == "late" and close is not None:
                story.reply(close, at=at)
            story.idle("end_turn", session=session)
            if close is not None and how != "late":
                story = story.refuse(close, -32603, at=at) if how == "failed" else story.reply(close, at=at)
        assert not any("each session/close" in said for said in story.fails(CLOSES)), how


class TestMore:
    def test_what_follows_an_update_that_is_none_of_the_work(self) -> None:
        story = at_work().cancel().idle("cancelled").update("usage_update", used=1, size=2)
        story.update("agent_message", messageId="a1", _meta={}).says("a9", "New")
        story.update("tool_call_update", toolCallId="new", title="t").says("a1", "!")
        assert story.proof(UPDATES) == [8, 10, 15]

    def test_a_background_call_and_then_another(self) -> None:
        story = Story(driven=False).begin().running()
        for call in ("bg", "c"):
            story.update("tool_call_update", toolCallId=call, title="t", status="in_progress")
        story.cancel().idle("cancelled", background=[{"type": "tool_call", "toolCallId": "bg"}])
        for call in ("bg", "c"):
            story.update("tool_call_update", toolCallId=call, status="completed")
        assert story.proof(UPDATES) == [6, 8, 10]

    def test_a_permission_that_nobody_gives_is_no_excuse(self) -> None:
        assert ask(at_work()).cancel().after(60).barrier().fails(ENDS) == ["cancelled work was never reported as ended"]

    def test_words_after_work_that_ended_otherwise(self) -> None:
        assert at_work().idle("end_turn").says("a1", "!").silent(UPDATES)

    @pytest.mark.parametrize("id", [77, "x"])
    def test_a_stray_with_an_id_answers_no_notification(self, id: Any) -> None:
        assert Story(driven=False).begin().cancel().refuse(id, -32601).fails(QUIET) == []

    @pytest.mark.parametrize("state", ["at work", "pending", "failed", "ended"])
    def test_when_a_session_is_idle(self, state: str) -> None:
        story = Story(driven=False).begin()
        id = story.prompt("Hi")
        if state == "at work":
            story.reply(id, messageId="u").user("u", "Hi").running()
        if state == "failed":
            story.refuse(id, -32603)
        if state == "ended":
            story.reply(id, messageId="u").user("u", "Hi").running().idle("end_turn")
        story.after(5).cancel().refuse(None, -32601)
        assert bool(story.fails(QUIET)) is (state in ("failed", "ended"))
