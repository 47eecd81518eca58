"""Scenarios on tiny agents, each with one habit: what is done, what is recorded, and how it ends."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import indent

import pytest

from conformance.history import Event, History, Recorder
from conformance.profile import Profile, with_command
from conformance.scenario.interpreter import Played, not_applicable, play
from conformance.scenario.lives import Lives, setting_of
from conformance.scenario.loader import parse

TINY = Path(__file__).parent / "tiny_agent.py"
PATIENCE = 0.6
ONE_PROMPT = """
- connect: ada
- new-session: {as: chat}
- prompt: {in: chat, as: first}
- wait: {response: first}
- wait: {idle: chat}
"""


def played(
    tmp_path: Path,
    habit: str,
    steps: str,
    *,
    needs: Sequence[str] = (),
    patience: float = PATIENCE,
    asks_in_the_end: bool = False,
) -> tuple[Played, History]:
    """Plays the steps on the tiny agent with that habit."""
    text = f"title: A test\nneeds: [{', '.join(needs)}]\nsteps:\n{indent(steps.strip(), '  ')}\n"
    scenario = parse(text, "test.yaml", "test")
    profile = with_command(Profile(), f"{sys.executable} {TINY} {habit}")
    setting = setting_of(profile, workdir=tmp_path, seed=1, patience=patience)
    setting = replace(setting, asks_in_the_end=asks_in_the_end)
    recorder = Recorder()

    async def run() -> Played:
        return await play(scenario, setting, recorder, Lives(profile, recorder, setting, None))

    return asyncio.run(run()), recorder.history


def named(history: History, name: str) -> list[Event]:
    return [event for event in history if event.name == name]


def sent(history: History, method: str) -> list[Event]:
    return [event for event in history if event.dir == "client" and event.message.get("method") == method]


def test_a_plain_prompt_is_played_to_its_end(tmp_path: Path) -> None:
    outcome, history = played(tmp_path, "plain", ONE_PROMPT)
    assert (outcome.status, outcome.reason) == ("completed", "")
    assert outcome.answer is not None
    assert outcome.answer["info"] == {"name": "tiny", "version": "1"}
    assert history.events[0].name == "profile"
    (submits,) = named(history, "submits")
    (prompt,) = sent(history, "session/prompt")
    assert submits.seq == prompt.seq - 1
    assert submits.control is not None
    nonce = submits.control["nonce"]
    assert prompt.message["params"]["prompt"] == [{"type": "text", "text": f"Answer with one word. [{nonce}]"}]
    assert submits.control["id"] == prompt.message["id"]
    (window,) = named(history, "window")
    assert window.control is not None
    assert window.control["kind"] == "quiet"
    assert [event.name for event in history][-2:] == ["closed", "exited"]
    assert named(history, "waited") == []


def test_after_a_hold_window_silence_is_still_waited_for(tmp_path: Path) -> None:
    _, history = played(tmp_path, "plain", ONE_PROMPT + "- wait: {held: chat}")
    assert [event.control["kind"] for event in named(history, "window") if event.control] == ["hold", "quiet"]


def test_the_nonces_of_a_seed_are_always_the_same(tmp_path: Path) -> None:
    nonces = [
        [
            event.control["nonce"]
            for event in named(played(tmp_path, "plain", ONE_PROMPT)[1], "submits")
            if event.control
        ]
        for _ in range(2)
    ]
    assert nonces[0] == nonces[1]


def test_a_prompt_can_be_repeated_to_the_letter(tmp_path: Path) -> None:
    steps = (
        ONE_PROMPT
        + "- prompt: {in: chat, same-as: first, as: second}\n- wait: {response: second}\n- wait: {idle: chat}"
    )
    _, history = played(tmp_path, "plain", steps)
    first, second = sent(history, "session/prompt")
    assert first.message["params"] == second.message["params"]
    facts = [event.control for event in named(history, "submits")]
    assert [fact["exact"] for fact in facts if fact] == [False, True]


@pytest.mark.parametrize("habit", ["plain", "idle-before-response", "speaks-first", "no-running", "refuses"])
def test_the_end_of_work_is_found_on_agents_of_every_kind(tmp_path: Path, habit: str) -> None:
    outcome, history = played(tmp_path, habit, ONE_PROMPT)
    assert (outcome.status, outcome.reason) == ("completed", "")
    assert named(history, "waited") == []
    last_idle = max(
        (e.seq for e in history if e.dir == "agent" and '"idle"' in str(e.message).replace("'", '"')), default=0
    )
    assert all(barrier.seq > last_idle for barrier in sent(history, "session/list"))


def test_a_wait_that_runs_out_is_recorded_and_ends_the_steps(tmp_path: Path) -> None:
    outcome, history = played(tmp_path, "mute", ONE_PROMPT + "- cancel: chat")
    assert outcome.status == "completed"
    assert outcome.reason == "out of patience: session/prompt (first) was not answered (line 7, wait)"
    (waited,) = named(history, "waited")
    assert waited.control is not None
    assert waited.control | {"began": 0} == {
        "event": "waited",
        "for": "response",
        "session": "s1",
        "id": 3,
        "seconds": PATIENCE,
        "began": 0,
    }
    assert sent(history, "session/cancel") == []
    assert named(history, "exited")


def test_a_wait_may_go_on_without_what_it_waited_for(tmp_path: Path) -> None:
    steps = ONE_PROMPT.replace("{response: first}", "{response: first, otherwise: continue}")
    _, history = played(tmp_path, "mute", steps + "- cancel: chat")
    assert len(named(history, "waited")) == 1, "an agent that hangs is given all patience once"


@pytest.mark.parametrize(("habit", "waited"), [("never-idle", ["idle"]), ("hangs", ["response", "idle"])])
def test_an_agent_at_work_is_told_from_one_that_hangs(tmp_path: Path, habit: str, waited: list[str]) -> None:
    steps = ONE_PROMPT.replace("{idle: chat}", "{begun: chat}")
    _, history = played(tmp_path, habit, steps, asks_in_the_end=True)
    assert [event.control["for"] for event in named(history, "waited") if event.control] == waited
    asked = sent(history, "session/list")[0]
    answers = [e.seq for e in history if e.dir == "agent" and e.message.get("id") == asked.message["id"]]
    assert bool(answers) == (habit == "never-idle")


def test_work_that_does_not_end_costs_one_patience(tmp_path: Path) -> None:
    outcome, history = played(tmp_path, "never-idle", ONE_PROMPT)
    assert "the work of chat did not end" in outcome.reason
    (waited,) = named(history, "waited")
    assert waited.control is not None
    assert (waited.control["for"], waited.control["session"]) == ("idle", "s1")


def test_what_only_work_brings_is_not_waited_for_longer_than_the_work(tmp_path: Path) -> None:
    steps = "- connect: ada\n- new-session: {as: chat}\n- prompt: {in: chat, as: first}\n"
    outcome, history = played(tmp_path, "plain", steps + "- wait: {request: session/request_permission}", patience=60)
    assert outcome.reason == "the work ended without a request session/request_permission (line 7, wait)"
    assert named(history, "waited") == []
    (unmet,) = named(history, "not-brought-about")
    assert unmet.control is not None
    assert unmet.control["why"] == "the work ended without a request session/request_permission"


@pytest.mark.parametrize(
    ("demand", "why"),
    [
        ("{refused: first}", "session/prompt (first) was answered with success"),
        ("{pending: first}", "session/prompt (first) was answered already"),
        ("{capability: session.delete}", "the agent does not advertise capabilities.session.delete"),
    ],
)
def test_what_is_required_and_not_so_ends_the_steps(tmp_path: Path, demand: str, why: str) -> None:
    outcome, history = played(tmp_path, "plain", f"{ONE_PROMPT}- require: {demand}\n- cancel: chat")
    assert outcome.reason.startswith(why)
    assert sent(history, "session/cancel") == []


def test_prompts_that_are_queued_are_all_waited_for(tmp_path: Path) -> None:
    steps = """
    - connect: ada
    - new-session: {as: chat}
    - prompt: {in: chat, as: first}
    - prompt: {in: chat, as: second}
    - wait: {response: first}
    - request: {method: session/list, params: {}}
    - wait: {response: second}
    - request: {method: session/list, params: {}}
    - wait: {idle: chat}
    """
    outcome, history = played(tmp_path, "queues", "\n".join(line[4:] for line in steps.splitlines()))
    assert (outcome.status, outcome.reason) == ("completed", "")
    assert named(history, "waited") == []


def test_loops_and_branches(tmp_path: Path) -> None:
    steps = """
