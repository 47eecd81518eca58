"""Closing a session: what it ends, answers and silences."""

from typing import Any

import pytest

from tests.story import Story


def because(story: Story, rule: str) -> list[tuple[int, str]]:
    """(seq, direction) of the events that prove the first finding."""
    return [(event.seq, event.dir) for event, _ in story.outcome(rule).findings[0].because]


class TestCloseCancelsFirst:
    rule = "session.close-cancels-first"

    def closing(self) -> tuple[Story, Any]:
        story = Story().begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u1")
        story.user("u1", "Hello acp-1").running()
        return story, story.request("session/close", {"sessionId": "s"})

    def test_cancelled_first(self) -> None:
        story, close = self.closing()
        assert story.idle("cancelled").reply(close).passes(self.rule)

    @pytest.mark.parametrize("late", [True, False])
    def test_no_idle_before_the_response(self, late: bool) -> None:
        story, close = self.closing()
        story.reply(close)
        if late:
            story.idle("cancelled")
        assert story.fails(self.rule) == [
            "session/close of a busy session was answered before the work was reported as cancelled"
        ]
        assert [side for _, side in because(story, self.rule)] == ["agent", "client", "agent"] + ["agent"] * late

    def queued(self) -> tuple[Story, Any]:
        """The work ends by itself while the close is pending, and that of a queued prompt begins."""
        story = Story().begin()
        first = story.prompt("Hello", nonce="acp-1")
        story.user("u1", "Hello acp-1").reply(first, messageId="u1").running()
        second = story.prompt("Then", nonce="acp-2")
        close = story.request("session/close", {"sessionId": "s"})
        return story.idle("end_turn").user("u2", "Then acp-2").reply(second, messageId="u2").running(), close

    @pytest.mark.parametrize(("pause", "fails"), [(0, 0), (2, 1)])
    def test_a_cancel_that_was_on_its_way_when_the_work_began(self, pause: float, fails: int) -> None:
        """The second one ends the next work; the close is read only after that."""
        story = Story(driven=False).begin()
        first, second, third = (story.prompt(text) for text in ("one", "two", "three"))
        story.reply(first, messageId="u1").user("u1", "one").running().cancel().cancel()
        story.idle("cancelled").after(pause).reply(second, messageId="u2").user("u2", "two").running()
        close = story.request("session/close", {"sessionId": "s"})
        story.idle("cancelled").reply(third, messageId="u3").user("u3", "three").running().idle("end_turn")
        assert len(story.reply(close).fails(self.rule)) == fails

    def test_queued_work_that_is_open_at_the_response(self) -> None:
        story, close = self.queued()
        said = "session/close was answered while work was open that had begun meanwhile"
        assert story.reply(close).fails(self.rule) == [said]
        assert [side for _, side in because(story, self.rule)] == ["client", "agent", "agent"]
        story, close = self.queued()
        assert story.idle("cancelled").reply(close).fails(self.rule) == []

    @pytest.mark.parametrize("method", ["session/prompt", "session/resume", "session/list"])
    def test_work_of_what_was_asked_after_the_close(self, method: str) -> None:
        story, close = self.closing()
        story.idle("cancelled")
        params = {"sessionId": "s", "cwd": "/w", "prompt": [{"type": "text", "text": "More"}]}
        story.request(method, params if method != "session/list" else {})
        assert len(story.running().reply(close).fails(self.rule)) == (method == "session/list")

    def test_work_that_ends_by_itself(self) -> None:
        story, close = self.closing()
        assert story.idle("end_turn").reply(close).silent(self.rule)

    def closed_in_a_row(
        self, lengths: list[float], closes: list[float], alone: float = 1.5, last: str = "end_turn"
    ) -> Story:
        """Sessions whose work lasts so long and is closed after so long, and one that is left alone."""
        story = Story().initialize()
        for number, (length, closing) in enumerate([*zip(lengths, closes, strict=True), (alone, None)]):
            name = f"s{number}"
            story.reply(story.request("session/new", {"cwd": "/w", "mcpServers": []}), sessionId=name)
            id = story.prompt("Count", nonce=f"acp-{number}", session=name)
            story.reply(id, messageId=f"u{number}").user(f"u{number}", f"Count acp-{number}", session=name)
            story.running(session=name)
            began = story.now
            if closing is not None:
                story.now = began + closing
                close = story.request("session/close", {"sessionId": name})
            story.now = began + length - 0.01
            story.idle(last if number == len(lengths) - 1 else "end_turn", session=name)
            if closing is not None:
                story.reply(close)
        return story

    def test_each_close_ends_the_work_and_none_is_told(self) -> None:
        story = self.closed_in_a_row([0.06, 0.12, 0.27], [0.02, 0.08, 0.2])
        assert story.fails(self.rule) == ["each session/close ended the work, and none was told as 'cancelled'"]
        assert [side for _, side in because(story, self.rule)] == ["client", "agent"] * 3 + ["agent", "agent"]

    @pytest.mark.parametrize(
        ("lengths", "alone", "last"),
        [
            ([0.3, 0.31, 0.3], 1.5, "end_turn"),  # it does not hear the close before it is done
            ([0.06, 0.12, 0.27], 0.25, "end_turn"),  # it takes no longer when it is left alone
            ([0.06, 0.4, 0.25], 1.5, "end_turn"),  # now and then
            ([0.06, 0.12, 0.27], 1.5, "cancelled"),  # it tells one that came in time
        ],
    )
    def test_work_that_may_have_ended_by_itself_each_time(self, lengths: list[float], alone: float, last: str) -> None:
        assert self.closed_in_a_row(lengths, [0.02, 0.08, 0.2], alone, last).fails(self.rule) == []

    @pytest.mark.parametrize("reason", ["error", None])
    def test_an_odd_end_is_suspicious(self, reason: str | None) -> None:
        story, close = self.closing()
        story.idle(reason).reply(close)
        assert (len(story.fails(self.rule)), len(story.warns(self.rule))) == (0, 1)

    def test_another_reason_while_the_model_was_held(self) -> None:
        story = Story().begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u1").running()
        story.control("model-request", number=1, nonce="acp-1", last_user=True).control("model-held", number=1)
        close = story.request("session/close", {"sessionId": "s"})
        story.idle("end_turn").reply(close)
        assert len(story.fails(self.rule)) == 1

    def test_a_model_that_is_heard_to_be_held_before_the_agent_is(self) -> None:
        story = Story().begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u1")
        story.control("model-request", number=1, nonce="acp-1", last_user=True).control("model-held", number=1)
        close = story.running().request("session/close", {"sessionId": "s"})
        assert len(story.idle("end_turn").reply(close).fails(self.rule)) == 1

    def two_clients(self, *, are_told: bool) -> Story:
        """ada's work is held by the model; bob closes the session, and the work that he was told of ends."""
        story = Story().begin().initialize(at="bob")
        story.reply(story.resume(at="bob"), at="bob")
        hers = story.prompt("Hello", nonce="acp-1")
        his = story.prompt("Hello", nonce="acp-2", at="bob")
        story.user("u1", "Hello acp-1").reply(hers, messageId="u1").running()
        if are_told:
            story.user("u1", "Hello acp-1", at="bob")
        story.user("u2", "Hello acp-2", at="bob").reply(his, at="bob", messageId="u2").running(at="bob")
        story.control("model-request", number=1, nonce="acp-1", last_user=True).control("model-held", number=1)
        close = story.request("session/close", {"sessionId": "s"}, at="bob")
        return story.idle("end_turn", at="bob").reply(close, at="bob")

    def test_the_model_is_held_for_what_another_process_of_the_agent_does(self) -> None:
        assert self.two_clients(are_told=True).fails(self.rule) != []
        assert self.two_clients(are_told=False).fails(self.rule) == []

    @pytest.mark.parametrize(("last_user", "side"), [(False, False), (True, True)])
    def test_a_suggestion_is_held_and_not_the_work(self, last_user: bool, side: bool) -> None:
        story = Story().begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u1").running()
        story.control("model-request", number=1, nonce="acp-1", last_user=last_user, side=side)
        close = story.control("model-held", number=1).request("session/close", {"sessionId": "s"})
        assert story.idle("end_turn").reply(close).silent(self.rule)

    @pytest.mark.parametrize("why", ["the agent gave it up", "it is of the work before"])
    def test_the_model_was_held_for_work_that_is_over(self, why: str) -> None:
        story = Story().begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u1").running().cancel().idle("cancelled")
        story.reply(story.prompt("Hello", nonce="acp-2"), messageId="u2").running()
        nonce = "acp-2" if why == "the agent gave it up" else "acp-1"
        story.control("model-request", number=1, nonce=nonce, last_user=True).control("model-held", number=1)
        if why == "the agent gave it up":
            story.control("model-answered", number=1, how="abandoned")
        close = story.request("session/close", {"sessionId": "s"})
        assert story.idle("end_turn").reply(close).silent(self.rule)

    def test_the_model_is_held_for_work_of_the_agents_own(self) -> None:
        story = Story().begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u1").running().idle("end_turn")
        story.running().control("model-request", number=1, nonce="acp-1", last_user=False)
        close = story.control("model-held", number=1).request("session/close", {"sessionId": "s"})
        story.control("model-answered", number=1, how="abandoned")
        assert len(story.idle("end_turn").reply(close).fails(self.rule)) == 1

    @pytest.mark.parametrize("reason", ["end_turn", "error", None])
    def test_another_reason_and_a_cancelled_tool_call(self, reason: str | None) -> None:
        story, close = self.closing()
        story.update("tool_call_update", toolCallId="c", status="cancelled").idle(reason).reply(close)
        assert len(story.fails(self.rule)) == 1
        assert because(story, self.rule) == sorted(because(story, self.rule))

    def test_the_model_is_held_for_the_same_prompt_in_another_session(self) -> None:
        story = Story().begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u1").running()
        story.reply(story.request("session/new", {"cwd": "/w"}), sessionId="other")
        story.prompt("Hello", nonce="acp-1", session="other")
        story.control("model-request", number=1, nonce="acp-1", last_user=True).control("model-held", number=1)
        close = story.request("session/close", {"sessionId": "s"})
        assert story.idle("end_turn").reply(close).silent(self.rule)

    @pytest.mark.parametrize("why", ["it is replayed", "it was before", "it is background work", "it is told again"])
    def test_a_cancelled_tool_call_that_proves_nothing(self, why: str) -> None:
        story = Story().begin()
        if why == "it was before":
            story.update("tool_call_update", toolCallId="c", status="in_progress")
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u1")
        story.user("u1", "Hello acp-1").running(background=[{"type": "tool_call", "toolCallId": "b"}])
        if why == "it is told again":
            story.update("tool_call_update", toolCallId="c", status="cancelled")
        if why == "it is replayed":
            story.resume(replay={"type": "start"})
        close = story.request("session/close", {"sessionId": "s"})
        story.update("tool_call_update", toolCallId="b" if why == "it is background work" else "c", status="cancelled")
        assert story.idle("end_turn").reply(close).silent(self.rule)

    def test_an_idle_session_or_a_failed_close(self) -> None:
        idle = Story().begin()
        idle.reply(idle.request("session/close", {"sessionId": "s"}))
        story, close = self.closing()
        assert idle.silent(self.rule)
        assert story.refuse(close, -32603).silent(self.rule)


