"""`acp-conformance fuzz`: finds what no one thought of, and hands back a scenario of a few lines that shows it."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from conformance.commands.options import Patience, exit_status, formats, patience, verbosity, write_views

if TYPE_CHECKING:
    from conformance.fuzz.campaign import Campaign

FOLDER: Final = "acp-fuzz"
INTERRUPTED: Final = 130
_LAYERS: Final = ("bytes", "envelope", "params", "sequence")
_UNITS: Final = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}


def seconds(context: click.Context, parameter: click.Parameter | None, value: str) -> float:
    """ "90", "60s", "10m", "1h" in seconds; raises a usage error for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", value.strip().lower())
    if found is None or found[2] not in _UNITS or not 0 < float(found[1]) * _UNITS[found[2]] <= 7 * 24 * 3600:
        raise click.BadParameter(f'"{value}" is no time; write 60s, 10m or 1h', context, parameter)
    return float(found[1]) * _UNITS[found[2]]


def layers(context: click.Context, parameter: click.Parameter | None, values: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for value in values for part in value.split(",") if part.strip()))
    for name in names:
        if name not in _LAYERS:
            from conformance.scenario.spelling import did_you_mean

            raise click.BadParameter(f'no layer "{name}"{did_you_mean(name, _LAYERS)}', context, parameter)
    return names or _LAYERS


@click.command("fuzz")
@click.option("--agent", metavar="CMD", help="The command that starts your agent: one string, split as a shell would.")
@click.option("--url", metavar="URL", help="A running agent: ws:// or wss://.")
@click.option("--profile", metavar="FILE|NAME", help="How the agent is started, its model, its triggers.")
@click.option("--budget", default="60s", show_default=True, callback=seconds, help="How long to look: 60s, 10m, 1h.")
@click.option("--seed", type=int, help="Of all that is random; the report names the one that it used.")
@click.option("--jobs", type=click.IntRange(1, 64), default=4, show_default=True, help="Agents at a time.")
@click.option(
    "--layer",
    "chosen",
    multiple=True,
    callback=layers,
    metavar="NAMES",
    help="bytes, envelope, params, sequence; with commas.  [default: all]",
)
@patience
@click.option(
    "--report",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(FOLDER),
    show_default=True,
    help="Corpus, failures and report; a campaign goes on from what is there.",
)
@click.option(
    "--format",
    "names",
    default="json",
    show_default=True,
    callback=formats,
    help="html, junit, markdown, sarif, json; with commas.",
)
@click.option("--enough", type=click.IntRange(1), metavar="N", help="End early once N failures are found.")
@click.option("--strict", is_flag=True, help="Should rules count too.")
@verbosity
@click.pass_context
def command(
    context: click.Context,
    agent: str | None,
    url: str | None,
    profile: str | None,
    budget: float,
    seed: int | None,
    jobs: int,
    chosen: tuple[str, ...],
    patience: Patience | None,
    folder: Path,
    names: tuple[str, ...],
    enough: int | None,
    strict: bool,
    verbose: bool,
    quiet: bool,
) -> int:
    """Send an agent generated and broken messages, and shrink what fails to a scenario.

    With no --agent: the agent of ./acp-conformance.toml, else the bundled reference agent. Exit status: 0 nothing
    found, 1 a failure, 2 wrong usage, 3 incomplete, 130 interrupted.
    """
    import random

    from conformance.commands.run import chosen_target
    from conformance.fuzz.campaign import Campaign
    from conformance.fuzz.progress import Options
    from conformance.fuzz.reporting import Teller, report_of, started_now, summary
    from conformance.report import RunFinished
    from conformance.report.console import Console

    if agent is not None and url is not None:
        raise click.UsageError("--agent and --url are two targets; name one", context)
    tested, target, arguments = chosen_target(agent, url, profile)
    folder.mkdir(parents=True, exist_ok=True)
    options = Options(
        budget=budget,
        seed=random.randrange(1, 1_000_000) if seed is None else seed,
        jobs=jobs,
        layers=chosen,
        patience=patience.seconds(tested.limits.patience) if patience is not None else None,
        strict=strict,
        enough=enough,
        folder=folder,
    )
    console = Console(verbosity=int(verbose) - int(quiet))
    console.folder = folder
    teller = Teller(console, quiet=quiet)
    campaign = Campaign(tested, options, teller)
    started = started_now(target, campaign, arguments)
    try:
        is_whole = _run(campaign)
    finally:
        teller.close()
    report = report_of(campaign, started, was_interrupted=not is_whole)
    console(RunFinished(report))
    if not quiet:
        console.print(summary(campaign))
    write_views(report, folder, names)
    return exit_status(report, strict=strict) if is_whole else INTERRUPTED


def _run(campaign: "Campaign") -> bool:
    """Ctrl-C, TERM and HUP end it in order."""
    import asyncio

    from conformance.interrupts import interruptible

    async def interrupted() -> bool:
        task = asyncio.current_task()
        assert task is not None
        with interruptible(task):
            return await campaign.run()

    return asyncio.run(interrupted())
