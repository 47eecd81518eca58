"""What a replay tells of things other than prompts: answers under ids of their own, tool calls before the response."""

from __future__ import annotations

import pytest

from tests.story import Story
from tests.test_rules_replay import agent

DISTINCT, BEFORE, UNASKED = "replay.distinct-messages", "replay.before-response", "replay.none-unless-asked"


def turn(story: Story, at: int, answer: str) -> Story:
    prompt = story.prompt(f"text {at}", nonce=f"acp-{at}")
    story.user(f"m{at}", f"text {at} acp-{at}").reply(prompt, messageId=f"m{at}").running()
    return story.says(f"a{at}", answer).idle("end_turn")


def replayed(*answers: tuple[str, str], chunks: bool = False) -> Story:
    """Two turns, and a replay in which their answers are told so."""
    story = turn(turn(Story().begin(), 1, "One"), 2, "Two").after(3)
    resumed = story.resume(replay=True)
    for at, (id, text) in enumerate(answers, 1):
        story.user(f"m{at}", f"text {at} acp-{at}")
        if chunks:
            story.update("agent_message", messageId=id, content=[]).says(id, text[:1]).says(id, text[1:])
        else:
            agent(story, id, text)
    return story.idle().reply(resumed)


class TestAnswers:
    @pytest.mark.parametrize("chunks", [True, False])
    @pytest.mark.parametrize("id", ["a1", "new"])
    def test_two_under_one_id(self, id: str, chunks: bool) -> None:
        fails = replayed((id, "One"), (id, "Two"), chunks=chunks).fails(DISTINCT)
        assert fails == [f"two messages are replayed under the id {id!r}"]

    @pytest.mark.parametrize("chunks", [True, False])
    def test_two_under_their_own(self, chunks: bool) -> None:
        assert replayed(("a1", "One"), ("a2", "Two"), chunks=chunks).passes(DISTINCT)

    def test_one_that_changes_and_another_that_says_the_same(self) -> None:
        assert replayed(("a1", "One"), ("a1", "Other")).passes(DISTINCT)
        assert replayed(("a1", "One"), ("a1", "Two"), ("a2", "Two")).fails(DISTINCT) == []


class TestToolCalls:
    def lived(self) -> Story:
        story = Story().begin()
        story.reply(story.prompt("text 1", nonce="acp-1"), messageId="m1").user("m1", "text 1 acp-1").running()
        return self.completed(story).says("a1", "One").idle("end_turn")

    def completed(self, story: Story, title: str = "Look", at: str = "ada") -> Story:
        return story.update("tool_call_update", toolCallId="c", title=title, status="completed", at=at)

    @pytest.mark.parametrize(("within", "title", "fails"), [(False, "Look", 1), (True, "Look", 0), (False, "Seen", 0)])
    def test_after_the_response(self, within: bool, title: str, fails: int) -> None:
        story = self.lived().after(3)
        resumed = story.resume(replay=True)
        story.user("m1", "text 1 acp-1")
        if within:
            self.completed(story)
        self.completed(agent(story, "a1", "One").idle().reply(resumed), title)
        assert len(story.fails(BEFORE)) == fails

    @pytest.mark.parametrize(("later", "fails"), [(0, 0), (3, 1)])
    def test_to_a_client_that_comes_just_then(self, later: float, fails: int) -> None:
        story = self.lived().initialize(at="bob").after(later)
        resumed = story.resume(at="bob")
        self.completed(story, at="bob").idle(at="bob").reply(resumed, at="bob")
        assert len(story.fails(UNASKED)) == fails


@pytest.mark.parametrize("end", ["", "\n"])
def test_blocks_that_are_put_together_otherwise(end: str) -> None:
    story = Story().begin().control("submits", id=50, session="s", nonce="acp-1")
    blocks = [{"type": "text", "text": "A prompt "}, {"type": "text", "text": "of blocks. acp-1"}]
    sent = story.request("session/prompt", {"sessionId": "s", "prompt": blocks}, id=50)
    story.update("user_message", messageId="m1", content=blocks).reply(sent, messageId="m1")
    story.running().says("a1", "A").idle("end_turn").after(3)
    resumed = story.resume(replay=True)
    story.user("x9", f"A prompt {end}of blocks. acp-1").idle().reply(resumed)
    assert story.fails("replay.same-id") == ["'m1' is replayed as 'x9'"]


def test_a_snapshot_of_running_sets_off_nothing() -> None:
    story = turn(Story().begin(), 1, "One").after(3)
    resumed = story.resume(replay=True)
    agent(story.user("m1", "text 1 acp-1"), "a1", "One").running().reply(resumed)
    assert turn(story, 2, "Two").fails("replay.does-not-execute") == []