class TestCloseAnswersPrompts:
    rule = "session.close-answers-prompts"

    def closing(self, *, inserted: bool, driven: bool = True) -> tuple[Story, Any]:
        story = Story(driven=driven).begin()
        story.reply(story.prompt("First"), messageId="u0")
        story.running()
        held = story.prompt("Second")
        if inserted:
            story.user("u1", "Second")
        return story, (held, story.request("session/close", {"sessionId": "s"}))

    def test_a_prompt_where_nobody_opened_the_session(self) -> None:
        story = Story().begin().initialize(at="bob")
        prompt = story.prompt("Hello", nonce="acp-1", at="bob")
        close = story.request("session/close", {"sessionId": "s"}, at="bob")
        story.refuse(prompt, -32002, at="bob").reply(close, at="bob")
        assert story.fails(self.rule) == []

    def test_right_answers(self) -> None:
        story, (held, close) = self.closing(inserted=False)
        assert story.idle("cancelled").reply(close).refuse(held, -32800).passes(self.rule)
        story, (held, close) = self.closing(inserted=True)
        assert story.reply(held, messageId="u1").idle("cancelled").reply(close).passes(self.rule)

    def test_an_error_for_an_inserted_prompt(self) -> None:
        story, (held, close) = self.closing(inserted=True)
        story.idle("cancelled").refuse(held, -32800).reply(close)
        assert len(story.fails(self.rule)) == 1
        assert because(story, self.rule) == sorted(because(story, self.rule))

    @pytest.mark.parametrize(("code", "fails"), [(-32603, 0), (-32602, 1)])
    def test_an_agent_that_takes_no_prompt_while_it_works(self, code: int, fails: int) -> None:
        """As it showed in another session, where nothing was closed."""
        story, (held, close) = self.closing(inserted=False)
        other = story.request("session/new", {"cwd": "/w"})
        story.reply(other, sessionId="s2").running(session="s2")
        story.refuse(story.prompt("Third", session="s2"), code)
        story.idle("cancelled").refuse(held, -32603).reply(close)
        assert len(story.fails(self.rule)) == fails

    def test_success_for_a_held_prompt_that_is_never_reported(self) -> None:
        story, (held, close) = self.closing(inserted=False)
        story.reply(held, messageId="u1").idle("cancelled")
        assert story.silent(self.rule) or story.passes(self.rule)
        story.reply(close)
        assert story.fails(self.rule) == ["a prompt that the close kept from being inserted was answered with success"]
        assert because(story, self.rule) == sorted(because(story, self.rule))

    def test_success_for_a_prompt_that_nothing_held(self) -> None:
        story = Story().begin()
        sent, close = story.prompt("Hello"), story.request("session/close", {"sessionId": "s"})
        assert story.reply(sent, messageId="u1").reply(close).passes(self.rule)

    def test_another_error_for_a_held_prompt(self) -> None:
        story, (held, close) = self.closing(inserted=False)
        story.idle("cancelled").refuse(held, -32603).reply(close)
        (said,) = story.fails(self.rule)
        assert said.endswith("was answered with -32603 (internal error) instead of -32800")

    def test_an_agent_that_takes_none_while_it_works(self) -> None:
        story, (held, close) = self.closing(inserted=False)
        story.refuse(held, -32603, "Busy").idle("cancelled").reply(close)  # on its way when the close was sent
        assert story.fails(self.rule) == []
        story, (held, close) = self.closing(inserted=False)
        assert len(story.after(1).refuse(held, -32603).idle("cancelled").reply(close).fails(self.rule)) == 1
        story = Story().begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u1").running()
        story.refuse(story.prompt("More", nonce="acp-2"), -32603, "Busy")
        held, close = story.prompt("Again", nonce="acp-3"), story.request("session/close", {"sessionId": "s"})
        assert story.after(1).refuse(held, -32603, "Busy").idle("cancelled").reply(close).fails(self.rule) == []

    @pytest.mark.parametrize("code", [-32602, -32000])
    def test_refused_for_its_own_sake(self, code: int) -> None:
        story, (held, close) = self.closing(inserted=False)
        assert story.idle("cancelled").refuse(held, code).reply(close).passes(self.rule)

    def test_never_answered(self) -> None:
        story, (held, close) = self.closing(inserted=False)
        story.idle("cancelled").reply(close)
        assert story.silent(self.rule)
        story.control("waited", **{"for": "response", "id": held})
        assert len(story.fails(self.rule)) == 1

    def test_answered_under_an_id_that_looks_like_it(self) -> None:
        story, (held, close) = self.closing(inserted=False)
        story.idle("cancelled").reply(close).refuse(str(held), -32800)
        assert story.control("waited", **{"for": "response", "id": held}).silent(self.rule)

    def test_never_answered_in_a_foreign_recording(self) -> None:
        story, (_, close) = self.closing(inserted=False, driven=False)
        story.idle("cancelled").reply(close).after(61)
        assert len(story.barrier().fails(self.rule)) == 1

    def test_no_prompt_pending(self) -> None:
        story = Story().begin()
        story.reply(story.prompt("Hello"), messageId="u1")
        assert story.reply(story.request("session/close", {"sessionId": "s"})).silent(self.rule)


