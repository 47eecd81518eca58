"""Lines end at the byte 0x0A and nowhere else, however the bytes arrive, and no line is kept beyond the limit."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from conformance.wire import Envelope, Kind, LineReader, encode, read_envelope
from tests.test_wire_json import VALUES


def read_all(stream: bytes, cuts: list[int], max_line: int = 1_000) -> list[Envelope]:
    reader = LineReader(max_line)
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    envelopes = [envelope for begin, end in pairwise(places) for envelope in reader.feed(stream[begin:end])]
    last = reader.end()
    return envelopes if last is None else [*envelopes, last]


LINE = VALUES.map(lambda value: encode(value)[:-1]) | st.binary(max_size=40).filter(lambda line: b"\n" not in line)
STREAM = st.tuples(st.lists(LINE, max_size=6).map(b"\n".join), st.sampled_from([b"", b"\n", b"\r\n"])).map(b"".join)


@given(STREAM, st.lists(st.integers(0, 500)), st.integers(1, 60))
def test_the_cut_into_chunks_changes_nothing(stream: bytes, cuts: list[int], max_line: int) -> None:
    whole = read_all(stream, [], max_line)
    assert read_all(stream, cuts, max_line) == whole
    assert read_all(stream, list(range(len(stream))), max_line) == whole


@given(STREAM, st.integers(1, 60))
def test_every_line_gives_one_envelope(stream: bytes, max_line: int) -> None:
    *lines, rest = stream.split(b"\n")
    envelopes = read_all(stream, [], max_line)
    assert len(envelopes) == len(lines) + (rest != b"")
    for line, envelope in zip(lines, envelopes, strict=False):
        if len(line) > max_line:
            assert envelope.kind is Kind.TOO_LONG
        else:
            assert envelope == read_envelope(line.removesuffix(b"\r"))


def test_only_a_newline_ends_a_line() -> None:
    line = encode({"jsonrpc": "2.0", "method": "x", "params": ["\u2028\u2029\u0085\x0b\x0c\x1c\x1e"]})
    assert [envelope.kind for envelope in LineReader().feed(line + b"\r" + line)] == [Kind.NOTIFICATION] * 2


def test_the_carriage_return_of_a_crlf_is_dropped_and_an_empty_line_stays_one() -> None:
    envelopes = LineReader().feed(b'{"jsonrpc":"2.0","method":"x"}\r\n\r\n\n')
    assert [envelope.kind for envelope in envelopes] == [Kind.NOTIFICATION, Kind.NOT_JSON, Kind.NOT_JSON]
    assert [envelope.length for envelope in envelopes] == [30, 0, 0]


def test_a_line_too_long_is_told_at_once_and_then_dropped() -> None:
    reader = LineReader(max_line=10)
    assert reader.feed(b"0123456789") == []
    (envelope,) = reader.feed(b"a")
    assert (envelope.kind, envelope.message, envelope.length) == (Kind.TOO_LONG, None, 11)
    assert (envelope.raw, envelope.flaws) == (b"0123456789", ("longer than 10 bytes",))
    assert reader.feed(b"b" * 1_000) == []
    assert [after.message for after in reader.feed(b"\n[1]\n")] == [[1]]


def test_the_end_within_a_dropped_line_gives_nothing_more() -> None:
    reader = LineReader(max_line=2)
    assert len(reader.feed(b"[1, 2")) == 1
    assert reader.end() is None


def test_a_last_line_without_newline_is_flawed() -> None:
    reader = LineReader()
    assert reader.feed(b'{"jsonrpc":"2.0","method":"x"}') == []
    envelope = reader.end()
    assert envelope is not None
    assert (envelope.kind, envelope.flaws) == (Kind.NOTIFICATION, ("no newline at the end",))
    assert envelope.raw == b'{"jsonrpc":"2.0","method":"x"}'
    assert reader.end() is None
