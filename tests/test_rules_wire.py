"""The rules about the wire: lines, shapes, requests and responses, and what an agent makes of nonsense."""

from typing import Any

import pytest

from conformance.wire import LineReader
from tests.story import Story


def foreign(**more: Any) -> Story:
    return Story(driven=False).begin(**more)


def late(story: Story, seconds: float = 60) -> Story:
    """A request long after it all, answered: the agent lives."""
    return story.after(seconds).barrier()


class TestOnlyMessages:
    rule = "wire.only-messages-on-stdout"

    @pytest.mark.parametrize(
        "line",
        [
            b"Starting ...",
            b"\x1b[2K",
            b"",
            b'"text"',
            b"5",
            b'{"hello": 1}',
            b"[]",
            b'[{"jsonrpc": "2.0", "method": "_x"}]',
            b'{"jsonrpc": "2.0", "method": "_x"} trailing',
            b'{"method": "_x", "params": {}}',
            b'{"jsonrpc": "1.0", "method": "_x"}',
            b'{"jsonrpc": "2.0", "id": 1, "method": 5}',
            b'{"jsonrpc": "2.0", "id": 1, "method": "_x", "result": {}}',
            b'{"jsonrpc": "2.0", "result": {}}',
            b'{"jsonrpc": "2.0", "method": "_x", "params": NaN}',
        ],
    )
    def test_no_message(self, line: bytes) -> None:
        story = foreign().agent(line)
        assert len(story.fails(self.rule)) == 1
        assert [[event.seq for event, _ in f.because] for f in story.outcome(self.rule).findings] == [[4]]

    @pytest.mark.parametrize(
        "line",
        [b'{"jsonrpc": "2.0", "method": "_x", "params": {"a": "\xe2\x80\xa8"}}', b' {"jsonrpc":"2.0","method":"_x"}\r'],
    )
    def test_a_message(self, line: bytes) -> None:
        assert foreign().agent(line).passes(self.rule)

    def test_an_array_in_answer_to_an_array_is_a_warning(self) -> None:
        story = foreign().client([{"jsonrpc": "2.0", "id": 9, "method": "session/list"}])
        story.agent([{"jsonrpc": "2.0", "id": 9, "result": {"sessions": []}}])
        assert (story.fails(self.rule), len(story.warns(self.rule))) == ([], 1)

    def test_a_doubled_key_is_a_warning(self) -> None:
        story = foreign().agent(b'{"jsonrpc": "2.0", "method": "_x", "method": "_x"}')
        assert (story.fails(self.rule), len(story.warns(self.rule))) == ([], 1)

    def test_no_line(self) -> None:
        story = Story(driven=False)
        story.request("initialize")
        assert story.silent(self.rule)


class TestUtf8:
    rule = "wire.utf8"

    def test_another_encoding(self) -> None:
        story = foreign().agent('{"jsonrpc": "2.0", "method": "_x", "params": {"a": "ä"}}'.encode("latin-1"))
        assert story.fails(self.rule)
        assert story.fails("wire.only-messages-on-stdout") == []

    def test_right(self) -> None:
        assert foreign().agent('{"jsonrpc": "2.0", "method": "_x", "params": {"a": "ä"}}'.encode()).passes(self.rule)
        assert Story(driven=False).silent(self.rule)


class TestShape:
    rule = "wire.valid-shape"

    def test_a_missing_field(self) -> None:
        story = foreign().update("usage_update", used=1)
        (said,) = story.fails(self.rule)
        assert said.startswith("session/update: ")
        assert "size" in said

    def test_one_finding_a_line(self) -> None:
        assert len(foreign().update("usage_update", used="x", size=None).fails(self.rule)) == 1

    def test_a_result(self) -> None:
        story = foreign()
        assert story.reply(story.request("session/list"), sessions="none").fails(self.rule)

    @pytest.mark.parametrize(
        "body",
        [
            {"state": "running", "_meta": {"a": {"b": 1}}},
            {"state": "_pondering", "depth": 3},
            {"state": "idle", "stopReason": "_bored"},
            {"state": "idle", "stopReason": None, "background": None, "_meta": None},
        ],
    )
    def test_right(self, body: Any) -> None:
        assert foreign().update("state_update", **body).passes(self.rule)

    def test_what_has_a_rule_of_its_own(self) -> None:
        story = foreign()
        story.reply(story.prompt("Hello"), messageId=None).running().idle("error", error="quota")
        assert story.passes(self.rule)

    def test_nothing(self) -> None:
        assert Story(driven=False).silent(self.rule)

    def test_version_1_has_other_shapes(self) -> None:
        story = Story(driven=False)
        id = story.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        story.reply(id, protocolVersion=1, agentCapabilities={}).update("agent_message_chunk", content=5)
        assert story.silent(self.rule)


