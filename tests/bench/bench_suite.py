"""What the suite costs beside its floor: the same traffic with the same agent, by a bare script that judges nothing.

    python tests/bench/bench_suite.py [SCENARIO GLOB ...]

The suite runs once on the reference agent; then both take turns: the suite on the scenarios that can be replayed, the
script replaying their client lines, each sent when as many lines of the agent have arrived as had in the recording. The
script waits where the scenario asked for silence, since whoever wants to know that nothing comes must wait.
"""

from __future__ import annotations

import json
import os
import resource
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from conformance.resources import folder

AGENT: Final = folder("fixtures") / "agents" / "reference.py"
PROFILE: Final = """
[agent]
command = ["{python}", "{fixtures}/agents/reference.py", "--store", "{workdir}/sessions.sqlite"]
[triggers]
local-command = "/status"
retained-command = "/remember"
permission = "/ask"
background = "/watch"
fail-before-insertion = "/refuse"
[sessions]
survives-restart = true
"""
HANGS: Final = 10.0  # seconds without an awaited line: this scenario cannot be replayed
ROUNDS: Final = 3


class CannotReplay(Exception):
    """The agent did not write what it wrote in the recording."""


@dataclass(slots=True)
class Life:
    """One process of the agent, its lines read as they are needed."""

    process: subprocess.Popen[bytes]
    pending: bytearray = field(default_factory=bytearray)
    lines: list[bytes] = field(default_factory=list)

    def await_lines(self, count: int) -> None:
        assert self.process.stdout is not None
        stream = self.process.stdout.fileno()
        while len(self.lines) < count:
            if not select.select([stream], [], [], HANGS)[0] or not (data := os.read(stream, 65536)):
                raise CannotReplay
            self.pending += data
            *whole, rest = self.pending.split(b"\n")
            self.lines += map(bytes, whole)
            self.pending = bytearray(rest)

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise CannotReplay from None

    def end(self, *, kill: bool = False) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if kill:
            self.process.kill()
        self.process.stdin.close()
        self.process.stdout.read()
        self.process.wait()
        self.process.stdout.close()


def events_of(transcript: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in transcript.read_bytes().splitlines()[1:]]


def replay(events: list[dict[str, Any]], workdir: str) -> None:
    """Does with a fresh agent what the recording shows the client to have done. Raises CannotReplay."""
    lives: dict[str, Life] = {}
    told: dict[str, list[Any]] = {}  # connection -> what the agent said in the recording
    names = {_workdir(events): workdir}  # what was called otherwise in the recording
    try:
        for event in events:
            conn = event["conn"]
            if event["dir"] == "agent":
                told[conn].append(event.get("msg"))
            elif event["dir"] == "client":
                lives[conn].await_lines(len(told[conn]))
                _learn(names, told[conn], lives[conn].lines)
                text = json.dumps(event["msg"], ensure_ascii=False) if "msg" in event else event.get("raw", "")
                for old, new in names.items():
                    text = text.replace(old, new)
                lives[conn].write(text.encode() + b"\n")
            else:
                _do(event, lives, told, workdir)
        for conn, life in lives.items():
            if life.process.poll() is None:
                life.await_lines(len(told[conn]))
    finally:
        for life in lives.values():
            if life.process.returncode is None:
                life.end(kill=True)


def _do(event: dict[str, Any], lives: dict[str, Life], told: dict[str, list[Any]], workdir: str) -> None:
    conn, control = event["conn"], event["msg"]
    match control["event"]:
        case "started":
            command = [sys.executable, str(AGENT), "--store", f"{workdir}/sessions.sqlite"]
            pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
            lives[conn] = Life(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere))
            told[conn] = []
        case "closed":
            lives[conn].await_lines(len(told[conn]))
            lives[conn].end()
        case "cut":
            lives[conn].end(kill=True)
        case "window":
            time.sleep(control["seconds"])


