"""What a campaign tells: its report, as `run` reports, its progress, and the coverage of the protocol.

The report is made by the builder of all reports: a layer is a scenario in which rules were exercised, a failure is a
scenario of its own that can be run again.
"""

import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from conformance.fuzz.campaign import Campaign
from conformance.fuzz.findings import Failure
from conformance.fuzz.progress import LAYERS
from conformance.profile import redactor_of
from conformance.report import Report, RunStarted, ScenarioResult, Target
from conformance.report.build import ReportBuilder
from conformance.report.console import Console
from conformance.report.layout import BLANK, Line, Span, pad
from conformance.report.sanitise import clean
from conformance.rules import Outcome

if TYPE_CHECKING:
    from rich.status import Status

_EVERY: Final = 15.0  # seconds between two lines of progress where there is no terminal
_OFTEN: Final = 0.2  # seconds between two changes of it on a terminal
_SHOWN: Final = 12  # lines of coverage


def started_now(target: Target, campaign: Campaign, arguments: tuple[str, ...]) -> RunStarted:
    return RunStarted(
        target,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=campaign.options.seed,
        arguments=arguments,
        folder=campaign.options.folder,
    )


def report_of(campaign: Campaign, started: RunStarted, *, was_interrupted: bool) -> Report:
    """The report so far."""
    progress = campaign.progress
    redactor = redactor_of(campaign.profile)
    builder = ReportBuilder(started, campaign.rules, redactor=redactor)
    info, capabilities = (campaign.answer.get(key) for key in ("info", "capabilities"))
    for layer in LAYERS:
        if progress.sequences[layer]:
            title = f"{progress.sequences[layer]} sequences of the {layer} layer, {progress.steps[layer]} steps"
            result = ScenarioResult(f"generated/{layer}", title, "completed")
            builder.add(
                result,
                progress.outcomes.get(layer, {}),
                info=info if isinstance(info, dict) else None,
                capabilities=capabilities if isinstance(capabilities, dict) else None,
            )
    for failure in progress.failures:
        shown = progress.shown[failure.number]
        outcome = shown.judgement[failure.signature.rule]
        kept = tuple(finding for finding in outcome.findings if finding.message == shown.finding.message)
        folder = started.folder
        result = ScenarioResult(
            id=str(folder / f"{failure.name}.yaml") if folder is not None else failure.name,
            title=f"{failure.signature.rule}, seen {failure.how_often} times",
            status="completed",
            reason="shrinking ran out of time" if failure.gave_up else "",
            transcript=f"transcripts/{failure.name}.ndjson" if folder is not None else None,
        )
        builder.add(result, {failure.signature.rule: Outcome(True, kept)})
    if progress.problem:
        builder.problem(progress.problem)
    if was_interrupted:
        builder.problem(f"interrupted after {progress.seconds:.0f} of {campaign.options.budget:.0f} s")
    return builder.finish(progress.seconds).report


def status_line(campaign: Campaign) -> str:
    """Sequences, steps a second, coverage, findings."""
    progress = campaign.progress
    steps = sum(progress.steps.values())
    pace = steps / progress.seconds if progress.seconds > 0 else 0
    words = [
        f"{progress.seconds:.0f} s",
        f"{sum(progress.sequences.values())} sequences",
        f"{pace:.0f} steps/s",
        f"{len(campaign.corpus.seen)} triples",
        f"{len(progress.failures)} failures",
    ]
    if progress.looking:
        words.append(f"{progress.looking} being looked at")
    return ", ".join(words)


def summary(campaign: Campaign) -> Iterator[Line]:
    """After the report: what was seen of the protocol, what could not be shown again, what is mended."""
    progress = campaign.progress
    yield BLANK
    yield (Span(f"seed {campaign.options.seed}; {status_line(campaign)}; {progress.agents} agents started", "dim"),)
    if progress.note:
        yield (Span(clean(progress.note), "dim"),)
    folder = campaign.options.folder
    for failure in progress.failures:
        where = failure.name if folder is None else folder / f"{failure.name}.yaml"
        yield (Span(pad("failure", 10), "fail"), Span(f"{where}  {_seen(failure)}  {clean(failure.message)}"))
    for signature, origin in progress.unconfirmed.items():
        told = f"{clean(str(signature))}  ({origin}; no fresh process shows it)"
        yield (Span(pad("unproven", 10), "dim"), Span(told))
    for signature, origin in progress.left.items():
        yield (Span(pad("left", 10), "dim"), Span(f"{clean(str(signature))}  ({origin}; no time to look into it)"))
    for failure in progress.mended:
        yield (Span(pad("gone", 10), "dim"), Span(f"{failure.name}  {clean(str(failure.signature))}"))
    yield from coverage(campaign)


def _seen(failure: Failure) -> str:
    when = f" after {failure.found_after:.0f} s" if failure.found_after else ""
    return f"{failure.how_often}, {len(failure.steps)} steps{when}"


def coverage(campaign: Campaign) -> Iterator[Line]:
    """How many situations each step was tried in, and how many reactions it met."""
    situations: dict[str, set[str]] = {}
    reactions: dict[str, set[str]] = {}
    for situation, step, reaction in campaign.corpus.seen:
        verb = step.partition(" ")[0]
        situations.setdefault(verb, set()).add(situation)
        reactions.setdefault(verb, set()).add(reaction)
    yield BLANK
    yield (Span(f"coverage: {len(campaign.corpus.seen)} (situation, step, reaction) triples", "dim"),)
    order = sorted(situations, key=lambda verb: (-len(situations[verb]), verb))
    for verb in [verb for verb in order if verb != "end"][:_SHOWN]:
        yield (Span(f"  {pad(verb, 16)} {len(situations[verb]):>4} situations {len(reactions[verb]):>5} reactions"),)


class Teller:
    """Tells progress: a line that changes on a terminal, else a line now and then; each failure as it is found."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._told: set[int] = set()
        self._last = time.monotonic()
        self._status: Status | None = None

    def __call__(self, campaign: Campaign) -> None:
        if self._quiet:
            return
        for failure in campaign.progress.failures:
            if failure.number not in self._told:
                self._told.add(failure.number)
                self._say(f"{failure.name}  {failure.how_often}  {failure.signature.rule}: {clean(failure.message)}")
        if sys.stdout.isatty():
            self._show(status_line(campaign))
        elif time.monotonic() - self._last >= _EVERY:
            self._last = time.monotonic()
            self._say(status_line(campaign))

    def close(self) -> None:
        """Leaves the terminal as it was."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _show(self, line: str) -> None:
        if self._status is None:
            from rich.console import Console as RichConsole

            self._status = RichConsole(highlight=False, markup=False, emoji=False).status(line)
            self._status.start()
        elif time.monotonic() - self._last >= _OFTEN:
            self._last = time.monotonic()
            self._status.update(line)

    def _say(self, text: str) -> None:
        self.close()
        self._console.print([(Span(text),)])
