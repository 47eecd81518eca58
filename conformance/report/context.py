"""The wire around a finding: the events that prove it among their neighbours, read from the transcript. For
`explain`."""

from collections.abc import Iterator
from pathlib import Path

from conformance.history import History, TranscriptError, read_transcript
from conformance.report.excerpt import describe, is_model
from conformance.report.layout import Line, Span, pad, paragraph
from conformance.report.model import FindingView

AROUND = 4  # events shown before and after each that proves something
_INDENT = 8


def context(finding: FindingView, folder: Path, width: int) -> Iterator[Line]:
    """The events of the proof, marked, with those around them; a line that says so where the transcript cannot be
    read."""
    for name in dict.fromkeys(proof.transcript for proof in finding.events if proof.transcript):
        try:
            history = read_transcript(folder / name)
        except TranscriptError as error:
            yield from paragraph(f"the wire cannot be shown: {error}", width, _INDENT, "warn")
            continue
        parts = {proof.seq: proof.part for proof in finding.events if proof.transcript == name}
        yield from _around(history, parts, width)


def _around(history: History, parts: dict[int, str], width: int) -> Iterator[Line]:
    shown = sorted({near for seq in parts for near in range(seq - AROUND, seq + AROUND + 1)} & set(range(len(history))))
    last = -1
    for seq in shown:
        if seq > last + 1:
            yield (Span(f"{' ' * _INDENT}... {seq - last - 1} events", "dim"),)
        last = seq
        event = history.events[seq]
        who = {"client": event.conn, "agent": "agent"}.get(event.dir) or ("model" if is_model(event.name) else "suite")
        way = {"client": "->", "agent": "<-"}.get(event.dir, "  ")
        is_proof = seq in parts
        lead = Span(
            f"{'*' if is_proof else ' ':>{_INDENT}} {seq:>5} {event.t:>9.3f}  ", "strong" if is_proof else "dim"
        )
        lane = Span(f"{pad(who[:12], 7)} {way} ", "wire")
        start = len(lead.text) + len(lane.text)
        yield from paragraph(describe(event), width, start, "" if is_proof else "dim", first=(lead, lane))
        if parts.get(seq):
            yield from paragraph(parts[seq], width, start + 2, first=(Span(" " * start + "= ", "dim"),))
    if shown and last < len(history) - 1:
        yield (Span(f"{' ' * _INDENT}... {len(history) - last - 1} events", "dim"),)
