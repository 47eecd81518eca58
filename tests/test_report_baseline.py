"""The baseline's promises, and what two reports say when they are compared."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.commands.options import exit_status
from conformance.report import Report
from conformance.report.baseline import (
    NO_REASON,
    BaselineError,
    Known,
    apply,
    check_entries,
    read_baseline,
    text_of,
    updated,
)
from conformance.report.build import ReportBuilder
from conformance.report.codec import from_json, to_json
from conformance.report.compare import compare, view
from conformance.report.compare import to_json as comparison_json
from conformance.report.layout import render
from tests.reported import (
    PASS,
    RULES,
    SILENT,
    STARTED,
    Wire,
    completed,
    doomed_prompt,
    found,
    judgement,
    report_of,
    violation,
    warned,
)

EVENT = doomed_prompt(Wire())[0]
FAILS = found(violation("prompt #3 was refused", EVENT))
WARNS = found(warned("odd", EVENT))
PAIRED = Known("state.paired", "a", "issue 12")


def failing(*scenarios: str, **more: Any) -> Report:
    return report_of(*((id, judgement(state__paired=FAILS, **more)) for id in scenarios))


def test_a_known_failure_does_not_fail_the_gate_and_stays_a_failure() -> None:
    report = apply(failing("a"), [PAIRED], "b.toml")
    assert (report.verdict, exit_status(report), exit_status(report, strict=True)) == ("nonconformant", 0, 0)
    assert report.rule("state.paired").is_known
    assert report.counts("must").failed == 1


def test_a_new_failure_beside_a_known_one_fails_the_gate() -> None:
    report = apply(failing("a", "b"), [PAIRED], "b.toml")
    assert exit_status(report) == 1
    assert (report.baseline.known, report.baseline.new) == (1, 1)


def test_another_failure_of_the_same_scenario_is_new_when_the_message_is_bound() -> None:
    bound = replace(PAIRED, message="prompt #* was refused")
    assert exit_status(apply(failing("a"), [bound], "b")) == 0
    other = report_of(("a", judgement(state__paired=found(violation("something else", EVENT)))))
    applied = apply(other, [bound], "b")
    assert exit_status(applied) == 1
    assert applied.baseline.unexpected_passes == ('state.paired in a ("prompt #* was refused")',)


def test_an_unexpected_pass_is_told_and_fails_with_strict() -> None:
    report = apply(report_of(("a", judgement(state__paired=PASS))), [PAIRED], "b")
    assert report.baseline.unexpected_passes == ("state.paired in a",)
    assert (exit_status(report), exit_status(report, strict=True)) == (0, 1)


def test_what_was_not_exercised_is_no_unexpected_pass() -> None:
    quiet = report_of(("a", judgement(state__paired=SILENT, cancel__odd=PASS)))
    elsewhere = report_of(("z", judgement(state__paired=PASS)))
    for report in (quiet, elsewhere):
        assert apply(report, [PAIRED], "b").baseline.unexpected_passes == ()


def test_a_broken_setup_is_never_excused() -> None:
    builder = ReportBuilder(STARTED, RULES)
    builder.add(completed("a"), judgement(state__paired=FAILS))
    builder.problem("the model could not be reached")
    assert exit_status(apply(builder.finish(1).report, [PAIRED], "b")) == 3


def test_a_known_warning_does_not_fail_strict() -> None:
    report = report_of(("a", judgement(state__paired=WARNS)))
    assert exit_status(report, strict=True) == 1
    assert exit_status(apply(report, [PAIRED], "b"), strict=True) == 0


def test_strict_counts_should_rules_and_warnings_of_the_deciding_party_only() -> None:
    should = report_of(("a", judgement(wire__silent=FAILS)))
    assert (exit_status(should), exit_status(should, strict=True)) == (0, 1)
    client = report_of(("a", judgement(client__wire=WARNS, state__paired=PASS)))
    assert exit_status(client, strict=True) == 0


def test_an_incomplete_run_exits_3_and_a_failure_weighs_more() -> None:
    builder = ReportBuilder(STARTED, RULES)
    builder.problem("no agent")
    assert exit_status(builder.finish(1).report) == 3
    builder.add(completed("a"), judgement(state__paired=FAILS))
    assert exit_status(builder.finish(1).report) == 1


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (Known("state.pared", "a", "why"), 'there is no rule "state.pared"; did you mean "state.paired"?'),
        (Known("state.paired", "gone/*", "why"), 'no scenario matches "gone/*"'),
    ],
)
def test_a_stale_entry_is_an_error(entry: Known, says: str) -> None:
    with pytest.raises(BaselineError) as error:
        check_entries([entry], "acp-baseline.toml", [rule.id for rule in RULES], ["a", "b"])
    assert says in str(error.value)
    assert "acp-baseline.toml" in str(error.value)


def test_update_keeps_reasons_drops_what_was_mended_and_adds_what_is_new() -> None:
    old = [PAIRED, Known("cancel.odd", "*", "issue 3"), Known("session.delete", "*", "issue 4")]
    new = updated(failing("a", "b", cancel__odd=PASS), old)
    assert new == [PAIRED, Known("session.delete", "*", "issue 4"), Known("state.paired", "b", NO_REASON)]
    assert exit_status(apply(failing("a", "b"), new, "b")) == 0


def test_the_file_reads_back_as_it_was_written(tmp_path: Path) -> None:
    entries = [PAIRED, Known("cancel.odd", "*", 'a "quoted" \\ reason\x7f\n漢字', "message [x]*")]
    path = tmp_path / "acp-baseline.toml"
    path.write_text(text_of(entries), encoding="utf-8")
    assert read_baseline(path) == entries


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("known = 3", "write [[known]] with two brackets"),
        ('[[knwon]]\nrule = "x"', 'unknown key "knwon"'),
        ('[[known]]\nrule = "x"', "entry 1: reason is missing"),
        ('[[known]]\nreason = "x"', "entry 1: rule is missing"),
        ('[[known]]\nrule = "x"\nreason = ""', "entry 1: reason must be a string with something in it"),
        ('[[known]]\nrule = "x"\nresaon = "y"', 'unknown key "resaon"; did you mean "reason"?'),
        ("[[known", "b.toml"),
    ],
)
def test_a_wrong_baseline_says_what_and_where(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "b.toml"
    path.write_text(text)
    with pytest.raises(BaselineError) as error:
        read_baseline(path)
    assert says in str(error.value)
    assert str(path) in str(error.value)


def test_a_missing_baseline_says_how_to_write_one(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match="baseline update"):
        read_baseline(tmp_path / "none.toml")


def test_the_report_remembers_its_baseline() -> None:
    report = apply(failing("a", "b"), [PAIRED], "b.toml")
    assert from_json(to_json(report)) == report


# -- compare


def groups(old: Report, new: Report) -> dict[str, str]:
    return {change.rule: change.group for change in compare(old, new).changes}


def test_compare_names_what_began_to_fail_was_mended_and_is_exercised_or_not() -> None:
    old = report_of(
        ("a", judgement(state__paired=PASS, cancel__odd=FAILS, prompt__distinct_message_ids=PASS, wire__silent=PASS))
    )
    new = report_of(("a", judgement(state__paired=FAILS, cancel__odd=PASS, session__delete=PASS, wire__silent=WARNS)))
    assert groups(old, new) == {
        "state.paired": "began-to-fail",
        "cancel.odd": "mended",
        "wire.silent": "warns",
        "prompt.distinct-message-ids": "no-longer-exercised",
        "session.delete": "newly-exercised",
    }
    assert compare(old, new).is_worse
    assert groups(old, old) == {}


def test_a_failure_in_more_scenarios_is_worse_and_silence_is_not_mended() -> None:
    (change,) = compare(failing("a"), failing("a", "b")).changes
    assert (change.group, change.scenarios) == ("fails-elsewhere", ("b",))
    assert compare(failing("a"), failing("a", "b")).is_worse
    quiet = report_of(("a", judgement(state__paired=SILENT, cancel__odd=PASS)))
    assert groups(failing("a", cancel__odd=PASS), quiet) == {"state.paired": "no-longer-exercised"}


def test_a_should_rule_that_began_to_fail_is_told_and_is_not_worse() -> None:
    old, new = (report_of(("a", judgement(wire__silent=outcome))) for outcome in (PASS, FAILS))
    assert groups(old, new) == {"wire.silent": "began-to-fail"}
    assert not compare(old, new).is_worse


def test_rules_that_only_one_report_has() -> None:
    old = report_of(("a", judgement(state__paired=PASS)), rules=RULES[2:3])
    new = report_of(("a", judgement(cancel__odd=PASS)), rules=RULES[5:6])
    assert groups(old, new) == {"state.paired": "gone-rule", "cancel.odd": "new-rule"}


def test_compare_says_why_two_reports_may_not_be_comparable() -> None:
    other = replace(STARTED, target=replace(STARTED.target, command="other"), protocol=1)
    notes = compare(failing("a", "b"), report_of(("a", judgement(state__paired=FAILS)), started=other)).notes
    assert notes == (
        "another protocol: 2, now 1",
        "another target: my-agent --acp, now other",
        "1 scenarios of the old run did not run: b",
    )


def test_the_comparison_is_shown_and_is_json() -> None:
    comparison = compare(report_of(("a", judgement(state__paired=PASS))), failing("a"))
    lines = [render(line, colour=False) for line in view(comparison, 100)]
    assert lines[0].startswith("old  conformant")
    assert "began to fail (1)" in lines
    assert "  state.paired  must, pass -> fail  in a" in lines
    assert comparison_json(comparison)["changes"] == [
        {
            "rule": "state.paired",
            "level": "must",
            "change": "began-to-fail",
            "old": "pass",
            "new": "fail",
            "scenarios": ["a"],
        }
    ]
