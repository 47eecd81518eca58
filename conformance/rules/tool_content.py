"""What tool calls show: diffs and terminals (schema Diff, DiffPatchFormat, TerminalUpdate, TerminalOutputChunk)."""

import binascii
from collections.abc import Iterator
from typing import Any, Final

from conformance.conversation import Terminal, ToolCall
from conformance.history import Event
from conformance.rules.git_patch import MISSING, read_patch
from conformance.rules.paths import is_absolute, normal
from conformance.rules.registry import EXERCISED, MUST, Finding, Verdict, rule, violation, warning
from conformance.wire import shown

PREFIXES: Final = ("a/", "b/", "c/", "i/", "w/", "o/")
"""Prefixes that Git writes by default or on demand."""
WITH_PATHS: Final = ("add", "delete", "modify", "move", "copy")
"""Operations whose paths the protocol defines (schema DiffChange)."""


@rule(
    "tool.diffs",
    MUST,
    says="Diff paths are absolute, and a patch agrees with the listed changes.",
    source="schema Diff, DiffPatchFormat",
    exercised="a diff",
    proof="a relative path, an a/ or b/ prefix, or a patch that names other files",
    never="/dev/null for the missing side; quoted paths; a patch of some of the changes only; no patch; patches of "
    "custom formats",
)
def diffs(call: ToolCall) -> Verdict:
    told: set[str] = set()  # each update may repeat the whole content
    for event, diff in _diffs_of(call):
        if isinstance(diff.get("changes"), list):
            yield EXERCISED
            for finding in _judge_diff(event, diff):
                if finding.message not in told:
                    told.add(finding.message)
                    yield finding


def _diffs_of(call: ToolCall) -> Iterator[tuple[Event, dict[str, Any]]]:
    for update in (*(step.update for step in call.steps), *call.chunks):
        content = update.body.get("content")
        for item in content if isinstance(content, list) else [content]:
            if isinstance(item, dict) and item.get("type") == "diff":
                yield update.event, item


def _judge_diff(event: Event, diff: dict[str, Any]) -> Iterator[Finding]:
    changes = [change for change in diff["changes"] if isinstance(change, dict)]
    standard = [change for change in changes if change.get("operation") in WITH_PATHS]
    named = (path for change in standard for path in (change.get("oldPath"), change.get("path")))
    listed = [path for path in named if isinstance(path, str)]
    relative = next((path for path in listed if not is_absolute(path)), None)
    if relative is not None:
        yield violation(
            f"a diff names the path {shown(relative)}, which is not absolute", (event, "the changes of this diff")
        )
    patch = diff.get("patch")
    if not isinstance(patch, dict) or patch.get("format") != "git_patch" or not isinstance(patch.get("text"), str):
        return
    read = read_patch(patch["text"])
    knows_all = relative is None and len(standard) == len(changes)
    about = {normal(path) for path in listed}
    for where, path in (line for section in read.sections for line in section.named()):
        if path == MISSING:
            continue
        if not is_absolute(path):
            why = f"has the prefix {path[:2]!r}" if path.startswith(PREFIXES) else "is not absolute"
            yield violation(
                f"the {where!r} line of a patch names {shown(path)}, which {why}", (event, "the patch of this diff")
            )
            return
        if knows_all and normal(path) not in about:
            named_there = ", ".join(shown(one) for one in sorted(set(listed))[:5]) or "no file"
            yield violation(
                f"the {where!r} line of a patch names {shown(path)}, which is not among the changes",
                (event, f"the changes of this diff are about {named_there}"),
            )
            return
    if patch["text"].strip() and (
        read.preamble or not all(section.header for section in read.sections) or not read.sections
    ):
        yield warning("a patch that is not made of 'diff --git' sections alone", (event, "the patch of this diff"))


@rule(
    "tool.terminals",
    MUST,
    says="A terminal's cwd is absolute, and its output (chunks and snapshots) is base64, each by itself.",
    source="schema TerminalUpdate, TerminalOutput, TerminalOutputChunk",
    exercised="a terminal_update or terminal_output_chunk",
    proof="a relative cwd; data that does not decode by itself",
    never="a changed cwd (the August text fixed it; the schema's upsert may replace it): a warning",
)
def terminals(terminal: Terminal) -> Verdict:
    cwd: tuple[Event, str] | None = None
    told: set[str] = set()
    for update in terminal.updates:
        yield EXERCISED
        here = update.body.get("cwd") if not update.is_chunk else None
        if isinstance(here, str):
            if not is_absolute(here) and "cwd" not in told:
                told.add("cwd")
                yield violation(
                    f"a terminal's cwd is {shown(here)}, which is not absolute", (update.event, "this terminal update")
                )
            if cwd is not None and cwd[1] != here and "changed" not in told:
                told.add("changed")
                yield warning(
                    f"a terminal's cwd changes to {shown(here)}",
                    (cwd[0], f"it was {shown(cwd[1])}"),
                    (update.event, "it changes"),
                )
            cwd = (update.event, here)
        output = update.body.get("output")
        data = update.body.get("data") if update.is_chunk else output.get("data") if isinstance(output, dict) else None
        if isinstance(data, str) and not _is_base64(data) and "data" not in told:
            told.add("data")
            what = "an output chunk" if update.is_chunk else "an output snapshot"
            yield violation(
                f"{what} of a terminal is not base64 by itself: {shown(data)}", (update.event, "this terminal output")
            )


def _is_base64(data: str) -> bool:
    """Whether it decodes alone, with the standard alphabet and its padding (RFC 4648, section 4)."""
    try:
        binascii.a2b_base64(data, strict_mode=True)
    except ValueError:
        return False
    return True
