"""What begins after a resume though no prompt was sent: by its cause."""

from __future__ import annotations

import pytest

from tests.story import Story
from tests.test_rules_replay import BEFORE, RUNS, SNAPSHOT, UNASKED, agent, lived, replayed, sent

YES = {"optionId": "y", "name": "Yes", "kind": "allow_once"}
RAN = "what was done before was done again at a replay"


def asks(story: Story, title: str, id: int) -> Story:
    story.asks("session/request_permission", {"sessionId": "s", "title": title, "options": [YES]}, id=id)
    return story.answer(id, outcome={"outcome": "selected", "optionId": "y"})


class TestLater:
    @pytest.mark.parametrize(("seconds", "fails"), [(0.5, 1), (1.5, 0), (60, 0)])
    def test_work_with_earlier_output(self, seconds: float, fails: int) -> None:
        story = replayed(lived()).after(seconds).running().says("a2", "Pong.").idle("end_turn")
        assert story.fails(RUNS) == [RAN] * fails
        assert story.warns(RUNS) == [RAN] * (1 - fails)

    @pytest.mark.parametrize(("seconds", "fails"), [(0.5, 1), (60, 0)])
    def test_a_tool_that_runs_again(self, seconds: float, fails: int) -> None:
        story = Story(driven=False).begin()
        story.reply(story.prompt("Test it"), messageId="u1").user("u1", "Test it").running()
        story.update("tool_call_update", toolCallId="t1", title="npm test", status="completed").idle("end_turn").after(
            5
        )
        resumed = story.resume(replay=True)
        story.user("u1", "Test it").idle("end_turn").reply(resumed).after(seconds).running()
        story.update("tool_call_update", toolCallId="t2", title="npm test", status="completed").idle("end_turn")
        assert story.fails(RUNS) == [RAN] * fails


class TestOfAnotherMessage:
    """x7 comes from another client or from elsewhere; u1 is the prompt that was replayed."""

    @pytest.mark.parametrize(
        ("id", "text", "fails"),
        [("x7", "Hello from elsewhere", 0), ("u1", "Ping?", 1), ("u1", "Edited", 1)],
    )
    def test_right_after_the_resume(self, id: str, text: str, fails: int) -> None:
        story = replayed(lived()).user(id, text).running().says("a7", "Pong.").idle("end_turn")
        assert story.fails(RUNS) == [RAN] * fails

    @pytest.mark.parametrize("is_first", [True, False])
    def test_somebody_else_may_have_sent_the_same_text(self, is_first: bool) -> None:
        story = replayed(lived())
        story = story.user("x7", "Ping?").running() if is_first else story.running().user("x7", "Ping?")
        story.says("a7", "Pong.").idle("end_turn")
        assert (story.fails(RUNS), story.warns(RUNS)) == ([], [RAN])

    def test_the_suite_knows_all_prompts(self) -> None:
        story = replayed(lived(driven=True), driven=True).user("x7", sent(True)).running()
        assert story.says("a7", "Pong.").idle("end_turn").fails(RUNS) == [RAN]

    def test_a_new_text_after_running(self) -> None:
        story = replayed(lived()).running().user("x7", "Hello from elsewhere")
        assert story.says("a7", "Pong.").idle("end_turn").passes(RUNS)

    @pytest.mark.parametrize("kind", ["message", "tool call"])
    def test_other_work_may_begin_with_like_words(self, kind: str) -> None:
        story = replayed(lived()).running().says("a7", "Pong.")
        if kind == "message":
            story.says("a8", "And something else.")
        else:
            story.update("tool_call_update", toolCallId="t1", title="Look", status="completed")
        story.idle("end_turn")
        assert (story.fails(RUNS), story.warns(RUNS)) == ([], [RAN])

    def test_what_the_work_says_after_the_next_prompt_counts_too(self) -> None:
        story = replayed(lived()).running().says("a7", "Pong.")
        story.reply(story.prompt("And now?"), messageId="u2").says("a8", "And something else.").idle("end_turn")
        assert (story.fails(RUNS), story.warns(RUNS)) == ([], [RAN])

    def test_equal_thoughts_say_nothing(self) -> None:
        story = Story(driven=False).begin()
        story.reply(story.prompt("Ping?"), messageId="u1").user("u1", "Ping?").running()
        story.chunk("agent_thought", "t1", "Hm").says("a1", "Pong.").idle("end_turn").after(5)
        story = replayed(story).running().chunk("agent_thought", "t2", "Hm")
        assert story.idle("cancelled").fails(RUNS) == []

    @pytest.mark.parametrize(("text", "fails"), [("Hello from elsewhere", 0), ("Ping?", 1)])
    def test_within_the_window(self, text: str, fails: int) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        agent(story.user("u1", "Ping?"), "a1", "Pong.").user("x7", text).running().says("a7", "Hi").reply(resumed)
        assert story.idle("end_turn").fails(RUNS) == ["a replay set off work"] * fails

    def test_a_greeting_of_one_resume_in_the_window_of_another(self) -> None:
        story = lived()
        first, second = story.resume(replay=True), story.resume(replay=True)
        agent(story.user("u1", "Ping?"), "a1", "Pong.").idle("end_turn").reply(first).running()
        agent(story.user("u1", "Ping?"), "a1", "Pong.").running().reply(second).says("a7", "Back?").idle("end_turn")
        assert (story.fails(RUNS), len(story.warns(RUNS))) == ([], 1)

    def test_in_chunks(self) -> None:
        story = replayed(lived()).chunk("user_message", "x7", "Hel").chunk("user_message", "x7", "lo")
        assert story.running().says("a7", "Pong.").idle("end_turn").passes(RUNS)

    def test_one_that_the_replay_tells_before_the_prompt(self) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        story.user("x0", "Older").user("u1", "Ping?").running().says("a7", "Hi").reply(resumed).idle("end_turn")
        assert story.fails(RUNS) == ["a replay set off work"]


