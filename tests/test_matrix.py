"""Faults and odd agents against the rules: a fault fails its own rule and no other must rule than its table names; an
odd agent fails none. A sample runs always; all of them with `-m slow`, or as a table with `python tests/matrix.py`.
"""

import pytest

from conformance.variants import Variant, variants
from tests.matrix import examine

SAMPLE = {
    "hashed-ids",
    "no-echo",
    "answers-on-receipt",
    "failure-is-end-turn",
    "failure-answers-prompt",
    "never-runs",
    "cancel-is-end-turn",
    "renames-messages",
    "announced-chunks",
    "runs-denied",
    "closes-without-idle",
    "number-becomes-text",
    "log-line",
    "silent-command",
}
ODD_SAMPLE = {"steers", "one-burst", "works-unasked", "replays-chunks", "out-of-order", "nulls-everywhere"}
CORE = ["prompt.insertion-reported", "replay.same-id", "cancel.ends-idle-cancelled"]

FAULTS = [variant for variant in variants() if variant.breaks]
ODD = [variant for variant in variants() if not variant.breaks]


def _all(chosen: list[Variant], sample: set[str]) -> list[object]:
    assert sample <= {variant.slug for variant in chosen}
    return [pytest.param(v, id=v.slug, marks=[] if v.slug in sample else [pytest.mark.slow]) for v in chosen]


@pytest.mark.parametrize("fault", _all(FAULTS, SAMPLE))
def test_a_fault_fails_its_own_rule_alone(fault: Variant) -> None:
    seen = examine(fault, [fault.breaks], jobs=2)
    assert not seen.missed, seen.failed
    assert not seen.false, {rule: seen.failed[rule] for rule in seen.false}


@pytest.mark.parametrize("odd", _all(ODD, ODD_SAMPLE))
def test_an_odd_agent_fails_no_rule(odd: Variant) -> None:
    seen = examine(odd, CORE, jobs=2)
    assert not seen.failed
    assert seen.verdict == "conformant", seen.problems


@pytest.mark.slow
@pytest.mark.parametrize("odd", ODD, ids=[variant.slug for variant in ODD])
def test_an_odd_agent_fails_no_rule_of_the_whole_suite(odd: Variant) -> None:
    seen = examine(odd, jobs=2)
    assert not seen.failed
    assert seen.verdict == "conformant", seen.problems
