"""Campaigns against the reference agent and its faulty kin: what is found, what is not, and what is kept."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from random import Random

import pytest

from conformance.cli import status_of
from conformance.fuzz.campaign import Campaign
from conformance.fuzz.findings import Failure, load
from conformance.fuzz.investigating import Confirmed, Investigation
from conformance.fuzz.live import CLIENT, Live
from conformance.fuzz.playing import Ran, on_fresh, on_live
from conformance.fuzz.progress import LAYERS, Made, Options
from conformance.fuzz.reporting import status_line
from conformance.fuzz.situations import triples
from conformance.fuzz.trying import Shown, Trial
from conformance.fuzz.verdicts import LEFTOVER, Signature, decided, findings, rules
from conformance.fuzz.world import world_of
from conformance.fuzz.writing import Steps, scenario_of
from conformance.history import read_transcript
from conformance.peers import Connection
from conformance.profile import AgentSection, Profile
from conformance.resources import folder
from conformance.rules import RULES
from conformance.rules.registry import violation
from conformance.scenario.lives import Lives
from conformance.scenario.loader import load as load_scenario
from tests.fuzz_seeded import FAULTS, faulty, of_agent, sought
from tests.story import Story

PATIENCE = 10.0


def reference(*arguments: str) -> Profile:
    return of_agent("reference.py", *arguments)


def violations(ran: Ran) -> list[str]:
    judgement = decided(ran.history, rules(strict=False))
    assert [outcome.broken for outcome in judgement.values() if outcome.broken] == []
    return [str(signature) for signature, _ in findings(judgement, ran.history)]


def played(profile: Profile, sequences: list[Steps]) -> list[Ran]:
    """One after the other on one live process, which is replaced where a sequence ends it."""

    async def play() -> list[Ran]:
        live = await Live.begin(profile, seed=1, patience=PATIENCE)
        runs = []
        try:
            for number, steps in enumerate(sequences):
                if live.is_spent:
                    await live.end()
                    live = await Live.begin(profile, seed=1, patience=PATIENCE)
                scenario = scenario_of(steps, f"fuzz/{number}")
                runs.append(await on_live(live, scenario, patience=PATIENCE, quiet_window=0.03))
        finally:
            await live.end()
        return runs

    return asyncio.run(play())


PROMPT: Steps = [
    {"connect": "ada"},
    {"new-session": {"by": "ada", "as": "s1"}},
    {"prompt": {"by": "ada", "in": "s1", "as": "p1"}},
]


class TestLive:
    def test_each_sequence_has_a_history_of_its_own(self) -> None:
        first, second = played(reference(), [PROMPT, PROMPT])
        for ran in (first, second):
            events = ran.history.events
            assert [event.name for event in events[:2]] == ["profile", "started"]
            assert events[2].message["method"] == "initialize"
            assert [event.seq for event in events] == list(range(len(events)))
            assert {event.conn for event in events if event.dir == "agent"} == {CLIENT}
            assert violations(ran) == []
        told = [{e.message["params"]["sessionId"] for e in ran.history if updates(e)} for ran in (first, second)]
        assert [len(sessions) for sessions in told] == [1, 1]
        assert not told[0] & told[1]

    def test_a_step_whose_situation_does_not_arise_is_passed_over(self) -> None:
        never = {"require": {"request": "session/request_permission", "in": "s1", "patience": 0.001}}
        (ran,) = played(reference(), [[*PROMPT, never, {"cancel": {"by": "ada", "in": "s1"}}]])
        assert ran.unmet == {3}
        assert any(e.message.get("method") == "session/cancel" for e in ran.history if e.dir == "client")

    def test_a_restart_ends_the_live_process_and_not_the_campaign(self) -> None:
        restart: Steps = [*PROMPT, {"restart": {"by": "ada", "how": "cut"}}, {"resume": {"by": "ada", "in": "s1"}}]
        runs = played(reference(), [restart, PROMPT])
        assert [violations(ran) for ran in runs] == [[], []]
        assert "ada#2" in {event.conn for event in runs[0].history}

    def test_coverage_tells_what_each_step_met(self) -> None:
        (ran,) = played(reference(), [[*PROMPT, {"close": {"by": "ada", "in": "s1"}}]])
        found = triples(ran.history, ran.marks)
        assert [step for _, step, _ in found] == ["new-session", "prompt", "close", "end"]
        assert found[0][2].startswith("available_commands_update + new ok") or found[0][2] == "new ok"
        assert "prompt ok" in found[1][2]
        assert "close ok" in found[2][2]


def updates(event: object) -> bool:
    message = getattr(event, "message", None)
    return isinstance(message, dict) and message.get("method") == "session/update"


@pytest.mark.parametrize("layer", LAYERS)
def test_the_reference_agent_gives_no_finding(layer: str) -> None:
    profile = reference()
    sequences = [LAYERS[layer](Random(f"test/{number}"), world()) for number in range(8)]
    for ran in played(profile, sequences):
        assert violations(ran) == []


def world():  # type: ignore[no-untyped-def]
    from conformance.scenario.lives import setting_of

    capabilities = {"session": {"prompt": {"image": {}, "embeddedContext": {}}, "delete": {}}}
    return world_of(setting_of(reference(), workdir=Path.cwd(), seed=1), capabilities)


def investigated(profile: Profile, signature: Signature, steps: Steps) -> Failure | None:
    investigation = Investigation(profile, rules(strict=False), 1, PATIENCE, PATIENCE, seconds=30)

    async def investigate() -> Failure | None:
        confirmed = await investigation.confirmed(signature, steps)
        found = await investigation.told(confirmed, 1, "a test") if confirmed is not None else None
        return found[0] if found is not None else None

    return asyncio.run(investigate())


CRASH = Signature("fuzz.no-crash", "the agent was ended by SIGABRT by itself")
DEEP = {"send": {"by": "ada", "text": "[" * 200}}


def test_a_failure_is_confirmed_and_shrunk() -> None:
    failure = investigated(faulty("shallow"), CRASH, [*PROMPT, DEEP, {"cancel": {"by": "ada", "in": "s1"}}])
    assert failure is not None
    assert failure.how_often == "10 of 10"
    assert [verb for step in failure.steps for verb in step] == ["connect", "send"]
    assert len(failure.steps[1]["send"]["text"]) < 200


def test_slowness_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a brief patience takes for silence must be silence with all patience, too."""
    never = Signature("wire.one-response", "session/prompt was never answered")
    story = Story().begin()
    asked = story.prompt("Hello")
    story.control("waited", **{"for": "response"}, session="s", id=asked, seconds=1, began=1)
    (waited,) = (event for event in story.recorder.history if event.name == "waited")
    shown = Shown(Ran(story.recorder.history), {}, violation("it was never answered", (waited, "this long")))

    async def fresh(trial: Trial, steps: Steps, patience: float, **_: object) -> Shown | None:
        asked_with.append(patience)
        return shown if patience < takes else None

    asked_with: list[float] = []
    monkeypatch.setattr(Trial, "fresh", fresh)
    investigation = Investigation(reference(), rules(strict=False), 1, PATIENCE, 0.3)
    takes = PATIENCE - 1
    assert asyncio.run(investigation.confirmed(never, PROMPT)) is None
    assert asked_with.count(0.3) == 2  # one round of two
    takes = PATIENCE + 1
    confirmed = asyncio.run(investigation.confirmed(never, PROMPT))
    assert confirmed is not None