class TestMethods:
    rule = "wire.known-methods"

    @pytest.mark.parametrize("method", ["fs/read_text_file", "terminal/create", "session/prompt", "log"])
    def test_unknown(self, method: str) -> None:
        assert foreign().asks(method, {}).fails(self.rule)
        story = foreign()
        assert story.agent({"jsonrpc": "2.0", "method": method, "params": {}}).fails(self.rule)

    def test_told_once(self) -> None:
        assert len(foreign().asks("log", {}, id=1).asks("log", {}, id=2).fails(self.rule)) == 1

    @pytest.mark.parametrize("method", ["_vendor/ping", "$/progress"])
    def test_extensions(self, method: str) -> None:
        assert foreign().asks(method, {}).passes(self.rule)
        assert foreign().running().passes(self.rule)

    def test_no_call(self) -> None:
        assert foreign().silent(self.rule)


class TestFieldsAndValues:
    fields, values = "wire.no-unknown-root-fields", "wire.open-enum-values"

    def test_a_field(self) -> None:
        assert foreign().running(timestamp=1).running(timestamp=2).fails(self.fields) == [
            "RunningStateUpdate has no field 'timestamp'; custom data goes to _meta"
        ]
        story = foreign()
        assert story.reply(story.request("session/list"), sessions=[], total=0).fails(self.fields)

    def test_a_field_of_version_1_is_told_what_became_of_it(self) -> None:
        story = foreign()
        story.reply(
            story.request("session/prompt", {"sessionId": "s", "prompt": []}), messageId="m", stopReason="end_turn"
        )
        assert story.fails(self.fields) == [
            "PromptResponse has no field 'stopReason'; that was version 1, now the idle state_update says it"
        ]

    @pytest.mark.parametrize(
        ("body", "rule"),
        [
            ({"kind": "plan_update", "entries": []}, "wire.valid-shape"),
            (
                {"kind": "agent_message_chunk", "message_id": "a", "content": {"type": "text", "text": "x"}},
                "wire.valid-shape",
            ),
            (
                {
                    "kind": "state_update",
                    "state": "idle",
                    "stopReason": "error",
                    "error": {"type": "overloaded", "message": "x"},
                },
                "prompt.error-object-shape",
            ),
        ],
    )
    def test_a_field_under_another_name_is_one_fault(self, body: dict[str, Any], rule: str) -> None:
        story = foreign().running().update(body["kind"], **{key: body[key] for key in body if key != "kind"})
        assert story.fails(rule)
        assert story.fails(self.fields) == []
        assert story.warns(self.fields)

    def test_a_field_that_stands_beside_all_that_is_needed_too(self) -> None:
        story = foreign().update("agent_message", timestamp=1).update("agent_message", messageId="a", timestamp=1)
        assert (len(story.warns(self.fields)), len(story.fails(self.fields))) == (1, 1)

    def test_where_any_field_may_stand(self) -> None:
        assert foreign().running(_meta={"timestamp": 1}).passes(self.fields)
        assert foreign().update("_vendor/mood", mood="fine").passes(self.fields)
        assert Story(driven=False).silent(self.fields)

    def test_a_value(self) -> None:
        (said,) = foreign().idle("bored").fails(self.values)
        assert said.startswith("'bored' is no ")
        assert foreign().update("mood", mood="fine").fails(self.values)

    def test_values_of_its_own(self) -> None:
        assert foreign().idle("_bored").passes(self.values)
        assert foreign().idle("end_turn").silent(self.values)


