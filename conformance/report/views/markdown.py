"""Markdown, as GitHub shows it in a job summary ($GITHUB_STEP_SUMMARY) or a comment. Text of a peer stands in code,
where nothing is read as markup, HTML or a mention.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from conformance.report.layout import render as as_text
from conformance.report.model import FindingView, Report, RuleResult
from conformance.report.sanitise import clean
from conformance.report.terminal import excerpt, exercised_words, needing_attention, target_words

FILE: Final = "report.md"
MOST_FINDINGS: Final = 3  # of one rule
MOST_CHARACTERS: Final = 800_000  # GitHub takes 1 MiB a step
_SIGNS: Final = {"conformant": "✅", "nonconformant": "❌", "incomplete": "⚠️"}


def render(report: Report, folder: Path) -> str:
    text, used = [], 0
    for block in _blocks(report):
        used += len(block) + 2
        if used > MOST_CHARACTERS:
            text.append("The rest was left out: this summary would be too long. See report.json.")
            break
        text.append(block)
    return "\n\n".join(text) + "\n"


def _blocks(report: Report) -> Iterator[str]:
    yield f"## {_SIGNS[report.verdict]} ACP v{report.protocol} {report.party}: {report.verdict}"
    yield f"{exercised_words(report.counts('must'), 'must')}; {exercised_words(report.counts('should'), 'should')}."
    yield f"Tested: {code(target_words(report))}"
    if report.problems:
        yield "\n".join(f"- ⚠️ {code(clean(problem, 1_000))}" for problem in report.problems)
    if report.baseline is not None:
        baseline = report.baseline
        yield f"Baseline {code(baseline.file)}: {baseline.known} known findings, {baseline.new} new violations."
        if baseline.unexpected_passes:
            yield "No longer failing, remove from the baseline:\n" + "\n".join(
                f"- {code(entry)}" for entry in baseline.unexpected_passes
            )
    yield _table(report)
    for rule in needing_attention(report):
        yield from _rule(rule)
    silent = [rule for rule in report.rules if rule.party == report.party and rule.status == "not-exercised"]
    if silent:
        ids = "\n".join(f"- `{rule.id}`: {code(clean(rule.reason, 300))}" for rule in silent)
        yield f"<details><summary>{len(silent)} rules were not exercised</summary>\n\n{ids}\n\n</details>"


def _table(report: Report) -> str:
    areas: dict[str, list[RuleResult]] = {}
    for rule in report.rules:
        if rule.party == report.party:
            areas.setdefault(rule.area, []).append(rule)
    rows = ["| area | rules | exercised | failed | warned |", "|---|--:|--:|--:|--:|"]
    for area, rules in areas.items():
        of = [
            sum(rule.status in wanted for rule in rules) for wanted in (("pass", "warn", "fail"), ("fail",), ("warn",))
        ]
        rows.append(f"| {area} | {len(rules)} | {of[0]} | {of[1]} | {of[2]} |")
    return "\n".join(rows)


def _rule(rule: RuleResult) -> Iterator[str]:
    known = ", known" if rule.is_known else ""
    yield f"### {rule.status.upper()} `{rule.id}` ({rule.level}{known})"
    yield f"> {_plain(rule.text)} ({_plain(rule.source)})"
    if rule.reason:
        yield fence(rule.reason)
    for finding in rule.findings[:MOST_FINDINGS]:
        yield from _finding(finding)
    left_out = len(rule.findings) - MOST_FINDINGS + rule.omitted
    if left_out > 0:
        yield f"and {left_out} more."


def _finding(finding: FindingView) -> Iterator[str]:
    known = f" Known: {code(finding.known)}" if finding.known is not None else ""
    yield f"**{code(finding.scenario)}** {code(finding.message)}{known}"
    lines = [as_text(line, colour=False)[8:] for line in excerpt(finding.events, 140)]
    if lines:
        yield fence("\n".join(lines))
    if finding.rerun:
        yield "Run again:\n\n" + fence(finding.rerun)


def code(text: str) -> str:
    """A code span that holds any text: its fence is longer than any run of backticks inside."""
    text = clean(text, None).replace("|", "\\|") if text else " "
    ticks = "`" * (_longest_run(text) + 1)
    edge = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{edge}{text}{edge}{ticks}"


def fence(text: str) -> str:
    ticks = "`" * max(3, _longest_run(text) + 1)
    return f"{ticks}text\n{text}\n{ticks}"


def _longest_run(text: str) -> int:
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest


def _plain(text: str) -> str:
    """Our own statements as text: nothing in them is meant as markup."""
    return "".join("\\" + character if character in "\\`*_[]<>#|" else character for character in text)
