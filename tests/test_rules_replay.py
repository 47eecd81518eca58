"""Replay: what a resume tells, under which ids, when, and that it runs nothing."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.conversation import read
from conformance.rules import RULES, judge
from tests.story import Story, proves

SAME_ID = "replay.same-id"
RESET = "replay.reset-before-chunks"
AGENT_RESET = "replay.reset-before-chunks-of-agent-messages"
DOUBLED = "replay.no-doubled-content"
BEFORE = "replay.before-response"
UNASKED = "replay.none-unless-asked"
SNAPSHOT = "replay.state-snapshot"
CURSOR = "replay.bad-cursor-rejected"
RUNS = "replay.does-not-execute"
DISTINCT = "replay.distinct-messages"
NOTICES = "replay.notices-are-live-only"


def lived(*, driven: bool = False) -> Story:
    """One turn, worked off: u1 "Ping?", a1 "Pong."."""
    story = Story(driven=driven).begin()
    first = story.prompt("Ping?", nonce="acp-1" if driven else None)
    story.reply(first, messageId="u1").user("u1", sent(driven)).running().says("a1", "Pong.").idle("end_turn")
    return story.after(5)


def sent(driven: bool) -> str:
    return "Ping? acp-1" if driven else "Ping?"


def agent(story: Story, id: str, text: str, **more: Any) -> Story:
    return story.update("agent_message", messageId=id, content=[{"type": "text", "text": text}], **more)


def failed(story: Story) -> set[str]:
    """All rules of the replay area that find a violation."""
    rules = [rule for rule in RULES.values() if rule.area == "replay"]
    outcomes = judge(story.recorder.history, rules)
    assert not [outcome.broken for outcome in outcomes.values() if outcome.broken]
    for outcome in outcomes.values():
        for finding in outcome.findings:
            proves(finding)
    return {id for id, outcome in outcomes.items() if any(f.kind == "violation" for f in outcome.findings)}


def replayed(story: Story, *, driven: bool = False, at: str = "ada") -> Story:
    """A right replay of that turn by full content."""
    resumed = story.resume(replay=True, at=at)
    story.user("u1", sent(driven), at=at)
    return agent(story, "a1", "Pong.", at=at).idle("end_turn", at=at).reply(resumed, at=at)


def test_a_right_replay_exercises_and_passes() -> None:
    story = replayed(lived())
    assert failed(story) == set()
    for rule in (SAME_ID, DOUBLED, BEFORE, SNAPSHOT, RUNS):
        assert story.passes(rule), rule


def test_a_right_replay_after_a_restart() -> None:
    story = lived(driven=True).control("cut").control("started", at="ada#2", transport="stdio", restart_of="ada")
    replayed(story.initialize(at="ada#2"), driven=True, at="ada#2")
    assert failed(story) == set()
    assert story.passes(SAME_ID)
    assert story.passes(DOUBLED)


def test_a_right_replay_in_chunks() -> None:
    story = lived()
    resumed = story.resume(replay=True)
    story.update("user_message", messageId="u1", content=[]).chunk("user_message", "u1", "Pi").chunk(
        "user_message", "u1", "ng?"
    )
    story.update("agent_message", messageId="a1", content=[]).says("a1", "Pong.").idle("end_turn").reply(resumed)
    assert failed(story) == set()
    assert story.passes(RESET)
    assert story.passes(AGENT_RESET)
    assert story.passes(DOUBLED)


class TestSameId:
    def test_renamed(self) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        agent(story.user("r0", "Ping?"), "r1", "Pong.").idle().reply(resumed)
        assert failed(story) == {SAME_ID}
        (finding,) = story.outcome(SAME_ID).findings
        assert len(finding.because) == 4

    def test_renamed_in_chunks_after_a_restart(self) -> None:
        story = lived(driven=True).control("cut").initialize(at="ada#2")
        resumed = story.resume(replay=True, at="ada#2")
        story.update("user_message", messageId="r0", content=[], at="ada#2").chunk(
            "user_message", "r0", "Ping? acp-1", at="ada#2"
        )
        assert story.idle(at="ada#2").reply(resumed, at="ada#2").fails(SAME_ID)

    def test_absent_from_the_replay(self) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        assert agent(story, "a1", "Pong.").idle().reply(resumed).silent(SAME_ID)

    def test_a_summary_that_quotes_the_prompt(self) -> None:
        story = lived(driven=True)
        resumed = story.resume(replay=True)
        assert story.user("sum", "The user said: Ping? acp-1. We answered.").idle().reply(resumed).silent(SAME_ID)

    def test_an_equal_message_that_was_there_before(self) -> None:
        story = Story(driven=False).initialize()
        resumed = story.resume(replay=True)
        story.user("old", "Ping?").idle().reply(resumed).after(2)
        first = story.prompt("Ping?")
        story.reply(first, messageId="u1").user("u1", "Ping?").running().idle("end_turn").after(5)
        again = story.resume(replay=True)
        story.user("old", "Ping?").user("u1", "Ping?").idle().reply(again)
        assert story.passes(SAME_ID)

    def test_a_session_with_an_unknown_past_is_a_warning(self) -> None:
        story = Story(driven=False).initialize()
        resumed = story.resume()
        story.idle().reply(resumed)
        first = story.prompt("Ping?")
        story.reply(first, messageId="u1").user("u1", "Ping?").running().idle("end_turn").after(5)
        again = story.resume(replay=True)
        story.user("old", "Ping?").idle().reply(again)
        assert story.fails(SAME_ID) == []
        assert story.warns(SAME_ID)


class TestResets:
    def test_chunks_without_a_reset_double_the_message(self) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        agent(story.chunk("user_message", "u1", "Ping?"), "a1", "Pong.").idle().reply(resumed)
        assert failed(story) == {RESET, DOUBLED}

    def test_the_report_of_a_pending_prompt_goes_on(self) -> None:
        story = lived()
        second = story.prompt("And now?")
        story.chunk("user_message", "u2", "And ")
        resumed = story.resume(replay=True)
        story.chunk("user_message", "u2", "now?").reply(second, messageId="u2").user("u1", "Ping?")
        story.update("user_message", messageId="u2", content=[]).chunk("user_message", "u2", "And now?")
        assert story.running().reply(resumed).fails(RESET) == []

    def test_agent_chunks_without_a_reset(self) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        story.user("u1", "Ping?").says("a1", "Pong.").idle().reply(resumed)
        assert failed(story) == {AGENT_RESET}

    def test_a_metadata_only_update_is_no_reset(self) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        story.update("user_message", messageId="u1", _meta={}).chunk("user_message", "u1", "Ping?").idle().reply(
            resumed
        )
        assert RESET in failed(story)

    @pytest.mark.parametrize(("text", "fails"), [("Ping?", {RESET}), ("Pi", {RESET}), ("!", set())])
    def test_its_beginning_before_the_reset(self, text: str, fails: set[str]) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        story.chunk("user_message", "u1", text).update("user_message", messageId="u1", content=[])
        agent(story.chunk("user_message", "u1", "Ping?"), "a1", "Pong.").idle().reply(resumed)
        assert failed(story) == fails

    @pytest.mark.parametrize(("is_over", "fails"), [(True, 1), (False, 0)])
    def test_a_client_that_comes_after_the_work_or_in_it(self, is_over: bool, fails: int) -> None:
        story = Story(driven=False).begin()
        story.reply(story.prompt("Ping?"), messageId="u1").user("u1", "Ping?").running()
        if is_over:
            story.idle("end_turn")
        resumed = story.initialize(at="bob").resume(replay=True, at="bob")
        story.chunk("user_message", "u1", "Ping?", at="bob").idle(at="bob").reply(resumed, at="bob")
        assert len(story.fails(RESET)) == fails

    def test_metadata_then_a_reset_is_right(self) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        story.update("user_message", messageId="u1", _meta={}).update("user_message", messageId="u1", content=[])
        assert story.chunk("user_message", "u1", "Ping?").idle().reply(resumed).passes(RESET)

    def test_a_client_that_never_saw_the_message_is_owed_the_reset_too(self) -> None:
        story = Story(driven=False).initialize()
        resumed = story.resume(replay=True)
        story.chunk("user_message", "u1", "Ping?").says("a1", "Pong.").idle().reply(resumed)
        assert failed(story) == {RESET, AGENT_RESET}

    def test_full_content_and_chunks_that_go_on_from_it(self) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        story.user("u1", "Pi").chunk("user_message", "u1", "ng?").idle().reply(resumed)
        assert failed(story) == set()
        assert story.passes(RESET)

    def test_cleared_with_null_is_a_warning(self) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        story.update("user_message", messageId="u1", content=None).chunk("user_message", "u1", "Ping?").idle().reply(
            resumed
        )
        assert failed(story) == set()
        assert story.warns(RESET)

    def test_live_chunks_of_running_work_in_the_window(self) -> None:
        story = Story(driven=False).begin()
        first = story.prompt("Ping?")
        story.reply(first, messageId="u1").user("u1", "Ping?").running().says("a1", "Po").after(2)
        resumed = story.resume(replay=True)
        story.says("a1", "ng").running().reply(resumed).idle("end_turn")
        assert failed(story) == set()

    def test_a_user_message_that_is_being_streamed(self) -> None:
        story = Story(driven=False).begin()
        first = story.prompt("Ping?")
        story.chunk("user_message", "u1", "Pi")
        resumed = story.resume(replay=True)
        story.chunk("user_message", "u1", "ng?").reply(first, messageId="u1").running().reply(resumed)
        assert failed(story) == set()

    def test_partial_output_with_no_snapshot_may_be_live(self) -> None:
        story = Story(driven=False).initialize()
        resumed = story.resume(replay=True)
        story.user("u1", "Ping?").says("a1", "Po").reply(resumed)
        assert failed(story) == {SNAPSHOT}


class TestDoubledContent:
    def test_full_content_and_then_all_chunks(self) -> None:
        story = lived(driven=True)
        resumed = story.resume(replay=True)
        story.user("u1", "Ping? acp-1").chunk("user_message", "u1", "Ping? acp-1").idle().reply(resumed)
        assert failed(story) == {DOUBLED}

    def test_a_restarted_client_holds_its_copy(self) -> None:
        story = lived(driven=True).control("cut").control("started", at="ada#2", transport="stdio", restart_of="ada")
        story.initialize(at="ada#2")
        resumed = story.resume(replay=True, at="ada#2")
        story.chunk("user_message", "u1", "Ping? acp-1", at="ada#2").idle(at="ada#2").reply(resumed, at="ada#2")
        assert failed(story) == {RESET, DOUBLED}

    def test_a_text_that_was_doubled_before(self) -> None:
        story = Story().begin()
        first = story.prompt("Ping?", nonce="acp-1")
        story.reply(first, messageId="u1").user("u1", "Ping? acp-1 Ping? acp-1").running().idle("end_turn").after(5)
        resumed = story.resume(replay=True)
        assert story.user("u1", "Ping? acp-1 Ping? acp-1").idle().reply(resumed).passes(DOUBLED)

    @pytest.mark.parametrize(("text", "fails"), [("Do acp-1. Then: acp-1", 0), ("Ping? acp-1\nPing? acp-1", 1)])
    def test_a_full_content_that_says_it_in_other_words(self, text: str, fails: int) -> None:
        story = lived(driven=True)
        resumed = story.resume(replay=True)
        assert len(story.user("u1", text).idle().reply(resumed).fails(DOUBLED)) == fails

    def test_nothing_replayed_exercises_nothing(self) -> None:
        story = lived()
        assert story.reply(story.resume(replay=True)).silent(DOUBLED)


class TestBeforeResponse:
    def test_known_messages_after_the_response(self) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        agent(story.idle().reply(resumed).user("u1", "Ping?"), "a1", "Pong.")
        assert failed(story) == {BEFORE}

    def test_unknown_messages_after_the_response(self) -> None:
        story = Story(driven=False).initialize()
        resumed = story.resume(replay=True)
        agent(story.idle().reply(resumed).user("u1", "Ping?"), "a1", "Pong.")
        assert failed(story) == {BEFORE}

    def test_only_part_of_it_came_late(self) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        agent(story.user("u1", "Ping?").idle().reply(resumed), "a1", "Pong.")
        assert failed(story) == {BEFORE}

    def test_new_work_of_another_client_after_the_response(self) -> None:
        story = Story(driven=False).initialize()
        resumed = story.resume(replay=True)
        story.idle().reply(resumed).user("u9", "Hi").running().says("a9", "Hi").idle("end_turn")
        assert failed(story) == set()

    def test_work_that_runs_on(self) -> None:
        story = Story(driven=False).initialize()
        resumed = story.resume(replay=True)
        story.user("u1", "Ping?").running().reply(resumed).says("a1", "Pong.").idle("end_turn")
        assert failed(story) == set()

    def test_an_agent_that_speaks_unasked_or_edits(self) -> None:
        story = replayed(lived())
        agent(agent(story, "a1", "Pong, edited."), "a7", "By the way")
        assert failed(story) == set()


class TestUnasked:
    def test_a_pending_prompt_may_be_reported_once_more(self) -> None:
        story = lived()
        second = story.prompt("And now?")
        story.user("u2", "And now?")
        resumed = story.resume()
        story.user("u2", "And now?").reply(second, messageId="u2").running().reply(resumed)
        assert story.fails(UNASKED) == []

    def test_known_messages(self) -> None:
        story = lived()
        resumed = story.resume()
        agent(story.user("u1", "Ping?"), "a1", "Pong.").idle().reply(resumed)
        assert failed(story) == {UNASKED}

    def test_unknown_messages(self) -> None:
        story = Story(driven=False).initialize()
        resumed = story.resume()
        agent(story.user("u1", "Ping?"), "a1", "Pong.").idle().reply(resumed)
        assert failed(story) == {UNASKED}

    def test_after_the_response(self) -> None:
        story = lived()
        resumed = story.resume()
        story.idle().reply(resumed).user("u1", "Ping?")
        assert failed(story) == {UNASKED}

    def test_a_finished_tool_call(self) -> None:
        story = Story(driven=False).begin().running()
        story.update("tool_call_update", toolCallId="c1", title="walk", status="completed").idle("end_turn").after(5)
        resumed = story.resume()
        story.update("tool_call_update", toolCallId="c1", title="walk", status="completed").idle().reply(resumed)
        assert story.fails(UNASKED)

    def test_a_plan_is_a_warning(self) -> None:
        story = lived()
        resumed = story.resume()
        story.update("plan_update", plan={"id": "p", "entries": []}).idle().reply(resumed)
        assert story.fails(UNASKED) == []
        assert story.warns(UNASKED)

    def test_state_commands_usage_and_titles_are_right(self) -> None:
        story = lived()
        resumed = story.resume()
        story.update("available_commands_update", availableCommands=[]).update("usage_update", used=1, size=2)
        story.update("session_info_update", title="T").idle("end_turn").reply(resumed)
        assert failed(story) == set()
        assert story.passes(UNASKED)

    def test_output_of_running_work_is_right(self) -> None:
        story = Story(driven=False).begin()
        first = story.prompt("Ping?")
        story.reply(first, messageId="u1").user("u1", "Ping?").running().says("a1", "P").after(2)
        resumed = story.resume()
        story.says("a1", "P").running().reply(resumed).idle("end_turn")
        assert failed(story) == set()

    def test_another_client_is_only_just_told(self) -> None:
        story = Story(driven=False).begin().initialize(at="bob")
        resumed = story.resume(at="bob")
        story.idle(at="bob").reply(resumed, at="bob")
        first = story.prompt("Ping?")
        story.reply(first, messageId="u1").user("u1", "Ping?")
        again = story.resume(at="bob")
        story.user("u1", "Ping?", at="bob").running(at="bob").reply(again, at="bob").running()
        assert failed(story) == set()

    def test_a_failed_resume_exercises_nothing(self) -> None:
        story = lived()
        assert story.refuse(story.resume(), -32002).silent(UNASKED)


class TestStateSnapshot:
    def test_none_before_the_response(self) -> None:
        story = lived()
        resumed = story.resume()
        story.reply(resumed).idle()
        assert failed(story) == {SNAPSHOT}

    def test_before_the_replay(self) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        agent(story.idle().user("u1", "Ping?"), "a1", "Pong.").reply(resumed)
        assert failed(story) == {SNAPSHOT}

    def test_before_a_replay_to_a_new_client(self) -> None:
        story = Story(driven=False).initialize()
        resumed = story.resume(replay=True)
        agent(story.idle().user("u1", "Ping?"), "a1", "Pong.").reply(resumed)
        assert failed(story) == {SNAPSHOT}

    def test_a_second_one_after_the_replay_is_right(self) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        assert agent(story.idle().user("u1", "Ping?"), "a1", "Pong.").idle().reply(resumed).passes(SNAPSHOT)

    def test_live_output_after_a_running_snapshot_is_right(self) -> None:
        story = Story(driven=False).initialize()
        resumed = story.resume(replay=True)
        assert story.user("u1", "Ping?").running().says("a1", "Pong.").reply(resumed).passes(SNAPSHOT)

    def test_an_agent_that_speaks_unasked_after_it(self) -> None:
        story = lived()
        resumed = story.resume()
        assert agent(story.idle(), "a7", "By the way").reply(resumed).passes(SNAPSHOT)


class TestBadCursor:
    @pytest.mark.parametrize(
        "cursor", ["start", 5, [], False, {}, {"type": 5}, {"type": None}, {"type": "message", "id": "u1"}]
    )
    def test_accepted(self, cursor: Any) -> None:
        story = lived()
        story.idle().reply(story.resume(replay=cursor))
        assert story.fails(CURSOR) == ["a cursor that cannot be served was accepted"]

    def test_another_code(self) -> None:
        story = lived()
        assert story.refuse(story.resume(replay={"type": "offset"}), -32603).fails(CURSOR)

    def test_history_all_the_same(self) -> None:
        story = lived()
        resumed = story.resume(replay={"type": "offset"})
        assert story.user("u1", "Ping?").refuse(resumed, -32602).fails(CURSOR)
        rejected = story.last.seq
        assert story.proof(CURSOR) == [rejected - 2, rejected - 1, rejected]

    def test_history_after_the_rejection(self) -> None:
        story = lived()
        rejected = story.resume(replay={"type": "offset"})
        assert len(story.refuse(rejected, -32602).user("u1", "Ping?").fails(CURSOR)) == 1
        asked = lived()
        asked.refuse(asked.resume(replay={"type": "offset"}), -32602)
        resumed = asked.resume(replay=True)
        assert asked.user("u1", "Ping?").idle().reply(resumed).passes(CURSOR)

    def test_rejected(self) -> None:
        story = lived()
        assert story.refuse(story.resume(replay={"type": "offset"}), -32602).passes(CURSOR)

    @pytest.mark.parametrize(("code", "right"), [(-32602.0, True), (-32602.5, False)])
    def test_rejected_with_a_whole_number(self, code: Any, right: bool) -> None:
        story = lived()
        story.refuse(story.resume(replay={"type": "offset"}), code)
        assert (story.fails(CURSOR) == []) is right

    @pytest.mark.parametrize("code", [-32002, -32000, -32601])
    def test_an_error_about_something_else(self, code: int) -> None:
        story = lived()
        assert story.refuse(story.resume(replay={"type": "offset"}), code).silent(CURSOR)

    def test_a_custom_cursor_may_be_supported_unless_the_suite_made_it_up(self) -> None:
        story = lived()
        assert story.idle().reply(story.resume(replay={"type": "_vendor/after"})).silent(CURSOR)
        story = lived(driven=True)
        assert story.idle().reply(story.resume(replay={"type": "_made/up"})).fails(CURSOR)

    def test_a_start_with_more_fields_is_no_bad_cursor(self) -> None:
        story = lived()
        assert story.idle().reply(story.resume(replay={"type": "start", "_meta": {}})).silent(CURSOR)

    @pytest.mark.parametrize(("id", "fails"), [("a1", 1), ("a7", 0)])
    def test_work_of_the_agents_own_before_the_rejection(self, id: str, fails: int) -> None:
        story = lived()
        resumed = story.resume(replay={"type": "offset"})
        agent(story.running(), id, "Pong.").idle("end_turn").refuse(resumed, -32602)
        assert len(story.fails(CURSOR)) == fails


class TestToolsAndTerminals:
    """One that was over before is of the past, wherever it comes again."""

    def told(self, story: Story) -> Story:
        story.update("terminal_update", terminalId="t1", command="make", exitStatus={"exitCode": 0})
        content = [{"type": "terminal", "terminalId": "t1"}]
        return story.update("tool_call_update", toolCallId="c1", title="make", status="completed", content=content)

    def past(self) -> Story:
        return self.told(lived().running()).idle("end_turn").after(5)

    @pytest.mark.parametrize(("first", "fails"), [(True, 0), (False, 1)])
    def test_after_the_state(self, first: bool, fails: int) -> None:
        story = self.past()
        resumed = story.resume(replay=True)
        agent(story.user("u1", "Ping?"), "a1", "Pong.")
        story = self.told(story).idle("end_turn") if first else self.told(story.idle("end_turn"))
        assert len(story.reply(resumed).fails(SNAPSHOT)) == fails

    @pytest.mark.parametrize(("in_window", "body", "fails"), [(False, True, 1), (True, True, 0), (False, False, 0)])
    def test_a_terminal_after_the_response(self, in_window: bool, body: bool, fails: int) -> None:
        story = self.past()
        resumed = story.resume(replay=True)
        agent(story.user("u1", "Ping?"), "a1", "Pong.")
        if in_window:
            self.told(story)
        story.idle("end_turn").reply(resumed)
        late = {"command": "make", "exitStatus": {"exitCode": 0}} if body else {"_meta": {"x": 1}}
        assert len(story.update("terminal_update", terminalId="t1", **late).fails(BEFORE)) == fails


class TestWorkThatBeginsInTheWindow:
    """A prompt may be accepted, and its work begin only while a resume is under way: then its output is live."""

    def chat(self, story: Story, *, accepted: bool) -> Any:
        """A turn whose first words come between a resume and its response; returns the id of the resume."""
        second = story.prompt("And now?")
        if accepted:
            story.reply(second, messageId="u2").user("u2", "And now?")
        resumed = story.resume(replay=True)
        story.running()
        if not accepted:
            story.user("u2", "And now?")
        story.user("u1", "Ping?").says("a2", "Well ").says("a2", "then.").idle("end_turn")
        if not accepted:
            story.reply(second, messageId="u2")
        return resumed

    @pytest.mark.parametrize("accepted", [True, False])
    def test_its_output_is_no_replay_without_a_reset(self, accepted: bool) -> None:
        story = lived()
        story.idle().reply(self.chat(story, accepted=accepted))
        assert failed(story) == set()
        assert story.warns(RUNS) == []

    def test_that_of_work_whose_prompt_waited_for_other_work(self) -> None:
        story = lived()
        first, second = story.prompt("One"), story.prompt("Two")
        story.reply(first, messageId="u2").user("u2", "One").reply(second, messageId="u3").user("u3", "Two")
        story.running().says("a2", "One.").idle("end_turn")
        resumed = story.resume(replay=True)
        story.running().says("a3", "Two.").idle("end_turn").reply(resumed)
        assert failed(story) == set()
        assert story.warns(RUNS) == []

    def test_once_all_prompts_are_worked_off_it_is_of_the_past(self) -> None:
        story = lived()
        first, second = story.prompt("One"), story.prompt("Two")
        story.reply(first, messageId="u2").user("u2", "One").reply(second, messageId="u3").user("u3", "Two")
        story.running().says("a2", "One.").idle("end_turn").running().says("a3", "Two.").idle("end_turn").after(5)
        resumed = story.resume(replay=True)
        assert story.says("a9", "Three.").idle().reply(resumed).fails(AGENT_RESET)

    def test_so_it_is_once_the_idle_session_was_quiet(self) -> None:
        story = lived(driven=True)
        first, second = story.prompt("One"), story.prompt("Two")
        story.reply(first, messageId="u2").user("u2", "One").reply(second, messageId="u3").user("u3", "Two")
        story.running().says("a2", "Both.").idle("end_turn").after(5)
        story.control("window", kind="quiet", session="s", began=story.last.seq + 1, seconds=0.3)
        resumed = story.resume(replay=True)
        assert story.says("a9", "Three.").idle().reply(resumed).fails(AGENT_RESET)


class TestRunsNothing:
    def toggled(self) -> Story:
        story = Story(driven=False).begin()
        first = story.prompt("/toggle-lint")
        story.reply(first, messageId="u1").user("u1", "/toggle-lint").running()
        return agent(story, "a1", "Lint is off.").idle("end_turn").after(5)

    def test_the_command_runs_again_in_the_window(self) -> None:
        story = self.toggled()
        resumed = story.resume(replay=True)
        agent(story.user("u1", "/toggle-lint").running(), "a2", "Lint is on.").idle("end_turn").reply(resumed)
        assert failed(story) == {RUNS}

    def test_after_the_history_was_told(self) -> None:
        story = self.toggled()
        resumed = story.resume(replay=True)
        agent(story.user("u1", "/toggle-lint"), "a1", "Lint is off.").running()
        agent(story, "a2", "Lint is on.").idle("end_turn").reply(resumed)
        assert failed(story) == {RUNS}

    def test_a_tool_runs_again_after_the_response(self) -> None:
        story = Story(driven=False).begin()
        first = story.prompt("Clean up")
        story.reply(first, messageId="u1").user("u1", "Clean up").running()
        story.update("tool_call_update", toolCallId="c1", title="rm", kind="execute", status="completed").idle(
            "end_turn"
        ).after(5)
        resumed = story.resume(replay=True)
        story.user("u1", "Clean up").idle("end_turn").reply(resumed).running()
        story.update("tool_call_update", toolCallId="c2", title="rm", kind="execute", status="completed").idle(
            "end_turn"
        )
        assert failed(story) == {RUNS}

    def test_the_model_is_asked_again(self) -> None:
        story = replayed(lived(driven=True), driven=True)
        story.control("model-request", number=1, api="x", nonce="acp-1", group="chat", side=False, last_user=True)
        assert story.fails(RUNS) == ["a replayed prompt was run again"]

    @pytest.mark.parametrize(("tail", "fails"), [("0a", 1), ("0b", 0)])
    def test_the_model_is_asked_again_with_something_after_the_prompt(self, tail: str, fails: int) -> None:
        story = Story().begin()
        first = story.prompt("Ping?", nonce="acp-1")
        story.reply(first, messageId="u1").user("u1", sent(True)).running()
        story.control("model-request", number=1, nonce="acp-1", last_user=True, tail="0a")
        story.control("model-answered", number=1, how="say").says("a1", "Pong.").idle("end_turn").after(5)
        for number in (2, 3):
            replayed(story, driven=True).control(
                "model-request", number=number, nonce="acp-1", last_user=True, tail=tail
            )
            story.control("model-answered", number=number, how="say").after(5)
        assert len(story.fails(RUNS)) == 2 * fails

    def test_a_greeting_at_each_resume(self) -> None:
        """The first one comes where nothing is replayed, so it is the agent's way."""
        story = lived(driven=True).initialize(at="bob")
        story.idle(at="bob").reply(story.resume(at="bob"), at="bob").running(at="bob")
        agent(story, "a8", "Welcome back.", at="bob").idle("end_turn", at="bob").after(2).initialize(at="cyd")
        replayed(story, driven=True, at="cyd").running(at="cyd")
        assert agent(story, "a9", "Welcome back.", at="cyd").idle("end_turn", at="cyd").fails(RUNS) == []

    @pytest.mark.parametrize(("asked", "fails"), [(True, 0), (False, 1)])
    def test_the_same_words_of_the_scripted_model_to_another_question(self, asked: bool, fails: int) -> None:
        story = replayed(lived(driven=True), driven=True).running()
        if asked:
            story.control("model-request", number=2, nonce="acp-1", last_user=False, tail="0b")
        assert len(story.says("a9", "Pong.").idle("end_turn").fails(RUNS)) == fails

    def test_the_model_is_asked_for_the_same_prompt_in_another_session(self) -> None:
        story = replayed(lived(driven=True), driven=True)
        story.reply(story.request("session/new", {"cwd": "/w"}), sessionId="other")
        story.prompt("Hello", nonce="acp-1", session="other")
        story.control("model-request", number=1, api="x", nonce="acp-1", group="other", side=False, last_user=True)
        assert story.passes(RUNS)

    def test_a_side_request_that_quotes_the_prompt(self) -> None:
        story = replayed(lived(driven=True), driven=True)
        story.control("model-request", number=1, api="x", nonce="acp-1", group="chat", side=True, last_user=True)
        assert story.passes(RUNS)

    def test_a_request_that_cannot_be_told_is_a_warning_where_work_begins(self) -> None:
        story = replayed(lived(driven=True), driven=True)
        story.control("model-request", number=1, api="x", nonce="acp-1", group="chat", side=False, last_user=False)
        story.running()
        assert story.fails(RUNS) == []
        assert story.warns(RUNS)

    def test_a_suggestion_request_after_the_turn(self) -> None:
        story = replayed(lived(driven=True), driven=True)
        story.control("model-request", number=1, api="x", nonce="acp-1", group="chat", side=False, last_user=False)
        assert story.passes(RUNS)

    def test_permission_is_asked_again(self) -> None:
        story = Story(driven=False).begin()
        first = story.prompt("Clean up")
        options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
        story.reply(first, messageId="u1").user("u1", "Clean up").running()
        story.asks("session/request_permission", {"sessionId": "s", "title": "rm", "options": options}, id=1)
        story.answer(1, outcome={"outcome": "selected", "optionId": "y"}).idle("end_turn").after(5)
        resumed = story.resume(replay=True)
        story.user("u1", "Clean up")
        story.asks("session/request_permission", {"sessionId": "s", "title": "rm", "options": options}, id=2)
        story.idle("end_turn").reply(resumed)
        assert failed(story) == {RUNS}

    def test_interrupted_work_that_goes_on_is_a_warning(self) -> None:
        story = Story(driven=False).begin()
        first = story.prompt("Clean up")
        story.reply(first, messageId="u1").user("u1", "Clean up").control("cut").initialize(at="ada#2").after(5)
        resumed = story.resume(replay=True, at="ada#2")
        story.user("u1", "Clean up", at="ada#2").running(at="ada#2").says("a2", "On it", at="ada#2")
        story.reply(resumed, at="ada#2").idle("end_turn", at="ada#2")
        assert story.fails(RUNS) == []
        assert story.warns(RUNS)

    def test_an_agent_that_works_unasked_is_a_warning(self) -> None:
        story = Story(driven=False).begin().running().says("a0", "Indexed.").idle("end_turn")
        first = story.prompt("Ping?")
        story.reply(first, messageId="u1").user("u1", "Ping?").running().says("a1", "Pong.").idle("end_turn").after(5)
        resumed = story.resume(replay=True)
        story.user("u1", "Ping?").running().says("a5", "Indexed.").idle("end_turn").reply(resumed)
        assert story.fails(RUNS) == []
        assert story.warns(RUNS)

    def test_agent_initiated_work_after_the_resume_is_right(self) -> None:
        assert replayed(lived()).running().says("a5", "News.").idle("end_turn").passes(RUNS)

    def test_work_that_was_running_is_right(self) -> None:
        story = Story(driven=False).begin()
        first = story.prompt("Ping?")
        story.reply(first, messageId="u1").user("u1", "Ping?").running().after(5)
        resumed = story.resume(replay=True)
        assert story.user("u1", "Ping?").running().says("a1", "Pong.").reply(resumed).idle("end_turn").passes(RUNS)

    def test_no_replayed_prompt_exercises_nothing(self) -> None:
        story = lived()
        assert story.idle().reply(story.resume()).silent(RUNS)


