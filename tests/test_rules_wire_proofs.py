"""The rules about the wire, closer: which events prove each fault, and what is left to a rule of its own."""

from typing import Any

import pytest

from tests.story import Story

AGENT = {"protocolVersion": 2, "info": {"name": "a", "version": "1"}, "capabilities": {"session": {}}}
INVALID = "wire.invalid-params"


def foreign() -> Story:
    return Story(driven=False).begin()


class TestShapesWithARuleOfTheirOwn:
    rule = "wire.valid-shape"

    @pytest.mark.parametrize(
        "wrong", [{"info": 5}, {"capabilities": 5}, {"authMethods": [5]}, {"protocolVersion": "two"}]
    )
    def test_initialize(self, wrong: Any) -> None:
        story = Story(driven=False)
        story.reply(story.request("initialize", AGENT), **{**AGENT, **wrong})
        assert story.passes(self.rule)
        assert Story(driven=False).initialize().passes(self.rule)

    def test_options_of_a_permission(self) -> None:
        subject = {"type": "tool_call", "toolCall": {"toolCallId": "c", "title": "t"}}
        asked = {"sessionId": "s", "title": "May I?", "subject": subject, "options": 5}
        story = foreign().asks("session/request_permission", asked)
        assert story.running().passes(self.rule)
        assert story.asks("session/request_permission", {**asked, "title": 5}, id=901).proof(self.rule) == [6]

    @pytest.mark.parametrize("result", [None, 5, {"messageId": 5}])
    def test_the_answer_to_a_prompt(self, result: Any) -> None:
        story = foreign()
        assert story.agent({"jsonrpc": "2.0", "id": story.prompt("Hi"), "result": result}).passes(self.rule)

    def test_errors_of_an_idle_and_no_other_place(self) -> None:
        assert foreign().idle("error", error=5).passes(self.rule)
        assert foreign().update("usage_update", used=1, size=2, cost=5).proof(self.rule) == [4]


class TestShapesThatNoOtherRuleOwns:
    rule = "wire.valid-shape"

    @pytest.mark.parametrize(
        ("params", "fails"),
        [({"requestId": 900}, 0), ({"requestId": "a"}, 0), ({"requestId": []}, 1), ({"requestId": None}, 1), ({}, 1)],
    )
    def test_what_a_cancel_names(self, params: Any, fails: int) -> None:
        line = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": params}
        assert len(foreign().agent(line).fails(self.rule)) == fails
        assert len([said for said in foreign().client(line).fails("client.wire") if "requestId" in said]) == fails

    @pytest.mark.parametrize(("id", "fails"), [(900.5, 0), (901.5, 1)])
    def test_a_cancel_that_names_an_odd_request(self, id: Any, fails: int) -> None:
        story = foreign().asks("session/request_permission", self.permission, id=900.5)
        story.agent({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}})
        assert len(story.fails(self.rule)) == fails
        assert story.fails("wire.request-ids")

    @pytest.mark.parametrize(("meta", "fails"), [({"x": 1}, 0), (None, 0), (5, 1)])
    def test_the_meta_of_capabilities(self, meta: Any, fails: int) -> None:
        for capabilities in ({"session": {}, "_meta": meta}, {"session": {"_meta": meta}}):
            story = Story(driven=False)
            story.reply(story.request("initialize", AGENT), **{**AGENT, "capabilities": capabilities})
            assert len(story.fails(self.rule)) == fails

    permission = {"sessionId": "s", "title": "T", "options": [{"optionId": "y", "name": "Y", "kind": "allow_once"}]}  # noqa: RUF012
    idle = {"sessionId": "s", "update": {"sessionUpdate": "state_update", "state": "idle"}}  # noqa: RUF012

    @pytest.mark.parametrize(
        ("method", "params", "is_request"),
        [
            ("session/update", idle, False),
            ("session/request_permission", permission, True),
            ("$/cancel_request", {"requestId": 5}, False),
            ("_own/thing", {}, True),
            ("_own/thing", {}, False),
        ],
    )
    def test_requests_and_notifications_of_the_agent(self, method: str, params: Any, is_request: bool) -> None:
        line = {"jsonrpc": "2.0", "method": method, "params": params}
        fails = not method.startswith("_")
        assert len(foreign().agent(line).fails(self.rule)) == (fails and is_request)
        assert len(foreign().agent({**line, "id": 5}).fails(self.rule)) == (fails and not is_request)

    def test_a_notification_with_the_id_null(self) -> None:
        line = {"jsonrpc": "2.0", "id": None, "method": "session/update", "params": self.idle}
        assert foreign().agent(line).fails(self.rule) == []
        assert foreign().agent(line).fails("wire.request-ids")

    @pytest.mark.parametrize(
        ("method", "params", "is_request"),
        [
            ("session/prompt", {"sessionId": "s", "prompt": [{"type": "text", "text": "Hi"}]}, True),
            ("session/cancel", {"sessionId": "s"}, False),
            ("$/cancel_request", {"requestId": 5}, False),
        ],
    )
    def test_requests_and_notifications_of_the_client(self, method: str, params: Any, is_request: bool) -> None:
        line = {"jsonrpc": "2.0", "method": method, "params": params}
        told = [bool(foreign().client(each).fails("client.wire")) for each in (line, {**line, "id": 77})]
        assert told == [is_request, not is_request]