class TestSilentAfterClose:
    rule = "session.silent-after-close"

    def test_a_resume_that_was_pending_may_open_it_again(self) -> None:
        story = Story().begin()
        story.reply(story.request("session/close", {"sessionId": "s"}))
        resumed = story.resume(replay=True)
        story.reply(story.request("session/close", {"sessionId": "s"})).idle()
        assert story.reply(resumed).barrier().fails(self.rule) == []

    def closed(self, *, running: bool = False) -> Story:
        story = Story().begin()
        if running:
            story.running()
        return story.reply(story.request("session/close", {"sessionId": "s"}))

    def test_silence(self) -> None:
        assert self.closed().silent(self.rule)
        assert self.closed().barrier().passes(self.rule)
        assert self.closed().control("window", kind="quiet").passes(self.rule)

    def test_an_update(self) -> None:
        story = self.closed().update("session_info_update", title="x")
        assert story.fails(self.rule) == ["session/update names a session that was closed on this connection"]
        assert [side for _, side in because(story, self.rule)] == ["client", "agent", "agent"]

    def test_a_request(self) -> None:
        story = self.closed().asks("session/request_permission", {"sessionId": "s", "title": "x", "options": []})
        assert len(story.fails(self.rule)) == 1

    def test_opened_again(self) -> None:
        story = self.closed()
        story.resume()
        assert story.idle().passes(self.rule)

    def test_other_connections_and_sessions(self) -> None:
        story = self.closed()
        story.resume(at="bob")
        assert story.idle(at="bob").barrier().passes(self.rule)

    def test_the_late_idle_of_its_work_is_another_rules(self) -> None:
        assert self.closed(running=True).idle("cancelled").passes(self.rule)
        assert len(self.closed(running=True).idle("cancelled").says("a1", "x").fails(self.rule)) == 1


