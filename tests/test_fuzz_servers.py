"""The fuzzer and agents over WebSocket: one server, any number of clients."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from pathlib import Path

import pytest

from conformance.cli import status_of
from conformance.fuzz.campaign import Campaign
from conformance.fuzz.findings import Failure
from conformance.fuzz.live import Live
from conformance.fuzz.playing import on_fresh, on_live
from conformance.fuzz.progress import Options
from conformance.fuzz.verdicts import Signature
from conformance.fuzz.writing import Steps, scenario_of
from conformance.history import Recorder
from conformance.peers.launch import free_port
from conformance.peers.server import start_server
from conformance.profile import Sessions, load_profile
from conformance.resources import folder
from tests.test_fuzz_campaign import PATIENCE, PROMPT, played, updates, violations

TWO: Steps = [
    {"connect": "ada"},
    {"new-session": {"by": "ada", "as": "s1"}},
    {"connect": "bob"},
    {"resume": {"by": "bob", "in": "s1", "replay": "start"}},
    {"prompt": {"by": "ada", "in": "s1", "as": "p1"}},
    {"wait": {"response": "p1"}},
    {"cut": {"by": "ada"}},
    {"connect": "ada"},
    {"resume": {"by": "ada", "in": "s1", "replay": "start"}},
]


def test_a_second_client_comes_to_the_same_server() -> None:
    profile = load_profile("reference-websocket")
    both, after = played(profile, [TWO, PROMPT])
    assert violations(both) == violations(after) == []
    told = {event.conn for event in both.history if updates(event) and "user_message" in str(event.message)}
    assert told == {"ada", "bob", "ada#2"}


def test_a_server_goes_on_when_a_line_is_lost() -> None:
    profile, servers = load_profile("reference-websocket"), []

    async def play() -> list[str]:
        live = await Live.begin(profile, seed=1, patience=PATIENCE)
        wrong = []
        try:
            for steps in (TWO, PROMPT, [*PROMPT, {"restart": {"by": "ada"}}]):
                ran = await on_live(live, scenario_of(steps, "fuzz/1"), patience=PATIENCE, quiet_window=0.03)
                wrong += violations(ran)
                servers.append(live.is_spent and not await live.renewed())
        finally:
            await live.end()
        return wrong

    assert asyncio.run(play()) == []
    assert servers == [False, False, True]  # a server that was restarted is another one


@pytest.mark.parametrize("how", ["close", "cut"])
def test_a_restart_of_the_server_ends_all_that_it_served(how: str) -> None:
    steps: Steps = [{"connect": "ada"}, {"connect": "bob"}, {"restart": {"by": "ada", "how": how}}]
    ran = asyncio.run(on_fresh(load_profile("reference-websocket"), scenario_of(steps, "x"), seed=1))
    assert violations(ran) == []
    ends = [(event.conn, event.name) for event in ran.history if event.name in ("closed", "cut", "disconnected")]
    ours = "closed" if how == "close" else "cut"
    assert ends == [("ada", ours), ("bob", ours), ("ada#2", "closed")]


def test_a_campaign_tries_an_agent_as_a_server_too() -> None:
    profile = load_profile("reference")

    def told(campaign: Campaign) -> None:
        seen.update(situation for situation, *_ in campaign.corpus.seen if "two clients" in situation)
        if seen:
            asyncio.get_running_loop().call_soon(running[0].cancel)

    seen: set[str] = set()
    running: list[asyncio.Task[bool]] = []

    async def tried() -> None:
        options = Options(budget=120, seed=1, jobs=1, layers=("sequence",), patience=PATIENCE)
        campaign = Campaign(dataclasses.replace(profile, sessions=Sessions()), options, told)
        running.append(asyncio.create_task(campaign.run()))
        await running[0]

    asyncio.run(tried())
    assert seen


def test_what_a_server_showed_is_run_with_a_server() -> None:
    failure = Failure(1, Signature("fuzz.no-crash", "it ends"), "it crashed", PROMPT, is_served=True)
    assert "needs: [websocket]" in failure.text()
    assert "websocket" not in dataclasses.replace(failure, is_served=False).text()


def test_a_server_that_does_not_start_is_left_out() -> None:
    profile = load_profile("reference")
    agent = dataclasses.replace(profile.agent, server=(sys.executable, "-c", "raise SystemExit('no server')"))
    campaign = Campaign(
        dataclasses.replace(profile, agent=agent),
        Options(budget=3, seed=1, jobs=1, layers=("envelope",), patience=PATIENCE),
        lambda campaign: None,
    )
    assert asyncio.run(campaign.run())
    assert "no server" in campaign.progress.note
    assert campaign.progress.problem == ""
    assert campaign.progress.failures == []


def test_a_running_server_is_tried(tmp_path: Path) -> None:
    async def tried() -> int:
        child = await start_server(
            [sys.executable, str(folder("fixtures") / "agents" / "reference.py"), "--listen", f"127.0.0.1:{port}"],
            url=f"ws://127.0.0.1:{port}",
            recorder=Recorder(),
        )
        try:
            arguments = ["fuzz", "--url", f"ws://127.0.0.1:{port}", "--budget", "2s", "--jobs", "1", "--seed", "1"]
            return await asyncio.to_thread(status_of, [*arguments, "--report", str(tmp_path), "-q"])
        finally:
            await child.stop()

    port = free_port()
    assert asyncio.run(tried()) == 0
    told = json.loads((tmp_path / "report.json").read_text())
    assert told["target"]["kind"] == "url"
    assert told["counts"]["must"]["exercised"] > 10
