"""What the reader makes of a history: requests and responses, sessions as each connection sees them, works, replays."""

from typing import Any

import pytest

from conformance.conversation import Conversation, View, read, text_after
from conformance.conversation.span import Span
from tests.story import Story


def told(story: Story) -> Conversation:
    return read(story.recorder.history)


def view(story: Story, session: str = "s", at: str = "ada") -> View:
    return told(story).connections[at].views[session]


class TestRequests:
    def test_ids_are_told_apart_by_type_and_sender(self) -> None:
        story = Story()
        for id in (1, "1", 1.5, None, True):
            story.client({"jsonrpc": "2.0", "id": id, "method": "session/list"})
        story.asks("_x", {}, id=1).reply("1", sessions=[]).reply(1, sessions=[])
        connection = told(story).connections["ada"]
        assert [request.response is not None for request in connection.requests] == [True, True, False, False, False]
        assert connection.agent_requests[0].response is None

    def test_strays_and_later_responses(self) -> None:
        story = Story()
        id = story.request("session/list")
        story.reply(id).reply(id).reply(99)
        connection = told(story).connections["ada"]
        assert len(connection.requests[0].later_responses) == len(connection.strays) == 1

    def test_an_id_that_is_used_again(self) -> None:
        story = Story()
        story.request("session/list", id=1)
        story.reply(1, sessions=[])
        story.request("session/list", id=1)
        story.request("session/list", id=1)
        story.reply(1, sessions=["x"])
        first, second, third = told(story).connections["ada"].requests
        assert (first.shares_id, second.shares_id, third.shares_id) == (False, False, True)
        assert second.result == {"sessions": ["x"]}
        assert third.response is None

    @pytest.mark.parametrize(
        ("message", "succeeded", "failed"),
        [
            ({"result": None}, True, False),
            ({"error": {"code": 1}}, False, True),
            ({"result": 1, "error": None}, True, False),
            ({"result": 1, "error": {}}, False, False),
            ({"error": None}, False, True),
            ({}, False, False),
        ],
    )
    def test_success_and_failure(self, message: Any, succeeded: bool, failed: bool) -> None:
        story = Story()
        id = story.request("session/list")
        story.agent({"jsonrpc": "2.0", "id": id, **message})
        request = told(story).connections["ada"].requests[0]
        assert (request.succeeded, request.failed) == (succeeded, failed)

    def test_a_cancelled_request(self) -> None:
        story = Story().begin()
        id = story.prompt("Hello")
        story.notify("$/cancel_request", {"requestId": id}).notify("$/cancel_request", {"requestId": "no"})
        assert len(told(story).sessions["s"].submissions[0].request.cancels) == 1

    def test_the_client_is_waited_for(self) -> None:
        story = Story().asks("_x", {}, id=1).asks("_x", {}, id=2).answer(1)
        connection = told(story).connections["ada"]
        assert connection.waits_for_client_at(4)
        assert not connection.waits_for_client_at(0)
        assert told(story.answer(2)).connections["ada"].waits_for_client_at(3)
        assert not told(story).connections["ada"].waits_for_client_at(4)


class TestPatience:
    def test_in_a_recording_a_late_line_shows_it(self) -> None:
        story = Story(driven=False).begin()
        story.request("session/close", {"sessionId": "s"})
        story.after(29).running()
        request = told(story).connections["ada"].requests[-1]
        assert request.connection.out_of_patience(request.event) is None
        story.after(2).running()
        request = told(story).connections["ada"].requests[-1]
        assert request.connection.out_of_patience(request.event) is story.last

    def test_when_driven_only_a_wait_shows_it(self) -> None:
        story = Story().begin()
        id = story.request("session/close", {"sessionId": "s"})
        story.after(600).running().control("waited", **{"for": "response", "id": id, "seconds": 15})
        conversation = told(story)
        request = conversation.connections["ada"].requests[-1]
        assert request.connection.out_of_patience(request.event, answer_to=request) is story.last
        other = conversation.connections["ada"].requests[0]
        assert request.connection.out_of_patience(request.event, answer_to=other) is None

    def test_a_wait_that_began_long_before_shows_nothing(self) -> None:
        story = Story().begin().running()
        story.recorder.control("ada", "waited", **{"for": "idle", "seconds": 15})
        connection = told(story).connections["ada"]
        assert connection.out_of_patience(connection.agent_events[-1]) is None

    def test_barriers(self) -> None:
        story = Story(driven=False).begin()
        story.prompt("Hello")
        story.barrier().after(2).barrier()
        connection = told(story).connections["ada"]
        prompt, first, second = connection.requests[-3:]
        assert connection.barrier_after(prompt.seq) is first
        assert connection.quiet_barrier_after(prompt.seq) is second
        assert connection.barrier_after(second.seq) is None


