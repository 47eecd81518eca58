"""Scenario files are YAML 1.2: what is written is what is read, and every mistake has a place."""

import pytest

from conformance.scenario.yaml12 import YamlError, read_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("yes", "yes"),
        ("No", "No"),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("12:30", "12:30"),
        ("2026-10-01", "2026-10-01"),
        ("1_000", "1_000"),
        ("<<", "<<"),
        ("=", "="),
        ("1e3", 1000.0),
        ("-.5", -0.5),
        ("true", True),
        ("~", None),
        ("", None),
        ('"010"', "010"),
        ("'true'", "true"),
        ("123456789012345678901234567890", 123456789012345678901234567890),
    ],
)
def test_a_plain_value_is_what_yaml_1_2_says(text: str, value: object) -> None:
    found = read_yaml(f"key: {text}").plain["key"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", (3, 1), '"a" stands twice; the first is in line 1'),
        ("a: {b: 1, b: 2}\n", (1, 11), '"b" stands twice'),
        ("a: !!str 12\n", (1, 4), "tags are not used here"),
        ("a: 1\n---\nb: 2\n", (2, 1), "a second document"),
        ("", (1, 1), "the file is empty"),
        ("a: [1, 2\n", (2, 1), "not YAML"),
        ("a: .nan\n", (1, 4), ".nan is no number of JSON"),
        ("a: 1e999\n", (1, 4), "too large"),
        ("1: a\n", (1, 1), "a key must be text"),
        ("a: *b\n", (1, 4), "the alias *b has no anchor"),
        ("a: \x07\n", (1, 1), "not YAML"),
        ("[" * 200, (1, 102), "nested deeper than 100 levels"),
    ],
)
def test_what_is_no_such_yaml_is_an_error_with_its_place(text: str, place: tuple[int, int], words: str) -> None:
    with pytest.raises(YamlError) as caught:
        read_yaml(text)
    assert words in caught.value.message
    assert (caught.value.line, caught.value.column) == place


def test_every_value_has_its_place() -> None:
    root = read_yaml("title: x\nsteps:\n  - connect: ada\n")
    steps = root.get("steps")
    assert steps is not None
    ((verb, name),) = steps.value[0].value
    assert (verb.line, verb.column, verb.length) == (3, 5, 7)
    assert (name.line, name.column, name.length) == (3, 14, 3)


def test_anchors_stand_for_the_value_they_name() -> None:
    assert read_yaml("a: &x {b: 1}\nc: *x\n").plain == {"a": {"b": 1}, "c": {"b": 1}}
