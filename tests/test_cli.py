"""The command line as a person meets it: what it prints, what it writes, and the status it leaves with."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from conformance.cli import COMMANDS, status_of
from conformance.report.codec import read_report, write_report
from conformance.resources import folder
from conformance.rules import RULES
from tests.reported import PASS, Wire, doomed_prompt, example_report, found, judgement, report_of, violation
from tests.reported import RULES as SOME_RULES

REFERENCE = folder("fixtures") / "agents" / "reference.py"


class Console:
    """Runs the command line in this process; `out` and `err` are what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *arguments: str | Path) -> int:
        status = status_of([str(argument) for argument in arguments])
        self.out, self.err = self._capsys.readouterr()
        return status


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Console:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return Console(capsys)


def recorded(path: Path, text: str = "Hello") -> Path:
    """A transcript in which a prompt is answered with an error after its message was reported."""
    wire = Wire(path)
    hello = {"protocolVersion": 2, "info": {"name": "editor", "version": "1"}, "capabilities": {}}
    wire.client({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    info = {"name": "old-agent", "version": "3"}
    wire.agent(
        {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 2, "info": info, "capabilities": {"session": {}}}}
    )
    wire.client({"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": "/x", "mcpServers": []}})
    wire.agent({"jsonrpc": "2.0", "id": 2, "result": {"sessionId": "s"}})
    doomed_prompt(wire, text=text)
    wire.recorder.close()
    return path


# -- usage


def test_help_lists_every_command_and_each_has_its_own(run: Console) -> None:
    assert run("--help") == 0
    listed = run.out
    for name in COMMANDS:
        assert name in listed
        assert run(name, "--help") == 0
        assert run.out.startswith(f"Usage: acp-conformance {name}")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from conformance.cli import status_of; status_of(['--help']); "
        "heavy = {'rich', 'jinja2', 'jsonschema', 'jsonschema_rs', 'hypothesis', 'yaml', 'websockets', 'asyncio', "
        "'conformance.rules', 'conformance.wire'}; print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_shells_can_complete_commands_and_options() -> None:
    env = {**os.environ, "_ACP_CONFORMANCE_COMPLETE": "bash_complete"}
    for words, index, wanted in (("acp-conformance ru", "1", "run"), ("acp-conformance run --bas", "2", "--baseline")):
        env |= {"COMP_WORDS": words, "COMP_CWORD": index}
        done = subprocess.run(
            [sys.executable, "-m", "conformance"], capture_output=True, text=True, check=False, env=env
        )
        assert f"plain,{wanted}" in done.stdout


def test_the_version_is_printed(run: Console) -> None:
    from conformance import __version__

    assert run("--version") == 0
    assert __version__ in run.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["rnu"], 'no command "rnu"; did you mean "run"?'),
        (["run", "--agnet", "x"], 'no option --agnet; did you mean "--agent"?'),
        (["run", "--format", "htlm"], 'no format "htlm"; did you mean "html"?'),
        (["run", "--agent", "a", "--url", "ws://b"], "two targets"),
        (["run", "--agent", ""], "--agent is empty"),
        (["run", "--agent", "x '"], "closing quotation"),
        (["run", "--profile", "refrence"], "reference"),
        (["run", "--profile", "none.toml"], "none.toml"),
        (["run", "--scenario", "prompt/plian"], 'no scenario matches "prompt/plian"; did you mean "prompt/plain"?'),
        (["run", "--scenario", "none.yaml"], "no such file"),
        (["run", "--rule", "prompt.distinct-mesage-ids"], 'did you mean "prompt.distinct-message-ids"?'),
        (["run", "--baseline", "none.toml"], "baseline update"),
        (["run", "--jobs", "0"], "--jobs"),
        (["run", "--protocol", "1"], "version 2"),
        (["run", "--client", "x"], "agents only"),
        (["check"], "TRANSCRIPTS"),
        (["check", "none.ndjson"], "none.ndjson: No such file"),
        (["check", "none.ndjson", "--rule", "nope"], 'no rule matches "nope"'),
        (["rules", "prompt.distinct-mesage-ids"], 'did you mean "prompt.distinct-message-ids"?'),
        (["scenarios", "prompt/plian"], 'did you mean "prompt/plain"?'),
        (["explain", "none", "x"], "No such file"),
        (["badge", "none"], "No such file"),
        (["compare", "none", "none"], "No such file"),
        (["tap"], "CMD"),
        (["init"], "--agent CMD"),
    ],
)
def test_wrong_usage_is_one_message_and_status_2(run: Console, arguments: list[str], says: str) -> None:
    assert run(*arguments) == 2
    assert run.out == ""
    assert says.lower() in run.err.lower()
    assert run.err.startswith("acp-conformance: ")
    assert "Traceback" not in run.err
    assert len(run.err.strip().splitlines()) <= 2
    assert not Path("acp-report").exists()