def test_what_no_fresh_process_shows_is_no_failure() -> None:
    assert investigated(reference(), CRASH, [*PROMPT[:1], DEEP]) is None


def test_a_campaign_keeps_what_it_found_and_goes_on(tmp_path: Path) -> None:
    report = tmp_path / "fuzz"
    agent = " ".join(faulty("shallow").agent.command or ())
    arguments = ["fuzz", "--profile", str(profile_of(agent, tmp_path)), "--layer", "bytes", "--jobs", "2"]
    arguments += [
        "--budget",
        "60s",
        "--seed",
        "3",
        "--enough",
        "1",
        "--patience",
        str(PATIENCE),
        "--report",
        str(report),
    ]
    assert status_of([*arguments, "-q"]) == 1
    told = json.loads((report / "report.json").read_text())
    (failed,) = [rule for rule in told["rules"] if rule["status"] == "fail"]
    assert failed["id"] == "fuzz.no-crash"
    must = [rule for rule in RULES.values() if (rule.level, rule.party) == ("must", "agent")]
    assert told["counts"]["must"]["total"] == len(must)  # what the fuzzer demands is no rule of the protocol
    assert failed["findings"][0]["events"]
    assert failed["findings"][0]["rerun"].endswith(f"--scenario {report / 'fuzz-001.yaml'} --seed 3")
    scenario = load_scenario(report / "fuzz-001.yaml")
    assert [step.verb for step in scenario.steps][-1] == "send"
    history = read_transcript(report / "transcripts" / "fuzz-001.ndjson")
    ran = asyncio.run(on_fresh(faulty("shallow"), scenario, seed=3, patience=PATIENCE))
    assert violations(Ran(history)) == violations(ran) != []
    # the next campaign looks at it first, and tells it again under its number
    assert [failure.number for failure in load(report)] == [1]
    assert status_of([*arguments, "-q"]) == 1
    assert [failure.number for failure in load(report)] == [1]


