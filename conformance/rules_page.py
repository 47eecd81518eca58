"""The page of all rules, docs/rules.md, from the code, the scenarios and the table of faults.

Run: python -m conformance.rules_page
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from conformance.rules import RULES, Rule
from conformance.scenario.model import Scenario
from conformance.variants import Variant

PAGE = Path("docs") / "rules.md"


def page(scenarios: Iterable[Scenario], faults: Iterable[Variant]) -> str:
    """The page as Markdown."""
    return "\n".join(_lines(list(scenarios), list(faults))) + "\n"


def _lines(scenarios: list[Scenario], faults: list[Variant]) -> Iterator[str]:
    must = sum(rule.level == "must" for rule in RULES.values())
    yield "# The rules"
    yield ""
    yield f"{len(RULES)} rules, {must} of them must. Made by `python -m conformance.rules_page`; do not edit by hand."
    area = ""
    for rule in sorted(RULES.values(), key=lambda rule: rule.area):
        if rule.area != area:
            area = rule.area
            yield from ("", f"## {area}")
        yield from _rule(rule, scenarios, faults)


def _rule(rule: Rule, scenarios: list[Scenario], faults: list[Variant]) -> Iterator[str]:
    yield from ("", f"### `{rule.id}`", "", f"**{rule.level}**, {rule.party}. {rule.says}", "")
    yield f"- source: {rule.source}"
    yield f"- exercised by: {rule.exercised}"
    yield f"- proof of a violation: {rule.proof}"
    if rule.never:
        yield f"- never flagged: {rule.never}"
    exercising = [f"`{scenario.id}`" for scenario in scenarios if rule.id in scenario.exercises]
    if exercising:
        yield f"- scenarios: {', '.join(exercising)}"
    shown = [f"`{fault.slug}` ({fault.title})" for fault in faults if fault.breaks == rule.id]
    if shown:
        yield f"- faults that show it: {'; '.join(shown)}"


def current() -> str:
    """The page as it should be now."""
    from conformance.resources import folder
    from conformance.scenario.loader import load_all
    from conformance.variants import variants

    return page(load_all(folder("scenarios"), rules=RULES), (variant for variant in variants() if variant.breaks))


if __name__ == "__main__":
    PAGE.write_text(current(), encoding="utf-8")
