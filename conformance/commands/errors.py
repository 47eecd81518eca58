"""Which exceptions are a user's to mend, and how they are told: one message, no traceback."""

import errno
import sys


def told(error: Exception) -> str | None:
    """The message for the user; None for what is a bug of the suite and must show its traceback.

    Errors of modules that were never imported cannot have been raised, so none is imported here.
    """
    for module, name in _OURS:
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type) and isinstance(error, kind):
            return str(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror or error}"
    if isinstance(error, OSError) and error.errno in _FULL:
        return f"the output could not be written: {error.strerror}"
    return None


_FULL = (errno.ENOSPC, errno.EFBIG, errno.EIO, getattr(errno, "EDQUOT", errno.ENOSPC))
_OURS = (
    ("conformance.history.transcript", "TranscriptError"),
    ("conformance.scenario.errors", "ScenarioError"),
    ("conformance.profile", "ProfileError"),
    ("conformance.runner", "UsageProblem"),
    ("conformance.report.model", "ReportError"),
    ("conformance.report.baseline", "BaselineError"),
)
