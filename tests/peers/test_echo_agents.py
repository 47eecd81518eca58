"""The suite on agents over the two official SDKs. The agents keep the rules, so what fails is a fault of the SDK."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers.running import check_known, need_package, need_python_sdk, run

pytestmark = [pytest.mark.peers, pytest.mark.slow]

TYPESCRIPT = {
    "cancel.idle-session-is-quiet": "a prompt is given to its handler before the session/cancel that came before it: "
    "each handler that does not match costs a turn of the event loop, and messages do not wait for each other",
}
PYTHON = {
    "init.version": "other versions than 2 are refused with -32602",
    "replay.bad-cursor-rejected": "a malformed replayFrom is dropped, one without a type is taken for the start",
    "session.unsupported-mcp-rejected": "an MCP server without a command is dropped, and the session created",
    "wire.invalid-params": "the same, and a text block without text is never answered: a ValueError within the SDK",
    "wire.parse-error": "a line that is no JSON is passed over in silence",
    "wire.array-is-answered": "an array is passed over in silence",
}


def test_an_agent_over_the_typescript_sdk(tmp_path: Path) -> None:
    need_package("@agentclientprotocol/sdk")
    need_package("ws")
    ran = run("ts-sdk", tmp_path / "report")
    check_known(ran, TYPESCRIPT)
    assert ran.exercised("must") >= 55  # 57 were, the scenarios of several clients over WebSocket among them


def test_an_agent_over_the_python_sdk(tmp_path: Path) -> None:
    need_python_sdk()
    ran = run("python-sdk", tmp_path / "report")
    check_known(ran, PYTHON)
    assert ran.exercised("must") >= 48  # 51 were
