"""The command line: finds the command, runs it, turns what went wrong into one message and an exit status. Knows no
command's work.

Exit status: 0 conformant, 1 nonconformant, 2 wrong usage or configuration, 3 incomplete, 130 interrupted.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import click

from conformance import __version__

COMMANDS: Final[dict[str, str]] = {
    "run": "Test an agent: drive scenarios, judge what happened, write a report.",
    "check": "Judge recorded traffic, both sides of it; nothing is started.",
    "fuzz": "Send an agent generated and broken messages, and shrink what fails to a scenario.",
    "tap": "Stand between an editor and its agent, record, judge at the end.",
    "rules": "List the rules, or show one.",
    "scenarios": "List the scenarios, or show one.",
    "explain": "Show what a report says of one rule.",
    "badge": "Make a badge (SVG, or JSON for shields.io) of a report.",
    "compare": "Say what changed between two reports.",
    "baseline": "Write the known failures of a report to a baseline.",
    "init": "Write a profile (acp-conformance.toml) and a CI workflow for your agent.",
}

USAGE: Final = 2
INCOMPLETE: Final = 3  # never 1: what broke here proves nothing about the peer
INTERRUPTED: Final = 130
READER_LEFT: Final = 141  # as a shell reports SIGPIPE


class Lazy(click.Group):
    """A group whose commands are imported when they are run, so that `--help` is quick."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(f"conformance.commands.{name}").command
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if arguments and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
            from conformance.scenario.spelling import did_you_mean

            raise click.UsageError(f'no command "{arguments[0]}"{did_you_mean(arguments[0], COMMANDS)}', context)
        return super().resolve_command(context, arguments)


owns_the_process = False
"""Whether this process does nothing but run the command line, so that every child of it is one of an agent."""

COMPLETION: Final = (
    'Completion in bash: eval "$(_ACP_CONFORMANCE_COMPLETE=bash_source acp-conformance)"; also zsh, fish.'
)


@click.command(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]}, epilog=COMPLETION)
@click.version_option(__version__, prog_name="acp-conformance")
def program() -> None:
    """Does this peer keep the rules of the Agent Client Protocol, version 2?

    `acp-conformance run` tests the bundled reference agent; `acp-conformance run --agent "CMD"` tests yours.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and leaves with its exit status."""
    global owns_the_process
    owns_the_process = True
    _open_what_was_closed()
    sys.exit(status_of(arguments))


def _open_what_was_closed() -> None:
    """Whoever starts us with stdout or stderr closed wants nothing of it: no file of ours may come in its place."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def status_of(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns its exit status. All output goes to stdout and stderr."""
    try:
        result: Any = program.main(
            None if arguments is None else list(arguments), prog_name="acp-conformance", standalone_mode=False
        )
        sys.stdout.flush()
    except click.UsageError as error:
        return _wrong_usage(error)
    except click.Abort:
        return _interrupted()
    except click.ClickException as error:
        return _say(error.format_message(), USAGE)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except KeyboardInterrupt:
        return _interrupted()
    except SystemExit as leave:  # click, when whoever read our output has gone away
        return READER_LEFT if leave.code == 1 else USAGE
    except Exception as error:
        from conformance.commands.errors import told

        if (message := told(error)) is not None:
            return _say(message, USAGE)
        import traceback

        traceback.print_exc()
        return _say("this is a bug of the suite, please report it with the lines above", INCOMPLETE)
    return result if isinstance(result, int) else 0


def _wrong_usage(error: click.UsageError) -> int:
    message = error.format_message()
    if isinstance(error, click.NoSuchOption) and error.option_name and error.ctx is not None:
        from conformance.scenario.spelling import did_you_mean

        known = [option for parameter in error.ctx.command.params for option in parameter.opts if option[:2] == "--"]
        message = f"no option {error.option_name}{did_you_mean(error.option_name, known)}"
    where = f"\n{error.ctx.command_path} --help says more" if error.ctx is not None else ""
    return _say(message + where, USAGE)


def _interrupted() -> int:
    return _say("interrupted", INTERRUPTED)


def _say(message: str, status: int) -> int:
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    text = f"acp-conformance: {message}\n".encode(encoding, "backslashreplace").decode(encoding)
    print(text, end="", file=sys.stderr, flush=True)
    return status


if __name__ == "__main__":
    main()
