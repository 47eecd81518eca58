"""docs/rules.md says what the code says, and every must rule of the agent has a fault that shows it."""

from pathlib import Path

from conformance.rules import RULES
from conformance.rules_page import PAGE, current
from conformance.variants import variants

ROOT = Path(__file__).parent.parent


def test_the_page_is_the_code_s() -> None:
    assert (ROOT / PAGE).read_text(encoding="utf-8") == current(), "run: python -m conformance.rules_page"


def test_every_must_rule_of_the_agent_has_a_fault() -> None:
    broken = {variant.breaks for variant in variants()}
    assert {rule.id for rule in RULES.values() if rule.level == "must" and rule.party == "agent"} <= broken


def test_faults_break_known_rules() -> None:
    for variant in variants():
        assert {variant.breaks, *variant.also} - {""} <= set(RULES), variant.slug
