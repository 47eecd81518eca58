"""Builds the report of a run from the judgements of its histories, one scenario at a time. Pure: no I/O, no clock.

A rule's status over all scenarios: fail > broken > warn > pass > not-exercised; not-applicable where a history says so
and none exercised it. Findings become views at once, so that no history is kept in memory for the report's sake.
"""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from conformance import __version__
from conformance.history import Event, Redactor
from conformance.report.events import RuleOutcome, RunFinished, RunStarted, ScenarioFinished
from conformance.report.excerpt import describe, is_model
from conformance.report.model import FindingView, Proof, Report, RuleResult, ScenarioResult, Status, Verdict, count
from conformance.report.sanitise import LONG, bounded, clean, clean_lines
from conformance.rules.oracle import Judgement, Outcome
from conformance.rules.registry import Finding, Kind, Rule

MOST_PROOFS = 40  # events shown of one finding
STDERR_TAIL = 8_000  # characters of a scenario's stderr in the report
_PLACE: Final = re.compile(r" \(line \d+, [\w-]+\)$")  # of the step, at the end of a scenario's reason
_LAST_WORDS: Final = "; its stderr ends with: "  # in such a reason, before what differs from run to run


@dataclass(slots=True)
class _Gathered:
    """What the scenarios said of one rule so far."""

    exercised_in: list[str] = field(default_factory=list)
    findings: list[FindingView] = field(default_factory=list)
    omitted: int = 0
    not_applicable: str = ""
    broken: str = ""
    left_out: list[str] = field(default_factory=list)  # why scenarios that would have exercised it did not run


