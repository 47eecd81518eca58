"""SARIF 2.1.0, for code scanning: each rule with its help, each finding located at the scenario that showed it.

A violation of a must rule is an error, of a should rule a warning, a suspicion a note; a known finding is suppressed.
The fingerprint holds rule and scenario, so that a finding stays the same one while ids and times change.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, Final

from conformance.report.model import FindingView, Report, RuleResult
from conformance.report.sanitise import clean

FILE: Final = "report.sarif"
SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
INFORMATION: Final = "https://agentclientprotocol.com"
_LEVELS: Final = {("violation", "must"): "error", ("violation", "should"): "warning"}


def render(report: Report, folder: Path) -> str:
    return json.dumps(sarif(report), ensure_ascii=False, indent=1) + "\n"


def sarif(report: Report) -> dict[str, Any]:
    rules = list(report.rules)
    places = {rule.id: place for place, rule in enumerate(rules)}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "acp-conformance",
                        "version": report.version,
                        "informationUri": INFORMATION,
                        "rules": [_rule(rule) for rule in rules],
                    }
                },
                "invocations": [_invocation(report)],
                "columnKind": "unicodeCodePoints",
                "results": [
                    _result(rule, finding, places[rule.id], number)
                    for rule in rules
                    for number, finding in _numbered(rule.findings)
                ],
                "properties": {"verdict": report.verdict, "target": report.target.command, "seed": report.seed},
            }
        ],
    }


def _rule(rule: RuleResult) -> dict[str, Any]:
    level = _LEVELS["violation", rule.level]
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.id.replace(".", "-").split("-")),
        "shortDescription": {"text": rule.text},
        "fullDescription": {"text": f"{rule.text} Source: {rule.source}"},
        "help": {
            "text": f"{rule.text}\nSource: {rule.source}\nacp-conformance rules {rule.id}",
            "markdown": f"{rule.text}\n\nSource: {rule.source}\n\nMore: `acp-conformance rules {rule.id}`",
        },
        "defaultConfiguration": {"level": level},
        "properties": {"tags": ["acp", rule.level, rule.party, rule.area], "precision": "very-high"},
    }


def _result(rule: RuleResult, finding: FindingView, place: int, number: int) -> dict[str, Any]:
    identity = hashlib.sha256(f"{rule.id}\n{finding.scenario}\n{number}".encode()).hexdigest()
    result: dict[str, Any] = {
        "ruleId": rule.id,
        "ruleIndex": place,
        "kind": "fail",
        "level": _LEVELS.get((finding.kind, rule.level), "note"),
        "message": {"text": _message(finding)},
        "locations": [{"physicalLocation": _location(finding.scenario, rule.id)}],
        "partialFingerprints": {"acpConformance/v1": identity},
    }
    if finding.events:
        steps = [
            {
                "location": {
                    "physicalLocation": {
                        "artifactLocation": {"uri": _uri(proof.transcript)},
                        "region": {"startLine": proof.seq + 2},  # line 1 is the header
                    },
                    "message": {"text": clean(f"{proof.what}: {proof.part}" if proof.part else proof.what, 1_000)},
                }
            }
            for proof in finding.events
            if proof.transcript
        ]
        if steps:
            result["codeFlows"] = [{"threadFlows": [{"locations": steps}]}]
    if finding.known is not None:
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": finding.known}]
    return result


def _message(finding: FindingView) -> str:
    rerun = f"\nRun again: {finding.rerun}" if finding.rerun else ""
    return f"{finding.message} ({finding.scenario}){rerun}"


def _location(scenario: str, rule: str) -> dict[str, Any]:
    uri, line = _scenario_line(scenario, rule)
    return {"artifactLocation": {"uri": _uri(uri)}, "region": {"startLine": line}}


def _scenario_line(scenario: str, rule: str) -> tuple[str, int]:
    """The scenario's file, and the line that names the rule there (line 1 where none does). Recorded traffic is its own
    file."""
    if scenario.endswith((".ndjson", ".jsonl")):
        return scenario, 1
    from conformance.resources import folder

    file = Path(scenario + ".yaml")
    try:
        lines = (folder("scenarios") / file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return f"scenarios/{file.as_posix()}", 1
    named = (number for number, text in enumerate(lines, 1) if rule in text)
    return f"scenarios/{file.as_posix()}", next(named, 1)


def _uri(path: str) -> str:
    from urllib.parse import quote

    return quote(path.replace("\\", "/"), safe="/:")


def _invocation(report: Report) -> dict[str, Any]:
    invocation: dict[str, Any] = {"executionSuccessful": report.verdict != "incomplete", "startTimeUtc": report.started}
    if report.problems:
        invocation["toolExecutionNotifications"] = [
            {"level": "error", "message": {"text": problem}} for problem in report.problems
        ]
    return invocation


def _numbered(findings: tuple[FindingView, ...]) -> list[tuple[int, FindingView]]:
    """Each finding with its number among those of the same scenario."""
    seen: dict[str, int] = {}
    numbered = []
    for finding in findings:
        numbered.append((seen.get(finding.scenario, 0), finding))
        seen[finding.scenario] = seen.get(finding.scenario, 0) + 1
    return numbered