@pytest.mark.parametrize("text", ["On second thoughts", "Pong."])
def test_work_that_begins_before_anything_is_told(text: str) -> None:
    story = lived()
    resumed = story.resume(replay=True)
    story.running().says("a7", text).idle("end_turn")
    agent(story.user("u1", "Ping?"), "a1", "Pong.").idle("end_turn").reply(resumed)
    assert (story.fails(RUNS), len(story.warns(RUNS))) == ([], 1)


class TestPermissions:
    def test_of_the_start_and_not_of_work(self) -> None:
        story = lived_with_permission(in_work=False)
        resumed = story.resume(replay=True)
        assert asks(story, "Trust /w?", 2).user("u1", "Ping?").idle("end_turn").reply(resumed).passes(RUNS)

    def test_of_work(self) -> None:
        story = lived_with_permission(in_work=True)
        resumed = story.resume(replay=True)
        asks(story, "Trust /w?", 2).user("u1", "Ping?").idle("end_turn").reply(resumed)
        assert story.fails(RUNS) == ["permission was asked again at a replay"]


def lived_with_permission(*, in_work: bool) -> Story:
    story = Story(driven=False).begin()
    if not in_work:
        asks(story, "Trust /w?", 1)
    story.reply(story.prompt("Ping?"), messageId="u1").user("u1", "Ping?").running()
    if in_work:
        asks(story, "Trust /w?", 1)
    return story.says("a1", "Pong.").idle("end_turn").after(5)