class TestCloseIsIdempotent:
    rule = "session.close-is-idempotent"

    def twice(self, code: int | None) -> Story:
        story = Story(driven=False).begin()
        story.reply(story.request("session/close", {"sessionId": "s"}))
        again = story.request("session/close", {"sessionId": "s"})
        return story.reply(again) if code is None else story.refuse(again, code)

    def test_twice(self) -> None:
        assert self.twice(None).passes(self.rule)
        assert self.twice(-32603).fails(self.rule) == [
            "closing a session that is closed fails with -32603 (internal error)"
        ]
        assert self.twice(-32000).passes(self.rule)
        story = self.twice(-32002)
        assert (len(story.fails(self.rule)), len(story.warns(self.rule))) == (0, 1)

    @pytest.mark.parametrize("driven", [True, False])
    def test_an_unknown_one(self, driven: bool) -> None:
        story = Story(driven=driven).begin()
        story.refuse(story.request("session/close", {"sessionId": "nowhere"}), -32603)
        assert len(story.fails(self.rule)) == (1 if driven else 0)

    def test_an_active_one(self) -> None:
        story = Story().begin()
        assert story.refuse(story.request("session/close", {"sessionId": "s"}), -32603).silent(self.rule)


@pytest.mark.parametrize(("reason", "fails"), [("end_turn", 1), ("cancelled", 0), ("error", 0)])
def test_a_prompt_that_waited_runs_within_the_close(reason: str, fails: int) -> None:
    story = Story().begin()
    story.reply(story.prompt("one", nonce="acp-1"), messageId="m1").user("m1", "one acp-1").running()
    waits = story.prompt("two", nonce="acp-2")
    closed = story.request("session/close", {"sessionId": "s"})
    story.idle("cancelled").user("m2", "two acp-2").reply(waits, messageId="m2").running().says("a2", "Two")
    assert len(story.idle(reason).reply(closed).fails("session.close-cancels-first")) == fails


