"""A scenario file says what is wrong with it where it stands; what is right becomes a `Scenario`."""

import json
from dataclasses import replace
from pathlib import Path
from textwrap import dedent, indent

import pytest

from conformance.profile import TRIGGERS
from conformance.resources import folder
from conformance.rules import RULES
from conformance.scenario import schema
from conformance.scenario.errors import ScenarioError
from conformance.scenario.files import heads
from conformance.scenario.loader import load, load_all, parse
from conformance.scenario.model import Step
from conformance.scenario.needs import NEEDS
from conformance.scenario.table import CONDITIONS, LATER, VERBS

HEAD = "title: A scenario\nsteps:\n"


def error_of(text: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        parse(text, "scenarios/mine.yaml", "mine", rules=RULES)
    return str(caught.value)


def test_a_misspelt_verb_is_shown_with_the_closest_word() -> None:
    text = "title: Mine\nabout: >\n  What it is\n  about.\n\nsteps:\n  - conect: ada\n"
    assert error_of(text) == (
        'scenarios/mine.yaml:7:5  unknown verb "conect"; did you mean "connect"?\n'
        "    7 |   - conect: ada\n"
        "            ^^^^^^"
    )


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ("- connect: {as: ada, wiht: {}}", '3:24  unknown key "wiht" of connect; did you mean "with"?'),
        ("- connect: {as: 7}", "3:19  a name must be a word (letters, digits, - and _), not 7"),
        ("- connect: ada\n  - new-session: {by: ada}", '4:18  new-session needs "as"'),
        (
            "- connect: ada\n  - new-session: {by: adda, as: chat}",
            '4:23  no connection is named "adda" yet; did you mean "ada"?',
        ),
        ("- connect: ada\n  - cancel: chat", '4:13  no session is named "chat" yet'),
        ("- disconnect", '3:5  write "disconnect: ..." with what it is about'),
        ("- 12", "3:5  a step is a verb and what it is about"),
        ("- respond: {}", '3:5  "respond" is for testing clients, and that is not available yet'),
        ("- connect: ada\n    disconnect: ada", '4:5  one verb a step: begin a new one with "- disconnect"'),
        ("- connect: ada\n  - wait: {patience: 2}", "4:11  wait needs one of response"),
        (
            "- connect: ada\n  - new-session: {as: chat}\n  - wait: {idle: chat, quiet: chat}",
            "5:11  wait needs only one of",
        ),
        (
            "- connect: ada\n  - notify: {method: a}\n  - wait: {capability: auth}",
            '5:12  unknown key "capability" of wait',
        ),
        ("- connect: ada\n  - send: {text: 12}", "4:18  this must be text (quote it), not 12"),
        ("- connect: ada\n  - send: {text: a, times: 0}", "4:28  this must be a number, not 0"),
        ("- connect: ada\n  - send: {text: a, times: yes}", '4:28  this must be a number, not "yes"'),
        ('- connect: ada\n  - send: {text: "{wrkdir}"}', '4:18  unknown name "{wrkdir}"; did you mean "workdir"?'),
        ('- connect: ada\n  - send: {text: "{session.chat}"}', '4:18  no session is named "chat" yet'),
        ("- repeat: {times: 2, steps: []}", "3:31  this must be a list of steps, not an empty list"),
        ("- repeat: {times: 2, steps: [{conect: ada}]}", '3:33  unknown verb "conect"'),
        (
            "- connect: ada\n  - connect: bea\n  - send: {text: a}",
            '5:11  send needs "by", since there are several connections',
        ),
        ("- send: {text: a}", "3:11  send needs a connection"),
        ("- connect: ada\n  - new-session: {as: c}\n  - command: {in: c, trigger: locl}", 'unknown trigger "locl"'),
        ("- connect: ada\n  - new-session: {as: c}\n  - model: {in: c, say: a, fail: 500}", "model needs only one of"),
    ],
)
def test_what_is_wrong_with_a_step_is_told_at_its_place(steps: str, words: str) -> None:
    assert words in error_of(f"{HEAD}  {steps}\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("steps: [{connect: ada}]", '1:1  a scenario needs "title"'),
        ("title: x", '1:1  a scenario needs "steps"'),
        ("- a", "1:1  a scenario is a table"),
        (f"{HEAD}  - connect: ada\nstep: []", '4:1  unknown key "step" of a scenario; did you mean "steps"?'),
        (f"needs: [modle]\n{HEAD}  - connect: ada", '1:9  unknown need "modle"; did you mean "model"?'),
        (f"needs: [trigger.locl-command]\n{HEAD}  - connect: ada", 'did you mean "trigger.local-command"?'),
        (f"exercises: [prompt.insertion-repoted]\n{HEAD}  - connect: ada", 'did you mean "prompt.insertion-reported"?'),
        ("title: x\ntitle: y", '2:1  "title" stands twice'),
    ],
)
def test_what_is_wrong_with_a_file_is_told_at_its_place(text: str, words: str) -> None:
    assert words in error_of(text)


def test_all_that_is_wrong_is_told_at_once() -> None:
    shown = error_of(f"{HEAD}  - conect: ada\n  - connect: ada\n  - diconnect: ada\n")
    assert '"conect"' in shown
    assert '"diconnect"' in shown


def test_many_problems_are_cut() -> None:
    assert error_of(HEAD + "  - conect: ada\n" * 30).endswith("scenarios/mine.yaml: and 20 more")


