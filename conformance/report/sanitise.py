"""The one sanitiser for what a peer wrote: what goes through it is visible, of one line and of bounded length.

Control characters (NUL, ESC), bidi controls, invisible characters, line separators, lone surrogates and noncharacters
become visible escapes such as \\x1b or \\u202e. It is idempotent, and its output is valid in UTF-8 and XML. Escaping
for a format (HTML, Markdown) is that format's own work, on top.
"""

import re
from typing import Any

SHORT = 160  # characters of one thing in a line of a view
LONG = 2_000  # characters of a message that is a paragraph

_UNSAFE = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # controls, ANSI escapes among them
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"  # bidi, invisible, line separators
    "\ufff9-\ufffb\ufffe\uffff\ud800-\udfff"  # annotations, noncharacters, lone surrogates
    "\U000e0000-\U000e0fff\U0001fffe\U0001ffff\U0010fffe\U0010ffff"  # tags, further noncharacters
    "]"
)
_UNSAFE_BUT_LINES = re.compile(_UNSAFE.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))
_COMBINING = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
_MARKS = re.compile(f"({_COMBINING}{{4}}){_COMBINING}+")  # towers of marks that cover other lines
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def clean(text: str, limit: int | None = SHORT) -> str:
    """`text` on one line, everything unsafe escaped, at most about `limit` characters (None: all of it)."""
    return _escape(_UNSAFE, _cut(text, limit))


def clean_lines(text: str, limit: int | None = LONG) -> str:
    """As `clean`, but newlines and tabs stay."""
    return _escape(_UNSAFE_BUT_LINES, _cut(text.replace("\r\n", "\n"), limit))


def bounded(value: Any, *, depth: int = 8, items: int = 100, characters: int = 500) -> Any:
    """A JSON value cut to a size that a report can hold, its strings cleaned; what was cut says so."""
    if isinstance(value, str):
        return clean(value, characters)
    if isinstance(value, int) and not isinstance(value, bool):
        return value if value.bit_length() <= 64 else f"an integer of {value.bit_length()} bits"
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, dict | list) and depth == 0:
        return "..."
    if isinstance(value, list):
        kept = [bounded(item, depth=depth - 1, items=items, characters=characters) for item in value[:items]]
        return [*kept, f"... and {len(value) - items} more"] if len(value) > items else kept
    if isinstance(value, dict):
        fields = {
            clean(str(key), 100): bounded(item, depth=depth - 1, items=items, characters=characters)
            for key, item in list(value.items())[:items]
        }
        if len(value) > items:
            fields["..."] = f"and {len(value) - items} more"
        return fields
    return value if value is None or isinstance(value, bool) else clean(str(value), characters)


def _cut(text: str, limit: int | None) -> str:
    if limit is None or len(text) <= limit:
        return text
    left_out = len(text) - limit
    if left_out < 24:  # the note would be as long as what it replaces
        return text
    return f"{text[:limit]}... ({left_out:,} more characters)"


def _escape(unsafe: re.Pattern[str], text: str) -> str:
    return _MARKS.sub(r"\1", unsafe.sub(_visible, text))


def _visible(found: re.Match[str]) -> str:
    character = found.group()
    code = ord(character)
    if character in _NAMED:
        return _NAMED[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
