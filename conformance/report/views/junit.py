"""JUnit XML: a suite a scenario, in it a test case for each rule that the scenario exercised. Read by GitLab, Jenkins
and GitHub.

A violation of a must rule is a failure, a scenario that broke an error, one that was not applicable skipped; what only
warns, violates a should rule or is known stays green and says so in system-out. Agent text is cleaned first: XML has no
place for most controls.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from conformance.report.layout import render as as_text
from conformance.report.model import FindingView, Report, RuleResult, ScenarioResult
from conformance.report.sanitise import clean_lines
from conformance.report.terminal import excerpt

FILE: Final = "junit.xml"


def render(report: Report, folder: Path) -> str:
    suites = ET.Element("testsuites", name="acp-conformance", time=_seconds(report.seconds))
    for scenario in report.scenarios:
        suites.append(_scenario(scenario, report))
    if report.problems:
        suites.append(_problems(report))
    _total(suites, list(suites))
    ET.indent(suites, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"


def _scenario(scenario: ScenarioResult, report: Report) -> ET.Element:
    suite = ET.Element("testsuite", name=scenario.id, timestamp=report.started.removesuffix("Z"), hostname="localhost")
    for rule, findings in _judged(scenario, report):
        suite.append(_case(rule, findings, scenario))
    if scenario.status != "completed" or not len(suite):
        case = ET.SubElement(
            suite, "testcase", name=_text(scenario.title) or scenario.id, classname=_class(scenario.id), time="0"
        )
        if scenario.status == "broken":
            _say(case, "error", "the scenario broke", scenario.reason, type="broken")
        elif scenario.status == "not-applicable":
            ET.SubElement(case, "skipped", message=_text(scenario.reason))
        else:
            ET.SubElement(case, "skipped", message=_text(scenario.reason) or "it exercised no rule")
    _count(suite, scenario.seconds)
    if scenario.stderr:
        ET.SubElement(suite, "system-err").text = clean_lines(scenario.stderr, None)
    return suite


def _judged(scenario: ScenarioResult, report: Report) -> Iterator[tuple[RuleResult, list[FindingView]]]:
    for rule in report.rules:
        if rule.party == report.party and scenario.id in rule.scenarios:
            yield rule, [finding for finding in rule.findings if finding.scenario == scenario.id]


def _case(rule: RuleResult, findings: list[FindingView], scenario: ScenarioResult) -> ET.Element:
    case = ET.Element("testcase", name=rule.id, classname=_class(scenario.id), time="0")
    fatal = [f for f in findings if f.kind == "violation" and rule.level == "must" and f.known is None]
    if fatal:
        _say(
            case, "failure", fatal[0].message, "\n\n".join(_argument(rule, finding) for finding in fatal), type=rule.id
        )
    told = [finding for finding in findings if finding not in fatal]
    if told:
        ET.SubElement(case, "system-out").text = _text("\n\n".join(_argument(rule, finding) for finding in told))
    return case


def _argument(rule: RuleResult, finding: FindingView) -> str:
    head = f"{finding.kind} of a {rule.level} rule" + (f", known: {finding.known}" if finding.known is not None else "")
    wire = [as_text(line, colour=False)[6:] for line in excerpt(finding.events, 120)]
    rerun = ["run again: " + finding.rerun] if finding.rerun else []
    return "\n".join([head, finding.message, f"{rule.text} ({rule.source})", *wire, *rerun])


def _problems(report: Report) -> ET.Element:
    suite = ET.Element(
        "testsuite", name="acp-conformance", timestamp=report.started.removesuffix("Z"), hostname="localhost"
    )
    for number, problem in enumerate(report.problems, 1):
        case = ET.SubElement(
            suite, "testcase", name=f"the suite could do its work ({number})", classname="acp-conformance", time="0"
        )
        _say(case, "error", problem.partition("\n")[0], problem, type="incomplete")
    _count(suite, 0)
    return suite


def _say(case: ET.Element, tag: str, message: str, text: str, *, type: str) -> None:
    ET.SubElement(case, tag, message=_text(message), type=type).text = _text(text)


def _count(suite: ET.Element, seconds: float) -> None:
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for tag, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(name, str(sum(case.find(tag) is not None for case in cases)))
    suite.set("time", _seconds(seconds))


def _total(suites: ET.Element, each: list[ET.Element]) -> None:
    for name in ("tests", "failures", "errors", "skipped"):
        suites.set(name, str(sum(int(suite.get(name, "0")) for suite in each)))


def _class(scenario: str) -> str:
    """Reporters split class names at dots: "prompt/identical" becomes "acp.prompt.identical"."""
    return "acp." + scenario.replace("/", ".")


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}"


def _text(text: str) -> str:
    return clean_lines(text, None)
