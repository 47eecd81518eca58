"""The code holds every rule of the catalogue under its public id, at its level, for its party, with its source."""

from pathlib import Path

import pytest
import yaml

from conformance.resources import folder
from conformance.rules import AREAS, RULES

CATALOGUE = {
    entry["id"]: entry
    for entries in yaml.safe_load((Path(__file__).parent / "catalogue" / "rules-v2.yaml").read_text()).values()
    for entry in entries
}
DECIDED_BY_A_RECORDING = {"client.wire", "client.respects-capabilities", "client.cancel-answers-permissions"}
OWED = {id for id, entry in CATALOGUE.items() if entry["party"] == "agent"} | DECIDED_BY_A_RECORDING


def test_every_rule_of_the_agent_is_decided() -> None:
    assert set(RULES) == OWED


@pytest.mark.parametrize("id", sorted(RULES))
def test_level_and_party_are_the_catalogue_s(id: str) -> None:
    rule, entry = RULES[id], CATALOGUE[id]
    assert (rule.level, rule.party) == (entry["level"], entry["party"])


@pytest.mark.parametrize("id", sorted(RULES))
def test_a_rule_says_what_it_demands_and_what_proves_it(id: str) -> None:
    rule = RULES[id]
    assert rule.says.endswith(".")
    assert rule.source
    assert rule.exercised
    assert rule.proof
    assert rule.decide.__module__.split(".")[-1].startswith(rule.area)


@pytest.mark.parametrize("area", [module.__name__ for module in AREAS])
def test_each_module_keeps_to_a_readable_length(area: str) -> None:
    path = Path(__import__(area, fromlist=["_"]).__file__ or "")
    assert len(path.read_text().splitlines()) <= 420


def test_the_data_folders_are_found() -> None:
    assert (folder("scenarios") / "README.md").is_file()
    assert (folder("reports") / "report.schema.json").is_file()
