"""The pytest plugin: `pytest --acp-agent CMD --pyargs conformance.suite` makes every scenario a test of that agent.

In tests of your own the fixture `acp_play` plays a scenario (a file, or the text of one) on the agent and returns the
report; `report` names the rules, and `acp_fail_if_nonconformant` turns it into a failure that reads like one on the
terminal. Works under xdist.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conformance.profile import Profile
    from conformance.report import Report, Target

WIDTH = 100  # columns of a failure's text

Play = Callable[..., "Report"]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("acp-conformance", "conformance of an ACP agent")
    group.addoption("--acp-agent", metavar="CMD", help="the command that starts the agent under test")
    group.addoption("--acp-url", metavar="URL", help="a running agent under test: ws://...")
    group.addoption("--acp-profile", metavar="FILE|NAME", help="how the agent is started, its model, its triggers")
    group.addoption(
        "--acp-scenario", metavar="GLOB", action="append", default=[], help="only these scenarios; may be repeated"
    )
    group.addoption("--acp-report", metavar="DIR", help="where transcripts go (default: a temporary folder)")
    group.addoption("--acp-strict", action="store_true", help="a failed should rule and a warning fail too")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "acp_scenario" in metafunc.fixturenames:
        from conformance import runner

        try:
            chosen = runner.choose(runner.Options(scenarios=tuple(metafunc.config.getoption("--acp-scenario"))))
        except runner.UsageProblem as problem:
            raise pytest.UsageError(str(problem)) from None
        metafunc.parametrize("acp_scenario", [scenario.id for scenario in chosen])


@pytest.fixture(scope="session")
def acp_target(pytestconfig: pytest.Config) -> "tuple[Profile, Target, tuple[str, ...]]":
    """The profile, the target and the options that choose it, from the command line of pytest."""
    from conformance.commands.run import chosen_target
    from conformance.profile import ProfileError

    options = [pytestconfig.getoption(name) for name in ("--acp-agent", "--acp-url", "--acp-profile")]
    try:
        return chosen_target(*options)
    except ProfileError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.fixture
def acp_play(
    acp_target: "tuple[Profile, Target, tuple[str, ...]]", pytestconfig: pytest.Config, tmp_path: Path
) -> Play:
    """Plays a scenario on the agent: `acp_play("prompt/plain")`, `acp_play(Path("mine.yaml"))` or `acp_play(text)`; the
    report."""
    from conformance import runner

    profile, target, arguments = acp_target
    folder = pytestconfig.getoption("--acp-report")

    def play(scenario: "str | Path", *, seed: int = 1) -> "Report":
        name = str(scenario)
        if "\n" in name:
            own = tmp_path / "scenario.yaml"
            own.write_text(name, encoding="utf-8")
            name = str(own)
        options = runner.Options(
            scenarios=(name,),
            jobs=1,
            seed=seed,
            report=Path(folder) if folder else tmp_path / "acp-report",
            arguments=arguments,
        )
        return runner.run_blocking(profile, target, options, lambda event: None).report

    return play


@pytest.fixture
def acp_fail_if_nonconformant(pytestconfig: pytest.Config, tmp_path: Path) -> "Callable[[Report], None]":
    """Fails the test with the findings of the report, skips it where the scenario was not applicable."""
    folder = pytestconfig.getoption("--acp-report")

    def judge(report: "Report") -> None:
        from conformance.commands.options import exit_status

        not_applicable = [scenario for scenario in report.scenarios if scenario.status == "not-applicable"]
        if not_applicable and len(not_applicable) == len(report.scenarios):
            pytest.skip(not_applicable[0].reason)
        if exit_status(report, strict=bool(pytestconfig.getoption("--acp-strict"))):
            pytest.fail(failure_text(report, Path(folder) if folder else tmp_path / "acp-report"), pytrace=False)

    return judge


def failure_text(report: "Report", folder: Path) -> str:
    """The verdict and each finding, as on a terminal without colour."""
    from conformance.report.layout import render
    from conformance.report.terminal import needing_attention, rule_view, summary

    lines = [render(line, colour=False) for line in summary(report, WIDTH)]
    for rule in needing_attention(report):
        if rule.party == report.party:
            lines += ["", *(render(line, colour=False) for line in rule_view(rule, report, width=WIDTH, folder=folder))]
    return "\n".join(lines)