def test_the_history_of_another_resume_is_not_late() -> None:
    story = lived()
    first = story.resume()
    second = story.resume(replay=True)
    agent(story.idle().user("u1", "Ping?").reply(first), "a1", "Pong.").idle().reply(second)
    assert story.fails(SNAPSHOT) == []


class TestResumesThatAreNoMessages:
    def test_an_answer_to_nobody_ends_the_window(self) -> None:
        story = Story().begin()
        story.client({"id": {}, "method": "session/resume", "params": {"sessionId": "s", "cwd": "/w"}})
        story.refuse(None, -32600)
        first = story.prompt("/status", trigger="local-command")
        story.user("u1", "/status").reply(first, messageId="u1").running().says("a1", "Well.").idle("end_turn")
        assert story.fails("command.inserts-a-message") == []
        (replay,) = read(story.recorder.history).connections["ada"].views["s"].replays
        assert replay.closes < first_report(story)

    def test_an_answer_to_another_line_does_not(self) -> None:
        story = lived()
        story.client(b"{")
        resumed = story.request("session/resume", {"sessionId": "s", "cwd": "/w"}, id=7.5)
        story.refuse(None, -32700).idle().reply(resumed)
        assert story.fails(SNAPSHOT) == []


def first_report(story: Story) -> int:
    return next(e.seq for e in story.recorder.history if "user_message" in str(e.message))


