"""The pytest plugin: scenarios as tests, with their findings as the failure's text."""

import os
import shlex
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

from conformance.resources import folder
from tests.test_cli import failing_agent

REFERENCE = f"{shlex.quote(sys.executable)} {shlex.quote(str(folder('fixtures') / 'agents' / 'reference.py'))}"

IS_INSTALLED = "acp-conformance" in entry_points(group="pytest11").names
"""Whether pytest finds the plugin by itself; it refuses one that is named twice."""


def pytest_on(cwd: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [
        sys.executable,
        "-m",
        "pytest",
        *([] if IS_INSTALLED else ["-p", "conformance.pytest_plugin"]),
        "-p",
        "no:cacheprovider",
        "-q",
        *arguments,
    ]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTEST_ADDOPTS": ""}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def test_every_scenario_is_a_test(tmp_path: Path) -> None:
    done = pytest_on(
        tmp_path,
        "--acp-agent",
        REFERENCE,
        "--acp-scenario",
        "prompt/p*",
        "--pyargs",
        "conformance.suite",
        "-n",
        "2",
        "-vv",
    )
    assert done.returncode == 0, done.stdout
    assert "test_scenario[prompt/plain]" in done.stdout


def test_a_failure_reads_as_on_the_terminal(tmp_path: Path) -> None:
    agent = failing_agent(tmp_path)
    done = pytest_on(tmp_path, "--acp-agent", agent, "--acp-scenario", "prompt/plain", "--pyargs", "conformance.suite")
    assert done.returncode == 1
    assert "FAIL  init.info" in done.stdout
    assert "run again   acp-conformance run --agent" in done.stdout
    assert "Traceback" not in done.stdout


def test_an_agent_that_does_not_start_fails_and_what_it_lacks_is_skipped(tmp_path: Path) -> None:
    suite = ["--pyargs", "conformance.suite", "--acp-scenario"]
    done = pytest_on(tmp_path, "--acp-agent", "no-such-agent", *suite, "prompt/plain")
    assert done.returncode == 1
    assert "no-such-agent" in done.stdout
    done = pytest_on(tmp_path, *suite, "no/such")
    assert done.returncode == 2
    assert 'no scenario matches "no/such"' in done.stdout


def test_a_test_of_ones_own_plays_a_scenario_and_asks_the_report(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "SCENARIO = '''\ntitle: Mine\nsteps:\n  - connect: ada\n  - new-session: {by: ada, as: chat}\n'''\n"
        "def test_mine(acp_play, acp_fail_if_nonconformant):\n"
        "    report = acp_play(SCENARIO)\n"
        "    assert report.rule('init.info').status == 'pass'\n"
        "    acp_fail_if_nonconformant(report)\n"
    )
    done = pytest_on(tmp_path, "--acp-agent", REFERENCE)
    assert done.returncode == 0, done.stdout