def _learn(names: dict[str, str], told: list[Any], lines: list[bytes]) -> None:
    """Ids that the agent gives anew: found where the last answers differ from the recorded ones."""
    for recorded, line in zip(told[-3:], lines[len(told) - 3 : len(told)] if len(told) > 3 else lines, strict=False):
        actual = json.loads(line)
        pairs = [(recorded, actual)]
        while pairs:
            one, other = pairs.pop()
            if isinstance(one, dict) and isinstance(other, dict):
                pairs += [(one[key], other[key]) for key in one.keys() & other.keys()]
            elif isinstance(one, list) and isinstance(other, list):
                pairs += zip(one, other, strict=False)
            elif isinstance(one, str) and isinstance(other, str) and one != other and len(one) >= 6:
                names.setdefault(one, other)


def _workdir(events: list[dict[str, Any]]) -> str:
    for event in events:
        if event["dir"] == "client" and isinstance(message := event.get("msg"), dict):
            params = message.get("params")
            if isinstance(params, dict) and isinstance(cwd := params.get("cwd"), str) and len(cwd) > 8:
                return cwd
    return "\0"


def run_suite(place: Path, scenarios: list[str]) -> tuple[float, float, Path]:
    """Wall seconds, processor seconds of the suite without its agents, and the report's folder."""
    profile = place / "profile.toml"
    profile.write_text(PROFILE, encoding="utf-8")
    report = Path(tempfile.mkdtemp(dir=place))
    measured = "import resource, sys; from conformance.cli import status_of; status_of(sys.argv[2:]); " + (
        "own = resource.getrusage(resource.RUSAGE_SELF); open(sys.argv[1], 'w').write(str(own.ru_utime + own.ru_stime))"
    )
    arguments = ["run", "--profile", str(profile), "--jobs", "1", "--seed", "1", "--report", str(report), "-q"]
    arguments += [word for scenario in scenarios for word in ("--scenario", scenario)]
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", measured, str(place / "cpu"), *arguments], check=True, stdout=subprocess.DEVNULL
    )
    return time.perf_counter() - began, float((place / "cpu").read_text()), report


def replayable(report: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Scenarios with what they recorded: those over stdio that went as written and that a replay can follow."""
    for scenario in json.loads((report / "report.json").read_text())["scenarios"]:
        if scenario["status"] != "completed" or scenario["reason"] or not scenario["transcript"]:
            continue
        events = events_of(report / scenario["transcript"])
        if any(e["dir"] == "control" and e["msg"].get("transport") == "websocket" for e in events):
            continue
        try:
            with tempfile.TemporaryDirectory() as workdir:
                replay(events, workdir)
        except CannotReplay:
            continue
        yield scenario["id"], events


def floor_of(chosen: dict[str, list[dict[str, Any]]]) -> tuple[float, str | None]:
    """Wall seconds of the bare script, and the scenario that it could not replay this time."""
    began = time.perf_counter()
    for id, events in chosen.items():
        try:
            with tempfile.TemporaryDirectory() as workdir:
                replay(events, workdir)
        except CannotReplay:
            return 0.0, id
    return time.perf_counter() - began, None


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        report = run_suite(place, sys.argv[1:])[2]
        chosen = dict(replayable(report))
        lines = sum(e["dir"] != "control" for events in chosen.values() for e in events)
        print(f"{len(chosen)} scenarios over stdio, one at a time, {lines} lines; the reference agent without a model")
        print(f"{'round':>5}  {'suite s':>8}  {'floor s':>8}  {'ratio':>6}  {'cpu s':>6}  {'cpu ms a scenario':>17}")
        ratios: list[float] = []
        while len(ratios) < ROUNDS and chosen:
            number = len(ratios) + 1
            suite, cpu, _ = run_suite(place, list(chosen))
            floor, lost = floor_of(chosen)
            if lost is not None:  # its agent wrote more or less this time, as some do by their timing
                print(f"       {lost} is left out from here on")
                del chosen[lost]
                continue
            ratios.append(suite / floor)
            each = 1000 * cpu / len(chosen)
            print(
                f"{number:>5}  {suite:8.1f}  {floor:8.1f}  {suite / floor:6.2f}  {cpu:6.2f}  {each:17.1f}", flush=True
            )
        print(f"ratio, the median: {sorted(ratios)[len(ratios) // 2]:.2f} (target 1.3)")


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
