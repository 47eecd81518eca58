"""Runs the suite on an installed agent, as a user would: by the command line, with the agent's built-in profile."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ENVIRONMENT = "ACP_PEERS_DIR"
INCOMPLETE = 3


@dataclass(frozen=True)
class Ran:
    """A report, and how the command that wrote it exited."""

    status: int
    report: dict[str, Any]
    output: str

    def failed(self, level: str) -> set[str]:
        return {rule["id"] for rule in self.report["rules"] if rule["status"] == "fail" and rule["level"] == level}

    @property
    def broken(self) -> dict[str, str]:
        """Scenario id -> why, for those that the suite could not play to the end."""
        return {each["id"]: each["reason"] for each in self.report["scenarios"] if each["status"] == "broken"}

    def exercised(self, level: str) -> int:
        count: int = self.report["counts"][level]["exercised"]
        return count

    def findings(self, rules: set[str]) -> str:
        """What was found about these rules, for the message of a test that fails."""
        return "\n".join(
            f"{rule['id']}: {finding['scenario']}: {finding['message']}"
            for rule in self.report["rules"]
            if rule["id"] in rules
            for finding in rule["findings"]
        )


def peers() -> Path:
    """The folder of installed agents; skips the test where none is named."""
    folder = os.environ.get(ENVIRONMENT)
    if not folder:
        pytest.skip(f"{ENVIRONMENT} names no folder of installed agents (tox -e peers installs them)")
    return Path(folder)


def need_package(name: str) -> None:
    """Skips the test where that npm package is not installed."""
    if not (peers() / "node_modules" / name / "package.json").is_file():
        pytest.skip(f"the npm package {name} is not installed in {peers()}")


def need_python_sdk() -> None:
    if not (peers() / "python" / "acp").is_dir() and importlib.util.find_spec("acp") is None:
        pytest.skip("the Python SDK is installed neither beside the suite nor in the folder python of the peers")


def run(profile: str, folder: Path, *, seconds: float = 3_000) -> Ran:
    """The whole suite on the agent of that profile. `seconds` bounds it, for a machine that is busy."""
    command = [sys.executable, "-m", "conformance", "run", "--profile", profile, "--report", str(folder), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    path = folder / "report.json"
    assert path.is_file(), done.stdout + done.stderr
    return Ran(done.returncode, json.loads(path.read_text(encoding="utf-8")), done.stdout + done.stderr)


def check_known(ran: Ran, known: Mapping[str, str]) -> None:
    """The run came to its end, and no rule failed but those of the table (rule id -> what is wrong there)."""
    assert ran.broken == {}
    assert ran.status != INCOMPLETE, ran.output
    unknown = (ran.failed("must") | ran.failed("should")) - set(known)
    assert not unknown, ran.findings(unknown)