def test_a_file_that_is_no_text_says_so(tmp_path: Path) -> None:
    path = tmp_path / "bytes.yaml"
    path.write_bytes(b"title: x\nabout: \xff\n")
    with pytest.raises(ScenarioError, match=r"bytes.yaml:2:1  not UTF-8"):
        load(path)
    with pytest.raises(ScenarioError, match=r"none.yaml:1:1  it cannot be read: No such file"):
        load(tmp_path / "none.yaml")


def test_a_good_file_is_a_scenario() -> None:
    text = dedent("""
        title: Two identical prompts
        about: >
          Users send the same
          text twice.
        exercises: [prompt.distinct-message-ids]
        needs: [model, capability.session.delete]
        steps:
          - connect: ada
          - new-session: {as: chat}
          - for-each:
              as: delay
              of: [0, 5]
              steps:
                - prompt: {in: chat, as: first, after: "{delay}"}
                - wait: {response: first}
        """)
    scenario = parse(text, "mine.yaml", "mine", rules=RULES)
    assert scenario.title == "Two identical prompts"
    assert scenario.about == "Users send the same text twice."
    assert scenario.needs == ("model", "capability.session.delete")
    assert scenario.steps[0] == Step("connect", {"as": "ada"}, 9)
    loop = scenario.steps[2]
    assert loop.arguments["of"] == [0, 5]
    assert [step.verb for step in loop.arguments["steps"]] == ["prompt", "wait"]
    assert loop.arguments["steps"][0].arguments["after"] == "{delay}"
    assert loop.arguments["steps"][1].arguments["response"] == ("first",)


def test_the_name_of_a_for_each_is_known_inside_it_only() -> None:
    steps = 'connect: ada\n  - for-each: {as: n, of: [1], steps: [{send: {text: "{n}"}}]}\n  - send: {text: "{n}"}'
    assert '5:18  unknown name "{n}"' in error_of(f"{HEAD}  - {steps}\n")


def test_braces_around_anything_else_are_text() -> None:
    scenario = parse(HEAD + "  - connect: ada\n  - send: {text: '{\"a\": {}}'}\n", "m.yaml", "m")
    assert scenario.steps[1].arguments["text"] == '{"a": {}}'


def test_the_head_of_a_scenario_says_what_the_whole_file_says() -> None:
    whole = load_all(folder("scenarios"))
    assert heads(folder("scenarios")) == [replace(scenario, steps=()) for scenario in whole]


def test_the_bundled_scenarios_can_be_used_and_name_rules_that_there_are() -> None:
    scenarios = load_all(folder("scenarios"), rules=RULES)
    assert len(scenarios) >= 60
    assert len({scenario.transcript for scenario in scenarios}) == len(scenarios)
    for scenario in scenarios:
        assert scenario.exercises, f"{scenario.id} exercises nothing"
        assert scenario.about, f"{scenario.id} says nothing of itself"


def test_every_must_rule_of_agents_has_a_scenario() -> None:
    exercised = {rule for scenario in load_all(folder("scenarios")) for rule in scenario.exercises}
    must = {rule.id for rule in RULES.values() if rule.party == "agent" and rule.level == "must"}
    assert must - exercised == set()


def test_the_schema_for_editors_is_made_of_the_tables() -> None:
    path = folder("scenarios") / schema.PATH
    assert path.read_text(encoding="utf-8") == schema.text(), "write it again: python -m conformance.scenario.schema"


def test_the_schema_accepts_every_bundled_scenario_and_refuses_a_misspelt_one() -> None:
    from jsonschema import Draft202012Validator

    from conformance.scenario.yaml12 import read_yaml

    validator = Draft202012Validator(json.loads(schema.text()))
    Draft202012Validator.check_schema(schema.schema())
    for scenario in load_all(folder("scenarios")):
        errors = list(validator.iter_errors(read_yaml(scenario.path.read_text(encoding="utf-8")).plain))
        assert errors == [], scenario.id
    assert not validator.is_valid({"title": "x", "steps": [{"conect": "ada"}]})
    assert not validator.is_valid({"title": "x", "steps": [{"connect": {"as": "ada", "wiht": {}}}]})


def test_names_of_the_tables_are_their_own() -> None:
    assert not set(VERBS) & set(LATER)
    assert {"response", "idle", "quiet", "held", "exit", "model-request"} <= set(CONDITIONS)


def test_the_readme_shows_a_scenario_that_can_be_read_and_names_the_whole_language() -> None:
    readme = (folder("scenarios") / "README.md").read_text(encoding="utf-8")
    shown = readme.split("```yaml\n")[1].split("```")[0]
    assert parse(shown, "again.yaml", "again", rules=RULES).title == "Stopped, and the same prompt again"
    for name in (*VERBS, *CONDITIONS, *LATER, *NEEDS, *TRIGGERS):
        assert f"`{name}" in readme, f"{name} is not in the README"


def test_the_error_that_the_readme_shows_is_the_one_that_is_told() -> None:
    readme = (folder("scenarios") / "README.md").read_text(encoding="utf-8")
    text = readme.split("```yaml\n")[1].split("```")[0].replace("cancel: chat", "cancel: caht")
    with pytest.raises(ScenarioError) as caught:
        parse(text, "again.yaml", "again")
    assert indent(str(caught.value), "    ") in readme