class TestQueued:
    def two(self) -> Story:
        """Both prompts are inserted while the first is worked on; that work has ended."""
        story = Story().begin()
        first = story.prompt("One", nonce="acp-1")
        story.reply(first, messageId="u1").user("u1", "One acp-1").running()
        story.control("model-request", at="", number=1, nonce="acp-1", last_user=True)
        second = story.prompt("Two", nonce="acp-2")
        story.reply(second, messageId="u2").user("u2", "Two acp-2").control("model-answered", at="", number=1)
        return story.says("a1", "First.").idle("end_turn")

    def resumed(self, story: Story) -> Story:
        resumed = story.resume(replay=True)
        agent(story.user("u1", "One acp-1"), "a1", "First.").user("u2", "Two acp-2").idle("end_turn").reply(resumed)
        return story

    @pytest.mark.parametrize(("nonce", "fails"), [("acp-1", 1), ("acp-2", 0)])
    def test_a_prompt_whose_work_is_to_come(self, nonce: str, fails: int) -> None:
        story = self.resumed(self.two()).running()
        story.control("model-request", at="", number=2, nonce=nonce, last_user=True)
        story.says("a2", "Second.").idle("end_turn")
        assert len(story.fails(RUNS)) == fails

    def test_once_it_is_worked_off(self) -> None:
        story = self.two().running()
        story.control("model-request", at="", number=2, nonce="acp-2", last_user=True)
        story.control("model-answered", at="", number=2, how="say")
        self.resumed(story.says("a2", "Second.").idle("end_turn").after(3))
        story.control("model-request", at="", number=3, nonce="acp-2", last_user=True)
        assert story.fails(RUNS) == ["a replayed prompt was run again"]

    @pytest.mark.parametrize("how", ["never asked", "held", "call-tool"])
    def test_an_idle_told_too_early_makes_no_second_run(self, how: str) -> None:
        story = Story().begin()
        story.reply(story.prompt("One", nonce="acp-1"), messageId="u1").user("u1", "One acp-1").running()
        if how != "never asked":
            story.control("model-request", at="", number=1, nonce="acp-1", last_user=True)
        if how == "call-tool":
            story.control("model-answered", at="", number=1, how=how)
        resumed = story.idle("end_turn").after(3).resume(replay=True)
        story.user("u1", "One acp-1").idle("end_turn").reply(resumed)
        story.control("model-request", at="", number=2, nonce="acp-1", last_user=True)
        assert story.fails(RUNS) == []


class TestTwoResumesAtOnce:
    def test_each_is_told_and_ends_with_the_state(self) -> None:
        story = lived()
        first, second = story.resume(replay=True), story.resume(replay=True)
        agent(story.user("u1", "Ping?"), "a1", "Pong.").user("u1", "Ping?").idle("end_turn")
        agent(story, "a1", "Pong.").reply(first).idle("end_turn").reply(second)
        assert story.passes(SNAPSHOT)

    def test_the_second_one_first(self) -> None:
        story = lived()
        first, second = story.resume(replay=True), story.resume(replay=True)
        for one in (second, first):
            agent(story.user("u1", "Ping?"), "a1", "Pong.").idle("end_turn").reply(one)
        for rule in (SNAPSHOT, BEFORE):
            assert story.passes(rule)
        assert story.silent(UNASKED)

    def test_one_alone_ends_with_the_state(self) -> None:
        story = replayed(lived(driven=True), driven=True)
        resumed = story.resume(replay=True)
        agent(story.idle("end_turn").user("u1", sent(True)), "a1", "Pong.").reply(resumed)
        assert story.fails(SNAPSHOT) == ["the state_update came before the replay instead of after it"]


def test_a_prompt_of_another_client_within_the_window_may_have_begun_the_work() -> None:
    """The lines of two clients are not in the agent's order."""
    story = lived()
    resumed = story.resume(replay=True)
    agent(story.user("u1", "Ping?"), "a1", "Pong.").running().says("a7", "Something new")
    sent = story.prompt("Something new?", at="bob")
    story.reply(resumed).reply(sent, messageId="u2", at="bob").idle("end_turn")
    assert story.passes(RUNS)


def test_an_old_message_from_elsewhere_that_is_told_last_begins_no_work() -> None:
    story = Story(driven=False).begin()
    story.reply(story.prompt("Ping?"), messageId="u1").user("u1", "Ping?").running().user("x7", "And me")
    story.says("a1", "Pong.").idle("end_turn").after(5)
    resumed = story.resume(replay=True)
    agent(story.user("u1", "Ping?"), "a1", "Pong.").user("x7", "And me").running().says("a7", "New").reply(resumed)
    assert story.idle("end_turn").fails(RUNS) == ["a replay set off work"]
