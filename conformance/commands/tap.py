"""`acp-conformance tap`: stands between an editor and its agent. The wire passes unchanged, byte for byte; the judging
waits for the end."""

import signal
import sys
from pathlib import Path

import click


@click.command("tap", context_settings={"ignore_unknown_options": True})
@click.option(
    "--record",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("acp-tap"),
    show_default=True,
    help="Where the transcript and the report go.",
)
@click.option("-q", "--quiet", is_flag=True, help="Say nothing at the end.")
@click.argument("command_", metavar="-- CMD", nargs=-1, required=True, type=click.UNPROCESSED)
def command(folder: Path, quiet: bool, command_: tuple[str, ...]) -> int:
    """Stand between an editor and its agent: start CMD, pass everything through, record it in --record DIR, judge it at
    the end.

    Configure the editor to start this instead of the agent. The exit status is the agent's own; what was found goes to
    stderr and to the report.
    """
    from conformance.tapping import Tap

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # how editors end their agents: still judge
    tap = Tap(command_, folder)
    status = tap.run(sys.stdin.buffer, sys.stdout.buffer)
    if tap.transcript is None:
        print("acp-conformance tap: nothing was recorded", file=sys.stderr)
        return status
    _judge(tap.transcript, folder, quiet)
    return status


def _judge(transcript: Path, folder: Path, quiet: bool) -> None:
    from conformance.commands.options import write_views
    from conformance.recorded import check
    from conformance.report.console import Console

    report = check([transcript], lambda event: None, folder=folder)
    write_views(report, folder, ("html",))
    if not quiet:
        console = Console(sys.stderr)
        console.folder = folder
        console.report(report)
