"""Hostile agents against the suite: each is run as a user would run it, and held against the outcome owed to it.

python tests/hostile.py [--jobs N] [SLUG ...]    prints the table; exit status 1 where an outcome differs
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from conformance.resources import folder

HOSTILE: Final = folder("fixtures") / "hostile"
sys.path.insert(0, str(HOSTILE))
from attacks import ATTACKS, Attack  # noqa: E402

RUN_LIMIT: Final = 25.0  # seconds, as the profile below has it
GRACE: Final = 5.0  # seconds beyond its limit that a run may take
MOST_MEMORY: Final = 300 * 1024 * 1024
HANGS: Final = 120.0  # seconds after which the suite itself counts as hung, on the busiest of machines
SPARED: Final = ("init/plain", "wire/ids")  # run beside it, and without a prompt, at which most attacks begin
SPOILT: Final = "prompt/plain"

PROFILE: Final = """
[agent]
{how}
startup-timeout = 5
env = {{ HOSTILE_TOKEN = "{token}" }}

[model]
api = "openai-chat"
env = {{ OPENAI_BASE_URL = "{{model.url}}" }}

[limits]
patience = 3
scenario = 12
run = {limit}
grace = 3
max-memory = "600 MiB"
max-processes = 24
max-events = 25000
max-output = "40 MiB"
max-file = "16 MiB"
"""

MEASURED: Final = """
import atexit, os, sys
from conformance.cli import main

def tell() -> None:
    if os.path.exists("/proc/self/status"):
        with open("/proc/self/status") as status, open(sys.argv[1], "w") as file:
            file.write(status.read())

atexit.register(tell)
main(sys.argv[2:])
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a run came to. `seconds` from start to exit; `memory` the suite's peak in bytes, 0 where unknown."""

    attack: Attack
    status: int
    seconds: float
    memory: int
    report: dict[str, Any] | None
    output: str
    left: tuple[str, ...]

    @property
    def verdict(self) -> str:
        return str(self.report["verdict"]) if self.report is not None else "no report"

    @property
    def failed(self) -> list[str]:
        rules = self.report["rules"] if self.report is not None else []
        return [rule["id"] for rule in rules if rule["status"] == "fail"]

    @property
    def told(self) -> str:
        """The reasons and problems of the report."""
        if self.report is None:
            return ""
        return "\n".join([*(scenario["reason"] for scenario in self.report["scenarios"]), *self.report["problems"]])

    def disagreements(self) -> Iterator[str]:
        owed = self.attack.owed
        if self.report is None:
            yield f"no report was written; status {self.status}: {self.output[-400:]}"
            return
        if self.verdict != owed.verdict:
            yield f"verdict {self.verdict}, owed {owed.verdict} (failed: {', '.join(self.failed)})"
        if self.status != owed.status:
            yield f"exit status {self.status}, owed {owed.status}"
        for rule in owed.fails:
            if rule not in self.failed:
                yield f"{rule} did not fail"
        for words in (*owed.says, *([f"limit {owed.limit} of"] if owed.limit else [])):
            if words not in self.told:
                yield f"nothing says {words!r}"
        if self.seconds > RUN_LIMIT + GRACE:
            yield f"took {self.seconds:.1f} s"
        if self.memory > MOST_MEMORY:
            yield f"the suite took {self.memory / 1e6:.0f} MB"
        if self.left:
            yield f"left alive: {', '.join(self.left)}"
        broken = [rule["id"] for rule in self.report["rules"] if rule["status"] == "broken"]
        if broken:
            yield f"rules broke: {', '.join(broken)}"
        if owed.spares and not owed.interrupts:
            yield from self._spared()

    def _spared(self) -> Iterator[str]:
        assert self.report is not None
        scenarios = {scenario["id"]: scenario for scenario in self.report["scenarios"]}
        for id in SPARED:
            spared = scenarios.get(id)
            if spared is None or spared["status"] != "completed" or spared["reason"]:
                yield f"{id} was harmed: {spared['reason'] if spared is not None else 'not run'}"
            for rule in self.report["rules"]:
                if any(finding["scenario"] == id for finding in rule["findings"]):
                    yield f"{rule['id']} was found in {id}"