class TestWorks:
    def test_from_running_to_idle(self) -> None:
        story = Story().begin().running().says("a", "x").update("state_update", state="requires_action")
        story.running().idle("end_turn").idle("end_turn").update("state_update", state="_x").running()
        first, second = view(story).works
        assert (first.seq, first.ended_at, first.stop_reason) == (5, 9, "end_turn")
        assert [state.value for state in first.states] == ["running", "requires_action", "running", "idle"]
        assert [update.kind for update in first.updates].count("state_update") == 4
        assert second.ended is None
        assert view(story).work_at(6) is not None
        assert view(story).work_at(9) is None

    def test_the_state_before(self) -> None:
        story = Story().begin().idle().running().idle()
        assert [state.before for state in view(story).states] == ["idle", "idle", "running"]
        assert view(Story(driven=False).idle()).states[0].before is None

    def test_the_state_at_a_position(self) -> None:
        story = Story().begin().running().update("state_update", state="_x").idle()
        assert [view(story).state_at(seq) for seq in (4, 5, 6, 7)] == ["idle", "running", "running", "idle"]

    @pytest.mark.parametrize("background", [None, 5, "x", {}])
    def test_a_background_list_that_is_none(self, background: Any) -> None:
        assert view(Story().begin().running(background=background)).states[0].background is None


class TestMessages:
    def test_text_after_upserts(self) -> None:
        story = Story().begin().says("a", "x").says("a", "y").update("agent_message", messageId="a")
        message = view(story).messages["agent", "a"]
        assert text_after(message.updates) == "xy"
        story.update("agent_message", messageId="a", content=None).says("a", "z")
        assert text_after(view(story).messages["agent", "a"].updates) == "z"
        story.update("agent_message", messageId="a", content=[{"type": "text", "text": "1"}, {"type": "x"}, "2"])
        assert text_after(view(story).messages["agent", "a"].updates) == "1"

    def test_each_kind_has_its_own_ids(self) -> None:
        story = Story().begin().user("m", "Hello").says("m", "Hi").chunk("agent_thought", "m", "Hm")
        assert set(view(story).messages) == {("user", "m"), ("agent", "m"), ("thought", "m")}

    @pytest.mark.parametrize("params", [None, [], {}, {"sessionId": 5}, {"sessionId": "s", "update": "x"}])
    def test_malformed_updates_break_nothing(self, params: Any) -> None:
        story = Story().begin().agent({"jsonrpc": "2.0", "method": "session/update", "params": params})
        for kind in ("agent_message", "state_update", "tool_call_update", "terminal_update", "user_message_chunk"):
            story.update(kind, messageId=[], toolCallId={}, terminalId=1, state=[], content=5, status=7, background=3)
        assert view(story).messages == {}