def test_output_into_a_closed_pipe_is_no_failure() -> None:
    command = f"{shlex.quote(sys.executable)} -m conformance rules | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# -- rules and scenarios


def test_rules_lists_every_rule_and_shows_one(run: Console) -> None:
    assert run("rules") == 0
    assert all(id in run.out for id in RULES)
    assert run("rules", "prompt.distinct-message-ids") == 0
    assert "violated" in run.out
    assert run("rules", "--format", "json", "--party", "agent", "--level", "must") == 0
    assert {(rule["party"], rule["level"]) for rule in json.loads(run.out)} == {("agent", "must")}


def test_rules_takes_globs(run: Console) -> None:
    assert run("rules", "prompt.*", "--format", "json") == 0
    assert {rule["id"].partition(".")[0] for rule in json.loads(run.out)} == {"prompt"}


def test_scenarios_lists_and_shows_one_with_its_steps(run: Console) -> None:
    assert run("scenarios") == 0
    assert "prompt/plain" in run.out
    assert run("scenarios", "prompt/plain") == 0
    assert "steps:" in run.out
    assert run("scenarios", "--format", "json", "prompt/plain") == 0
    assert json.loads(run.out)[0]["id"] == "prompt/plain"


def test_the_verbs_of_the_language_are_listed(run: Console) -> None:
    assert run("scenarios", "--verbs") == 0
    assert "  connect" in run.out
    assert "  idle" in run.out


def test_a_misspelt_verb_is_shown_where_it_stands(run: Console) -> None:
    Path("mine.yaml").write_text("title: Mine\nsteps:\n  - conect: ada\n")
    for arguments in (["scenarios", "mine.yaml"], ["run", "--scenario", "mine.yaml"]):
        assert run(*arguments) == 2
        assert 'mine.yaml:3:5  unknown verb "conect"; did you mean "connect"?' in run.err
        assert "^^^^^^" in run.err


# -- check


def test_check_judges_a_recording_and_leaves_with_its_verdict(run: Console, tmp_path: Path) -> None:
    path = recorded(tmp_path / "bad.ndjson")
    assert run("check", path) == 1
    assert run.out.startswith("nonconformant")
    assert "FAIL  prompt.no-error-after-insertion" in run.out
    assert "old-agent 3" in run.out
    assert "run again" not in run.out


def test_check_writes_json_to_stdout_and_nothing_else(run: Console, tmp_path: Path) -> None:
    assert run("check", recorded(tmp_path / "bad.ndjson"), "--format", "json") == 1
    data = json.loads(run.out)
    assert (data["verdict"], data["target"]["kind"]) == ("nonconformant", "transcripts")
    assert list(tmp_path.iterdir()) == [tmp_path / "bad.ndjson"]


def test_check_as_the_client_leaves_the_agents_failures_to_the_agent(run: Console, tmp_path: Path) -> None:
    path = recorded(tmp_path / "bad.ndjson")
    assert run("check", path, "--party", "client", "-q") != 1
    assert run("check", path, "--party", "client", "--format", "json") != 1
    failed = [rule["party"] for rule in json.loads(run.out)["rules"] if rule["status"] == "fail"]
    assert failed
    assert set(failed) == {"agent"}


def test_check_judges_chosen_rules_only(run: Console, tmp_path: Path) -> None:
    path = recorded(tmp_path / "bad.ndjson")
    assert run("check", path, "--rule", "init.*", "--format", "json") == 0
    assert {rule["id"].partition(".")[0] for rule in json.loads(run.out)["rules"]} == {"init"}


