"""The facts give the same verdicts as the schema that the protocol's own npm package carries.

`ACP_SDK_SCHEMA` may name that package's `schema/v2/schema.json`; else npm installs the package into a temporary folder.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import jsonschema_rs
import pytest

from conformance.protocol.facts import definition, facts
from conformance.protocol.json_schema import json_schema, stable_definitions
from conformance.protocol.methods import AGENT_METHODS, CLIENT_METHODS, PROTOCOL_METHODS
from conformance.protocol.validation import problems_of
from tests.generated import ODDITIES, Maker, mutated, places

pytestmark = pytest.mark.peers

PACKAGE, VERSION = "@agentclientprotocol/sdk", "2.4.0"
ROUNDS = 200
validator = partial(jsonschema_rs.Draft202012Validator, validate_formats=False)


@pytest.fixture(scope="module")
def schema_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if named := os.environ.get("ACP_SDK_SCHEMA"):
        return Path(named)
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"neither ACP_SDK_SCHEMA nor npm, which could install {PACKAGE}")
    folder = tmp_path_factory.mktemp("sdk")
    command = [npm, "install", "--prefix", str(folder), "--ignore-scripts", "--no-audit", f"{PACKAGE}@{VERSION}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        pytest.skip(f"npm could not install {PACKAGE}: {done.stderr.strip()[-200:]}")
    return folder / "node_modules" / PACKAGE / "schema" / "v2" / "schema.json"


@pytest.fixture(scope="module")
def official(schema_path: Path) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(schema_path.read_text(encoding="utf-8"))
    return schema


def definition_of(schema: dict[str, Any], name: str) -> dict[str, Any]:
    return {"$schema": schema["$schema"], "$ref": f"#/$defs/{name}", "$defs": schema["$defs"]}


def candidates(name: str, random: Random) -> list[Any]:
    """Valid values, some with every oddity in every place and every member missing in turn, and wilder mutations."""
    found: list[Any] = list(ODDITIES)
    for round_ in range(ROUNDS):
        value = Maker(random, unstable=round_ % 4 == 0).named(name)
        found.append(value)
        found.extend(mutated(value, random) for _ in range(20))
        if round_ < 10:
            found.extend(changed_in_one_place(value))
    return found


def changed_in_one_place(value: Any) -> list[Any]:
    text = json.dumps(value)
    changed = []
    for number in range(len(list(places([value])))):
        for oddity in (*ODDITIES, "missing"):
            holder = [json.loads(text)]
            container, key = list(places(holder))[number]
            if oddity == "missing" and container is not holder:
                del container[key]
            else:
                container[key] = copy.deepcopy(oddity)
            changed.append(holder[0])
    return changed


@pytest.mark.parametrize("name", stable_definitions())
def test_both_schemas_give_the_same_verdict(name: str, official: dict[str, Any]) -> None:
    theirs, ours = validator(definition_of(official, name)), validator(json_schema(name))
    random = Random(name)
    verdicts: Counter[bool] = Counter()
    for value in candidates(name, random):
        verdict = theirs.is_valid(value)
        assert ours.is_valid(value) == verdict, (name, value)
        verdicts[verdict] += 1
    print(f"{name}: {verdicts[True]} valid, {verdicts[False]} invalid, all alike")
    assert verdicts[True] >= ROUNDS


@pytest.mark.parametrize(
    "method",
    [*AGENT_METHODS.values(), *CLIENT_METHODS.values(), *PROTOCOL_METHODS.values()],
    ids=lambda method: method.name,
)
def test_the_problems_of_a_message_are_the_official_verdict(method: Any, official: dict[str, Any]) -> None:
    for name in (method.params, method.result):
        if name is None:
            continue
        theirs = validator(definition_of(official, name))
        random = Random(name)
        for _ in range(200):
            value = mutated(Maker(random).named(name), random)
            assert (problems_of(name, value) == []) == theirs.is_valid(value), value


def test_what_the_facts_call_unstable_is_valid_under_the_unstable_schema(schema_path: Path) -> None:
    path = schema_path.with_name("schema.unstable.json")
    if not path.exists():
        pytest.skip(f"no {path.name} beside the schema")
    unstable = json.loads(path.read_text(encoding="utf-8"))
    for name in facts()["definitions"]:
        theirs = validator(definition_of(unstable, name))
        random = Random(name)
        for _ in range(50):
            assert theirs.is_valid(Maker(random, unstable=True).named(name)), name


def test_every_definition_and_method_of_the_official_schema_is_in_the_facts(official: dict[str, Any]) -> None:
    envelopes = {f"{side}{part}" for side in ("Agent", "Client") for part in ("Request", "Response", "Notification")}
    anything = {"ExtRequest", "ExtResponse", "ExtNotification"}
    assert set(official["$defs"]) - envelopes - anything == set(stable_definitions())
    theirs = {node["x-method"] for node in official["$defs"].values() if "x-method" in node}
    assert theirs == {*AGENT_METHODS, *CLIENT_METHODS, *PROTOCOL_METHODS}
    assert all(definition(name) for name in stable_definitions())


def test_the_script_derives_the_facts_that_are_here(schema_path: Path, tmp_path: Path) -> None:
    package = schema_path.parents[2]
    if not (package / "package.json").exists():
        pytest.skip("the schema is not in its package")
    script = Path(__file__).parents[2] / "tools" / "derive_schema.py"
    command = [sys.executable, str(script), str(package), str(tmp_path / "v2.json")]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert json.loads((tmp_path / "v2.json").read_text(encoding="utf-8")) == facts()
