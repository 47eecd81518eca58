"""The reporter on the terminal: progress while a run goes on, the report at its end.

Takes the events of a run. Progress (rich) only where stdout is a terminal; elsewhere plain lines, and one a scenario
when verbose.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from conformance.report.events import RunEvent, RunFinished, RunStarted, ScenarioFinished, ScenarioStarted
from conformance.report.layout import Line, Span, pad, render
from conformance.report.model import Report
from conformance.report.terminal import verdict_line, view

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PLAIN_WIDTH = 100  # columns where no terminal says otherwise


class Console:
    """`verbosity` is -1 (the verdict alone), 0, or 1 (every scenario, every rule)."""

    def __init__(self, stream: TextIO | None = None, *, verbosity: int = 0) -> None:
        self._stream = stream or sys.stdout
        self._verbosity = verbosity
        self._is_terminal = self._stream.isatty()
        self.colour = self._is_terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._running: dict[str, None] = {}
        self._failed: set[str] = set()
        self.folder: Path | None = None

    def __call__(self, event: RunEvent) -> None:
        match event:
            case RunStarted():
                self.folder = event.folder
                if self._is_terminal and self._verbosity >= 0 and event.target.kind != "transcripts":
                    self._start_progress(len(event.scenarios))
            case ScenarioStarted():
                self._running[event.scenario] = None
                self._show_progress()
            case ScenarioFinished():
                self._running.pop(event.result.id, None)
                self._failed.update(o.rule for o in event.outcomes if any(f.kind == "violation" for f in o.findings))
                if self._verbosity > 0:
                    self.print([_scenario_line(event)])
                self._show_progress(1)
            case RunFinished():
                self.close()
                self.report(event.report)

    def report(self, report: Report) -> None:
        if self._verbosity < 0:
            self.print([verdict_line(report)])
        else:
            self.print(view(report, width=self.width, verbose=self._verbosity > 0, folder=self.folder))

    @property
    def width(self) -> int:
        if not self._is_terminal:
            columns = os.environ.get("COLUMNS", "")
            return max(40, int(columns)) if columns.isdecimal() and len(columns) < 5 else PLAIN_WIDTH
        try:
            return max(40, os.get_terminal_size(self._stream.fileno()).columns)
        except (OSError, ValueError):
            return PLAIN_WIDTH

    def print(self, lines: Iterable[Line]) -> None:
        """Writes the lines. A reader that has gone (`| head`) ends the output and nothing else. Raises OSError where
        nothing can be written, once."""
        try:
            self._print(lines)
        except BrokenPipeError:
            _silence(self._stream)
        except OSError:
            _silence(self._stream)
            raise

    def _print(self, lines: Iterable[Line]) -> None:
        for line in lines:
            text = render(line, colour=self.colour)
            if self._progress is not None:
                from rich.text import Text

                self._progress.console.print(Text.from_ansi(text), soft_wrap=True)
            else:
                self._stream.write(_encodable(text, self._stream) + "\n")
        self._stream.flush()

    def close(self) -> None:
        """Ends the progress, so that the terminal is as it was. Safe to call at any time."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def _start_progress(self, scenarios: int) -> None:
        from rich.console import Console as RichConsole
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        console = RichConsole(file=self._stream, highlight=False, markup=False, emoji=False)
        self._progress = Progress(
            TimeElapsedColumn(),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.description}", markup=False),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("", total=scenarios)
        self._progress.start()

    def _show_progress(self, done: int = 0) -> None:
        if self._progress is not None and self._task is not None:
            failed = f"{len(self._failed)} rules failed; " if self._failed else ""
            self._progress.update(self._task, advance=done, description=failed + ", ".join(list(self._running)[:2]))


def _scenario_line(event: ScenarioFinished) -> Line:
    result = event.result
    violated = [outcome.rule for outcome in event.outcomes if any(f.kind == "violation" for f in outcome.findings)]
    warned = [outcome.rule for outcome in event.outcomes if outcome.findings and outcome.rule not in violated]
    exercised = sum(outcome.exercised for outcome in event.outcomes)
    if violated:
        word, style, rest = "fail", "fail", ", ".join(violated)
    elif result.status == "broken":
        word, style, rest = "broke", "broken", " ".join(result.reason.split())
    elif result.status == "not-applicable":
        word, style, rest = "n/a", "dim", " ".join(result.reason.split())
    elif warned:
        word, style, rest = "warn", "warn", ", ".join(warned)
    else:
        word, style, rest = "ok", "pass", " ".join(result.reason.split()) or f"{exercised} rules exercised"
    return (Span(pad(word, 6), style), Span(f"{result.id}  "), Span(f"{result.seconds:.1f} s  {rest}", "dim"))


def _silence(stream: TextIO) -> None:
    """What is still written to it, also when the interpreter ends, goes nowhere."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def _encodable(text: str, stream: TextIO) -> str:
    """What the stream can take: a terminal in another encoding shows escapes instead of failing."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