class TestDistinctMessages:
    def two(self) -> Story:
        story = lived()
        second = story.prompt("And now?")
        story.reply(second, messageId="u2").user("u2", "And now?").running().says("a2", "Now.").idle("end_turn")
        return story.after(5)

    def test_two_under_one_id(self) -> None:
        story = self.two()
        resumed = story.resume(replay=True)
        story.user("u1", "Ping?").user("u1", "And now?").idle().reply(resumed)
        assert DISTINCT in failed(story)

    def test_two_under_one_new_id_in_chunks(self) -> None:
        story = self.two()
        resumed = story.resume(replay=True)
        story.update("user_message", messageId="u1", content=[])
        story.chunk("user_message", "u1", "Ping?").chunk("user_message", "u1", "And now?").idle().reply(resumed)
        assert failed(story) == {DISTINCT}

    def test_a_report_that_goes_on_when_the_resume_is_on_its_way(self) -> None:
        story = self.two()
        third = story.prompt("Ping! And more.")
        story.reply(third, messageId="u3").running().chunk("user_message", "u3", "Ping")
        resumed = story.resume(replay=True)
        story.chunk("user_message", "u3", "! And more.")
        for id, *pieces in (("u1", "Ping", "?"), ("u2", "And now?"), ("u3", "Ping", "! And more.")):
            story.update("user_message", messageId=id, content=[])
            for piece in pieces:
                story.chunk("user_message", id, piece)
        story.running().reply(resumed).says("a3", "Well.").idle("end_turn")
        assert failed(story) == set()

    def test_two_under_their_own(self) -> None:
        story = self.two()
        resumed = story.resume(replay=True)
        assert story.user("u1", "Ping?").user("u2", "And now?").idle().reply(resumed).passes(DISTINCT)

    @pytest.mark.parametrize("first", ["/status", "Ping?"])
    def test_a_message_that_begins_like_another(self, first: str) -> None:
        story = Story(driven=False).begin()
        blocks = [{"type": "text", "text": first}, {"type": "text", "text": " Twice, please."}]
        story.reply(story.request("session/prompt", {"sessionId": "s", "prompt": blocks}), messageId="u1")
        story.running().idle("end_turn")
        story.reply(story.prompt(first), messageId="u2").running().idle("end_turn").after(5)
        resumed = story.resume(replay=True)
        story.update("user_message", messageId="u1", content=[])
        for block in blocks:
            story.update("user_message_chunk", messageId="u1", content=block)
        assert story.user("u2", first).idle().reply(resumed).passes(DISTINCT)

    def test_one_message_exercises_nothing(self) -> None:
        story = lived()
        resumed = story.resume(replay=True)
        assert story.user("u1", "Ping?").idle().reply(resumed).silent(DISTINCT)


