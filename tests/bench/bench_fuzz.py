"""How many steps a second the fuzzer plays and judges on the reference agent, beside the agent's bare round trip.

    python tests/bench/bench_fuzz.py [SECONDS] [JOBS]

Where the system lets it, all of it is kept on one core: the suite, the scripted model, the agents.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time

from conformance.fuzz.campaign import Campaign
from conformance.fuzz.live import CLIENT, Live
from conformance.fuzz.progress import LAYERS, Options
from conformance.fuzz.writing import scenario_of
from conformance.profile import load_profile

PATIENCE = 15.0


async def round_trips(seconds: float) -> float:
    """Requests a second that one agent answers, one after the other, with nothing in between but the recorder."""
    live = await Live.begin(load_profile("reference"), seed=1, patience=PATIENCE)
    try:
        stage = live.lend(scenario_of([{"connect": "ada"}], "bench"), live.setting)
        client = stage.actors[CLIENT].client
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            await client.response(await client.request("session/list", {}))
            count += 1
        return count / (time.perf_counter() - began)
    finally:
        await live.end()


def campaign(layers: tuple[str, ...], seconds: float, jobs: int) -> tuple[float, float, int]:
    """(steps a second, steps a second of processor time, failures)."""
    before = processor_seconds()
    run = Campaign(load_profile("reference"), Options(seconds, seed=1, jobs=jobs, layers=layers), lambda campaign: None)
    asyncio.run(run.run())
    steps = sum(run.progress.steps.values())
    return steps / run.progress.seconds, steps / (processor_seconds() - before), len(run.progress.failures)


def processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    jobs = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(f"one core, {jobs} agents at a time, {seconds:g} s each; load {os.getloadavg()[0]:.1f}")
    print(f"{'bare round trip':18} {asyncio.run(round_trips(min(3.0, seconds))):8.0f} requests/s")
    tried = [(name, (name,)) for name in ("sequence", "params", "envelope", "bytes")]
    for name, layers in [*tried, ("all layers", tuple(LAYERS))]:
        pace, of_processor, failures = campaign(layers, seconds, jobs)
        print(f"{name:18} {pace:8.0f} steps/s {of_processor:8.0f} a second of processor time {failures:3} failures")


if __name__ == "__main__":
    main()
