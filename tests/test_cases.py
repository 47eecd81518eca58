"""Whole recordings and what must be said of each: faults that were met in the field, and traffic that looks wrong and
is right. fixtures/transcripts/expected.yaml says what is expected; tests/judged.yaml holds all that is said: what each
exercises and which events each finding names. Where that changes rightly, `python -m tests.test_cases` writes it anew.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.history import History, read_transcript
from conformance.rules import RULES, Kind, judge
from conformance.wire import encode, read_envelope
from tests.story import proves

JUDGED = Path(__file__).parent / "judged.yaml"
FOLDER = Path(__file__).parent.parent / "fixtures" / "transcripts"
EXPECTED: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "expected.yaml").read_text(encoding="utf-8"))
RIGHT = [name for name, expected in EXPECTED.items() if "fail" not in expected]
FAULTY = [name for name, expected in EXPECTED.items() if "fail" in expected]


def found(history: History, kind: Kind = Kind.VIOLATION) -> set[str]:
    """Ids of the rules with such a finding. No rule may break, and each finding names events of this history."""
    judgement = judge(history)
    for rule, outcome in judgement.items():
        assert outcome.broken is None, f"{rule}: {outcome.broken}"
        for finding in outcome.findings:
            proves(finding)
    return {rule for rule, outcome in judgement.items() if any(f.kind is kind for f in outcome.findings)}


def allowed(expected: dict[str, Any]) -> set[str]:
    """Rules that may fail: those that are to fail and those that may; where nothing is to fail, none, for any party."""
    named = {rule for entry in expected.get("fail", []) for rule in entry.split("|")} | set(expected.get("may", []))
    party = expected.get("party", "agent")
    others = {rule.id for rule in RULES.values() if rule.party != party} if "fail" in expected else set()
    return named | others


def test_every_recording_is_expected() -> None:
    assert {path.name for path in FOLDER.glob("*.ndjson")} == set(EXPECTED)
    assert len(EXPECTED) >= 40


@pytest.mark.parametrize("name", EXPECTED)
def test_verdict(name: str) -> None:
    expected = EXPECTED[name]
    history = read_transcript(FOLDER / name)
    assert history.flaws == []
    failed = found(history)
    for entry in expected.get("fail", []):
        assert failed & set(entry.split("|")), f"none of {entry} fails"
    assert failed - allowed(expected) == set()
    assert set(expected.get("warn", [])) <= found(history, Kind.WARNING)


def judged(name: str) -> dict[str, list[str]]:
    judgement = judge(read_transcript(FOLDER / name))
    said: dict[str, list[str]] = {"exercised": sorted(rule for rule, outcome in judgement.items() if outcome.exercised)}
    for rule, outcome in judgement.items():
        for finding in outcome.findings:
            said.setdefault(finding.kind.value, []).append(f"{rule} {[event.seq for event, _ in finding.because]}")
    return said


def test_all_that_is_said_of_each() -> None:
    known = yaml.safe_load(JUDGED.read_text(encoding="utf-8"))
    for name in EXPECTED:
        assert judged(name) == known[name], f"{name}: if that is right, python -m tests.test_cases"
    assert set(known) == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recording_may_end_anywhere(name: str) -> None:
    history = read_transcript(FOLDER / name)
    for length in range(len(history)):
        assert found(History(history.header, history.events[:length])) - allowed(EXPECTED[name]) == set(), length


@pytest.mark.parametrize("seconds", [0.0, 0.01, 10.0])
@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_right_at_any_pace(name: str, seconds: float) -> None:
    """Each gap lasts that many times as long; bursts stay bursts."""
    history = read_transcript(FOLDER / name)
    events = [replace(event, t=event.t * seconds) for event in history.events]
    assert found(History(history.header, events)) == set()


LINES = {"wire.only-messages-on-stdout", "wire.utf8"}


SPOILED = {"cut": lambda line: line[: len(line) * 2 // 3], "no text": lambda line: line.replace(b'"', b'"\xff', 1)}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
@pytest.mark.parametrize("name", [name for name in RIGHT if name != "ok-version-1.ndjson"])
def test_a_line_that_nobody_can_read_is_one_fault(name: str, spoil: Any) -> None:
    """What it told is not known then, and no other rule is broken by that."""
    history = read_transcript(FOLDER / name)
    for at, event in enumerate(history.events):
        if event.dir == "agent" and event.envelope is not None:
            line = spoil(encode(event.message))
            spoiled = replace(event, envelope=read_envelope(line))
            events = [*history.events[:at], spoiled, *history.events[at + 1 :]]
            assert found(History(history.header, events)) - allowed(EXPECTED[name]) <= LINES, event.seq


@pytest.mark.parametrize("name", FAULTY)
def test_a_fault_is_one_at_a_slow_agent_too(name: str) -> None:
    history = read_transcript(FOLDER / name)
    events = [replace(event, t=event.t * 30) for event in history.events]
    failed = found(History(history.header, events))
    assert all(failed & set(entry.split("|")) for entry in EXPECTED[name]["fail"])
    assert failed - allowed(EXPECTED[name]) == set()


if __name__ == "__main__":
    JUDGED.write_text(
        yaml.safe_dump({name: judged(name) for name in EXPECTED}, width=118, default_flow_style=None), encoding="utf-8"
    )
