"""How the judgements of scenarios become a report: statuses, verdict, counts, reasons, and its JSON."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from conformance.history import Redactor
from conformance.report import ReportError, ScenarioResult
from conformance.report.build import ReportBuilder
from conformance.report.codec import from_json, read_report, to_json, write_report
from conformance.resources import folder
from conformance.rules.oracle import Outcome
from tests.reported import (
    PASS,
    RULES,
    SILENT,
    STARTED,
    Wire,
    completed,
    doomed_prompt,
    example_report,
    found,
    judgement,
    report_of,
    rule,
    violation,
    warned,
)

SCHEMA = json.loads((folder("reports") / "report.schema.json").read_text(encoding="utf-8"))


def proof() -> Any:
    return doomed_prompt(Wire())[0]


def status(report: Any, id: str) -> str:
    return str(report.rule(id).status)


def test_a_violation_outweighs_a_warning_and_a_pass_elsewhere() -> None:
    report = report_of(
        ("a", judgement(state__paired=PASS)),
        ("b", judgement(state__paired=found(violation("proven", proof())))),
        ("c", judgement(state__paired=found(warned("suspected", proof())))),
    )
    assert status(report, "state.paired") == "fail"
    assert [finding.kind for finding in report.rule("state.paired").findings] == ["violation", "warning"]
    assert report.verdict == "nonconformant"


def test_a_warning_outweighs_a_pass_and_does_not_decide_the_verdict() -> None:
    report = report_of(
        ("a", judgement(state__paired=PASS)), ("b", judgement(state__paired=found(warned("?", proof()))))
    )
    assert (status(report, "state.paired"), report.verdict) == ("warn", "conformant")


def test_a_violated_should_rule_fails_and_does_not_make_the_run_nonconformant() -> None:
    report = report_of(("a", judgement(wire__silent=found(violation("!", proof())), state__paired=PASS)))
    assert (status(report, "wire.silent"), report.verdict) == ("fail", "conformant")
    assert report.counts("should").failed == 1


def test_what_was_not_brought_about_is_not_exercised_and_says_what_was_missing() -> None:
    report = report_of(("a", judgement(state__paired=SILENT, cancel__odd=PASS)))
    assert status(report, "state.paired") == "not-exercised"
    assert report.rule("state.paired").reason == "the run did not bring about: a state.paired situation"


def test_not_exercised_names_the_scenario_that_could_not_run() -> None:
    builder = ReportBuilder(STARTED, RULES)
    builder.add(ScenarioResult("x", "X", "not-applicable", "needs a model; add [model]"), exercises=["state.paired"])
    assert builder.finish(1).report.rule("state.paired").reason == "x: needs a model; add [model]"


def test_not_applicable_where_a_history_says_so_and_none_exercised_it() -> None:
    nothing = Outcome(False, not_applicable="no such capability")
    report = report_of(
        ("a", judgement(session__delete=nothing)), ("b", judgement(session__delete=SILENT, state__paired=PASS))
    )
    assert status(report, "session.delete") == "not-applicable"
    assert report.rule("session.delete").reason == "no such capability"
    assert (
        status(
            report_of(("a", judgement(session__delete=nothing)), ("b", judgement(session__delete=PASS))),
            "session.delete",
        )
        == "pass"
    )


def test_what_broke_several_scenarios_is_told_once() -> None:
    builder = ReportBuilder(STARTED, RULES)
    for id, line in (("a", 7), ("b", 12), ("c", 7)):
        reason = f"the agent exited with code 1; its stderr ends with: KeyError: {id!r} (line {line}, connect)"
        builder.add(ScenarioResult(id, "", "broken", reason))
    builder.add(ScenarioResult("d", "", "broken", "no answer (line 3, wait)"))
    assert builder.finish(1.0).report.problems == (
        "3 scenarios (a, b, c) broke: the agent exited with code 1; its stderr ends with: KeyError: 'a'",
        "scenario d broke: no answer (line 3, wait)",
    )


def test_a_rule_that_broke_makes_the_run_incomplete_with_its_traceback() -> None:
    broken = Outcome(False, broken="Traceback:\n  in rule\nKeyError: 'id'")
    report = report_of(("a", judgement(state__paired=broken, cancel__odd=PASS)))
    assert (status(report, "state.paired"), report.verdict) == ("broken", "incomplete")
    assert "KeyError: 'id'" in report.rule("state.paired").reason
    assert any("state.paired" in problem and "KeyError" in problem for problem in report.problems)


def test_a_broken_rule_of_the_other_party_is_shown_and_does_not_decide() -> None:
    report = report_of(("a", judgement(client__wire=Outcome(False, broken="boom"), state__paired=PASS)))
    assert (status(report, "client.wire"), report.verdict) == ("broken", "conformant")


def test_a_failure_decides_over_what_broke() -> None:
    judged = judgement(state__paired=Outcome(False, broken="boom"), cancel__odd=found(violation("!", proof())))
    report = report_of(("a", judged))
    assert report.verdict == "nonconformant"
    assert report.problems


def test_a_broken_scenario_makes_the_run_incomplete_and_its_reason_is_told_once() -> None:
    builder = ReportBuilder(STARTED, RULES)
    builder.add(completed("a"), judgement(state__paired=PASS))
    for id in ("b", "c"):
        builder.add(ScenarioResult(id, "T", "broken", "the agent did not start: no such file"))
    report = builder.finish(1).report
    assert report.verdict == "incomplete"
    assert report.problems == ("2 scenarios (b, c) broke: the agent did not start: no such file",)


def test_a_run_that_exercised_nothing_is_never_conformant() -> None:
    report = report_of(("a", judgement(state__paired=SILENT)))
    assert report.verdict == "incomplete"
    assert report.problems == ("no rule was exercised, so nothing can be said",)


def test_rules_of_another_party_are_told_and_do_not_decide() -> None:
    judged = judgement(client__wire=found(violation("!", proof())), state__paired=PASS)
    report = report_of(("a", judged))
    assert report.verdict == "conformant"
    assert report.counts("must").failed == 0
    assert report.counts("must", "client").failed == 1
    assert report_of(("a", judged), started=replace(STARTED, party="client")).verdict == "nonconformant"


def test_counts_add_up_and_count_every_rule_of_the_level() -> None:
    counts = example_report().counts("must")
    assert (counts.total, counts.exercised, counts.failed, counts.warned, counts.passed) == (5, 3, 1, 1, 1)
    assert (counts.not_exercised, counts.not_applicable, counts.text) == (1, 1, "3/5")


def test_a_finding_keeps_its_argument_in_order_and_the_command_that_runs_it_again() -> None:
    (finding,) = example_report().rule("prompt.no-error-after-insertion").findings
    assert [event.seq for event in finding.events] == [0, 1, 2, 3]
    assert [event.what for event in finding.events] == [
        'session/prompt #3 "doomed acp-7f3a"',
        'user_message u-19 "doomed acp-7f3a"',
        "request 1 failed with 401",
        '#3 error -32000 "no credit"',
    ]
    assert (
        finding.rerun
        == "acp-conformance run --agent 'my-agent --acp' --scenario failures/before-the-response --seed 41"
    )


def test_recorded_traffic_has_no_command_to_run_again() -> None:
    started = replace(STARTED, target=replace(STARTED.target, kind="transcripts"))
    report = report_of(("a", judgement(state__paired=found(violation("!", proof())))), started=started)
    assert report.rule("state.paired").findings[0].rerun == ""


def test_secrets_are_masked_in_all_that_the_report_says() -> None:
    secret = "sk-very-secret-value"
    redactor = Redactor({"OPENAI_API_KEY": secret})
    started = replace(
        STARTED, target=replace(STARTED.target, command=f"agent --key {secret}"), arguments=("--agent", secret)
    )
    builder = ReportBuilder(started, RULES, redactor=redactor)
    events = doomed_prompt(Wire(), text=secret)
    result = replace(completed("a"), stderr=f"key={secret}", reason=f"saw {secret}")
    judged = judgement(state__paired=found(violation(f"leaks {secret}", *events)))
    builder.add(result, judged, info={"name": secret}, capabilities={"x": secret})
    builder.problem(f"bad {secret}")
    text = json.dumps(to_json(builder.finish(1).report))
    assert secret not in text
    assert "[OPENAI_API_KEY]" in text


@pytest.mark.parametrize("report", [example_report(), report_of(("a", judgement()))], ids=["full", "empty"])
def test_report_json_is_valid_and_reads_back_as_it_was(report: Any, tmp_path: Path) -> None:
    jsonschema.validate(to_json(report), SCHEMA)
    path = write_report(report, tmp_path / "new" / "folder")
    jsonschema.validate(json.loads(path.read_text(encoding="utf-8")), SCHEMA)
    assert read_report(path) == report
    assert read_report(path.parent) == report
    assert [entry.name for entry in path.parent.iterdir()] == ["report.json"]


def test_the_schema_rejects_what_a_report_must_not_say() -> None:
    data = to_json(example_report())
    failing = next(rule for rule in data["rules"] if rule["status"] == "fail")
    for change in ({"findings": []}, {"status": "pass"}, {"status": "skipped"}, {"extra": 1}):
        wrong = {**data, "rules": [{**failing, **change}]}
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, SCHEMA)


def test_a_hostile_agent_makes_a_bounded_valid_report(tmp_path: Path) -> None:
    deep: Any = "x"
    for _ in range(500):
        deep = {"a": deep}
    builder = ReportBuilder(STARTED, RULES)
    wire = Wire()
    evil = "\x00\x1b[31m\u202e\ud800<script>" * 50_000
    because = (
        (wire.agent({"jsonrpc": "2.0", "method": evil, "params": {"update": {"sessionUpdate": evil}}}), evil),
        (wire.agent({"jsonrpc": "2.0", "id": 10**5000, "error": {"code": deep, "message": evil}}), ""),
        (wire.agent({"jsonrpc": "2.0", "id": [evil], "result": evil}), ""),
        (wire.agent(b"\xff\xfe" * 100_000), ""),
        (wire.agent([1, 2, 3]), ""),
        (wire.agent(b"17"), ""),
        (wire.agent({"method": 4}), ""),
    )
    judged = judgement(state__paired=found(violation(evil, *because)))
    info = {evil: deep, "name": evil, "n": 10**5000, "many": list(range(10_000)), "nan": float("nan")}
    builder.add(replace(completed("a"), stderr=evil), judged, info=info, capabilities={"x": deep})
    report = builder.finish(1).report
    path = write_report(report, tmp_path)
    assert path.stat().st_size < 200_000
    jsonschema.validate(json.loads(path.read_text(encoding="utf-8")), SCHEMA)
    assert read_report(path) == report
    assert not {"\x00", "\x1b", "\u202e"} & set(path.read_text(encoding="utf-8"))


def test_findings_come_in_the_order_of_the_scenarios_however_they_finished() -> None:
    started = replace(STARTED, scenarios=("a", "b", "c"))
    judged = judgement(state__paired=found(violation("!", proof())))
    report = report_of(("c", judged), ("a", judged), ("b", judged), started=started)
    assert [scenario.id for scenario in report.scenarios] == ["a", "b", "c"]
    assert [finding.scenario for finding in report.rule("state.paired").findings] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"report": 2}, "report format 2 is not known"),
        ({"verdict": "green"}, "verdict is 'green', must be one of conformant, nonconformant, incomplete"),
        ({"rules": [{"id": 1}]}, "rules[0].id is int, must be a string"),
        ({"seconds": None}, "seconds is NoneType, must be a number"),
        ({"target": []}, "target is list, must be an object"),
    ],
)
def test_a_wrong_report_is_told_by_its_field(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ReportError) as error:
        from_json({**to_json(example_report()), **change})
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "No such file"),
        ("", "not JSON"),
        ("[]", "the report is list"),
        ("{}", "no report of acp-conformance"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_file_that_is_no_report_says_what_to_give(tmp_path: Path, text: str | None, says: str) -> None:
    path = tmp_path / "report.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ReportError) as error:
        read_report(path)
    assert says in str(error.value)
    assert str(path) in str(error.value)


def test_rule_ids_of_the_report_are_the_rules_that_were_asked() -> None:
    rules = (rule("a.one"), rule("a.two"))
    assert [result.id for result in report_of(("s", judgement(b__other=PASS)), rules=rules).rules] == ["a.one", "a.two"]