def test_check_takes_a_folder_and_writes_a_report(run: Console, tmp_path: Path) -> None:
    recorded(tmp_path / "in" / "one.ndjson")
    recorded(tmp_path / "in" / "two.ndjson")
    assert run("check", tmp_path / "in", "--report", tmp_path / "out", "--format", "html,junit") == 1
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["junit.xml", "report.html", "report.json"]
    report = read_report(tmp_path / "out")
    assert [(tmp_path / "out" / str(scenario.transcript)).is_file() for scenario in report.scenarios] == [True, True]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "empty"),
        ("hello\n", "no transcript"),
        ('{"transcript": 2}\n', "format 2 is not known"),
        ('{"transcript": 1}\n{"dir": "up"}\n{"dir": "agent", "msg": {}}\n', ":2"),
        ('{"jsonrpc": "2.0"}\n', "no transcript"),
    ],
)
def test_a_file_that_is_no_transcript_says_so(run: Console, tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "x.ndjson"
    path.write_text(content)
    assert run("check", path) == 2
    assert says in run.err
    assert str(path) in run.err


def test_a_transcript_that_was_cut_is_judged_as_far_as_it_goes(run: Console, tmp_path: Path) -> None:
    path = recorded(tmp_path / "bad.ndjson")
    path.write_bytes(path.read_bytes()[:-20])
    assert run("check", path, "--format", "json") in (1, 3)
    assert "cut off" in json.loads(run.out)["scenarios"][0]["reason"]
    assert "cut off" in json.loads(run.out)["problems"][0]


# -- a report: explain, badge, compare, baseline


@pytest.fixture
def report(tmp_path: Path) -> Path:
    write_report(example_report(tmp_path / "acp-report"), tmp_path / "acp-report")
    return tmp_path / "acp-report"


def test_explain_shows_the_wire_around_the_proof(run: Console, report: Path) -> None:
    assert run("explain", report, "prompt.no-error-after-insertion") == 0
    assert "around it on the wire" in run.out
    assert '*     3     0.040  agent   <- #3 error -32000 "no credit"' in run.out


def test_explain_says_why_a_rule_was_not_exercised(run: Console, report: Path) -> None:
    assert run("explain", report, "cancel.odd") == 0
    assert "did not bring about: a cancel.odd situation" in run.out


def test_explain_names_the_closest_rule(run: Console, report: Path) -> None:
    assert run("explain", report, "cancel.od") == 2
    assert 'did you mean "cancel.odd"?' in run.err


def test_explain_without_its_transcript_still_explains(run: Console, report: Path) -> None:
    for path in (report / "transcripts").iterdir():
        path.unlink()
    assert run("explain", report, "prompt.no-error-after-insertion") == 0
    assert "the wire cannot be shown" in run.out


def test_badge_writes_svg_and_endpoint_json(run: Console, report: Path, tmp_path: Path) -> None:
    assert run("badge", report) == 0
    assert run.out.startswith("<svg")
    assert run("badge", report / "report.json", "-o", tmp_path / "b.json") == 0
    assert json.loads((tmp_path / "b.json").read_text())["message"] == "3/5 must, 1 failed"
    assert run("badge", report, "-o", tmp_path / "b.png") == 2


def test_compare_fails_when_a_must_rule_began_to_fail(run: Console, report: Path, tmp_path: Path) -> None:
    good = report_of(("prompt/identical", judgement(prompt__no_error_after_insertion=PASS)))
    write_report(good, tmp_path / "good")
    assert run("compare", tmp_path / "good", report) == 1
    assert "began to fail" in run.out
    assert run("compare", report, tmp_path / "good") == 0
    assert "mended (1)" in run.out
    assert run("compare", report, report, "--format", "json") == 0
    assert json.loads(run.out)["changes"] == []


def test_baseline_update_writes_what_run_reads(run: Console, report: Path, tmp_path: Path) -> None:
    file = tmp_path / "known.toml"
    assert run("baseline", "update", report, "--file", file) == 0
    assert "2 known failures, 2 added, 0 removed" in run.out
    file.write_text(file.read_text().replace("not yet looked into", "issue 12"))
    assert run("baseline", "update", report, "--file", file) == 0
    assert "2 known failures, 0 added, 0 removed" in run.out
    assert "issue 12" in file.read_text()


def test_baseline_without_update_says_what_to_type(run: Console) -> None:
    assert run("baseline", "acp-report") == 2
    assert "`acp-conformance baseline update acp-report`" in run.err


def test_baseline_update_refuses_a_run_that_could_not_work(run: Console, tmp_path: Path) -> None:
    write_report(report_of(("a", judgement())), tmp_path / "r")
    assert run("baseline", "update", tmp_path / "r") == 2
    assert "mend that first" in run.err


def test_rules_of_the_examples_are_named_like_real_ones() -> None:
    assert {rule.id.partition(".")[0] for rule in SOME_RULES} <= {
        "prompt",
        "state",
        "wire",
        "session",
        "cancel",
        "client",
    }


# -- run


def test_run_without_a_target_tests_the_reference_agent(run: Console, tmp_path: Path) -> None:
    assert run("run", "--scenario", "prompt/plain") == 0
    assert run.out.startswith("conformant")
    assert "the bundled reference agent" in run.out
    report = read_report(tmp_path / "acp-report")
    assert (report.target.kind, report.verdict) == ("reference", "conformant")
    assert (tmp_path / "acp-report" / "transcripts" / "prompt-plain.ndjson").is_file()


def test_check_gives_the_verdicts_of_the_run(run: Console, tmp_path: Path) -> None:
    assert run("run", "--scenario", "prompt/plain") == 0
    ran = read_report(tmp_path / "acp-report")
    assert run("check", tmp_path / "acp-report", "--report", tmp_path / "again") == 0
    checked = {rule.id: rule.status for rule in read_report(tmp_path / "again").rules}
    assert {rule.id: rule.status for rule in ran.rules} == {rule.id: checked[rule.id] for rule in ran.rules}


def test_run_writes_every_format_and_no_view_of_an_older_report_stays(run: Console, tmp_path: Path) -> None:
    formats = "html,junit,markdown,sarif,json,ndjson"
    assert run("run", "--scenario", "prompt/plain", "--format", formats, "-q") == 0
    assert run.out.count("\n") == 1
    names = {path.name for path in (tmp_path / "acp-report").iterdir()}
    assert names == {
        "transcripts",
        "report.json",
        "report.html",
        "report.md",
        "report.sarif",
        "report.ndjson",
        "junit.xml",
    }
    assert run("run", "--scenario", "prompt/plain") == 0
    assert {path.name for path in (tmp_path / "acp-report").iterdir()} == {"transcripts", "report.json"}


def test_an_agent_that_does_not_exist_is_incomplete(run: Console) -> None:
    assert run("run", "--agent", "no-such-agent --acp", "--scenario", "prompt/plain") == 3
    assert run.out.startswith("incomplete  0 of ")
    assert "no-such-agent" in run.out


def test_what_an_agent_that_exits_at_once_wrote_to_stderr_is_shown(run: Console, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("import sys; sys.exit('my config is missing')")
    assert run("run", "--agent", f"{shlex.quote(sys.executable)} agent.py", "--scenario", "prompt/plain") == 3
    assert "my config is missing" in run.out


def test_a_scenario_of_my_own_runs_from_its_file(run: Console) -> None:
    Path("mine.yaml").write_text("title: Mine\nsteps:\n  - connect: ada\n  - new-session: {by: ada, as: chat}\n")
    assert run("run", "--scenario", "mine.yaml") == 0


def failing_agent(folder: Path) -> str:
    """The reference agent, with info.version left out of its answer to initialize."""
    path = folder / "agent.py"
    path.write_text(
        "import json, subprocess, sys\n"
        f"agent = subprocess.Popen([sys.executable, {str(REFERENCE)!r}], stdout=subprocess.PIPE)\n"
        "for line in agent.stdout:\n"
        "    message = json.loads(line)\n"
        "    message.get('result', {}).get('info', {}).pop('version', None)\n"
        "    print(json.dumps(message), flush=True)\n"
    )
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(path))}"