def examine(
    attack: Attack,
    place: Path,
    *,
    formats: str = "json",
    environment: dict[str, str] | None = None,
    words: Sequence[str] = (),
) -> Seen:
    """Runs the suite on one hostile agent, in `place`; ends what the suite has left alive. `words` are added to the
    agent's command line."""
    token = f"hostile-{uuid4().hex}"
    command = [sys.executable, str(HOSTILE / "agent.py"), attack.slug, *words]
    how = f"command = {json.dumps(command)}"
    if attack.listens:
        url = 'transport = "websocket"\nurl = "ws://127.0.0.1:{port}/"'
        how = f"command = {json.dumps([*command, '{port}'])}\n{url}"
    profile = place / "profile.toml"
    profile.write_text(PROFILE.format(how=how, token=token, limit=RUN_LIMIT), encoding="utf-8")
    arguments = ["run", "--profile", str(profile), "--seed", "1", "--jobs", "2"]
    for scenario in (SPOILT, *SPARED):
        arguments += ["--scenario", scenario]
    arguments += ["--report", str(place / "report"), "--format", formats, "--verbose"]
    suite = [sys.executable, "-c", MEASURED, str(place / "status"), *arguments]
    process = subprocess.Popen(
        suite,
        env={**os.environ, "PYTHONPATH": str(folder("fixtures").parent), **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    began = time.monotonic()
    try:
        output = process.communicate(timeout=HANGS)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        output = process.communicate()[0]
    seconds = time.monotonic() - began
    left = tuple(_ended(token))
    try:
        report = json.loads((place / "report" / "report.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        report = None
    return Seen(
        attack,
        process.returncode,
        seconds,
        _peak(place / "status"),
        report,
        output.decode("utf-8", "backslashreplace"),
        left,
    )


def _peak(status: Path) -> int:
    text = status.read_text() if status.exists() else ""
    peaks = [int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("VmHWM")]
    return peaks[0] if peaks else 0


def bearing(token: str) -> list[int]:
    """The processes that have the token in their environment or their command line, where /proc shows them."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            said = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if token.encode() in said and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def _ended(token: str) -> Iterator[str]:
    for _ in range(1000):
        found = bearing(token)
        if not found:
            return
        for pid in found:
            yield str(pid)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--again", action="store_true", help="run who is not as owed once more, alone; only who is so twice is wrong"
    )
    parser.add_argument("slugs", nargs="*")
    options = parser.parse_args(arguments)
    chosen = [ATTACKS[slug] for slug in options.slugs] or list(ATTACKS.values())
    print(f"{'agent':<30} {'verdict':<13} {'st':>3} {'s':>5} {'MB':>4}  what it does; what was found")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(options.jobs) as pool:
        runs = pool.map(lambda attack: examine(attack, _fresh(Path(place), attack.slug)), chosen)
        wrong = [seen.attack for seen in runs if not _print(seen)]
        if options.again:
            wrong = [a for a in wrong if not _print(examine(a, _fresh(Path(place), f"{a.slug}-again")))]
    print(f"{len(chosen)} hostile agents, {len(wrong)} not as owed, {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


def _print(seen: Seen) -> bool:
    """A line about a run, and what was not as owed. True where all was."""
    attack, differences = seen.attack, list(seen.disagreements())
    print(
        f"{attack.slug:<30} {seen.verdict:<13} {seen.status:>3} {seen.seconds:>5.1f} {seen.memory / 1e6:>4.0f}"
        f"  {attack.does}; {', '.join(seen.failed[:3])}",
        flush=True,
    )
    for difference in differences:
        print(f"    NOT AS OWED: {difference}", flush=True)
    if differences:
        print("        " + "\n        ".join(line[:300] for line in seen.told.splitlines()), flush=True)
    return not differences


def _fresh(place: Path, name: str) -> Path:
    (place / name).mkdir()
    return place / name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
