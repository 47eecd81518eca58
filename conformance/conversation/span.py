"""A stretch of a list, looked at without being copied: what makes "everything after that position" cheap to ask."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar, overload


class Placed(Protocol):
    """What has a position in the history."""

    @property
    def seq(self) -> int: ...


Item = TypeVar("Item")
Thing = TypeVar("Thing", bound=Placed)


class Span(Sequence[Item]):
    """The items of `items` from `start` to `stop` (its end by default). The list must not shrink meanwhile."""

    __slots__ = ("_items", "_start", "_stop")

    def __init__(self, items: list[Item], start: int, stop: int | None = None) -> None:
        self._items = items
        self._start = start
        self._stop = max(start, len(items) if stop is None else stop)

    def __len__(self) -> int:
        return self._stop - self._start

    def __iter__(self) -> Iterator[Item]:
        items = self._items
        for at in range(self._start, self._stop):
            yield items[at]

    def __reversed__(self) -> Iterator[Item]:
        items = self._items
        for at in range(self._stop - 1, self._start - 1, -1):
            yield items[at]

    @overload
    def __getitem__(self, at: int) -> Item: ...
    @overload
    def __getitem__(self, at: slice) -> list[Item]: ...
    def __getitem__(self, at: int | slice) -> Item | list[Item]:
        if isinstance(at, slice):
            return [self._items[self._start + each] for each in range(*at.indices(len(self)))]
        where = at + len(self) if at < 0 else at
        if not 0 <= where < len(self):
            raise IndexError(at)
        return self._items[self._start + where]


def position(thing: Placed) -> int:
    return thing.seq


def after(things: list[Thing], seq: float) -> Sequence[Thing]:
    """What comes after that position. The things are in order, here and below."""
    return Span(things, bisect_right(things, seq, key=position))


def first_after(things: list[Thing], seq: float) -> Thing | None:
    """The first thing after that position."""
    return next(iter(after(things, seq)), None)


def before(things: list[Thing], seq: float) -> Thing | None:
    """The last thing before that position."""
    at = bisect_left(things, seq, key=position) - 1
    return things[at] if at >= 0 else None


def between(things: list[Thing], start: float, end: float) -> Sequence[Thing]:
    """What lies between two positions, both left out."""
    first = bisect_right(things, start, key=position)
    return Span(things, first, bisect_left(things, end, key=position))
