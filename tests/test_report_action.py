"""The GitHub action: inputs never become part of a script, versions are pinned, and its script does what it says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
ACTION: Any = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = ACTION["runs"]["steps"]


def test_no_expression_is_spliced_into_a_script() -> None:
    scripts = [step["run"] for step in STEPS if "run" in step]
    assert scripts
    assert not any("${{" in script for script in scripts)


def test_every_input_is_used_and_every_action_is_pinned_to_a_commit() -> None:
    given = " ".join(str(value) for step in STEPS for value in step.get("env", {}).values())
    assert all(f"inputs.{name} }}}}" in given for name in ACTION["inputs"])
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", step["uses"]) for step in STEPS if "uses" in step)


@pytest.mark.skipif(shutil.which("bash") is None, reason="the script is for bash")
@pytest.mark.parametrize("agent", ["", "$(touch spliced) `touch spliced`; touch spliced"])
def test_the_script_passes_inputs_as_data_and_leaves_with_the_verdict(agent: str, tmp_path: Path) -> None:
    """With a stand-in for pip and the suite, that notes its arguments and writes a report."""
    suite = tmp_path / "acp-conformance" / "bin" / "acp-conformance"
    stand_in = tmp_path / "python"
    stand_in.write_text(f"#!/bin/sh\nmkdir -p {suite.parent}\n")
    suite.parent.mkdir(parents=True)
    suite.write_text(
        '#!/bin/sh\nprintf "%s\\n" "$@" > seen\nmkdir -p r\n'
        'echo \'{"verdict": "nonconformant"}\' > r/report.json\nexit 1\n'
    )
    inner = suite.parent / "python"
    inner.write_text(f'#!/bin/sh\nif [ "$1" = -c ]; then exec {sys.executable} "$@"; fi\n')
    for path in (stand_in, suite, inner):
        path.chmod(0o755)
    env = {
        **os.environ,
        "PYTHON": str(stand_in),
        "RUNNER_TEMP": str(tmp_path),
        "ACTION": str(ROOT),
        "AGENT": agent,
        "PROFILE": "",
        "BASELINE": "",
        "REPORT": "r",
        "STRICT": "true",
        "VERSION": "",
        "GITHUB_OUTPUT": "output",
        "GITHUB_STEP_SUMMARY": "summary",
    }
    script = next(step["run"] for step in STEPS if step.get("id") == "run")
    done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", script], cwd=tmp_path, env=env, check=False)
    assert done.returncode == 1
    seen = (tmp_path / "seen").read_text().splitlines()
    assert seen == [
        "run",
        "--report",
        "r",
        "--format",
        "html,junit,markdown,sarif",
        *(["--agent", agent] if agent else []),
        "--strict",
    ]
    assert (tmp_path / "output").read_text() == "report=r\nverdict=nonconformant\n"
    assert not (tmp_path / "spliced").exists()