class TestNotices:
    def retried(self) -> Story:
        story = Story(driven=False).begin()
        first = story.prompt("Ping?")
        story.reply(first, messageId="u1").user("u1", "Ping?").running()
        story.update("notice", severity="warning", title="Retrying").says("a1", "Pong.").idle("end_turn")
        return story.after(5)

    def test_told_again_in_its_place(self) -> None:
        story = self.retried()
        resumed = story.resume(replay=True)
        agent(
            story.user("u1", "Ping?").update("notice", severity="warning", title="Retrying"), "a1", "Pong."
        ).idle().reply(resumed)
        assert failed(story) == {NOTICES}

    def test_in_another_place_it_may_be_caused_anew(self) -> None:
        story = self.retried()
        resumed = story.resume(replay=True)
        story.update("notice", severity="warning", title="Retrying").user("u1", "Ping?").idle().reply(resumed)
        assert story.fails(NOTICES) == []
        assert story.warns(NOTICES)

    def test_left_out_or_another_one_is_right(self) -> None:
        story = self.retried()
        resumed = story.resume(replay=True)
        assert (
            story.user("u1", "Ping?")
            .update("notice", severity="info", title="Hi")
            .idle()
            .reply(resumed)
            .passes(NOTICES)
        )

    def test_open_work_may_say_it_once_more(self) -> None:
        story = lived().update("notice", severity="info", title="Working")
        story.reply(story.prompt("And now?"), messageId="u2").user("u2", "And now?")
        resumed = story.resume(replay=True)
        story.running().update("notice", severity="info", title="Working").user("u1", "Ping?").reply(resumed)
        assert story.passes(NOTICES)

    def test_no_live_notice_exercises_nothing(self) -> None:
        assert replayed(lived()).silent(NOTICES)


