"""`acp-conformance baseline update`: writes the known failures of a report to a baseline file."""

from pathlib import Path

import click


class _Updating(click.Group):
    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if arguments and arguments[0] not in self.commands and not arguments[0].startswith("-"):
            hint = f"`acp-conformance baseline update {arguments[0]}` writes the failures of that report to a baseline"
            raise click.UsageError(f'no command "{arguments[0]}"; {hint}', context)
        return super().resolve_command(context, arguments)


@click.group("baseline", cls=_Updating)
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
