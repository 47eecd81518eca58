"""What lies before, after and between positions: each question against a plain look at all of it, at every position."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from conformance.conversation import Connection, Session, View, read
from conformance.conversation.span import after, before, between, first_after
from tests.story import Story


def busy() -> Story:
    """Something of everything on two connections, most of it twice."""
    story = Story(driven=False).begin().initialize(at="bob")
    story.reply(story.resume(at="bob"), at="bob")
    story.client(b"{").agent(b"log").client({"jsonrpc": "2.0"}).agent(b"log")
    first = story.prompt("One")
    story.reply(first, messageId="u1").user("u1", "One").running().says("a1", "Hm").cancel().cancel(at="bob")
    second = story.prompt("Two", at="bob")
    story.asks("_x", {"sessionId": "s"}, id=1).asks("_y", {}, id=2).reply(77).reply("77").answer(2).answer(1)
    story.idle("cancelled").update("state_update", state="_resting").reply(second, at="bob", messageId="u2")
    story.update("user_message", at="bob", messageId="u2").user("u2", "Two").running().chunk(
        "agent_thought", "t1", "Hm"
    )
    resume = story.resume(replay=True)
    story.user("u1", "One").reply(resume).running().says("a2", "Done").idle("end_turn")
    third = story.resume(replay=True)
    fourth = story.resume()
    story.says("a1", "Hm").reply(fourth).reply(third)
    for _ in range(2):
        story.reply(story.request("session/close", {"sessionId": "s"}))
    story.reply(story.request("session/delete", {"sessionId": "s"})).refuse(story.prompt("Three"), -32602)
    return story


@pytest.fixture(scope="module")
def conversation() -> Any:
    return read(busy().recorder.history)


@pytest.fixture(scope="module")
def positions(conversation: Any) -> list[float]:
    return [-1, *range(len(conversation.history.events) + 1), float("inf")]


@pytest.fixture(scope="module")
def view(conversation: Any) -> View:
    return conversation.connections["ada"].views["s"]  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def session(conversation: Any) -> Session:
    return conversation.sessions["s"]  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def ada(conversation: Any) -> Connection:
    return conversation.connections["ada"]  # type: ignore[no-any-return]


def seq(thing: Any) -> float:
    return thing.seq  # type: ignore[no-any-return]


def check_between(
    ask: Callable[[float, float], Sequence[Any]],
    things: Iterable[Any],
    positions: list[float],
    place: Callable[[Any], float] = seq,
) -> None:
    things = list(things)
    assert len(things) >= 2
    for start in positions:
        for end in positions:
            assert list(ask(start, end)) == [t for t in things if start < place(t) < end], (start, end)


def check_after(ask: Callable[[float], Sequence[Any]], things: Sequence[Any], positions: list[float]) -> None:
    assert len(things) >= 2
    for start in positions:
        assert list(ask(start)) == [t for t in things if t.seq > start], start


def check_first(ask: Callable[[float], Any], things: Sequence[Any], positions: list[float]) -> None:
    assert len(things) >= 2
    for start in positions:
        assert ask(start) is next((t for t in things if t.seq > start), None), start


def check_last(ask: Callable[[float], Any], things: Sequence[Any], positions: list[float]) -> None:
    assert len(things) >= 2
    for end in positions:
        assert ask(end) is next((t for t in reversed(things) if t.seq < end), None), end


def test_spans(view: View, positions: list[float]) -> None:
    check_between(lambda start, end: between(view.updates, start, end), view.updates, positions)
    check_after(lambda start: after(view.updates, start), view.updates, positions)
    check_first(lambda start: first_after(view.updates, start), view.updates, positions)
    check_last(lambda end: before(view.updates, end), view.updates, positions)


class TestView:
    def test_between(self, view: View, positions: list[float]) -> None:
        check_between(view.updates_between, view.updates, positions)
        check_between(view.states_between, view.states, positions)

    def test_after(self, view: View, positions: list[float]) -> None:
        check_after(view.works_after, view.works, positions)
        check_first(view.replay_after, view.replays, positions)
        asking = [replay for replay in view.replays if replay.asks_for_history]
        assert len(asking) < len(view.replays)
        check_first(view.history_asked_after, asking, positions)

    def test_before(self, view: View, positions: list[float]) -> None:
        check_last(view.last_update_before, view.updates, positions)
        check_last(view.work_before, view.works, positions)
        for work, earlier in zip(view.works, [None, *view.works], strict=False):
            assert work.previous is earlier

    def test_output(self, view: View, positions: list[float]) -> None:
        output = [u for u in view.updates if u.kind.startswith("agent_") and not view.is_replayed(u)]
        assert [update.message_id for update in output] == ["a1", "t1", "a2"]
        for start in positions:
            for end in positions:
                assert view.first_output(start, end) is next((u for u in output if start < u.seq < end), None)

    def test_at(self, view: View, positions: list[float]) -> None:
        for at in positions:
            states = [s.value for s in view.states if s.seq <= at and s.value in ("running", "idle")]
            assert view.state_at(at) == ([*states][-1] if states else "idle"), at
            assert view.work_at(at) is next((w for w in view.works if w.seq <= at < w.ended_at), None), at
            for work in view.works:
                assert work.holds(at) is (work.seq <= at <= work.ended_at)

    def test_a_message(self, view: View, positions: list[float]) -> None:
        message = view.messages["user", "u1"]
        assert [view.is_replayed(update) for update in message.updates] == [False, True]
        assert message.live == message.updates[:1]
        for at in positions:
            assert list(message.before(at)) == [u for u in message.updates if u.seq < at]
        assert [message.within(replay) for replay in view.replays] == [message.updates[1:], [], []]

    def test_windows(self, view: View) -> None:
        first, second, third = view.replays
        assert [u.message_id for u in first.updates] == ["u1"]
        assert [len(replay.updates) for replay in view.replays] == [1, 1, 1]
        assert first.until == first.closes < second.until
        for replay in (first, second, third):
            assert [replay.holds(u) for u in view.updates] == [replay.seq < u.seq < replay.until for u in view.updates]


class TestSession:
    def test_submissions(self, session: Session, positions: list[float]) -> None:
        check_between(session.submissions_between, session.submissions, positions)
        check_after(session.submissions_after, session.submissions, positions)
        check_last(session.submission_before, session.submissions, positions)

    def test_insertions(self, session: Session, positions: list[float]) -> None:
        inserted = sorted(session.submissions[:2], key=lambda s: s.inserted_at)
        assert session.submissions[2].inserted_at == float("inf")
        check_between(session.inserted_between, inserted, positions, lambda s: s.inserted_at)

    def test_stops(self, session: Session, positions: list[float]) -> None:
        assert len(session.stops) == 5
        check_between(session.stops_between, session.stops, positions)
        ends = session.stops[2:]
        check_first(session.end_after, ends, positions)
        for at in positions:
            assert session.end_was_before(at) is (ends[0].seq < at)
            assert list(session.closes_before(at)) == [close for close in session.closes if close.seq < at]

    def test_cancels(self, session: Session, view: View, positions: list[float]) -> None:
        assert [connection.name for connection, _ in session.cancels] == ["ada", "bob"]
        check_between(session.cancels_between, session.cancels, positions, lambda cancel: cancel[1].seq)
        assert [work.cancel for work in view.works] == [session.cancels[0], None]


class TestTraffic:
    def test_lines(self, ada: Connection, positions: list[float]) -> None:
        check_between(ada.agent_events_between, ada.agent_events, positions)
        check_first(ada.last_sign_after, ada.agent_events, positions)
        check_last(ada.last_line_before, ada.agent_events, positions)
        check_last(ada.last_client_line_before, ada.client_events, positions)

    def test_malformed_lines(self, ada: Connection, positions: list[float]) -> None:
        wrong = [e for e in ada.client_events if e.envelope is not None and e.envelope.kind.name.startswith("NOT_")]
        check_between(ada.malformed_between, wrong, positions)
        noise = [e for e in ada.agent_events if e.envelope is not None and e.envelope.kind.name == "NOT_JSON"]
        check_between(ada.agent_malformed_between, noise, positions)

    def test_requests(self, ada: Connection, positions: list[float]) -> None:
        check_after(ada.requests_after, ada.requests, positions)
        check_between(ada.agent_requests_between, ada.agent_requests, positions)
        for at in positions:
            waiting = any(r.seq < at < r.answered_at for r in ada.agent_requests)
            assert ada.waits_for_client_at(at) is waiting, at

    def test_answers(self, ada: Connection) -> None:
        for request in ada.requests:
            earlier = [r.answered_at for r in ada.requests if r.seq < request.seq and r.response is not None]
            assert ada.last_answer_before(request) == max(earlier, default=-1)

    def test_strays(self, ada: Connection, positions: list[float]) -> None:
        assert [e.message["id"] for e in ada.strays] == [77, "77"]
        check_between(ada.strays_between, ada.strays, positions)
        for at in positions:
            assert list(ada.strays_with(77, at)) == [e for e in ada.strays[:1] if e.seq > at]
            assert list(ada.strays_with("77", at)) == [e for e in ada.strays[1:] if e.seq > at]

    def test_barriers(self, ada: Connection, positions: list[float]) -> None:
        barriers = [r for r in ada.requests if r.method in ("initialize", "session/delete")]
        for start in positions:
            for end in positions:
                found = [r for r in barriers if start < r.seq and r.answered_at < end]
                assert ada.barrier_after(start, end) is (found[0] if found else None), (start, end)
