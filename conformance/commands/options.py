"""What several commands share: where a report goes, its formats, and what exit status it means."""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Patience:
    """How patient a run is: so many times as the profile says, or so many seconds for one wait."""

    value: float
    is_in_seconds: bool

    def seconds(self, profile: float) -> float:
        """Seconds for one wait, where the profile says `profile`."""
        return self.value if self.is_in_seconds else self.value * profile


def patience_of(context: click.Context, parameter: click.Parameter, value: str | None) -> Patience | None:
    """ "3" is three times the profile's patience, "45s" 45 seconds for one wait; windows grow with it."""
    if value is None:
        return None
    text = value.strip().lower()
    try:
        patience = Patience(float(text.removesuffix("x").removesuffix("s")), text.endswith("s"))
    except ValueError:
        told = f'{value!r} is no patience; "2" doubles it, "45s" is 45 seconds'
        raise click.BadParameter(told, context, parameter) from None
    if not 0.01 <= patience.value <= 3600:
        raise click.BadParameter(f"{value} is out of range; between 0.01 and 3600", context, parameter)
    return patience


def patience(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option --patience."""
    says = 'How patient to be: "2" is twice as long as the profile says, "45s" is 45 seconds for one wait.'
    return click.option("--patience", callback=patience_of, metavar="X", help=says)(command)


def usual_jobs() -> int:
    """Scenarios at a time where nothing is said: they wait more than they work."""
    import os

    return max(1, min(4, 2 * (os.cpu_count() or 1)))


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


@dataclass(frozen=True, slots=True)
class Written:
    """The files that were written, and the report with what `failures` tell: what could not be written, or broke."""

    paths: tuple[Path, ...]
    report: "Report"
    failures: tuple[str, ...] = ()


def write_views(report: "Report", folder: Path, names: Iterable[str], failures: Sequence[str] = ()) -> Written:
    """Writes report.json and the chosen views of it. What fails costs nothing but itself.

    `failures` are problems of the report that it does not know of yet. A view that breaks, and a file that cannot be
    written, are told on stderr and become problems of the report, which is then written once more.
    """
    from conformance.report.problems import with_problems

    wanted = [name for name in names if name not in ("json", "ndjson")]
    told = list(failures)
    paths, new = _write_all(with_problems(report, told), folder, wanted)
    if new:
        told += new
        paths, _ = _write_all(with_problems(report, told), folder, wanted)
    return Written(tuple(paths), with_failures(report, told), tuple(told))


def with_failures(report: "Report", failures: Sequence[str]) -> "Report":
    """The report with failures of reporters among its problems; they are told on stderr too."""
    from conformance.report.problems import with_problems

    for failure in failures:
        _say(failure)
    return with_problems(report, failures)


def _write_all(report: "Report", folder: Path, names: Sequence[str]) -> tuple[list[Path], list[str]]:
    """What was written, report.json first, and what failed."""
    from importlib import import_module

    from conformance.report.codec import FILE, write_report, write_text
    from conformance.report.problems import bug

    paths: list[Path] = []
    failures: list[str] = []
    for name in ("json", *names):
        path = folder / FILE
        try:
            if name == "json":
                write_report(report, folder)
            else:
                view = import_module(f"conformance.report.views.{name}")
                path = folder / view.FILE
                write_text(path, view.render(report, folder))
            paths.append(path)
        except OSError as error:
            failures.append(f"{path} could not be written: {error.strerror or error}")
        except Exception as error:  # a view's own bug must not cost the others
            failures.append(bug(f"the {name} report", error))
    return paths, failures


class Reporters:
    """One sink that hands each event to all. One that breaks, or cannot write, gets no more of them, and is told in
    `failures`."""

    def __init__(self, sinks: "Sequence[Callable[[RunEvent], None]]") -> None:
        self._sinks = list(sinks)
        self.failures: list[str] = []

    def __call__(self, event: "RunEvent") -> None:
        for sink in tuple(self._sinks):
            try:
                sink(event)
            except OSError as error:
                self._sinks.remove(sink)
                self.failures.append(f"the reporter {type(sink).__name__} cannot write: {error.strerror or error}")
            except Exception as error:  # a reporter's own bug must not cost the run
                from conformance.report.problems import bug

                self._sinks.remove(sink)
                self.failures.append(bug(f"the reporter {type(sink).__name__}", error))


def _say(message: str) -> None:
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    text = f"acp-conformance: {message}\n".encode(encoding, "backslashreplace").decode(encoding)
    print(text, end="", file=sys.stderr, flush=True)
