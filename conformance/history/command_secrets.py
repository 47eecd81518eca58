"""Which words of a command line or of a URL are secrets: `--api-key VALUE`, `TOKEN=VALUE`, `-H "X-Api-Key: VALUE"`,
`ws://host/?token=VALUE`, what looks like a key of a well-known provider."""

import re
import shlex
from collections.abc import Iterable, Iterator

SECRET_NAME = re.compile(
    r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH(?!ORS?(?![A-Z]))|COOKIE|SESSION_ID)", re.IGNORECASE
)
KEY = re.compile(r"(sk-|gh[opsu]_|github_pat_|glpat-|xox[abprs]-|AKIA|AIza|eyJ)[A-Za-z0-9._/+=-]{12,}")
PASSWORD = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#\s:@]*:([^/?#\s@]{4,})@", re.IGNORECASE)  # of a URL
MINIMUM = 8  # characters; shorter values would mask ordinary words
_NAMED = re.compile(r"(?:^|[?&;])(-{0,2}[A-Za-z_][\w.-]*)(?:=|:\s*)([^?&#;]+)")
_ONE = re.compile(r"--?[\w-]+=|[\w-]+:\s")  # an option with its value, a header
_SCHEME = re.compile(r"(bearer|basic|token)\s+", re.IGNORECASE)


def command_secrets(words: Iterable[str]) -> dict[str, str]:
    """Secret -> the name under which it was given, or what it looks like."""
    found: dict[str, str] = {}
    for name, secret in _found(list(words)):
        found.setdefault(secret, name)
    return found


def _found(words: list[str]) -> Iterator[tuple[str, str]]:
    for at, word in enumerate(words):
        following = words[at + 1] if at + 1 < len(words) else ""
        if word.startswith("-") and not following.startswith("-") and _is_secret(word, following):
            yield word, following
        is_command = any(map(str.isspace, word)) and not _ONE.match(word)  # within the command: sh -c "..."
        if is_command:
            yield from _found([part for part in _parts(word) if part != word])
        for name, value in () if is_command else _NAMED.findall(word):
            value = _SCHEME.sub("", value.strip(), count=1)
            if _is_secret(name, value):
                yield name, value
        yield from (("password", found[1]) for found in PASSWORD.finditer(word))
        yield from (("key", found[0]) for found in KEY.finditer(word))


def _parts(word: str) -> list[str]:
    try:
        return shlex.split(word)
    except ValueError:
        return word.split()


def _is_secret(name: str, value: str) -> bool:
    if len(value) < MINIMUM or value.startswith(("/", "\\")) or value.isdigit():
        return False
    return bool(SECRET_NAME.search(name.replace("-", "_")))
