"""report.json: the JSON of a report, written and read. `reports/report.schema.json` describes the same shape for
others."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

from conformance.report.model import (
    FORMAT,
    STATUSES,
    SUITE,
    BaselineResult,
    Counts,
    FindingView,
    Proof,
    Report,
    ReportError,
    RuleResult,
    ScenarioResult,
    ScenarioStatus,
    Target,
    Verdict,
)

FILE = "report.json"
T = TypeVar("T")


def write_report(report: Report, folder: Path) -> Path:
    """Writes `folder`/report.json in one move, so that a reader never sees half of it. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / FILE, json.dumps(to_json(report), ensure_ascii=False, indent=1) + "\n")
    return folder / FILE


def write_text(path: Path, text: str) -> None:
    """Writes a file in one move: where that fails, what was there before is there still. Raises OSError."""
    unfinished = path.with_name(path.name + ".part")
    try:
        unfinished.write_text(text, encoding="utf-8", newline="\n")
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise


def read_report(path: Path) -> Report:
    """The report in `path`: a report.json, the folder that holds it, or a report.ndjson. Raises ReportError."""
    path = path / FILE if path.is_dir() else path
    if path.suffix == ".ndjson":
        from conformance.report.stream import read_stream

        return read_stream(path)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        what_to_do = f"give the folder that `acp-conformance run --report DIR` wrote, or its {FILE}"
        raise ReportError(f"{path}: {error.strerror or error}; {what_to_do}") from None
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{path}: not JSON ({error}); give a {FILE} of acp-conformance") from None
    try:
        return from_json(data)
    except ReportError as error:
        raise ReportError(f"{path}: {error}") from None


def to_json(report: Report) -> dict[str, Any]:
    data: dict[str, Any] = {
        "report": FORMAT,
        "suite": {"name": SUITE, "version": report.version},
        "protocol": report.protocol,
        "target": {
            "kind": report.target.kind,
            "command": report.target.command,
            "info": report.target.info,
            "capabilities": report.target.capabilities,
        },
        "party": report.party,
        "started": report.started,
        "seconds": report.seconds,
        "seed": report.seed,
        "verdict": report.verdict,
        "problems": list(report.problems),
        "counts": {level: counts_json(report.counts(level)) for level in ("must", "should")},
        "rules": [rule_json(rule) for rule in report.rules],
        "scenarios": [scenario_json(scenario) for scenario in report.scenarios],
    }
    if (baseline := report.baseline) is not None:
        data["baseline"] = {
            "file": baseline.file,
            "known": baseline.known,
            "new": baseline.new,
            "unexpected_passes": list(baseline.unexpected_passes),
        }
    return data


def counts_json(counts: Counts) -> dict[str, int]:
    return {
        "total": counts.total,
        "exercised": counts.exercised,
        "passed": counts.passed,
        "failed": counts.failed,
        "warned": counts.warned,
        "broken": counts.broken,
        "not-exercised": counts.not_exercised,
        "not-applicable": counts.not_applicable,
    }


def rule_json(rule: RuleResult) -> dict[str, Any]:
    return {
        "id": rule.id,
        "level": rule.level,
        "party": rule.party,
        "status": rule.status,
        "text": rule.text,
        "source": rule.source,
        "reason": rule.reason,
        "findings": [finding_json(finding) for finding in rule.findings],
        "scenarios": list(rule.scenarios),
        "omitted": rule.omitted,
    }


def finding_json(finding: FindingView) -> dict[str, Any]:
    data: dict[str, Any] = {
        "scenario": finding.scenario,
        "kind": finding.kind,
        "message": finding.message,
        "events": [
            {
                "transcript": proof.transcript,
                "seq": proof.seq,
                "t": proof.t,
                "conn": proof.conn,
                "dir": proof.dir,
                "what": proof.what,
                "part": proof.part,
            }
            for proof in finding.events
        ],
        "rerun": finding.rerun,
    }
    return data if finding.known is None else {**data, "known": finding.known}


def scenario_json(scenario: ScenarioResult) -> dict[str, Any]:
    data = {
        "id": scenario.id,
        "title": scenario.title,
        "status": scenario.status,
        "reason": scenario.reason,
        "seconds": scenario.seconds,
        "transcript": scenario.transcript,
        "stderr": scenario.stderr,
    }
    return {**data, "exercises": list(scenario.exercises)} if scenario.exercises else data


