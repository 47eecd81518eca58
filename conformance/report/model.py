"""The report as data: frozen values and their JSON, nothing else. `reports/report.schema.json` is the contract of that
JSON.

Knows no rule and no run: `build` makes reports, the views read them. Times are seconds; `started` is ISO 8601 in UTC.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

FORMAT: Final = 1
SUITE: Final = "acp-conformance"

Status = Literal["fail", "broken", "warn", "pass", "not-exercised", "not-applicable"]
Verdict = Literal["conformant", "nonconformant", "incomplete"]
ScenarioStatus = Literal["completed", "not-applicable", "broken"]

STATUSES: Final[tuple[Status, ...]] = ("fail", "broken", "warn", "pass", "not-exercised", "not-applicable")
DEMANDS: Final = "fuzz."
"""How the ids of what the fuzzer demands begin: they are no rules of the protocol."""
EXERCISED: Final[frozenset[Status]] = frozenset(("fail", "warn", "pass"))


class ReportError(Exception):
    """A file is no report, or one that this version cannot read. Says what, where and what to do."""


@dataclass(frozen=True, slots=True)
class Target:
    """What was tested. `kind` is "agent", "url", "client", "bridge", "reference" or "transcripts"; `command` is the
    command line, the URL or the paths. `info` and `capabilities` are what the peer said of itself, cut to a bounded
    size."""

    kind: str
    command: str
    info: Mapping[str, Any] | None = None
    capabilities: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """An event with its part in the argument. `transcript` is relative to the report's folder, `seq` counts from 0 in
    it; `what` is the event in a few words; `conn` and `dir` as in the transcript."""

    transcript: str
    seq: int
    t: float = 0.0
    conn: str = ""
    dir: str = "control"
    what: str = ""
    part: str = ""


@dataclass(frozen=True, slots=True)
class FindingView:
    """A finding of one scenario. `kind` is "violation" or "warning"; `rerun` a command for a shell, "" where nothing
    can be run; `known` the reason that a baseline gives for it."""

    scenario: str
    kind: str
    message: str
    events: tuple[Proof, ...] = ()
    rerun: str = ""
    known: str | None = None


@dataclass(frozen=True, slots=True)
class RuleResult:
    """A rule over all scenarios. `reason` says why it was not exercised, is not applicable or broke; `scenarios` where
    it was exercised; `omitted` counts findings beyond the limit of a history."""

    id: str
    level: str
    party: str
    status: Status
    text: str
    source: str
    reason: str = ""
    findings: tuple[FindingView, ...] = ()
    scenarios: tuple[str, ...] = ()
    omitted: int = 0

    @property
    def area(self) -> str:
        return self.id.partition(".")[0]

    @property
    def is_known(self) -> bool:
        """It fails (or warns), and a baseline knows every violation (or warning) of it."""
        kind = {"fail": "violation", "warn": "warning"}.get(self.status)
        deciding = [finding for finding in self.findings if finding.kind == kind]
        return bool(deciding) and all(finding.known is not None for finding in deciding)


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """What became of a scenario. `transcript` is relative to the report's folder, None where none was written; `reason`
    says why it was not applicable, broke, or what did not come about; `stderr` is the tail of what the peer wrote
    there; `exercises` are the rules that it is meant to exercise."""

    id: str
    title: str
    status: ScenarioStatus
    reason: str = ""
    seconds: float = 0.0
    transcript: str | None = None
    stderr: str = ""
    exercises: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Counts:
    """How many rules of one level came out how; `exercised` is pass + warn + fail."""

    total: int
    exercised: int
    passed: int
    failed: int
    warned: int
    broken: int
    not_exercised: int
    not_applicable: int

    @property
    def text(self) -> str:
        return f"{self.exercised}/{self.total}"


@dataclass(frozen=True, slots=True)
class BaselineResult:
    """How a report compares with a baseline: findings that it knows, violations that it does not, entries that no
    longer fail."""

    file: str
    known: int = 0
    new: int = 0
    unexpected_passes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report. `party` is whose rules decide the verdict; `problems` is why it is incomplete (also when a
    failure decides)."""

    version: str
    protocol: int
    target: Target
    started: str
    seconds: float
    seed: int
    verdict: Verdict
    party: str
    rules: tuple[RuleResult, ...]
    scenarios: tuple[ScenarioResult, ...]
    problems: tuple[str, ...] = ()
    baseline: BaselineResult | None = None

    def counts(self, level: str, party: str | None = None) -> Counts:
        """Of the protocol's rules of `level`, of the deciding party unless another is named."""
        whose = party or self.party
        return count(r for r in self.rules if r.level == level and r.party == whose and not r.id.startswith(DEMANDS))

    @property
    def demands(self) -> Counts:
        """Of what the fuzzer asks of every agent beside the protocol's rules; it decides as a must rule does."""
        return count(rule for rule in self.rules if rule.id.startswith(DEMANDS))

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties that were judged, the deciding one first."""
        others = sorted({rule.party for rule in self.rules} - {self.party})
        return (self.party, *others)

    def rule(self, id: str) -> RuleResult | None:
        return next((rule for rule in self.rules if rule.id == id), None)


def count(rules: Iterable[RuleResult]) -> Counts:
    of: dict[Status, int] = dict.fromkeys(STATUSES, 0)
    for rule in rules:
        of[rule.status] += 1
    return Counts(
        total=sum(of.values()),
        exercised=sum(of[status] for status in EXERCISED),
        passed=of["pass"],
        failed=of["fail"],
        warned=of["warn"],
        broken=of["broken"],
        not_exercised=of["not-exercised"],
        not_applicable=of["not-applicable"],
    )
