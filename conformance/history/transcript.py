"""Transcripts: a history as NDJSON, one header line and one line an event.

    {"transcript": 1, "protocol": 2, "scenario": ..., "seed": ...}
    {"seq": 0, "t": 0.01, "conn": "ada", "dir": "client" | "agent" | "control", "msg": {...}}

`msg` is the JSON of a message or the fields of a control event; `raw` (text) or `raw64` (base64) stands for a line that
is not exactly the JSON of a message. Lines with only `t`, `dir` and `msg` are read too: `conn` is then "client", `seq`
counts by itself.
"""

import base64
import binascii
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from sys import intern
from typing import Any, Final, cast

from conformance.collecting import uncollected
from conformance.history.clocks import put_on_one_clock
from conformance.history.events import Direction, Event, History
from conformance.history.redaction import Redactor
from conformance.wire import Envelope, Kind, encode, envelope_of, read_envelope
from conformance.wire.json_text import parse

DEFAULT_CONNECTION = "client"
MOST_SECONDS = 1e12
_BATCH: Final = 500  # lines


class TranscriptError(Exception):
    """The file is no transcript. Says what is wrong, where (path:line), and what to do."""


def text_of(event: Event, redactor: Redactor) -> bytes:
    """The line itself, secrets masked: what `line_of` gives, at the cost of one writing where nothing is masked."""
    envelope = event.envelope
    if envelope is not None and envelope.raw is not None:
        return encode(line_of(event, redactor))
    line = {"seq": event.seq, "t": event.t, "conn": event.conn, "dir": event.dir, "msg": _said(event)}
    data = encode(line)
    return data if redactor.is_clean(data) else encode(line | {"msg": redactor.value(line["msg"])})


def _said(event: Event) -> Any:
    return event.envelope.message if event.envelope is not None else dict(event.control or {})


def line_of(event: Event, redactor: Redactor) -> dict[str, Any]:
    """The JSON line that stands for `event`, secrets masked."""
    line: dict[str, Any] = {"seq": event.seq, "t": event.t, "conn": event.conn, "dir": event.dir}
    envelope = event.envelope
    if envelope is None or envelope.raw is None:
        line["msg"] = redactor.value(_said(event))
    else:
        try:
            mask = redactor.cut if envelope.kind is Kind.TOO_LONG else redactor.text
            line["raw"] = mask(envelope.raw.decode("utf-8"))
        except UnicodeDecodeError:
            line["raw64"] = base64.b64encode(redactor.data(envelope.raw)).decode("ascii")
        if envelope.kind is Kind.TOO_LONG:
            line["cut"] = envelope.length
        elif envelope.flaws and envelope.flaws[-1] == NO_NEWLINE:
            line["unfinished"] = True
    return line


NO_NEWLINE = "no newline at the end"


def read_transcript(path: Path) -> History:
    """The history in the file; what cannot be read of its end is told in `flaws`.

    Raises TranscriptError where the file is missing, empty, of another format or broken before its last line.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TranscriptError(f"{path}: {error.strerror or error}; give the path of a transcript (.ndjson)") from None
    lines = _lines(data)
    number, first = next(lines, (0, b""))
    if not first:
        raise TranscriptError(f'{path}: the file is empty; a transcript begins with a line {{"transcript": 1, ...}}')
    header = _json(first)
    if not isinstance(header, dict) or "transcript" not in header:
        raise TranscriptError(
            f'{path}:{number}: this is no transcript: its first line must be {{"transcript": 1, "protocol": 2, ...}}; '
            "`acp-conformance run --report DIR` and `tap` write such files"
        )
    if header["transcript"] != 1:
        raise TranscriptError(
            f"{path}:{number}: transcript format {header['transcript']!r} is not known; this version reads format 1"
        )
    history = History(header)
    with uncollected():
        _read_events(path, lines, history)
    put_on_one_clock(history.events)
    return history


def _read_events(path: Path, lines: Iterator[tuple[int, bytes]], history: History) -> None:
    events = history.events
    broken: tuple[int, str] | None = None
    while batch := list(islice(lines, _BATCH)):
        together = _parsed_together([text for _, text in batch])
        for at, (number, text) in enumerate(batch):
            if broken is not None:
                raise TranscriptError(f"{path}:{broken[0]}: {broken[1]}; mend or remove that line")
            try:
                line = together[at] if together is not None else _parsed(text)
                events.append(_event(line, len(events), events[-1].t if events else 0.0))
            except ValueError as error:
                broken = (number, str(error))
    if broken is not None:
        history.flaws.append(f"line {broken[0]}, the last one, is cut off or broken and was left out: {broken[1]}")


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    start, number = 0, 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        number += 1
        line = data[start:end].strip()
        if line:
            yield number, line
        start = end + 1


def _json(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _parsed_together(lines: list[bytes]) -> list[Any] | None:
    """The JSON of many lines, read at once so that they share their keys, a third of what they hold; None where one of
    them is not plain."""
    if not all(line.startswith(b"{") and line.endswith(b"}") for line in lines):
        return None
    parsed = _json(b"[" + b",".join(lines) + b"]")
    return parsed if isinstance(parsed, list) and len(parsed) == len(lines) else None


def _parsed(text: bytes) -> Any:
    """The JSON of a line, integers of any size included, which the standard library refuses."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        parsed = parse(text.decode("utf-8", "surrogateescape")) if b"\x00" not in text else None
        if parsed is None or not parsed.is_json:
            raise ValueError(f"not JSON ({error})") from None
        return parsed.value


def _event(line: Any, seq: int, earlier: float) -> Event:
    if not isinstance(line, dict):
        raise ValueError("not an object; each line holds one event")
    direction = line.get("dir")
    if direction not in ("client", "agent", "control"):
        raise ValueError(f'"dir" is {direction!r}; it must be "client", "agent" or "control"')
    t = line.get("t", earlier)
    if isinstance(t, bool) or not isinstance(t, int | float) or not -MOST_SECONDS < t < MOST_SECONDS:
        raise ValueError(f'"t" is {t!r}; it must be a number of seconds')
    conn = line.get("conn", "" if direction == "control" else DEFAULT_CONNECTION)
    if not isinstance(conn, str):
        raise ValueError(f'"conn" is {conn!r}; it must be a string')
    if direction == "control":
        control = line.get("msg")
        if not isinstance(control, dict):
            raise ValueError('a control event needs an object as "msg"')
        return Event(seq, float(t), conn, "control", None, control)
    return Event(seq, float(t), intern(conn), cast(Direction, direction), _envelope(line), None)


def _envelope(line: dict[str, Any]) -> Envelope:
    if "raw" in line or "raw64" in line:
        raw = _raw(line)
        if isinstance(cut := line.get("cut"), int):
            return Envelope(Kind.TOO_LONG, None, raw, (f"longer than {cut - 1} bytes",), cut)
        envelope = read_envelope(raw)
        if line.get("unfinished") is True:
            return Envelope(envelope.kind, envelope.message, raw, (*envelope.flaws, NO_NEWLINE), len(raw))
        return envelope
    if "msg" not in line:
        raise ValueError('an event needs "msg", "raw" or "raw64"')
    return envelope_of(line["msg"])


def _raw(line: dict[str, Any]) -> bytes:
    if isinstance(text := line.get("raw"), str):
        return text.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(str(line.get("raw64")), validate=True)
    except binascii.Error:
        raise ValueError('"raw64" is not base64') from None
