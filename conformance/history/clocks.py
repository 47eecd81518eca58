"""The times of a recording whose two sides were timed by two clocks."""

from dataclasses import replace
from itertools import pairwise

from conformance.history.events import Event


def put_on_one_clock(events: list[Event]) -> None:
    """Where the lines of a connection go back in time though those of each side do not, one clock is ahead of the
    other: no line is then taken to be later than any that came after it. An interval so becomes shorter than it was,
    never longer, and a delay that only the clocks made proves nothing."""
    if all(before.t <= later.t for before, later in pairwise(events)):
        return
    places: dict[str, list[int]] = {}
    for at, event in enumerate(events):
        places.setdefault(event.conn, []).append(at)
    for mine in places.values():
        if not _has_two_clocks([events[at] for at in mine]):
            continue
        for later, at in zip(reversed(mine), list(reversed(mine))[1:], strict=False):
            if events[at].t > events[later].t:
                events[at] = replace(events[at], t=events[later].t)


def _has_two_clocks(events: list[Event]) -> bool:
    """Whether the events go back in time, and those of each side by themselves do not."""
    sides: dict[str, list[float]] = {}
    for event in events:
        sides.setdefault(event.dir, []).append(event.t)
    are_ordered = all(before <= later for times in sides.values() for before, later in pairwise(times))
    return are_ordered and any(before.t > later.t for before, later in pairwise(events))
