"""What changed between two reports: rules that began to fail, were mended, are newly exercised or no longer. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from conformance.report.layout import BLANK, Line, Span, pad, paragraph
from conformance.report.model import EXERCISED, Report, RuleResult
from conformance.report.terminal import exercised_words

GROUPS: Final = {
    "began-to-fail": "began to fail",
    "fails-elsewhere": "fails in more scenarios",
    "mended": "mended",
    "warns": "began to warn",
    "no-longer-exercised": "no longer exercised",
    "newly-exercised": "newly exercised",
    "new-rule": "rule is new",
    "gone-rule": "rule is gone",
}


@dataclass(frozen=True, slots=True)
class Change:
    """One rule that differs. `group` is a key of GROUPS; `old` and `new` are statuses, "" where the report has no such
    rule; `scenarios` are those where it fails or warns now and did not."""

    rule: str
    level: str
    group: str
    old: str
    new: str
    scenarios: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """`notes` say why two reports may not be comparable (another protocol, another target, another version of the
    suite)."""

    old: Report
    new: Report
    changes: tuple[Change, ...]
    notes: tuple[str, ...]

    @property
    def is_worse(self) -> bool:
        """A must rule of the deciding party began to fail or fails in more scenarios, or the run could not do its work
        any more."""
        failing = any(c.level == "must" and c.group in ("began-to-fail", "fails-elsewhere") for c in self._decisive())
        return failing or (bool(self.new.problems) and not self.old.problems)

    def _decisive(self) -> Iterator[Change]:
        for change in self.changes:
            rule = self.new.rule(change.rule)
            if rule is not None and rule.party == self.new.party:
                yield change


def compare(old: Report, new: Report) -> Comparison:
    changes = [change for rule in new.rules if (change := _change(old.rule(rule.id), rule)) is not None]
    known = {rule.id for rule in new.rules}
    changes += [Change(r.id, r.level, "gone-rule", r.status, "") for r in old.rules if r.id not in known]
    order = list(GROUPS)
    return Comparison(
        old,
        new,
        tuple(sorted(changes, key=lambda c: (order.index(c.group), c.level != "must"))),
        tuple(_notes(old, new)),
    )


def _change(old: RuleResult | None, new: RuleResult) -> Change | None:
    if old is None:
        group = "began-to-fail" if new.status == "fail" else "new-rule"
        return Change(new.id, new.level, group, "", new.status, _where(new))
    more = tuple(scenario for scenario in _where(new) if scenario not in _where(old))
    group = _group(old.status, new.status, bool(more))
    return Change(new.id, new.level, group, old.status, new.status, more) if group else None


def _group(old: str, new: str, in_more: bool) -> str:
    if new == "fail":
        return "began-to-fail" if old != "fail" else "fails-elsewhere" if in_more else ""
    if old == "fail" and new in ("pass", "warn"):
        return "mended"
    if new == "warn" and old != "warn":
        return "warns"
    if old in EXERCISED and new not in EXERCISED:
        return "no-longer-exercised"
    if new in EXERCISED and old not in EXERCISED:
        return "newly-exercised"
    return ""


def _where(rule: RuleResult) -> tuple[str, ...]:
    kind = "violation" if rule.status == "fail" else "warning"
    return tuple(dict.fromkeys(finding.scenario for finding in rule.findings if finding.kind == kind))


def _notes(old: Report, new: Report) -> Iterator[str]:
    for what, before, after in (
        ("protocol", old.protocol, new.protocol),
        ("target", old.target.command, new.target.command),
        ("suite", old.version, new.version),
        ("party", old.party, new.party),
    ):
        if before != after:
            yield f"another {what}: {before}, now {after}"
    gone = {scenario.id for scenario in old.scenarios} - {scenario.id for scenario in new.scenarios}
    if gone:
        first = ", ".join(sorted(gone)[:3]) + (", ..." if len(gone) > 3 else "")
        yield f"{len(gone)} scenarios of the old run did not run: {first}"


def view(comparison: Comparison, width: int) -> Iterator[Line]:
    """The comparison for a terminal: the verdicts, then each group."""
    for name, report in (("old", comparison.old), ("new", comparison.new)):
        style = {"conformant": "pass", "nonconformant": "fail", "incomplete": "warn"}[report.verdict]
        words = exercised_words(report.counts("must"), "must")
        yield (Span(pad(name, 5), "dim"), Span(pad(report.verdict, 15), style), Span(words))
    for note in comparison.notes:
        yield from paragraph(note, width, 5, "warn")
    if not comparison.changes:
        yield BLANK
        yield (Span("no rule changed"),)
    for group, title in GROUPS.items():
        changes = [change for change in comparison.changes if change.group == group]
        if changes:
            yield BLANK
            yield (Span(f"{title} ({len(changes)})", _STYLES.get(group, "strong")),)
        for change in changes:
            statuses = f"{change.old or 'no rule'} -> {change.new or 'no rule'}"
            where = f"  in {', '.join(change.scenarios[:3])}{', ...' if len(change.scenarios) > 3 else ''}"
            aside = f"  {change.level}, {statuses}{where if change.scenarios else ''}"
            yield (Span("  " + change.rule), Span(aside, "dim"))


_STYLES: Final = {
    "began-to-fail": "fail",
    "fails-elsewhere": "fail",
    "mended": "pass",
    "warns": "warn",
    "no-longer-exercised": "warn",
}


def to_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "comparison": 1,
        "old": comparison.old.verdict,
        "new": comparison.new.verdict,
        "worse": comparison.is_worse,
        "notes": list(comparison.notes),
        "changes": [
            {
                "rule": change.rule,
                "level": change.level,
                "change": change.group,
                "old": change.old or None,
                "new": change.new or None,
                "scenarios": list(change.scenarios),
            }
            for change in comparison.changes
        ],
    }