class TestLines:
    rule = "wire.only-messages-on-stdout"

    def test_the_last_line_may_be_cut(self) -> None:
        story = foreign()
        assert story.agent(b'{"jsonrpc": "2.0", "method"').fails(self.rule)

    def test_an_empty_response_and_what_is_not_utf8_have_rules_of_their_own(self) -> None:
        story = foreign()
        assert story.agent({"jsonrpc": "2.0", "id": story.request("session/list")}).passes(self.rule)
        assert story.agent(b'"\xff"').passes(self.rule)
        assert story.proof("wire.utf8") == [6]

    def test_an_array_that_nobody_asked_for(self) -> None:
        story = foreign().client([]).agent([])
        assert (len(story.fails(self.rule)), story.warns(self.rule)) == (1, [])
        assert foreign().agent([{"jsonrpc": "2.0", "method": "_x"}]).proof(self.rule) == [4]

    def test_every_line_is_looked_at(self) -> None:
        assert len(foreign().agent(b"a").running().agent(b"b").fails(self.rule)) == 2


class TestMethods:
    rule = "wire.known-methods"

    def test_of_version_1_it_is_told(self) -> None:
        assert foreign().asks("fs/read_text_file", {}).fails(self.rule) == [
            "fs/read_text_file is a method of version 1"
        ]
        assert foreign().asks("log", {}).fails(self.rule) == ["log is no method that an agent may call"]

    def test_of_the_unstable_schema_it_is_a_warning(self) -> None:
        story = foreign().agent({"jsonrpc": "2.0", "method": "auth/status_update", "params": {}})
        assert (story.fails(self.rule), len(story.warns(self.rule))) == ([], 1)
        assert foreign().asks("session/fork", {}).fails(self.rule)  # that is a client's to call

    def test_each_once(self) -> None:
        story = foreign().asks("log", {}, id=1).asks("log", {}, id=2).asks("warn", {}, id=3)
        assert [f.because[0][0].seq for f in story.outcome(self.rule).findings] == [4, 6]


class TestFields:
    def test_each_once_and_with_its_place(self) -> None:
        story = foreign().running(a=1).running(a=1, b=2).idle("end_turn", a=1)
        assert [f.because[0][0].seq for f in story.outcome("wire.no-unknown-root-fields").findings] == [4, 5, 6]
        assert foreign().idle("end_turn", error={"code": 1}).fails("wire.no-unknown-root-fields") == []

    @pytest.mark.parametrize(
        ("field", "instead"),
        [("agentInfo", "'info'"), ("agentCapabilities", "'capabilities'"), ("greeting", "_meta")],
    )
    def test_what_became_of_it(self, field: str, instead: str) -> None:
        story = Story(driven=False)
        story.reply(story.request("initialize", AGENT), **AGENT, **{field: {}})
        (said,) = story.fails("wire.no-unknown-root-fields")
        assert said.endswith(instead)

    def test_values(self) -> None:
        story = foreign().idle("bored").idle("_bored").idle("bored").idle("tired")
        assert [f.because[0][0].seq for f in story.outcome("wire.open-enum-values").findings] == [4, 7]


class TestUnknown:
    def test_a_method(self) -> None:
        story = foreign()
        story.refuse(story.request("session/dance"), -32603)
        (said,) = story.fails("wire.unknown-method")
        assert "-32603" in said
        assert story.proof("wire.unknown-method") == [4, 5]
        story = foreign()
        (said,) = story.reply(story.request("session/dance")).fails("wire.unknown-method")
        assert "success" in said

    def test_each_method(self) -> None:
        story = foreign()
        story.request("session/dance")
        story.reply(story.request("_own")).reply(story.request("$/own")).barrier()
        assert story.silent("wire.unknown-method")
        assert story.refuse(story.request("session/jump"), -32601).passes("wire.unknown-method")

    def test_an_extension_request(self) -> None:
        rule = "wire.extension-request-answered"
        story = foreign()
        story.barrier().request("_own")
        assert story.after(60).barrier().proof(rule) == [6, 8]
        story = foreign()
        story.request("_own")
        assert story.reply(77).after(60).barrier().fails(rule) == []  # that is its answer, under another id
        story = foreign().client(b"{")
        story.request("_own")
        assert story.after(60).barrier().fails(rule) == []  # it fell silent on the line
        story = Story().begin()
        id = story.request("_own")
        story.control("exited").control("waited", **{"for": "response", "id": id, "seconds": 15})
        assert story.fails(rule) == []

    def test_a_notification(self) -> None:
        rule = "wire.unknown-notification-ignored"
        assert foreign().cancel().notify("_own", {}).refuse(None, -32601).barrier().proof(rule) == [5, 6]
        assert foreign().client(b"{").notify("_own", {}).refuse(None, -32700).barrier().fails(rule) == []
        assert foreign().notify("_own", {}).barrier().refuse(None, -32601).passes(rule)

    def test_a_notification_after_which_it_is_gone(self) -> None:
        rule = "wire.unknown-notification-ignored"
        for how, fails in (("exited", True), ("disconnected", True), ("cut", False)):
            story = Story().begin().notify("_own", {})
            story.request("session/list")
            assert bool(story.control(how).fails(rule)) is fails
        story = Story().begin().notify("_own", {})
        id = story.request("session/list")
        story.control("waited", **{"for": "response", "id": id, "seconds": 15})
        assert story.proof(rule) == [5, 7]


