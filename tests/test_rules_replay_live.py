"""What comes in a window or after it and is live: messages that go on, are taken back, or come from elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from tests.story import Story
from tests.test_rules_replay import BEFORE, DOUBLED, RESET, SAME_ID, UNASKED, agent, failed, lived, replayed

TEXT = "a long text that is streamed acp-1"


def streaming(text: str = TEXT, *, told: str = "a long ") -> Story:
    """A prompt whose message is told in chunks, of which this is the first; it has been answered."""
    story = Story().begin()
    prompt = story.prompt(text, nonce="acp-1")
    return story.chunk("user_message", "m1", told).reply(prompt, messageId="m1").after(0.5)


class TestUserMessagesThatAreStreamed:
    @pytest.mark.parametrize("replay", [None, True])
    @pytest.mark.parametrize(("chunk", "fails"), [("text that ", 0), (TEXT, 1), ("a long ", 1)])
    def test_over_a_resume(self, replay: Any, chunk: str, fails: int) -> None:
        story = streaming()
        resumed = story.resume(replay=replay)
        story.chunk("user_message", "m1", chunk).running().reply(resumed).chunk("user_message", "m1", "and so on")
        assert len(story.fails(RESET)) == fails

    @pytest.mark.parametrize(
        ("told", "left", "replayed", "fails"),
        [
            ("a long ", "text that is streamed acp-1", None, 0),  # the rest of it, and then the replay in full
            (TEXT, "", None, 0),
            ("a long ", TEXT, None, 1),  # all of it again, and then in full
            (TEXT, "", TEXT, 1),  # the rest, and then all of it in chunks
        ],
    )
    def test_what_is_left_and_then_the_replay(self, told: str, left: str, replayed: str | None, fails: int) -> None:
        story = streaming(told=told)
        resumed = story.resume(replay=True)
        story.chunk("user_message", "m1", left).running().idle("cancelled")
        again = story.user("m1", TEXT) if replayed is None else story.chunk("user_message", "m1", replayed)
        assert len(again.idle("cancelled").reply(resumed).fails(RESET)) == fails

    def test_to_a_client_that_joins(self) -> None:
        story = streaming().initialize(at="bob").running().after(1.5)
        resumed = story.resume(at="bob")
        story.chunk("user_message", "m1", "text that ", at="bob").running(at="bob").reply(resumed, at="bob")
        assert story.fails(RESET) == []

    @pytest.mark.parametrize("replay", [None, True])
    @pytest.mark.parametrize(("chunk", "fails"), [("/explain x acp-1", 0), ("Explain: ", 1)])
    def test_an_expanded_text(self, replay: Any, chunk: str, fails: int) -> None:
        story = streaming("/explain x acp-1", told="Explain: ")
        resumed = story.resume(replay=replay)
        story.chunk("user_message", "m1", chunk).running().reply(resumed).idle("end_turn")
        assert len(story.fails(RESET)) == fails

    def test_an_expanded_text_that_was_worked_off(self) -> None:
        story = streaming("/explain x acp-1", told="Explain: ").running().idle("end_turn").after(5)
        resumed = story.resume(replay=True)
        story.chunk("user_message", "m1", "/explain x acp-1").idle("end_turn").reply(resumed)
        assert story.fails(RESET)


class TestChunksBeforeTheReset:
    @pytest.mark.parametrize(("cleared", "fails"), [({"content": []}, 0), ({"content": None}, 0), ({}, 1)])
    def test_those_of_another_replay(self, cleared: Any, fails: int) -> None:
        story = lived()
        first = story.resume(replay=True)
        story.update("user_message", messageId="u1", content=[]).chunk("user_message", "u1", "Pi")
        second = story.resume(replay=True)
        story.chunk("user_message", "u1", "ng?").idle().reply(first)
        story.update("user_message", messageId="u1", **cleared).chunk("user_message", "u1", "Ping?")
        assert len(story.idle().reply(second).fails(RESET)) == fails

    def test_a_live_one(self) -> None:
        story = streaming()
        resumed = story.resume(replay=True)
        story.chunk("user_message", "m1", "text that ").update("user_message", messageId="m1", content=[])
        story.chunk("user_message", "m1", "a long text that ").running().reply(resumed)
        story.chunk("user_message", "m1", "is streamed acp-1").idle("end_turn")
        assert story.fails(RESET) == []
        assert story.fails(DOUBLED) == []


class TestUserMessagesFromElsewhere:
    @pytest.mark.parametrize("replay", [None, True])
    def test_in_chunks_within_a_window(self, replay: Any) -> None:
        story = lived()
        resumed = story.resume(replay=replay)
        story.chunk("user_message", "x7", "Hel").chunk("user_message", "x7", "lo").idle("end_turn").reply(resumed)
        assert story.fails(RESET) == []

    def test_a_late_report(self) -> None:
        story = Story(driven=False).begin()
        story.reply(story.prompt("Ping?"), messageId="u1").after(5)
        resumed = story.resume(replay=True)
        story.chunk("user_message", "u1", "Pi").chunk("user_message", "u1", "ng?").idle().reply(resumed)
        assert story.fails(RESET) == []
        assert story.warns(RESET)

    @pytest.mark.parametrize(("own", "fails"), [(True, 0), (False, 1)])
    def test_one_that_says_the_same_in_the_replay(self, own: bool, fails: int) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        if own:
            story.user("u1", "Ping?")
        story.user("x7", "Ping?").idle().reply(resumed)
        assert len(story.fails(SAME_ID)) == fails


class TestAfterTheResponse:
    """Without a replay, an agent may go on with what it wrote outside of work, take back, replace, or add to it."""

    def resumed(self, story: Story) -> Story:
        asked = story.resume()
        return story.idle("end_turn").reply(asked)

    @pytest.mark.parametrize(
        ("body", "fails"),
        [
            ({"content": []}, 0),
            ({"content": None}, 0),
            ({"content": [{"type": "text", "text": "Pong."}], "_meta": {"rating": 1}}, 0),
            ({"content": [{"type": "text", "text": "Pong, edited."}]}, 0),
            ({"content": [{"type": "text", "text": "Pong."}]}, 1),
        ],
    )
    def test_an_answer_is_told_anew(self, body: Any, fails: int) -> None:
        story = self.resumed(lived()).update("agent_message", messageId="a1", **body)
        assert len(story.fails(UNASKED)) == fails

    def test_the_meta_that_it_had(self) -> None:
        story = lived().update("agent_message", messageId="a1", _meta={"rating": 1})
        content = [{"type": "text", "text": "Pong."}]
        story = self.resumed(story).update("agent_message", messageId="a1", content=content, _meta={"rating": 1})
        assert story.fails(UNASKED) == ["history was replayed unasked"]

    @pytest.mark.parametrize(("chunk", "fails"), [("Po", 1), ("Sorry", 0)])
    def test_taken_back_and_written_in_chunks(self, chunk: str, fails: int) -> None:
        story = self.resumed(lived()).update("agent_message", messageId="a1", content=[])
        assert len(story.says("a1", chunk).fails(UNASKED)) == fails

    def test_an_image_that_is_replaced(self) -> None:
        image = {"type": "image", "mimeType": "image/png", "data": "AAAA"}
        story = Story(driven=False).begin()
        story.reply(story.prompt("Draw"), messageId="u1").user("u1", "Draw").running()
        story.update("agent_message", messageId="a1", content=[image]).idle("end_turn").after(5)
        self.resumed(story).update("agent_message", messageId="a1", content=[{**image, "data": "BBBB"}])
        assert story.fails(UNASKED) == []

    @pytest.mark.parametrize("rule", [UNASKED, BEFORE])
    def test_words_outside_of_work_that_go_on(self, rule: str) -> None:
        story = lived().says("bg", ".").says("bg", ".").after(2)
        if rule == UNASKED:
            self.resumed(story)
        else:
            replayed(story)
        assert story.says("bg", ".").says("bg", ".").fails(rule) == []

    def test_words_of_work_that_come_again(self) -> None:
        assert failed(self.resumed(lived()).says("a1", "Pong.")) == {UNASKED}

    @pytest.mark.parametrize(("died", "again", "fails"), [(True, False, 1), (False, False, 0), (True, True, 0)])
    def test_after_the_process_died_at_work(self, died: bool, again: bool, fails: int) -> None:
        """`again`: the work goes on, and what it said is of it."""
        story = Story().control("started", transport="stdio").begin()
        story.reply(story.prompt("Ping?", nonce="acp-1"), messageId="u1").user("u1", "Ping? acp-1").running()
        story.says("a1", "Half").control("exited" if died else "cut").after(2)
        story.control("started", at="ada#2", transport="stdio", restart_of="ada").initialize(at="ada#2")
        resumed = story.resume(at="ada#2")
        if again:
            story.running(at="ada#2")
        agent(story, "a1", "Half", at="ada#2").idle(at="ada#2").reply(resumed, at="ada#2")
        assert len(story.fails(UNASKED)) == fails

    @pytest.mark.parametrize(("is_empty", "fails"), [(True, 0), (False, 1)])
    def test_a_greeting(self, is_empty: bool, fails: int) -> None:
        story = self.resumed(Story(driven=False).begin() if is_empty else lived())
        assert len(agent(story.user("c1", "Context"), "g1", "Hi").fails(UNASKED)) == fails


@pytest.mark.parametrize(("title", "fails"), [("walk", 1), ("walk (2 s)", 0), (None, 0)])
def test_a_finished_tool_call_is_given_another_title(title: str | None, fails: int) -> None:
    story = Story(driven=False).begin().running()
    story.update("tool_call_update", toolCallId="c1", title="walk", status="completed").idle("end_turn").after(5)
    resumed = story.resume()
    named = {} if title is None else {"title": title}
    story.update("tool_call_update", toolCallId="c1", status="completed", **named).idle().reply(resumed)
    assert len(story.fails(UNASKED)) == fails


class TestOldMessagesInMidWork:
    @pytest.mark.parametrize("chunked", [False, True])
    @pytest.mark.parametrize(
        ("kind", "id", "text"), [("user_message", "u1", "Ping?"), ("agent_message", "a1", "Pong.")]
    )
    def test_told_unasked(self, kind: str, id: str, text: str, chunked: bool) -> None:
        """Open work does not write what ended with work long before; what it has begun it may."""
        story, text = lived(), "Ping?" if id == "u1" else "Pong."
        story.reply(story.prompt("More"), messageId="u2").user("u2", "More").running().says("a2", "Well")
        resumed = story.resume()
        if chunked:
            story.update(kind, messageId=id, content=[]).chunk(kind, id, text)
        else:
            story.update(kind, messageId=id, content=[{"type": "text", "text": text}])
        assert story.running().reply(resumed).fails(UNASKED)

    def test_a_message_of_the_open_work(self) -> None:
        story = lived()
        story.reply(story.prompt("More"), messageId="u2").user("u2", "More").running().says("a2", "Well").after(5)
        resumed = story.resume()
        assert agent(story, "a2", "Well").running().reply(resumed).fails(UNASKED) == []


class TestReportsThatAResumeInterrupts:
    """Moments after a prompt was accepted its report comes, whatever the client asks meanwhile."""

    LINK: Any = {"type": "resource_link", "uri": "file:///w/a", "name": "a"}  # noqa: RUF012

    def accepted(self, text: str = "Ping?", blocks: tuple[Any, ...] = ()) -> Story:
        story = Story(driven=False).begin()
        prompt = [{"type": "text", "text": text}, *blocks]
        sent = story.request("session/prompt", {"sessionId": "s", "prompt": prompt})
        return story.reply(sent, messageId="u1")

    @pytest.mark.parametrize("replay", [None, True])
    def test_after_a_live_reset(self, replay: Any) -> None:
        story = self.accepted().update("user_message", messageId="u1", content=[])
        resumed = story.resume(replay=replay)
        story.chunk("user_message", "u1", "Pi").chunk("user_message", "u1", "ng?").running().reply(resumed)
        assert failed(story.idle("end_turn")) == set()

    def test_of_a_client_that_is_gone(self) -> None:
        """Nobody was told the id of its message in a response."""
        story = Story(driven=False).begin().initialize(at="bob")
        joined = story.resume(at="bob")
        story.idle(at="bob").reply(joined, at="bob")
        story.prompt("Ping?")
        story.update("user_message", messageId="u1", content=[], at="bob")
        resumed = story.resume(replay=True, at="bob")
        story.chunk("user_message", "u1", "Ping?", at="bob").running(at="bob").reply(resumed, at="bob")
        assert failed(story.idle("end_turn", at="bob")) == set()

    @pytest.mark.parametrize("replay", [None, True])
    def test_before_a_block_that_is_no_text(self, replay: Any) -> None:
        story = self.accepted(blocks=(self.LINK,)).chunk("user_message", "u1", "Ping?")
        resumed = story.resume(replay=replay)
        story.update("user_message_chunk", messageId="u1", content=self.LINK).running().reply(resumed)
        assert failed(story.idle("end_turn")) == set()

    @pytest.mark.parametrize("gap", [0, 2])
    def test_the_whole_after_the_chunks_before_running(self, gap: float) -> None:
        """Soon it is still the report; later it is told anew."""
        story = self.accepted().chunk("user_message", "u1", "Ping?").after(gap)
        resumed = story.resume()
        story.user("u1", "Ping?").running().reply(resumed)
        assert bool(story.fails(UNASKED)) == bool(gap)

    def test_the_beginning_of_a_message_is_no_other_message(self) -> None:
        story = Story(driven=False).begin()
        blocks = [{"type": "text", "text": "why?"}, {"type": "text", "text": "Thanks."}]
        longer = story.request("session/prompt", {"sessionId": "s", "prompt": blocks})
        shorter = story.prompt("why?")
        story.reply(longer, messageId="u1").running().chunk("user_message", "u1", "why?")
        resumed = story.resume()
        story.chunk("user_message", "u1", "Thanks.").reply(resumed).cancel().refuse(shorter, -32800).idle("cancelled")
        assert story.fails("cancel.prompt-still-succeeds") == []

    @pytest.mark.parametrize("ended", [False, True])
    def test_one_that_had_not_begun(self, ended: bool) -> None:
        """A live report, unless the work was over by then: the replay is no report."""
        story = self.accepted().running()
        if ended:
            story.idle("end_turn")
        resumed = story.resume(replay=True)
        story.user("u1", "Ping?").idle("end_turn").reply(resumed)
        assert bool(story.fails("prompt.insertion-reported")) == ended

    @pytest.mark.parametrize(("joined", "fails"), [(True, 0), (False, 1)])
    def test_lines_that_lag_behind_for_one_client(self, joined: bool, fails: int) -> None:
        """Bob, who was there, gets the report late; who joins only now gets a replay."""
        story = Story(driven=False).begin().initialize(at="bob")
        if joined:
            story.reply(story.resume(at="bob"), at="bob")
        story.reply(story.prompt("Ping?"), messageId="u1").after(1.5).chunk("user_message", "u1", "Ping?")
        resumed = story.resume(replay=True, at="bob")
        story.chunk("user_message", "u1", "Ping?", at="bob").running(at="bob").reply(resumed, at="bob")
        assert len([*story.fails(RESET), *story.warns(RESET)]) == fails

    def test_chunks_of_an_earlier_resume(self) -> None:
        story = lived()
        first = story.resume(replay=True)
        story.update("user_message", messageId="u1", content=[])
        second = story.resume(replay=True)
        agent(story.chunk("user_message", "u1", "Ping?"), "a1", "Pong.").idle("end_turn").reply(first)
        agent(story.user("u1", "Ping?"), "a1", "Pong.").idle("end_turn").reply(second)
        assert failed(story) == set()


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_report_that_goes_on_with_a_block_that_is_no_text_is_no_replay(is_whole: bool) -> None:
    link = {"type": "resource_link", "uri": "file:///w/a", "name": "a"}
    content = [{"type": "text", "text": "Ping?"}, link]
    story = Story(driven=False).begin()
    sent = story.request("session/prompt", {"sessionId": "s", "prompt": content})
    story.reply(sent, messageId="u1").chunk("user_message", "u1", "Ping?")
    resumed = story.resume(replay=True)
    if is_whole:
        story.update("user_message", messageId="u1", content=content)
    else:
        story.update("user_message_chunk", messageId="u1", content=link)
    assert story.running().reply(resumed).idle("end_turn").silent(BEFORE)
