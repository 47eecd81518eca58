"""Shrinking makes a sequence smaller, keeps what shows the failure, and ends."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from conformance.fuzz.findings import Failure
from conformance.fuzz.investigating import last_shown
from conformance.fuzz.shrinking import Shrinking
from conformance.fuzz.verdicts import Signature
from conformance.fuzz.writing import Steps, scenario_of

LONG: Steps = [
    {"connect": "ada"},
    {"new-session": {"by": "ada", "as": "s1"}},
    {"prompt": {"by": "ada", "in": "s1", "as": "p1", "text": "Hello", "after": 40}},
    {"list": {"by": "ada", "pages": 1}},
    {"cancel": {"by": "ada", "in": "s1", "after": 25}},
    {
        "request": {
            "by": "ada",
            "method": "session/list",
            "params": {"cursor": None, "cwd": "/a", "_meta": {"a": [1, 2]}},
        }
    },
    {"resume": {"by": "ada", "in": "s1", "replay": "start"}},
    {"cancel": {"by": "ada", "in": "s1"}},
    {"list": {"by": "ada", "pages": 1}},
]


def verbs(steps: Steps) -> list[str]:
    return [verb for step in steps for verb in step]


def shrunk(shows: Callable[[Steps], bool], steps: Steps = LONG, seconds: float = 30) -> tuple[Steps, Shrinking]:
    async def ask(candidate: Steps) -> bool:
        return shows(candidate)

    shrinking = Shrinking(ask, seconds)
    return asyncio.run(shrinking.smallest(steps)), shrinking


def test_steps_that_do_not_matter_go() -> None:
    smallest, shrinking = shrunk(lambda steps: verbs(steps).count("cancel") >= 2)
    assert verbs(smallest) == ["connect", "new-session", "cancel", "cancel"]
    assert not shrinking.gave_up


def test_what_another_session_does_goes_at_once() -> None:
    other: Steps = [
        {"new-session": {"by": "ada", "as": "s2"}},
        *({"prompt": {"by": "ada", "in": "s2", "as": f"q{n}"}} for n in range(30)),
    ]
    asked = 0

    def shows(steps: Steps) -> bool:
        nonlocal asked
        asked += 1
        return verbs(steps).count("cancel") >= 2

    smallest, _ = shrunk(shows, [*LONG[:5], *other, *LONG[5:]])
    assert verbs(smallest) == ["connect", "new-session", "cancel", "cancel"]
    assert asked < 40


def test_params_and_then_delays_are_made_simple() -> None:
    def shows(steps: Steps) -> bool:
        return any(
            "request" in s and "cursor" in (s["request"].get("params") or {}) for s in steps
        ) and "prompt" in verbs(steps)

    smallest, _ = shrunk(shows)
    assert verbs(smallest) == ["connect", "new-session", "prompt", "request"]
    assert smallest[3]["request"]["params"] == {"cursor": None}
    assert smallest[2]["prompt"] == {"by": "ada", "in": "s1", "as": "p1"}


def test_a_delay_that_matters_stays() -> None:
    smallest, _ = shrunk(lambda steps: any(s.get("cancel", {}).get("after", 0) > 1 for s in steps))
    assert smallest[-1]["cancel"]["after"] > 1


def test_every_candidate_is_a_scenario() -> None:
    def shows(steps: Steps) -> bool:
        scenario_of(steps, "fuzz/candidate") if "text" not in str(steps) else None
        return "resume" in verbs(steps)

    smallest, _ = shrunk(shows)
    assert verbs(smallest) == ["connect", "new-session", "resume"]


def test_no_candidate_is_tried_twice() -> None:
    asked: list[str] = []

    def shows(steps: Steps) -> bool:
        asked.append(str(steps))
        return "cancel" in verbs(steps)

    shrunk(shows)
    assert len(asked) == len(set(asked))


def test_it_gives_up_when_time_is_up() -> None:
    smallest, shrinking = shrunk(lambda steps: True, seconds=0)
    assert smallest == LONG
    assert shrinking.gave_up


def test_nothing_is_tried_once_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    tried: list[float] = []

    def shows(steps: Steps) -> bool:
        nonlocal now
        tried.append(now)
        now += 7
        return "cancel" in verbs(steps)

    smallest, shrinking = shrunk(shows, seconds=60)
    assert shrinking.gave_up
    assert tried
    assert max(tried) <= 1_060
    assert "cancel" in verbs(smallest)
    assert len(smallest) < len(LONG)


def test_what_ran_out_of_time_says_so() -> None:
    failure = Failure(1, Signature("fuzz.no-crash", "it ends"), "it ends", LONG)
    assert "Shrinking ran out of time" in dataclasses.replace(failure, gave_up=True).text()
    assert "Shrinking" not in failure.text()


def test_a_delay_takes_the_place_of_a_demand() -> None:
    demand = {"require": {"request": "session/request_permission", "in": "s1", "patience": 0.02}}
    steps: Steps = [*LONG[:3], demand, {"close": {"by": "ada", "in": "s1"}}]

    def shows(steps: Steps) -> bool:
        last = steps[-1].get("close")
        return last is not None and ("require" in steps[-2] or last.get("after", 0) >= 25)

    smallest, _ = shrunk(shows, steps)
    assert verbs(smallest) == ["connect", "new-session", "close"]
    assert smallest[-1] == {"close": {"by": "ada", "in": "s1", "after": 25}}


def test_what_a_fresh_process_shows_last_is_found_by_halves() -> None:
    trail: list[Steps] = [[{"connect": str(number)}] for number in range(20)]
    for last in range(21):
        asked: list[int] = []

        async def shows(steps: Steps, last: int = last, asked: list[int] = asked) -> bool:
            asked.append(int(steps[0]["connect"]))
            return asked[-1] < last

        assert asyncio.run(last_shown(shows, trail, is_race=False)) == last
        assert len(set(asked)) <= 6


def test_nothing_smaller_leaves_it_as_it_is() -> None:
    smallest, shrinking = shrunk(lambda steps: False)
    assert smallest == LONG
    assert not shrinking.gave_up
    assert shrinking.trail == []


def test_deep_values_shrink_too() -> None:
    deep: Any = {"a": [{"b": {"keep": "x" * 100}}, 1, 2], "c": {"d": 1}}
    steps: Steps = [{"connect": "ada"}, {"request": {"by": "ada", "method": "_x/y", "params": deep}}]
    smallest, _ = shrunk(lambda candidate: "keep" in str(candidate), steps)
    assert len(str(smallest)) < 110


def test_two_steps_that_only_go_together_go() -> None:
    cancel, prompt = {"cancel": {"by": "ada", "in": "s1"}}, {"prompt": {"by": "ada", "in": "s1", "as": "p1"}}
    steps: Steps = [*LONG[:2], prompt, LONG[3], cancel, {**prompt, "prompt": {**prompt["prompt"], "as": "p2"}}]

    def shows(candidate: Steps) -> bool:
        said = verbs(candidate)
        return said.count("prompt") == 1 + ("cancel" in said)  # the first prompt takes the cancel with it

    smallest, _ = shrunk(shows, steps)
    assert verbs(smallest) == ["connect", "new-session", "prompt"]


def test_time_takes_the_place_of_an_answer_in_between() -> None:
    prompt = {"prompt": {"by": "ada", "in": "s1", "as": "p2"}}
    steps: Steps = [*LONG[:2], LONG[7], LONG[3], prompt]

    def shows(candidate: Steps) -> bool:
        said = verbs(candidate)
        if said[-1] != "prompt" or "cancel" not in said:
            return False
        return "list" in said or candidate[-1]["prompt"].get("after", 0) > 1_000

    smallest, _ = shrunk(shows, steps)
    assert verbs(smallest) == ["connect", "new-session", "cancel", "prompt"]
    assert smallest[-1]["prompt"]["after"] == 1_100


def test_time_before_what_came_first_does_too() -> None:
    cancel, prompt = {"cancel": {"by": "ada", "in": "s1"}}, {"prompt": {"by": "ada", "in": "s1", "as": "p2"}}
    steps: Steps = [*LONG[:2], cancel, {"list": {"by": "ada", "pages": 1}}, prompt]

    def shows(candidate: Steps) -> bool:
        said = verbs(candidate)
        if said[-1] != "prompt" or "cancel" not in said:
            return False
        return "list" in said or candidate[-2].get("cancel", {}).get("after", 0) > 1_000

    smallest, _ = shrunk(shows, steps)
    assert smallest == [*LONG[:2], {"cancel": {"by": "ada", "in": "s1", "after": 1_100}}, prompt]


def test_two_sessions_become_one() -> None:
    steps: Steps = [
        {"connect": "ada"},
        {"new-session": {"by": "ada", "as": "s1"}},
        {"prompt": {"by": "ada", "in": "s1", "as": "p1"}},
        {"new-session": {"by": "ada", "as": "s2"}},
        {"request": {"by": "ada", "method": "session/resume", "params": {"sessionId": "{session.s2}"}}},
    ]
    smallest, _ = shrunk(lambda steps: {"prompt", "request"} <= set(verbs(steps)) and "{session." in str(steps), steps)
    assert verbs(smallest) == ["connect", "new-session", "prompt", "request"]
    assert smallest[-1]["request"]["params"] == {"sessionId": "{session.s1}"}
