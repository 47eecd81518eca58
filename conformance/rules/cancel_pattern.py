"""What a whole session shows of its cancels: whether the agent reads anything while it works, and whether the cancels
end the work each time, which one race may explain and a row of them does not."""

from typing import NamedTuple

from conformance.conversation import View, Work
from conformance.history import Event
from conformance.rules.insertion import Part, in_order

ROW = 3  # cancelled works in one session
SPREAD = 0.1  # seconds between the shortest and the longest of them
RATIO = 2  # how much more their lengths differ than the time from the cancel to the end


class Ended(NamedTuple):
    """One work that a cancel was sent in: what it took in all, and from the cancel on, in seconds."""

    work: Work
    cancel: Event
    idle: Event
    whole: float
    rest: float


def _row(view: View) -> tuple[tuple[Ended, ...], Work | None]:
    """The works of the session that a cancel ended, each time and without saying so, and the shortest one that nobody
    cancelled; empty where that is not certain. Certain it is where they are shorter than all that were left alone, and
    last as long as the cancel lets them: their ends follow the cancels, whenever these come."""
    ended, alone = [], []
    since = -1.0
    for work in view.works:
        before, since = since, work.ended_at
        if work.ended is None or work.ended.update.replay is not None:
            continue
        whole, idle = work.ended.event.t - work.began.event.t, work.ended.event
        stops = view.session.stops_between(before, work.ended_at)
        if not stops and work.stop_reason == "end_turn":
            alone.append((whole, work))
        elif stops and work.cancel is not None:
            if work.stop_reason in ("cancelled", "error"):
                return (), None
            cancel = work.cancel[1]
            ended.append(Ended(work, cancel, idle, whole, idle.t - cancel.t))
    if len(ended) < ROW or not alone:
        return (), None
    shortest, untouched = min(alone, key=lambda each: each[0])
    wholes, rests = [each.whole for each in ended], [each.rest for each in ended]
    spread = max(wholes) - min(wholes)
    if max(wholes) >= shortest or spread < SPREAD or spread < RATIO * (max(rests) - min(rests)):
        return (), None
    return tuple(ended), untouched


def ended_each_time(work: Work) -> list[Part]:
    """The proof that the cancels of this session, this work's among them, ended the work and were not told; empty
    where it is not certain. It is told of the last such work."""
    if any(following.cancel is not None for following in work.view.works_after(work.seq)):
        return []
    row, untouched = _row(work.view)
    if not row or untouched is None or untouched.ended is None or row[-1].work is not work:
        return []
    parts: list[Part] = [(untouched.began.event, "work that nobody cancels"), (untouched.ended.event, "takes its time")]
    for each in row[-ROW:]:
        parts.append((each.cancel, f"cancelled {each.whole - each.rest:.3f} s after it began"))
        parts.append((each.idle, f"it ends {each.rest:.3f} s later, with {each.work.stop_reason or 'no stop reason'}"))
    return in_order(*parts)


def hears_at_work(work: Work) -> bool:
    """Whether the agent is known to read while it works: it answered a request that was sent in the middle of work,
    or ended work as cancelled. One that does not reads a cancel when nothing is left to stop."""
    view, connection = work.view, work.view.connection
    return any(
        other.stop_reason == "cancelled" or connection.barrier_after(other.seq, other.ended_at) is not None
        for other in view.works
    )
