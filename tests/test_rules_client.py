"""What a recording tells of a client: its wire, the agent's capabilities, withdrawn permissions."""

from typing import Any

import pytest

from tests.story import Story

TEXT = {"type": "text", "text": "x"}
IMAGE = {"type": "image", "data": "", "mimeType": "image/png"}
OPTIONS = [{"optionId": "yes", "name": "Y", "kind": "allow_once"}]


def recording() -> Story:
    return Story(driven=False)


def test_the_suites_own_client_is_not_judged() -> None:
    story = Story().begin().client(b"not json")
    story.prompt("")
    for rule in ("client.wire", "client.respects-capabilities", "client.cancel-answers-permissions"):
        assert story.silent(rule)
    assert len(Story(target="client").begin().client(b"not json").fails("client.wire")) == 1


class TestWire:
    rule = "client.wire"

    def test_a_usual_recording(self) -> None:
        story = recording().begin()
        story.reply(story.prompt("Hello"), messageId="u1").cancel()
        assert story.barrier().passes(self.rule)
        assert recording().silent(self.rule)

    @pytest.mark.parametrize(
        "line",
        [
            b"hello",
            b"5",
            b"\xff",
            b'{"a":1}',
            b'{"jsonrpc":"1.0","method":"session/cancel","params":{"sessionId":"s"}}',
            {"jsonrpc": "2.0", "id": None, "method": "session/list"},
            {
                "jsonrpc": "2.0",
                "id": 9,
                "method": "session/prompt",
                "params": {"prompt": [{"type": "text", "text": "x"}]},
            },
            {"jsonrpc": "2.0", "id": 9, "method": "session/list", "params": {"filter": "x"}},
            {
                "jsonrpc": "2.0",
                "id": 9,
                "method": "session/prompt",
                "params": {"sessionId": "s", "prompt": [{"type": "video"}]},
            },
            {"jsonrpc": "2.0", "id": 9, "method": "session/load", "params": {}},
            {"jsonrpc": "2.0", "method": "session/pause"},
            {"jsonrpc": "2.0", "id": 9, "result": {}},
        ],
    )
    def test_faulty_lines(self, line: Any) -> None:
        story = recording().begin().client(line)
        assert len(story.fails(self.rule)) == 1
        assert story.outcome(self.rule).findings[0].because[-1][0] is story.last

    @pytest.mark.parametrize(
        "line",
        [
            {"jsonrpc": "2.0", "id": "x", "method": "_own/thing", "params": {"a": 1}},
            {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}},
            {"jsonrpc": "2.0", "id": 9, "method": "session/list", "params": {"_meta": {"own": 1}}},
            {
                "jsonrpc": "2.0",
                "id": 9,
                "method": "session/prompt",
                "params": {"sessionId": "s", "prompt": [{"type": "_own"}]},
            },
            {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}},
        ],
    )
    def test_odd_but_right_lines(self, line: Any) -> None:
        assert recording().begin().client(line).passes(self.rule)

    @pytest.mark.parametrize(
        "line", [b"[]", {"jsonrpc": "2.0", "id": 9, "method": "session/fork", "params": {"sessionId": "s"}}]
    )
    def test_suspicious_lines(self, line: Any) -> None:
        story = recording().begin().client(line)
        assert (len(story.fails(self.rule)), len(story.warns(self.rule))) == (0, 1)

    def test_an_id_that_is_pending(self) -> None:
        story = recording().begin()
        story.request("session/list", id=7)
        story.request("session/list", id=7)
        assert len(story.fails(self.rule)) == 1

    def test_a_request_that_is_never_answered(self) -> None:
        story = recording().begin().asks("_own/input", {"sessionId": "s"}, id="q1").after(119)
        assert story.passes(self.rule)
        story.barrier()
        assert story.fails(self.rule) == ["the agent's request _own/input was never answered"]
        assert [event.dir for event, _ in story.outcome(self.rule).findings[0].because] == ["agent", "client"]

    def test_a_client_that_went_on_for_less_than_the_patience(self) -> None:
        story = recording().begin().asks("_own/input", {}, id="q1").after(20).barrier()
        assert story.passes(self.rule)

    def test_a_client_that_says_nothing_more(self) -> None:
        story = recording().begin().asks("_own/input", {}, id="q1").after(120).idle()
        assert story.passes(self.rule)

    @pytest.mark.parametrize("method", ["session/request_permission", "elicitation/create"])
    def test_a_person_may_take_any_time(self, method: str) -> None:
        story = recording().begin().asks(method, {"sessionId": "s"}, id="q1").after(9999).barrier()
        assert story.passes(self.rule)

    def test_a_wait_of_the_suite_that_ran_out(self) -> None:
        story = Story(target="client").begin().asks("_own/input", {}, id="q1")
        assert len(story.control("waited", **{"for": "response", "id": "q1"}).fails(self.rule)) == 1

    def test_answers_in_the_wrong_type_or_twice(self) -> None:
        typed = recording().begin().asks("_own/input", {}, id=5).answer("5").after(120).barrier()
        assert len(typed.fails(self.rule)) == 1
        twice = recording().begin().asks("_own/input", {}, id=5).answer(5).answer(5)
        assert twice.fails(self.rule) == ["_own/input was answered 2 times"]

    def test_an_odd_id_is_its_senders_fault(self) -> None:
        assert recording().begin().asks("_own/input", {}, id=1.5).answer(1.5).passes(self.rule)

    def test_the_result_of_a_permission(self) -> None:
        options = [{"optionId": "a", "name": "A", "kind": "allow_once"}]
        story = (
            recording().begin().asks("session/request_permission", {"sessionId": "s", "title": "x", "options": options})
        )
        assert len(story.answer(900, outcome="selected").fails(self.rule)) == 1

    def test_version_1_has_other_shapes(self) -> None:
        story = recording()
        asked = story.request("initialize", {"protocolVersion": 1, "clientCapabilities": {"terminal": True}})
        story.reply(asked, protocolVersion=1, agentCapabilities={})
        story.request("session/load", {"sessionId": "s", "cwd": "/w", "mcpServers": []})
        assert story.passes(self.rule)

    def test_fields_of_both_versions_in_initialize(self) -> None:
        story = recording()
        info = {"name": "t", "version": "1"}
        story.request("initialize", {"protocolVersion": 2, "info": info, "capabilities": {}, "clientInfo": info})
        assert (len(story.fails(self.rule)), len(story.warns(self.rule))) == (0, 1)

    def test_an_empty_prompt_is_another_rules(self) -> None:
        story = recording().begin()
        story.request("session/prompt", {"sessionId": "s", "prompt": []})
        assert story.passes(self.rule)


