"""JSON text and back, exactly, and never an exception for what an agent may write."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.wire.json_text import MAX_DEPTH, MAX_DIGITS, digits, encode, integer, parse, shown

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)


def text_of(line: bytes) -> str:
    return line.decode().removesuffix("\n")


@given(VALUES)
def test_what_is_written_is_read_back_to_the_letter(value: Any) -> None:
    parsed = parse(text_of(encode(value)))
    assert parsed.is_json
    assert not parsed.flaws
    assert repr(parsed.value) == repr(value)  # repr tells 1 from 1.0 and from True, and keeps the order of keys


@given(VALUES)
def test_ordinary_json_of_others_is_read_without_flaw(value: Any) -> None:
    parsed = parse(f" {json.dumps(value, indent=1)}\t\r")
    assert parsed.is_json
    assert not parsed.flaws
    assert repr(parsed.value) == repr(value)


@given(st.text() | st.text(alphabet='{}[]",:\\u0019eE+-.NaInfity \t\x00') | st.text(alphabet="[{1}]"))
def test_no_text_raises(text: str) -> None:
    parsed = parse(text)
    assert parsed.is_json or (parsed.value is None and len(parsed.flaws) == 1)


@given(VALUES, st.data())
def test_a_damaged_text_is_read_as_the_standard_library_does_or_called_flawed(value: Any, data: st.DataObject) -> None:
    text = text_of(encode(value))
    at = data.draw(st.integers(0, len(text)))
    damaged = text[:at] + data.draw(st.text(max_size=2)) + text[at + data.draw(st.integers(0, 2)) :]
    parsed = parse(damaged)
    try:
        expected = json.loads(damaged)
    except ValueError:
        assert not parsed.is_json
    else:
        assert parsed.flaws or repr(parsed.value) == repr(expected)


@pytest.mark.parametrize("length", [1, 23, 600, 601, 4299, 4300, 4301, 12_345, MAX_DIGITS])
@pytest.mark.parametrize("sign", ["", "-"])
def test_integers_keep_every_digit(length: int, sign: str) -> None:
    before = sys.get_int_max_str_digits()
    text = sign + ("1234567890" * (length // 10 + 1))[:length]
    parsed = parse(f'{{"id":{text}}}')
    assert parsed.is_json
    assert not parsed.flaws
    assert parsed.value["id"] % 10**20 == int(text.lstrip("-")[-20:]) * (1 if sign == "" else -1) % 10**20
    assert encode(parsed.value) == f'{{"id":{text}}}\n'.encode()
    assert sys.get_int_max_str_digits() == before


@given(st.integers(), st.integers(0, 5_000))
def test_digits_and_integer_are_inverse(small: int, zeros: int) -> None:
    number = small * 10**zeros
    assert integer(digits(number)) == number


def test_an_integer_beyond_all_sense_is_a_flaw_and_stays_an_integer() -> None:
    parsed = parse(f"[{'7' * (MAX_DIGITS + 1)},-{'7' * (MAX_DIGITS + 1)}]")
    assert parsed.flaws == (f"an integer of {MAX_DIGITS + 1} digits",)
    assert parsed.value == [10**MAX_DIGITS, -(10**MAX_DIGITS)]


def test_a_number_beyond_a_double_is_a_flaw_and_stays_finite() -> None:
    parsed = parse("[1e999, -1e999, 1e308]")
    assert parsed.flaws == ("a number beyond the range of a double",)
    assert parsed.value == [sys.float_info.max, -sys.float_info.max, 1e308]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"id":1,"id":1}', '"id"'),
        ('{"a":{"b":[{"c":1,"d":2,"c":3}]}}', '"c"'),
        ('{"a":1,"\\u0061":2}', '"a"'),
        ('{"":1,"x":{},"":2}', '""'),
    ],
)
def test_a_duplicate_key_is_a_flaw_at_any_depth_and_the_last_one_counts(text: str, key: str) -> None:
    parsed = parse(text)
    assert parsed.is_json
    assert parsed.flaws == (f"duplicate key {key}",)
    assert parsed.value == json.loads(text)


def test_equal_keys_of_different_objects_are_no_duplicates() -> None:
    assert parse('{"id":1,"params":{"id":2,"list":[{"id":3},{"id":4}]},"x":"\\"id\\":5"}').flaws == ()


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        ("", "empty line"),
        (" \t\r", "empty line"),
        ("NaN", "NaN is not JSON"),
        ('{"a":[Infinity]}', "Infinity is not JSON"),
        ("[-Infinity]", "-Infinity is not JSON"),
        ("\ufeff{}", "a byte order mark before the message"),
        ('{"a":1}{"b":2}', "text after the message"),
        ('{"a":1},', "text after the message"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "nested too deeply"),
        ("[" * 1_000_000, "nested too deeply"),
        ('{"a":' * 200_000, "nested too deeply"),
    ],
)
def test_what_is_no_json_says_why(text: str, flaw: str) -> None:
    assert parse(text) == (False, None, (flaw,))


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[1,]",
        '{"a":1,}',
        "{'a':1}",
        "[01]",
        "[1.]",
        "[.5]",
        "[+1]",
        '["\x01"]',
        '["\\x"]',
        "tru",
        "[1 2]",
        "\x0c[]",
    ],
)
def test_what_is_nearly_json_is_none(text: str) -> None:
    parsed = parse(text)
    assert not parsed.is_json
    assert parsed.flaws[0].startswith("not JSON: ")


def test_nesting_is_bounded_at_the_same_depth_everywhere() -> None:
    text = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    parsed = parse(text)
    assert parsed.is_json
    assert text_of(encode(parsed.value)) == text
    assert parse('["' + "[" * 5_000 + '"]').is_json  # brackets in a string are no nesting
    assert parse("[" + "[]," * 5_000 + "1]").is_json  # nor are brackets side by side


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\u0085", "\x0b", "\x1c", "\ufeff", "😀", "\x7f"])
def test_no_character_of_a_string_is_lost_or_ends_the_line(character: str) -> None:
    line = encode([character])
    assert line.count(b"\n") == 1
    assert parse(text_of(line)) == (True, [character], ())


def test_a_lone_surrogate_is_a_flaw_and_can_be_written_again() -> None:
    parsed = parse('{"a":["x\\ud800y"]}')
    assert parsed == (True, {"a": ["x\ud800y"]}, ("a lone surrogate in a string",))
    assert parse(text_of(encode(parsed.value))) == parsed
    assert parse('["\\ud83d\\ude00", "\\\\ud800"]') == (True, ["😀", "\\ud800"], ())


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [1e400]])
def test_what_json_has_no_form_for_is_not_written(value: Any) -> None:
    with pytest.raises(ValueError):
        encode(value)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        (12, "12"),
        ("a", '"a"'),
        ({}, "an empty object"),
        ([1], "an array"),
        ("\x1b[31m\u202ered\x7f\u2028", '"\\u001b[31m\\u202ered\\u007f\\u2028"'),
    ],
)
def test_a_value_is_shown_in_few_harmless_words(value: Any, words: str) -> None:
    assert shown(value) == words


@given(SCALARS)
def test_shown_is_short_printable_and_one_line(value: Any) -> None:
    assert shown(value).isprintable()
    assert len(shown(value)) < 500
    assert len(shown("x" * 10_000)) < 80
    assert len(shown(10**5_000)) < 80
