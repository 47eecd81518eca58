"""Commands that the agent handles by itself: inserted, reported, with running and idle; and how commands are named."""

from __future__ import annotations

from typing import Any

import pytest

from tests.story import Story

INSERTS = "command.inserts-a-message"
LIFECYCLE = "command.same-lifecycle"
NAMES = "command.names"


def driven() -> tuple[Story, Any]:
    story = Story(triggers={"local-command": "/status"}).begin()
    return story, story.prompt("/status", trigger="local-command")


def window(story: Story) -> Story:
    return story.control("window", kind="quiet", session="s", began=story.last.seq + 1, seconds=1).barrier()


def foreign() -> Story:
    commands = [{"type": "command", "name": "lint", "description": "d"}]
    return Story(driven=False).begin().update("available_commands_update", availableCommands=commands)


class TestInserts:
    def test_reported_under_its_id(self) -> None:
        story, command = driven()
        assert story.reply(command, messageId="u1").user("u1", "/status").running().idle("end_turn").passes(INSERTS)

    def test_no_message_id(self) -> None:
        story, command = driven()
        assert story.reply(command).running().idle("end_turn").fails(INSERTS) == [
            "a command was answered without the id of its message"
        ]

    def test_never_reported(self) -> None:
        story, command = driven()
        story.reply(command, messageId="u1").running().says("a1", "Fine.").idle("end_turn")
        assert story.fails(INSERTS) == ["the message 'u1' of a command was never reported"]

    def test_never_reported_and_no_work_either(self) -> None:
        story, command = driven()
        story.reply(command, messageId="u1")
        assert story.fails(INSERTS) == []
        assert window(story).fails(INSERTS)
        assert story.proof(INSERTS) == [6, 7, 8]

    def test_one_kind_of_command_is_enough_for_a_profile(self) -> None:
        for trigger in ("local-command", "retained-command"):
            story = Story(triggers={trigger: "/status"}).begin()
            story.reply(story.prompt("/status", trigger=trigger), messageId="u1").user("u1", "/status").running()
            assert story.idle("end_turn").passes(INSERTS)
            assert story.passes(LIFECYCLE)
            story.reply(story.prompt("Hi", nonce="acp-1"), messageId="u2")
            assert story.outcome(INSERTS).not_applicable is None

    def test_a_recording_has_no_profile(self) -> None:
        story = foreign()
        story.reply(story.prompt("/lint"), messageId="u1")
        assert story.outcome(INSERTS).not_applicable is None

    def test_refused_exercises_nothing(self) -> None:
        story, command = driven()
        assert story.refuse(command, -32602).silent(INSERTS)

    def test_a_profile_without_commands(self) -> None:
        story = Story().begin()
        story.reply(story.prompt("Hi", nonce="acp-1"), messageId="u1")
        assert story.outcome(INSERTS).not_applicable == "the profile names no local command"
        assert story.outcome(LIFECYCLE).not_applicable == "the profile names no local command"


