"""Right agents that are made up break no must rule; one small corruption of what they did fails its own rule alone."""

from __future__ import annotations

import random

import pytest

from tests.simulated import World, failed
from tests.simulated_faults import FAULTS, Tape

SEEDS = 200
BLOCK = 25
CORRUPTED = 40  # histories that every fault is tried on


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_no_must_rule_fails(first: int) -> None:
    for seed in range(first, first + BLOCK):
        found = failed(World(seed).run().recorder.history)
        assert found == set(), f"python -m tests.simulated --first {seed} --rule {min(found)}"


def test_the_same_seed_is_the_same_history() -> None:
    told = [[(event.t, event.message) for event in World(7).run().recorder.history] for _ in range(2)]
    assert told[0] == told[1]


HISTORIES = {seed: World(seed).run(moves=80).recorder.history for seed in range(CORRUPTED)}


@pytest.mark.parametrize("name", FAULTS)
def test_a_corruption_fails_its_own_rule(name: str) -> None:
    owner, also, corrupt = FAULTS[name]
    for seed, history in HISTORIES.items():
        tape = Tape.of(history)
        if corrupt(tape, random.Random(seed)):
            found = failed(tape.history())
            assert found & {owner, *also}, f"seed {seed}: not seen"
            assert found <= {owner, *also}, f"seed {seed}: {found}"
