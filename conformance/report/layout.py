"""Lines of styled text and how they are wrapped: what the terminal view is made of. Knows widths, not reports.

Texts are clean already (`sanitise`); styles are names, turned into ANSI colours at the last moment or not at all.
"""

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

_ANSI: Final = {
    "fail": "\x1b[1;31m",
    "broken": "\x1b[1;35m",
    "warn": "\x1b[1;33m",
    "pass": "\x1b[1;32m",
    "strong": "\x1b[1m",
    "dim": "\x1b[2m",
    "wire": "\x1b[36m",
}
_RESET: Final = "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Span:
    text: str
    style: str = ""


Line = tuple[Span, ...]
BLANK: Final[Line] = ()


def render(line: Line, *, colour: bool) -> str:
    if not colour:
        return "".join(span.text for span in line).rstrip()
    return "".join(f"{_ANSI[span.style]}{span.text}{_RESET}" if span.style in _ANSI else span.text for span in line)


def columns(text: str) -> int:
    """How many terminal columns the text takes: two for wide characters, none for combining marks."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def pad(text: str, width: int) -> str:
    return text + " " * max(0, width - columns(text))


def wrap(text: str, width: int) -> Iterator[str]:
    """The words of `text` in lines of at most `width` columns; a longer word gets lines of its own."""
    line, used = "", 0
    for word in text.split():
        size = columns(word)
        if line and used + 1 + size > width:
            yield line
            line, used = "", 0
        while size > width:
            head, word = _split(word, width)
            yield head
            size = columns(word)
        line, used = (f"{line} {word}", used + 1 + size) if line else (word, size)
    if line or not text.strip():
        yield line


def paragraph(text: str, width: int, indent: int, style: str = "", first: Line = ()) -> Iterator[Line]:
    """`text` wrapped behind `indent` columns; `first`, which fills those columns, stands before its first line."""
    for number, line in enumerate(wrap(text, max(20, width - indent))):
        lead = first if number == 0 and first else (Span(" " * indent),)
        yield (*lead, Span(line, style))


def listing(words: Iterable[str], width: int, indent: int) -> Iterator[Line]:
    """Words with commas between them, wrapped."""
    yield from paragraph(", ".join(words), width, indent)


def _split(word: str, width: int) -> tuple[str, str]:
    used = 0
    for place, character in enumerate(word):
        used += columns(character)
        if used > width and place:
            return word[:place], word[place:]
    return word, ""
