"""What looks like a secret is in nothing that the suite writes, whatever an agent does with what it finds."""

import base64
import html
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.cli import status_of
from conformance.history import Recorder, Redactor, read_transcript
from conformance.history.command_secrets import command_secrets
from conformance.wire import LineReader
from tests.hostile import ATTACKS, HOSTILE, Seen, examine

PLANTED = {
    "PLANTED_API_KEY": "sk-planted-0123456789abcdef",
    "DEPLOY_TOKEN": "tok\"en\\with<odd>&'signs-91",
    "DATABASE_URL": "postgres://ada:planted-password-77@db.example/x",
    "SIGNING_SECRET": "---BEGIN---\nplantedMIIBVQIBADANBgkqhkiG9w0\nplantedBAQEFAASCAT8wggE7AgEA\n---END---",
    "ORDINARY_NAME": "ghp_planted0123456789abcdefABCDEF",
    "COOKIE_JAR": "geheim-ümläut-sëcret-42",
}
COMMAND = ("--api-key", "planted-on-the-command-line", "TOKEN=planted-after-a-name", "ws://x/?token=planted-in-a-query")
SECRETS = (
    "planted-on-the-command-line",
    "planted-after-a-name",
    "planted-in-a-query",
    "sk-planted-0123456789abcdef",
    PLANTED["DEPLOY_TOKEN"],
    "planted-password-77",
    "plantedMIIBVQIBADANBgkqhkiG9w0",
    "plantedBAQEFAASCAT8wggE7AgEA",
    "ghp_planted0123456789abcdefABCDEF",
    "geheim-ümläut-sëcret-42",
    "planted-in-a-header-1234567890",
    "planted-api-key-987654",
    "planted-basic-credentials",
)
HOME = "/home/planted-person"
FORMATS = "json,html,junit,markdown,sarif,ndjson"
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="the hostile agents are written for POSIX")


def forms(secret: str) -> Iterator[str]:
    """How a text may stand in a file: as it is, in JSON, in JSON of ASCII, in HTML or XML, and these within another."""
    for text in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        yield text
        yield json.dumps(text)[1:-1]
        yield html.escape(text)
        yield html.escape(text, quote=False)
        yield text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@pytest.fixture(scope="module")
def robbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Seen, Path]:
    place = tmp_path_factory.mktemp("robbed")
    seen = examine(ATTACKS["steals"], place, formats=FORMATS, environment={**PLANTED, "HOME": HOME}, words=COMMAND)
    return seen, place / "report"


@POSIX
def test_the_thief_was_there_and_masks_stand_where_secrets_stood(robbed: tuple[Seen, Path]) -> None:
    seen, report = robbed
    assert list(seen.disagreements()) == []
    text = (report / "transcripts" / "prompt-plain.ndjson").read_text(encoding="utf-8")
    for name in (*PLANTED, "--api-key", "TOKEN", "token"):
        assert f"[{name}]" in text
    assert "Authorization" in text
    assert sorted(path.name for path in report.iterdir()) == [
        "junit.xml",
        "report.html",
        "report.json",
        "report.md",
        "report.ndjson",
        "report.sarif",
        "transcripts",
    ]


@POSIX
def test_no_file_and_no_terminal_shows_a_secret(robbed: tuple[Seen, Path]) -> None:
    seen, report = robbed
    assert leaks(report, seen.output, *SECRETS, HOME) == []


def leaks(report: Path, terminal: str, *secrets: str) -> list[tuple[str, str]]:
    """(file, secret) for each secret that stands in a file of the report, or on the terminal."""
    files = [path for path in report.rglob("*") if path.is_file()]
    shown = {path.name: path.read_text(encoding="utf-8") for path in files} | {"terminal": terminal}
    return [(name, each) for each in secrets for name, text in shown.items() for form in forms(each) if form in text]


@POSIX
def test_neither_does_a_run_that_was_told_them_on_its_own_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = [sys.executable, str(HOSTILE / "agent.py"), "answers-unasked", "--verbose", *COMMAND]
    arguments = ["run", "--agent", shlex.join(agent), "--scenario", "prompt/plain", "--report", str(tmp_path)]
    assert status_of([*arguments, "--format", FORMATS]) == 1
    said = capsys.readouterr()
    assert leaks(tmp_path, said.out + said.err, *SECRETS) == []
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert "--verbose --api-key [--api-key] TOKEN=[TOKEN]" in report["target"]["command"]
    (again,) = {finding["rerun"] for rule in report["rules"] for finding in rule["findings"]}
    assert "[--api-key]" in again


@POSIX
def test_bytes_that_are_no_text_are_masked_too(robbed: tuple[Seen, Path]) -> None:
    lines = (robbed[1] / "transcripts" / "prompt-plain.ndjson").read_text(encoding="utf-8").splitlines()
    raw = [base64.b64decode(line["raw64"]) for line in map(json.loads, lines) if "raw64" in line]
    assert any(b"[PLANTED_API_KEY]" in data for data in raw)
    assert not any(secret.encode() in data for secret in (*SECRETS, HOME) for data in raw)


