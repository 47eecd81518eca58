"""Sessions that a message tells of besides the one it is about."""

from collections.abc import Iterator
from typing import Any


def announced_sessions(value: Any) -> Iterator[str]:
    """Every string under a key that ends in "sessionId" anywhere in a value: how updates announce subagents and
    forks."""
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, str):
                if key.lower().endswith("sessionid"):
                    yield item
            elif isinstance(item, dict | list):
                yield from announced_sessions(item)
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict | list):
                yield from announced_sessions(item)
