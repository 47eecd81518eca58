"""`acp-conformance rules`: the catalogue as the suite knows it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from conformance.report.layout import Line
    from conformance.rules import Rule


@click.command("rules")
@click.argument("id", required=False)
@click.option("--party", type=click.Choice(["agent", "client", "bridge"]), help="Only the rules of this party.")
@click.option("--level", type=click.Choice(["must", "should"]), help="Only the rules of this level.")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(id: str | None, party: str | None, level: str | None, format_: str) -> None:
    """List the rules, or show one with what proves a violation. ID may be a glob ("prompt.*")."""
    from conformance.report.console import Console

    chosen = [rule for rule in _matching(id) if party in (None, rule.party) and level in (None, rule.level)]
    if format_ == "json":
        import json

        click.echo(json.dumps([_data(rule) for rule in chosen], indent=1, ensure_ascii=False))
        return
    console = Console()
    if id is not None and len(chosen) == 1:
        console.print(_one(chosen[0], console.width))
    else:
        console.print(_list(chosen, console.width))


def _matching(id: str | None) -> "list[Rule]":
    from fnmatch import fnmatchcase

    from conformance.rules import RULES

    if id is None:
        return list(RULES.values())
    if found := [rule for rule in RULES.values() if fnmatchcase(rule.id, id)]:
        return found
    from conformance.scenario.spelling import did_you_mean

    raise click.UsageError(f'no rule "{id}"{did_you_mean(id, RULES, "rules")}', click.get_current_context())


def _data(rule: "Rule") -> dict[str, str]:
    return {
        "id": rule.id,
        "level": rule.level,
        "party": rule.party,
        "text": rule.says,
        "source": rule.source,
        "exercised": rule.exercised,
        "violated": rule.proof,
        "never": rule.never,
    }


def _list(rules: "list[Rule]", width: int) -> "Iterator[Line]":
    from conformance.report.layout import BLANK, Span, paragraph

    for number, rule in enumerate(rules):
        if number and rules[number - 1].area != rule.area:
            yield BLANK
        yield (Span(rule.id, "strong"), Span(f"  {rule.level} - {rule.party}", "dim"))
        yield from paragraph(rule.says, width, 4)
    yield BLANK
    must = sum(rule.level == "must" for rule in rules)
    yield (Span(f"{len(rules)} rules, {must} of them must"),)


def _one(rule: "Rule", width: int) -> "Iterator[Line]":
    from conformance.report.layout import Span, pad, paragraph
    from conformance.variants import faults_of

    yield (Span(rule.id, "strong"), Span(f"  {rule.level} - {rule.party}", "dim"))
    exercising = [scenario.id for scenario in _scenarios() if rule.id in scenario.exercises]
    for name, text in (
        ("says", rule.says),
        ("source", rule.source),
        ("exercised", rule.exercised),
        ("violated", rule.proof),
        ("never", rule.never),
        ("scenarios", ", ".join(exercising)),
        ("faults", "; ".join(f"{fault.slug} ({fault.title})" for fault in faults_of(rule.id))),
    ):
        if text:
            yield from paragraph(text, width, 12, first=(Span("  " + pad(name, 10), "dim"),))


def _scenarios() -> "list[Scenario]":
    from conformance.commands.scenarios import known_scenarios

    return known_scenarios()


if TYPE_CHECKING:
    from conformance.scenario.model import Scenario
