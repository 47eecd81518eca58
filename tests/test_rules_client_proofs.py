"""Clients, closer: which events prove each fault, and what is near a fault and none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.story import Story
from tests.test_rules_client import IMAGE, OPTIONS, TEXT, recording

WIRE = "client.wire"
CAPABILITIES = "client.respects-capabilities"
CANCEL = "client.cancel-answers-permissions"
SAME = "clients.same-id-for-all"
SUBMITTER = "clients.response-to-submitter-only"


class TestWire:
    @pytest.mark.parametrize(
        "outcome",
        [
            {"result": {}, "error": {"code": 1, "message": "x"}},
            {"error": {"code": "x", "message": "x"}},
            {"error": {"code": 1}},
            {"error": "no"},
            {},
        ],
    )
    def test_a_malformed_response(self, outcome: Any) -> None:
        story = recording().begin().asks("_own/input", {}, id=7).client({"jsonrpc": "2.0", "id": 7, **outcome})
        (said,) = story.fails(WIRE)
        assert said.startswith("a response with ")
        assert story.proof(WIRE) == [5]

    def test_the_proof(self) -> None:
        story = recording().begin().asks("_own/input", {}, id=7).answer(7).answer(7)
        assert story.proof(WIRE) == [4, 5, 6]
        story = recording().begin().asks("_own/input", {}, id=7).answer("7")
        assert story.proof(WIRE) == [4, 5]
        story = recording().begin().asks("_own/input", {}, id=7).after(40).barrier()
        assert story.proof(WIRE) == [4, 5]
        assert recording().begin().client([]).client([]).proof(WIRE) == [4]
        assert recording().begin().answer(7).proof(WIRE) == [4]

    def test_an_error_with_no_id_answers_what_could_not_be_read(self) -> None:
        error = {"code": -32700, "message": "Parse error"}
        assert recording().begin().client({"jsonrpc": "2.0", "id": None, "error": error}).passes(WIRE)
        assert recording().begin().client({"jsonrpc": "2.0", "id": None, "result": {}}).fails(WIRE)
        assert recording().begin().client({"jsonrpc": "2.0", "id": 7, "error": error}).fails(WIRE)

    @pytest.mark.parametrize("array", [True, False])
    def test_an_error_for_what_is_no_request(self, array: bool) -> None:
        line = {"jsonrpc": "2.0", "id": 55, "method": 7}
        for id, fails in ((55, 0), (56, 1)):
            story = recording().begin().agent([line] if array else line)
            story.client({"jsonrpc": "2.0", "id": id, "error": {"code": -32600, "message": "invalid"}})
            assert len(story.fails(WIRE)) == fails
        assert recording().begin().agent(line).answer(55).fails(WIRE)

    def test_answers_to_what_was_asked_before_the_recording(self) -> None:
        assert recording().answer(7).passes(WIRE)

    @pytest.mark.parametrize(("asked", "judged"), [([1], False), ([0], False), ([1, 2], True), ([], True)])
    def test_a_client_of_version_1(self, asked: list[int], judged: bool) -> None:
        story = recording()
        for version in asked:
            story.request("initialize", {"protocolVersion": version, "info": {"name": "t", "version": "1"}})
        story.request("session/load", {"sessionId": "s"})
        found = [said for said in story.fails(WIRE) if "session/load" in said]
        assert bool(found) is judged

    @pytest.mark.parametrize("field", ["clientInfo", "clientCapabilities"])
    def test_fields_of_version_1(self, field: str) -> None:
        story = recording()
        info = {"name": "t", "version": "1"}
        params = {"protocolVersion": 2, "info": info, "capabilities": {}, field: info}
        story.request("initialize", params)
        assert (story.fails(WIRE), story.proof(WIRE)) == ([], [0])
        story = recording()
        story.request("initialize", {**params, "else": 1})
        (said,) = story.fails(WIRE)
        assert "'else'" in said
        story = recording().begin()
        story.request("session/list", {field: info})
        assert story.fails(WIRE)

    def test_methods(self) -> None:
        story = recording().begin()
        story.request("session/load", {})
        (said,) = story.fails(WIRE)
        assert said.endswith("is a method of version 1")
        story.request("session/load", {})
        assert story.proof(WIRE) == [4]
        (said,) = recording().begin().asks("_x", {}).notify("what", {}).fails(WIRE)
        assert said.endswith("is no method that a client may call")


class TestCapabilities:
    def login(self, method: str = "auth/login", **params: Any) -> Story:
        story = recording()
        asked = story.request("initialize", {"protocolVersion": 2, "info": {"name": "t", "version": "1"}})
        methods = [
            {"type": "agent", "methodId": "key", "name": "K"},
            {"type": "terminal", "methodId": "tui", "name": "T"},
        ]
        story.reply(asked, protocolVersion=2, info={"name": "a", "version": "1"}, authMethods=methods)
        story.request(method, params)
        return story

    def test_logins(self) -> None:
        assert self.login(methodId="key").passes(CAPABILITIES)
        assert self.login("auth/logout").passes(CAPABILITIES)
        (said,) = self.login(methodId="tui").fails(CAPABILITIES)
        assert "terminal" in said
        (said,) = self.login(methodId="x").fails(CAPABILITIES)
        assert 'the method "x"' in said
        assert self.login(methodId="x").proof(CAPABILITIES) == [1, 2]

    @pytest.mark.parametrize(
        "method",
        ["new", "list", "resume", "close", "prompt", "delete", "set_config_option"],
    )
    def test_every_method_of_sessions_needs_the_capability(self, method: str) -> None:
        story = recording().initialize(capabilities={})
        story.request(f"session/{method}", {"prompt": [TEXT]})
        (said,) = story.fails(CAPABILITIES)
        assert said == f"session/{method} although the agent did not advertise capabilities.session"

    @pytest.mark.parametrize(("method", "early"), [("session/list", True), ("_own", False), ("$/x", False)])
    def test_before_initialize(self, method: str, early: bool) -> None:
        story = recording()
        story.request(method)
        story.initialize()
        assert bool(story.fails(CAPABILITIES)) is early
        assert not early or story.proof(CAPABILITIES) == [0, 1]

    def test_not_waiting(self) -> None:
        story = recording()
        story.request("initialize", {"protocolVersion": 2})
        story.request("session/list")
        assert story.proof(CAPABILITIES) == [0, 1]
        refused = recording()
        refused.refuse(refused.request("initialize", {"protocolVersion": 2}), -32603).request("session/list")
        assert refused.proof(CAPABILITIES) == [0, 2]

    def test_by_the_initialize_that_was_answered_last(self) -> None:
        story = recording().initialize().initialize(capabilities={"session": {"delete": {}}})
        story.request("session/delete", {"sessionId": "s"})
        assert story.passes(CAPABILITIES)

    @pytest.mark.parametrize("capability", [None, False])
    def test_what_is_not_offered_in_any_form(self, capability: Any) -> None:
        story = recording().initialize(capabilities={"session": {"prompt": {"image": capability}}})
        story.request("session/prompt", {"sessionId": "s", "prompt": [5, IMAGE]})
        assert story.proof(CAPABILITIES) == [1, 2]

    @pytest.mark.parametrize("kind", ["tool_call", "terminal"])
    def test_what_can_be_cancelled(self, kind: str) -> None:
        key = "toolCallId" if kind == "tool_call" else "terminalId"
        for capabilities, fails in (({"cancel": {}}, 0), ({"cancel": None}, 1), ({"cancel": False}, 1), (None, 1)):
            story = recording().begin().update(f"{kind}_update", **{key: "x"}, capabilities=capabilities)
            story.request(f"{kind}/cancel", {"sessionId": "s", key: "x"})
            assert len(story.fails(CAPABILITIES)) == fails
            story.request(f"{kind}/cancel", {"sessionId": "s", key: "other"})
            assert len(story.fails(CAPABILITIES)) == fails + 1

    def test_offered_before_the_client_came_back(self) -> None:
        for capabilities, fails in (({"cancel": {}}, 0), ({}, 1)):
            story = recording().begin().update("tool_call_update", toolCallId="x", capabilities=capabilities)
            story.control("cut").initialize(at="ada#2")
            story.reply(story.resume(at="ada#2"), at="ada#2")
            story.request("tool_call/cancel", {"sessionId": "s", "toolCallId": "x"}, at="ada#2")
            assert len(story.fails(CAPABILITIES)) == fails

    def test_offered_only_afterwards(self) -> None:
        story = recording().begin().update("tool_call_update", toolCallId="x")
        story.request("tool_call/cancel", {"sessionId": "s", "toolCallId": "x"})
        assert story.update("tool_call_update", toolCallId="x", capabilities={"cancel": {}}).fails(CAPABILITIES)

    def test_places(self) -> None:
        offered = {"session": {"additionalDirectories": {}, "mcp": {"stdio": {}}}}
        for params, fails in (
            ({"additionalDirectories": ["/x"]}, 0),
            ({"additionalDirectories": ["/x", "y"]}, 1),
            ({"additionalDirectories": "y"}, 0),
            ({"mcpServers": [5, {"type": "stdio", "command": 5}]}, 0),
            ({"mcpServers": [{"type": "http"}]}, 1),
            ({"mcpServers": [{"type": "sse", "command": "x"}]}, 0),
        ):
            story = recording().initialize(capabilities=offered)
            story.request("session/new", {"cwd": "/w", **params})
            assert len(story.fails(CAPABILITIES)) == fails, params
        story = recording().initialize()
        story.request("session/close", {"sessionId": "s", "cwd": "w"})
        assert story.passes(CAPABILITIES)


class TestPermissions:
    def withdrawn(self) -> Story:
        """The request is event 5, the cancel 6, the withdrawal 7."""
        story = recording().begin().running()
        story.asks("session/request_permission", {"sessionId": "s", "title": "x", "options": OPTIONS}).cancel()
        return story.agent({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 900}})

    def test_the_proof(self) -> None:
        yes = {"outcome": {"outcome": "selected", "optionId": "yes"}}
        assert self.withdrawn().after(2).answer(900, **yes).proof(CANCEL) == [5, 6, 7, 8]
        assert self.withdrawn().answer(900, **yes).proof(CANCEL) == [5, 6, 7, 8]
        assert self.withdrawn().after(40).barrier().proof(CANCEL) == [5, 6, 7, 8]
        error = {"jsonrpc": "2.0", "id": 900, "error": {"code": -32800, "message": "x"}}
        assert self.withdrawn().after(2).client(error).proof(CANCEL) == [5, 6, 7, 8]

    @pytest.mark.parametrize(("seconds", "fails"), [(0.98, 0), (1.0, 1)])
    def test_how_late_an_answer_may_have_crossed(self, seconds: float, fails: int) -> None:
        story = self.withdrawn().after(seconds).answer(900, outcome={"outcome": "selected", "optionId": "yes"})
        assert len(story.fails(CANCEL)) == fails


class TestClients:
    def two(self) -> Story:
        """Two clients of one session; the next event is 8."""
        story = recording().begin().initialize(at="bob")
        return story.reply(story.resume(at="bob"), at="bob")

    def test_two_ids(self) -> None:
        story = self.two()
        story.reply(story.prompt("Hi"), messageId="u").user("u", "Hi").user("x", "Hi", at="bob")
        assert story.proof(SAME) == [8, 9, 11]
        early = self.two()
        id = early.prompt("Hi")
        assert early.user("x", "Hi", at="bob").reply(id, messageId="u").proof(SAME) == [8, 9, 10]

    def test_one_id(self) -> None:
        story = self.two()
        id = story.prompt("Hi")
        story.user("x", "Hi", at="bob")
        assert story.silent(SAME)
        assert story.refuse(id, -32603).silent(SAME)
        story = self.two()
        story.reply(story.prompt("Hi"), messageId="u").user("u", "Hi")
        assert story.silent(SAME)
        assert story.user("u", "Hi", at="bob").passes(SAME)

    def test_a_message_of_another_submission(self) -> None:
        story = Story().begin().initialize(at="bob")
        story.reply(story.resume(at="bob"), at="bob")
        story.reply(story.prompt("Hi", nonce="acp-1"), messageId="u").user("u", "Hi acp-1", at="bob")
        story.user("q", "> Hi acp-1", at="bob")
        assert story.passes(SAME)

    @pytest.mark.parametrize("ids", [("u1", "u1"), ("u1", "u2")])
    def test_equal_prompts(self, ids: tuple[str, str]) -> None:
        story = self.two()
        first, second = story.prompt("Same"), story.prompt("Same", at="bob")
        story.reply(first, messageId=ids[0]).reply(second, messageId=ids[1], at="bob")
        if ids[0] == ids[1]:
            assert story.proof("clients.own-association") == [8, 9, 10, 11]
        story.user("u1", "Same").user("u1", "Same", at="bob").running(at="bob").idle("end_turn", at="bob")
        assert story.proof("clients.own-association") == [8, 9, 10, 11, *([15] if ids[0] != ids[1] else [])]

    def test_a_response_to_another_client(self) -> None:
        story = recording().initialize().initialize(at="bob")
        story.request("session/list", id=50, at="bob")
        assert story.reply(50, sessions=[]).proof(SUBMITTER) == [4, 5]
        assert story.reply(50, at="bob", sessions=[]).proof(SUBMITTER) == [4, 5]