def from_json(data: Any) -> Report:
    """The report that `data` is; fields that a later version adds are passed over. Raises ReportError naming the
    field."""
    top = _Reader(data, "")
    if not isinstance(data, Mapping) or "report" not in data:
        raise ReportError('this is no report of acp-conformance: it must be an object with "report": 1')
    if data["report"] != FORMAT:
        raise ReportError(f"report format {data['report']!r} is not known; this version reads format {FORMAT}")
    said = top.inner("target")
    return Report(
        version=top.inner("suite").text("version"),
        protocol=top.whole("protocol"),
        target=Target(said.text("kind"), said.text("command"), said.object("info"), said.object("capabilities")),
        started=top.text("started"),
        seconds=top.number("seconds"),
        seed=top.whole("seed"),
        verdict=top.one_of("verdict", get_args(Verdict)),
        party=top.text("party", "agent"),
        rules=top.each("rules", _rule),
        scenarios=top.each("scenarios", _scenario),
        problems=top.texts("problems"),
        baseline=_baseline(top.inner("baseline")) if data.get("baseline") is not None else None,
    )


def _baseline(read: "_Reader") -> BaselineResult:
    return BaselineResult(read.text("file"), read.whole("known"), read.whole("new"), read.texts("unexpected_passes"))


def _rule(read: "_Reader") -> RuleResult:
    return RuleResult(
        id=read.text("id"),
        level=read.one_of("level", ("must", "should")),
        party=read.text("party"),
        status=read.one_of("status", STATUSES),
        text=read.text("text"),
        source=read.text("source"),
        reason=read.text("reason", ""),
        findings=read.each("findings", _finding),
        scenarios=read.texts("scenarios"),
        omitted=read.whole("omitted", 0),
    )


def _finding(read: "_Reader") -> FindingView:
    return FindingView(
        scenario=read.text("scenario"),
        kind=read.one_of("kind", ("violation", "warning")),
        message=read.text("message"),
        events=read.each("events", _proof),
        rerun=read.text("rerun", ""),
        known=read.text("known") if "known" in read.data else None,
    )


def _proof(read: "_Reader") -> Proof:
    return Proof(
        transcript=read.text("transcript"),
        seq=read.whole("seq"),
        t=read.number("t", 0.0),
        conn=read.text("conn", ""),
        dir=read.one_of("dir", ("client", "agent", "control"), "control"),
        what=read.text("what", ""),
        part=read.text("part", ""),
    )


def _scenario(read: "_Reader") -> ScenarioResult:
    return ScenarioResult(
        id=read.text("id"),
        title=read.text("title"),
        status=read.one_of("status", get_args(ScenarioStatus)),
        reason=read.text("reason", ""),
        seconds=read.number("seconds", 0.0),
        transcript=None if read.data.get("transcript") is None else read.text("transcript"),
        stderr=read.text("stderr", ""),
        exercises=read.texts("exercises"),
    )


class _Reader:
    """One object of the JSON with its place in it, for errors that name the field."""

    def __init__(self, data: Any, place: str) -> None:
        if not isinstance(data, Mapping):
            raise ReportError(f"{place or 'the report'} is {type(data).__name__}, must be an object")
        self.data = data
        self._place = place

    def text(self, key: str, default: str | None = None) -> str:
        return str(self._value(key, (str,), "a string", default))

    def whole(self, key: str, default: int | None = None) -> int:
        return int(self._value(key, (int,), "an integer", default))

    def number(self, key: str, default: float | None = None) -> float:
        return float(self._value(key, (int, float), "a number", default))

    def one_of(self, key: str, words: tuple[Any, ...], default: Any = None) -> Any:
        value = self.text(key, default)
        if value not in words:
            raise ReportError(f"{self._at(key)} is {value!r}, must be one of {', '.join(words)}")
        return value

    def object(self, key: str) -> Mapping[str, Any] | None:
        value = self.data.get(key)
        return value if isinstance(value, Mapping) else None

    def texts(self, key: str) -> tuple[str, ...]:
        return tuple(str(item) for item in self._value(key, (list,), "an array", []))

    def inner(self, key: str) -> "_Reader":
        return _Reader(self.data.get(key), self._at(key))

    def each(self, key: str, make: "Callable[[_Reader], T]") -> tuple[T, ...]:
        items = self._value(key, (list,), "an array", None)
        return tuple(make(_Reader(item, f"{self._at(key)}[{index}]")) for index, item in enumerate(items))

    def _value(self, key: str, types: tuple[type, ...], wanted: str, default: Any) -> Any:
        value = self.data.get(key, default)
        if not isinstance(value, types) or isinstance(value, bool):
            found = type(value).__name__ if key in self.data else "missing"
            raise ReportError(f"{self._at(key)} is {found}, must be {wanted}")
        return value

    def _at(self, key: str) -> str:
        return f"{self._place}.{key}" if self._place else key
