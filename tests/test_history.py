"""Histories on disk and back: transcripts whole, cut and broken; what is masked; a disk that is full."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.history import Event, History, Recorder, Redactor, TranscriptError, read_transcript
from conformance.wire import Kind, read_envelope

HEADER = '{"transcript": 1, "protocol": 2}\n'
LINE = '{"seq": 0, "t": 0.5, "conn": "ada", "dir": "agent", "msg": {"jsonrpc": "2.0", "method": "_x"}}\n'


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "t.ndjson"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refused(tmp_path: Path, text: str | bytes) -> str:
    path = written(tmp_path, text)
    with pytest.raises(TranscriptError) as told:
        read_transcript(path)
    assert str(told.value).startswith(str(path))
    return str(told.value).removeprefix(str(path))


def without_length(event: Event) -> Event:
    """A message that is written as JSON says no more how many bytes it had."""
    return replace(event, envelope=replace(event.envelope, length=0) if event.envelope is not None else None)


class TestRoundTrip:
    LINES = (
        b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"sessions":[],"a":"\xe2\x80\xa8 \\u0000 \xf0\x9f\x8c\x8d"}}',
        b'{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"_x"}',
        b'{"jsonrpc": "2.0", "id": 1.50, "method": "_x"}',
        b'[{"jsonrpc":"2.0","method":"_x"}]',
        b"",
        b"Starting ...\x1b[0m",
        b'{"a": NaN}',
        b'{"a": 1, "a": 2}',
        b"\xff\xfe\x00",
        b"5",
        b'"\\ud800"',
        b'{"jsonrpc":"2.0","method":"_x","params":{"a":"\\ud800"}}',
        b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"_x"}',
        b"[" * 100_000,
    )

    def test_every_line_comes_back(self, tmp_path: Path) -> None:
        path = tmp_path / "deep" / "t.ndjson"
        recorder = Recorder(path, {"scenario": "prompt/identical", "seed": 7})
        for at, line in enumerate(self.LINES):
            recorder.wire("ada", "client" if at % 2 else "agent", read_envelope(line))
        recorder.control("", "profile", triggers={}, patience=15)
        recorder.close()
        history = read_transcript(path)
        assert history.flaws == recorder.history.flaws == []
        assert history.header == {"transcript": 1, "protocol": 2, "scenario": "prompt/identical", "seed": 7}
        assert [without_length(event) for event in history] == [without_length(event) for event in recorder.history]

    def test_a_line_that_was_cut_or_unfinished(self, tmp_path: Path) -> None:
        from conformance.wire import LineReader

        recorder = Recorder(tmp_path / "t.ndjson")
        reader = LineReader(max_line=10)
        for envelope in reader.feed(b"x" * 50 + b"\n" + b'{"a"'):
            recorder.wire("ada", "agent", envelope)
        last = reader.end()
        assert last is not None
        recorder.wire("ada", "agent", last)
        recorder.close()
        history = read_transcript(tmp_path / "t.ndjson")
        assert [event.envelope.kind for event in history if event.envelope] == [Kind.TOO_LONG, Kind.NOT_JSON]
        assert [without_length(event) for event in history] == [without_length(event) for event in recorder.history]

    def test_what_is_sent_loses_its_newline_only(self) -> None:
        recorder = Recorder()
        event = recorder.sent("ada", b'{"jsonrpc":"2.0","method":"_x"}\n')
        assert (event.dir, event.message) == ("client", {"jsonrpc": "2.0", "method": "_x"})

    def test_listeners_hear_of_each_event(self) -> None:
        recorder, heard = Recorder(clock=iter(range(100)).__next__), []
        recorder.control("ada", "started")
        recorder.listen(heard.append)
        recorder.control("ada", "closed")
        assert [(event.seq, event.t, event.name) for event in heard] == [(1, 2.0, "closed")]


class TestReading:
    def test_the_short_form(self, tmp_path: Path) -> None:
        lines = [
            {"t": 1, "dir": "client", "msg": {}},
            {"dir": "agent", "raw": "hi"},
            {"dir": "control", "msg": {"event": "x"}},
        ]
        history = read_transcript(written(tmp_path, HEADER + "\n".join(map(json.dumps, lines))))
        assert [(e.seq, e.t, e.conn, e.dir) for e in history] == [
            (0, 1.0, "client", "client"),
            (1, 1.0, "client", "agent"),
            (2, 1.0, "", "control"),
        ]
        assert history.flaws == []

    def test_blank_lines_and_other_newlines(self, tmp_path: Path) -> None:
        history = read_transcript(written(tmp_path, "\n" + HEADER + "\r\n\n" + LINE.replace("\n", "\r\n") + "  \n"))
        assert len(history) == 1

    def test_a_last_line_that_was_cut_off(self, tmp_path: Path) -> None:
        for length in range(1, len(LINE) - 1):
            history = read_transcript(written(tmp_path, HEADER + LINE + LINE[:length]))
            assert len(history) == 1, length
            (flaw,) = history.flaws
            assert flaw.startswith("line 3, the last one, is cut off or broken")

    def test_a_header_alone(self, tmp_path: Path) -> None:
        assert len(read_transcript(written(tmp_path, HEADER))) == 0

    @pytest.mark.parametrize("text", ["", "\n \n"])
    def test_empty(self, tmp_path: Path, text: str) -> None:
        assert "the file is empty" in refused(tmp_path, text)

    @pytest.mark.parametrize(
        "text", ["hello\n", LINE, "[]\n", "5\n", b"\x00\xff\xfe", b"PK\x03\x04", "[" * 100_000, '{"a": 1}\n' + LINE]
    )
    def test_something_else(self, tmp_path: Path, text: str | bytes) -> None:
        said = refused(tmp_path, text)
        assert said.startswith(":1: this is no transcript")
        assert "acp-conformance run" in said

    def test_a_later_format(self, tmp_path: Path) -> None:
        assert "transcript format 9 is not known" in refused(tmp_path, '{"transcript": 9}\n')

    @pytest.mark.parametrize(
        ("line", "why"),
        [
            ("{broken", "not JSON"),
            ("5", "not an object"),
            ('{"dir": "up", "msg": {}}', "\"dir\" is 'up'"),
            ('{"dir": "agent"}', 'an event needs "msg", "raw" or "raw64"'),
            ('{"dir": "agent", "t": "soon", "msg": {}}', "\"t\" is 'soon'"),
            ('{"dir": "agent", "t": true, "msg": {}}', '"t" is True'),
            ('{"dir": "agent", "t": NaN, "msg": {}}', '"t" is nan'),
            ('{"dir": "agent", "t": 1e999, "msg": {}}', '"t" is inf'),
            ('{"dir": "agent", "conn": 5, "msg": {}}', '"conn" is 5'),
            ('{"dir": "agent", "raw64": "%%%"}', '"raw64" is not base64'),
            ('{"dir": "control", "msg": []}', "a control event needs an object"),
        ],
    )
    def test_a_broken_middle(self, tmp_path: Path, line: str, why: str) -> None:
        said = refused(tmp_path, HEADER + LINE + line + "\n" + LINE)
        assert said.startswith(":3: ")
        assert why in said
        assert said.endswith("; mend or remove that line")

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(TranscriptError, match=r"absent\.ndjson: No such file"):
            read_transcript(tmp_path / "absent.ndjson")
        with pytest.raises(TranscriptError, match="give the path of a transcript"):
            read_transcript(tmp_path)


class TestMasking:
    KEY = "sk-0123456789abcdef"

    def line(self, tmp_path: Path, message: Any, **environment: str) -> str:
        recorder = Recorder(tmp_path / "t.ndjson", redactor=Redactor(environment, homes=("/home/ada",)))
        envelope = read_envelope(message if isinstance(message, bytes) else json.dumps(message).encode())
        recorder.wire("ada", "client", envelope)
        recorder.close()
        assert recorder.history.events[0].envelope is envelope  # in memory nothing is masked
        return (tmp_path / "t.ndjson").read_text().splitlines()[1]

    def test_values_of_the_environment(self, tmp_path: Path) -> None:
        message = {"jsonrpc": "2.0", "method": "_x", "params": {"a": f"key={self.KEY}!", self.KEY: [self.KEY]}}
        line = self.line(tmp_path, message, OPENAI_API_KEY=self.KEY)
        assert self.KEY not in line
        assert line.count("[OPENAI_API_KEY]") == 3

    def test_in_what_is_no_message(self, tmp_path: Path) -> None:
        assert self.KEY not in self.line(tmp_path, f"using {self.KEY}".encode(), MY_TOKEN=self.KEY)

    @pytest.mark.parametrize("name", ["HOMEPAGE", "LANG"])
    def test_other_variables_stay(self, tmp_path: Path, name: str) -> None:
        assert "en_GB.UTF-8" in self.line(tmp_path, {"a": "en_GB.UTF-8"}, **{name: "en_GB.UTF-8"})

    def test_short_values_stay(self, tmp_path: Path) -> None:
        assert "hello" in self.line(tmp_path, {"a": "hello"}, MY_TOKEN="hello")

    @pytest.mark.parametrize(
        "text",
        ["Authorization: Bearer abcdef0123456789", "authorization=Basic YWRhOnNlY3JldA==", "bearer abcdefghijkl0123"],
    )
    def test_headers(self, text: str) -> None:
        masked = Redactor().text(text)
        assert "[masked]" in masked
        assert "abcdef" not in masked
        assert "YWRh" not in masked

    @pytest.mark.parametrize("key", ["Authorization", "x-api-key", "API-Key"])
    def test_header_fields(self, key: str) -> None:
        assert Redactor().value({"headers": {key: "abc", "accept": "b"}}) == {
            "headers": {key: "[masked]", "accept": "b"}
        }

    def test_homes(self) -> None:
        assert Redactor(homes=("/home/ada",)).text("/home/ada/x") == "~/x"

    def test_what_is_no_secret_is_untouched(self) -> None:
        value = {"a": [1, None, True, 1.5, "the bearer of news", {"b": ""}]}
        assert Redactor({"PATH": "/usr/bin"}).value(value) == value


class Full:
    """A file on a disk that takes only so many lines."""

    def __init__(self, lines: int) -> None:
        self.left = lines

    def write(self, text: str) -> int:
        if self.left == 0:
            raise OSError(28, "No space left on device")
        self.left -= 1
        return len(text)

    def flush(self) -> None: ...
    def close(self) -> None: ...


class TestDisk:
    def test_full(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Path, "open", lambda *_, **__: Full(2))
        recorder = Recorder(tmp_path / "t.ndjson")
        for _ in range(5):
            recorder.control("ada", "started")
        recorder.close()
        assert len(recorder.history) == 5
        assert recorder.history.flaws == ["the transcript could not be written: No space left on device"]

    def test_no_folder(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        recorder = Recorder(tmp_path / "file" / "t.ndjson")
        recorder.control("ada", "started")
        recorder.close()
        assert len(recorder.history) == 1
        assert len(recorder.history.flaws) == 1

    def test_each_event_is_on_disk_at_once(self, tmp_path: Path) -> None:
        recorder = Recorder(tmp_path / "t.ndjson")
        recorder.listen(lambda event: counts.append(len((tmp_path / "t.ndjson").read_text().splitlines())))
        counts: list[int] = []
        recorder.control("ada", "started")
        recorder.control("ada", "closed")
        assert counts == [2, 3]
        recorder.close()

    def test_no_file_is_asked_for(self) -> None:
        recorder = Recorder()
        event = recorder.control("ada", "started", transport="stdio")
        recorder.close()
        assert isinstance(event, Event)
        assert (event.name, event.message) == ("started", None)
        assert isinstance(recorder.history, History)


class TestClocks:
    def times(self, tmp_path: Path, *lines: tuple[str, str, float]) -> list[float]:
        message = '{"jsonrpc": "2.0", "method": "_x"}'
        told = (f'{{"t": {t}, "conn": "{conn}", "dir": "{side}", "msg": {message}}}\n' for conn, side, t in lines)
        return [event.t for event in read_transcript(written(tmp_path, HEADER + "".join(told))).events]

    def test_of_two_sides(self, tmp_path: Path) -> None:
        told = [("a", "client", 1), ("a", "agent", 61), ("a", "client", 3), ("a", "agent", 64)]
        assert self.times(tmp_path, *told) == [1, 3, 3, 64]
        told = [("a", "client", 1), ("a", "agent", -9), ("a", "client", 3), ("a", "agent", -6)]
        assert self.times(tmp_path, *told) == [-9, -9, -6, -6]

    def test_of_one_side_that_was_set(self, tmp_path: Path) -> None:
        told = [("a", "client", 1), ("a", "agent", 50), ("a", "agent", 3), ("a", "client", 4)]
        assert self.times(tmp_path, *told) == [1, 50, 3, 4]

    def test_of_two_connections(self, tmp_path: Path) -> None:
        told = [("a", "client", 1), ("a", "agent", 50), ("b", "client", 3), ("b", "agent", 4)]
        assert self.times(tmp_path, *told) == [1, 50, 3, 4]
