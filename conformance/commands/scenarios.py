"""`acp-conformance scenarios`: the scenarios that come with the suite, and the language they are written in."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from conformance.report.layout import Line
    from conformance.scenario.model import Scenario


@click.command("scenarios")
@click.argument("id", required=False)
@click.option("--verbs", is_flag=True, help="The verbs of the language and what a step can wait for.")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(id: str | None, verbs: bool, format_: str) -> None:
    """List the scenarios, or show one with its steps. ID may be a glob ("prompt/*") or the path of a file of your
    own."""
    from conformance.report.console import Console

    console = Console()
    if verbs:
        console.print(_verbs(console.width))
        return
    chosen = _matching(id)
    if format_ == "json":
        import json

        click.echo(json.dumps([_data(scenario) for scenario in chosen], indent=1, ensure_ascii=False))
    elif id is not None and len(chosen) == 1:
        console.print(_one(chosen[0], console.width))
    else:
        console.print(_list(chosen, console.width))


def known_scenarios() -> "list[Scenario]":
    """The bundled scenarios by id, without their steps."""
    from conformance.resources import folder
    from conformance.scenario.files import heads

    return heads(folder("scenarios"))


def _matching(id: str | None) -> "list[Scenario]":
    from fnmatch import fnmatchcase
    from pathlib import Path

    if id is not None and id.endswith((".yaml", ".yml")):
        from conformance.scenario.loader import load

        return [load(Path(id))]
    known = known_scenarios()
    if id is None:
        return known
    if found := [scenario for scenario in known if fnmatchcase(scenario.id, id)]:
        return found
    from conformance.scenario.spelling import did_you_mean

    hint = did_you_mean(id, [scenario.id for scenario in known], "scenarios")
    raise click.UsageError(f'no scenario "{id}"{hint}', click.get_current_context())


def _data(scenario: "Scenario") -> dict[str, object]:
    return {
        "id": scenario.id,
        "title": scenario.title,
        "about": scenario.about,
        "exercises": list(scenario.exercises),
        "needs": list(scenario.needs),
        "file": str(scenario.path),
    }


def _list(scenarios: "list[Scenario]", width: int) -> "Iterator[Line]":
    from conformance.report.layout import BLANK, Span, pad, paragraph

    column = max((len(scenario.id) for scenario in scenarios), default=0) + 2
    for number, scenario in enumerate(scenarios):
        if number and scenarios[number - 1].area != scenario.area:
            yield BLANK
        needs = f"  (needs {', '.join(scenario.needs)})" if scenario.needs else ""
        yield from paragraph(scenario.title + needs, width, column, first=(Span(pad(scenario.id, column), "strong"),))
    yield BLANK
    yield (Span(f"{len(scenarios)} scenarios"),)


def _one(scenario: "Scenario", width: int) -> "Iterator[Line]":
    from conformance.report.layout import BLANK, Span, pad, paragraph
    from conformance.report.sanitise import clean_lines

    yield (Span(scenario.id, "strong"), Span(f"  {scenario.title}"))
    for name, text in (
        ("about", scenario.about),
        ("exercises", ", ".join(scenario.exercises)),
        ("needs", ", ".join(scenario.needs)),
        ("file", str(scenario.path)),
        ("run", f"acp-conformance run --scenario {scenario.id}"),
    ):
        if text:
            yield from paragraph(text, width, 12, first=(Span("  " + pad(name, 10), "dim"),))
    yield BLANK
    source = scenario.path.read_text(encoding="utf-8")
    steps = source[source.find("\nsteps:") + 1 :]
    for line in clean_lines(steps, None).splitlines():
        yield (Span("  " + line),)


def _verbs(width: int) -> "Iterator[Line]":
    import conformance.scenario.loader  # noqa: F401  (enters the verbs into their table)
    from conformance.report.layout import BLANK, Span, pad, paragraph
    from conformance.scenario.table import CONDITIONS, VERBS

    for title, entries in (
        ("verbs: what a step does", [(verb.name, verb.says) for verb in VERBS.values()]),
        ("conditions: what `wait` and `require` look for", [(known.name, known.says) for known in CONDITIONS.values()]),
    ):
        yield (Span(title, "strong"),)
        column = max((len(name) for name, _ in entries), default=0) + 4
        for name, says in entries:
            yield from paragraph(says, width, column, first=(Span(pad("  " + name, column)),))
        yield BLANK
