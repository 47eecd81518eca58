"""`acp-conformance check`: judges recorded traffic."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from conformance.commands.options import Reporters, exit_status, formats, verbosity, with_failures, write_views

if TYPE_CHECKING:
    from conformance.rules import Rule


@click.command("check")
@click.argument("transcripts", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--party",
    type=click.Choice(["agent", "client"]),
    default="agent",
    show_default=True,
    help="Whose rules decide the verdict; the other side's findings are shown too.",
)
@click.option("--rule", "rules", multiple=True, metavar="GLOB", help="Judge these rules only; may be repeated.")
@click.option("--report", "folder", type=click.Path(path_type=Path), help="Also write a report to this folder.")
@click.option(
    "--format",
    "formats_",
    default="text",
    show_default=True,
    help='"text" or "json" on stdout; with --report also html, junit, markdown, sarif.',
)
@click.option("--strict", is_flag=True, help="A failed should rule and a warning fail too.")
@verbosity
@click.pass_context
def command(
    context: click.Context,
    transcripts: tuple[Path, ...],
    party: Literal["agent", "client"],
    rules: tuple[str, ...],
    folder: Path | None,
    formats_: str,
    strict: bool,
    verbose: bool,
    quiet: bool,
) -> int:
    """Judge recorded traffic, both sides of it. TRANSCRIPTS are files as `run` and `tap` write them, or folders of
    such."""
    from conformance.recorded import check
    from conformance.report.console import Console

    as_json = formats_ == "json"
    names = formats(context, None, ",".join(part for part in formats_.split(",") if part.strip() != "text"))
    if names and folder is None and not as_json:
        raise click.UsageError(f"--format {formats_} needs --report DIR to write to", context)
    console = Console(verbosity=int(verbose) - int(quiet))
    reporters = Reporters([] if as_json else [console])
    report = check(
        _files(transcripts, context),
        reporters,
        party=party,
        rules=chosen_rules(rules, context),
        folder=folder,
    )
    if folder is not None:
        report = write_views(report, folder, names, reporters.failures).report
    else:
        report = with_failures(report, reporters.failures)
    if as_json:
        import json

        from conformance.report.codec import to_json

        click.echo(json.dumps(to_json(report), ensure_ascii=False, indent=1))
    return exit_status(report, strict=strict)


def chosen_rules(globs: tuple[str, ...], context: click.Context) -> "list[Rule]":
    """The rules that match the globs; a usage error names the glob that matches none, with the closest id."""
    from conformance.recorded import matching

    try:
        return matching(globs)
    except LookupError as error:
        from conformance.rules import RULES
        from conformance.scenario.spelling import did_you_mean

        glob = str(error.args[0])
        raise click.UsageError(f'no rule matches "{glob}"{did_you_mean(glob, RULES)}', context) from None


def _files(paths: tuple[Path, ...], context: click.Context) -> list[Path]:
    """The files that are meant: of a folder its transcripts (or those in its transcripts/)."""
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        inside = path / "transcripts"
        files = sorted((inside if inside.is_dir() else path).glob("*.ndjson"))
        if not files:
            raise click.UsageError(f"{path}: there are no transcripts (*.ndjson) in this folder", context)
        found.extend(files)
    return found