def profile_of(agent: str, folder_of: Path) -> Path:
    path = folder_of / "acp-conformance.toml"
    words = json.dumps(agent.split())
    path.write_text(f"[agent]\ncommand = {words}\n", encoding="utf-8")
    return path


def test_a_campaign_that_is_stopped_ends_in_order(tmp_path: Path) -> None:
    async def stopped() -> tuple[bool, Campaign]:
        enough = asyncio.Event()

        def told(campaign: Campaign) -> None:
            if sum(campaign.progress.sequences.values()) >= 3:
                enough.set()

        options = Options(budget=600, seed=1, jobs=2, patience=PATIENCE, folder=tmp_path)
        campaign = Campaign(reference(), options, told)
        running = asyncio.create_task(campaign.run())
        await enough.wait()
        running.cancel()
        return await running, campaign

    is_whole, campaign = asyncio.run(stopped())
    assert not is_whole
    assert (tmp_path / "corpus.ndjson").is_file()
    assert sum(campaign.progress.sequences.values()) >= 3


def test_only_what_is_looked_into_now_is_being_looked_at() -> None:
    campaign = Campaign(reference(), Options(), lambda campaign: None)
    campaign.progress.investigated.add(CRASH)
    assert "being looked at" not in status_line(campaign)
    campaign.progress.looking = 2
    assert status_line(campaign).endswith("2 being looked at")


TIRES = """
import asyncio, os, sys
sys.path.insert(0, sys.argv[1])
from reference_agent.agent import ReferenceAgent
from reference_agent.model import model_from
from reference_agent.store import Store
from reference_agent.transports import serve_stdio

class Tires(ReferenceAgent):
    made = 0

    def on_new(self, connection, request_id, params):
        self.made += 1
        if self.made == 6:
            self.notify(connection, "session/tired", {})
        return super().on_new(connection, request_id, params)

asyncio.run(serve_stdio(Tires(Store(":memory:"), model_from(dict(os.environ)))))
"""


def test_what_no_fresh_process_shows_is_told_and_kept(tmp_path: Path) -> None:
    """An agent that goes wrong once it has served a while: no sequence alone shows it."""
    program = tmp_path / "tires.py"
    program.write_text(TIRES, encoding="utf-8")
    command = (sys.executable, str(program), str(folder("fixtures") / "agents"))
    profile = Profile(agent=AgentSection(command=command))
    options = Options(budget=60, seed=1, jobs=1, layers=("envelope",), patience=PATIENCE, folder=tmp_path)

    def told(campaign: Campaign) -> None:
        if campaign.progress.unconfirmed:
            asyncio.get_running_loop().call_soon(running[0].cancel)

    running: list[asyncio.Task[bool]] = []

    async def tried() -> Campaign:
        campaign = Campaign(profile, options, told)
        running.append(asyncio.create_task(campaign.run()))
        await running[0]
        return campaign

    campaign = asyncio.run(tried())
    assert campaign.progress.failures == []
    ((signature, _),) = campaign.progress.unconfirmed.items()
    (path,) = (tmp_path / "transcripts").glob("unproven-*.ndjson")
    assert str(signature) in violations(Ran(read_transcript(path)))