class TestLifecycle:
    def test_the_end_of_earlier_work_told_twice(self) -> None:
        story = Story(triggers={"local-command": "/status"}).begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u1").user("u1", "Hello acp-1").running()
        waiting, command = story.prompt("More", nonce="acp-2"), story.prompt("/status", trigger="local-command")
        story.idle("end_turn").idle("end_turn")
        after = story.prompt("Then", nonce="acp-3")
        story.running().reply(waiting, messageId="u2").user("u2", "More acp-2").idle("end_turn")
        story.running().reply(command, messageId="u3").user("u3", "/status").says("a3", "Fine.").idle("end_turn")
        story.running().reply(after, messageId="u4").user("u4", "Then acp-3").idle("end_turn")
        assert story.fails(LIFECYCLE) == []

    def test_running_and_idle(self) -> None:
        story, command = driven()
        assert story.reply(command, messageId="u1").user("u1", "/status").running().idle("end_turn").passes(LIFECYCLE)

    def test_running_before_the_response(self) -> None:
        story, command = driven()
        assert story.running().reply(command, messageId="u1").user("u1", "/status").idle("end_turn").passes(LIFECYCLE)

    def test_no_state_at_all(self) -> None:
        story, command = driven()
        story.reply(command, messageId="u1").user("u1", "/status").says("a1", "Fine.")
        assert story.fails(LIFECYCLE) == []
        assert window(story).fails(LIFECYCLE) == ["a command ran without running and idle being reported"]
        assert story.proof(LIFECYCLE) == [6, 7, 9, 10]

    def test_idle_and_no_running(self) -> None:
        story, command = driven()
        story.reply(command, messageId="u1").user("u1", "/status").idle("end_turn")
        assert story.fails(LIFECYCLE) == ["a command ended work that never began: running was not reported"]

    @pytest.mark.parametrize(
        ("output", "reason", "fails"), [(False, "cancelled", 0), (True, "cancelled", 1), (False, "end_turn", 1)]
    )
    def test_one_that_is_stopped_before_it_begins(self, output: bool, reason: str, fails: int) -> None:
        story, command = driven()
        delete = story.request("session/delete", {"sessionId": "s"})
        story.reply(command, messageId="u1").user("u1", "/status")
        if output:
            story.says("a1", "Fine.")
        assert len(story.idle(reason).reply(delete).fails(LIFECYCLE)) == fails

    def test_the_idle_of_a_prompt_that_was_stopped_before_it_began(self) -> None:
        story = Story(triggers={"local-command": "/status"}).begin()
        first = story.prompt("Hello", nonce="acp-1")
        story.user("u1", "Hello acp-1").reply(first, messageId="u1").cancel()
        command = story.prompt("/status", trigger="local-command")
        story.idle("cancelled").user("u2", "/status").reply(command, messageId="u2")
        assert story.running().idle("end_turn").fails(LIFECYCLE) == []

    def test_one_that_is_stopped_after_all_that_it_did(self) -> None:
        story, command = driven()
        window(story.reply(command, messageId="u1").user("u1", "/status"))
        story.reply(story.request("session/close", {"sessionId": "s"}))
        assert story.fails(LIFECYCLE) == ["a command ran without running and idle being reported"]

    def test_a_state_of_its_own_in_place_of_running_is_another_rules(self) -> None:
        story, command = driven()
        story.reply(command, messageId="u1").user("u1", "/status").update("state_update", state="_busy")
        assert story.idle("end_turn").fails(LIFECYCLE) == []

    def test_an_idle_snapshot_told_before_is_not_taken_for_its_end(self) -> None:
        story = Story(triggers={"local-command": "/status"}).begin().running().idle("end_turn")
        command = story.prompt("/status", trigger="local-command")
        story.idle("end_turn").reply(command, messageId="u1").user("u1", "/status").running().idle("end_turn")
        assert story.passes(LIFECYCLE)

    def test_left_open(self) -> None:
        story, command = driven()
        story.reply(command, messageId="u1").user("u1", "/status").running().says("a1", "Fine.")
        assert story.fails(LIFECYCLE) == []
        story.after(15).control("waited", **{"for": "idle", "session": "s", "seconds": 15})
        assert story.fails(LIFECYCLE) == ["a command left its work open"]
        assert story.proof(LIFECYCLE) == [6, 7, 9, 11]

    def test_left_open_with_nothing_said(self) -> None:
        story, command = driven()
        story.reply(command, messageId="u1").user("u1", "/status").running()
        story.control("waited", **{"for": "idle", "session": "s", "seconds": 15})
        assert story.fails(LIFECYCLE) == ["a command left its work open"]

    def test_its_tool_is_still_at_work(self) -> None:
        for status, last_word, fails in (
            ("pending", 1, 0),
            ("in_progress", 1, 0),
            ("completed", 0, 0),
            ("completed", 1, 1),
        ):
            story = foreign()
            story.reply(story.prompt("/lint"), messageId="u1").user("u1", "/lint").running().says("a1", "Off.")
            story.update("tool_call_update", toolCallId="c", title="t", status=status)
            if last_word:
                story.says("a1", "Done.")
            assert len(story.after(40).barrier().fails(LIFECYCLE)) == fails, (status, last_word)

    def test_a_command_that_waited_for_its_turn(self) -> None:
        for runs, fails in ((True, 0), (False, 1)):
            story = Story(triggers={"local-command": "/status"}).begin()
            story.reply(story.prompt("Hello"), messageId="u1").user("u1", "Hello").running()
            command = story.prompt("/status", trigger="local-command")
            story.says("a", "Hi").idle("end_turn").user("u2", "/status").reply(command, messageId="u2")
            if runs:
                story.running()
            story.says("b", "All is well.").idle("end_turn")
            assert len(story.fails(LIFECYCLE)) == fails
            assert story.fails("state.running-when-work-starts") == []

    def test_it_waits_for_the_client(self) -> None:
        for is_answered in (False, True):
            story = foreign()
            story.reply(story.prompt("/lint"), messageId="u1").user("u1", "/lint").running().says("a1", "Off.")
            story.asks("_ask", {"sessionId": "s"})
            if is_answered:
                story.answer(900)
            assert bool(story.after(40).barrier().fails(LIFECYCLE)) is is_answered

    def test_the_running_of_the_next_prompt_is_not_its_own(self) -> None:
        story = foreign()
        story.reply(story.prompt("/lint"), messageId="u1").user("u1", "/lint").says("a1", "Off.").after(5)
        story.reply(story.prompt("Thanks"), messageId="u2").user("u2", "Thanks").running().idle("end_turn")
        assert story.proof(LIFECYCLE) == [5, 6, 8, 9]

    def test_a_command_that_joins_open_work_exercises_nothing(self) -> None:
        story = Story(triggers={"local-command": "/status"}).begin().running()
        command = story.prompt("/status", trigger="local-command")
        assert story.reply(command, messageId="u1").user("u1", "/status").idle("end_turn").silent(LIFECYCLE)

    def test_an_advertised_command_in_a_recording(self) -> None:
        story = foreign()
        command = story.prompt("/lint now")
        story.reply(command, messageId="u1").user("u1", "/lint now").running().says("a1", "Off.").after(40).barrier()
        assert story.fails(LIFECYCLE)

    def test_without_any_state_in_a_recording(self) -> None:
        story = foreign()
        command = story.prompt("/lint")
        story.reply(command, messageId="u1").user("u1", "/lint").says("a1", "Off.").after(5)
        story.prompt("Thanks")
        assert story.fails(LIFECYCLE)

    def test_a_recorded_fault_has_one_name(self) -> None:
        for states, others_run, fails in (("", 1, 1), ("idle", 1, 1), ("running", 1, 1), ("", 0, 0), ("idle", 0, 0)):
            story = foreign()
            story.reply(story.prompt("Hello"), messageId="u1").user("u1", "Hello")
            if others_run:
                story.running()
            story.says("a1", "Hi").idle("end_turn")
            story.reply(story.prompt("/lint"), messageId="u2").user("u2", "/lint")
            if states == "running":
                story.running()
            story.says("a2", "Off.")
            if states == "idle":
                story.idle("end_turn")
            story.after(40).barrier()
            assert len(story.fails(LIFECYCLE)) == fails, (states, others_run)
            of_state = story.fails("state.running-when-work-starts") + story.fails("state.idle-when-work-ends")
            assert bool(of_state) is not bool(fails), (states, others_run)

    def test_the_next_prompt_at_once_proves_nothing(self) -> None:
        story = foreign()
        command = story.prompt("/lint")
        story.reply(command, messageId="u1").user("u1", "/lint").says("a1", "Off.")
        story.prompt("Thanks")
        assert story.fails(LIFECYCLE) == []

    def test_a_command_for_the_model_may_take_its_time(self) -> None:
        story = foreign()
        command = story.prompt("/lint")
        story.reply(command, messageId="u1").user("u1", "/lint").running().after(60).barrier()
        assert story.fails(LIFECYCLE) == []

    def test_a_slash_that_nobody_advertised_is_a_prompt(self) -> None:
        story = Story(driven=False).begin()
        command = story.prompt("/lint")
        assert story.reply(command, messageId="u1").user("u1", "/lint").idle("end_turn").silent(LIFECYCLE)


