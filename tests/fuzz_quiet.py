"""The fuzzer against agents that are right: the reference agent and every odd one must give no finding.

    python tests/fuzz_quiet.py [--budget SECONDS] [--of GLOBS] [--side-by-side N] [--jobs N] [--seed N] [--report DIR]

Prints a line an agent as they end, what was found or could not be shown again below it; exit status 1 where anything
was found.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from conformance.fuzz.campaign import Campaign
from conformance.fuzz.progress import Options
from conformance.profile import load_profile
from conformance.variants import Variant, variants
from tests.matrix import profile_of

REFERENCE = "reference"


@dataclass(frozen=True, slots=True)
class Seen:
    """What a campaign against one agent came to. `found` are failures, `unproven` suspicions that no fresh process
    showed."""

    slug: str
    seconds: float = 0.0
    sequences: int = 0
    steps: int = 0
    triples: int = 0
    found: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ()
    problem: str = ""

    @property
    def is_quiet(self) -> bool:
        return not self.found and not self.problem

    def lines(self) -> Iterator[str]:
        mark = "quiet" if self.is_quiet else "WRONG"
        pace = self.steps / self.seconds if self.seconds else 0
        yield (
            f"{mark} {self.slug:34} {self.seconds:5.0f} s {self.sequences:6} sequences {self.steps:7} steps "
            f"{pace:5.0f} steps/s {self.triples:6} triples {len(self.found)} found"
        )
        yield from (f"      found     {each}" for each in self.found)
        yield from (f"      unproven  {each}" for each in self.unproven)
        if self.problem:
            yield f"      problem   {self.problem}"


def looked_at(slug: str, budget: float, jobs: int, seed: int, report: Path | None) -> Seen:
    """One campaign; what breaks it is told, not raised."""
    variant = next((v for v in variants() if v.slug == slug), None)
    profile = load_profile("reference") if variant is None else profile_of(variant)
    folder = report / slug if report is not None else None
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    campaign = Campaign(profile, Options(budget, seed, jobs, folder=folder), lambda _: None)
    try:
        asyncio.run(campaign.run())
    except Exception as error:
        return Seen(slug, problem=f"{type(error).__name__}: {error}")
    progress = campaign.progress
    return Seen(
        slug,
        progress.seconds,
        sum(progress.sequences.values()),
        sum(progress.steps.values()),
        len(campaign.corpus.seen),
        tuple(f"{f.name}  {f.how_often}  {f.signature.rule}: {f.message}" for f in progress.failures),
        tuple(f"{signature}  ({origin})" for signature, origin in progress.unconfirmed.items()),
        progress.problem,
    )


def looked_at_all(
    slugs: Sequence[str], side_by_side: int, budget: float, jobs: int, seed: int, report: Path | None
) -> Iterator[Seen]:
    """Yields what was seen of each, as they end."""
    with ProcessPoolExecutor(side_by_side) as pool:
        waiting = [pool.submit(looked_at, slug, budget, jobs, seed, report) for slug in slugs]
        for done in as_completed(waiting):
            yield done.result()


def chosen(globs: Sequence[str]) -> list[str]:
    """The reference agent and the odd ones, those that a glob names."""
    odd: list[Variant] = [variant for variant in variants() if not variant.breaks]
    slugs = [REFERENCE, *(variant.slug for variant in odd)]
    return [slug for slug in slugs if any(fnmatchcase(slug, glob) for glob in globs)]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    options.add_argument("--budget", type=float, default=120.0, metavar="SECONDS", help="for each agent")
    options.add_argument("--of", default="*", help="globs of slugs, with commas; reference is one of them")
    options.add_argument("--side-by-side", type=int, default=1, metavar="N", help="agents at a time")
    options.add_argument("--jobs", type=int, default=2, help="processes of each agent")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--report", type=Path, help="keep what was found under this folder")
    given = options.parse_args()
    slugs = chosen(given.of.split(","))
    wrong = 0
    for seen in looked_at_all(slugs, given.side_by_side, given.budget, given.jobs, given.seed, given.report):
        print("\n".join(seen.lines()), flush=True)
        wrong += not seen.is_quiet
    print(f"\n{len(slugs) - wrong} of {len(slugs)} quiet")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