@pytest.mark.parametrize("is_gone", [True, False], ids=["before it is written to", "once it is"])
def test_an_agent_that_ends_at_once_is_told_in_one_wording(is_gone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Lives.connection

    async def begun(self: Lives, name: str, *, restart_of: str | None = None) -> Connection:
        connection = await begin(self, name, restart_of=restart_of)
        if is_gone:
            await connection.ended.wait()
        return connection

    monkeypatch.setattr(Lives, "connection", begun)
    ends = "import sys; sys.exit(7)" if is_gone else "import sys; sys.stdin.readline(); sys.exit(7)"
    profile = Profile(agent=AgentSection(command=(sys.executable, "-c", ends)))
    campaign = Campaign(profile, Options(budget=30, jobs=1, patience=PATIENCE), lambda campaign: None)
    assert asyncio.run(campaign.run())
    why = "the agent exited with code 7 before it answered `initialize`; run the command by hand to see why"
    assert campaign.progress.problem == why


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--budget", "soon"], "is no time; write 60s, 10m or 1h"),
        (["--layer", "byts"], 'no layer "byts"; did you mean "bytes"?'),
        (["--profile", "no-such"], "unknown profile"),
    ],
)
def test_wrong_options_are_told(arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert status_of(["fuzz", *arguments]) == 2
    assert message in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("slug", FAULTS)
def test_every_seeded_fault_is_found(slug: str) -> None:
    """In a minute of looking on a quiet machine of two cores."""
    found = sought(slug, budget=60, jobs=2, seed=1)
    assert found.is_found, found.line()


def test_a_suspicion_that_was_not_confirmed_is_looked_into_again_where_less_shows_it() -> None:
    campaign = Campaign(Profile(), Options(), lambda campaign: None)
    suspected = Signature("fuzz.no-crash", "the agent exited")
    for length in (9, 7, 8):
        assert campaign._is_new(suspected, length)
        steps: Steps = [{"connect": "ada"}] * length
        campaign._unproven(suspected, Made(1, "here", steps, campaign._own))
    assert campaign._is_new(suspected, 6)
    assert not campaign._is_new(suspected, 7)
    assert not campaign._is_new(suspected)


def test_what_an_earlier_sequence_has_caused_is_shown_together_with_it() -> None:
    """The agent keeps what it should forget, and the next session finds it."""
    suspected = Signature("cancel.only-when-cancelled", "work that nobody stopped ended as cancelled")
    late: Steps = [*PROMPT, {"require": {"idle": ["s1"]}}, {"cancel-request": {"by": "ada", "of": "p1"}}]
    harmless: Steps = [{"connect": "ada"}, {"list": {"by": "ada", "pages": 1}}]
    campaign = Campaign(faulty("late-cancel-request"), Options(patience=PATIENCE), lambda campaign: None)
    asyncio.run(campaign._look_into(suspected, Made(3, "sequence 3", PROMPT, campaign._own, (late, harmless))))
    (failure,) = campaign.progress.failures
    assert failure.signature == suspected
    assert failure.origin == "sequence 3, and those before it"
    assert len(failure.steps) <= 6
    assert not campaign.progress.unconfirmed


def test_nobody_looks_for_more_than_is_wanted_while_it_is_made_small() -> None:
    campaign = Campaign(Profile(), Options(enough=2), lambda campaign: None)
    with campaign._being_told():
        assert campaign._wanted.is_set()  # another one is wanted
        with campaign._being_told():
            assert not campaign._wanted.is_set()
        assert campaign._wanted.is_set()  # it may have come to nothing
    endless = Campaign(Profile(), Options(), lambda campaign: None)
    with endless._being_told():
        assert endless._wanted.is_set()


def test_a_sequence_that_shows_it_each_time_is_waited_for_but_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = Campaign(Profile(), Options(), lambda campaign: None)
    made, told = Made(1, "here", PROMPT, campaign._own), []

    async def confirmed(self: Investigation, signature: Signature, steps: Steps, *, rounds: int = 5) -> Confirmed:
        return Confirmed(signature, steps, is_race=False, lives=signature != CRASH, is_quick=True)

    async def tell(signature: Signature) -> None:
        await asyncio.sleep(0)
        told.append(signature)
        del campaign._races[signature]

    monkeypatch.setattr(Investigation, "confirmed", confirmed)
    monkeypatch.setattr(campaign, "_tell", tell)
    asyncio.run(campaign._look_into(LEFTOVER, made))
    assert told == [LEFTOVER]
    asyncio.run(campaign._look_into(CRASH, made))
    asyncio.run(campaign._tell_overdue())
    assert told == [LEFTOVER]  # only a fresh process shows the other one: each try costs a start
    campaign.progress.found = dict.fromkeys(campaign.progress.found, -11.0)
    asyncio.run(campaign._tell_overdue())
    assert told == [LEFTOVER, CRASH]


def test_two_workers_do_not_tell_the_same_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = Campaign(Profile(), Options(jobs=8), lambda campaign: None)
    made, told = Made(1, "here", PROMPT, campaign._own), []
    for signature in (LEFTOVER, CRASH):
        campaign._races[signature] = [(Confirmed(signature, PROMPT, True, True, True), made)]
        campaign.progress.found[signature] = -11.0

    async def tell(signature: Signature) -> None:
        await asyncio.sleep(0)
        told.append(signature)
        del campaign._races[signature]

    async def both() -> None:
        await asyncio.gather(campaign._tell_overdue(), campaign._tell_overdue())

    monkeypatch.setattr(campaign, "_tell", tell)
    asyncio.run(both())
    assert sorted(told, key=str) == sorted([LEFTOVER, CRASH], key=str)
