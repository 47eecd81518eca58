"""Paths as the protocol writes them: absolute, in the native syntax of the agent's machine, never a URI (schema
AbsolutePath)."""

import re
import unicodedata
from typing import Final

_ABSOLUTE: Final = re.compile(r"/|[A-Za-z]:[\\/]|\\\\")
_VERBATIM: Final = re.compile(r"^[\\/]{2}\?[\\/](UNC[\\/])?", re.IGNORECASE)
"""What Windows puts before a path that it has resolved."""
_ALIASES: Final = ("/private/", "/System/Volumes/Data/")
"""Prefixes under which macOS shows the same file again: resolving /tmp gives /private/tmp."""


def is_absolute(path: str) -> bool:
    """Whether this is an absolute path of POSIX or of Windows (a drive with its root, or a UNC share)."""
    return _ABSOLUTE.match(path) is not None


def is_same(one: str, other: str) -> bool:
    """Whether two absolute paths may name one directory, as far as their text shows: agents may normalise what they
    compare."""
    return one == other or normal(one) == normal(other)


def normal(path: str) -> str:
    """A path without what normalising takes away: doubled, trailing and backward slashes, dots, macOS prefixes, the
    verbatim prefix of Windows, how letters with accents are put together, upper case."""
    path = _VERBATIM.sub(lambda prefix: "//" if prefix[1] else "", unicodedata.normalize("NFC", path))
    parts: list[str] = []
    for part in path.replace("\\", "/").split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", ".", ".."):
            parts.append(part)
    clean = "/" + "/".join(parts)
    for alias in _ALIASES:
        if clean.startswith(alias):
            clean = clean[len(alias) - 1 :]
    return clean.casefold()