class ReportBuilder:
    """Grows the report of one run. `rules` are those that are judged, in the order of the report; rules of another
    party than the run's stay in the report but do not decide its verdict."""

    def __init__(self, started: RunStarted, rules: Iterable[Rule], *, redactor: Redactor | None = None) -> None:
        self._redactor = redactor or Redactor()
        self._target = replace(
            started.target,
            command=clean(self._redactor.text(started.target.command), LONG),
            info=self._said(started.target.info),
            capabilities=self._said(started.target.capabilities),
        )
        self._started = replace(
            started,
            target=self._target,
            started=started.started.removesuffix("+00:00").removesuffix("Z") + "Z",
            arguments=tuple(map(self._redactor.text, started.arguments)),
        )
        self._rules = tuple(rules)
        self._gathered = {rule.id: _Gathered() for rule in self._rules}
        self._scenarios: list[ScenarioResult] = []
        self._problems: list[str] = []

    @property
    def started(self) -> RunStarted:
        return self._started

    def add(
        self,
        result: ScenarioResult,
        judgement: Judgement | None = None,
        *,
        exercises: Sequence[str] = (),
        info: Mapping[str, Any] | None = None,
        capabilities: Mapping[str, Any] | None = None,
    ) -> ScenarioFinished:
        """Takes in one finished scenario; returns the event for the reporters.

        `exercises` are the rules it set out to exercise; `info` and `capabilities` what the peer said in `initialize`
        there (the first one that has them is the target's).
        """
        result = replace(
            result,
            title=clean(result.title),
            reason=clean_lines(self._redactor.text(result.reason), LONG),
            stderr=clean_lines(self._redactor.cut(self._redactor.text(result.stderr)[-STDERR_TAIL:]), None),
            seconds=round(result.seconds, 3),
            exercises=tuple(id for id in exercises if id in self._gathered),
        )
        self._scenarios.append(result)
        if self._target.info is None and info is not None:
            self._target = replace(self._target, info=self._said(info))
        if self._target.capabilities is None and capabilities is not None:
            self._target = replace(self._target, capabilities=self._said(capabilities))
        judged = judgement or {}
        outcomes = tuple(self._outcome(rule, judged[rule.id], result) for rule in self._rules if rule.id in judged)
        for outcome in outcomes:
            self._gather(self._gathered[outcome.rule], outcome, result.id)
        if result.status != "completed" or result.reason:
            why = f"{result.id}: {result.reason}" if result.reason else f"{result.id} is {result.status}"
            for id in exercises:
                if id in self._gathered:
                    self._gathered[id].left_out.append(why)
        return ScenarioFinished(result, tuple(outcome for outcome in outcomes if _says_something(outcome)))

    def problem(self, what: str) -> None:
        """Something kept the suite from its work: the run is incomplete at best. One sentence that says what to do."""
        words = clean_lines(self._redactor.text(what), LONG)
        if words not in self._problems:
            self._problems.append(words)

    def finish(self, seconds: float) -> RunFinished:
        """The report of all that was added. `seconds` is how long the run took."""
        rules = tuple(self._result(rule) for rule in self._rules)
        problems = (*self._problems, *self._own_problems(rules))
        return RunFinished(
            Report(
                version=__version__,
                protocol=self._started.protocol,
                target=self._target,
                started=self._started.started,
                seconds=round(seconds, 3),
                seed=self._started.seed,
                verdict=verdict_of(rules, self._started.party, problems),
                party=self._started.party,
                rules=rules,
                scenarios=self._in_order(),
                problems=problems,
            )
        )

    def _in_order(self) -> tuple[ScenarioResult, ...]:
        order = {id: place for place, id in enumerate(self._started.scenarios)}
        return tuple(sorted(self._scenarios, key=lambda scenario: order.get(scenario.id, len(order))))

    def _own_problems(self, rules: Sequence[RuleResult]) -> Iterable[str]:
        broken = [scenario for scenario in self._in_order() if scenario.status == "broken"]
        same: dict[str, list[ScenarioResult]] = {}
        for scenario in broken:
            same.setdefault(_cause(scenario.reason), []).append(scenario)
        for first, *others in same.values():
            reason = first.reason or "no reason was given"
            if not others:
                yield f"scenario {first.id} broke: {reason}"
                continue
            named = ", ".join(scenario.id for scenario in (first, *others[:2])) + (", ..." if len(others) > 2 else "")
            yield f"{len(others) + 1} scenarios ({named}) broke: {_PLACE.sub('', reason)}"
        for rule in rules:
            if rule.party == self._started.party and self._gathered[rule.id].broken:
                last = self._gathered[rule.id].broken.strip().rpartition("\n")[2]
                yield f"the rule {rule.id} broke ({clean(last)}): a bug of this suite, please report it"
        decisive = count(rule for rule in rules if rule.party == self._started.party)
        if not self._problems and not broken and not decisive.exercised:
            why = next((f" ({scenario.id}: {scenario.reason})" for scenario in self._in_order() if scenario.reason), "")
            yield f"no rule was exercised, so nothing can be said{why}"

    def _outcome(self, rule: Rule, outcome: Outcome, result: ScenarioResult) -> RuleOutcome:
        return RuleOutcome(
            rule=rule.id,
            exercised=outcome.exercised,
            findings=tuple(self._finding(finding, result) for finding in outcome.findings),
            omitted=outcome.omitted,
            not_applicable=clean(outcome.not_applicable or "", LONG),
            broken=clean_lines(self._redactor.text(outcome.broken or ""), 4 * LONG),
        )

    def _finding(self, finding: Finding, result: ScenarioResult) -> FindingView:
        return FindingView(
            scenario=result.id,
            kind=str(finding.kind),
            message=clean(self._redactor.text(finding.message), LONG),
            events=tuple(self._proof(event, part, result) for event, part in finding.because[:MOST_PROOFS]),
            rerun=rerun(self._started, result.id),
        )

    def _proof(self, event: Event, part: str, result: ScenarioResult) -> Proof:
        return Proof(
            transcript=result.transcript or "",
            seq=event.seq,
            t=event.t,
            conn="model" if is_model(event.name) else clean(event.conn, 40),
            dir=event.dir,
            what=describe(event, self._redactor),
            part=clean(self._redactor.text(part)),
        )

    def _gather(self, gathered: _Gathered, outcome: RuleOutcome, scenario: str) -> None:
        if outcome.exercised or outcome.findings:
            gathered.exercised_in.append(scenario)
        gathered.findings.extend(outcome.findings)
        gathered.omitted += outcome.omitted
        gathered.not_applicable = gathered.not_applicable or outcome.not_applicable
        gathered.broken = gathered.broken or outcome.broken

    def _result(self, rule: Rule) -> RuleResult:
        gathered = self._gathered[rule.id]
        order = {id: place for place, id in enumerate(self._started.scenarios)}
        findings = sorted(gathered.findings, key=lambda found: (found.kind, order.get(found.scenario, len(order))))
        status = _status(gathered)
        return RuleResult(
            id=rule.id,
            level=rule.level,
            party=rule.party,
            status=status,
            text=clean(rule.says, None),
            source=clean(rule.source, None),
            reason=_reason(status, rule, gathered),
            findings=tuple(findings),
            scenarios=tuple(sorted(gathered.exercised_in, key=lambda id: order.get(id, len(order)))),
            omitted=gathered.omitted,
        )

    def _said(self, value: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        if not isinstance(value, Mapping):
            return None
        cut: Mapping[str, Any] = self._redactor.value(bounded(dict(value)))
        return cut


def _cause(reason: str) -> str:
    """What is the same where the same thing broke several scenarios: the reason without the step and the stderr."""
    return _PLACE.sub("", reason).partition(_LAST_WORDS)[0]


def verdict_of(rules: Iterable[RuleResult], party: str, problems: Sequence[str]) -> Verdict:
    """Nonconformant if a must rule of `party` fails; else incomplete if anything kept the suite from its work; else
    conformant."""
    if any(rule.status == "fail" and rule.level == "must" and rule.party == party for rule in rules):
        return "nonconformant"
    return "incomplete" if problems else "conformant"


def rerun(started: RunStarted, scenario: str) -> str:
    """The command that runs one scenario of this run again; "" for recorded traffic, which nobody can run again."""
    if started.target.kind == "transcripts":
        return ""
    words = ["acp-conformance", "run", *started.arguments, "--scenario", scenario, "--seed", str(started.seed)]
    return clean(shlex.join(words), None)


def _says_something(outcome: RuleOutcome) -> bool:
    return outcome.exercised or bool(outcome.findings or outcome.not_applicable or outcome.broken)


def _status(gathered: _Gathered) -> Status:
    kinds = {finding.kind for finding in gathered.findings}
    if Kind.VIOLATION in kinds:
        return "fail"
    if gathered.broken:
        return "broken"
    if kinds:
        return "warn"
    if gathered.exercised_in:
        return "pass"
    return "not-applicable" if gathered.not_applicable else "not-exercised"


def _reason(status: Status, rule: Rule, gathered: _Gathered) -> str:
    if status == "broken":
        return gathered.broken
    if status == "not-applicable":
        return gathered.not_applicable
    if status != "not-exercised":
        return ""
    if gathered.left_out:
        more = f" (and {len(gathered.left_out) - 1} more)" if len(gathered.left_out) > 1 else ""
        return clean(gathered.left_out[0] + more, LONG)
    return clean(f"the run did not bring about: {rule.exercised}", None)
