"""What several commands share: where a report goes, its formats, and what exit status it means."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from conformance.report import Report, RunEvent

CONFORMANT: Final = 0
NONCONFORMANT: Final = 1
INCOMPLETE: Final = 3

FOLDER: Final = "acp-report"
_VIEWS: Final = Path(__file__).resolve().parent.parent / "report" / "views"


def known_formats() -> list[str]:
    """Every view of a report is a module of report/views; report.json is always written, report.ndjson while the run
    goes on."""
    return sorted(["json", "ndjson", *(path.stem for path in _VIEWS.glob("[a-z]*.py"))])


def formats(context: click.Context, parameter: click.Parameter | None, value: str) -> tuple[str, ...]:
    """ "html,junit" as names; raises a usage error for a name that is none."""
    names = tuple(dict.fromkeys(part.strip().lower() for part in value.split(",") if part.strip()))
    for name in names:
        if name not in known_formats():
            from conformance.scenario.spelling import did_you_mean

            raise click.BadParameter(f'no format "{name}"{did_you_mean(name, known_formats())}', context, parameter)
    return names


def verbosity(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options -v and -q."""
    command = click.option("-v", "--verbose", is_flag=True, help="Every scenario, every rule, every finding.")(command)
    return click.option("-q", "--quiet", is_flag=True, help="The verdict alone.")(command)


def exit_status(report: "Report", *, strict: bool = False) -> int:
    """0 conformant, 1 nonconformant (with `strict` also a failed should rule, a warning or an unexpected pass), 3
    incomplete.

    Failures that a baseline knows do not count; what made a run incomplete is never excused.
    """
    decisive = [rule for rule in report.rules if rule.party == report.party]
    failed = [rule for rule in decisive if rule.status == "fail" and not rule.is_known]
    if any(rule.level == "must" for rule in failed):
        return NONCONFORMANT
    if report.problems:
        return INCOMPLETE
    unexpected = report.baseline is not None and bool(report.baseline.unexpected_passes)
    if strict and (failed or unexpected or any(rule.status == "warn" and not rule.is_known for rule in decisive)):
        return NONCONFORMANT
    return CONFORMANT


def write_views(report: "Report", folder: Path, names: Iterable[str]) -> list[Path]:
    """Writes report.json and the chosen views of it; returns the paths. Raises OSError."""
    from importlib import import_module

    from conformance.report.codec import write_report

    written = [write_report(report, folder)]
    for name in names:
        if name in ("json", "ndjson"):
            continue
        view = import_module(f"conformance.report.views.{name}")
        path = folder / view.FILE
        path.write_text(view.render(report, folder), encoding="utf-8", newline="\n")
        written.append(path)
    return written


def fan_out(sinks: "Sequence[Callable[[RunEvent], None]]") -> "Callable[[RunEvent], None]":
    """One sink that hands each event to all."""

    def sink(event: "RunEvent") -> None:
        for each in sinks:
            each(event)

    return sink
