"""The faulty and the odd variants of the reference agent, as `fixtures/agents/reference.py --list --json` tells them.

Knows how to ask; knows nothing of what they do.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from functools import cache

from conformance.resources import folder


@dataclass(frozen=True, slots=True)
class Variant:
    """One variant. `breaks` is the id of the rule that it breaks, "" for an odd and right one; `also` names what else
    it cannot help breaking; `needs` what a run must bring for it to show."""

    slug: str
    title: str
    breaks: str
    also: tuple[str, ...]
    needs: tuple[str, ...]

    @property
    def option(self) -> str:
        """The option of the reference agent that chooses it."""
        return "--fault" if self.breaks else "--odd"


@cache
def variants() -> tuple[Variant, ...]:
    """All variants, in the order of their tables. Raises OSError or CalledProcessError where the agent does not run."""
    command = [sys.executable, str(folder("fixtures") / "agents" / "reference.py"), "--list", "--json"]
    listed = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=30).stdout)
    return tuple(
        Variant(
            entry["slug"],
            entry.get("title", ""),
            entry.get("breaks") or "",
            tuple(entry.get("also") or ()),
            tuple(entry.get("needs") or ()),
        )
        for entry in listed
    )


def faults_of(rule: str) -> list[Variant]:
    """The variants that break a rule."""
    return [variant for variant in variants() if variant.breaks == rule]