def test_work_of_the_agents_own_within_the_close() -> None:
    story = Story().begin()
    story.reply(story.prompt("one", nonce="acp-1"), messageId="m1").user("m1", "one acp-1").running()
    closed = story.request("session/close", {"sessionId": "s"})
    story.idle("cancelled").running().update("session_info_update", title="Saved").idle("end_turn").reply(closed)
    assert story.passes("session.close-cancels-first")


def test_a_prompt_that_waited_and_a_resume_that_was_sent_after_the_close() -> None:
    story = Story().begin()
    story.reply(story.prompt("one", nonce="acp-1"), messageId="m1").user("m1", "one acp-1").running()
    waits = story.prompt("two", nonce="acp-2")
    closed = story.request("session/close", {"sessionId": "s"})
    resumed = story.idle("cancelled").resume()
    story.idle("cancelled").reply(resumed).user("m2", "two acp-2").reply(waits, messageId="m2").running()
    story.says("a2", "Two").idle("end_turn").reply(closed)
    assert story.passes("session.close-cancels-first")


def test_another_answer_that_is_waited_for_in_vain_says_nothing_of_the_prompt() -> None:
    story = Story().begin()
    story.reply(story.prompt("First"), messageId="u0").running()
    story.prompt("Second")
    close = story.request("session/close", {"sessionId": "s"})
    listed = story.idle("cancelled").reply(close).request("session/list")
    story.control("waited", **{"for": "response", "id": listed, "seconds": 15})
    assert story.silent("session.close-answers-prompts")


def test_a_third_close_that_fails_after_a_second_that_did_not() -> None:
    story = Story(driven=False).begin()
    for _ in range(2):
        story.reply(story.request("session/close", {"sessionId": "s"}))
    story.refuse(story.request("session/close", {"sessionId": "s"}), -32603)
    assert len(story.fails("session.close-is-idempotent")) == 1


def test_what_a_close_ends_is_told_as_it_was_said() -> None:
    story = Story().begin()
    story.reply(story.prompt("First"), messageId="u0").running()
    held = story.prompt("Second")
    close = story.after(2).request("session/close", {"sessionId": "s"})
    story.idle().after(1).agent({"jsonrpc": "2.0", "id": held, "error": {"message": "no"}}).reply(close)
    assert story.fails("session.close-answers-prompts") == [
        "a prompt that the close kept from being inserted was answered with an error without a code instead of -32800"
    ]
    assert story.warns("session.close-cancels-first") == [
        "the work that was open at session/close ended with no stopReason instead of 'cancelled'"
    ]
