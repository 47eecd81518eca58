"""HTML: one self-contained file that loads nothing. The page is built by report.js from a JSON block, as text nodes
only.

A strict Content-Security-Policy allows the one script and the one style by their hashes, and nothing else: no network,
no images, no frames, no links. Transcripts go in whole up to a budget, those with findings first.
"""

import base64
import hashlib
import html
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from conformance.history import Event, History, Redactor, TranscriptError, read_transcript
from conformance.history.transcript import line_of
from conformance.report.codec import to_json
from conformance.report.excerpt import describe, is_model
from conformance.report.model import Report
from conformance.report.sanitise import clean, clean_lines
from conformance.report.terminal import exercised_words, target_words

FILE: Final = "report.html"
MOST_TRANSCRIPTS: Final = 24_000_000  # characters of all transcripts in the file
MOST_MESSAGE: Final = 20_000  # characters of one message


def render(report: Report, folder: Path) -> str:
    from conformance.resources import folder as data_folder

    source = data_folder("reports")
    template, style, script = (
        (source / name).read_text(encoding="utf-8") for name in ("report.html", "report.css", "report.js")
    )
    transcripts, missing = _transcripts(report, folder)
    data = {
        "report": to_json(report),
        "rules": _rules(report),
        "transcripts": transcripts,
        "missing": missing,
        "sources": dict(_sources(report)),
    }
    parts = {
        "policy": html.escape(_policy(script, style)),
        "title": html.escape(f"{report.verdict}: {target_words(report)}"),
        "summary": html.escape(exercised_words(report.counts("must"), "must")),
        "style": style,
        "data": _json(data),
        "script": script,
    }
    pieces = template.split("{{")
    page = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}}")
        page += [parts[name], rest]
    return "".join(page)


def _policy(script: str, style: str) -> str:
    def hashed(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    allowed = f"script-src {hashed(script)}; style-src {hashed(style)}"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _json(data: Any) -> str:
    """JSON that cannot end the script element it stands in, whatever its strings hold."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _rules(report: Report) -> dict[str, dict[str, str]]:
    from conformance.rules import RULES

    known = [RULES[rule.id] for rule in report.rules if rule.id in RULES]
    return {rule.id: {"exercised": rule.exercised, "violated": rule.proof, "never": rule.never} for rule in known}


def _sources(report: Report) -> Iterator[tuple[str, str]]:
    from conformance.resources import folder

    for scenario in report.scenarios:
        path = folder("scenarios") / f"{scenario.id}.yaml"
        if ".." not in scenario.id and path.is_file():
            yield scenario.id, clean_lines(path.read_text(encoding="utf-8", errors="backslashreplace"), 50_000)


def _transcripts(report: Report, folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Transcripts by name as the script wants them, and why others are missing."""
    proving = (proof.transcript for rule in report.rules for found in rule.findings for proof in found.events)
    others = (scenario.transcript for scenario in report.scenarios)
    shown: dict[str, Any] = {}
    missing: dict[str, str] = {}
    left = MOST_TRANSCRIPTS
    for name in dict.fromkeys(name for each in (proving, others) for name in each if name):
        if left <= 0:
            missing[name] = f"This file would be too large with the transcript; it is in {clean(name)}."
            continue
        try:
            history = read_transcript(folder / name)
        except TranscriptError as error:
            missing[name] = clean(f"The transcript cannot be shown: {error}", 500)
            continue
        shown[name] = _drawn(history)
        left -= sum(len(event[4]) + len(event[5]) + 60 for event in shown[name]["events"])
    return shown, missing


def _drawn(history: History) -> dict[str, Any]:
    """The lanes, left to right, and each event as [seconds, from lane, to lane, direction, what it is, its text]."""
    clients = list(dict.fromkeys(_client(event) for event in history if event.dir != "control"))[:12] or ["client"]
    lanes = [*clients, "agent"] + ["model"] * any(is_model(event.name) for event in history)
    redactor = Redactor()
    return {
        "lanes": lanes,
        "events": [_row(event, clients, redactor) for event in history],
        "flaws": [clean(flaw) for flaw in history.flaws],
    }


def _row(event: Event, clients: list[str], redactor: Redactor) -> list[Any]:
    client = _client(event)
    lane = client if client in clients else clients[-1]
    if event.dir == "client":
        way = (lane, "agent")
    elif event.dir == "agent":
        way = ("agent", lane)
    elif is_model(event.name):
        way = ("agent", "model") if event.name == "model-request" else ("model", "agent")
    else:
        way = (lane, lane) if event.conn else (clients[0], clients[0])
    line = line_of(event, redactor)
    kept = line.get("msg", line.get("raw", line.get("raw64")))
    text = (
        kept
        if isinstance(kept, str) and "msg" not in line
        else json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
    )
    return [event.t, *way, event.dir, describe(event), clean(text, MOST_MESSAGE)]


def _client(event: Event) -> str:
    return clean(event.conn or "client", 40)
