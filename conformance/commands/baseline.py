"""`acp-conformance baseline update`: writes the known failures of a report to a baseline file."""

from pathlib import Path

import click


@click.group("baseline")
def command() -> None:
    """Keep the baseline of known failures that `run --baseline FILE` reads."""


@command.command("update")
@click.argument("report", type=click.Path(path_type=Path))
@click.option("--file", "file", type=click.Path(path_type=Path), default=Path("acp-baseline.toml"), show_default=True)
def update(report: Path, file: Path) -> None:
    """Write the failures of REPORT to the baseline: entries that still apply stay as they are, mended ones go, new ones
    come."""
    from conformance.report import baseline
    from conformance.report.codec import read_report

    data = read_report(report)
    if data.problems:
        why = f"{report} is of a run that could not do its work ({data.problems[0]})"
        raise click.UsageError(f"{why}; mend that first: a baseline does not excuse it")
    old = baseline.read_baseline(file) if file.exists() else []
    new = baseline.updated(data, old)
    file.write_text(baseline.text_of(new), encoding="utf-8", newline="\n")
    added = sum(entry not in old for entry in new)
    removed = sum(entry not in new for entry in old)
    click.echo(f"{file}: {len(new)} known failures, {added} added, {removed} removed")
    if any(entry.reason == baseline.NO_REASON for entry in new):
        click.echo(f'write a reason where it says "{baseline.NO_REASON}"')
