"""The matrix: every fault and every odd agent against every must rule.

    python tests/matrix.py [--jobs N] [--of GLOBS] [--times N] [--own] [--plain] [--load] [--again] [--cold]

A fault must fail its own rule and no other must rule than its table entry names; an odd agent fails none. Prints a line
an agent, the disagreements last; exit status 1 where there are any. The agents come from a process that has them loaded
(`preloaded.py`), which makes the whole several times quicker; `--cold` starts each as a user would.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from conformance.profile import Profile, load_profile
from conformance.report import Target
from conformance.rules import RULES
from conformance.runner import Options, run
from conformance.variants import Variant, variants
from tests.preloaded import preloaded

SCENARIOS = 4
"""How many at a time, of an agent that is run through the whole suite."""


@dataclass(frozen=True, slots=True)
class Seen:
    variant: Variant | None
    failed: dict[str, str]  # rule -> the first finding's scenario and message
    verdict: str
    seconds: float
    problems: tuple[str, ...] = field(default=())
    statuses: dict[str, str] = field(default_factory=dict)  # of every rule; a warning counts as a pass

    @property
    def owed(self) -> set[str]:
        return {self.variant.breaks} if self.variant and self.variant.breaks else set()

    @property
    def missed(self) -> set[str]:
        return self.owed - set(self.failed)

    @property
    def false(self) -> set[str]:
        """Must rules that failed and are not owed."""
        must = {rule for rule in self.failed if RULES[rule].level == "must"}
        return must - self.owed - set(self.variant.also if self.variant else ())

    @property
    def agrees(self) -> bool:
        if self.missed or self.false:
            return False
        return bool(self.owed) or self.verdict == "conformant"


def profile_of(variant: Variant | None, *, plain: bool = False, starter: Sequence[str] = ()) -> Profile:
    """The reference agent's profile, starting this variant of it; `plain` with its command alone: no model, no
    triggers, no server. `starter` are the words of `preloaded`, instead of the interpreter."""
    profile = load_profile("reference")
    if plain:
        bare = Profile("plain", replace(profile.agent, server=None, env={}), None, {}, profile.sessions, profile.limits)
        profile = bare
    more = (variant.option, variant.slug) if variant else ()

    if variant and variant.breaks == "wire.ends-with-stdin":
        starter = ()  # how a process ends shows only in one that was started as a user would

    def started(words: Sequence[str] | None) -> tuple[str, ...] | None:
        return (*(starter or words[:1]), *words[1:], *more) if words else None

    agent = replace(profile.agent, command=started(profile.agent.command), server=started(profile.agent.server))
    return replace(profile, agent=agent, limits=replace(profile.limits, patience=4.0))


def examine(
    variant: Variant | None,
    rules: Sequence[str] = (),
    jobs: int = 1,
    report: Path | None = None,
    *,
    plain: bool = False,
    starter: Sequence[str] = (),
) -> Seen:
    """Runs the suite (only what exercises `rules`, where there are any) on one agent; None is the reference agent."""
    began = time.monotonic()
    ran = asyncio.run(
        run(
            profile_of(variant, plain=plain, starter=starter),
            Target("agent", f"{variant.option} {variant.slug}" if variant else "reference"),
            Options(rules=tuple(rules), jobs=jobs, report=report),
            lambda _: None,
        )
    )
    failed = {
        result.id: f"{result.findings[0].scenario}: {result.findings[0].message}"
        for result in ran.report.rules
        if result.status == "fail"
    }
    broken = tuple(f"{s.id}: {s.reason}" for s in ran.report.scenarios if s.status == "broken")
    statuses = {result.id: result.status.replace("warn", "pass") for result in ran.report.rules}
    return Seen(variant, failed, ran.report.verdict, time.monotonic() - began, broken, statuses)


def examine_all(
    chosen: Sequence[Variant],
    jobs: int,
    *,
    own_rule_only: bool = False,
    report: Path | None = None,
    plain: bool = False,
    starter: Sequence[str] = (),
) -> Iterator[Seen]:
    """Yields what was seen of each, as they end; `jobs` agents at a time, each by a process of its own."""
    with ProcessPoolExecutor(jobs) as pool:
        waiting = [
            pool.submit(
                examined,
                v,
                [v.breaks] if own_rule_only and v.breaks else [],
                1 if own_rule_only and v.breaks else SCENARIOS,
                report=report / v.slug if report else None,
                plain=plain,
                starter=starter,
            )
            for v in sorted(chosen, key=lambda v: bool(own_rule_only and v.breaks))  # what takes long begins first
        ]
        for done in as_completed(waiting):
            yield done.result()


def examined(
    variant: Variant | None,
    rules: Sequence[str] = (),
    jobs: int = 1,
    report: Path | None = None,
    *,
    plain: bool = False,
    starter: Sequence[str] = (),
) -> Seen:
    """`examine` for a process of its own: what breaks it is told, not raised."""
    try:
        return examine(variant, rules, jobs, report, plain=plain, starter=starter)
    except Exception as error:
        return Seen(variant, {}, "broken", 0.0, (f"{type(error).__name__}: {error}",))


@contextmanager
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


def _print(seen: Seen) -> None:
    assert seen.variant
    others = sorted(set(seen.failed) - seen.owed)
    mark = "ok   " if seen.agrees else "WRONG"
    about = seen.variant.breaks or "(odd, and right)"
    why = "" if seen.agrees else f"{seen.verdict} {' '.join(seen.problems[:1])} "
    print(f"{mark} {seen.variant.slug:34} {about:44} {seen.seconds:5.1f} s  {why}{' '.join(others)}", flush=True)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--of", default="*", help="globs of slugs or rules, with commas")
    options.add_argument("--times", type=int, default=1)
    options.add_argument("--own", action="store_true", help="only the scenarios that exercise a fault's own rule")
    options.add_argument(
        "--plain", action="store_true", help="without a model, triggers or a server: as a stranger's agent is run"
    )
    options.add_argument("--load", action="store_true", help="keep every core busy besides")
    options.add_argument(
        "--again", action="store_true", help="run who disagrees once more, alone; only who does so twice is wrong"
    )
    options.add_argument("--cold", action="store_true", help="start each agent by itself, as a user would")
    options.add_argument("--report", type=Path, help="keep each agent's report under this folder")
    given = options.parse_args()
    globs = given.of.split(",")
    chosen = [v for v in variants() if any(fnmatchcase(v.slug, glob) or fnmatchcase(v.breaks, glob) for glob in globs)]
    wrong: list[Seen] = []
    unsteady: list[Seen] = []
    with nullcontext(()) if given.cold else preloaded() as starter, busy() if given.load else nullcontext():
        for _ in range(given.times):
            for seen in examine_all(
                chosen,
                given.jobs,
                own_rule_only=given.own,
                report=given.report,
                plain=given.plain,
                starter=starter,
            ):
                _print(seen)
                if not seen.agrees:
                    wrong.append(seen)
        for seen in tuple(wrong) if given.again else ():
            rules = [seen.variant.breaks] if given.own and seen.variant and seen.variant.breaks else []
            second = examined(seen.variant, rules, plain=given.plain, starter=starter)
            _print(second)
            if second.agrees:
                unsteady.append(seen)
                wrong.remove(seen)
    for seen in [*unsteady, *wrong]:
        assert seen.variant
        print(f"\n{seen.variant.slug} ({seen.variant.breaks or 'odd'}): {seen.verdict}")
        for rule in sorted(seen.missed):
            print(f"  missed  {rule}")
        for rule in sorted(seen.false):
            print(f"  false   {rule}: {seen.failed[rule]}")
        for problem in seen.problems[:4]:
            print(f"  broken  {problem}")
    agreed = len(chosen) * given.times - len(wrong)
    print(f"\n{agreed} of {len(chosen) * given.times} agree" + f", {len(unsteady)} at the second try" * bool(unsteady))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