class TestCapabilities:
    rule = "client.respects-capabilities"

    def after(self, method: str, params: Any, *, capabilities: Any = None) -> Story:
        story = recording().initialize(capabilities=capabilities)
        story.request(method, params)
        return story

    @pytest.mark.parametrize(
        ("method", "params", "message"),
        [
            ("session/prompt", {"sessionId": "s", "prompt": []}, "a prompt with no content block"),
            ("session/prompt", {"sessionId": "s", "prompt": [TEXT, IMAGE]}, "a prompt with a block of type image"),
            ("session/new", {"cwd": "demo"}, 'the path "demo", which is not absolute'),
            ("session/list", {"cwd": "demo"}, 'the path "demo", which is not absolute'),
            ("session/resume", {"sessionId": "s", "cwd": "./demo"}, 'the path "./demo", which is not absolute'),
            ("session/new", {"cwd": "/w", "additionalDirectories": ["/x"]}, "additionalDirectories although"),
            (
                "session/new",
                {"cwd": "/w", "mcpServers": [{"type": "http", "name": "m", "url": "u"}]},
                "an MCP server of the transport http",
            ),
            ("session/delete", {"sessionId": "s"}, "session/delete although"),
            ("auth/login", {"methodId": "x"}, "auth/login although the agent advertised no authMethods"),
            ("auth/logout", {}, "auth/logout although"),
            ("tool_call/cancel", {"sessionId": "s", "toolCallId": "c"}, "tool_call/cancel although"),
            ("terminal/cancel", {"sessionId": "s", "terminalId": "t"}, "terminal/cancel although"),
        ],
    )
    def test_what_was_not_advertised(self, method: str, params: Any, message: str) -> None:
        story = self.after(method, params)
        (found,) = story.fails(self.rule)
        assert found.startswith(message)
        assert [event.dir for event, _ in story.outcome(self.rule).findings[0].because] == ["agent", "client"]

    def test_a_session_without_the_capability(self) -> None:
        assert len(self.after("session/new", {"cwd": "/w"}, capabilities={}).fails(self.rule)) == 1

    @pytest.mark.parametrize(
        ("method", "params", "session"),
        [
            (
                "session/prompt",
                {"sessionId": "s", "prompt": [TEXT, IMAGE, {"type": "_own"}]},
                {"prompt": {"image": {}}},
            ),
            ("session/prompt", {"sessionId": "s", "prompt": [IMAGE]}, {"prompt": {"image": True}}),
            ("session/new", {"cwd": "C:\\w", "additionalDirectories": ["/x"]}, {"additionalDirectories": {}}),
            ("session/new", {"cwd": "/w", "additionalDirectories": []}, {}),
            (
                "session/new",
                {"cwd": "/w", "mcpServers": [{"type": "stdio", "name": "m", "command": "/m"}]},
                {"mcp": {"stdio": {}}},
            ),
            ("session/delete", {"sessionId": "s"}, {"delete": {}}),
            ("session/delete", {"sessionId": "s"}, True),
            ("_own/thing", {}, {}),
        ],
    )
    def test_what_was_advertised(self, method: str, params: Any, session: Any) -> None:
        assert self.after(method, params, capabilities={"session": session}).passes(self.rule)

    def test_a_relative_server_command(self) -> None:
        servers = [{"type": "stdio", "name": "m", "command": "npx"}]
        story = self.after(
            "session/new", {"cwd": "/w", "mcpServers": servers}, capabilities={"session": {"mcp": {"stdio": {}}}}
        )
        assert story.fails(self.rule) == ['the MCP server command "npx", which is no absolute path']

    def test_a_tool_call_that_once_could_be_cancelled(self) -> None:
        story = recording().begin()
        story.update("tool_call_update", toolCallId="c", capabilities={"cancel": {}})
        story.update("tool_call_update", toolCallId="c", status="completed", capabilities=None)
        story.request("tool_call/cancel", {"sessionId": "s", "toolCallId": "c"})
        assert story.passes(self.rule)

    @pytest.mark.parametrize(("method", "fails"), [("key", 0), ("tui", 1), ("other", 1)])
    def test_login(self, method: str, fails: int) -> None:
        story = recording()
        methods = [
            {"type": "agent", "methodId": "key", "name": "K"},
            {"type": "terminal", "methodId": "tui", "name": "T"},
        ]
        asked = story.request("initialize", {"protocolVersion": 2, "info": {"name": "t", "version": "1"}})
        story.reply(asked, protocolVersion=2, info={"name": "a", "version": "1"}, authMethods=methods)
        story.request("auth/login", {"methodId": method})
        assert len(story.fails(self.rule)) == fails

    def test_before_initialize(self) -> None:
        story = recording()
        story.request("session/new", {"cwd": "/w"})
        assert story.initialize().fails(self.rule) == ["session/new comes before initialize"]

    def test_a_recording_of_the_clients_lines_alone(self) -> None:
        story = recording()
        story.request("initialize", {"protocolVersion": 2, "info": {"name": "t", "version": "1"}})
        story.request("session/new", {"cwd": "/w"})
        assert story.fails(self.rule) == []
        assert len(story.warns(self.rule)) == 1

    def test_without_waiting_for_the_answer(self) -> None:
        story = recording()
        asked = story.request("initialize", {"protocolVersion": 2, "info": {"name": "t", "version": "1"}})
        story.request("session/new", {"cwd": "/w"})
        story.reply(asked, protocolVersion=2, info={"name": "a", "version": "1"}, capabilities={"session": {}})
        assert story.fails(self.rule) == ["session/new is sent before initialize was answered with success"]

    def test_an_answer_under_a_wrong_id(self) -> None:
        story = recording()
        story.request("initialize", {"protocolVersion": 2, "info": {"name": "t", "version": "1"}})
        story.reply("1", protocolVersion=2, info={"name": "a", "version": "1"}, capabilities={"session": {}})
        story.request("session/new", {"cwd": "/w"})
        assert story.silent(self.rule)

    @pytest.mark.parametrize("started", [True, False])
    def test_no_initialize_at_all(self, started: bool) -> None:
        story = recording()
        if started:
            story.control("started", transport="stdio")
        story.prompt("Hello")
        assert (len(story.fails(self.rule)), len(story.warns(self.rule))) == ((1, 0) if started else (0, 1))