@POSIX
def test_a_masked_transcript_gives_the_verdicts_of_the_run(robbed: tuple[Seen, Path]) -> None:
    from conformance.recorded import check

    seen, report = robbed
    names = sorted((report / "transcripts").iterdir())
    checked = check(names, lambda event: None)
    assert {rule.id for rule in checked.rules if rule.status == "fail" and rule.party == "agent"} == set(seen.failed)


# -- what is a secret


@pytest.mark.parametrize(
    ("command", "secrets"),
    [
        ("agent --acp --api-key s3cret-value", {"s3cret-value": "--api-key"}),
        ("agent --api-key=s3cret-value", {"s3cret-value": "--api-key"}),
        ("env API_TOKEN=s3cret-value agent", {"s3cret-value": "API_TOKEN"}),
        ("agent -H 'Authorization: Bearer s3cret-value'", {"s3cret-value": "Authorization"}),
        ("agent -H 'X-Api-Key: s3cret-value'", {"s3cret-value": "X-Api-Key"}),
        ("agent sk-0123456789abcdef", {"sk-0123456789abcdef": "key"}),
        (
            "sh -c 'KEY=s3cret-value exec agent --password \"two words\"'",
            {"s3cret-value": "KEY", "two words": "--password"},
        ),
        ("wss://agent.example/acp?token=s3cret-value&x=1", {"s3cret-value": "token"}),
        ("wss://ada:s3cret-value@agent.example/acp", {"s3cret-value": "password"}),
        ("agent --author 'Ada Lovelace' --max-tokens 10000000 --key-file /etc/agent.key --no-token --acp", {}),
        ("agent --api-key short --model a-long-model-name 'an argument of words'", {}),
    ],
)
def test_what_is_secret_on_a_command_line(command: str, secrets: dict[str, str]) -> None:
    assert command_secrets(shlex.split(command)) == secrets


@pytest.mark.parametrize(
    ("name", "value", "masked"),
    [
        ("API_KEY", "0123456789", "[API_KEY]"),
        ("API_KEY", "short", "short"),
        ("SSH_AUTH_SOCK", "/tmp/agent.sock", "/tmp/agent.sock"),
        ("EDITOR", "emacs-with-a-long-name", "emacs-with-a-long-name"),
        ("WHATEVER", "sk-ant-0123456789abcdef", "[WHATEVER]"),
        ("PROXY", "http://ada:passw0rd@proxy:80", "http://ada:[PROXY]@proxy:80"),
        ("PROXY", "http://proxy:80", "http://proxy:80"),
    ],
)
def test_a_value_is_a_secret_by_its_name_or_its_look(name: str, value: str, masked: str) -> None:
    assert Redactor({name: value}).text(value) == masked


def test_what_a_profile_gives_is_masked_where_it_looks_like_a_key_only() -> None:
    redactor = Redactor(given={"OPENAI_API_KEY": "scripted", "OTHER_API_KEY": "a1b2c3d4e5f6a7b8"})
    assert redactor.text("scripted a1b2c3d4e5f6a7b8") == "scripted [OTHER_API_KEY]"


@pytest.mark.parametrize("kept", range(6, 16))
def test_what_a_cut_leaves_of_a_secret_is_masked(kept: int) -> None:
    redactor = Redactor({"API_KEY": "0123456789abcdef"})
    assert redactor.cut("found " + "0123456789abcdef"[:kept]) == "found [API_KEY]"
    assert redactor.cut("0123456789abcdef"[-kept:] + " was found") == "[API_KEY] was found"


def test_a_line_that_was_cut_within_a_secret_is_masked(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "t.ndjson", redactor=Redactor({"API_KEY": "0123456789abcdef"}))
    for envelope in LineReader(max_line=20).feed(b"x" * 10 + b"0123456789abcdef\n"):
        recorder.wire("ada", "agent", envelope)
    recorder.close()
    assert "0123456" not in (tmp_path / "t.ndjson").read_text(encoding="utf-8")
    assert len(read_transcript(tmp_path / "t.ndjson")) == 1


def test_deep_nesting_hides_no_secret(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "t.ndjson", redactor=Redactor({"API_KEY": "0123456789abcdef"}))
    deep = b'{"a":' * 490 + b'"0123456789abcdef"' + b"}" * 490
    (envelope,) = LineReader().feed(b'{"jsonrpc":"2.0","method":"_x","params":' + deep + b"}\n")
    recorder.wire("ada", "agent", envelope)
    recorder.close()
    text = (tmp_path / "t.ndjson").read_text(encoding="utf-8")
    assert "0123456789abcdef" not in text
    assert "[API_KEY]" in text
