"""Whatever the layers make, and whatever mutation makes of it, is a scenario that can be written down and read back."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.fuzz.corpus import Corpus, changed
from conformance.fuzz.findings import needs_of
from conformance.fuzz.moves import sequence_layer
from conformance.fuzz.repairing import fitting, joined, repaired
from conformance.fuzz.traffic import bytes_layer, envelope_layer, params_layer
from conformance.fuzz.values import Values
from conformance.fuzz.world import World, world_of
from conformance.fuzz.writing import NotWritable, Steps, flow, scenario_of, text_of
from conformance.protocol.methods import CLIENT_METHODS
from conformance.protocol.validation import params_problems
from conformance.scenario.needs import ALL_NEEDS
from conformance.scenario.setting import Setting
from conformance.scenario.yaml12 import read_yaml

LAYERS = {
    "bytes": bytes_layer,
    "envelope": envelope_layer,
    "params": params_layer,
    "sequence": sequence_layer,
}
RICH = World(triggers=("local-command", "permission"), shares=True, blocks=("text", "image", "resource"))
POOR = World(has_model=False, can_restart=False, is_process=False, deletes=False)

texts = st.text(st.characters(exclude_categories=("Cs",)))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**40), max_value=10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
@settings(max_examples=150, deadline=None)
def test_any_json_value_survives_the_file(value: Any) -> None:
    read = read_yaml(f"value: {flow(value)}").value[0][1].plain
    assert read == value
    assert repr(read) == repr(value)  # 1 is not 1.0, and 0.0 not -0.0


def test_half_a_surrogate_pair_cannot_be_written() -> None:
    with pytest.raises(NotWritable):
        flow({"text": "\ud800"})


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("world", [RICH, POOR], ids=["rich", "poor"])
def test_every_sequence_is_a_scenario(layer: str, world: World) -> None:
    for seed in range(60):
        steps = LAYERS[layer](Random(seed), world)
        scenario = scenario_of(steps, "fuzz/one")
        assert [step.verb for step in scenario.steps] == [verb for step in steps for verb in step]


@pytest.mark.parametrize("layer", LAYERS)
def test_a_seed_makes_the_same_sequence_again(layer: str) -> None:
    assert LAYERS[layer](Random("7/3"), RICH) == LAYERS[layer](Random("7/3"), RICH)


def test_changed_sequences_are_scenarios_too() -> None:
    random = Random(1)
    steps = sequence_layer(random, RICH)
    differing = 0
    for _ in range(150):
        steps_after = changed(steps, random, RICH, sequence_layer(random, RICH))
        scenario_of(steps_after, "fuzz/one")
        differing += steps_after != steps
        steps = steps_after if len(steps_after) > 3 else sequence_layer(random, RICH)
    assert differing > 100


def test_what_a_target_lacks_is_not_tried() -> None:
    verbs = {verb for seed in range(80) for step in sequence_layer(Random(seed), POOR) for verb in step}
    assert not verbs & {"model", "command", "restart", "disconnect", "cut", "delete"}


def test_the_account_of_the_user_is_left_alone() -> None:
    text = "".join(text_of(params_layer(Random(seed), RICH), title="x") for seed in range(150))
    assert "auth/" not in text


def test_repaired_leaves_out_what_names_nothing() -> None:
    steps: Steps = [
        {"connect": "ada"},
        {"prompt": {"by": "ada", "in": "s1", "as": "p1"}},
        {"new-session": {"by": "ada", "as": "s1"}},
        {"cancel-request": {"by": "ada", "of": "p1"}},
        {"prompt": {"by": "bob", "in": "s1"}},
        {"cancel": {"by": "ada", "in": "s1"}},
        {"disconnect": {"by": "ada"}},
        {"cancel": {"by": "ada", "in": "s1"}},
    ]
    assert repaired(steps) == [steps[0], steps[2], steps[5], steps[6]]


def test_joined_sequences_keep_their_names_apart() -> None:
    first: Steps = [
        {"connect": "ada"},
        {"new-session": {"by": "ada", "as": "s1"}},
        {"prompt": {"by": "ada", "in": "s1", "as": "p1"}},
        {"require": {"idle": ["s1"]}},
        {"request": {"by": "ada", "method": "session/close", "params": {"sessionId": "{session.s1}"}}},
    ]
    second: Steps = [*first[:3], {"cancel-request": {"by": "ada", "of": "p1"}}]
    assert joined([first, second]) == [
        {"connect": "ada"},
        {"new-session": {"by": "ada", "as": "s1-1"}},
        {"prompt": {"by": "ada", "in": "s1-1", "as": "p1-1"}},
        {"require": {"idle": ["s1-1"]}},
        {"request": {"by": "ada", "method": "session/close", "params": {"sessionId": "{session.s1-1}"}}},
        {"close": {"by": "ada", "in": "s1-1"}},
        *second[1:],
    ]
    assert joined([second]) == second


@pytest.mark.parametrize("world", [RICH, POOR])
def test_joined_sequences_are_scenarios_too(world: World) -> None:
    for seed in range(100):
        random = Random(seed)
        sequences = [LAYERS[random.choice(list(LAYERS))](random, world) for _ in range(random.randint(1, 4))]
        scenario_of(joined(sequences), "fuzz/one")


def test_valid_params_are_valid_most_of_the_time() -> None:
    made = [(m, Values(Random(seed)).params(m.params)) for seed in range(40) for m in CLIENT_METHODS.values()]
    wrong = [method.name for method, params in made if params_problems(method.name, params, "client")]
    assert len(wrong) < len(made) // 20


def test_broken_params_leave_the_original_alone() -> None:
    params = {"sessionId": "s", "prompt": [{"type": "text", "text": "x"}]}
    values = Values(Random(1))
    broken = [values.broken(params) for _ in range(50)]
    assert params == {"sessionId": "s", "prompt": [{"type": "text", "text": "x"}]}
    assert sum(made != params for made in broken) > 45


def test_the_world_is_what_the_agent_advertised(tmp_path: Any) -> None:
    setting = Setting(workdir=tmp_path, triggers={"permission": "/ask"}, model_api="openai-chat")
    world = world_of(setting, {"session": {"prompt": {"image": {}}, "delete": None}})
    assert (world.has_model, world.triggers, world.deletes) == (True, ("permission",), False)
    assert world.blocks == ("text", "resource_link", "image")
    assert world_of(setting, {"session": 5}).blocks == ("text", "resource_link")


def test_a_sequence_of_one_world_fits_into_another() -> None:
    for seed in range(60):
        rich = sequence_layer(Random(seed), RICH)
        assert fitting(rich, RICH) == rich
        verbs = {verb for step in fitting(rich, POOR) for verb in step}
        assert not verbs & {"command", "delete", "model", "restart"}
        assert "bob" not in str(fitting(rich, POOR))


def test_needs_are_known_to_scenarios() -> None:
    for seed in range(60):
        assert set(needs_of(sequence_layer(Random(seed), RICH))) <= set(ALL_NEEDS)


class TestCorpus:
    def test_it_keeps_what_showed_something_new(self) -> None:
        corpus = Corpus()
        one: Steps = [{"connect": "ada"}]
        assert corpus.note("sequence", one, [("idle", "prompt", "ok"), ("idle", "prompt", "ok")]) == 1
        assert corpus.note("sequence", [*one, *one], [("idle", "prompt", "ok")]) == 0
        assert [entry.steps for entry in corpus.entries] == [one]
        assert corpus.seen["idle", "prompt", "ok"] == 2

    def test_it_prefers_what_is_rare(self) -> None:
        corpus = Corpus()
        rare, common = [{"connect": "ada"}], [{"connect": "bob"}]
        corpus.note("sequence", rare, [("a", "b", "c")])
        corpus.note("sequence", common, [("d", "e", "f")])
        for _ in range(9):
            corpus.note("sequence", common, [("d", "e", "f")])
        assert corpus.chosen(Random(1), "sequence") == rare
        assert corpus.chosen(Random(1), "bytes") is None

    def test_it_goes_on_from_its_file(self, tmp_path: Any) -> None:
        corpus = Corpus()
        corpus.note("params", [{"connect": "ada"}], [("a", "b", "c")])
        corpus.save(tmp_path)
        with (tmp_path / "corpus.ndjson").open("a") as file:
            file.write('not JSON\n{"layer": "x"}\n[1]\n')
        again = Corpus()
        assert again.load(tmp_path) == 1
        assert (again.entries[0].layer, again.entries[0].steps) == ("params", [{"connect": "ada"}])
        assert Corpus().load(tmp_path / "nowhere") == 0


def test_a_line_without_an_end_is_the_last_of_its_connection() -> None:
    begun: Steps = [{"connect": "ada"}]
    line = {"send": {"by": "ada", "json": {"jsonrpc": "2.0", "method": "x"}, "ending": "none"}}
    assert repaired([*begun, line, {"disconnect": "ada"}])[-2:] == [line, {"disconnect": "ada"}]
    more: list[Steps] = [[], [{"list": {"by": "ada", "pages": 1}}]]
    for following in more:
        (mended,) = [step["send"] for step in repaired([*begun, line, *following]) if "send" in step]
        assert "ending" not in mended
