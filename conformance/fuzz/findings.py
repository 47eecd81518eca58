"""Failures: what was found, how surely, and the files that show it to a person."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from conformance.fuzz.verdicts import Signature
from conformance.fuzz.writing import Steps, scenario_of, text_of
from conformance.history import History, Redactor
from conformance.history.transcript import text_of as line_of
from conformance.rules import RULES
from conformance.wire import encode

REPEATS: Final = 10
FAILURES: Final = "failures.json"


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure that a fresh process has shown, `shown` of `repeats` times; `gave_up` where shrinking ran out of time;
    `is_served` where it was the agent as a server, which is over stdin and stdout, too."""

    number: int
    signature: Signature
    message: str
    steps: Steps
    shown: int = REPEATS
    repeats: int = REPEATS
    gave_up: bool = False
    origin: str = ""  # the layer and the number of the sequence that found it
    is_served: bool = False
    found_after: float = 0.0  # seconds of the campaign, until a fresh process had shown it

    @property
    def name(self) -> str:
        return f"fuzz-{self.number:03}"

    @property
    def how_often(self) -> str:
        return f"{self.shown} of {self.repeats}"

    def text(self) -> str:
        """The scenario file."""
        about = f"Found by the fuzzer ({self.origin}); seen {self.how_often} times on a fresh process."
        if self.gave_up:
            about += " Shrinking ran out of time, so it may be longer than it must be."
        rule = self.signature.rule
        return text_of(
            self.steps,
            title=f"{rule}: {self.message}"[:200],
            about=about,
            exercises=[rule] if rule in RULES else [],
            needs=[*needs_of(self.steps), *(["websocket"] if self.is_served else [])],
        )


def needs_of(steps: Steps) -> list[str]:
    """What the steps need of a target, as `needs` of a scenario says it."""
    return list(dict.fromkeys(_needs(steps)))


def _needs(steps: Steps) -> Iterator[str]:
    connections: set[str] = set()
    for step in steps:
        ((verb, given),) = step.items()
        if verb == "connect":
            connections.add(given if isinstance(given, str) else given["as"])
            if len(connections) > 1:
                yield "second-connection"
        elif verb == "restart":
            yield "restart"
        elif verb == "command":
            yield f"trigger.{given['trigger']}"
        elif verb == "delete":
            yield "capability.session.delete"
        elif verb == "model" or (verb == "require" and "model-request" in given):
            yield "model"


def save(folder: Path, failures: list[Failure]) -> None:
    """Writes the list of failures, and the scenario of each. Raises OSError."""
    told = [
        {
            "number": failure.number,
            "rule": failure.signature.rule,
            "reaction": failure.signature.reaction,
            "message": failure.message,
            "origin": failure.origin,
            "gave-up": failure.gave_up,
            "is-served": failure.is_served,
            "steps": failure.steps,
        }
        for failure in failures
    ]
    (folder / FAILURES).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8", newline="\n")
    for failure in failures:
        (folder / f"{failure.name}.yaml").write_text(failure.text(), encoding="utf-8", newline="\n")


def keep(history: History, path: Path, redactor: Redactor) -> None:
    """Writes a transcript of what was recorded in memory. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode(history.header) + b"".join(line_of(event, redactor) for event in history))


def load(folder: Path) -> list[Failure]:
    """The failures that an earlier campaign left there; those that cannot be read are passed over."""
    try:
        told: Any = json.loads((folder / FAILURES).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return []
    found = []
    for each in told if isinstance(told, list) else []:
        try:
            signature = Signature(str(each["rule"]), str(each["reaction"]))
            failure = Failure(
                int(each["number"]),
                signature,
                str(each["message"]),
                list(each["steps"]),
                gave_up=each["gave-up"] is True,
                origin=str(each["origin"]),
                is_served=each.get("is-served") is True,
            )
            scenario_of(failure.steps, failure.name)
        except Exception:  # a file that anyone may have edited
            continue
        found.append(failure)
    return found
