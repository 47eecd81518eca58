"""A run chooses its scenarios, does them side by side, and tells clearly why it could not do its work."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance import runner
from conformance.history import History, read_transcript
from conformance.peers.launch import limits_of
from conformance.profile import Profile, load_profile, with_command
from conformance.recorded import check
from conformance.report import Report, RunEvent, RunFinished, RunStarted, ScenarioFinished, ScenarioStarted, Target
from conformance.rules import Judgement, judge
from conformance.runner import Options, Ran, UsageProblem, choose
from conformance.scenario.errors import ScenarioError

TINY = Path(__file__).parent / "tiny_agent.py"
TARGET = Target("agent", "tiny")


def tiny(habit: str = "plain") -> Profile:
    return with_command(Profile(), f"{sys.executable} {TINY} {habit}")


def ran(
    profile: Profile, *scenarios: str, sink: Callable[[RunEvent], None] = lambda event: None, **more: object
) -> Ran:
    options = Options(scenarios=scenarios, **{"seed": 1, "patience": 1.0, **more})  # type: ignore[arg-type]
    return asyncio.run(runner.run(profile, TARGET, options, sink))


def ids(report: Report) -> list[str]:
    return [scenario.id for scenario in report.scenarios]


# -- choosing


def test_all_scenarios_are_chosen_where_none_is_named() -> None:
    chosen = [scenario.id for scenario in choose(Options())]
    assert len(chosen) >= 60
    assert chosen == sorted(chosen)


def test_globs_choose_by_id_and_files_by_path(tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text("title: Mine\nsteps:\n  - connect: ada\n", encoding="utf-8")
    chosen = choose(Options(scenarios=("init/*", str(own))))
    assert {scenario.id.split("/")[0] for scenario in chosen if scenario.path != own} == {"init"}
    (mine,) = [scenario for scenario in chosen if scenario.path == own]
    assert mine.title == "Mine"
    assert mine.id == str(own), "so that the report's command runs it again"
    assert mine.transcript.endswith("-mine.ndjson")
    assert "/" not in mine.transcript


def test_a_bundled_scenario_named_by_its_file_keeps_its_id() -> None:
    (scenario,) = [scenario for scenario in choose(Options()) if scenario.id == "prompt/plain"]
    assert [found.id for found in choose(Options(scenarios=(str(scenario.path),)))] == ["prompt/plain"]


def test_a_rule_chooses_the_scenarios_that_exercise_it() -> None:
    chosen = choose(Options(rules=("prompt.distinct-message-ids",)))
    assert "prompt/identical" in {scenario.id for scenario in chosen}
    assert all("prompt.distinct-message-ids" in scenario.exercises for scenario in chosen)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (Options(scenarios=("prompt/plian",)), 'no scenario matches "prompt/plian"; did you mean "prompt/plain"?'),
        (Options(scenarios=("nowhere.yaml",)), "--scenario nowhere.yaml: there is no such file"),
        (Options(rules=("prompt.distinct-mesage-ids",)), 'did you mean "prompt.distinct-message-ids"?'),
        (Options(scenarios=("init/plain",), rules=("prompt.*",)), "none of the chosen scenarios exercises"),
    ],
)
def test_what_is_not_there_is_a_usage_problem(options: Options, words: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        choose(options)
    assert words in str(caught.value)


def test_a_broken_file_of_the_users_own_starts_nothing(tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text("title: Mine\nsteps:\n  - conect: ada\n", encoding="utf-8")
    events: list[RunEvent] = []
    with pytest.raises(ScenarioError, match=r'mine.yaml:3:5  unknown verb "conect"; did you mean "connect"\?'):
        ran(tiny(), str(own), sink=events.append)
    assert events == []


# -- running


def test_a_run_is_a_stream_of_events_with_a_footer(tmp_path: Path) -> None:
    events: list[RunEvent] = []
    outcome = ran(tiny(), "prompt/plain", "prompt/identical", sink=events.append, report=tmp_path)
    assert isinstance(events[0], RunStarted)
    assert events[0].scenarios == ("prompt/identical", "prompt/plain")
    assert sum(isinstance(event, ScenarioStarted) for event in events) == 2
    assert sum(isinstance(event, ScenarioFinished) for event in events) == 2
    assert isinstance(events[-1], RunFinished)
    assert events[-1].report == outcome.report
    assert not outcome.was_interrupted
    assert [scenario.status for scenario in outcome.report.scenarios] == ["completed", "completed"]
    assert outcome.report.target.info == {"name": "tiny", "version": "1"}
    assert outcome.report.seed == 1


def test_a_transcript_is_written_that_gives_the_same_verdicts(tmp_path: Path) -> None:
    outcome = ran(tiny(), "prompt/plain", report=tmp_path)
    (scenario,) = outcome.report.scenarios
    assert scenario.transcript == "transcripts/prompt-plain.ndjson"
    history = read_transcript(tmp_path / scenario.transcript)
    assert history.header["scenario"] == "prompt/plain"
    assert history.header["seed"] == 1
    judgement = judge(history)
    for rule in outcome.report.rules:
        assert judgement[rule.id].exercised == (rule.status in ("pass", "warn", "fail")), rule.id
    checked = check([tmp_path / scenario.transcript], lambda event: None)
    assert {rule.id: rule.status for rule in checked.rules if rule.party == "agent"} == {
        rule.id: rule.status for rule in outcome.report.rules
    }


def test_nothing_is_written_where_no_folder_is_given() -> None:
    outcome = ran(tiny(), "init/plain")
    assert outcome.report.scenarios[0].transcript is None


def test_a_scenario_has_a_folder_of_its_own_that_is_gone_afterwards(tmp_path: Path) -> None:
    ran(tiny(), "prompt/plain", report=tmp_path)
    history = read_transcript(tmp_path / "transcripts/prompt-plain.ndjson")
    (new,) = [e for e in history if e.dir == "client" and e.message.get("method") == "session/new"]
    assert Path(new.message["params"]["cwd"]).is_absolute()
    assert not Path(new.message["params"]["cwd"]).exists()


def test_what_the_target_lacks_is_not_applicable_and_says_what_to_add() -> None:
    outcome = ran(tiny(), "failures/outage", "commands/live-only")
    assert [scenario.status for scenario in outcome.report.scenarios] == ["not-applicable"] * 2
    reasons = " ".join(scenario.reason for scenario in outcome.report.scenarios)
    assert "[model] api" in reasons
    assert "[triggers] local-command" in reasons


def test_scenarios_run_side_by_side(tmp_path: Path) -> None:
    events: list[RunEvent] = []
    ran(tiny(), "init/plain", "init/version-1", "init/future-version", sink=events.append, jobs=3)
    kinds = [type(event).__name__ for event in events if not isinstance(event, RunStarted | RunFinished)]
    assert kinds[:3] == ["ScenarioStarted"] * 3


# -- agents that cannot be tested


@pytest.mark.parametrize(
    ("habit", "words"),
    [
        ("exits", "exited with code 7 before it answered `initialize`"),
        ("v1", "speaks version 1 of the protocol only"),
        ("wants-login", "wants a login before it makes a session"),
        ("crashes", "exited with code 3"),
    ],
)
def test_an_agent_that_cannot_be_tested_makes_the_run_incomplete(habit: str, words: str) -> None:
    outcome = ran(tiny(habit), "prompt/plain")
    assert outcome.report.verdict == "incomplete"
    assert any(words in problem for problem in outcome.report.problems)


def test_a_program_that_does_not_exist_is_told_with_what_to_do() -> None:
    outcome = ran(with_command(Profile(), "acp-conformance-no-such-agent"), "init/plain")
    assert outcome.report.verdict == "incomplete"
    (problem,) = outcome.report.problems
    assert "cannot start 'acp-conformance-no-such-agent': it is not found" in problem
    assert "check the command, or install the agent" in problem


def test_an_agent_that_asks_only_for_what_its_model_wants_can_be_made_to_ask() -> None:
    from dataclasses import replace

    profile = replace(load_profile("reference"), triggers={"permission": "Run a command that makes a file."})
    outcome = ran(profile, "tool/two-questions")
    assert [(scenario.status, scenario.reason) for scenario in outcome.report.scenarios] == [("completed", "")]
    rule = outcome.report.rule("tool.denied-is-not-run")
    assert rule is not None
    assert rule.status == "pass"


def test_an_agent_that_never_answers_is_not_started_again_and_again() -> None:
    from dataclasses import replace

    profile = tiny("silent")
    profile = replace(profile, agent=replace(profile.agent, startup_timeout=0.3))
    assert limits_of(profile).startup_timeout == 0.3
    outcome = ran(profile, "init/*", "prompt/*", jobs=1)
    assert len(outcome.report.scenarios) == 2
    assert outcome.report.verdict == "incomplete"
    assert any("did not answer `initialize` within 0.3 s" in problem for problem in outcome.report.problems)
    assert any("scenarios were not started, since the agent did not answer in 2" in p for p in outcome.report.problems)


def test_a_server_that_does_not_start_is_told_and_the_rest_goes_on_without_it() -> None:
    from dataclasses import replace

    profile = tiny()
    broken = (sys.executable, "-c", "raise SystemExit(3)")
    profile = replace(profile, agent=replace(profile.agent, server=broken))
    served = ("clients/at-the-same-moment", "clients/comes-back", "clients/three-on-one-session")
    outcome = ran(profile, "clients/clashing-ids", *served, "prompt/plain", jobs=1)
    status = {scenario.id: scenario.status for scenario in outcome.report.scenarios}
    assert [status[id] for id in served] == ["broken", "broken", "not-applicable"]
    assert status["clients/clashing-ids"] == status["prompt/plain"] == "completed"
    told = "the [agent] server did not answer in clients/at-the-same-moment and clients/comes-back: the rest is run"
    assert any(problem.startswith(told) for problem in outcome.report.problems)
    assert outcome.report.verdict == "incomplete"
    (unserved,) = [scenario for scenario in outcome.report.scenarios if scenario.id == served[-1]]
    assert unserved.reason.startswith("the [agent] server did not answer in clients/at-the-same-moment")


def test_a_banner_is_a_finding_and_no_obstacle() -> None:
    outcome = ran(tiny("banner"), "prompt/plain")
    rule = outcome.report.rule("wire.only-messages-on-stdout")
    assert rule is not None
    assert rule.status == "fail"
    assert outcome.report.verdict == "nonconformant"
    assert outcome.report.scenarios[0].status == "completed"


def test_a_must_rule_that_fails_is_nonconformant_also_where_the_harness_could_not_do_all() -> None:
    outcome = ran(tiny("v1-shape"), "prompt/plain")
    assert outcome.report.verdict == "nonconformant"
    failed = {rule.id for rule in outcome.report.rules if rule.status == "fail"}
    assert "init.info" in failed


def test_a_run_that_exercises_nothing_is_not_conformant() -> None:
    assert ran(tiny(), "failures/outage").report.verdict == "incomplete"


# -- interruption


def test_an_interrupted_run_reports_what_it_has(tmp_path: Path) -> None:
    events: list[RunEvent] = []

    async def interrupted() -> Ran:
        options = Options(scenarios=("prompt/*", "init/plain"), seed=1, patience=30, jobs=1, report=tmp_path)
        task = asyncio.ensure_future(runner.run(tiny("mute"), TARGET, options, sink))
        return await task

    def sink(event: RunEvent) -> None:
        events.append(event)
        if isinstance(event, ScenarioStarted) and event.scenario != "init/plain":
            asyncio.get_running_loop().call_later(0.3, os.kill, os.getpid(), signal.SIGINT)

    outcome = asyncio.run(interrupted())
    assert outcome.was_interrupted
    assert outcome.report.verdict == "incomplete"
    assert any(problem.startswith("interrupted: ") for problem in outcome.report.problems)
    assert isinstance(events[-1], RunFinished)
    assert ids(outcome.report) == ["init/plain", "prompt/after-a-refusal"]
    history = read_transcript(tmp_path / "transcripts/prompt-after-a-refusal.ndjson")
    assert history.events[-1].name == "exited", "the agent is ended in order"
    assert json.dumps(history.header)


def test_transcripts_of_others_are_judged_too(tmp_path: Path) -> None:
    path = tmp_path / "foreign.ndjson"
    lines = [
        {"transcript": 1, "protocol": 2},
        {"dir": "client", "msg": {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 2}}},
        {"dir": "agent", "raw": "Welcome!"},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    events: list[RunEvent] = []
    report = check([path], events.append)
    rule = report.rule("wire.only-messages-on-stdout")
    assert rule is not None
    assert rule.status == "fail"
    assert report.verdict == "nonconformant"
    assert isinstance(events[-1], RunFinished)


# -- the bundled scenarios on the reference agent


def test_a_scenario_of_each_area_comes_about_on_the_reference_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[History] = []

    def seen(history: History, *rules: Any) -> Judgement:
        judged.append(history)
        return judge(history, *rules)

    monkeypatch.setattr(runner, "judge", seen)
    chosen = (
        "cancel/model-held",
        "clients/clashing-ids",
        "commands/replayed",
        "failures/before-the-response",
        "lost/resume-response",
        "order/requires-action",
        "prompt/held",
        "replay/over-kept-messages",
        "session/close-with-prompts-waiting",
        "session/config-is-kept",
        "tool/permission-denied",
        "wire/array",
    )
    outcome = ran(load_profile("reference"), *chosen, patience=20.0, report=tmp_path)
    assert [(s.id, s.status, s.reason) for s in outcome.report.scenarios] == [(id, "completed", "") for id in chosen]
    assert [rule.id for rule in outcome.report.rules if rule.status == "fail"] == []
    written = [read_transcript(tmp_path / scenario.transcript).events for scenario in outcome.report.scenarios]
    said = [[(event.seq, event.message) for event in events] for events in written]
    assert len(judged) == len(chosen)
    for history in judged:
        assert [(event.seq, event.message) for event in history.events] in said, "what is on record stays as it was"


@pytest.mark.slow
def test_every_must_rule_is_exercised_on_the_reference_agent_and_none_fails() -> None:
    outcome = ran(load_profile("reference"), patience=20.0)
    assert outcome.report.verdict == "conformant"
    not_brought_about = {s.id: s.reason for s in outcome.report.scenarios if s.status == "completed" and s.reason}
    assert not_brought_about == {}
    must = [rule for rule in outcome.report.rules if rule.level == "must"]
    assert [rule.id for rule in must if rule.status not in ("pass", "warn", "not-applicable")] == []


def test_a_prompt_whose_response_was_lost_is_told_as_ambiguous() -> None:
    lost = ("lost/response-plain", "clients/lost-response")
    report = ran(load_profile("reference"), *lost, "prompt/identical").report
    assert {scenario.id: scenario.reason.partition(":")[0] for scenario in report.scenarios} == {
        **dict.fromkeys(lost, "ambiguous"),
        "prompt/identical": "",
    }
    assert report.verdict == "conformant"
