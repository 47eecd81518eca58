"""The same verdict every time: the whole suite, again and again, on the reference agent, the odd ones and some faults.

    python tests/same_verdict.py [--runs 200] [--of GLOBS] [--side-by-side N] [--cold]

Each agent is run with `--jobs` 1 to 4 in turn; during the second half of the runs every core is kept busy besides. An
agent's runs must agree in the verdict and in the status of every rule but for what was merely suspicious: `warn` and
`pass` count as one, since a warning is what a race leaves. Prints a line an agent; exit status 1 where runs differ, or
where an odd agent is not conformant, or a fault not caught.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from fnmatch import fnmatchcase

from conformance.variants import Variant, variants
from tests.matrix import Seen, examined
from tests.preloaded import preloaded

FAULTS = (
    "hashed-ids",
    "answers-on-receipt",
    "cancel-is-end-turn",
    "renames-messages",
    "runs-denied",
    "failure-is-end-turn",
)


def agents() -> list[Variant | None]:
    """Who is run: None is the reference agent itself."""
    return [None, *(v for v in variants() if not v.breaks or v.slug in FAULTS)]


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """Keeps every core that there is for us busy."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    spinning = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(cores or 1)]
    for process in spinning:
        process.start()
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.join()


def _spin() -> None:
    while True:
        pass


def name(variant: Variant | None) -> str:
    return variant.slug if variant else "(the reference agent)"


def runs_of(
    turns: Sequence[tuple[Variant | None, int]], side_by_side: int, starter: Sequence[str]
) -> Iterator[tuple[Variant | None, Seen]]:
    """Runs the suite on each agent with the number of jobs beside it; yields what was seen as they end."""
    with ProcessPoolExecutor(side_by_side) as pool:
        waiting = {pool.submit(examined, v, jobs=jobs, starter=starter): v for v, jobs in turns}
        for done in as_completed(waiting):
            yield waiting[done], done.result()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=200)
    options.add_argument("--of", default="*", help="globs of slugs, with commas")
    options.add_argument("--side-by-side", type=int, default=2, help="how many runs at a time (default: 2)")
    options.add_argument("--cold", action="store_true", help="start each agent by itself, as a user would")
    given = options.parse_args()
    chosen = [v for v in agents() if any(fnmatchcase(name(v), glob) for glob in given.of.split(","))]
    turns = [(chosen[i % len(chosen)], 1 + (i + i // len(chosen)) % 4) for i in range(given.runs)]
    half = len(turns) // 2
    seen: dict[str, list[Seen]] = defaultdict(list)
    began = time.monotonic()
    with contextlib.nullcontext(()) if given.cold else preloaded() as starter:
        for part, load in ((turns[:half], contextlib.nullcontext()), (turns[half:], busy())):
            with load:
                for variant, run in runs_of(part, given.side_by_side, starter):
                    seen[name(variant)].append(run)
                    print(
                        f"{sum(map(len, seen.values()))}/{len(turns)} {name(variant)} {run.seconds:.1f} s",
                        file=sys.stderr,
                    )
    wrong = sum(_print(agent, runs) for agent, runs in sorted(seen.items()))
    print(
        f"\n{len(turns)} runs of {len(seen)} agents in {time.monotonic() - began:.0f} s: "
        f"{len(seen) - wrong} agents the same every time, {wrong} not"
    )
    return 1 if wrong else 0


def _print(agent: str, runs: list[Seen]) -> bool:
    """A line about an agent, and one for each way in which its runs differ. True where they do, or are not right."""
    ways = Counter((run.verdict, tuple(sorted(run.failed))) for run in runs)
    differing = {rule: Counter(run.statuses.get(rule) for run in runs) for rule in runs[0].statuses}
    differing = {rule: ways for rule, ways in differing.items() if len(ways) > 1}
    bad = len(ways) > 1 or bool(differing) or not all(run.agrees for run in runs)
    seconds = sum(run.seconds for run in runs) / len(runs)
    verdicts = ", ".join(f"{count} {verdict} {' '.join(failed)}".rstrip() for (verdict, failed), count in ways.items())
    print(f"{'WRONG' if bad else 'same '} {agent:34} {len(runs):3} runs {seconds:6.1f} s each  {verdicts}")
    for rule, statuses in differing.items():
        print(f"        {rule}: {', '.join(f'{count} {status}' for status, count in statuses.items())}")
    for run in runs:
        for rule in () if run.agrees else sorted(run.false):
            print(f"        false {rule}: {run.failed[rule]}")
        for problem in run.problems[:4]:
            print(f"        broken {problem}")
    return bad


if __name__ == "__main__":
    sys.exit(main())
