"""Views of a report for other tools, held against their demands."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest
import xmlschema

from conformance.commands.options import known_formats, write_views
from conformance.report import ReportError, ScenarioResult, badge
from conformance.report.build import ReportBuilder
from conformance.report.codec import read_report
from conformance.report.stream import StreamWriter, line_of
from conformance.report.views import html, junit, markdown, sarif
from tests.reported import (
    PASS,
    RULES,
    SILENT,
    STARTED,
    Wire,
    completed,
    doomed_prompt,
    example_events,
    example_report,
    found,
    judgement,
    report_of,
    violation,
)

EVIL = (
    "\x00\x1b[31m\u202e\ud800]]></failure><script>alert(1)</script>```|@everyone [x](javascript:alert(1))\n\uffff&amp;"
)


def hostile_report(folder: Path) -> Any:
    """Everything that a peer can say is EVIL."""
    name = "transcripts/a.ndjson"
    wire = Wire(folder / name)
    events = doomed_prompt(wire, text=EVIL, message_id=EVIL)
    wire.agent(b"\xff\x00<script>alert(2)</script>")
    wire.agent({"jsonrpc": "2.0", "method": "</script><img src=x onerror=alert(3)>"}, conn=EVIL)
    wire.recorder.close()
    builder = ReportBuilder(replace(STARTED, target=replace(STARTED.target, command=EVIL)), RULES)
    judged = judgement(
        state__paired=found(violation(EVIL, *((event, EVIL) for event, _ in events))),
        cancel__odd=PASS,
        wire__silent=SILENT,
    )
    result = replace(completed("a"), transcript=name, title=EVIL, reason=EVIL, stderr=EVIL)
    builder.add(result, judged, info={"name": EVIL, "version": EVIL}, capabilities={EVIL: EVIL})
    builder.add(ScenarioResult("b", EVIL, "broken", EVIL))
    builder.add(ScenarioResult("c", EVIL, "not-applicable", EVIL))
    builder.problem(EVIL)
    return builder.finish(1).report


# -- JUnit

JUNIT = xmlschema.XMLSchema((Path(__file__).parent / "junit.xsd").read_text(encoding="utf-8"))


@pytest.mark.parametrize("make", [example_report, hostile_report], ids=["example", "hostile"])
def test_junit_is_valid(make: Any, tmp_path: Path) -> None:
    JUNIT.validate(junit.render(make(tmp_path), tmp_path))


def test_the_xsd_rejects_what_reporters_do_not_read() -> None:
    assert not JUNIT.is_valid("<testsuites><testcase name='x'/></testsuites>")
    assert not JUNIT.is_valid("<testsuites name='x'><testsuite name='s' tests='many'/></testsuites>")


def test_junit_has_a_case_for_each_scenario_and_rule_and_fails_for_must_violations_only(tmp_path: Path) -> None:
    root = ET.fromstring(junit.render(example_report(), tmp_path))
    cases = {(case.get("classname"), case.get("name")): [child.tag for child in case] for case in root.iter("testcase")}
    assert cases == {
        ("acp.failures.before-the-response", "prompt.no-error-after-insertion"): ["failure"],
        ("acp.failures.before-the-response", "prompt.distinct-message-ids"): [],
        ("acp.failures.before-the-response", "wire.silent"): ["system-out"],
        ("acp.prompt.identical", "prompt.no-error-after-insertion"): [],
        ("acp.prompt.identical", "prompt.distinct-message-ids"): [],
        ("acp.prompt.identical", "state.paired"): ["system-out"],
        ("acp.session.delete", "Deleting"): ["skipped"],
    }
    assert (root.get("tests"), root.get("failures"), root.get("errors"), root.get("skipped")) == ("7", "1", "0", "1")


def test_junit_shows_the_wire_in_the_failure(tmp_path: Path) -> None:
    failure = ET.fromstring(junit.render(example_report(), tmp_path)).find(".//failure")
    assert failure is not None
    assert failure.get("message") == "prompt #3 was inserted and then refused"
    assert '0.040  agent <- #3 error -32000 "no credit"' in str(failure.text)
    assert "run again: acp-conformance run" in str(failure.text)


def test_an_incomplete_run_is_an_error_in_junit(tmp_path: Path) -> None:
    builder = ReportBuilder(STARTED, RULES)
    builder.problem("the agent did not start: no such file")
    root = ET.fromstring(junit.render(builder.finish(1).report, tmp_path))
    assert root.get("errors") == "1"
    assert "no such file" in str(root.find(".//error").get("message"))  # type: ignore[union-attr]


# -- SARIF: the essentials of version 2.1.0, as a schema

MESSAGE = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
PLACE = {
    "type": "object",
    "required": ["physicalLocation"],
    "properties": {
        "physicalLocation": {
            "type": "object",
            "required": ["artifactLocation", "region"],
            "properties": {
                "artifactLocation": {
                    "required": ["uri"],
                    "properties": {"uri": {"type": "string", "pattern": r"^[!-~]+$"}},
                },
                "region": {"required": ["startLine"], "properties": {"startLine": {"type": "integer", "minimum": 1}}},
            },
        },
        "message": MESSAGE,
    },
}
RULE = {
    "type": "object",
    "required": ["id", "shortDescription", "help"],
    "properties": {
        "shortDescription": MESSAGE,
        "fullDescription": MESSAGE,
        "help": MESSAGE,
        "defaultConfiguration": {"properties": {"level": {"enum": ["none", "note", "warning", "error"]}}},
    },
}
RESULT = {
    "type": "object",
    "required": ["ruleId", "message", "locations", "level", "partialFingerprints"],
    "properties": {
        "kind": {"enum": ["notApplicable", "pass", "fail", "review", "open", "informational"]},
        "level": {"enum": ["none", "note", "warning", "error"]},
        "ruleIndex": {"type": "integer", "minimum": -1},
        "message": MESSAGE,
        "locations": {"type": "array", "items": PLACE, "minItems": 1},
        "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
        "suppressions": {"items": {"required": ["kind"], "properties": {"kind": {"enum": ["inSource", "external"]}}}},
        "codeFlows": {
            "items": {
                "required": ["threadFlows"],
                "properties": {
                    "threadFlows": {
                        "minItems": 1,
                        "items": {
                            "required": ["locations"],
                            "properties": {"locations": {"minItems": 1, "items": {"properties": {"location": PLACE}}}},
                        },
                    }
                },
            }
        },
    },
}
INVOCATION = {
    "required": ["executionSuccessful"],
    "properties": {
        "executionSuccessful": {"type": "boolean"},
        "toolExecutionNotifications": {"items": {"required": ["message"], "properties": {"message": MESSAGE}}},
    },
}
SARIF = {
    "type": "object",
    "required": ["version", "runs", "$schema"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "additionalProperties": False,
                "properties": {
                    "tool": {
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "required": ["name", "rules"],
                                "properties": {"rules": {"type": "array", "items": RULE, "uniqueItems": True}},
                            }
                        },
                    },
                    "invocations": {"type": "array", "items": INVOCATION},
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "results": {"type": "array", "items": RESULT},
                    "properties": {"type": "object"},
                },
            },
        },
    },
}


@pytest.mark.parametrize("make", [example_report, hostile_report], ids=["example", "hostile"])
def test_sarif_keeps_to_version_2_1_0(make: Any, tmp_path: Path) -> None:
    data = json.loads(sarif.render(make(tmp_path), tmp_path))
    jsonschema.validate(data, SARIF)
    (run,) = data["runs"]
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert all(ids[result["ruleIndex"]] == result["ruleId"] for result in run["results"])


def test_sarif_levels_follow_rule_and_kind_and_known_findings_are_suppressed(tmp_path: Path) -> None:
    report = example_report()
    first = report.rules[0]
    known = replace(first, findings=tuple(replace(finding, known="issue 12") for finding in first.findings))
    data = sarif.sarif(replace(report, rules=(known, *report.rules[1:])))
    results = {result["ruleId"]: result for result in data["runs"][0]["results"]}
    assert {id: result["level"] for id, result in results.items()} == {
        "prompt.no-error-after-insertion": "error",
        "wire.silent": "warning",
        "state.paired": "note",
    }
    assert results["prompt.no-error-after-insertion"]["suppressions"][0]["justification"] == "issue 12"
    assert "suppressions" not in results["wire.silent"]


def test_sarif_locates_each_event_at_its_line_of_the_transcript(tmp_path: Path) -> None:
    report = example_report(tmp_path)
    result = sarif.sarif(report)["runs"][0]["results"][0]
    last = result["codeFlows"][0]["threadFlows"][0]["locations"][-1]["location"]["physicalLocation"]
    lines = (tmp_path / last["artifactLocation"]["uri"]).read_text().splitlines()
    assert json.loads(lines[last["region"]["startLine"] - 1])["msg"]["error"]["code"] == -32000


# -- Markdown


def test_markdown_says_verdict_findings_and_the_way_to_run_them_again(tmp_path: Path) -> None:
    text = markdown.render(example_report(), tmp_path)
    assert text.startswith("## ❌ ACP v2 agent: nonconformant\n\n3 of 5 must rules exercised, 1 failed")
    assert "### FAIL `prompt.no-error-after-insertion` (must)" in text
    assert '0.040  agent <- #3 error -32000 "no credit"          the same prompt is answered with an error' in text
    assert "| prompt | 2 | 2 | 1 | 0 |" in text


def test_nothing_of_an_agent_is_markup_in_markdown(tmp_path: Path) -> None:
    text = markdown.render(hostile_report(tmp_path), tmp_path)
    without_fences = re.sub(r"^(`{3,})text\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    bare = re.sub(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", "", without_fences)
    for word in ("<script", "@everyone", "javascript:", "<img"):
        assert word in text or word == "<img"
        assert word not in bare


def test_markdown_stays_under_the_limit_of_a_job_summary(tmp_path: Path) -> None:
    event = doomed_prompt(Wire())[0]
    rules = [replace(RULES[0], id=f"prompt.r{number}") for number in range(400)]
    judged = {rule.id: found(*[violation("x" * 1900, event)] * 3) for rule in rules}
    text = markdown.render(report_of(("a", judged), rules=tuple(rules)), tmp_path)
    assert len(text.encode()) < 1 << 20
    assert "The rest was left out" in text


# -- badge


def with_counts(passed: int, silent: int, failed: int = 0, problem: str = "") -> Any:
    event = doomed_prompt(Wire())[0]
    rules = tuple(replace(RULES[0], id=f"prompt.r{number}") for number in range(passed + silent + failed))
    outcomes = [PASS] * passed + [SILENT] * silent + [found(violation("!", event))] * failed
    builder = ReportBuilder(STARTED, rules)
    builder.add(completed("a"), {rule.id: outcome for rule, outcome in zip(rules, outcomes, strict=True)})
    if problem:
        builder.problem(problem)
    return builder.finish(1).report


@pytest.mark.parametrize(
    ("report", "message", "colour"),
    [
        (with_counts(61, 15), "61/76 must", "green"),
        (with_counts(10, 66), "10/76 must", "yellow"),
        (with_counts(0, 76), "incomplete, 0/76 must", "lightgrey"),
        (with_counts(59, 15, 2), "61/76 must, 2 failed", "red"),
        (with_counts(61, 15, problem="no model"), "incomplete, 61/76 must", "lightgrey"),
    ],
)
def test_the_badge_is_green_only_for_what_was_exercised(report: Any, message: str, colour: str) -> None:
    data = json.loads(badge.endpoint(report))
    assert (data["label"], data["message"], data["color"]) == ("ACP v2 agent", message, colour)
    assert message in badge.svg(report)
    assert badge.colour(report) in badge.svg(report)


def test_the_endpoint_has_the_fields_of_shields_and_no_others() -> None:
    data = json.loads(badge.endpoint(example_report()))
    allowed = {
        "schemaVersion",
        "label",
        "message",
        "color",
        "labelColor",
        "isError",
        "namedLogo",
        "logoSvg",
        "cacheSeconds",
    }
    assert data["schemaVersion"] == 1
    assert set(data) <= allowed
    assert isinstance(data["isError"], bool)
    assert data["cacheSeconds"] >= 300


def test_the_badge_is_well_formed_and_loads_nothing() -> None:
    root = ET.fromstring(badge.svg(example_report()))
    assert {element.tag.rpartition("}")[2] for element in root.iter()} == {
        "svg",
        "title",
        "clipPath",
        "rect",
        "g",
        "text",
    }
    assert root.get("role") == "img"


# -- HTML


def page(report: Any, folder: Path) -> tuple[str, dict[str, str]]:
    text = html.render(report, folder)
    parts = {
        "policy": re.search(r'Content-Security-Policy" content="([^"]*)"', text).group(1),  # type: ignore[union-attr]
        "style": re.search(r"<style>(.*?)</style>", text, re.DOTALL).group(1),  # type: ignore[union-attr]
        "data": re.search(r'id="data">(.*?)</script>', text, re.DOTALL).group(1),  # type: ignore[union-attr]
        "script": text.rpartition("<script>")[2].partition("</script>")[0],
    }
    return text, parts


def test_the_page_allows_its_own_script_and_style_and_nothing_else(tmp_path: Path) -> None:
    _, parts = page(example_report(tmp_path), tmp_path)
    for name in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(parts[name].encode()).digest()).decode()
        assert f"{name}-src &#x27;sha256-{digest}&#x27;" in parts["policy"]
    assert parts["policy"].startswith("default-src &#x27;none&#x27;")
    assert "unsafe" not in parts["policy"]


@pytest.mark.parametrize("make", [example_report, hostile_report], ids=["example", "hostile"])
def test_the_page_is_self_contained_and_data_cannot_leave_its_block(make: Any, tmp_path: Path) -> None:
    text, parts = page(make(tmp_path), tmp_path)
    assert not {"<", ">", "&"} & set(parts["data"])
    assert text.count("<script") == 2
    assert "http" not in text.replace(parts["data"], "").replace("http-equiv", "")
    assert not re.search(r"\b(src|href)=", text.replace(parts["data"], ""))
    text.encode("utf-8")


def test_the_script_never_makes_markup_of_text() -> None:
    from conformance.resources import folder

    script = (folder("reports") / "report.js").read_text(encoding="utf-8")
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        "href",
        "DOMParser",
    ):
        assert word not in script


def test_the_page_has_the_whole_transcript_of_a_finding(tmp_path: Path) -> None:
    _, parts = page(example_report(tmp_path), tmp_path)
    data = json.loads(parts["data"])
    transcript = data["transcripts"]["transcripts/failures-before-the-response.ndjson"]
    assert transcript["lanes"] == ["ada", "agent", "model"]
    assert [event[1:5] for event in transcript["events"]] == [
        ["ada", "agent", "client", 'session/prompt #3 "doomed acp-7f3a"'],
        ["agent", "ada", "agent", 'user_message u-19 "doomed acp-7f3a"'],
        ["model", "agent", "control", "request 1 failed with 401"],
        ["agent", "ada", "agent", '#3 error -32000 "no credit"'],
    ]
    assert json.loads(transcript["events"][3][5])["error"]["code"] == -32000


def test_a_missing_transcript_is_told_in_the_page(tmp_path: Path) -> None:
    _, parts = page(example_report(), tmp_path)
    missing = json.loads(parts["data"])["missing"]
    assert "No such file" in missing["transcripts/failures-before-the-response.ndjson"]


# -- all of them


def test_every_view_is_a_format_and_is_written_to_the_folder(tmp_path: Path) -> None:
    assert set(known_formats()) == {"html", "json", "junit", "markdown", "ndjson", "sarif"}
    written = write_views(hostile_report(tmp_path), tmp_path, known_formats()).paths
    assert sorted(path.name for path in written) == [
        "junit.xml",
        "report.html",
        "report.json",
        "report.md",
        "report.sarif",
    ]
    for path in written:
        assert not {"\x00", "\x1b", "\u202e"} & set(path.read_text(encoding="utf-8"))


# -- the stream


def test_the_stream_ends_with_the_report(tmp_path: Path) -> None:
    path = tmp_path / "report.ndjson"
    writer = StreamWriter(path)
    for event in example_events():
        writer(event)
    names = [json.loads(line)["event"] for line in path.read_text(encoding="utf-8").splitlines()]
    assert (names[0], names[1], names[-1]) == ("run-started", "scenario-started", "run-finished")
    assert read_report(path) == example_report()


@pytest.mark.parametrize("lines", [0, 3])
def test_a_stream_without_its_footer_is_told_as_cut_off(lines: int, tmp_path: Path) -> None:
    path = tmp_path / "report.ndjson"
    path.write_text(
        "".join(json.dumps(line_of(event), separators=(",", ":")) + "\n" for event in example_events()[:lines])
    )
    with pytest.raises(ReportError, match="cut off"):
        read_report(path)


# -- the examples that the documentation links to


@pytest.mark.parametrize("name", ["conformant", "nonconformant"])
def test_the_example_reports_are_what_this_version_reads(name: str) -> None:
    from conformance.resources import folder

    example = folder("reports") / "examples" / name
    assert read_report(example).verdict == name
    assert badge.message(read_report(example)) in (example / "badge.svg").read_text(encoding="utf-8")
