"""What the conversation makes of what was sent: windows and patience, approvals, tool calls, submissions, sessions."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.conversation import Connection, Conversation, Submission, ToolCall, View, read
from conformance.conversation.connections import is_approval, is_unknown_notification
from conformance.conversation.traffic import look, pending_with, rounded
from tests.story import Story


def told(story: Story) -> Conversation:
    return read(story.recorder.history)


def ada(story: Story) -> Connection:
    return told(story).connections["ada"]


def view(story: Story, at: str = "ada") -> View:
    return told(story).connections[at].views["s"]


def submissions(story: Story) -> list[Submission]:
    return told(story).sessions["s"].submissions


class TestWindows:
    def test_one_that_began_after(self) -> None:
        story = Story().begin()
        story.control("window", kind="quiet", session="s", began=5, seconds=1)
        story.control("window", kind="hold", session="s", began=6, seconds=1)
        connection = ada(story)
        assert [w.seq for w in connection.windows_after(4)] == [5, 6]
        assert [w.seq for w in connection.windows_after(4, "hold")] == [6]
        assert [w.seq for w in connection.windows_after(5)] == [6]
        assert [w.seq for w in connection.windows_after(6)] == []

    @pytest.mark.parametrize(("passed", "found"), [(7.9, False), (8.1, True)])
    def test_one_most_of_which_passed_after(self, passed: float, found: bool) -> None:
        story = Story().begin().running().after(passed - 0.01)
        story.control("window", kind="quiet", session="s", began=2, seconds=10)
        assert bool(list(ada(story).windows_after(5))) is found

    def test_one_that_says_nothing_of_itself(self) -> None:
        story = Story().begin().control("window")
        assert [w.seq for w in ada(story).windows_after(3, "quiet")] == [5]


class TestPatience:
    def closing(self) -> tuple[Story, Any]:
        story = Story().begin()
        return story, story.request("session/close", {"sessionId": "s"})

    @pytest.mark.parametrize(("spent", "shown"), [(7.4, False), (7.6, True)])
    def test_at_least_half_of_a_wait_was_spent_on_it(self, spent: float, shown: bool) -> None:
        story, _ = self.closing()
        story.after(spent).recorder.control("ada", "waited", **{"for": "idle", "seconds": 15})
        connection = ada(story)
        assert (connection.out_of_patience(connection.requests[-1].event) is not None) is shown

    def test_a_wait_for_another_answer(self) -> None:
        story, id = self.closing()
        for about, shown in (({"for": "idle"}, False), ({"for": "response", "id": str(id)}, False)):
            story.control("waited", seconds=15, **about)
            connection = ada(story)
            request = connection.requests[-1]
            assert (connection.out_of_patience(request.event, answer_to=request) is not None) is shown
            assert connection.out_of_patience(request.event) is not None
        story.control("waited", **{"for": "response", "id": id, "seconds": 15})
        connection = ada(story)
        assert (
            connection.out_of_patience(connection.requests[-1].event, answer_to=connection.requests[-1]) is story.last
        )

    def test_longer_than_the_patience_in_a_recording(self) -> None:
        story = Story(driven=False).begin()
        story.request("session/close", {"sessionId": "s"})
        story.after(35).running().after(10).running()
        connection = ada(story)
        event = connection.requests[-1].event
        assert connection.out_of_patience(event) is connection.agent_events[-2]
        assert connection.out_of_patience(event, patience=40) is connection.agent_events[-1]
        assert connection.out_of_patience(event, patience=50) is None

    def test_not_after_the_connection_ended(self) -> None:
        story = Story(driven=False).begin()
        story.request("session/close", {"sessionId": "s"})
        story.control("cut").after(60).running()
        connection = ada(story)
        assert connection.out_of_patience(connection.requests[-1].event) is None

    def test_the_clients(self) -> None:
        story = Story(driven=False).begin().asks("_x", {}, id=7).after(31).notify("_y", {})
        connection = ada(story)
        event = connection.agent_requests[0].event
        assert connection.client_out_of_patience(event) is story.last
        assert connection.client_out_of_patience(story.last) is None
        driven = Story().begin().asks("_x", {}, id=7)
        driven.control("waited", **{"for": "response", "id": 7, "seconds": 15})
        connection = ada(driven)
        request = connection.agent_requests[0]
        assert connection.client_out_of_patience(request.event, answer_to=request) is driven.last
        assert connection.client_out_of_patience(request.event) is None

    def test_a_quiet_barrier(self) -> None:
        for seconds, quiet in ((0.98, False), (1.0, True)):
            story = Story(driven=False).begin().after(seconds).barrier()
            assert (ada(story).quiet_barrier_after(3) is not None) is quiet

    def test_of_the_whole(self) -> None:
        assert (told(Story(driven=False)).patience, told(Story(driven=False)).hold) == (30, 30)
        driven = told(Story(patience=7, hold_window=0.5))
        assert (driven.patience, driven.hold) == (7, 0.5)
        assert told(Story(patience="long", hold_window=None)).patience == 30


class TestAgreement:
    def test_the_latest_initialize(self) -> None:
        story = Story(driven=False).initialize(capabilities={"a": {}}, client={"x": {}})
        story.initialize(capabilities={"b": {}}, client={"y": {}})
        story.refuse(story.request("initialize", {"capabilities": {"z": {}}}), -32603)
        connection = ada(story)
        assert (connection.capabilities, connection.client_capabilities) == ({"b": {}}, {"y": {}})
        first, second, _ = connection.initializes
        assert [connection.initialized_before(seq) for seq in (1, 2, 3, 4)] == [None, first, first, second]

    @pytest.mark.parametrize(
        ("version", "known", "other"),
        [(1, 1, True), (0, 0, True), (2, 2, False), ("1", None, False), (True, None, False)],
    )
    def test_the_version(self, version: Any, known: int | None, other: bool) -> None:
        story = Story(driven=False)
        connection = ada(story.reply(story.request("initialize"), protocolVersion=version))
        assert (connection.version, connection.is_other_version) == (known, other)
        assert told(story).has_other_versions is other

    def test_capabilities_of_another_shape(self) -> None:
        story = Story(driven=False).initialize(capabilities=[])
        assert ada(story).capabilities == {}
        assert not ada(story).advertises("session")


class TestMeaning:
    @pytest.mark.parametrize(
        ("outcome", "kind", "approves"),
        [
            ({"outcome": "selected", "optionId": "y"}, "allow_once", True),
            ({"outcome": "selected", "optionId": "y"}, "allow_always", True),
            ({"outcome": "selected", "optionId": "y"}, "reject_once", False),
            ({"outcome": "selected", "optionId": "y"}, "_ask_later", False),
            ({"outcome": "selected", "optionId": "z"}, "allow_once", False),
            ({"outcome": "cancelled"}, "allow_once", False),
            ("yes", "allow_once", False),
        ],
    )
    def test_an_approval(self, outcome: Any, kind: str, approves: bool) -> None:
        for method in ("session/request_permission", "_vendor/ask"):
            options = [{"optionId": "y", "kind": kind}]
            story = Story().begin().asks(method, {"sessionId": "s", "options": options}, id=7)
            request = ada(story.answer(7, outcome=outcome)).agent_requests[0]
            assert is_approval(request) is (approves and method.startswith("session/"))

    @pytest.mark.parametrize("params", [None, {"options": 5}, {"options": [5]}])
    def test_an_approval_of_nothing(self, params: Any) -> None:
        story = Story().begin().asks("session/request_permission", params, id=7)
        assert not is_approval(ada(story.answer(7, outcome={"outcome": "selected"})).agent_requests[0])

    @pytest.mark.parametrize(
        ("method", "unknown"),
        [("session/cancel", False), ("$/cancel_request", False), ("mcp/message", False), ("_x", True), ("x", True)],
    )
    def test_an_unknown_notification(self, method: str, unknown: bool) -> None:
        story = Story().begin().notify(method, {})
        assert is_unknown_notification(story.last) is unknown

    def test_provocations(self) -> None:
        story = Story().begin().client(b"{").notify("_x", {}).cancel()
        story.request("session/new", {"cwd": 5})
        story.request("session/new", {"cwd": "/w", "mcpServers": None})
        story.notify("session/cancel", {"sessionId": 5})
        connection = ada(story)
        assert [event.seq for event in connection.provocations] == [5, 6, 8]
        assert [getattr(connection.provocation_between(a, b), "seq", None) for a, b in ((4, 5), (5, 6), (6, 7))] == [
            5,
            6,
            None,
        ]

    def test_interventions(self) -> None:
        story = Story().begin()
        story.asks("_x", {}, id=1).answer(1)
        story.asks("session/request_permission", {"options": [{"optionId": "y", "kind": "allow_once"}]}, id=2)
        story.answer(2, outcome={"outcome": "selected", "optionId": "y"}).asks("_y", {}, id=3)
        story.request("session/list")
        story.request("_stop")
        story.request("session/set_config_option")
        story.notify("_halt", {}).notify("$/cancel_request", {}).notify("session/cancel", {})
        assert [event.seq for event in ada(story).interventions] == [11, 12, 13, 14, 15]  # a cancel of no session too
        story.asks("_x", {"sessionId": "s"}, id=4).answer(4).cancel()
        assert len(ada(story).interventions) == 5
        refusals = ada(story).refusals_of
        assert {about: [event.seq for event in events] for about, events in refusals.items()} == {None: [6], "s": [17]}

    def test_cancelled_ids(self) -> None:
        story = Story().begin()
        for id in (7, "7", 7):
            story.notify("$/cancel_request", {"requestId": id})
        story.notify("_x", {"requestId": 9}).notify("$/cancel_request", [])
        assert list(ada(story).cancelled_ids.values()) == [5, 6]

    def test_ids_in_malformed_lines(self) -> None:
        story = Story(driven=False).client({"id": 4}).client({"id": 4}).client({"id": "4"}).client([]).client(b"{")
        assert sorted(ada(story).malformed_ids.values()) == [0, 2, 3]

    @pytest.mark.parametrize(
        ("id", "looks"),
        [(1, "1"), (1.0, "1"), ("1", "1"), (" 1 ", "1"), (1.5, "1.5"), (True, "True"), (None, "None")],
    )
    def test_how_an_id_looks(self, id: Any, looks: str) -> None:
        assert look(id) == looks

    def test_digits_that_a_double_cannot_hold(self) -> None:
        assert [rounded(n) for n in (2**53, 2**53 + 1, -(2**53) - 1)] == [2**53, 2**53, -(2**53)]
        assert rounded(10**400) == 10**400
        assert look(2**53 + 1) == look(2**53)

    def test_pending_with_one_id(self) -> None:
        story = Story(driven=False)
        for _ in range(3):
            story.request("session/list", id=1)
        story.reply(1).reply(1)
        requests = ada(story).requests
        assert [list(pending_with(requests, at)) for at in (0, 1, 2, 3, 4)] == [
            [],
            requests[:1],
            requests[:2],
            requests[1:],
            requests[2:],
        ]

    def test_pending_elsewhere(self) -> None:
        story = Story(driven=False).initialize().initialize(at="bob")
        story.request("session/list", id=50, at="bob")
        story.reply(50)
        conversation = told(story)
        (other,) = conversation.pending_elsewhere(50, story.last)
        assert other.connection.name == "bob"
        assert list(conversation.pending_elsewhere("50", story.last)) == []
        assert list(conversation.pending_elsewhere(50, other.event)) == []

    @pytest.mark.parametrize("answered", [True, False])
    def test_connections_that_share_ids(self, answered: bool) -> None:
        story = Story(driven=False)
        story.request("session/list", id=1)
        if answered:
            story.reply(1)
        story.request("session/list", id=1, at="bob")
        assert told(story).connections_share_ids is not answered


class TestToolCalls:
    def test_the_terminals_it_shows(self) -> None:
        terminal = {"type": "terminal", "terminalId": "t1"}
        text = {"type": "content", "content": {"type": "text", "text": "x"}, "terminalId": "no"}
        story = Story().begin().update("tool_call_update", toolCallId="c", title="t", content=[text, terminal, 5])
        story.update("tool_call_update", toolCallId="c", content="x")
        story.update("tool_call_content_chunk", toolCallId="c", content={"type": "terminal", "terminalId": "t2"})
        assert view(story).tool_calls["c"].terminal_ids == {"t1", "t2"}

    def test_a_chunk_alone(self) -> None:
        story = Story().begin().update("tool_call_content_chunk", toolCallId="c", content={})
        call = view(story).tool_calls["c"]
        assert (call.status, call.steps, len(call.chunks)) == ("pending", [], 1)

    def test_what_each_step_names(self) -> None:
        story = Story().begin()
        for status in ({}, {"status": "completed"}, {"status": 5}, {"status": None}):
            story.update("tool_call_update", toolCallId="c", **status)
        steps = view(story).tool_calls["c"].steps
        assert [(s.names, s.status, s.before) for s in steps] == [
            (None, "pending", None),
            ("completed", "completed", "pending"),
            (None, "completed", "completed"),
            ("pending", "pending", "completed"),
        ]
        assert [step.update.seq for step in view(story).tool_calls["c"].steps_after(6)] == [7, 8]

    @pytest.mark.parametrize("kind", ["allow_once", "_later", None])
    def test_a_permission_of_a_kind_that_rejects_nothing(self, kind: Any) -> None:
        story = Story().begin()
        story.asks("session/request_permission", {"sessionId": "s", "options": [5, {"optionId": "y", "kind": kind}]})
        (permission,) = view(story.answer(900, outcome={"outcome": "selected", "optionId": "y"})).permissions
        assert (permission.is_approved, permission.is_denied, permission.withdrawn) == (True, False, None)

    def test_when_a_terminal_exited(self) -> None:
        story = Story().begin().update("terminal_update", terminalId="t", exitStatus=None)
        for code in (0, 1):
            story.update("terminal_update", terminalId="t", exitStatus={"exitCode": code})
        terminal = view(story).terminals["t"]
        assert (terminal.exited and terminal.exited.seq, len(terminal.updates)) == (6, 3)


class TestSubmissions:
    def test_its_report_on_its_own_connection(self) -> None:
        story = Story().begin().initialize(at="bob")
        story.reply(story.resume(at="bob"), at="bob")
        id = story.prompt("Hi", nonce="acp-1")
        story.update("user_message", at="bob", messageId="u", content=[{"type": "text", "text": "Hi acp-1"}])
        (submission,) = submissions(story)
        assert submission.own_report is None
        assert submission.report is not None
        (submission,) = submissions(story.user("u", "Hi acp-1"))
        assert submission.own_report is not None
        assert submission.own_report.event is story.last
        (submission,) = submissions(story.reply(id, messageId="u"))
        assert submission.own_report is not None
        assert submission.own_report.view.connection.name == "ada"

    def test_reported_under_another_id(self) -> None:
        def reported(*more: str, quote: str = "") -> Submission:
            story = Story().begin()
            story.reply(story.prompt("Hi", nonce="acp-1"), messageId="u").user("x", f"{quote}Hi acp-1")
            for id in more:
                story.user(id, "Hi acp-1")
            return submissions(story)[0]

        elsewhere = reported().marked_elsewhere
        assert elsewhere is not None
        assert elsewhere.id == "x"
        assert reported("u").marked_elsewhere is None
        assert reported(quote="> ").marked_elsewhere is None

    @pytest.mark.parametrize(("transport", "gone"), [("stdio", True), ("websocket", False), (None, False)])
    def test_where_it_ceased(self, transport: str | None, gone: bool) -> None:
        story = Story()
        if transport:
            story.control("started", transport=transport)
        story.begin().prompt("Hi")
        story.control("exited")
        (submission,) = submissions(story)
        assert submission.ceased_at == (story.last.seq if gone else float("inf"))
        refused = Story().begin()
        refused.refuse(refused.prompt("Hi"), -32603)
        assert submissions(refused)[0].ceased_at == refused.last.seq
        taken = Story().begin()
        assert submissions(taken.reply(taken.prompt("Hi"), messageId="u"))[0].ceased_at == float("inf")

    def test_its_work(self) -> None:
        story = Story().begin().running()
        first, second = story.prompt("One", nonce="acp-1"), story.prompt("Two", nonce="acp-2")
        story.reply(first, messageId="u1").user("u1", "One acp-1").idle("end_turn")
        story.reply(second, messageId="u2").running().idle("end_turn")
        story.prompt("Three")
        story.running()
        began = [work.seq for work in view(story).works]
        assert [s.work.seq for s in submissions(story) if s.work is not None] == began

    def test_what_may_have_cancelled_it(self) -> None:
        story = Story().begin().cancel()
        id = story.prompt("Hi")
        story.cancel().notify("$/cancel_request", {"requestId": id}).reply(id, messageId="u").cancel()
        assert [event.seq for event in submissions(story)[0].cancels] == [7, 8]

    def test_its_model_requests(self) -> None:
        story = Story().begin()
        story.prompt("Hi", nonce="acp-1")
        for number, (nonce, side) in enumerate([("acp-1", False), ("acp-1", True), ("acp-2", False), (None, False)]):
            story.control("model-request", at="", number=number, nonce=nonce, side=side)
        story.control("model-answered", at="", number=0, injected=True).control("model-held", at="", number=9)
        (request,) = submissions(story)[0].model_requests
        assert (request.number, request.was_failed, request.is_shared) == (0, True, False)


class TestSessions:
    def test_approvals(self) -> None:
        options = [{"optionId": "y", "kind": "allow_once"}, {"optionId": "n", "kind": "reject_once"}, {"optionId": "z"}]
        story = Story().begin()
        for id, (call, chosen) in enumerate([("c", "y"), ("c", "z"), ("c", "n"), ("d", "n"), ("e", None), (None, "y")]):
            subject = {"type": "tool_call", "toolCallId": call}
            story.asks("session/request_permission", {"sessionId": "s", "subject": subject, "options": options}, id=id)
            if chosen is not None:
                story.answer(id, outcome={"outcome": "selected", "optionId": chosen})
        session = told(story).sessions["s"]
        assert dict(session.approvals) == {"c": 2}
        call = {name: ToolCall(name, session.views[0]) for name in ("c", "d", "e", "f")}
        assert [name for name in call if session.perhaps_approved_since(call[name], 99)] == ["c", "e"]
        assert not session.perhaps_approved_since(None, 99)

    def test_the_first_update_of_a_message_on_any_connection(self) -> None:
        story = Story().begin().initialize(at="bob")
        story.reply(story.resume(at="bob"), at="bob").says("a", "x", at="bob").says("a", "x")
        found = told(story).sessions["s"].first_update_of("agent", "a")
        assert found is not None
        assert found.view.connection.name == "bob"

    @pytest.mark.parametrize(("target", "scripted"), [(None, True), ("agent", True), ("client", False)])
    def test_whose_client_it_is(self, target: str | None, scripted: bool) -> None:
        assert told(Story(**({"target": target} if target else {}))).has_scripted_client is scripted
        assert not told(Story(driven=False)).has_scripted_client

    def test_notices_stop_reasons_and_approvals(self) -> None:
        story = Story().begin().initialize(at="bob")
        story.reply(story.resume(at="bob"), at="bob").update("notice", at="bob", title="1").update("notice", title="2")
        story.running().idle("end_turn").running(at="bob").idle("end_turn", at="bob").idle("end_turn").idle()
        session = told(story).sessions["s"]
        assert [notice.body["title"] for notice in session.notices] == ["1", "2"]
        assert [(v.connection.name, seq) for v, seq in session.stop_reasons["end_turn"].items()] == [
            ("ada", 12),
            ("bob", 14),
        ]
        assert (session.creations, list(session.stop_reasons)) == (1, ["end_turn"])

    def test_what_was_known_since_when(self) -> None:
        story = Story().begin()
        story.reply(story.prompt("Hi"), messageId="u").says("u", "Hi")
        session = told(story).sessions["s"]
        assert [session.known_since(kind, "u") for kind in ("user", "agent", "thought")] == [6, 7, float("inf")]
        assert [session.has_history_before(seq) for seq in (6, 7)] == [False, True]

    def test_work_that_is_still_owed(self) -> None:
        story = Story().begin()
        first, second = story.prompt("One"), story.prompt("Two")
        story.reply(first, messageId="u1").reply(second, messageId="u2")
        story.running().idle("end_turn").running().idle("end_turn")
        session = told(story).sessions["s"]
        one, two = session.submissions
        assert [session.unfinished(seq) for seq in (5, 6, 8, 10, 11, 12, 13)] == [None, one, one, one, two, two, None]

    def test_a_quiet_window_settles_all(self) -> None:
        story = Story().begin()
        for number in (1, 2):
            story.reply(story.prompt(f"{number}"), messageId=f"u{number}")
        story.running().idle("end_turn")
        for session, settled in (("other", False), ("s", True)):
            story.control("window", kind="quiet", session=session, began=story.last.seq + 1, seconds=1)
            assert (told(story).sessions["s"].unfinished(story.last.seq + 1) is None) is settled