class TestAnswersThatAreOwed:
    rule = "wire.parse-error"

    def test_the_proof(self) -> None:
        assert foreign().client(b"{").barrier().proof(self.rule) == [4, 6]
        assert foreign().client(b"{").refuse(None, -32600).barrier().proof(self.rule) == [4, 5]
        assert foreign().client(b"{").refuse(None, -32700).passes(self.rule)
        story = foreign().client(b"{")
        assert story.agent({"jsonrpc": "2.0", "id": None, "result": {}}).fails(self.rule) == [
            "a line that is not JSON was answered with no error, not with -32700"
        ]

    def test_of_two_lines_each_has_its_own_answer(self) -> None:
        story = foreign().client(b"{").refuse(None, -32700).client(b"{").refuse(None, -32600).barrier()
        assert story.proof(self.rule) == [6, 7]
        assert foreign().client(b"{").client(b"{").refuse(None, -32700).barrier().proof(self.rule) == [4, 8]

    def test_it_fell_silent(self) -> None:
        story = Story().begin().client(b"{")
        id = story.request("session/list")
        story.control("waited", **{"for": "response", "id": id, "seconds": 15})
        assert story.proof(self.rule) == [5, 7]

    def test_arrays(self) -> None:
        rule, call = "wire.array-is-answered", {"jsonrpc": "2.0", "id": 9, "method": "session/list"}
        assert foreign().client([call]).barrier().proof(rule) == [4, 6]
        assert foreign().client([]).barrier().proof(rule) == [4, 6]
        assert foreign().client([call]).reply(9).barrier().passes(rule)
        assert foreign().client([call]).refuse(None, -32700).barrier().passes(rule)
        assert foreign().client([call]).refuse(None, -32603).barrier().proof(rule) == [4, 5]
        assert foreign().client([call]).agent([]).proof(rule) == [4, 5]
        for item in ({"id": 9}, {"method": "_x"}, 5):
            assert foreign().client([item]).barrier().silent(rule)


class TestWrongParams:
    def test_never_answered(self) -> None:
        story = foreign()
        story.request("session/new", {"cwd": 5})
        assert story.after(60).barrier().proof(INVALID) == [4, 6]
        for how, fails in (("exited", True), ("disconnected", True), ("cut", False), ("closed", False)):
            story = Story().begin()
            story.request("session/new", {"cwd": 5})
            assert bool(story.control(how).fails(INVALID)) is fails, how

    @pytest.mark.parametrize(
        ("code", "kind"), [(-32602, None), (-32000, None), (-32002, "warning"), (-32603, "violation")]
    )
    def test_the_code(self, code: int, kind: str | None) -> None:
        story = foreign()
        story.refuse(story.request("session/new", {"cwd": 5}), code)
        assert [finding.kind for finding in story.outcome(INVALID).findings] == ([kind] if kind else [])
        assert kind is None or story.proof(INVALID) == [4, 5]

    def test_success(self) -> None:
        story = foreign()
        assert story.reply(story.request("session/new", {"cwd": 5}), sessionId="x").proof(INVALID) == [4, 5]

    @pytest.mark.parametrize(
        ("method", "params"),
        [
            ("session/prompt", {"sessionId": "s", "prompt": []}),
            ("initialize", {"protocolVersion": "two"}),
            ("session/resume", {"sessionId": "s", "cwd": 5, "replayFrom": {}}),
        ],
    )
    def test_what_others_decide(self, method: str, params: Any) -> None:
        story = foreign()
        assert story.refuse(story.request(method, params), -32603).silent(INVALID)

    def test_what_they_do_not(self) -> None:
        for method, params in (("session/prompt", {"sessionId": "s", "prompt": [5]}), ("session/resume", {"cwd": 5})):
            story = foreign()
            assert story.refuse(story.request(method, params), -32603).fails(INVALID)


class TestEndsWithStdin:
    rule = "wire.ends-with-stdin"

    def test_the_proof(self) -> None:
        story = Story().control("started", transport="stdio").begin().control("closed").control("lingered", seconds=2)
        assert story.fails(self.rule) == ["still alive 2 s after stdin was closed"]
        assert story.proof(self.rule) == [6, 7]
        story = Story().begin().control("closed").control("exited").control("leftover", count=2)
        assert story.proof(self.rule) == [5, 7]

    def test_only_what_comes_after_it_was_closed(self) -> None:
        assert Story().begin().control("lingered", seconds=2).control("closed").silent(self.rule)
        assert Story().begin().control("exited").silent(self.rule)