class TestResponseId:
    rule = "wire.response-id"

    @pytest.mark.parametrize("line", [b'"id":"a\xff"', b'"id":"a\xef\xbf\xbd","x":"\xff"'])
    def test_a_line_that_a_lenient_decoder_could_read(self, line: bytes) -> None:
        story = foreign().client(b'{"jsonrpc":"2.0","method":"session/list",' + line + b"}")
        assert late(story.reply("a\ufffd", sessions=[])).fails(self.rule) == []

    @pytest.mark.parametrize("id", ["3", 3.5, 77, None])
    def test_another_id(self, id: Any) -> None:
        story = foreign()
        story.request("session/list")
        assert late(story.reply(id, sessions=[])).fails(self.rule)
        assert story.fails("wire.no-reply-to-notifications") == []
        if id != 77 and id != 3.5:
            assert story.fails("wire.one-response") == []

    def test_the_request_is_named(self) -> None:
        story = foreign()
        story.request("session/list")
        story.reply("3", sessions=[])
        assert [[event.seq for event, _ in f.because] for f in story.outcome(self.rule).findings] == [[4, 5]]

    def test_right(self) -> None:
        story = foreign()
        story.reply(story.request("session/list", id="3"), sessions=[])
        assert story.passes(self.rule)

    def test_nobody_can_answer_a_broken_line_by_its_id(self) -> None:
        story = foreign().client(b"{broken")
        assert story.refuse(None, -32700).passes(self.rule)

    def test_a_line_that_is_no_request_may_be_refused_by_its_id(self) -> None:
        story = foreign().client(b'{"jsonrpc":"2.0","id":4711}')
        assert story.refuse(4711, -32600).fails(self.rule) == []
        assert story.reply(4711, sessions=[]).fails(self.rule)

    def test_a_request_of_before_the_recording(self) -> None:
        story = Story(driven=False).reply(17, sessions=[])
        assert (story.fails(self.rule), len(story.warns(self.rule))) == ([], 1)

    def test_another_connection_waits_for_it(self) -> None:
        story = foreign().initialize(at="bob")
        story.request("session/list", id=50, at="bob")
        assert story.reply(50, sessions=[]).fails(self.rule) == []

    def test_a_cancelled_id(self) -> None:
        story = foreign().notify("$/cancel_request", {"requestId": 99})
        assert story.refuse(99, -32800).fails(self.rule) == []

    def test_no_response(self) -> None:
        assert Story(driven=False).running().silent(self.rule)


