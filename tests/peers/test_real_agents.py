"""The suite on real coding agents, with the scripted model in place of their providers. Each finding of the tables was
confirmed by hand from its transcript; races do not fail every time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers.running import check_known, need_package, run

pytestmark = [pytest.mark.peers, pytest.mark.slow]

CODEX = {
    "wire.open-enum-values": "the config option category 'collaboration_mode' has no leading underscore",
    "cancel.request-before-insertion": "-32800 for a prompt whose message is reported a moment later (a race)",
    "prompt.no-error-after-insertion": "a resume hides the echo it waits for: -32603, and the replay tells the prompt",
}
CLAUDE = {
    "replay.no-doubled-content": "two replays at once share one reset: the chunks of both are appended",
}


def test_codex(tmp_path: Path) -> None:
    need_package("@agentclientprotocol/codex-acp")
    ran = run("codex", tmp_path / "report")
    check_known(ran, CODEX)
    assert ran.exercised("must") >= 65  # 69 were


def test_claude(tmp_path: Path) -> None:
    need_package("@agentclientprotocol/claude-agent-acp")
    ran = run("claude", tmp_path / "report")
    check_known(ran, CLAUDE)
    assert ran.exercised("must") >= 65  # 69 were
