"""A stretch of a list, looked at without being copied: what makes "everything after that position" cheap to ask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar, overload

Item = TypeVar("Item")


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