class TestOneResponse:
    rule = "wire.one-response"

    def test_two(self) -> None:
        story = foreign()
        id = story.request("session/list")
        story.reply(id, sessions=[]).reply(id, sessions=[])
        assert story.fails(self.rule) == ["session/list was answered 2 times"]
        assert story.fails("wire.response-id") == []

    def test_none_in_a_recording(self) -> None:
        story = foreign()
        story.request("session/close", {"sessionId": "s"})
        assert late(story).fails(self.rule) == ["session/close was never answered"]

    def test_none_when_driven(self) -> None:
        story = Story().begin()
        id = story.request("session/close", {"sessionId": "s"})
        assert late(story).fails(self.rule) == []
        assert story.control("waited", **{"for": "response", "id": id, "seconds": 15}).fails(self.rule)

    def test_a_prompt_of_an_idle_session(self) -> None:
        story = foreign()
        story.prompt("Hello")
        assert late(story).fails(self.rule) == ["session/prompt was never answered"]

    def test_a_prompt_whose_whole_turn_ran(self) -> None:
        story = foreign()
        story.prompt("Hello")
        assert late(story.user("u", "Hello").running().says("a", "Hi").idle("end_turn")).fails(self.rule)
        driven = Story(model="openai-chat").begin()
        id = driven.prompt("Hello", nonce="acp-1")
        driven.user("u", "Hello acp-1").running()
        driven.control("model-request", at="", number=1, nonce="acp-1", group="chat", last_user=True)
        driven.control("model-answered", at="", number=1, how="say", status=200, injected=False).idle("end_turn")
        assert driven.control("waited", **{"for": "response", "id": id, "seconds": 15}).fails(self.rule)

    def test_a_prompt_that_was_held_and_then_forgotten(self) -> None:
        story = foreign().running()
        story.prompt("Hello")
        story.after(50).says("a", "Well").after(50).idle("end_turn")
        assert story.passes(self.rule)
        assert late(story).fails(self.rule)

    def test_a_held_prompt(self) -> None:
        story = foreign().running()
        story.prompt("Hello")
        assert late(story).passes(self.rule)

    def test_the_session_was_idle_for_a_moment_only(self) -> None:
        story = foreign().running()
        story.prompt("Hello")
        assert story.after(40).idle("end_turn").barrier().passes(self.rule)

    def test_its_own_work_runs(self) -> None:
        story = foreign()
        story.prompt("Hello")
        assert late(story.running()).passes(self.rule)

    def test_the_agent_waits_for_the_client(self) -> None:
        story = foreign()
        story.request("session/close", {"sessionId": "s"})
        assert late(story.asks("_vendor/sure", {})).passes(self.rule)

    def test_a_login(self) -> None:
        story = foreign()
        story.request("auth/login", {"methodId": "browser"})
        assert late(story, 300).passes(self.rule)

    def test_it_fell_silent_on_nonsense(self) -> None:
        story = foreign().client(b"{broken")
        story.request("session/close", {"sessionId": "s"})
        story.after(60).running()
        assert story.fails(self.rule) == []

    def test_the_recording_ends(self) -> None:
        story = foreign()
        story.request("session/close", {"sessionId": "s"})
        assert story.passes(self.rule)

    def test_ids_used_again(self) -> None:
        story = foreign()
        for _ in range(3):
            story.reply(story.request("session/list", id=7), sessions=[])
        first, second = story.request("session/list", id=8), story.request("session/list", id=8)
        assert story.reply(first, sessions=[]).reply(second, sessions=[]).passes(self.rule)

    def test_no_request(self) -> None:
        assert Story(driven=False).running().silent(self.rule)


class TestResultOrError:
    rule = "wire.result-or-error"

    @pytest.mark.parametrize(
        "message",
        [
            {},
            {"result": {}, "error": {"code": 1, "message": "x"}},
            {"result": {"sessions": []}, "error": None},
            {"error": "no"},
            {"error": None},
            {"error": {"code": "BUSY", "message": "x"}},
            {"error": {"code": 1}},
            {"error": {"code": 1, "message": None}},
        ],
    )
    def test_malformed(self, message: Any) -> None:
        story = foreign()
        id = story.request("session/list")
        assert story.agent({"jsonrpc": "2.0", "id": id, **message}).fails(self.rule)
        assert story.fails("wire.only-messages-on-stdout") == []

    @pytest.mark.parametrize("message", [{"result": None}, {"error": {"code": -32603, "message": "", "data": None}}])
    def test_right(self, message: Any) -> None:
        story = foreign()
        id = story.request("session/delete", {"sessionId": "s"})
        assert story.agent({"jsonrpc": "2.0", "id": id, **message}).passes(self.rule)

    def test_none(self) -> None:
        assert Story(driven=False).running().silent(self.rule)


class TestNotifications:
    rule, unknown = "wire.no-reply-to-notifications", "wire.unknown-notification-ignored"

    def test_answered(self) -> None:
        story = foreign().cancel().refuse(None, -32601)
        assert story.fails(self.rule) == ["a response to the notification session/cancel"]
        assert story.fails("wire.response-id") == []

    def test_a_malformed_line_may_be_meant(self) -> None:
        assert foreign().cancel().client(b"{broken").refuse(None, -32700).fails(self.rule) == []

    def test_a_request_may_be_meant(self) -> None:
        story = foreign().cancel()
        story.request("session/list")
        story.refuse(None, -32600)
        assert story.fails(self.rule) == []
        assert story.fails("wire.response-id")

    def test_ignored(self) -> None:
        story = foreign().notify("_vendor/hint", {}).barrier()
        assert story.passes(self.rule)
        assert story.passes(self.unknown)
        assert foreign().silent(self.rule)
        assert foreign().cancel().barrier().silent(self.unknown)

    def test_an_unknown_one_is_answered(self) -> None:
        assert foreign().notify("_vendor/hint", {}).refuse(None, -32601).barrier().fails(self.unknown)

    def test_an_unknown_one_silences_the_agent(self) -> None:
        story = Story().begin().notify("_vendor/hint", {})
        id = story.request("session/list")
        story.control("waited", **{"for": "response", "id": id, "seconds": 15})
        assert story.fails(self.unknown)
        assert story.fails("wire.one-response") == []


