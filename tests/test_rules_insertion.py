"""Whether, and until when, the message of an accepted prompt was owed; which blocks and paths are what."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.conversation import read
from conformance.rules.insertion import unreported_at
from conformance.rules.paths import is_absolute, is_same
from tests.story import Story
from tests.test_rules_prompt import blocks

BEFORE = "prompt.no-success-before-insertion"
REPORTED = "prompt.insertion-reported"
WAITS = "prompt.success-without-waiting-for-work"


def owed(story: Story, which: int = 0) -> int | None:
    """Where the report of that prompt was owed."""
    late = unreported_at(read(story.recorder.history).sessions["s"].submissions[which])
    return late.seq if late is not None else None


class TestToldOthersOnly:
    """A message that is told to every client but its submitter."""

    def story(self) -> Story:
        story = Story(driven=False).begin().initialize(at="bob")
        resume = story.resume(at="bob")
        story.idle(at="bob").reply(resume, at="bob")
        story.reply(story.prompt("Hi", at="bob"), messageId="u", at="bob").user("u", "Hi")
        return story.running(at="bob").says("a", "x", at="bob").idle("end_turn", at="bob")

    def test_never_to_its_submitter(self) -> None:
        story = self.story()
        assert story.fails(REPORTED) == ["the inserted message 'u' was never reported"]
        assert story.fails(BEFORE) == []

    @pytest.mark.parametrize("driven", [True, False])
    def test_a_submitter_whose_session_another_client_took_over(self, driven: bool) -> None:
        story = Story(driven=driven).begin().initialize(at="bob")
        resume = story.resume(at="bob")
        story.idle(at="bob").reply(resume, at="bob")
        story.reply(story.prompt("Hi"), messageId="u").user("u", "Hi", at="bob").running(at="bob")
        story.says("a", "x", at="bob").idle("end_turn", at="bob")
        story.control("window", kind="quiet", seconds=1, session="s") if driven else story.after(40).barrier()
        assert story.passes(REPORTED)

    def test_too_late_to_its_submitter(self) -> None:
        assert self.story().user("u", "Hi", at="bob").warns(REPORTED)


class TestOwed:
    def test_by_the_idle_of_its_work(self) -> None:
        story = Story(driven=False).begin()
        story.reply(story.prompt("Hi"), messageId="u").running()
        assert owed(story) is None
        assert owed(story.idle("end_turn")) == 7

    def test_by_the_idle_of_work_that_began_before_the_response(self) -> None:
        def turn(output: str, *, before: bool = False, after: bool = False) -> int | None:
            story = Story(driven=False).begin()
            if before:
                story.prompt("Before")
            id = story.prompt("Hi")
            story.running().reply(id, messageId="u")
            if after:
                story.prompt("After")
            if output:
                story.update(output, messageId="a", used=1, size=2)
            return owed(story.idle("end_turn"), int(before))

        assert turn("agent_message") == 8
        assert turn("agent_thought_chunk") == 8
        assert turn("usage_update") is None
        assert turn("") is None
        assert turn("agent_message", before=True) is None
        assert turn("agent_message", after=True) is None

    def test_earlier_work_does_not_count(self) -> None:
        story = Story(driven=False).begin().running()
        story.reply(story.prompt("Hi"), messageId="u").says("a", "x").idle("end_turn")
        assert owed(story) is None
        assert owed(story.after(2).barrier()) == 10

    def test_not_by_a_barrier_while_at_work(self) -> None:
        story = Story(driven=False).begin().running()
        story.reply(story.prompt("Hi"), messageId="u").after(2).barrier()
        assert owed(story) is None

    def test_by_a_quiet_window(self) -> None:
        for session, found in (("s", 7), (None, 7), ("other", None)):
            story = Story().begin()
            story.reply(story.prompt("Hi"), messageId="u")
            story.control("window", kind="quiet", session=session, began=7, seconds=1)
            assert owed(story) == found, session

    @pytest.mark.parametrize("method", ["session/close", "session/delete"])
    def test_not_once_the_session_has_ended(self, method: str) -> None:
        story = Story(driven=False).begin()
        story.reply(story.prompt("Hi"), messageId="u")
        story.request(method, {"sessionId": "s"})
        assert owed(story.running().idle("end_turn")) is None
        story = Story(driven=False).begin()
        story.reply(story.prompt("Hi"), messageId="u").running().idle("end_turn")
        story.request(method, {"sessionId": "s"})
        assert owed(story) == 7

    def test_not_without_an_answer(self) -> None:
        story = Story(driven=False).begin()
        story.prompt("Hi")
        assert owed(story.running().says("a", "x").idle("end_turn")) is None


class TestHeld:
    def test_the_proof(self) -> None:
        story = Story(driven=False).begin().running()
        story.reply(story.prompt("Two"), messageId="u2").after(2).says("a", "x").idle("end_turn").user("u2", "Two")
        assert story.proof(BEFORE) == [5, 6, 7, 9]

    @pytest.mark.parametrize(("hold", "fails"), [(0.5, 1), (2.0, 0)])
    def test_how_long_it_was_held(self, hold: float, fails: int) -> None:
        story = Story(hold_window=hold).begin().running()
        story.reply(story.prompt("Two", nonce="acp-2"), messageId="u2").barrier().after(1).says("a", "x")
        story.idle("end_turn").user("u2", "Two acp-2").running().idle("end_turn")
        assert len(story.fails(BEFORE)) == fails

    @pytest.mark.parametrize(("kind", "fails"), [("hold", 1), ("quiet", 0)])
    def test_a_window_in_which_it_was_held(self, kind: str, fails: int) -> None:
        story = Story(hold_window=9).begin().running()
        story.reply(story.prompt("Two", nonce="acp-2"), messageId="u2")
        story.control("window", kind=kind, session="s", began=story.last.seq + 1, seconds=1).says("a", "x")
        story.idle("end_turn").user("u2", "Two acp-2").running().idle("end_turn")
        assert len(story.fails(BEFORE)) == fails

    def test_inserted_and_answered_after_its_work(self) -> None:
        story = Story().begin()
        id = story.prompt("Hi", nonce="acp-1")
        story.running().says("a", "x").idle("end_turn").user("u", "Hi acp-1").reply(id, messageId="u")
        story.control("window", kind="quiet", session="s", began=story.last.seq + 1, seconds=1)
        assert story.proof(WAITS) == [6, 7, 8, 9, 10, 11, 12]

    @pytest.mark.parametrize("meanwhile", ["cancel", "prompt", "nothing to say"])
    def test_after_work_that_may_be_another_s(self, meanwhile: str) -> None:
        story = Story().begin()
        id = story.prompt("Hi", nonce="acp-1")
        story.running()
        if meanwhile != "nothing to say":
            story.says("a", "x")
        story.idle("end_turn")
        if meanwhile == "cancel":
            story.cancel()
        if meanwhile == "prompt":
            story.prompt("More", nonce="acp-2")
        story.user("u", "Hi acp-1").reply(id, messageId="u")
        story.control("window", kind="quiet", session="s", began=story.last.seq + 1, seconds=1)
        assert story.fails(WAITS) == []

    @pytest.mark.parametrize(
        ("line", "fails"), [(b'{"jsonrpc":"2.0","method":"session/upd', 0), (b"[info] 2 users", 1)]
    )
    def test_a_garbled_report_is_another_rules(self, line: bytes, fails: int) -> None:
        story = Story(driven=False).begin()
        story.reply(story.prompt("Hi"), messageId="u").agent(line).running().idle("end_turn")
        assert len(story.fails(REPORTED)) == fails


@pytest.mark.parametrize(
    ("kind", "capability"), [("image", "image"), ("audio", "audio"), ("resource", "embeddedContext")]
)
def test_which_capability_a_block_needs(kind: str, capability: str) -> None:
    block: Any = {"type": kind, "mimeType": "image/png", "data": "AAAA", "resource": {"uri": "file:///a", "text": "x"}}
    for given, fails in (({}, 1), ({capability: {}}, 0)):
        story = Story().begin(capabilities={"session": {"prompt": given}})
        story.reply(blocks(story, block), messageId="u")
        assert len(story.fails("prompt.unsupported-block-rejected")) == fails


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("/private/tmp", "/tmp", True),
        ("/System/Volumes/Data/w", "/w", True),
        ("/privatetmp", "/tmp", False),
        ("/w/./a//b/", "/w/a/b", True),
        ("/w/a/../b", "/w/b", True),
        ("/w/a", "/w/A", True),
        ("/w/a", "/w/b", False),
        ("C:\\w\\a", "c:/w/a", True),
        ("C:/w", "D:/w", False),
        ("\\\\?\\C:\\w", "C:\\w", True),
        ("\\\\?\\UNC\\server\\share", "\\\\server\\share", True),
        ("\\\\?\\C:\\w", "D:\\w", False),
        ("/w/\u00e9", "/w/e\u0301", True),
        ("/w/\u00e9", "/w/e", False),
    ],
)
def test_paths_that_are_the_same(one: str, other: str, same: bool) -> None:
    assert is_same(one, other) is is_same(other, one) is same
    assert is_absolute(one)


def test_a_quiet_window_while_work_is_open_owes_no_report() -> None:
    story = Story().begin()
    story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u").running()
    story.control("window", kind="quiet", session="s", began=len(story.recorder.history), seconds=1)
    assert owed(story) is None
    assert story.passes(REPORTED)
