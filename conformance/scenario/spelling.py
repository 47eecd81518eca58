"""The closest known word to a misspelt one."""

from collections.abc import Iterable


def closest(word: str, known: Iterable[str], most: int = 1) -> list[str]:
    """Up to `most` words of `known` that `word` may have meant, best first; none where nothing is near."""
    from difflib import get_close_matches

    by_fold = {name.casefold(): name for name in known}
    return [by_fold[found] for found in get_close_matches(word.casefold(), by_fold, most, 0.6)]


def did_you_mean(word: str, known: Iterable[str], list_command: str = "") -> str:
    """`; did you mean "..."?`, or the known words where there are few, or the command that lists them."""
    names = sorted(known)
    begun = [name for name in names if len(word) > 3 and name.startswith(word)]  # cut short rather than misspelt
    if found := begun or closest(word, names):
        return f'; did you mean "{found[0]}"?'
    if 0 < len(names) <= 12:
        return f"; known: {', '.join(names)}"
    return f"; `acp-conformance {list_command}` lists them" if list_command else ""
