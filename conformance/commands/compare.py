"""`acp-conformance compare`: what changed between two reports."""

from pathlib import Path

import click


@click.command("compare")
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(old: Path, new: Path, format_: str) -> int:
    """Say what began to fail, was mended, is newly exercised or no longer, from report OLD to report NEW.

    Exit status 1 where a must rule began to fail or fails in more scenarios.
    """
    from conformance.report.codec import read_report
    from conformance.report.compare import compare, to_json, view

    comparison = compare(read_report(old), read_report(new))
    if format_ == "json":
        import json

        click.echo(json.dumps(to_json(comparison), indent=1, ensure_ascii=False))
    else:
        from conformance.report.console import Console

        console = Console()
        console.print(view(comparison, console.width))
    return int(comparison.is_worse)
