"""`acp-conformance run`: tests a target with scenarios, judges what happened, and writes the report."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from conformance.commands.options import (
    FOLDER,
    Patience,
    Reporters,
    exit_status,
    formats,
    patience,
    usual_jobs,
    verbosity,
    write_views,
)

if TYPE_CHECKING:
    from conformance.profile import Profile
    from conformance.report import RunEvent, Target
    from conformance.report.baseline import Known

INTERRUPTED: Final = 130
_OURS: Final = ("report.json", "report.ndjson", "report.html", "report.md", "report.sarif", "junit.xml")


@click.command("run")
@click.option(
    "--agent",
    metavar="CMD",
    help="The command that starts your agent: one string, split as a shell would, run without one.",
)
@click.option("--url", metavar="URL", help="A running agent: ws:// or wss://.")
@click.option("--client", metavar="CMD", help="A client to test (not in this version yet).")
@click.option("--bridge", metavar="CMD", help="A bridge to test (not in this version yet).")
@click.option(
    "--profile",
    metavar="FILE|NAME",
    help="How the agent is started, its model, its triggers; a file or a built-in name.",
)
@click.option("--protocol", type=click.Choice(["2", "1"]), default="2", show_default=True, help="The version of ACP.")
@click.option(
    "--scenario",
    "scenarios",
    multiple=True,
    metavar="GLOB",
    help='Only these, like "prompt/*", or a file of your own; may be repeated.',
)
@click.option(
    "--rule", "rules", multiple=True, metavar="GLOB", help="Only scenarios that exercise these rules; may be repeated."
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    default=usual_jobs,
    show_default="4, or twice the cores where that is less",
    help="Scenarios at a time.",
)
@click.option("--seed", type=int, help="Of all that is random; a report names the one that it used.")
@patience
@click.option(
    "--report", "folder", type=click.Path(path_type=Path, file_okay=False), default=Path(FOLDER), show_default=True
)
@click.option(
    "--format",
    "names",
    default="json",
    show_default=True,
    callback=formats,
    help="html, junit, markdown, sarif, json, ndjson; with commas.",
)
@click.option(
    "--baseline", "baseline", type=click.Path(path_type=Path), help="Known failures (TOML) that do not fail the run."
)
@click.option("--strict", is_flag=True, help="A failed should rule, a warning and an unexpected pass fail too.")
@verbosity
@click.pass_context
def command(
    context: click.Context,
    agent: str | None,
    url: str | None,
    client: str | None,
    bridge: str | None,
    profile: str | None,
    protocol: str,
    scenarios: tuple[str, ...],
    rules: tuple[str, ...],
    jobs: int,
    seed: int | None,
    patience: Patience | None,
    folder: Path,
    names: tuple[str, ...],
    baseline: Path | None,
    strict: bool,
    verbose: bool,
    quiet: bool,
) -> int:
    """Test an agent. With no target: the agent of ./acp-conformance.toml, else the bundled reference agent.

    Exit status: 0 conformant, 1 nonconformant, 2 wrong usage, 3 incomplete, 130 interrupted.
    """
    _refuse_what_is_not_there(context, client, bridge, protocol)
    if agent is not None and url is not None:
        raise click.UsageError("--agent and --url are two targets; name one", context)
    tested, target, arguments = chosen_target(agent, url, profile)
    from conformance import cli, runner
    from conformance.peers.family import adopt_orphans, end_orphans
    from conformance.report.console import Console

    seconds = patience.seconds(tested.limits.patience) if patience is not None else None
    options = runner.Options(scenarios, rules, jobs, seed, seconds, folder, arguments)
    chosen = [scenario.id for scenario in runner.choose(options)]  # wrong globs are told before the old report goes
    known, where = _known(tested, baseline, chosen)
    _make_room(folder)
    console = Console(verbosity=int(verbose) - int(quiet))
    sinks: list[Callable[[RunEvent], None]] = [console]
    if "ndjson" in names:
        from conformance.report.stream import FILE, StreamWriter

        sinks.append(StreamWriter(folder / FILE))
    reporters = Reporters(sinks)
    judged = Judged(known, where, reporters)
    if cli.owns_the_process:
        adopt_orphans()
    try:
        ran = runner.run_blocking(tested, target, options, judged)
    finally:
        console.close()
        end_orphans()
    written = write_views(judged.report or ran.report, folder, names, reporters.failures)
    if not quiet:
        from conformance.report.layout import Span, pad

        console.print((Span(pad(path.suffix[1:], 8), "dim"), Span(str(path))) for path in written.paths[1:])
    return INTERRUPTED if ran.was_interrupted else exit_status(written.report, strict=strict)


class Judged:
    """A sink that marks the known failures in the report before the others see it."""

    def __init__(self, known: "list[Known]", where: str, sink: "Callable[[RunEvent], None]") -> None:
        from conformance.report import Report

        self._known, self._where, self._sink = known, where, sink
        self.report: Report | None = None

    def __call__(self, event: "RunEvent") -> None:
        from conformance.report import RunFinished

        if isinstance(event, RunFinished):
            if self._known:
                from conformance.report.baseline import apply

                event = RunFinished(apply(event.report, self._known, self._where))
            self.report = event.report
        self._sink(event)


def _refuse_what_is_not_there(context: click.Context, client: str | None, bridge: str | None, protocol: str) -> None:
    for name, given in (("--client", client), ("--bridge", bridge)):
        if given is not None:
            raise click.UsageError(f"{name}: this version tests agents only; --agent CMD or --url ws://...", context)
    if protocol != "2":
        raise click.UsageError("--protocol 1: this version tests version 2 of the protocol only", context)


def chosen_target(agent: str | None, url: str | None, name: str | None) -> "tuple[Profile, Target, tuple[str, ...]]":
    """The profile, the target as the report shows it, and the options that choose it again. Raises ProfileError."""
    import shlex

    from conformance.profile import Profile, find_profile, load_profile, with_command, with_url
    from conformance.report import Target

    arguments = ("--profile", name) if name is not None else ()
    profile = load_profile(name) if name is not None else find_profile(Path.cwd())
    if agent is not None:
        return with_command(profile or Profile(), agent), Target("agent", agent), (*arguments, "--agent", agent)
    if url is not None:
        return with_url(profile or Profile(), url), Target("url", url), (*arguments, "--url", url)
    profile = profile or load_profile("reference")
    if profile.name == "reference":
        return profile, Target("reference", ""), arguments
    if profile.agent.url is not None and profile.agent.command is None:
        return profile, Target("url", profile.agent.url), arguments
    if profile.agent.command is None:
        raise click.UsageError(f"{profile.path or name}: [agent] names no command; add it, or give --agent CMD")
    return profile, Target("agent", shlex.join(profile.agent.command)), arguments


def _known(profile: "Profile", baseline: Path | None, chosen: list[str]) -> "tuple[list[Known], str]":
    """The known failures of the baseline file and of the profile's [expect], and where they stand. Raises
    BaselineError."""
    if baseline is None and not profile.expect:
        return [], ""
    from conformance.commands.scenarios import known_scenarios
    from conformance.report.baseline import Known, check_entries, read_baseline
    from conformance.rules import RULES

    scenarios = [*chosen, *(scenario.id for scenario in known_scenarios())]
    known, places = [], []
    for where, entries in (
        (str(baseline), read_baseline(baseline) if baseline is not None else []),
        (profile.path or profile.name, [Known(rule, "*", why) for rule, why in profile.expect.items()]),
    ):
        if entries:
            check_entries(entries, where, RULES, scenarios)
            known += entries
        if entries or where == str(baseline):
            places.append(where)
    return known, ", ".join(places)


def _make_room(folder: Path) -> None:
    """Removes what an earlier run wrote there, so that no view of an old report stands beside the new one. Raises
    OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "report.json").is_file():
        return
    for path in (*(folder / "transcripts").glob("*.ndjson"), *(folder / name for name in _OURS)):
        path.unlink(missing_ok=True)