- connect: ada
- for-each:
    as: word
    of: [one, {two: [2]}]
    steps:
      - notify: {method: _test, params: {word: "{word}", round: "{round}", text: "no. {round}"}}
- repeat: {times: 2, steps: [{notify: {method: _again, params: ["{round}"]}}]}
- parallel:
    - - notify: {method: _left}
    - - notify: {method: _right}
"""
    outcome, history = played(tmp_path, "plain", steps)
    assert outcome.reason == ""
    assert [event.message["params"] for event in sent(history, "_test")] == [
        {"word": "one", "round": 1, "text": "no. 1"},
        {"word": {"two": [2]}, "round": 2, "text": "no. 2"},
    ]
    assert [event.message["params"] for event in sent(history, "_again")] == [[1], [2]]
    assert len(sent(history, "_left")) == len(sent(history, "_right")) == 1


def test_no_round_begins_after_the_seconds_of_a_loop(tmp_path: Path) -> None:
    again = "{notify: {method: _again}}, {wait: {quiet: ada}}"  # which takes a quiet window
    _, history = played(tmp_path, "plain", f"- connect: ada\n- repeat: {{times: 3, within: 0.3, steps: [{again}]}}")
    assert 1 <= len(sent(history, "_again")) < 3


def test_any_bytes_can_be_sent(tmp_path: Path) -> None:
    steps = "- connect: ada\n- send: {text: '{\"half'}\n- send: {base64: //4=}\n- send: {json: [1, null]}"
    _, history = played(tmp_path, "plain", steps)
    raw = [event.envelope.raw for event in history if event.dir == "client" and event.envelope and event.envelope.raw]
    assert raw[:2] == [b'{"half', b"\xff\xfe"]


def test_a_restart_is_another_life_of_the_connection(tmp_path: Path) -> None:
    steps = ONE_PROMPT + "- restart: ada\n- new-session: {as: other}"
    outcome, history = played(tmp_path, "plain", steps)
    assert outcome.reason == ""
    started = [(event.conn, event.control["restart_of"]) for event in named(history, "started") if event.control]
    assert started == [("ada", None), ("ada#2", "ada")]


def test_a_cut_reads_nothing_more(tmp_path: Path) -> None:
    steps = "- connect: ada\n- new-session: {as: chat}\n"
    steps += "- prompt: {in: chat, as: lost, unread: true}\n- cut: {by: ada, after: 50}"
    _, history = played(tmp_path, "plain", steps)
    (prompt,) = sent(history, "session/prompt")
    assert [event for event in history if event.dir == "agent" and event.seq > prompt.seq] == []
    assert named(history, "cut")
    assert named(history, "waited") == []


@pytest.mark.parametrize(
    ("habit", "words"),
    [
        ("exits", "the agent exited with code 7 before it answered `initialize`"),
        ("exits", "no licence found"),
        ("v1", "the agent speaks version 1 of the protocol only"),
        ("no-version", "it supports the versions [1], and this suite tests version 2"),
        ("wants-login", "the agent wants a login before it makes a session (error -32000: Authentication required)"),
        ("crashes", "ada: the agent exited with code 3"),
        ("crashes", "its stderr ends with: something is wrong here"),
    ],
)
def test_an_agent_that_cannot_be_tested_is_told_of_clearly(tmp_path: Path, habit: str, words: str) -> None:
    outcome, history = played(tmp_path, habit, ONE_PROMPT)
    assert outcome.status == "broken"
    assert words in outcome.reason
    assert named(history, "exited"), "nothing is left running"


def test_an_agent_without_sessions_is_not_blamed(tmp_path: Path) -> None:
    outcome, _ = played(tmp_path, "no-sessions", ONE_PROMPT)
    assert (outcome.status, outcome.reason) == ("not-applicable", "the agent does not advertise capabilities.session")


def test_an_answer_in_the_shape_of_version_1_is_gone_on_with(tmp_path: Path) -> None:
    outcome, history = played(tmp_path, "v1-shape", ONE_PROMPT)
    assert (outcome.status, outcome.reason) == ("completed", "")
    assert sent(history, "session/prompt")


def test_a_capability_that_is_needed_and_not_advertised_is_not_applicable(tmp_path: Path) -> None:
    outcome, history = played(tmp_path, "plain", ONE_PROMPT, needs=["capability.session.delete"])
    assert (outcome.status, outcome.reason) == (
        "not-applicable",
        "the agent does not advertise capabilities.session.delete",
    )
    assert sent(history, "session/new") == []


@pytest.mark.parametrize(
    ("need", "words"),
    [
        ("model", '[model] api = "openai-chat"'),
        ("trigger.local-command", '[triggers] local-command = "..."'),
        ("second-connection", "[sessions] shared = true"),
        ("websocket", "--url ws://"),
    ],
)
def test_a_need_that_is_missing_says_what_would_give_it(tmp_path: Path, need: str, words: str) -> None:
    scenario = parse(f"title: x\nneeds: [{need}]\nsteps: [{{connect: ada}}]", "m.yaml", "m")
    why = not_applicable(scenario, setting_of(Profile(), workdir=tmp_path, seed=1))
    assert why is not None
    assert words in why


def test_a_scenario_has_a_limit(tmp_path: Path) -> None:
    text = f"title: x\nsteps:\n{indent(ONE_PROMPT.strip(), '  ')}"
    profile = with_command(Profile(), f"{sys.executable} {TINY} mute")
    setting = setting_of(profile, workdir=tmp_path, seed=1, patience=60)
    recorder = Recorder()
    from dataclasses import replace

    setting = replace(setting, limit=0.5)

    async def run() -> Played:
        return await play(parse(text, "m.yaml", "m"), setting, recorder, Lives(profile, recorder, setting, None))

    outcome = asyncio.run(run())
    assert "it took longer than 0.5 s and was stopped there" in outcome.reason
    assert named(recorder.history, "exited")