class TestRequestIds:
    rule = "wire.request-ids"

    @pytest.mark.parametrize("id", [None, True, 1.5, [1], {"a": 1}])
    def test_no_id(self, id: Any) -> None:
        assert foreign().asks("_vendor/ask", {}, id=id).fails(self.rule)

    def test_used_while_pending(self) -> None:
        story = foreign().asks("_vendor/ask", {}, id=1).asks("_vendor/ask", {}, id=1)
        assert story.fails(self.rule) == ["the id 1 is used again while a request with it is pending"]

    def test_right(self) -> None:
        story = foreign().asks("_vendor/ask", {}, id=1).answer(1).asks("_vendor/ask", {}, id=1)
        assert story.asks("_vendor/ask", {}, id="1").passes(self.rule)

    def test_the_clients_ids_are_others(self) -> None:
        story = foreign()
        id = story.request("session/list")
        assert story.asks("_vendor/ask", {}, id=id).passes(self.rule)

    def test_no_request(self) -> None:
        assert foreign().silent(self.rule)


class TestNonsense:
    def test_an_unknown_method(self) -> None:
        rule = "wire.unknown-method"
        story = foreign()
        assert story.refuse(story.request("session/dance"), -32603).fails(rule)
        story = foreign()
        assert story.reply(story.request("session/dance")).fails(rule)
        story = foreign()
        assert story.refuse(story.request("session/dance"), -32601).passes(rule)
        story = foreign()
        assert story.reply(story.request("_vendor/dance")).silent(rule)

    def test_an_extension_request(self) -> None:
        rule = "wire.extension-request-answered"
        story = foreign()
        story.request("_vendor/dance")
        assert story.silent(rule)
        assert late(story).fails(rule) == ["_vendor/dance was never answered"]
        assert story.fails("wire.one-response") == []
        story = foreign()
        assert story.refuse(story.request("_vendor/dance"), -32601).passes(rule)

    @pytest.mark.parametrize(("code", "fails"), [(-32700, False), (-32600, True)])
    def test_a_line_that_is_no_json(self, code: int, fails: bool) -> None:
        story = foreign().client(b"{broken").refuse(None, code).barrier()
        assert bool(story.fails("wire.parse-error")) is fails

    def test_silence_to_a_line_that_is_no_json(self) -> None:
        assert foreign().client(b"{broken").barrier().fails("wire.parse-error")
        assert foreign().client(b"{broken").silent("wire.parse-error")
        assert foreign().silent("wire.parse-error")

    def test_silence_to_bytes_that_a_lenient_decoder_takes_for_a_notification(self) -> None:
        rule = "wire.parse-error"
        story = foreign().client(b'{"jsonrpc": "2.0", "method": "\xff\xfe"}').barrier()
        assert story.fails(rule) == []
        assert story.warns(rule) == ["a line that is not JSON was met with silence"]
        assert foreign().client(b'{"jsonrpc": "2.0", "id": 7, "method": "\xff\xfe"}').barrier().fails(rule)
        assert foreign().client(b'{"jsonrpc": "2.0", "method": "\xff\xfe').barrier().fails(rule)

    def test_arrays(self) -> None:
        rule = "wire.array-is-answered"
        batch = [{"jsonrpc": "2.0", "id": 9, "method": "session/list"}, {"jsonrpc": "2.0", "method": "_vendor/hint"}]
        assert foreign().client(batch).refuse(None, -32600).barrier().passes(rule)
        assert foreign().client(batch).agent([{"jsonrpc": "2.0", "id": 9, "result": {}}]).barrier().passes(rule)
        assert foreign().client(batch).barrier().fails(rule)
        assert foreign().client([]).agent([]).barrier().fails(rule) == ["an array was answered with an empty array"]
        assert foreign().client([batch[1]]).barrier().silent(rule)
        assert foreign().silent(rule)

    def test_wrong_params(self) -> None:
        rule = "wire.invalid-params"
        story = foreign()
        assert story.reply(story.request("session/new", {"cwd": 5}), sessionId="x").fails(rule)
        story = foreign()
        assert story.refuse(story.request("session/new", {"cwd": 5}), -32603).fails(rule)
        story = foreign()
        assert story.refuse(story.request("session/new", {"cwd": 5}), -32602).passes(rule)
        story = foreign()
        story.request("session/new", {"cwd": 5})
        assert late(story).fails(rule)
        assert story.fails("wire.one-response") == []
        assert foreign().silent(rule)

    @pytest.mark.parametrize("params", [{"cwd": "/w", "mcpServers": None}, {"cwd": "/w", "_meta": 5}])
    def test_leniency_is_a_rule_too(self, params: Any) -> None:
        story = foreign()
        assert story.reply(story.request("session/new", params), sessionId="x").silent("wire.invalid-params")


