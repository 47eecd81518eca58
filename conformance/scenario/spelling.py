"""The closest known word to a misspelt one."""

from collections.abc import Iterable


def closest(word: str, known: Iterable[str], most: int = 1) -> list[str]:
    """Up to `most` words of `known` that `word` may have meant, best first; none where nothing is near."""
    from difflib import get_close_matches

    by_fold = {name.casefold(): name for name in known}
    return [by_fold[found] for found in get_close_matches(word.casefold(), by_fold, most, 0.6)]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean "..."?`, or the known words where there are few, or nothing."""
    names = sorted(known)
    if found := closest(word, names):
        return f'; did you mean "{found[0]}"?'
    if 0 < len(names) <= 12:
        return f"; known: {', '.join(names)}"
    return ""
