"""One line of the wire is one envelope: what kind it is, and what is wrong with it."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.wire import Kind, encode, envelope_of, read_envelope, request_key
from tests.test_wire_json import VALUES


def rpc(**members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", **members}


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (rpc(id=1, method="session/new", params={}), Kind.REQUEST),
        (rpc(id="a", method="session/new"), Kind.REQUEST),
        (rpc(id=1.0, method="x", params=None), Kind.REQUEST),
        (rpc(method="session/update", params=[]), Kind.NOTIFICATION),
        (rpc(id=1, result=None), Kind.RESULT),
        (rpc(id=1, error={"code": -32601, "message": ""}), Kind.ERROR),
        (rpc(id=None, error={"code": -32700, "message": "", "data": 1}), Kind.ERROR),
        ([], Kind.ARRAY),
        ([rpc(method="x")], Kind.ARRAY),
    ],
)
def test_well_formed_messages_have_no_flaw_and_keep_no_bytes(message: Any, kind: Kind) -> None:
    line = encode(message).strip()
    envelope = read_envelope(line)
    assert (envelope.kind, envelope.message, envelope.flaws) == (kind, message, ())
    assert (envelope.raw, envelope.length) == (None, len(line))
    assert (envelope_of(message).kind, envelope_of(message).flaws) == (kind, ())


@pytest.mark.parametrize(
    ("message", "kind", "flaws"),
    [
        ({"id": 1, "method": "x"}, Kind.REQUEST, ["jsonrpc is missing"]),
        ({"jsonrpc": "1.0", "method": "x"}, Kind.NOTIFICATION, ['jsonrpc is "1.0", must be "2.0"']),
        ({"jsonrpc": 2.0, "method": "x"}, Kind.NOTIFICATION, ['jsonrpc is 2.0, must be "2.0"']),
        (rpc(id=None, method="x"), Kind.REQUEST, ["id is null"]),
        (rpc(id=True, method="x"), Kind.REQUEST, ["id is true, must be a string or an integer"]),
        (rpc(id=1.5, method="x"), Kind.REQUEST, ["id is 1.5, must be a string or an integer"]),
        (rpc(id=[1], result={}), Kind.RESULT, ["id is an array, must be a string or an integer"]),
        (rpc(id=None, result={}), Kind.RESULT, ["id is null"]),
        (rpc(id=1, method="x", params="p"), Kind.REQUEST, ['params is "p", must be an object or an array']),
        (rpc(id=1, method="x", params=False), Kind.REQUEST, ["params is false, must be an object or an array"]),
        (rpc(id=1, result=1, error={"code": 1, "message": ""}), Kind.ERROR, ["both result and error"]),
        (rpc(id=1, method="x", result=1), Kind.REQUEST, ["method beside result"]),
        (rpc(id=1, error=None), Kind.ERROR, ["error is null, must be an object"]),
        (rpc(id=1, error={}), Kind.ERROR, ["error.code is missing", "error.message is missing"]),
        (
            rpc(id=1, error={"code": "-32601", "message": None}),
            Kind.ERROR,
            ['error.code is "-32601", must be an integer', "error.message is null, must be a string"],
        ),
        (rpc(id=1, error={"code": True, "message": ""}), Kind.ERROR, ["error.code is true, must be an integer"]),
        (rpc(result={}), Kind.NOT_JSONRPC, ["id is missing"]),
        (rpc(id=1, method=5), Kind.NOT_JSONRPC, ["method is 5, must be a string"]),
        (rpc(id=1), Kind.NOT_JSONRPC, ["none of method, result and error"]),
        ({}, Kind.NOT_JSONRPC, ["jsonrpc is missing", "none of method, result and error"]),
        ("x", Kind.NOT_OBJECT, ['"x" is not an object']),
        (None, Kind.NOT_OBJECT, ["null is not an object"]),
    ],
)
def test_a_flawed_message_is_classified_all_the_same_and_keeps_its_bytes(
    message: Any, kind: Kind, flaws: list[str]
) -> None:
    line = encode(message).strip()
    envelope = read_envelope(line)
    assert (envelope.kind, list(envelope.flaws)) == (kind, flaws)
    assert (envelope.message, envelope.raw) == (message, line)


@pytest.mark.parametrize(
    ("line", "kind", "flaw"),
    [
        (b"", Kind.NOT_JSON, "empty line"),
        (b"Welcome to the agent!", Kind.NOT_JSON, "not JSON: expecting value (character 1)"),
        (b'{"jsonrpc":"2.0","method":"x"', Kind.NOT_JSON, "not JSON: expecting ',' delimiter (character 30)"),
        (b'{"a":NaN}', Kind.NOT_JSON, "NaN is not JSON"),
        (b"\xef\xbb\xbf{}", Kind.NOT_JSON, "a byte order mark before the message"),
        (b'{"a":"\xff"}', Kind.NOT_UTF8, "not UTF-8: byte 0xff at position 7"),
        (b'"\xed\xa0\x80"', Kind.NOT_UTF8, "not UTF-8: byte 0xed at position 2"),
    ],
)
def test_what_cannot_be_parsed_has_no_message_but_its_bytes(line: bytes, kind: Kind, flaw: str) -> None:
    envelope = read_envelope(line)
    assert (envelope.kind, envelope.message, envelope.flaws) == (kind, None, (flaw,))
    assert (envelope.raw, envelope.length) == (line, len(line))


def test_flaws_of_the_text_and_of_the_envelope_stand_together() -> None:
    envelope = read_envelope(b'{"id":1,"id":2,"method":"x"}')
    assert (envelope.kind, envelope.flaws) == (Kind.REQUEST, ('duplicate key "id"', "jsonrpc is missing"))
    assert envelope.message["id"] == 2


@given(VALUES)
def test_what_is_encoded_is_read_back(value: Any) -> None:
    assert repr(read_envelope(encode(value)[:-1]).message) == repr(value)


@given(st.binary())
def test_no_line_raises(line: bytes) -> None:
    envelope = read_envelope(line)
    assert envelope.length == len(line)
    assert envelope.raw == line or not envelope.flaws


def test_ids_are_equal_only_with_type_and_value() -> None:
    ids = [1, 1.0, True, "1", None, "null", [1], [1.0], {"a": 1}, [10**5_000], 10**30, "", 0, False]
    for one, other in combinations(ids, 2):
        assert request_key(one) != request_key(other), (one, other)
    assert {request_key(id): id for id in ids}.keys() == {request_key(id) for id in ids}