class TestEndsWithStdin:
    rule = "wire.ends-with-stdin"

    def test_lingers(self) -> None:
        assert Story().begin().control("closed").control("lingered", seconds=2).fails(self.rule)

    def test_leaves_children(self) -> None:
        story = Story().begin().control("closed").control("exited", code=0).control("leftover", count=2)
        assert story.fails(self.rule) == ["left 2 processes behind"]

    def test_exits(self) -> None:
        assert Story().begin().control("closed").control("exited", code=0, by_itself=True).passes(self.rule)

    def test_a_websocket(self) -> None:
        story = Story().control("started", transport="websocket").begin().control("closed")
        assert story.control("lingered", seconds=2).silent(self.rule)
        assert foreign().silent(self.rule)


def test_digits_that_a_double_cannot_hold_are_a_warning() -> None:
    story = Story().begin()
    story.request("session/list", id=2**53 + 1)
    story.reply(2**53, sessions=[]).control("waited", **{"for": "response", "id": 2**53 + 1, "began": 0, "seconds": 15})
    assert story.fails("wire.response-id") == []
    assert len(story.warns("wire.response-id")) == 1
    assert story.fails("wire.one-response") == []


def test_a_result_of_the_wrong_shape_after_an_error() -> None:
    story = foreign()
    story.refuse(story.request("session/list"), -32603).reply(story.request("session/list"), sessions="none")
    assert len(story.fails("wire.valid-shape")) == 1


def test_a_response_with_an_id_of_its_own_answers_no_notification() -> None:
    story = foreign().notify("session/dance", {}).reply(77, sessions=[]).barrier()
    assert story.passes("wire.unknown-notification-ignored")


def test_a_line_that_is_cut_by_its_length_or_by_the_end_is_a_warning() -> None:
    rule = "wire.only-messages-on-stdout"
    story, long, unfinished = foreign(), LineReader(max_line=10), LineReader()
    for envelope in (*long.feed(b"x" * 11), *unfinished.feed(b'{"jsonrpc": "2.0", "me'), unfinished.end()):
        assert envelope is not None
        story.recorder.wire("ada", "agent", envelope)
    assert story.fails(rule) == []
    cut, last = story.warns(rule)
    assert cut == "a line that is longer than the suite reads"
    assert last.startswith("the last line is unfinished: ")


def test_a_value_of_the_unstable_schema_is_a_warning() -> None:
    story = foreign().update("plan_removed", planId="p")
    assert (story.fails("wire.open-enum-values"), len(story.warns("wire.open-enum-values"))) == ([], 1)


def test_metadata_of_the_wrong_shape_beside_the_id_of_a_prompt() -> None:
    story = foreign()
    assert len(story.reply(story.prompt("Hello"), messageId="u", _meta=5).fails("wire.valid-shape")) == 1
