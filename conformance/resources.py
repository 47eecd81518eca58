"""Where the suite's own data lives: beside the package in a checkout, inside it when installed from a wheel.

Knows the three data folders (scenarios, fixtures, reports) and nothing of their contents.
"""

from pathlib import Path
from typing import Literal

_PACKAGE = Path(__file__).resolve().parent


def folder(name: Literal["scenarios", "fixtures", "reports"]) -> Path:
    """The folder `name` of the suite's data; raises FileNotFoundError where the installation lacks it."""
    for candidate in (_PACKAGE / "_data" / name, _PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"the suite's {name}/ folder is missing; install acp-conformance again")