class TestReplays:
    def replayed(self, story: Story) -> list[str]:
        return [update.message_id or "" for update in view(story).updates if view(story).is_replayed(update)]

    def test_old_messages_are_replayed_and_new_ones_live(self) -> None:
        story = Story().begin()
        story.reply(story.prompt("Hello", nonce="acp-1"), messageId="u1").user("u1", "Hello acp-1")
        resume = story.resume(replay=True)
        second = story.prompt("More", nonce="acp-2")
        story.user("u1", "Hello acp-1").user("old", "Before").user("u2", "More acp-2").idle().reply(resume)
        story.reply(second, messageId="u2").user("u3", "Later")
        assert self.replayed(story) == ["u1", "old"]

    def test_words_of_work_that_runs_are_live(self) -> None:
        story = Story().begin().running()
        resume = story.resume(replay=True)
        story.says("a", "live").running().reply(resume)
        assert self.replayed(story) == []

    def test_the_window(self) -> None:
        story = Story().begin().running()
        first = story.resume()
        story.idle().reply(first).running()
        story.resume()
        story.running()
        done, pending = view(story).replays
        assert (done.snapshot, done.was_busy, len(done.updates)) == ("idle", True, 1)
        assert (pending.snapshot, pending.closes) == ("running", float("inf"))

    def test_an_unanswered_window_ends_with_the_next(self) -> None:
        story = Story().begin()
        story.resume()
        story.running()
        story.resume()
        story.idle()
        assert [len(replay.updates) for replay in view(story).replays] == [1, 1]


class TestSubmissions:
    def test_a_unique_text_is_its_own_mark_in_a_recording(self) -> None:
        story = Story(driven=False).begin()
        for text in ("a", "b", "b", " a b "):
            story.prompt(text)
        assert [s.nonce for s in told(story).sessions["s"].submissions] == ["a", None, None, "a b"]

    def test_the_first_of_equal_texts_until_the_second(self) -> None:
        story = Story(driven=False).begin()
        story.prompt("go")
        story.user("x", "go")
        story.prompt("go")
        story.user("y", "go")
        first, second = told(story).sessions["s"].submissions
        assert first.report is not None
        assert first.report.message_id == "x"
        assert second.report is None

    def test_a_nonce_that_is_used_twice_marks_nothing(self) -> None:
        story = Story().begin()
        story.prompt("Hello", nonce="acp-1")
        story.prompt("Hello", nonce="acp-1")
        assert [s.nonce for s in told(story).sessions["s"].submissions] == [None, None]

    def test_reports_on_all_connections(self) -> None:
        story = Story().begin().initialize(at="bob")
        story.reply(story.resume(at="bob"), at="bob")
        id = story.prompt("Hello", nonce="acp-1")
        story.update("user_message", at="bob", messageId="u").reply(id, messageId="u").user("u", "Hello acp-1")
        (submission,) = told(story).sessions["s"].submissions
        assert [update.view.connection.name for update in submission.reports] == ["bob", "ada"]
        assert submission.inserted_at == submission.reports[0].seq

    def test_its_work_is_that_which_its_own_connection_saw(self) -> None:
        story = Story().begin().initialize(at="bob")
        story.reply(story.resume(at="bob"), at="bob").running().running(at="bob")
        id = story.prompt("Hello", nonce="acp-1", at="bob")
        story.idle("end_turn").user("u", "Hello acp-1").running()  # ada hears of it before bob hears of the idle
        story.idle("end_turn", at="bob").user("u", "Hello acp-1", at="bob").reply(id, messageId="u", at="bob")
        began = len(story.recorder.history.events)
        story.running(at="bob")
        (submission,) = told(story).sessions["s"].submissions
        assert submission.work is not None
        assert submission.work.seq == began

    def test_what_the_suite_said_of_it(self) -> None:
        story = Story().begin()
        story.prompt("/status", trigger="local-command", alias="command", refusable="why not")
        (submission,) = told(story).sessions["s"].submissions
        assert submission.is_local_command
        assert (submission.alias, submission.refusable, submission.nonce) == ("command", "why not", "/status")


