"""The fuzzer against agents with seeded faults: how soon each is found, and how small it becomes.

    python tests/fuzz_seeded.py [--budget SECONDS] [--of GLOBS] [--jobs N] [--seed N]

Prints a line a fault; exit status 1 where one is not found within the budget or needs more than six steps.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from conformance.fuzz.campaign import Campaign
from conformance.fuzz.progress import Options
from conformance.profile import Profile, load_profile
from conformance.resources import folder

sys.path.insert(0, str(folder("fixtures") / "agents"))
from fuzz_faults import FAULTS

STEPS = 6


@dataclass(frozen=True, slots=True)
class Sought:
    """What came of it. `after` and `seconds`: until a fresh process had shown it, and until it was small."""

    slug: str
    sequences: int
    seconds: float
    after: float | None = None
    steps: int = 0
    how_often: str = ""
    gave_up: bool = False
    signature: str = ""
    others: tuple[str, ...] = ()  # failures of rules that the fault is not known to break

    @property
    def is_found(self) -> bool:
        return self.after is not None and self.steps <= STEPS

    def line(self) -> str:
        mark = "found" if self.is_found else "WRONG"
        if self.after is None:
            return f"{mark} {self.slug:26} not found in {self.sequences} sequences {' '.join(self.others)}"
        told = f"after {self.after:5.1f} s, {self.steps:2} steps, {self.how_often:8} done {self.seconds:5.1f} s"
        return f"{mark} {self.slug:26} {told}{', gave up' if self.gave_up else ''}  {self.signature}"


def of_agent(program: str, *arguments: str) -> Profile:
    """The profile of the reference agent, for one of its kin."""
    profile = load_profile("reference")
    command = profile.agent.command or ()
    own = (command[0], str(folder("fixtures") / "agents" / program), *arguments, *command[2:])
    return replace(profile, agent=replace(profile.agent, command=own, server=None))


def faulty(slug: str) -> Profile:
    return of_agent("fuzz_faults", slug)


def sought(slug: str, budget: float, jobs: int, seed: int) -> Sought:
    """One campaign, which ends with the first failure."""
    campaign = Campaign(faulty(slug), Options(budget, seed, jobs, enough=1), lambda _: None)
    asyncio.run(campaign.run())
    progress, count = campaign.progress, sum(campaign.progress.sequences.values())
    found = next((f for f in progress.failures if f.signature.rule in FAULTS[slug].rules), None)
    others = tuple(str(f.signature) for f in progress.failures if f is not found)
    after = min((at for shown, at in progress.found.items() if shown.rule in FAULTS[slug].rules), default=None)
    if found is None:
        return Sought(slug, count, progress.seconds, others=others)
    return Sought(
        slug,
        count,
        progress.seconds,
        after,
        len(found.steps),
        found.how_often,
        found.gave_up,
        str(found.signature),
        others,
    )


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    options.add_argument("--budget", type=float, default=60.0, metavar="SECONDS", help="for each fault")
    options.add_argument("--of", default="*", help="globs of slugs, with commas")
    options.add_argument("--jobs", type=int, default=4, help="agents at a time, as for `fuzz`")
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    slugs = [slug for slug in FAULTS if any(fnmatchcase(slug, glob) for glob in given.of.split(","))]
    wrong = 0
    for slug in slugs:
        seen = sought(slug, given.budget, given.jobs, given.seed)
        print(seen.line(), flush=True)
        wrong += not seen.is_found
    print(f"\n{len(slugs) - wrong} of {len(slugs)} found, seed {given.seed}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
