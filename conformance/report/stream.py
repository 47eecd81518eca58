"""report.ndjson: the events of a run as lines, written while it goes on. Its last line is the whole report; a file
without it was cut off.

Lines: {"event": "run-started" | "scenario-started" | "scenario-finished" | "run-finished", ...}, one a line.
"""

import json
from pathlib import Path
from typing import Any, Final, TextIO

from conformance.report.codec import finding_json, from_json, scenario_json, to_json
from conformance.report.events import RunEvent, RunFinished, RunStarted, ScenarioFinished, ScenarioStarted
from conformance.report.model import Report, ReportError

FILE: Final = "report.ndjson"


class StreamWriter:
    """A reporter that writes each event as it comes. A disk that fails ends the stream, never the run: its footer will
    be missing."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO | None = path.open("w", encoding="utf-8", newline="\n")

    def __call__(self, event: RunEvent) -> None:
        if self._file is None:
            return
        try:
            self._file.write(json.dumps(line_of(event), ensure_ascii=False, separators=(",", ":")) + "\n")
            self._file.flush()
        except OSError:
            self.close()
        if isinstance(event, RunFinished):
            self.close()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def line_of(event: RunEvent) -> dict[str, Any]:
    match event:
        case RunStarted():
            return {
                "event": "run-started",
                "target": {"kind": event.target.kind, "command": event.target.command},
                "started": event.started,
                "seed": event.seed,
                "protocol": event.protocol,
                "party": event.party,
                "scenarios": list(event.scenarios),
            }
        case ScenarioStarted():
            return {"event": "scenario-started", "id": event.scenario, "title": event.title}
        case ScenarioFinished():
            outcomes = [
                {
                    "rule": outcome.rule,
                    "exercised": outcome.exercised,
                    "findings": [finding_json(finding) for finding in outcome.findings],
                    "omitted": outcome.omitted,
                    "not-applicable": outcome.not_applicable,
                    "broken": outcome.broken,
                }
                for outcome in event.outcomes
            ]
            return {"event": "scenario-finished", "scenario": scenario_json(event.result), "rules": outcomes}
        case RunFinished():
            return {"event": "run-finished", "report": to_json(event.report)}


def read_stream(path: Path) -> Report:
    """The report in the last line of the file. Raises ReportError where there is none: then the run was cut off."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror or error}") from None
    try:
        last = json.loads(lines[-1]) if lines else None
    except (ValueError, RecursionError):
        last = None
    if not isinstance(last, dict) or last.get("event") != "run-finished":
        done = sum(b'"event":"scenario-finished"' in line for line in lines)
        how_far = f"its last line is no report, so the run did not end ({done} scenarios had finished)"
        raise ReportError(f"{path}: cut off: {how_far}; run it again")
    try:
        return from_json(last.get("report"))
    except ReportError as error:
        raise ReportError(f"{path}: {error}") from None
