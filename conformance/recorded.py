"""Judges recorded traffic: transcripts in, a report out. Starts nothing; what `run` wrote gets the verdicts that `run`
gave.

Rules of both sides are judged, since a recording shows both; `party` says whose decide the verdict.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from conformance.history import Event, History, read_transcript
from conformance.history import controls as named
from conformance.report import (
    Report,
    RunEvent,
    RunStarted,
    ScenarioResult,
    ScenarioStarted,
    Target,
)
from conformance.report.build import ReportBuilder
from conformance.report.problems import bug
from conformance.rules import RULES, Judgement, Rule, judge

Sink = Callable[[RunEvent], None]


def check(
    paths: Sequence[Path],
    sink: Sink,
    *,
    party: Literal["agent", "client"] = "agent",
    rules: Iterable[Rule] | None = None,
    folder: Path | None = None,
) -> Report:
    """The report of the transcripts; its events go to `sink`.

    `rules` are all of the agent and the client by default; `folder` is where the report will lie (paths of transcripts
    are told relative to it). A recording that is cut off makes the report incomplete at best. Raises TranscriptError
    for the first file that cannot be read.
    """
    began = time.monotonic()
    chosen = [rule for rule in (RULES.values() if rules is None else rules) if rule.party in ("agent", "client")]
    started = RunStarted(
        target=Target("transcripts", ", ".join(map(str, paths))),
        started=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        party=party,
        scenarios=tuple(map(_name, paths)),
        folder=folder,
    )
    builder = ReportBuilder(started, chosen)
    sink(started)
    for path in paths:
        history = read_transcript(path)
        sink(ScenarioStarted(_name(path), _title(history)))
        at = time.monotonic()
        judgement = _judged(history, chosen, builder)
        for flaw in history.flaws:
            builder.problem(f"{_name(path)}: {flaw}")
        result = ScenarioResult(
            id=_name(path),
            title=_title(history),
            status="completed",
            reason="; ".join((*history.flaws, *_not_brought_about(history))),
            seconds=time.monotonic() - at,
            transcript=_relative(path, folder),
        )
        said = _introduction(history)
        sink(builder.add(result, judgement, info=said.get("info"), capabilities=said.get("capabilities")))
    finished = builder.finish(time.monotonic() - began)
    sink(finished)
    return finished.report


def _judged(history: History, rules: Iterable[Rule], builder: ReportBuilder) -> Judgement | None:
    try:
        return judge(history, rules)
    except Exception as error:  # a bug of ours costs this recording, not the others
        builder.problem(bug("judging a recording", error))
        return None


def matching(globs: Iterable[str]) -> list[Rule]:
    """The rules that match any of the globs, all where there is none. Raises LookupError with the glob that matches
    nothing."""
    chosen: dict[str, Rule] = {}
    wanted = tuple(globs)
    for glob in wanted:
        found = {id: rule for id, rule in RULES.items() if fnmatchcase(id, glob)}
        if not found:
            raise LookupError(glob)
        chosen.update(found)
    return [rule for rule in RULES.values() if rule.id in chosen] if wanted else list(RULES.values())


def _name(path: Path) -> str:
    return path.as_posix()


def _title(history: History) -> str:
    scenario = history.header.get("scenario")
    return scenario if isinstance(scenario, str) and scenario else f"{len(history)} recorded events"


def _relative(path: Path, folder: Path | None) -> str:
    if folder is None:
        return str(path)
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # another drive
        return str(path.resolve())


def _not_brought_about(history: History) -> Iterator[str]:
    for event in history:
        if event.name == named.NOT_BROUGHT_ABOUT and event.control is not None:
            yield f"not brought about: {event.control.get('why')}"


def _introduction(history: History) -> Mapping[str, Any]:
    """The result of the first `initialize`, {} where there is none."""
    asked: Event | None = None
    for event in history:
        message = event.message
        if not isinstance(message, dict):
            continue
        if asked is None and event.dir == "client" and message.get("method") == "initialize":
            asked = event
        elif asked is not None and event.dir == "agent" and event.conn == asked.conn and "method" not in message:
            result = message.get("result")
            if message.get("id") == asked.message.get("id") and isinstance(result, dict):
                return {key: result[key] for key in ("info", "capabilities") if isinstance(result.get(key), dict)}
    return {}