def test_a_thought_in_chunks_without_a_reset() -> None:
    story = Story(driven=False).begin()
    story.reply(story.prompt("Ping?"), messageId="u1").user("u1", "Ping?").running()
    story.chunk("agent_thought", "t1", "A ping.").idle("end_turn").after(5)
    resumed = story.resume(replay=True)
    story.user("u1", "Ping?").chunk("agent_thought", "t1", "A ping.").idle("end_turn").reply(resumed)
    assert failed(story) == {AGENT_RESET}


def test_a_prompt_that_is_appended_to_what_the_agent_had_made_of_it() -> None:
    story = Story().begin()
    story.reply(story.prompt("Ping?", nonce="acp-1"), messageId="u1").user("u1", "Ping? acp-1 <context>")
    story.running().says("a1", "Pong.").idle("end_turn").after(5)
    resumed = story.resume(replay=True)
    story.chunk("user_message", "u1", "Ping? acp-1").idle("end_turn").reply(resumed)
    assert DOUBLED in failed(story)


def test_the_proof_of_late_history_begins_where_a_message_is_cleared() -> None:
    story = lived()
    resumed = story.resume(replay=True)
    story.idle().reply(resumed)
    story.update("user_message", messageId="u1", content=[])
    cleared = story.last.seq
    story.chunk("user_message", "u1", "Ping?")
    assert story.proof(BEFORE) == [cleared - 3, cleared - 1, cleared]


def test_a_message_like_the_prompt_that_was_there_before_is_replayed_in_its_place() -> None:
    """That a prompt was reported as two messages is another rule's."""
    story = lived(driven=True).user("x7", "Ping? acp-1").after(5)
    resumed = story.resume(replay=True)
    story.user("x7", "Ping? acp-1").idle("end_turn").reply(resumed)
    assert story.fails(SAME_ID) == []


@pytest.mark.parametrize("replay", [None, True])
def test_a_pending_prompt_that_is_reported_and_answered_after_a_resume(replay: Any) -> None:
    story = lived()
    story.prompt("And now?")
    story.idle().reply(story.resume(replay=replay)).user("u2", "And now?").says("a2", "Now.")
    assert story.fails(BEFORE if replay else UNASKED) == []


def test_a_user_message_without_an_id_after_the_response_is_nobodys_history() -> None:
    story = Story(driven=False).initialize()
    resumed = story.resume(replay=True)
    story.idle().reply(resumed).update("user_message", content=[{"type": "text", "text": "Ping?"}])
    assert agent(story, "a1", "Pong.").fails(BEFORE) == []
