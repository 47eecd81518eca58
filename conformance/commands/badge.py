"""`acp-conformance badge`: the badge of a report."""

from pathlib import Path

import click


@click.command("badge")
@click.argument("report", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="FILE.svg, or FILE.json for shields.io.")
def command(report: Path, output: Path | None) -> None:
    """Make a badge of REPORT (a folder that `run` wrote, or its report.json). Without -o the SVG goes to stdout."""
    from conformance.report import badge
    from conformance.report.codec import read_report

    if output is not None and output.suffix.lower() not in (".svg", ".json"):
        raise click.UsageError(f"{output}: name a .svg or a .json file", click.get_current_context())
    data = read_report(report)
    as_json = output is not None and output.suffix.lower() == ".json"
    text = badge.endpoint(data) if as_json else badge.svg(data)
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8", newline="\n")