def listed(*names: Any) -> list[Any]:
    return [{"type": "command", "name": name, "description": "d"} for name in names]


class TestNames:
    def test_right_names(self) -> None:
        story = Story().begin().update("available_commands_update", availableCommands=listed("plan", "git-log"))
        assert story.passes(NAMES)

    @pytest.mark.parametrize("name", ["git log", "a\tb", "a\u00a0b", " plan"])
    def test_whitespace(self, name: str) -> None:
        story = Story().begin().update("available_commands_update", availableCommands=listed(name))
        assert story.fails(NAMES) == [f"whitespace in the name of a command: {name!r}"]

    def test_the_same_name_twice(self) -> None:
        story = Story().begin().update("available_commands_update", availableCommands=listed("plan", "x", "plan"))
        assert story.fails(NAMES) == ["the command 'plan' stands 2 times in one list"]

    def test_twice_in_two_lists_is_right(self) -> None:
        story = Story().begin().update("available_commands_update", availableCommands=listed("plan"))
        assert story.update("available_commands_update", availableCommands=listed("plan")).passes(NAMES)

    def test_the_list_of_a_result(self) -> None:
        story = Story().initialize()
        story.reply(story.request("session/new", {"cwd": "/w"}), sessionId="s", availableCommands=listed("a b"))
        assert story.fails(NAMES)

    def test_what_is_malformed_or_of_another_type_is_left_alone(self) -> None:
        odd: list[Any] = [5, {"type": "command"}, {"type": "_macro", "name": "a b", "description": "d"}, *listed(7)]
        assert Story().begin().update("available_commands_update", availableCommands=odd).fails(NAMES) == []
        assert Story().begin().update("available_commands_update", availableCommands=None).fails(NAMES) == []

    def test_no_list_exercises_nothing(self) -> None:
        assert Story().begin().silent(NAMES)


def test_a_command_without_work_is_owed_its_report_when_the_patience_has_run_out() -> None:
    story, command = driven()
    story.reply(command, messageId="u1").control("waited", **{"for": "idle", "session": "s", "seconds": 15})
    assert story.fails(INSERTS) == ["the message 'u1' of a command was never reported"]


def test_a_profile_that_names_a_command_which_is_not_sent() -> None:
    story = Story(triggers={"local-command": "/status"}).begin()
    story.reply(story.prompt("Hi", nonce="acp-1"), messageId="u1")
    for rule in (INSERTS, LIFECYCLE):
        assert story.silent(rule)
        assert story.outcome(rule).not_applicable is None


def test_a_command_whose_work_has_ended_leaves_nothing_open() -> None:
    story, command = driven()
    story.reply(command, messageId="u1").user("u1", "/status").running().says("a1", "Fine.").idle("end_turn")
    assert story.control("waited", **{"for": "response", "id": 99, "seconds": 15}).passes(LIFECYCLE)
