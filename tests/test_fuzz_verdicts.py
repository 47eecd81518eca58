"""What the fuzzer asks of an agent besides the rules, and what it does not hold against one."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.fuzz.verdicts import MEMORY, OWN, Signature, decided, findings, kind_of, rules
from tests.story import Story


def found(story: Story) -> list[str]:
    history = story.recorder.history
    return [str(signature) for signature, _ in findings(decided(history, OWN), history)]


def exited(story: Story, code: int | None = None, signal: str | None = None, by_itself: bool = True) -> Story:
    return story.control("disconnected").control("exited", code=code, signal=signal, by_itself=by_itself)


class TestCrash:
    def test_a_signal_is_a_crash(self) -> None:
        assert found(exited(Story().begin(), signal="SIGSEGV")) == [
            "fuzz.no-crash: the agent was ended by SIGSEGV by itself"
        ]

    def test_a_status_is_one_too(self) -> None:
        assert found(exited(Story().begin(), code=3)) == ["fuzz.no-crash: the agent exited with status # by itself"]

    def test_hanging_up_is_one_where_all_could_be_read(self) -> None:
        assert found(exited(Story().begin(), code=0)) == ["fuzz.no-crash: the agent ended the connection by itself"]

    def test_hanging_up_on_a_line_that_cannot_be_read_is_none(self) -> None:
        assert found(exited(Story().begin().client(b"{"), code=0)) == []

    def test_an_end_of_our_making_is_none(self) -> None:
        assert found(Story().begin().control("closed").control("exited", code=1, signal=None, by_itself=True)) == []
        assert (
            found(Story().begin().control("cut").control("exited", code=None, signal="SIGKILL", by_itself=False)) == []
        )

    def test_a_death_at_the_end_is_one(self) -> None:
        story = Story().begin().control("closed").control("exited", code=None, signal="SIGSEGV", by_itself=True)
        assert found(story) == ["fuzz.no-crash: the agent died of SIGSEGV when closed"]


class TestHang:
    def hung(self, provocation: Any = b"{") -> Story:
        story = Story().begin().client(provocation)
        asked = story.request("session/list")
        return story.control("waited", **{"for": "response"}, session=None, id=asked, seconds=15, began=1)

    def test_silence_after_a_line_that_cannot_be_read_is_a_hang(self) -> None:
        assert found(self.hung()) == ["fuzz.no-hang: the agent fell silent and lives"]

    def test_an_odd_id_of_ours_does_not_excuse_silence_to_a_plain_one(self) -> None:
        story = Story().begin().client({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "no"}})
        story.barrier()
        asked = story.request("session/list")
        story.control("waited", **{"for": "response"}, session=None, id=asked, seconds=15, began=1)
        history = story.recorder.history
        told = [str(signature) for signature, _ in findings(decided(history, rules(strict=False)), history)]
        assert told == ["wire.one-response: a request was never answered"]

    def test_without_provocation_a_rule_is_about_it(self) -> None:
        note = {"jsonrpc": "2.0", "method": "_x/note", "params": {}}
        story = Story().begin().client(note)
        story.barrier()
        asked = story.request("session/list")
        story.control("waited", **{"for": "response"}, session=None, id=asked, seconds=15, began=1)
        assert found(story) == []

    def test_an_agent_that_is_gone_does_not_hang(self) -> None:
        story = Story().begin().client(b"{")
        asked = story.request("session/list")
        story = exited(story, code=0)
        assert found(story.control("waited", **{"for": "response"}, session=None, id=asked, seconds=15, began=1)) == []

    def test_no_wait_no_hang(self) -> None:
        story = Story().begin().client(b"{")
        story.request("session/list")
        assert found(story) == []


def test_what_is_left_behind_is_found() -> None:
    story = Story().begin().control("closed").control("exited", code=0, signal=None, by_itself=True)
    assert found(story.control("leftover", count=2, daemons=0)) == [
        "fuzz.no-leftover: # processes of the agent live on after it"
    ]


def test_a_limit_is_found() -> None:
    story = Story().begin().control("limit", limit="max-output", value=1)
    assert found(story) == ["fuzz.bounded: the agent reached the limit max-output"]


def test_a_quiet_agent_is_none_of_all_that() -> None:
    story = Story().begin()
    story.barrier()
    assert found(story.control("closed").control("exited", code=0, signal=None, by_itself=True)) == []


class TestExcuses:
    def of(self, story: Story) -> list[str]:
        history = story.recorder.history
        return [signature.rule for signature, _ in findings(decided(history, rules(strict=False)), history)]

    def test_an_id_that_cannot_be_given_back_excuses_the_answer(self) -> None:
        story = Story().begin()
        story.request("session/list", id=1.5)
        assert self.of(story.reply(1, sessions=[])) == []

    def test_a_plain_id_does_not(self) -> None:
        story = Story().begin()
        story.request("session/list", id="1")
        assert "wire.response-id" in self.of(story.reply(77, sessions=[]))

    def test_an_id_that_we_use_twice_at_a_time_excuses_all(self) -> None:
        story = Story().begin()
        story.request("session/list", id="a")
        story.request("session/resume", {"sessionId": "s", "cwd": "/w"}, id="a")
        assert self.of(story.reply("a", configOptions=[]).reply("a", sessions=[])) == []

    def test_a_report_that_gives_back_what_we_sent_is_no_fault(self) -> None:
        odd = {"type": "resource_link", "name": "x", "uri": "u", "icons": [{"src": "", "mimeType": {}}]}
        story = Story().begin()
        asked = story.request("session/prompt", {"sessionId": "s", "prompt": [odd]})
        story.update("user_message", messageId="u1", content=[odd]).reply(asked, messageId="u1")
        assert "wire.valid-shape" not in self.of(story.running().idle("end_turn"))

    @pytest.mark.parametrize(("given", "is_excused"), [("relative", True), ("/w", False)])
    def test_a_path_that_we_gave_may_be_given_back(self, given: str, is_excused: bool) -> None:
        story = Story().begin()
        story.reply(story.request("session/new", {"cwd": given}), sessionId="odd")
        story.reply(story.request("session/list", {}), sessions=[{"sessionId": "odd", "cwd": "relative"}])
        assert ("session.list" not in self.of(story)) is is_excused

    def test_a_wrong_shape_of_its_own_is_one(self) -> None:
        assert "wire.valid-shape" in self.of(Story().begin().update("agent_message", messageId=5, content=[]))


def test_names_and_numbers_do_not_tell_findings_apart() -> None:
    assert kind_of("'u-1' came 3 times") == kind_of("'u-2' came 14 times")
    assert kind_of("session/list was never answered") == kind_of("session/close was never answered")
    assert kind_of("session/prompt was never answered") != kind_of("session/list was never answered")
    assert str(Signature("a.b", "c")) == "a.b: c"


def test_should_rules_count_only_when_strict() -> None:
    lenient, strict = rules(strict=False), rules(strict=True)
    assert {rule.level for rule in lenient} == {"must"}
    assert {rule.party for rule in strict} == {"agent"}
    assert len(strict) > len(lenient)


class TestMemory:
    def test_growth_with_every_round_is_found(self) -> None:
        story = Story().begin()
        for number in range(3, 10):
            story.control("memory", bytes=number * 10**7, round=number)
        assert found(story) == [str(MEMORY)]

    def test_a_few_rounds_prove_nothing(self) -> None:
        assert found(Story().begin().control("memory", bytes=1, round=1).control("memory", bytes=2, round=2)) == []
