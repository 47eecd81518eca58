"""No agent can hang, flood, fool or outlive the suite: each hostile one comes to the outcome owed to it.

Some of every kind in the ordinary tests, all of them with `-m slow`. `python tests/hostile.py` prints the table.
"""

import json
import sys
import time
from pathlib import Path

import pytest

from conformance.history import read_transcript
from tests.hostile import ATTACKS, Attack, bearing, examine

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the hostile agents are written for POSIX")

QUICK = (
    "answers-a-thousand-times",
    "batches",
    "exits-in-mid-line",
    "dies-at-once",
    "hides-a-daemon",
    "runs-away",
    "two-gigabytes",
    "deeper-object",
    "long-numbers",
    "ends-the-suite",
    "huge-frame",
)
"""One or two of each kind, of those that need no patience to be found out."""


@pytest.mark.parametrize("slug", QUICK)
def test_a_hostile_agent_comes_to_the_outcome_owed_to_it(slug: str, tmp_path: Path) -> None:
    assert list(examine(ATTACKS[slug], tmp_path).disagreements()) == []


@pytest.mark.slow
@pytest.mark.parametrize("attack", [a for a in ATTACKS.values() if a.slug not in QUICK], ids=lambda attack: attack.slug)
def test_so_does_every_other(attack: Attack, tmp_path: Path) -> None:
    assert list(examine(attack, tmp_path, formats="json,html,junit,markdown,sarif,ndjson").disagreements()) == []


def test_there_are_enough_of_them_of_every_kind() -> None:
    assert len(ATTACKS) >= 30
    kinds = {attack.run.__module__ for attack in ATTACKS.values()} | {
        "attacks.silence" if attack.owed.says and attack.listens else "" for attack in ATTACKS.values()
    }
    assert len(kinds) > 5
    assert set(QUICK) <= set(ATTACKS)


def test_the_search_for_survivors_finds_one(tmp_path: Path) -> None:
    import subprocess

    token = f"hostile-{time.monotonic_ns()}"
    child = subprocess.Popen([sys.executable, "-c", "input()", token], stdin=subprocess.PIPE)
    try:
        assert child.pid in bearing(token)
    finally:
        child.communicate(b"\n")
    assert bearing(token) == []


@pytest.fixture(scope="module")
def shouted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The report on an agent that writes escapes, HTML and NUL in every place, and the terminal's output."""
    place = tmp_path_factory.mktemp("shouted")
    seen = examine(ATTACKS["shouts"], place, formats="json,html,junit,markdown,sarif,ndjson")
    assert list(seen.disagreements()) == []
    return place / "report", seen.output


UNSAFE = ("\x1b", "\x9b", "\x00", "\x07", "\u202e", "\u2066", "\u200b", "\u2028")


def test_what_an_agent_shouts_reaches_no_view_as_it_is(shouted: tuple[Path, str]) -> None:
    report, output = shouted
    views = {path.name: path.read_text(encoding="utf-8") for path in report.iterdir() if path.is_file()}
    assert len(views) == 6
    for name, text in (views | {"terminal": output}).items():
        assert [character for character in UNSAFE if character in text] == [], name
    assert "<script>alert" not in views["report.html"]
    assert "<img src=x" not in views["report.html"]
    assert "<script>alert" not in views["junit.xml"]


def test_json_and_xml_of_it_are_well_formed(shouted: tuple[Path, str]) -> None:
    from xml.etree import ElementTree

    report, _ = shouted
    assert json.loads((report / "report.json").read_text(encoding="utf-8"))["verdict"] == "nonconformant"
    assert json.loads((report / "report.sarif").read_text(encoding="utf-8"))["runs"]
    assert ElementTree.parse(report / "junit.xml").getroot().tag.startswith("testsuite")
    for path in (report / "transcripts").iterdir():
        assert len(read_transcript(path)) > 3


def test_a_session_id_never_becomes_a_path(tmp_path: Path) -> None:
    seen = examine(ATTACKS["names-paths"], tmp_path)
    assert list(seen.disagreements()) == []
    written = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert written == [
        "profile.toml",
        "report/report.json",
        "report/transcripts/init-plain.ndjson",
        "report/transcripts/prompt-plain.ndjson",
        "report/transcripts/wire-ids.ndjson",
        "status",
    ]
    assert not Path("/tmp/hostile-session").exists()
    assert not Path("/tmp/hostile-agent").exists()
