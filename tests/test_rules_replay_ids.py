"""Under which ids prompts are told again: to another client, and by a replay that gives them anew by their places."""

from __future__ import annotations

import pytest

from tests.story import Story
from tests.test_rules_replay import DISTINCT, SAME_ID

SAME_FOR_ALL = "clients.same-id-for-all"


def turns(*texts: str, driven: bool = True) -> Story:
    """One turn for each text, worked off; the n-th message is m<n> and holds acp-<n>."""
    story = Story(driven=driven).begin()
    for at, text in enumerate(texts, 1):
        turn(story, at, text, driven=driven)
    return story.after(3)


def turn(story: Story, at: int, text: str, *, driven: bool = True) -> Story:
    prompt = story.prompt(text, nonce=f"acp-{at}" if driven else None)
    story.user(f"m{at}", sent(at, text, driven=driven)).reply(prompt, messageId=f"m{at}").running()
    return story.says(f"a{at}", f"Answer {at}").idle("end_turn")


def sent(at: int, text: str, *, driven: bool = True) -> str:
    return f"{text} acp-{at}" if driven else text


def replayed(story: Story, *told: tuple[str, str]) -> Story:
    """A replay that tells these user messages: (id, text)."""
    resumed = story.resume(replay=True)
    for id, text in told:
        story.user(id, text)
    return story.idle().reply(resumed)


class TestByPlace:
    @pytest.mark.parametrize("driven", [True, False])
    @pytest.mark.parametrize(
        ("told", "fails"),
        [
            ((1, 2, 3), 0),
            ((1, 3, 2), 2),  # swapped
            ((2, 3), 2),  # the first was compacted, and all move up
            ((1, 3), 1),  # a command was left out
        ],
    )
    def test_ids_given_anew(self, told: tuple[int, ...], fails: int, driven: bool) -> None:
        texts = ("one", "two", "three")
        story = turns(*texts, driven=driven)
        replayed(story, *((f"m{at}", sent(n, texts[n - 1], driven=driven)) for at, n in enumerate(told, 1)))
        assert len(story.fails(SAME_ID)) == fails
        assert story.outcome(SAME_ID).exercised

    @pytest.mark.parametrize("driven", [True, False])
    def test_some_left_out_and_the_others_under_their_own(self, driven: bool) -> None:
        story = turns("one", "two", "three", driven=driven)
        assert replayed(story, ("m3", sent(3, "three", driven=driven))).passes(SAME_ID)

    def test_a_message_that_became_the_text_of_another_prompt(self) -> None:
        story = turns("one", "two", driven=False).user("m1", "two")
        assert replayed(story, ("m1", "two"), ("m2", "two")).fails(SAME_ID) == []

    def test_an_edit_that_is_first_told_by_the_replay(self) -> None:
        story = turns("one", "two", driven=False)
        assert replayed(story, ("m1", "two"), ("m2", "two")).fails(SAME_ID) == []


class TestToAnotherClient:
    def joined(self, *, driven: bool = True) -> Story:
        """bob is in the session too, after one turn of ada."""
        story = turns("one", driven=driven).initialize(at="bob")
        resumed = story.resume(at="bob")
        return story.idle(at="bob").reply(resumed, at="bob").after(2)

    @pytest.mark.parametrize(("id", "fails"), [("m1", 1), ("m2", 0)])
    def test_a_counter_for_each_connection(self, id: str, fails: int) -> None:
        story = self.joined()
        prompt = story.prompt("two", nonce="acp-2")
        story.user("m2", "two acp-2").reply(prompt, messageId="m2").user(id, "two acp-2", at="bob")
        assert len(story.fails(SAME_FOR_ALL)) == fails

    def test_an_id_of_another_prompt_in_a_recording_may_be_an_edit(self) -> None:
        story = self.joined(driven=False)
        prompt = story.prompt("two")
        story.user("m2", "two").reply(prompt, messageId="m2").user("m1", "two", at="bob")
        assert story.fails(SAME_FOR_ALL) == []

    @pytest.mark.parametrize(("told", "fails"), [(True, 0), (False, 1)])
    def test_an_equal_text_from_elsewhere_in_a_recording(self, told: bool, fails: int) -> None:
        story = self.joined(driven=False)
        prompt = story.prompt("continue")
        story.user("m2", "continue").reply(prompt, messageId="m2")
        if told:
            story.user("m2", "continue", at="bob")
        story.after(60).user("slack-9", "continue").user("slack-9", "continue", at="bob")
        assert len(story.fails(SAME_FOR_ALL)) == fails


class TestMerged:
    def interrupted(self) -> Story:
        """The first prompt is cancelled, and the second one worked off."""
        story = Story().begin()
        prompt = story.prompt("one", nonce="acp-1")
        story.user("m1", "one acp-1").reply(prompt, messageId="m1").running().cancel().idle("cancelled")
        return turn(story, 2, "two").after(3)

    @pytest.mark.parametrize("id", ["m1", "m2"])
    @pytest.mark.parametrize("text", ["one acp-1\ntwo acp-2", "one acp-1two acp-2", "two acp-2 one acp-1"])
    def test_two_prompts_as_one(self, id: str, text: str) -> None:
        story = replayed(self.interrupted(), (id, text))
        assert story.fails(DISTINCT) == [f"two messages are replayed as one, under the id {id!r}"]

    def test_the_proof(self) -> None:
        story = self.interrupted()
        prompts = [e.seq for e in story.recorder.history if "session/prompt" in str(e.message)]
        replayed(story, ("m1", "one acp-1\ntwo acp-2"))
        assert story.proof(DISTINCT) == [*prompts, story.last.seq - 3, story.last.seq - 2]

    @pytest.mark.parametrize(
        ("id", "text"),
        [
            ("m2", "two acp-2 (after: one acp-1)"),
            ("m2", "two acp-2"),
            ("m2", "acp-1 acp-2"),
            ("summary", "one acp-1\ntwo acp-2"),  # a message of its own: of what a client was told, it renames nothing
        ],
    )
    def test_what_quotes_both(self, id: str, text: str) -> None:
        assert replayed(self.interrupted(), (id, text)).fails(DISTINCT) == []

    def test_a_prompt_that_quotes_another(self) -> None:
        story = turns("one", "one acp-1 and")
        replayed(story, ("m1", "one acp-1"), ("m2", "one acp-1 and acp-2"))
        assert story.passes(DISTINCT)

    def test_two_under_their_own(self) -> None:
        story = replayed(self.interrupted(), ("m1", "one acp-1"), ("m2", "two acp-2"))
        assert story.passes(DISTINCT)
