"""What each command costs before it does anything: `--help` of all of them, and the quick ones at work.

    python tests/bench/bench_startup.py [times]

The best of several starts, since everything else on the machine only adds; processor time beside it, which hardly
depends on what else runs; with a bare interpreter to compare.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence

from conformance.cli import COMMANDS

WORK = (("rules",), ("rules", "prompt.distinct-message-ids"), ("scenarios",), ("scenarios", "prompt/plain"))


def best(command: Sequence[str], times: int) -> tuple[float, float]:
    """Milliseconds of the quickest of several runs, compiled before: on the clock, and of the processor."""
    clock, processor = [], []
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(times):
        began, used = time.perf_counter(), _used()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        clock.append(time.perf_counter() - began)
        processor.append(_used() - used)
    return 1000 * min(clock), 1000 * min(processor)


def _used() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def main() -> None:
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    suite = [sys.executable, "-m", "conformance"]
    rows = [("python -c pass", [sys.executable, "-c", "pass"]), ("--help", [*suite, "--help"])]
    rows += [(f"{name} --help", [*suite, name, "--help"]) for name in COMMANDS]
    rows += [(" ".join(words), [*suite, *words]) for words in WORK]
    print(f"{'command':<38} {'ms':>5} {'cpu':>5}   (best of {times}; target of --help: 150)")
    for name, command in rows:
        clock, processor = best(command, times)
        print(f"{name:<38} {clock:5.0f} {processor:5.0f}", flush=True)


if __name__ == "__main__":
    main()
