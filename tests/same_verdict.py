"""The same verdict every time: the whole suite, again and again, on the reference agent, the odd ones and some faults.

    python tests/same_verdict.py [--runs 200] [--of GLOBS] [--side-by-side N] [--load WHEN] [--into FILE] [--cold]

Each agent is run with `--jobs` 1 to 4 in turn; during the second half of the runs every core is kept busy besides. An
agent's runs must agree in the verdict and in the must rules that failed. What else differed is told beneath: a should
rule that a race decides, or what a race left unexercised. Prints a line an agent; exit status 1 where runs differ, or
where an odd agent is not conformant, or a fault not caught. With `--into`, runs are added to those of the file, a JSON
line each, and the table is of them all.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from conformance.rules import RULES
from conformance.variants import Variant, variants
from tests.matrix import busy, examined
from tests.preloaded import preloaded

FAULTS = (
    "hashed-ids",
    "answers-on-receipt",
    "cancel-is-end-turn",
    "renames-messages",
    "runs-denied",
    "failure-is-end-turn",
)


@dataclass(frozen=True, slots=True)
class Ran:
    """One run: who, how, and what it said; in `wrong` the rules that failed and should not have, with the message."""

    agent: str
    jobs: int
    is_loaded: bool
    seconds: float
    verdict: str
    agrees: bool
    statuses: dict[str, str]
    wrong: dict[str, str]
    problems: tuple[str, ...]

    @property
    def failed(self) -> tuple[str, ...]:
        """The must rules, which make the verdict."""
        failed = (rule for rule, status in self.statuses.items() if status == "fail" and RULES[rule].level == "must")
        return tuple(sorted(failed))


def agents() -> list[Variant | None]:
    """Who is run: None is the reference agent itself."""
    return [None, *(v for v in variants() if not v.breaks or v.slug in FAULTS)]


def name(variant: Variant | None) -> str:
    return variant.slug if variant else "(the reference agent)"


def run_once(variant: Variant | None, jobs: int, is_loaded: bool, starter: Sequence[str]) -> Ran:
    seen = examined(variant, jobs=jobs, starter=starter)
    wrong = {rule: seen.failed[rule] for rule in sorted(seen.false)}
    return Ran(
        name(variant), jobs, is_loaded, seen.seconds, seen.verdict, seen.agrees, seen.statuses, wrong, seen.problems
    )


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=200)
    options.add_argument("--of", default="*", help="globs of slugs, with commas")
    options.add_argument("--side-by-side", type=int, default=2, help="how many runs at a time (default: 2)")
    options.add_argument(
        "--load",
        choices=("half", "none", "all", "there"),
        default="half",
        help="when every core is kept busy: half of the runs (default), none, all; 'there': they are busy as it is",
    )
    options.add_argument("--into", type=Path, metavar="FILE", help="add to these runs")
    options.add_argument("--cold", action="store_true", help="start each agent by itself, as a user would")
    given = options.parse_args()
    chosen = [v for v in agents() if any(fnmatchcase(name(v), glob) for glob in given.of.split(","))]
    before = [Ran(**json.loads(line)) for line in given.into.open()] if given.into and given.into.exists() else []
    turn = len(before)
    turns = [(chosen[i % len(chosen)], 1 + (i + i // len(chosen)) % 4) for i in range(turn, turn + given.runs)]
    half = {"half": len(turns) // 2, "none": len(turns), "all": 0, "there": 0}[given.load]
    began = time.monotonic()
    runs = [*before]
    with (
        contextlib.nullcontext(()) if given.cold else preloaded() as starter,
        given.into.open("a") if given.into else contextlib.nullcontext() as file,
    ):
        for part, is_loaded in ((turns[:half], False), (turns[half:], True)):
            load = busy() if is_loaded and given.load != "there" else contextlib.nullcontext()
            with load, ProcessPoolExecutor(given.side_by_side) as pool:
                waiting = [pool.submit(run_once, v, jobs, is_loaded, starter) for v, jobs in part]
                for done in as_completed(waiting):
                    run = done.result()
                    runs.append(run)
                    print(f"{len(runs)} {run.agent} {run.verdict} {run.seconds:.1f} s", file=sys.stderr)
                    if file:
                        print(json.dumps(asdict(run)), file=file, flush=True)
    of: dict[str, list[Ran]] = defaultdict(list)
    for run in runs:
        of[run.agent].append(run)
    differing = sum(_print(agent, of[agent]) for agent in sorted(of))
    print(
        f"\n{len(runs)} runs of {len(of)} agents, {sum(run.is_loaded for run in runs)} with every core busy: "
        f"{len(of) - differing} agents the same every time, {differing} not; {time.monotonic() - began:.0f} s"
    )
    return 1 if differing else 0


def _print(agent: str, runs: list[Ran]) -> bool:
    """A line about an agent, and one for each way in which its runs differ. True where they do, or are not right."""
    ways = Counter((run.verdict, run.failed) for run in runs)
    rules = {rule: None for run in runs for rule in run.statuses}
    statuses = {rule: Counter(run.statuses.get(rule, "no status") for run in runs) for rule in rules}
    unsteady = {rule: counted for rule, counted in statuses.items() if len(counted) > 1}
    is_bad = len(ways) > 1 or not all(run.agrees for run in runs)
    seconds = sum(run.seconds for run in runs) / len(runs)
    verdicts = ", ".join(f"{count} {verdict} {' '.join(failed)}".rstrip() for (verdict, failed), count in ways.items())
    print(f"{'WRONG' if is_bad else 'same '} {agent:34} {len(runs):3} runs {seconds:6.1f} s each  {verdicts}")
    for rule, counted in unsteady.items():
        print(f"        {rule}: {', '.join(f'{count} {status}' for status, count in counted.items())}")
    for run in runs:
        for rule, message in run.wrong.items():
            print(f"        false {rule}: {message}")
        for problem in run.problems[:4]:
            print(f"        broken {problem}")
    return is_bad


if __name__ == "__main__":
    sys.exit(main())
