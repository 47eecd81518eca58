"""All benchmarks, one after the other: python tests/bench/all.py [NAME ...]"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    chosen = sys.argv[1:] or sorted(path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py"))
    status = 0
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent.parent)}
    for name in chosen:
        path = HERE / f"bench_{name}.py"
        words = (path.read_text(encoding="utf-8").split('"""')[1]).strip().splitlines()[0]
        print(f"\n== {name}: {words}", flush=True)
        status |= subprocess.run([sys.executable, str(path)], env=environment, check=False).returncode
    return status


if __name__ == "__main__":
    sys.exit(main())
