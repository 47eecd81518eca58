"""The typed events of a run, in the order in which they happen. One stream of them feeds every reporter.

RunStarted, then for each scenario ScenarioStarted and ScenarioFinished (interleaved where scenarios run side by side),
then RunFinished: a stream without it was cut off.
"""

from dataclasses import dataclass
from pathlib import Path

from conformance.report.model import FindingView, Report, ScenarioResult, Target


@dataclass(frozen=True, slots=True)
class RunStarted:
    """`party` decides the verdict; `scenarios` are the chosen ids in order; `folder` is the report's, None where
    nothing is written. `arguments` are the options of the command line that chose the target, for the commands that run
    a scenario again."""

    target: Target
    started: str
    seed: int = 0
    protocol: int = 2
    party: str = "agent"
    scenarios: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class ScenarioStarted:
    scenario: str
    title: str


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """What one rule said of one scenario."""

    rule: str
    exercised: bool
    findings: tuple[FindingView, ...] = ()
    omitted: int = 0
    not_applicable: str = ""
    broken: str = ""


@dataclass(frozen=True, slots=True)
class ScenarioFinished:
    """`outcomes` has the rules that had something to say, in the order of the registry."""

    result: ScenarioResult
    outcomes: tuple[RuleOutcome, ...] = ()


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The footer: with it a stream of events is whole."""

    report: Report


RunEvent = RunStarted | ScenarioStarted | ScenarioFinished | RunFinished
