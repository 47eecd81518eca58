"""Hand-made rules, judgements and reports for the tests of the reports: small, but with one of everything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conformance.history import Recorder
from conformance.history.events import Event
from conformance.report import Report, RunEvent, RunStarted, ScenarioResult, ScenarioStarted, Target
from conformance.report.build import ReportBuilder
from conformance.rules.oracle import Judgement, Outcome
from conformance.rules.registry import Finding, Kind, Level, Party, Rule
from conformance.wire import envelope_of, read_envelope


def rule(id: str, level: Level = "must", party: Party = "agent") -> Rule:
    def decide(thing: Any) -> Iterator[Any]:
        yield from ()

    return Rule(
        id, level, party, f"The statement of {id}.", "rfd 'Somewhere'", f"a {id} situation", "", "", object, decide
    )


RULES = (
    rule("prompt.no-error-after-insertion"),
    rule("prompt.distinct-message-ids"),
    rule("state.paired"),
    rule("wire.silent", "should"),
    rule("session.delete"),
    rule("cancel.odd"),
    rule("client.wire", party="client"),
)
STARTED = RunStarted(
    Target("agent", "my-agent --acp"),
    "2026-10-01T12:00:00Z",
    seed=41,
    scenarios=("failures/before-the-response", "prompt/identical", "session/delete"),
    arguments=("--agent", "my-agent --acp"),
)


class Wire:
    """A recorder whose clock stands where the test puts it; each call returns its event."""

    def __init__(self, path: Path | None = None, **header: Any) -> None:
        self.now = 0.0
        self.recorder = Recorder(path, header, clock=lambda: self.now)

    def client(self, message: Any, conn: str = "ada") -> Event:
        return self._wire("client", message, conn)

    def agent(self, message: Any, conn: str = "ada") -> Event:
        return self._wire("agent", message, conn)

    def control(self, name: str, conn: str = "", **fields: Any) -> Event:
        self.now += 0.01
        return self.recorder.control(conn, name, **fields)

    def _wire(self, direction: Any, message: Any, conn: str) -> Event:
        self.now += 0.01
        envelope = read_envelope(message) if isinstance(message, bytes) else envelope_of(message)
        return self.recorder.wire(conn, direction, envelope)


def doomed_prompt(wire: Wire, text: str = "doomed acp-7f3a", message_id: str = "u-19") -> tuple[tuple[Event, str], ...]:
    """A prompt that is answered with an error after its message was reported; the events with their part in the
    proof."""
    prompt = {"sessionId": "s", "prompt": [{"type": "text", "text": text}]}
    update = {"sessionUpdate": "user_message", "messageId": message_id, "content": [{"type": "text", "text": text}]}
    return (
        (wire.client({"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": prompt}), ""),
        (
            wire.agent({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}),
            f'holds "{text}": the message is inserted',
        ),
        (wire.control("model-answered", number=1, how="fail", status=401, injected=True), ""),
        (
            wire.agent({"jsonrpc": "2.0", "id": 3, "error": {"code": -32000, "message": "no credit"}}),
            "the same prompt is answered with an error",
        ),
    )


def violation(message: str, *because: tuple[Event, str]) -> Finding:
    return Finding(Kind.VIOLATION, message, because)


def warned(message: str, *because: tuple[Event, str]) -> Finding:
    return Finding(Kind.WARNING, message, because)


def judgement(**outcomes: Outcome) -> Judgement:
    """`prompt__distinct_message_ids=PASS` for the rule prompt.distinct-message-ids."""
    return {name.replace("__", ".").replace("_", "-"): outcome for name, outcome in outcomes.items()}


PASS = Outcome(True)
SILENT = Outcome(False)


def found(*findings: Finding, omitted: int = 0) -> Outcome:
    return Outcome(True, findings, omitted)


def completed(id: str, seconds: float = 0.5, **more: Any) -> ScenarioResult:
    transcript = f"transcripts/{id.replace('/', '-')}.ndjson"
    return ScenarioResult(id, f"About {id}", "completed", seconds=seconds, transcript=transcript, **more)


def example_events(folder: Path | None = None) -> list[RunEvent]:
    """A nonconformant run: a failed must rule, a failed should rule, a warning, a pass, what is not exercised and not
    applicable.

    With a folder the transcript of the failure is written there.
    """
    name = "failures-before-the-response.ndjson"
    wire = Wire(folder / "transcripts" / name if folder else None, scenario="failures/before-the-response", seed=41)
    proof = doomed_prompt(wire)
    wire.recorder.close()
    builder = ReportBuilder(STARTED, RULES)
    failing = judgement(
        prompt__no_error_after_insertion=found(violation("prompt #3 was inserted and then refused", *proof)),
        prompt__distinct_message_ids=PASS,
        wire__silent=found(violation("a should rule is broken", proof[1])),
        session__delete=Outcome(False, not_applicable="the agent does not advertise session.delete"),
    )
    passing = judgement(
        prompt__no_error_after_insertion=PASS,
        prompt__distinct_message_ids=PASS,
        state__paired=found(warned("running came twice", proof[0], proof[1])),
    )
    return [
        STARTED,
        ScenarioStarted("failures/before-the-response", "About failures/before-the-response"),
        builder.add(completed("failures/before-the-response"), failing, info={"name": "my-agent", "version": "1.2"}),
        ScenarioStarted("prompt/identical", "About prompt/identical"),
        builder.add(completed("prompt/identical"), passing, capabilities={"session": {}}),
        builder.add(
            ScenarioResult(
                "session/delete", "Deleting", "not-applicable", "the agent does not advertise session.delete"
            ),
            exercises=("session.delete",),
        ),
        builder.finish(3.25),
    ]


def example_report(folder: Path | None = None) -> Report:
    finished = example_events(folder)[-1]
    report: Report = finished.report
    return report


def report_of(*parts: tuple[str, Judgement], started: RunStarted = STARTED, rules: tuple[Rule, ...] = RULES) -> Report:
    """The report of scenarios, each an id with what was judged there."""
    builder = ReportBuilder(started, rules)
    for id, judged in parts:
        builder.add(completed(id), judged)
    return builder.finish(1.0).report
