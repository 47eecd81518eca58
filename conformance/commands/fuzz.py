"""`acp-conformance fuzz`: the fuzzer's own command, where this installation has it."""

from importlib import import_module
from importlib.util import find_spec

import click


@click.command("fuzz", context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def unavailable(arguments: tuple[str, ...]) -> None:
    """Send an agent generated and broken messages (not in this version yet)."""
    raise click.UsageError("fuzzing is not in this version yet; `acp-conformance run` tests with scenarios")


command: click.Command = unavailable
if find_spec("conformance.fuzz.command") is not None:
    command = import_module("conformance.fuzz.command").command
