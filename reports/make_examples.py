"""Makes the example reports under reports/examples: of the reference agent, and of one with a fault.

    python reports/make_examples.py

They are of real runs: times and ids differ from one making to the next, the verdicts do not.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "reports" / "examples"
SCENARIOS = ("failures/after-a-tool", "failures/before-the-response", "prompt/plain", "prompt/identical*")
FAULTY = "{python} {fixtures}/agents/reference.py --fault failure-answers-prompt"

WORKDIR = re.compile(re.escape(str(Path(tempfile.gettempdir()).resolve() / "acp-conformance-")) + r"\w+")


def main() -> None:
    make("conformant", expected=0)
    make("nonconformant", "--agent", FAULTY, "--profile", "reference", expected=1)


def make(name: str, *target: str, expected: int) -> None:
    folder = EXAMPLES / name
    chosen = [word for glob in SCENARIOS for word in ("--scenario", glob)]
    run("run", *target, *chosen, "--seed", "1", "--report", str(folder), "--format", "html,markdown", expected=expected)
    run("badge", str(folder), "-o", str(folder / "badge.svg"))
    run("badge", str(folder), "-o", str(folder / "badge.json"))
    for path in folder.glob("transcripts/*"):  # the page has them
        path.unlink()
    (folder / "transcripts").rmdir()
    for path in folder.iterdir():
        path.write_text(WORKDIR.sub("/workdir", path.read_text(encoding="utf-8")), encoding="utf-8", newline="\n")


def run(*arguments: str, expected: int = 0) -> None:
    status = subprocess.run([sys.executable, "-m", "conformance", *arguments], cwd=ROOT, check=False).returncode
    if status != expected:
        sys.exit(f"acp-conformance {' '.join(arguments)}: left with {status}, expected {expected}")


if __name__ == "__main__":
    main()
