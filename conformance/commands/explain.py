"""`acp-conformance explain`: all that a report says of one rule, with the wire around each finding."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from conformance.report.layout import Line
    from conformance.report.model import Report, RuleResult


@click.command("explain")
@click.argument("report", type=click.Path(path_type=Path))
@click.argument("rule")
def command(report: Path, rule: str) -> None:
    """Show what REPORT (a folder that `run` wrote, or its report.json) says of RULE, and the traffic around each
    finding."""
    from conformance.report.codec import read_report
    from conformance.report.console import Console

    data = read_report(report)
    result = data.rule(rule)
    if result is None:
        from conformance.scenario.spelling import did_you_mean

        hint = did_you_mean(rule, [each.id for each in data.rules])
        raise click.UsageError(f'{report} has no rule "{rule}"{hint}', click.get_current_context())
    console = Console()
    console.print(_explained(result, data, report if report.is_dir() else report.parent, console.width))


def _explained(result: "RuleResult", report: "Report", folder: Path, width: int) -> "Iterator[Line]":
    from dataclasses import replace

    from conformance.report.context import context
    from conformance.report.layout import BLANK, Span, listing, pad, paragraph
    from conformance.report.terminal import finding_view, rule_view, way_to_it
    from conformance.rules import RULES

    yield from rule_view(replace(result, findings=(), omitted=0), report, width=width)
    if (rule := RULES.get(result.id)) is not None:
        yield BLANK
        for name, text in (("exercised", rule.exercised), ("violated", rule.proof), ("never", rule.never)):
            if text:
                yield from paragraph(text, width, 18, first=(Span("      " + pad(name, 12), "dim"),))
    for finding in result.findings:
        yield BLANK
        yield from finding_view(finding, width=width)
        yield from way_to_it(finding, folder)
        yield BLANK
        yield (Span("      around it on the wire (* proves it)", "dim"),)
        yield from context(finding, folder, width)
    if result.omitted:
        yield (Span(f"      and {result.omitted} findings more, beyond the limit of one history", "dim"),)
    if result.scenarios:
        yield BLANK
        yield (Span("      exercised in", "dim"),)
        yield from listing(result.scenarios, width, 8)
