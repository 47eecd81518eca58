"""The baseline: known failures, each with its reason, so that a gate fails for new ones only.

    [[known]]
    rule = "prompt.no-error-after-insertion"
    scenario = "failures/*"          # a glob; "*" where left out
    reason = "https://example.org/issues/12"
    message = "prompt #* was inserted and then refused"      # a glob; any message where left out

Excuses findings only: what made a run incomplete stays. An entry that names no rule or scenario there is, is an error;
one whose rule was exercised where it applies and did not fail is told, since it hides the next failure.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from conformance.report.model import BaselineResult, FindingView, Report, RuleResult

_KEYS: Final = ("rule", "scenario", "reason", "message")
NO_REASON: Final = "not yet looked into"


class BaselineError(Exception):
    """A baseline that cannot be used. Says what is wrong, where, and what to do."""


@dataclass(frozen=True, slots=True)
class Known:
    """One entry: the rule that fails, in which scenarios (glob), why, and (None: any) with which message (glob)."""

    rule: str
    scenario: str
    reason: str
    message: str | None = None

    def covers(self, rule: str, finding: FindingView) -> bool:
        return self.is_about(rule, finding.scenario) and (
            self.message is None or self.message == finding.message or fnmatchcase(finding.message, self.message)
        )

    def is_about(self, rule: str, scenario: str) -> bool:
        return rule == self.rule and fnmatchcase(scenario, self.scenario)

    def __str__(self) -> str:
        return f"{self.rule} in {self.scenario}" + (f' ("{self.message}")' if self.message is not None else "")


def read_baseline(path: Path) -> list[Known]:
    """The entries of a baseline file. Raises BaselineError."""
    import tomllib

    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BaselineError(
            f"{path}: {error.strerror or error}; `acp-conformance baseline update REPORT --file {path}` writes one"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BaselineError(f"{path}: {error}") from None
    for key in data:
        if key != "known":
            raise BaselineError(f'{path}: unknown key "{key}"; a baseline is a list of [[known]] tables')
    entries = data.get("known", [])
    if not isinstance(entries, list):
        raise BaselineError(f"{path}: write [[known]] with two brackets: it is a list of tables")
    return [_known(entry, f"{path}: entry {number}") for number, entry in enumerate(entries, 1)]


def _known(entry: Any, place: str) -> Known:
    if not isinstance(entry, dict):
        raise BaselineError(f"{place} is no table; write [[known]] before each entry")
    for key, value in entry.items():
        if key not in _KEYS:
            from conformance.scenario.spelling import did_you_mean

            raise BaselineError(f'{place}: unknown key "{key}"{did_you_mean(key, _KEYS)}')
        if not isinstance(value, str) or not value:
            raise BaselineError(f"{place}: {key} must be a string with something in it")
    for key in ("rule", "reason"):
        if key not in entry:
            raise BaselineError(f"{place}: {key} is missing; say which rule fails and why that is known")
    return Known(entry["rule"], entry.get("scenario", "*"), entry["reason"], entry.get("message"))


def check_entries(entries: Iterable[Known], where: str, rules: Collection[str], scenarios: Collection[str]) -> None:
    """Raises BaselineError for entries that name a rule or scenarios that do not exist (any more)."""
    for entry in entries:
        if entry.rule not in rules:
            from conformance.scenario.spelling import closest

            near = closest(entry.rule, rules)
            hint = f'did you mean "{near[0]}"?' if near else "remove the entry"
            raise BaselineError(f'{where}: stale entry: there is no rule "{entry.rule}"; {hint}')
        if not any(fnmatchcase(scenario, entry.scenario) for scenario in scenarios):
            stale = f'stale entry for {entry.rule}: no scenario matches "{entry.scenario}"'
            raise BaselineError(f"{where}: {stale}; mend or remove the entry")


def apply(report: Report, entries: Sequence[Known], where: str) -> Report:
    """The report with each known finding marked, and what the baseline did not expect."""
    rules = tuple(_marked(rule, entries) for rule in report.rules)
    findings = [finding for rule in rules for finding in rule.findings]
    return replace(
        report,
        rules=rules,
        baseline=BaselineResult(
            file=where,
            known=sum(finding.known is not None for finding in findings),
            new=sum(finding.known is None and finding.kind == "violation" for finding in findings),
            unexpected_passes=tuple(str(entry) for entry in entries if _passed(entry, report)),
        ),
    )


def _marked(rule: RuleResult, entries: Sequence[Known]) -> RuleResult:
    def mark(finding: FindingView) -> FindingView:
        reasons = (entry.reason for entry in entries if entry.covers(rule.id, finding))
        return replace(finding, known=next(reasons, None))

    return replace(rule, findings=tuple(map(mark, rule.findings)))


def _passed(entry: Known, report: Report) -> bool:
    """The rule was exercised where the entry says it fails, and no finding is the one it knows."""
    rule = report.rule(entry.rule)
    if rule is None or rule.status == "broken":
        return False
    exercised = any(entry.is_about(rule.id, scenario) for scenario in rule.scenarios)
    return exercised and not any(entry.covers(rule.id, finding) for finding in rule.findings)


def updated(report: Report, entries: Sequence[Known]) -> list[Known]:
    """The baseline that fits the report: old entries that still apply (or were not exercised), then one for each new
    violation."""
    kept = [entry for entry in entries if not _passed(entry, report)]
    new: dict[tuple[str, str], Known] = {}
    for rule in report.rules:
        for finding in rule.findings:
            if finding.kind == "violation" and not any(entry.covers(rule.id, finding) for entry in kept):
                new.setdefault((rule.id, finding.scenario), Known(rule.id, finding.scenario, NO_REASON))
    return [*kept, *new.values()]


def text_of(entries: Iterable[Known]) -> str:
    """The entries as the TOML of a baseline file."""
    head = "# Known failures: they do not fail `acp-conformance run --baseline`. Each needs a reason.\n"
    return head + "".join(_entry(entry) for entry in entries)


def _entry(entry: Known) -> str:
    fields = [("rule", entry.rule), ("scenario", entry.scenario), ("reason", entry.reason)]
    if entry.message is not None:
        fields.append(("message", entry.message))
    return "\n[[known]]\n" + "".join(f"{key} = {_string(value)}\n" for key, value in fields)


def _string(text: str) -> str:
    """A TOML basic string: JSON's escapes are TOML's too, except for DEL."""
    import json

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