class TestCancelAnswersPermissions:
    rule = "client.cancel-answers-permissions"

    def asked(self) -> Story:
        story = recording().begin().running()
        return story.asks("session/request_permission", {"sessionId": "s", "title": "x", "options": OPTIONS})

    def withdrawn(self) -> Story:
        return self.take_back(self.asked().cancel())

    def take_back(self, story: Story) -> Story:
        return story.agent({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 900}})

    def test_cancelled(self) -> None:
        assert self.withdrawn().answer(900, outcome={"outcome": "cancelled"}).passes(self.rule)

    def test_another_outcome(self) -> None:
        story = self.withdrawn().after(2).answer(900, outcome={"outcome": "selected", "optionId": "yes"})
        assert story.fails(self.rule) == ["a permission request of cancelled work was not answered as cancelled"]
        assert [event.dir for event, _ in story.outcome(self.rule).findings[0].because] == [
            "agent",
            "client",
            "agent",
            "client",
        ]

    def test_an_answer_that_crossed(self) -> None:
        story = self.withdrawn().answer(900, outcome={"outcome": "selected", "optionId": "yes"})
        assert (len(story.fails(self.rule)), len(story.warns(self.rule))) == (0, 1)

    def test_the_error_of_the_august_text(self) -> None:
        story = (
            self.withdrawn()
            .after(2)
            .client({"jsonrpc": "2.0", "id": 900, "error": {"code": -32800, "message": "Cancelled"}})
        )
        assert (len(story.fails(self.rule)), len(story.warns(self.rule))) == (0, 1)

    def test_unanswered(self) -> None:
        story = self.withdrawn().idle("cancelled")
        assert story.barrier().silent(self.rule)
        assert len(story.after(31).barrier().fails(self.rule)) == 1

    def test_not_withdrawn_or_not_cancelled(self) -> None:
        assert self.asked().cancel().after(99).barrier().silent(self.rule)
        assert self.take_back(self.asked()).after(99).barrier().silent(self.rule)

    def test_answered_before(self) -> None:
        story = self.asked().answer(900, outcome={"outcome": "selected", "optionId": "yes"}).cancel()
        assert self.take_back(story).silent(self.rule)


def test_an_mcp_server_of_a_process_where_the_agent_offers_no_such_transport() -> None:
    story = recording().initialize(capabilities={"session": {"mcp": {"http": {}}}})
    server = {"type": "stdio", "name": "m", "command": "/bin/m", "args": []}
    story.request("session/new", {"cwd": "/w", "mcpServers": [server]})
    assert story.fails("client.respects-capabilities") == [
        "an MCP server of the transport stdio, which the agent did not advertise"
    ]


def test_a_cancel_of_a_tool_call_that_names_no_session() -> None:
    story = recording().initialize()
    story.request("tool_call/cancel", {"toolCallId": "c"})
    assert story.fails("client.respects-capabilities") == [
        "tool_call/cancel although capabilities.cancel was never advertised for it"
    ]


def test_a_notification_that_any_side_may_ignore() -> None:
    story = recording().initialize().notify("$/made_up", {})
    assert story.fails("client.wire") == []
