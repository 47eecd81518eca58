"""Reports: data first (`model`, built by `build`), then views of that data, one module each.

Knows rules and what a run found; starts nothing, judges nothing. All text that came from a peer goes through
`sanitise`.
"""

from conformance.report.events import RunEvent, RunFinished, RunStarted, ScenarioFinished, ScenarioStarted
from conformance.report.model import Report, ReportError, ScenarioResult, Target

__all__ = [
    "Report",
    "ReportError",
    "RunEvent",
    "RunFinished",
    "RunStarted",
    "ScenarioFinished",
    "ScenarioResult",
    "ScenarioStarted",
    "Target",
]
