"""Profiles: what they hold, and what an author is told who got one wrong."""

import sys
from pathlib import Path

import pytest

from conformance.peers import AgentDidNotStart
from conformance.peers.launch import PEERS_DIR, find_program, prepare
from conformance.profile import (
    Profile,
    ProfileError,
    built_in_profiles,
    find_profile,
    load_profile,
    with_command,
    with_url,
)


def written(folder: Path, text: str, name: str = "acp-conformance.toml") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def refused(folder: Path, text: str, name: str = "acp-conformance.toml") -> str:
    with pytest.raises(ProfileError) as error:
        load_profile(written(folder, text, name))
    return str(error.value)


def test_every_built_in_profile_can_be_read() -> None:
    assert "reference" in built_in_profiles()
    for name in built_in_profiles():
        profile = load_profile(name)
        assert profile.name == name
        assert profile.agent.command


def test_a_whole_profile(tmp_path: Path) -> None:
    profile = load_profile(
        written(
            tmp_path,
            """
            [agent]
            command = "agent --name 'two words'"
            cwd = "{workdir}"
            env = { HOME = "{workdir}" }
            startup-timeout = 5
            install = "pip install agent"
            [agent.files]
            "conf/config.toml" = 'url = "{model.url}" # {braces}'
            [model]
            api = "anthropic-messages"
            env = { ANTHROPIC_BASE_URL = "{model.origin}" }
            [triggers]
            local-command = "/status"
            [sessions]
            shared = true
            [limits]
            patience = 3
            hold-window = 0.5
            max-line = "1 MiB"
            max-memory = "none"
            [expect]
            "wire.utf8" = "known, see the tracker"
            """,
        )
    )
    assert profile.agent.command == ("agent", "--name", "two words")
    assert profile.agent.startup_timeout == 5.0
    assert profile.model is not None
    assert profile.model.api == "anthropic-messages"
    assert profile.triggers == {"local-command": "/status"}
    assert (profile.sessions.shared, profile.sessions.survives_restart) == (True, False)
    limits = profile.limits
    assert (limits.patience, limits.hold_window, limits.max_line, limits.max_memory) == (3.0, 0.5, 1024**2, None)
    assert profile.expect == {"wire.utf8": "known, see the tracker"}
    assert profile.name == tmp_path.name


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ('[agnet]\ncommand = "x"', 1, "unknown section 'agnet'; did you mean 'agent'?"),
        ('[agent]\n\ncomand = "x"', 3, "agent.comand: unknown key 'comand'; did you mean 'command'?"),
        ("[agent]\ncommand = 7", 2, "must be a text or a list of texts, is 7"),
        ("[agent]\ncommand = []", 2, "is empty"),
        ('[agent]\ncommand = "it\'s"', 2, "No closing quotation"),
        ('[agent]\ncommand = "x"\n[agent.env]\nA = 1', 4, "agent.env.A: must be a text, is 1"),
        ('agent.command = "x"\nagent.startup-timeout = true', 2, "must be a number of seconds above 0, is true"),
        ('[agent]\ncommand = "x {workdirr}"', 2, "unknown template {workdirr}; did you mean 'workdir'?"),
        ('[agent]\ncommand = "x {model.url}"', 2, "has no [model]"),
        ('[agent]\ncommand = "x"\ntransport = "websocket"', 3, "needs a url"),
        ('[agent]\ncommand = "x"\nurl = "ws://x"', 3, 'needs transport = "websocket"'),
        ('[agent]\n[agent.files]\n"../x" = "y"', 3, "below the workdir"),
        ('[model]\napi = "openai"', 2, "'openai' is none of"),
        ("[model]\nenv = {}", 1, "the api is missing"),
        ('[triggers]\nlocal = "/x"', 2, "unknown key 'local'; did you mean 'local-command'?"),
        ('[sessions]\nshared = "yes"', 2, "must be true or false, is 'yes'"),
        ("[limits]\npatience = 0", 2, "above 0"),
        ('[limits]\nmax-line = "many"', 2, 'such as 1048576 or "16 MiB"'),
        ("[limits]\nmax-events = 1.5", 2, "whole number"),
        ("[expect]\n'wire.utf8' = 1", 2, "must be a text"),
        ("agent = 3", 1, "must be a table, is 3"),
        ("[agent\n", 1, "not TOML"),
        ("[agent]\nfiles = { x = '''\n[limits]\npatience = 0\n''' }\n[limits]\npatience = 0\n", 7, "above 0"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_a_way_out(tmp_path: Path, text: str, line: int, says: str) -> None:
    message = refused(tmp_path, text)
    assert says in message
    assert message.startswith(f"{tmp_path / 'acp-conformance.toml'}:{line}: ")


def test_the_table_of_a_pyproject(tmp_path: Path) -> None:
    text = '[project]\nname = "x"\n[tool.acp-conformance.agent]\ncommand = "x"\n'
    profile = load_profile(written(tmp_path, text, "pyproject.toml"))
    assert profile.agent.command == ("x",)
    message = refused(tmp_path, text + "cwdd = 'y'\n", "pyproject.toml")
    assert "pyproject.toml:5: agent.cwdd: unknown key 'cwdd'; did you mean 'cwd'?" in message
    assert "no table [tool.acp-conformance]" in refused(tmp_path, "[project]\n", "pyproject.toml")


def test_the_profile_of_a_project_is_found(tmp_path: Path) -> None:
    assert find_profile(tmp_path) is None
    written(tmp_path, "[tool.other]\n", "pyproject.toml")
    assert find_profile(tmp_path) is None
    written(tmp_path, '[tool.acp-conformance.agent]\ncommand = "from-pyproject"\n', "pyproject.toml")
    found = find_profile(tmp_path)
    assert found is not None
    assert found.agent.command == ("from-pyproject",)
    written(tmp_path, '[agent]\ncommand = "own-file"\n')
    found = find_profile(tmp_path)
    assert found is not None
    assert found.agent.command == ("own-file",)


@pytest.mark.parametrize(
    ("name", "says"),
    [("referense", "did you mean 'reference'"), ("nothing-like-it", "built in: "), ("no/such.toml", "no such file")],
)
def test_an_unknown_profile_names_the_known_ones(name: str, says: str) -> None:
    with pytest.raises(ProfileError, match=says):
        load_profile(name)


def test_the_command_line_names_the_agent() -> None:
    assert with_command(Profile(), "agent 'a b'").agent.command == ("agent", "a b")
    assert with_url(Profile(), "ws://127.0.0.1:1").agent.transport == "websocket"
    for wrong in ("", "it's"):
        with pytest.raises(ProfileError):
            with_command(Profile(), wrong)


def test_a_launch_fills_templates_and_writes_files_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_OUTSIDE", "kept")
    profile = load_profile(
        written(
            tmp_path,
            """
            [agent]
            command = ["{python}", "x.py", "--in", "{workdir}"]
            cwd = "{workdir}"
            env = { WHERE = "{workdir}/home", BRACES = "{ x }" }
            files = { "a/b.json" = '{"url": "{model.url}", "other": {}}' }
            [model]
            api = "openai-chat"
            env = { BASE = "{model.origin}/x" }
            """,
        )
    )
    workdir = tmp_path / "work"
    launch = prepare(profile, workdir=workdir, model_origin="http://127.0.0.1:9")
    assert launch.command == (sys.executable, "x.py", "--in", str(workdir))
    assert launch.cwd == workdir
    assert launch.env["WHERE"] == f"{workdir}/home"
    assert launch.env["BRACES"] == "{ x }"
    assert launch.env["BASE"] == "http://127.0.0.1:9/x"
    assert launch.env["FROM_OUTSIDE"] == "kept"
    assert (workdir / "a" / "b.json").read_text() == '{"url": "http://127.0.0.1:9/v1", "other": {}}'
    (workdir / "a" / "b.json").write_text("changed by the agent")
    prepare(profile, workdir=workdir, model_origin="http://127.0.0.1:10")
    assert (workdir / "a" / "b.json").read_text() == "changed by the agent"


def test_a_program_is_found_among_installed_peers_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(folder: Path) -> None:
        program = folder / "some-agent"
        folder.mkdir(parents=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)

    on_path, project, peers = tmp_path / "path", tmp_path / "project", tmp_path / "peers"
    env = {"PATH": str(on_path), PEERS_DIR: str(peers)}
    assert find_program("some-agent", env, project) is None
    for folder in (on_path, project / "node_modules" / ".bin", peers / "node_modules" / ".bin"):
        assert find_program("some-agent", env, project) != folder / "some-agent"
        installed(folder)
        assert find_program("some-agent", env, project) == folder / "some-agent"
    monkeypatch.setenv(PEERS_DIR, str(peers))
    launch = prepare(with_command(Profile(), "some-agent"), workdir=tmp_path / "work", model_origin=None)
    assert launch.env["PATH"].startswith(str(peers / "node_modules" / ".bin"))


def test_what_is_not_installed_says_the_command_that_installs_it(tmp_path: Path) -> None:
    profile = load_profile(written(tmp_path, '[agent]\ncommand = "no-such-agent"\ninstall = "npm i no-such-agent"'))
    with pytest.raises(AgentDidNotStart, match="install it: npm i no-such-agent"):
        prepare(profile, workdir=tmp_path / "work", model_origin=None)
    with pytest.raises(AgentDidNotStart, match="--agent"):
        prepare(Profile(), workdir=tmp_path / "work", model_origin=None)
