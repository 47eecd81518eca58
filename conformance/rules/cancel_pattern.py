"""What many stops show that one does not: whether the cancels of a session, or the closes of a connection, end the work
each time, which a race may explain once and not in a row."""

from collections.abc import Sequence
from typing import NamedTuple

from conformance.conversation import Connection, Work
from conformance.conversation.span import between
from conformance.history import Event
from conformance.rules.insertion import Part, in_order

ROW = 3  # stopped works
SPREAD = 0.1  # seconds between the shortest and the longest of them
TOLD = ("cancelled", "error")  # stop reasons that say so
RATIO = 2  # how much more their lengths differ than the time from the stop to the end


class Ended(NamedTuple):
    """One work that a stop was sent in."""

    work: Work
    stop: Event
    idle: Event

    @property
    def whole(self) -> float:
        """What it took in all, in seconds."""
        return self.idle.t - self.work.began.event.t

    @property
    def rest(self) -> float:
        """What it took from the stop on, in seconds."""
        return self.idle.t - self.stop.t


def _left_alone(work: Work, since: float) -> bool:
    """Whether nobody stopped this work, or anything after position `since`."""
    return work.stop_reason == "end_turn" and not work.view.session.stops_between(since, work.ended_at)


def _row(stopped: Sequence[Ended], alone: Sequence[Work], how: str) -> list[Part]:
    """The proof that the stops ended each work; empty where that is not certain. Certain it is where the works are
    shorter than all that were left alone, and last as long as the stop lets them: their ends follow the stops, whenever
    these come. The last one's idle is the last part."""
    lengths = [(work.ended.event.t - work.began.event.t, work.ended.event, work) for work in alone if work.ended]
    if len(stopped) < ROW or not lengths:
        return []
    shortest, idle, untouched = min(lengths, key=lambda each: each[0])
    wholes, rests = [each.whole for each in stopped], [each.rest for each in stopped]
    spread = max(wholes) - min(wholes)
    if max(wholes) >= shortest or spread < SPREAD or spread < RATIO * (max(rests) - min(rests)):
        return []
    parts: list[Part] = [(untouched.began.event, "work that nobody stops"), (idle, "takes its time")]
    for each in stopped[-ROW:]:
        parts.append((each.stop, f"{how} {each.whole - each.rest:.3f} s after it began"))
        parts.append((each.idle, f"it ends {each.rest:.3f} s later, with {each.work.stop_reason or 'no stop reason'}"))
    return in_order(*parts)


def _live(works: Sequence[Work]) -> list[tuple[float, Work, Event]]:
    """The works that ended, each with the end of the one before it and its idle; without what is only replayed."""
    since, found = -1.0, []
    for work in works:
        if work.ended is not None and work.ended.update.replay is None:
            found.append((since, work, work.ended.event))
        since = work.ended_at
    return found


def ended_each_time(work: Work) -> list[Part]:
    """The proof that the cancels of this session, this work's among them, ended the work and were not told; empty
    where it is not certain. It is told of the last such work."""
    view = work.view
    if any(following.cancel is not None for following in view.works_after(work.seq)):
        return []
    live = _live(view.works)
    stopped = [Ended(each, each.cancel[1], idle) for _, each, idle in live if each.cancel is not None]
    if not stopped or stopped[-1].work is not work or any(each.work.stop_reason in TOLD for each in stopped):
        return []
    return _row(stopped, [each for since, each, _ in live if _left_alone(each, since)], "cancelled")


def closed_each_time(connection: Connection) -> list[Part]:
    """The proof that the closes of this connection's sessions ended their work and this was not told; empty where it is
    not certain."""
    stopped, alone = [], []
    for view in connection.views.values():
        for since, work, idle in _live(view.works):
            closes = between(view.session.closes, work.seq, work.ended_at)
            close = next((close for close in closes if close.connection is connection and close.succeeded), None)
            if close is not None and idle.seq < close.answered_at and work.cancel is None:
                stopped.append(Ended(work, close.event, idle))
            elif _left_alone(work, since):
                alone.append(work)
    if any(each.work.stop_reason in TOLD for each in stopped):
        return []
    return _row(sorted(stopped, key=lambda each: each.stop.seq), alone, "closed")