def test_from_a_red_gate_to_the_faulty_line_by_the_report_alone(run: Console, tmp_path: Path) -> None:
    agent = failing_agent(tmp_path)
    assert run("run", "--agent", agent, "--scenario", "prompt/plain", "--format", "html") == 1
    assert run.out.startswith("nonconformant")
    assert "FAIL  init.info" in run.out
    assert "run again   acp-conformance run --agent" in run.out
    assert run("explain", "acp-report", "init.info") == 0
    assert "#1 result" in run.out or "initialize" in run.out


def test_a_baseline_of_the_failure_makes_the_gate_green_and_says_so(run: Console, tmp_path: Path) -> None:
    agent = failing_agent(tmp_path)
    arguments = ["run", "--agent", agent, "--scenario", "prompt/plain"]
    assert run(*arguments) == 1
    assert run("baseline", "update", "acp-report") == 0
    assert run(*arguments, "--baseline", "acp-baseline.toml") == 0
    assert run.out.startswith("nonconformant")
    assert "findings are known, 0 violations are new" in run.out
    assert run("run", "--scenario", "prompt/plain", "--baseline", "acp-baseline.toml") == 0
    assert "no longer fails, remove it from the baseline: init.info" in run.out
    assert run("run", "--scenario", "prompt/plain", "--baseline", "acp-baseline.toml", "--strict") == 1