class TestCalls:
    def test_statuses(self) -> None:
        story = Story().begin().update("tool_call_update", toolCallId="c", title="t")
        story.update("tool_call_update", toolCallId="c", status="in_progress").update(
            "tool_call_update", toolCallId="c"
        )
        story.update("tool_call_update", toolCallId="c", status=None)
        call = view(story).tool_calls["c"]
        assert [step.status for step in call.steps] == ["pending", "in_progress", "in_progress", "pending"]
        assert [call.status_at(seq) for seq in (4, 5, 6, 99)] == [None, "pending", "in_progress", "pending"]

    def test_a_permission_announces_its_tool_call(self) -> None:
        subject = {"type": "tool_call", "toolCall": {"toolCallId": "c", "title": "t"}}
        story = Story().begin().asks("session/request_permission", {"sessionId": "s", "subject": subject})
        (permission,) = view(story).permissions
        assert permission.tool_call_id == "c"
        assert view(story).tool_calls["c"].first.update.event is permission.request.event

    @pytest.mark.parametrize(
        ("outcome", "approved", "denied"),
        [
            ({"outcome": "selected", "optionId": "y"}, True, False),
            ({"outcome": "selected", "optionId": "n"}, False, True),
            ({"outcome": "selected", "optionId": "never offered"}, False, True),
            ({"outcome": "cancelled"}, False, True),
            ({"outcome": "_later"}, False, True),
            (None, False, True),
        ],
    )
    def test_outcomes(self, outcome: Any, approved: bool, denied: bool) -> None:
        options = [{"optionId": "y", "kind": "allow_once"}, {"optionId": "n", "kind": "reject_once"}]
        story = Story().begin().asks("session/request_permission", {"sessionId": "s", "options": options})
        (permission,) = view(story).permissions
        assert not permission.is_denied
        (permission,) = view(story.answer(900, outcome=outcome)).permissions
        assert (permission.is_approved, permission.is_denied) == (approved, denied)


class TestVersions:
    def test_what_was_agreed_on(self) -> None:
        story = Story(driven=False)
        story.reply(story.request("initialize", {"protocolVersion": 1}), protocolVersion=1)
        assert told(story).connections["ada"].is_other_version
        story.initialize()
        assert not told(story).connections["ada"].is_other_version

    def test_capabilities(self) -> None:
        story = Story().begin(capabilities={"session": {"delete": {}, "fork": True, "list": None}})
        connection = told(story).connections["ada"]
        assert connection.advertises("session.delete")
        assert not any(connection.advertises(path) for path in ("session.fork", "session.list", "session.delete.x"))


class TestSpan:
    def test_it_is_the_slice(self) -> None:
        items = list(range(10))
        for start in range(11):
            for stop in range(start, 11):
                span = Span(items, start, stop)
                assert list(span) == span[:] == items[start:stop]
                assert list(reversed(span)) == items[start:stop][::-1]
                assert (len(span), bool(span)) == (stop - start, stop > start)
                assert span[1:3] == items[start:stop][1:3]
        assert Span(items, 8)[-1] == 9
        assert Span(items, 8, 3)[:1] == []
        with pytest.raises(IndexError):
            Span(items, 8)[2]


def test_a_request_of_the_agent_that_is_sent_back_with_its_outcome_is_answered() -> None:
    story = Story().begin().asks("_vendor/ask", {"sessionId": "s"}, id=900)
    story.client({"jsonrpc": "2.0", "id": 900, "method": "_vendor/ask", "params": {}, "result": {"yes": True}})
    (request,) = told(story).connections["ada"].agent_requests
    assert request.response is story.last


def test_the_work_of_a_prompt_that_only_another_client_was_told_of_is_what_was_open_then() -> None:
    story = Story().begin().initialize(at="bob").running()
    story.prompt("Hello", nonce="acp-1")
    story.user("u1", "Hello acp-1", at="bob").idle("end_turn").running().idle("end_turn")
    (submission,) = told(story).sessions["s"].submissions
    assert submission.work is not None
    assert submission.work.seq == view(story).works[0].seq


def test_a_result_beside_an_error_gives_a_prompt_no_id() -> None:
    story = Story().begin()
    id = story.prompt("Hello", nonce="acp-1")
    story.agent({"jsonrpc": "2.0", "id": id, "result": {"messageId": "u"}, "error": {"code": -32603, "message": "no"}})
    (submission,) = told(story).sessions["s"].submissions
    assert submission.message_id is None
