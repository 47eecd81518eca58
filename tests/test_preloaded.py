"""An agent run by the process that has it loaded is the same to whoever started it."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.preloaded import AGENTS, preloaded

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks")

REFERENCE = str(AGENTS / "reference.py")
INITIALIZE = {"protocolVersion": 2, "info": {"name": "test", "version": "1"}, "capabilities": {}}
REQUEST = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}).encode() + b"\n"


@pytest.fixture(scope="module")
def starter() -> Iterator[tuple[str, ...]]:
    with preloaded() as words:
        yield words


@pytest.mark.parametrize("more", [[], ["--fault", "hashed-ids"], ["--odd", "steers"], ["--odd", "nonesuch"]])
def test_it_answers_and_exits_as_the_program_does(starter: tuple[str, ...], more: list[str]) -> None:
    seen, owed = (
        subprocess.run([*words, REFERENCE, *more], input=REQUEST, capture_output=True)
        for words in (starter, [sys.executable])
    )
    assert (seen.returncode, seen.stdout, seen.stderr) == (owed.returncode, owed.stdout, owed.stderr)
    assert bool(seen.stdout) != bool(seen.returncode)


def test_it_ends_with_the_process_that_was_started(starter: tuple[str, ...]) -> None:
    with subprocess.Popen([*starter, REFERENCE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(REQUEST)
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.kill()
        assert process.stdout.read() == b""  # nobody holds the pipe any more
