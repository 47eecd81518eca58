"""Patches in Git's text format: which files they name, and how (schema DiffPatchFormat). Pure; never raises on what is
no patch.

Hunks are not read: no line of a hunk begins like a header of the next file, so headers are looked for between a
section's beginning and its first hunk only.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

MISSING: Final = "/dev/null"
"""Stands for the missing side of an added or deleted file, in the --- and +++ lines."""

_ESCAPES: Final = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
_PATH_LINES: Final = ("--- ", "+++ ", "rename from ", "rename to ", "copy from ", "copy to ")


@dataclass(slots=True)
class Section:
    """The part of a patch about one file. `header` is what follows "diff --git " (empty where that line is missing),
    `paths` the path lines below it as (what the line begins with, the path unquoted)."""

    header: str
    paths: list[tuple[str, str]] = field(default_factory=list)

    def named(self) -> Iterator[tuple[str, str]]:
        """(where it stands, the path) of every path that the section surely names; /dev/null where it is allowed is
        left out."""
        for path in header_paths(self.header) or ():
            yield "diff --git", path
        for line, path in self.paths:
            if not (path == MISSING and line in ("---", "+++")):
                yield line, path


@dataclass(frozen=True, slots=True)
class Patch:
    """`preamble` says that something other than blank lines stands before the first section."""

    sections: list[Section]
    preamble: bool


def read_patch(text: str) -> Patch:
    """The sections of a patch. A unified diff without "diff --git" gives one section, for its first file."""
    sections: list[Section] = []
    in_header, preamble = False, False
    for line in text.split("\n"):
        line = line.removesuffix("\r")
        if line.startswith("diff --git "):
            sections.append(Section(line.removeprefix("diff --git ")))
            in_header = True
        elif line.startswith(("@@ ", "GIT binary patch", "Binary files ")):
            in_header = False
        elif not sections and line.startswith("--- "):
            sections.append(Section("", [("---", _path_of(line[4:]))]))
            in_header = True
        elif not sections:
            preamble = preamble or line.strip() != ""
        elif in_header:
            start = next((start for start in _PATH_LINES if line.startswith(start)), None)
            if start is not None:
                sections[-1].paths.append((start.rstrip(), _path_of(line[len(start) :])))
    return Patch(sections, preamble)


def _path_of(rest: str) -> str:
    """The path of a line: quoted as Git quotes, or plain up to a tab, which Git writes after a path with spaces."""
    if rest.startswith('"'):
        read = unquote(rest)
        return read[0] if read is not None else rest
    return rest.partition("\t")[0]


def header_paths(header: str) -> tuple[str, str] | None:
    """The two paths of a "diff --git" line; None where spaces leave it open where the first one ends."""
    if header.startswith('"'):
        first = unquote(header)
        if first is None or not first[1].startswith(" "):
            return None
        return first[0], _path_of(first[1][1:])
    if header.endswith('"') and ' "' in header:
        at = header.index(' "')
        return header[:at], _path_of(header[at + 1 :])
    if header.count(" ") == 1:
        one, _, other = header.partition(" ")
        return one, other
    middle = len(header) // 2
    one, other = header[:middle], header[middle + 1 :]
    if header[middle : middle + 1] == " " and (
        one == other or (one[:2] in ("a/", "c/", "i/", "w/", "o/") and one[1:] == other[1:])
    ):
        return one, other
    return None


def unquote(text: str) -> tuple[str, str] | None:
    """(the path, what follows) of a text that begins with a path in double quotes, escaped as Git does; None where it
    is malformed."""
    octets = bytearray()
    at = 1
    while at < len(text):
        character = text[at]
        if character == '"':
            return octets.decode("utf-8", "replace"), text[at + 1 :]
        if character != "\\":
            octets += character.encode("utf-8", "replace")
            at += 1
            continue
        escaped = text[at + 1 : at + 2]
        if escaped in _ESCAPES:
            octets.append(_ESCAPES[escaped])
            at += 2
        elif (
            len(digits := text[at + 1 : at + 4]) == 3
            and all(digit in "01234567" for digit in digits)
            and int(digits, 8) < 256
        ):
            octets.append(int(digits, 8))
            at += 4
        else:
            return None
    return None