def test_what_the_profile_expects_to_fail_is_known_too(run: Console, tmp_path: Path) -> None:
    words = json.dumps(shlex.split(failing_agent(tmp_path)))
    expected = '[expect]\n"init.info" = "issue 12"\n'
    Path("acp-conformance.toml").write_text(f"[agent]\ncommand = {words}\n{expected}")
    Path("mine.yaml").write_text("title: Mine\nsteps:\n  - connect: ada\n")
    assert run("run", "--scenario", "mine.yaml") == 0
    assert "known       issue 12" in run.out
    Path("b.toml").write_text('[[known]]\nrule = "init.info"\nscenario = "mine.yaml"\nreason = "x"\n')
    assert run("run", "--scenario", "mine.yaml", "--baseline", "b.toml") == 0


def test_a_stale_baseline_entry_is_wrong_usage(run: Console) -> None:
    Path("b.toml").write_text('[[known]]\nrule = "prompt.gone"\nreason = "x"\n')
    assert run("run", "--baseline", "b.toml") == 2
    assert 'stale entry: there is no rule "prompt.gone"' in run.err


def test_the_profile_in_the_folder_is_used(run: Console, tmp_path: Path) -> None:
    words = json.dumps([sys.executable, str(REFERENCE)])
    Path("acp-conformance.toml").write_text(f"[agent]\ncommand = {words}\n")
    assert run("run", "--scenario", "prompt/plain") == 0
    assert read_report(tmp_path / "acp-report").target.kind == "agent"


# -- init


def test_init_tries_the_agent_and_writes_profile_and_workflow(run: Console, tmp_path: Path) -> None:
    assert run("init", "--agent", f"{shlex.quote(sys.executable)} {shlex.quote(str(REFERENCE))}") == 0
    assert "reference-agent" in run.out
    assert (tmp_path / ".github" / "workflows" / "acp-conformance.yml").is_file()
    assert run("run", "--scenario", "prompt/plain", "-q") == 0
    assert run("init", "--agent", "x", "--no-try") == 2
    assert "--force overwrites it" in run.err


def test_init_writes_nothing_for_an_agent_that_does_not_start(run: Console, tmp_path: Path) -> None:
    assert run("init", "--agent", "no-such-agent") == 2
    assert "no-such-agent" in run.err
    assert list(tmp_path.iterdir()) == []


def test_init_says_that_a_key_would_be_in_the_file(run: Console) -> None:
    assert run("init", "--agent", "agent --api-key sk-abcdefghijklmnop", "--no-try", "--no-workflow") == 0
    assert "--api-key" in run.err
    assert "sk-abc" not in run.err + run.out
    assert run("init", "--agent", "agent --verbose", "--no-try", "--no-workflow", "--force") == 0
    assert "careful" not in run.err


# -- tap


