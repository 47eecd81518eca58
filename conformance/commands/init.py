"""`acp-conformance init`: writes a profile for an agent, tried before it is written, and a CI workflow."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from conformance.report import Report

PROFILE = "acp-conformance.toml"
WORKFLOW = Path(".github", "workflows", "acp-conformance.yml")


@click.command("init")
@click.option("--agent", metavar="CMD", help="The command that starts your agent; asked for on a terminal.")
@click.option("--workflow/--no-workflow", default=True, show_default=True, help="Also write a GitHub workflow.")
@click.option(
    "--try/--no-try",
    "is_tried",
    default=True,
    show_default=True,
    help="Start the agent once before anything is written.",
)
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
@click.pass_context
def command(context: click.Context, agent: str | None, workflow: bool, is_tried: bool, force: bool) -> int:
    """Write acp-conformance.toml and a CI workflow for your agent in this folder."""
    from conformance.profile import Profile, with_command

    if agent is None:
        if not sys.stdin.isatty():
            raise click.UsageError("--agent CMD says how your agent is started", context)
        agent = click.prompt("Command that starts your agent")
    with_command(Profile(), agent)
    paths = [Path(PROFILE)] + [WORKFLOW] * workflow
    if (there := [path for path in paths if path.exists()]) and not force:
        raise click.UsageError(f"{there[0]} is there already; --force overwrites it", context)
    if is_tried:
        report = _tried(agent)
        if report.problems:
            raise click.UsageError(f"the agent could not be tried, nothing was written: {report.problems[0]}", context)
        info = report.target.info or {}
        name = " ".join(str(info[key]) for key in ("name", "version") if key in info)
        click.echo(f"{name or 'the agent'} answers: {report.verdict} in a first scenario")
    Path(PROFILE).write_text(profile_text(agent), encoding="utf-8", newline="\n")
    click.echo(f"wrote {PROFILE}")
    if names := secrets_of(agent):
        click.echo(
            f"careful: the command in {PROFILE} looks as if it had a secret ({', '.join(names)}); before you "
            "commit it, give that in the environment instead, which agents inherit",
            err=True,
        )
    if workflow:
        WORKFLOW.parent.mkdir(parents=True, exist_ok=True)
        WORKFLOW.write_text(workflow_text(), encoding="utf-8", newline="\n")
        click.echo(f"wrote {WORKFLOW}")
    click.echo("next: fill in [model] and [triggers], then `acp-conformance run`")
    return 0


def _tried(agent: str) -> "Report":
    from conformance import runner
    from conformance.profile import Profile, with_command
    from conformance.report import Target

    options = runner.Options(scenarios=("prompt/plain",), jobs=1)
    return runner.run_blocking(
        with_command(Profile(), agent), Target("agent", agent), options, lambda event: None
    ).report


def secrets_of(agent: str) -> list[str]:
    """The names of what looks like a secret in a command: the option, or what kind it is."""
    import shlex

    from conformance.history.command_secrets import command_secrets

    return sorted(set(command_secrets(shlex.split(agent)).values()))


def profile_text(agent: str) -> str:
    """The TOML of a profile with the command, and what else there is as comments."""
    import json
    import shlex

    words = ", ".join(json.dumps(word, ensure_ascii=False) for word in shlex.split(agent))
    return f"""\
# How acp-conformance starts and drives this agent. `acp-conformance run` reads this file.

[agent]
command = [{words}]
# env = {{ LOG_LEVEL = "warn" }}
# files = {{ "home/config.toml" = 'base_url = "{{model.url}}"' }}    # written to {{workdir}} before each start

# With a scripted model, failures, held work and tools can be tested: say which API the agent speaks, and how it
# is told where the model is.
# [model]
# api = "openai-chat"        # or "openai-responses", "anthropic-messages"
# env = {{ OPENAI_BASE_URL = "{{model.url}}", OPENAI_API_KEY = "scripted" }}

# Prompts that make the agent do things without a model. Each that is missing leaves rules unexercised.
# [triggers]
# local-command = "/status"          # answered by the agent itself, not kept in the conversation
# retained-command = "/remember x"   # a command that stays in the conversation
# permission = "/ask"                # asks for permission
# background = "/watch"              # starts background work

# [sessions]
# shared = true                      # two processes see one store
# survives-restart = true
"""


def workflow_text() -> str:
    """A GitHub workflow that gates on the suite: the report as summary and artifact."""
    return """\
name: ACP conformance
on: [push, pull_request]
permissions:
  contents: read
jobs:
  conformance:
    runs-on: ubuntu-latest
    timeout-minutes: 20
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.13"
      # Install or build your agent here.
      - run: pip install acp-conformance
      - run: acp-conformance run --format html,junit,markdown,sarif
      - if: always()
        run: cat acp-report/report.md >> "$GITHUB_STEP_SUMMARY"
      - if: always()
        uses: actions/upload-artifact@v4
        with:
          name: acp-report
          path: acp-report
"""
