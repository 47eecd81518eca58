"""The report for a person at a terminal: the verdict first, then what needs doing, each finding with its proof.

Makes lines; where they go and whether they are coloured is `console`'s part.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from conformance.report.layout import BLANK, Line, Span, columns, pad, paragraph
from conformance.report.model import Counts, FindingView, Proof, Report, RuleResult, ScenarioResult, Status
from conformance.report.sanitise import clean

FINDINGS_SHOWN = 3  # of one rule, unless all are asked for
STDERR_LINES = 6  # of a scenario that broke
FEW = 3  # scenarios, for each of which it is told whether it exercised what it is meant to
_INDENT = 6
_PART = 30  # columns that an event's part in the argument has at least, before it goes on a line of its own
_HEADINGS: dict[Status, str] = {"fail": "FAIL", "broken": "BROKE", "warn": "WARN"}


def view(report: Report, *, width: int, verbose: bool = False, folder: Path | None = None) -> Iterator[Line]:
    """The whole report. `width` in columns; `folder` is where the report lies, for paths that can be opened."""
    yield from summary(report, width)
    for rule in needing_attention(report):
        yield BLANK
        yield from rule_view(rule, report, width=width, verbose=verbose, folder=folder)
    yield from _the_rest(report, width, verbose)
    if verbose:
        yield from _scenarios(report, width)
    if folder is not None:
        yield BLANK
        yield (Span(pad("report", 8), "dim"), Span(str(folder / "report.json")))
    if needing_attention(report):  # by now the first line has scrolled away
        yield verdict_line(report)


def verdict_line(report: Report) -> Line:
    """The verdict with how much was exercised, on one line."""
    style = {"conformant": "pass", "nonconformant": "fail", "incomplete": "warn"}[report.verdict]
    words = exercised_words(report.counts("must"), "must")
    if failed := report.demands.failed:
        words += f"; {failed} of {report.demands.total} demands of the fuzzer failed"
    return (Span(report.verdict, style), Span(f"  {words}"))


def exercised_words(counts: Counts, level: str) -> str:
    """ "61 of 76 must rules exercised, 0 failed", with what else there is to say."""
    words = f"{counts.exercised} of {counts.total} {level} rules exercised, {counts.failed} failed"
    if counts.warned:
        words += f", {counts.warned} with warnings"
    if counts.broken:
        words += f", {counts.broken} broke"
    if counts.not_applicable:
        words += f" ({counts.not_applicable} not applicable)"
    return words


def summary(report: Report, width: int) -> Iterator[Line]:
    yield verdict_line(report)
    for party in report.parties:
        whose = "" if party == report.party else f", {party}"
        for level in ("must", "should"):
            counts = report.counts(level, party)
            if counts.total and (level, party) != ("must", report.party):
                yield (Span("  " + exercised_words(counts, level) + whose),)
    yield from paragraph(
        f"{target_words(report)}; {len(report.scenarios)} {_runs(report)}, {report.seconds:.1f} s", width, 2
    )
    if len(report.scenarios) <= FEW:
        for scenario in report.scenarios:
            yield from _meant(scenario, report, width)
    yield from _baseline(report, width)
    for problem in report.problems:
        for line in problem.splitlines():
            yield from paragraph(line, width, 2, "warn")
    is_silent = not report.counts("must").exercised
    could_not = (scenario for scenario in report.scenarios if scenario.status == "broken" or is_silent)
    broken = next((scenario for scenario in could_not if scenario.stderr), None)
    if broken is not None:
        yield (Span("  the last that it wrote to stderr:", "dim"),)
        for line in broken.stderr.splitlines()[-STDERR_LINES:]:
            yield (Span("    " + clean(line), "dim"),)


def _meant(scenario: ScenarioResult, report: Report, width: int) -> Iterator[Line]:
    """Whether a scenario exercised the rules that it names: its author wants to know."""
    if scenario.status == "completed" and scenario.reason:
        yield from paragraph(f"{scenario.id}: {' '.join(scenario.reason.split())}", width, 2)
    if not scenario.exercises or scenario.status != "completed":
        return
    rules = {rule.id: rule for rule in report.rules}
    missed = [rules[id] for id in scenario.exercises if id in rules and scenario.id not in rules[id].scenarios]
    count, named = (
        len(scenario.exercises),
        f"{len(scenario.exercises)} rules" if len(scenario.exercises) > 1 else "rule",
    )
    if not missed:
        yield from paragraph(f"{scenario.id} exercised the {named} that it names", width, 2)
        return
    told = f"did not exercise the {named} that it names:"
    if count > len(missed):
        told = f"exercised {count - len(missed)} of the {named} that it names, but not"
    yield from paragraph(f"{scenario.id} {told}", width, 2, "warn")
    for rule in missed:
        yield from paragraph(f"{rule.id}: {rule.reason or 'not here'}", width, 4, "warn")


def _baseline(report: Report, width: int) -> Iterator[Line]:
    baseline = report.baseline
    if baseline is None:
        return
    told = f"baseline {baseline.file}: {baseline.known} findings are known, {baseline.new} violations are new"
    yield from paragraph(told, width, 2)
    for entry in baseline.unexpected_passes:
        yield from paragraph(f"no longer fails, remove it from the baseline: {entry}", width, 2, "warn")


def target_words(report: Report) -> str:
    target = report.target
    info = target.info or {}
    named = " ".join(str(info[key]) for key in ("name", "version") if info.get(key))
    command = "the bundled reference agent" if target.kind == "reference" else clean(target.command, 200)
    return (
        f"{clean(named)} ({command}), protocol {report.protocol}" if named else f"{command}, protocol {report.protocol}"
    )


def needing_attention(report: Report) -> list[RuleResult]:
    """Failed, broken and warned rules, the worst first, must before should, the deciding party first."""
    order = list(_HEADINGS)
    rules = [rule for rule in report.rules if rule.status in _HEADINGS]
    return sorted(rules, key=lambda rule: (order.index(rule.status), rule.party != report.party, rule.level != "must"))


def rule_view(
    rule: RuleResult, report: Report, *, width: int, verbose: bool = False, folder: Path | None = None
) -> Iterator[Line]:
    """One rule with what the protocol says and each finding."""
    heading = _HEADINGS.get(rule.status, rule.status)
    aside = f"{rule.level} - {rule.party}" + (", known" if rule.is_known else "")
    style = rule.status if rule.status in _HEADINGS else "pass" if rule.status == "pass" else "dim"
    name = f"{rule.id}  "
    lead = pad(heading, max(_INDENT, len(heading) + 1))
    room = max(columns(name), min(width, 100) - columns(lead) - columns(aside))
    yield (Span(lead, style), Span(pad(name, room), "strong"), Span(aside, "dim"))
    yield from paragraph(f"{rule.text}  ({rule.source})", width, _INDENT)
    if rule.reason:
        yield BLANK
        for line in rule.reason.splitlines():
            yield (
                (Span(" " * _INDENT + line, "dim"),)
                if rule.status == "broken"
                else next(paragraph(line, max(width, columns(line) + _INDENT), _INDENT, "dim"))
            )
    shown = rule.findings if verbose else rule.findings[:FINDINGS_SHOWN]
    is_mixed = len({finding.kind for finding in rule.findings}) > 1
    for place, finding in enumerate(shown):
        yield BLANK
        yield from finding_view(finding, width=width, is_mixed=is_mixed)
        if [each.scenario for each in shown[place + 1 : place + 2]] != [finding.scenario]:
            yield from way_to_it(finding, folder)
    left_out = len(rule.findings) - len(shown) + rule.omitted
    if left_out:
        yield BLANK
        where = f"acp-conformance explain {folder} {rule.id}" if folder is not None else "-v shows all that were kept"
        yield (Span(" " * _INDENT + f"and {left_out} more: {where}", "dim"),)


def finding_view(finding: FindingView, *, width: int, is_mixed: bool = False) -> Iterator[Line]:
    place = " " * _INDENT
    kind = f" ({finding.kind})" if is_mixed else ""
    yield (Span(place), Span(finding.scenario, "strong"), Span(kind, "dim"))
    yield from paragraph(finding.message, width, _INDENT + 2)
    yield from excerpt(finding.events, width)
    if finding.known is not None:
        yield from paragraph(finding.known, width, _INDENT + 12, first=(Span(place + pad("known", 12), "dim"),))


def way_to_it(finding: FindingView, folder: Path | None) -> Iterator[Line]:
    """How to run the scenario of the finding again, and where all of its traffic is; once for findings in a row."""
    place = " " * _INDENT
    transcript = finding.events[0].transcript if finding.events else ""
    if finding.rerun or transcript:
        yield BLANK
    if finding.rerun:
        yield (Span(place + pad("run again", 12), "dim"), Span(finding.rerun))
    if transcript:
        yield (Span(place + pad("whole wire", 12), "dim"), Span(_opened(transcript, folder)))


def excerpt(events: Sequence[Proof], width: int) -> Iterator[Line]:
    """The proof as a sequence: when, who, which way, what, and its part in the argument."""
    several = len({proof.conn for proof in events if proof.dir != "control"}) > 1
    rows = [(f"{proof.t:.3f}", *_who(proof, several), proof.what, proof.part) for proof in events]
    if not rows:
        return
    times = max(len(row[0]) for row in rows)
    lanes = max(columns(row[1]) for row in rows)
    start = _INDENT + 2 + times + 2 + lanes + 4
    room = max(24, width - start - 2 - _PART)
    whats = max((columns(row[3]) for row in rows if columns(row[3]) <= room), default=room)  # a longer one wraps
    for time, who, way, what, part in rows:
        lead = Span(" " * (_INDENT + 2) + time.rjust(times) + "  ", "dim")
        lane = Span(f"{pad(who, lanes)} {way} ", "wire")
        aligned = start + whats + 2
        if part and columns(what) <= whats and width - aligned >= _PART:
            yield from paragraph(part, width, aligned, first=(lead, lane, Span(pad(what, whats) + "  ")))
        else:
            yield from paragraph(what, width, start, first=(lead, lane))
            if part:
                yield from paragraph(part, width, start + 2, first=(Span(" " * start + "= ", "dim"),))


def _who(proof: Proof, several: bool) -> tuple[str, str]:
    if proof.dir == "client":
        return proof.conn or "client", "->"
    if proof.dir == "agent":
        return f"agent/{proof.conn}" if several else "agent", "<-"
    return ("model" if proof.conn == "model" else "suite"), "  "


def _opened(transcript: str, folder: Path | None) -> str:
    """The path as it can be opened from here, without the dots on the way."""
    return os.path.normpath(folder / transcript) if folder is not None else transcript


def _runs(report: Report) -> str:
    word = "transcript" if report.target.kind == "transcripts" else "scenario"
    return word if len(report.scenarios) == 1 else word + "s"


def _the_rest(report: Report, width: int, verbose: bool) -> Iterator[Line]:
    decisive = [rule for rule in report.rules if rule.party == report.party]
    for status, title in (("not-exercised", "not exercised"), ("not-applicable", "not applicable")):
        rules = [rule for rule in decisive if rule.status == status]
        if not rules:
            continue
        yield BLANK
        if report.target.kind == "transcripts" and not verbose:  # a recording shows what it shows
            yield (Span(f"{title} ({len(rules)}; -v lists them)", "dim"),)
            continue
        more = "" if verbose or status == "not-applicable" else "; -v says why"
        yield (Span(f"{title} ({len(rules)}{more})", "dim"),)
        if verbose or (status == "not-applicable" and len(rules) <= 6):
            yield from _with_reasons(rules, width)
        elif 2 * len(rules) <= len(decisive):  # else the run was of a part, and the list would bury what it found
            yield from _by_area(rules, width)
    if verbose and (passed := [rule for rule in decisive if rule.status == "pass"]):
        yield BLANK
        yield (Span(f"passed ({len(passed)})", "dim"),)
        yield from _by_area(passed, width)


def _by_area(rules: Sequence[RuleResult], width: int) -> Iterator[Line]:
    """A line or two for each area: `  prompt    distinct-message-ids, rejected-is-error`."""
    areas: dict[str, list[str]] = {}
    for rule in rules:
        areas.setdefault(rule.area, []).append(rule.id.partition(".")[2])
    column = max(map(len, areas)) + 4
    for area, names in areas.items():
        yield from paragraph(", ".join(names), width, column, first=(Span(pad("  " + area, column), "strong"),))


def _with_reasons(rules: Iterable[RuleResult], width: int) -> Iterator[Line]:
    for rule in rules:
        yield (Span("  " + rule.id),)
        yield from paragraph(rule.reason, width, 6, "dim")


def _scenarios(report: Report, width: int) -> Iterator[Line]:
    untold = [scenario for scenario in report.scenarios if scenario.status != "completed" or scenario.reason]
    if untold:
        yield BLANK
        yield (Span(f"scenarios that did not go as written ({len(untold)})", "dim"),)
    for scenario in untold:
        yield (Span(f"  {scenario.id}  "), Span(scenario.status, "dim"))
        yield from paragraph(" ".join(scenario.reason.split()), width, 6, "dim")