def test_tap_passes_every_byte_and_judges_at_the_end(tmp_path: Path) -> None:
    odd = b'{ "jsonrpc":"2.0",  "id":1,\t"method":"initialize","params":{}}\r\n\xff\xfe not json\n{"a":1'
    echo = "import sys; data = sys.stdin.buffer.read(); sys.stdout.buffer.write(data[::-1]); sys.exit(7)"
    done = subprocess.run(
        [sys.executable, "-m", "conformance", "tap", "--record", "tap", "--", sys.executable, "-c", echo],
        input=odd,
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert done.stdout == odd[::-1]
    assert done.returncode == 7
    (transcript,) = (tmp_path / "tap" / "transcripts").iterdir()
    assert transcript.read_text().count('"dir":"client"') == 3
    report = read_report(tmp_path / "tap")
    assert report.rule("wire.only-messages-on-stdout").status == "fail"
    assert b"nonconformant" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="editors end processes in another way there")
def test_an_editor_that_terminates_the_tap_ends_the_agent_and_gets_the_report(tmp_path: Path) -> None:
    agent = "import os, sys; print(os.getpid(), flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-m", "conformance", "tap", "-q", "--", sys.executable, "-c", agent],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as tap:
        pid = int(tap.stdout.readline())
        tap.terminate()
        assert tap.wait(30) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert read_report(tmp_path / "acp-tap").verdict == "nonconformant"


def test_tap_says_when_the_agent_cannot_be_started(run: Console) -> None:
    assert run("tap", "--", "no-such-agent") == 2
    assert "no-such-agent" in run.err


# -- on a terminal


def terminal(arguments: list[str], cwd: Path, **environment: str) -> Any:
    pexpect = pytest.importorskip("pexpect")  # not on Windows
    env = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")}
    env |= {"TERM": "xterm-256color", "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    command = [sys.executable, "-m", "conformance", *arguments]
    return pexpect.spawn(
        command[0], command[1:], cwd=str(cwd), env=env, timeout=60, dimensions=(40, 90), encoding="utf-8"
    )


def test_on_a_terminal_there_is_progress_and_then_the_report_in_colour(tmp_path: Path) -> None:
    child = terminal(["run", "--scenario", "prompt/plain"], tmp_path)
    child.expect("0/1")
    child.expect("\x1b\\[1;32mconformant\x1b\\[0m")
    child.expect("report.json")
    child.expect_exact(["\r\n"])
    child.wait()
    assert child.exitstatus == 0


def test_on_a_terminal_no_line_of_prose_is_wider_than_it(tmp_path: Path) -> None:
    recorded(tmp_path / "bad.ndjson")
    child = terminal(["check", "bad.ndjson"], tmp_path, NO_COLOR="1")
    text = child.read()
    lines = text.splitlines()
    assert "nonconformant" in lines[0]
    assert max(map(len, lines)) <= 90
    assert "\x1b" not in text


def test_ctrl_c_leaves_with_130_and_the_report_so_far(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("import sys\nprint('x', flush=True)\nsys.stdin.read()\n")
    child = terminal(
        ["run", "--agent", f"{shlex.quote(sys.executable)} agent.py", "--scenario", "prompt/plain"], tmp_path
    )
    child.expect("prompt/plain")
    transcript = tmp_path / "acp-report" / "transcripts" / "prompt-plain.ndjson"
    while not (transcript.is_file() and '"raw":"x"' in transcript.read_text()):
        assert child.isalive()
    child.sendintr()
    child.expect("report.json")
    child.read()
    child.wait()
    assert child.exitstatus == 130
    report = read_report(tmp_path / "acp-report")
    assert any("interrupted" in problem for problem in report.problems)


def test_a_violation_of_the_example_is_a_violation() -> None:
    event = doomed_prompt(Wire())[0]
    assert report_of(("a", judgement(state__paired=found(violation("!", event))))).verdict == "nonconformant"


@pytest.mark.parametrize(("given", "seconds"), [("2", 30.0), ("0.5", 7.5), ("45s", 45.0), ("3x", 45.0)])
def test_patience_is_a_factor_of_the_profile_s_or_seconds(given: str, seconds: float) -> None:
    from conformance.commands.options import Patience, patience_of

    context = click.Context(click.Command("run"))
    patience = patience_of(context, click.Option(["--patience"]), given)
    assert isinstance(patience, Patience)
    assert patience.seconds(15.0) == seconds
