"""What kept the suite from its work, as a report tells it: bugs of its own with their traceback, files that could not
be written."""

import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from conformance.history import Redactor
from conformance.report.model import Report
from conformance.report.sanitise import LONG, clean_lines

_FRAMES: Final = 6  # of a traceback, the innermost


def bug(what: str, error: BaseException) -> str:
    """The words for what is nobody's fault but the suite's: `what` broke, and where."""
    told = "".join(traceback.format_exception(error, limit=-_FRAMES)).strip()
    return f"{what} broke, which is a bug of this suite, please report it:\n{told}"


def with_problems(report: Report, problems: Sequence[str]) -> Report:
    """The report with more problems than it knew of; with any, it is incomplete at best."""
    if not problems:
        return report
    redactor = Redactor(homes=(str(Path.home()),))
    said = tuple(clean_lines(redactor.text(problem), 2 * LONG) for problem in problems)
    verdict = "incomplete" if report.verdict == "conformant" else report.verdict
    return replace(report, problems=(*report.problems, *said), verdict=verdict)
