"""Whatever ends a run early, and whatever breaks within the suite: what was recorded is written and judged, what broke
is told, and nothing else is lost."""

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance import runner
from conformance.cli import status_of
from conformance.history import read_transcript
from conformance.profile import Profile, with_command
from conformance.report import RunEvent, RunFinished, Target
from conformance.rules import RULES
from conformance.runner import Options
from tests.hostile import HOSTILE, bearing

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals and limits")
TINY = Path(__file__).parent / "tiny_agent.py"
HANGS = 120  # seconds
SUITE = (sys.executable, "-m", "conformance", "run")


def agent(slug: str) -> str:
    return f"{sys.executable} {HOSTILE / 'agent.py'} {slug}"


def tiny(habit: str = "plain") -> str:
    return f"{sys.executable} {TINY} {habit}"


def report_in(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return data


def statuses(report: dict[str, Any]) -> dict[str, str]:
    return {rule["id"]: rule["status"] for rule in report["rules"]}


class Running:
    """A suite that runs in a process of its own; all of it is gone in the end."""

    def __init__(self, place: Path, command: str, *arguments: str, **options: Any) -> None:
        self.report = place / "report"
        self.token = f"interrupts-{time.monotonic_ns()}-{os.getpid()}"
        environment = {**os.environ, "HOSTILE_TOKEN": self.token, "PYTHONPATH": str(TINY.parent.parent)}
        self.process = subprocess.Popen(
            [*SUITE, "--agent", command, "--report", str(self.report), "--seed", "1", *arguments],
            cwd=place,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )

    def until_written(self, words: str, scenario: str) -> None:
        """Returns once the transcript of the scenario holds `words`."""
        path = self.report / "transcripts" / f"{scenario}.ndjson"
        deadline = time.monotonic() + HANGS
        while not (path.exists() and words in path.read_text(encoding="utf-8", errors="replace")):
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def ended(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=HANGS)
        return self.process.returncode, out.decode(), err.decode()


@pytest.fixture
def suite(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def start(command: str, *arguments: str, **options: Any) -> Running:
        started.append(Running(tmp_path, command, *arguments, **options))
        return started[-1]

    yield start
    for running in started:
        running.process.kill()
        running.process.communicate()
        for pid in bearing(running.token):
            os.kill(pid, signal.SIGKILL)


# -- signals


@POSIX
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_ends_a_run_with_the_report_so_far(suite: Callable[..., Running], number: int) -> None:
    running = suite(
        tiny("mute"), "--scenario", "prompt/plain", "--scenario", "tool/*", "--jobs", "1", "--patience", "99s"
    )
    running.until_written("session/prompt", "prompt-plain")
    running.process.send_signal(number)
    status, out, _ = running.ended()
    assert status == 130
    assert "interrupted" in out
    report = report_in(running.report)
    assert report["verdict"] == "incomplete"
    assert any(problem.startswith("interrupted: ") for problem in report["problems"])
    assert statuses(report)["init.version"] == "pass", "what was recorded is judged"
    assert read_transcript(running.report / "transcripts" / "prompt-plain.ndjson").events[-1].name == "exited"
    assert bearing(running.token) == []


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the agent is looked for in /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_ends_a_campaign_with_the_report_so_far(tmp_path: Path, number: int) -> None:
    """Its agents are ended in order, and told nothing of on stderr."""
    token = f"interrupts-{time.monotonic_ns()}-{os.getpid()}"
    words = [sys.executable, "-m", "conformance", "fuzz", "--agent", tiny(), "--budget", "600s", "--report", "report"]
    environment = {**os.environ, "HOSTILE_TOKEN": token, "PYTHONPATH": str(TINY.parent.parent)}
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe, text=True) as campaign:
        try:
            deadline = time.monotonic() + HANGS
            while len(bearing(token)) < 2:  # the campaign itself, and an agent
                assert time.monotonic() < deadline
                time.sleep(0.05)
            campaign.send_signal(number)
            _, err = campaign.communicate(timeout=HANGS)
        finally:
            campaign.kill()
    assert campaign.returncode == 130
    assert err == "acp-conformance: interrupted; the agents are told goodbye. Once more ends them at once.\n"
    (problem,) = report_in(tmp_path / "report")["problems"]
    assert problem.startswith("interrupted after ")
    assert bearing(token) == []


@POSIX
def test_a_second_ctrl_c_does_not_wait_for_an_agent_that_stays(suite: Callable[..., Running], tmp_path: Path) -> None:
    (tmp_path / "acp-conformance.toml").write_text("[limits]\ngrace = 3600\n", encoding="utf-8")
    running = suite(agent("ignores-term"), "--scenario", "init/plain", "--scenario", "prompt/plain", "--jobs", "1")
    running.until_written('"closed"', "init-plain")
    running.process.send_signal(signal.SIGINT)
    assert running.process.stderr is not None
    assert b"Once more ends them at once" in running.process.stderr.readline()
    running.process.send_signal(signal.SIGINT)
    assert running.ended()[0] == 130
    assert statuses(report_in(running.report))["init.version"] == "pass"
    assert bearing(running.token) == []


@POSIX
def test_a_run_ends_at_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("acp-conformance.toml").write_text("[limits]\nrun = 1\ngrace = 3600\npatience = 99\n", encoding="utf-8")
    arguments = ["--scenario", "prompt/plain", "--scenario", "prompt/identical", "--jobs", "1"]
    assert status_of(["run", "--agent", tiny("mute"), *arguments, "--report", "report", "-q"]) == 3
    report = report_in(Path("report"))
    assert any("the run took longer than 1 s" in problem for problem in report["problems"])
    assert any("[limits] run: 1 of 2 scenarios were not started" in problem for problem in report["problems"])
    assert statuses(report)["init.version"] == "pass"


# -- disks


def bounded_files(size: int) -> Callable[[], None]:
    import resource

    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@POSIX
def test_a_full_disk_costs_the_files_and_not_the_verdict(suite: Callable[..., Running]) -> None:
    running = suite(tiny(), "--scenario", "prompt/plain", "--format", "json,junit", preexec_fn=bounded_files(3000))
    status, out, err = running.ended()
    assert status == 3, "a gate must not be green without its report"
    assert "must rules exercised, 0 failed" in out
    assert "report.json could not be written: File too large" in err
    assert "the transcript could not be written: File too large" in out
    assert not (running.report / "report.json").exists(), "no half of a report"
    history = read_transcript(running.report / "transcripts" / "prompt-plain.ndjson")
    assert len(history) > 3
    assert history.flaws, "the last line is cut"


@POSIX
def test_a_view_that_does_not_fit_costs_only_itself(suite: Callable[..., Running]) -> None:
    running = suite(tiny(), "--scenario", "init/plain", "--format", "html,junit", preexec_fn=bounded_files(70_000))
    status, _, err = running.ended()
    assert status == 3
    assert "report.html could not be written: File too large" in err
    report = report_in(running.report)
    assert report["verdict"] == "incomplete"
    assert any("report.html could not be written" in problem for problem in report["problems"])
    assert "report.html could not be written" in (running.report / "junit.xml").read_text(encoding="utf-8")
    assert not list(running.report.glob("*.part"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is a device of Linux")
def test_a_full_stdout_costs_the_terminal_and_is_no_bug(tmp_path: Path) -> None:
    suite = [*SUITE, "--agent", tiny(), "--scenario", "init/plain", "--format", "html", "--report", "report"]
    environment = {**os.environ, "PYTHONPATH": str(TINY.parent.parent)}
    with open("/dev/full", "wb") as full:
        done = subprocess.run(suite, cwd=tmp_path, env=environment, stdout=full, stderr=subprocess.PIPE, timeout=HANGS)
    assert done.returncode == 3, "a gate must not be green without its verdict"
    assert done.stderr == b"acp-conformance: the reporter Console cannot write: No space left on device\n"
    report = report_in(tmp_path / "report")
    assert report["problems"] == ["the reporter Console cannot write: No space left on device"]
    assert statuses(report)["init.version"] == "pass"
    assert (tmp_path / "report" / "report.html").exists()


@POSIX
def test_a_closed_stdout_costs_nothing_else(tmp_path: Path) -> None:
    words = [*SUITE, "--agent", tiny(), "--scenario", "init/plain", "--format", "html", "--report", "report"]
    environment = {**os.environ, "PYTHONPATH": str(TINY.parent.parent)}
    shell = ["sh", "-c", shlex.join(words) + " >&- 2>&-"]
    assert subprocess.run(shell, cwd=tmp_path, env=environment, timeout=HANGS).returncode == 0
    assert report_in(tmp_path / "report")["verdict"] == "conformant"
    assert (tmp_path / "report" / "report.html").read_text(encoding="utf-8").startswith("<!")


def test_transcripts_that_cannot_be_written_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("report").mkdir()
    Path("report/transcripts").write_text("a file where a folder should be", encoding="utf-8")
    assert status_of(["run", "--agent", tiny(), "--scenario", "init/plain", "--report", "report", "-q"]) == 3
    report = report_in(Path("report"))
    assert any("the transcript could not be written" in problem for problem in report["problems"])
    assert statuses(report)["init.version"] == "pass"


def test_a_folder_that_cannot_be_is_told_before_anything_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("", encoding="utf-8")
    monkeypatch.setattr(runner, "run_blocking", lambda *_: pytest.fail("the run was begun"))
    assert status_of(["run", "--agent", tiny(), "--report", "file/report"]) == 2
    assert "file/report: Not a directory" in capsys.readouterr().err


# -- our own bugs


def broken(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("planted")


def run_here(folder: str, *arguments: str) -> int:
    scenarios = ["--scenario", "init/plain", "--scenario", "prompt/plain"]
    return status_of(["run", "--agent", tiny(), *scenarios, "--report", folder, "--seed", "1", *arguments])


def test_a_bug_in_a_rule_costs_that_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    monkeypatch.chdir(tmp_path)
    assert run_here("whole", "-q") == 0
    monkeypatch.setitem(RULES, "init.info", replace(RULES["init.info"], decide=broken))
    assert run_here("report", "-q") == 3
    report = report_in(Path("report"))
    assert report["verdict"] == "incomplete"
    (rule,) = [rule for rule in report["rules"] if rule["status"] == "broken"]
    assert rule["id"] == "init.info"
    assert "ZeroDivisionError: planted" in rule["reason"]
    assert "in broken" in rule["reason"], "its traceback"
    assert any("the rule init.info broke" in problem for problem in report["problems"])
    assert {**statuses(report), "init.info": "pass"} == statuses(report_in(Path("whole")))


@pytest.mark.parametrize("view", ["html", "junit", "markdown", "sarif"])
def test_a_bug_in_a_view_costs_that_view(view: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(f"conformance.report.views.{view}.render", broken)
    assert run_here("report", "--format", "html,junit,markdown,sarif", "-q") == 3
    written = {path.name for path in Path("report").iterdir()}
    lost = {"html": "report.html", "junit": "junit.xml", "markdown": "report.md", "sarif": "report.sarif"}[view]
    every = {"report.json", "report.html", "junit.xml", "report.md", "report.sarif", "transcripts"}
    assert written == every - {lost}
    report = report_in(Path("report"))
    (problem,) = report["problems"]
    assert problem.startswith(f"the {view} report broke, which is a bug of this suite")
    assert "ZeroDivisionError: planted" in problem
    assert "in broken" in problem


@pytest.mark.parametrize(
    "reporter",
    ["conformance.report.console.Console", "conformance.report.stream.StreamWriter"],
    ids=["terminal", "ndjson"],
)
def test_a_bug_in_a_reporter_costs_that_reporter(
    reporter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(f"{reporter}.__call__", broken)
    assert run_here("report", "--format", "ndjson,junit") == 3
    name = reporter.rpartition(".")[2]
    told = f"the reporter {name} broke, which is a bug of this suite"
    assert told in capsys.readouterr().err
    report = report_in(Path("report"))
    assert [problem for problem in report["problems"] if problem.startswith(told)]
    assert statuses(report)["prompt.message-id-in-response"] == "pass"
    assert (Path("report") / "junit.xml").exists()


def test_a_bug_in_reading_a_recording_costs_what_it_would_have_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from conformance.rules import oracle

    monkeypatch.chdir(tmp_path)
    genuine = oracle.read

    def read(history: Any) -> Any:
        return broken() if history.header["scenario"] == "prompt/plain" else genuine(history)

    monkeypatch.setattr(oracle, "read", read)
    assert run_here("report", "-q") == 3
    report = report_in(Path("report"))
    assert any(problem.startswith("judging prompt/plain broke") for problem in report["problems"])
    assert statuses(report)["init.version"] == "pass"
    assert len(read_transcript(Path("report/transcripts/prompt-plain.ndjson"))) > 10


def test_a_bug_in_a_step_costs_its_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("conformance.scenario.stage.Stage.new_nonce", broken)
    assert run_here("report", "-q") == 3
    report = report_in(Path("report"))
    outcomes = {scenario["id"]: scenario for scenario in report["scenarios"]}
    assert outcomes["init/plain"]["status"] == "completed"
    assert outcomes["prompt/plain"]["status"] == "broken"
    assert "ZeroDivisionError: planted" in outcomes["prompt/plain"]["reason"]
    history = read_transcript(Path("report/transcripts/prompt-plain.ndjson"))
    assert history.events[-1].name == "exited", "its agent is ended in order"


def test_a_bug_of_the_command_line_is_never_taken_for_a_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("conformance.commands.rules.command.callback", broken)
    assert status_of(["rules"]) == 3
    assert "this is a bug of the suite" in capsys.readouterr().err


def test_interrupting_twice_while_an_agent_is_ended_keeps_the_record(tmp_path: Path) -> None:
    """Cancelled in mid-goodbye: the end of the agent is on record nevertheless."""
    events: list[RunEvent] = []

    async def scene() -> runner.Ran:
        profile = with_command(Profile(), tiny())
        options = Options(scenarios=("init/plain",), seed=1, report=tmp_path)
        task = asyncio.ensure_future(runner.run(profile, Target("agent", "tiny"), options, events.append))
        path = tmp_path / "transcripts" / "init-plain.ndjson"
        while not (path.exists() and '"closed"' in path.read_text(encoding="utf-8")):
            await asyncio.sleep(0.001)
        task.cancel()
        return await task

    ran = asyncio.run(scene())
    assert isinstance(events[-1], RunFinished)
    assert ran.was_interrupted or ran.report.verdict == "conformant"
    assert read_transcript(tmp_path / "transcripts" / "init-plain.ndjson").events[-1].name == "exited"
