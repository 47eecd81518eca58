"""Sessions, closer: which events prove each fault, and what is near a fault and none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.story import Story

LIST = "session.list"
DELETE = "session.delete"
CLOSE = "session.close-answers-prompts"
FIRST = "session.close-cancels-first"
SILENT = "session.silent-after-close"
AGAIN = "session.close-is-idempotent"
MCP = "session.unsupported-mcp-rejected"
UNIQUE = "session.unique-ids"


def page(story: Story, *ids: str, next: Any = None, cwd: str = "/w", **params: Any) -> Story:
    more = {"nextCursor": next} if next is not None else {}
    entries = [{"sessionId": identifier, "cwd": cwd} for identifier in ids]
    return story.reply(story.request("session/list", params), sessions=entries, **more)


def close(story: Story, session: str = "s") -> Story:
    return story.reply(story.request("session/close", {"sessionId": session}))


class TestList:
    """After `Story().initialize()` the next event is 3."""

    def test_the_proof(self) -> None:
        story = Story().initialize()
        assert story.reply(story.request("session/list")).proof(LIST) == [3, 4]
        assert page(Story().initialize(), "a", cwd="w").proof(LIST) == [3, 4]
        story = Story().initialize()
        story.reply(story.request("session/list", {"cwd": "/x"}), sessions=[{"sessionId": "a", "cwd": "/w"}])
        assert story.proof(LIST) == [3, 4]

    def test_more_directories(self) -> None:
        for directory, fails in (("/x", 0), ("x", 1)):
            story = Story().initialize()
            entry = {"sessionId": "a", "cwd": "/w", "additionalDirectories": [directory]}
            story.reply(story.request("session/list"), sessions=[5, entry])
            assert len(story.fails(LIST)) == fails

    def test_a_filter_that_is_none(self) -> None:
        for cwd in (None, 5, "w"):
            story = Story().initialize()
            story.reply(story.request("session/list", {"cwd": cwd}), sessions=[{"sessionId": "a", "cwd": "/w"}])
            assert story.passes(LIST)

    def test_a_cursor_that_comes_again(self) -> None:
        story = page(Story().initialize(), "a", next="1")
        assert page(story, "b", next="1", cursor="1").proof(LIST) == [4, 5, 6]
        story = page(Story().initialize(), "a", next="1")
        page(page(story, "b", next="2", cursor="1"), "c", next="1", cursor="2")
        assert story.proof(LIST) == [4, 7, 8]

    def test_how_many_pages_may_hold_nothing_new(self) -> None:
        story = page(Story().initialize(), "a", next="1")
        for number in (1, 2):
            page(story, "a", next=str(number + 1), cursor=str(number))
        assert story.passes(LIST)
        assert page(story, "a", next="4", cursor="3").proof(LIST) == [9, 10]

    def test_something_new_in_between(self) -> None:
        story = page(Story().initialize(), "a", next="1")
        for number in range(1, 7):
            page(story, "a", *(["b"] if number == 3 else []), next=str(number + 1), cursor=str(number))
            assert bool(story.fails(LIST)) is (number == 6), number

    def test_empty_pages_are_none_with_nothing_new(self) -> None:
        story = page(Story().initialize(), "a", next="1")
        for number in range(1, 7):
            page(story, next=str(number + 1), cursor=str(number))
        assert story.passes(LIST)

    def test_one_page_again_and_again(self) -> None:
        story = page(page(Story().initialize(), "a", next="1"), "a", next="2", cursor="1")
        for _ in range(6):
            page(story, "a", next="2", cursor="1")
        assert story.passes(LIST)

    def test_a_cursor_that_nobody_offered(self) -> None:
        story = Story().initialize()
        for _ in range(5):
            page(story, "a", next="x", cursor="y")
        assert story.passes(LIST)


class TestDelete:
    def deleted(self) -> Story:
        story = close(Story().begin(capabilities={"session": {"delete": {}}}))
        return story.reply(story.request("session/delete", {"sessionId": "s"}))

    def test_the_proof(self) -> None:
        assert page(self.deleted(), "s").proof(DELETE) == [7, 8, 9, 10]
        story = self.deleted()
        story.refuse(story.request("session/delete", {"sessionId": "s"}), -32002)
        assert story.proof(DELETE) == [8, 9, 10]
        story = Story().begin(capabilities={"session": {"delete": {}}})
        story.refuse(story.request("session/delete", {"sessionId": "s"}), -32601)
        assert story.proof(DELETE) == [2, 5, 6]

    def test_a_list_that_was_asked_for_before_it_was_deleted(self) -> None:
        story = close(Story().begin(capabilities={"session": {"delete": {}}}))
        delete, listing = story.request("session/delete", {"sessionId": "s"}), story.request("session/list")
        story.reply(delete).reply(listing, sessions=[{"sessionId": "s", "cwd": "/w"}])
        assert story.passes(DELETE)

    def test_a_session_that_this_history_does_not_know(self) -> None:
        story = Story().initialize(capabilities={"session": {"delete": {}}})
        story.reply(story.request("session/delete", {"sessionId": "old"}))
        assert page(story, "old").fails(DELETE)

    def test_active_again_when_it_was_deleted(self) -> None:
        story = close(Story().begin(capabilities={"session": {"delete": {}}}))
        story.reply(story.resume()).reply(story.request("session/delete", {"sessionId": "s"}))
        page(story, "s")
        assert (story.fails(DELETE), len(story.warns(DELETE))) == ([], 1)

    def test_a_close_that_failed_leaves_it_active(self) -> None:
        story = Story().begin(capabilities={"session": {"delete": {}}})
        story.refuse(story.request("session/close", {"sessionId": "s"}), -32603)
        story.reply(story.request("session/delete", {"sessionId": "s"}))
        assert (page(story, "s").fails(DELETE), len(story.warns(DELETE))) == ([], 1)

    def test_each_is_told_once(self) -> None:
        assert len(page(page(self.deleted(), "s"), "s").fails(DELETE)) == 1


class TestClose:
    def held(self) -> tuple[Story, Any, Any]:
        story = Story().begin()
        story.reply(story.prompt("First"), messageId="u0").running()
        return story, story.prompt("Second"), story.request("session/close", {"sessionId": "s"})

    def test_the_proof(self) -> None:
        story, held, asked = self.held()
        story.idle("cancelled").refuse(held, -32603).reply(asked)
        assert story.proof(CLOSE) == [8, 9, 11]
        story, held, asked = self.held()
        story.user("u1", "Second").idle("cancelled").refuse(held, -32800).reply(asked)
        assert story.proof(CLOSE) == [8, 9, 10, 12]
        story, held, asked = self.held()
        story.idle("cancelled").reply(asked).control("waited", **{"for": "response", "id": held, "seconds": 15})
        assert story.proof(CLOSE) == [8, 9, 11, 12]
        story, held, asked = self.held()
        story.reply(held, messageId="u1").idle("cancelled").reply(asked)
        assert story.proof(CLOSE) == [7, 8, 9, 10, 12]

    def test_a_close_that_failed_or_came_when_it_was_answered(self) -> None:
        story, held, asked = self.held()
        assert story.refuse(asked, -32603).refuse(held, -32603).silent(CLOSE)
        story = Story().begin().running()
        story.refuse(story.prompt("Second"), -32603)
        assert close(story.idle("cancelled")).silent(CLOSE)

    def test_a_close_on_another_connection(self) -> None:
        story = Story().begin().running().initialize(at="bob")
        held = story.prompt("Second")
        story.reply(story.request("session/close", {"sessionId": "s"}, at="bob"), at="bob").refuse(held, -32603)
        assert story.silent(CLOSE)

    def test_a_prompt_that_nothing_held(self) -> None:
        story = Story().begin()
        sent, asked = story.prompt("One"), story.request("session/close", {"sessionId": "s"})
        story.refuse(sent, -32603).reply(asked)
        assert (story.fails(CLOSE), len(story.warns(CLOSE))) == ([], 1)
        story = Story().begin()
        sent, asked = story.prompt("One"), story.request("session/close", {"sessionId": "s"})
        assert story.refuse(sent, -32002).reply(asked).fails(CLOSE)

    def test_a_session_that_had_been_closed_before(self) -> None:
        story = close(Story().begin())
        sent, asked = story.prompt("One"), story.request("session/close", {"sessionId": "s"})
        assert story.refuse(sent, -32002).reply(asked).passes(CLOSE)

    def test_what_the_work_told(self) -> None:
        story = Story().begin().running()
        asked = story.request("session/close", {"sessionId": "s"})
        assert story.reply(asked).proof(FIRST) == [5, 6, 7]
        assert story.idle("cancelled").proof(FIRST) == [5, 6, 7, 8]
        story = Story().begin().running()
        asked = story.request("session/close", {"sessionId": "s"})
        assert story.idle("error").reply(asked).proof(FIRST) == [5, 6, 7]
        story = Story().begin().running()
        asked = story.request("session/close", {"sessionId": "s"})
        story.update("tool_call_update", toolCallId="c", status="cancelled").idle("end_turn").reply(asked)
        assert story.proof(FIRST) == [5, 6, 7, 8, 9]

    def test_not_silent(self) -> None:
        story = close(Story().begin()).update("session_info_update", title="x").update("session_info_update", title="y")
        assert story.proof(SILENT) == [5, 6, 7]
        story = close(Story().begin()).asks("_ask", {"sessionId": "s"}).update("session_info_update", title="x")
        assert story.proof(SILENT) == [5, 6, 7]

    def test_a_second_close(self) -> None:
        story = Story().begin()
        resumed = story.resume()
        close(story).idle().reply(resumed)
        assert close(story).update("session_info_update", title="x").proof(SILENT) == [10, 11, 12]

    @pytest.mark.parametrize(("method", "opens"), [("session/prompt", True), ("session/set_config_option", False)])
    def test_what_opens_it_again(self, method: str, opens: bool) -> None:
        story = close(Story().begin())
        story.request(method, {"sessionId": "s", "prompt": []})
        assert bool(story.idle().fails(SILENT)) is not opens

    def test_closed_again(self) -> None:
        story = close(Story().begin())
        story.refuse(story.request("session/close", {"sessionId": "s"}), -32603)
        assert story.proof(AGAIN) == [6, 7, 8]
        story = close(Story().begin())
        story.refuse(story.request("session/close", {"sessionId": "s"}), -32002)
        assert (story.fails(AGAIN), story.proof(AGAIN)) == ([], [6, 7, 8])
        story = Story().initialize()
        story.refuse(story.request("session/close", {"sessionId": "never"}), -32603)
        assert story.proof(AGAIN) == [3, 4]

    @pytest.mark.parametrize("code", [-32601, -32000])
    def test_closed_again_and_refused_for_another_reason(self, code: int) -> None:
        story = close(Story().begin())
        story.refuse(story.request("session/close", {"sessionId": "s"}), code)
        assert story.passes(AGAIN)


class TestNew:
    def test_an_unsupported_server(self) -> None:
        servers = {"cwd": "/w", "mcpServers": [5, {"type": "http", "name": "x", "url": "http://x"}]}
        story = Story().initialize()
        assert story.reply(story.request("session/new", servers), sessionId="s").proof(MCP) == [2, 3, 4]
        story = Story().initialize()
        assert story.refuse(story.request("session/new", servers), -32603).proof(MCP) == [2, 3, 4]
        story = Story().initialize()
        assert story.refuse(story.request("session/new", servers), -32602).passes(MCP)

    @pytest.mark.parametrize("params", [None, 5, {"mcpServers": 5}, {"mcpServers": []}])
    def test_no_server(self, params: Any) -> None:
        story = Story().initialize()
        story.client({"jsonrpc": "2.0", "id": 9, "method": "session/new", "params": params})
        assert story.reply(9, sessionId="s").silent(MCP)

    def test_an_id_that_another_session_has(self) -> None:
        story = Story().begin()
        story.reply(story.request("session/new", {"cwd": "/w"}), sessionId="s")
        assert story.proof(UNIQUE) == [4, 5, 6]

    @pytest.mark.parametrize("known", ["resumed", "listed"])
    def test_an_id_that_was_known_otherwise(self, known: str) -> None:
        story = Story().initialize()
        if known == "resumed":
            story.reply(story.resume(session="old"))
        else:
            page(story, "old")
        story.reply(story.request("session/new", {"cwd": "/w"}), sessionId="old")
        assert story.proof(UNIQUE) == [4, 5, 6]

    def test_an_id_that_was_resumed_only_meanwhile(self) -> None:
        story = Story().initialize()
        new = story.request("session/new", {"cwd": "/w"})
        story.reply(story.resume(session="x")).reply(new, sessionId="x")
        assert story.fails(UNIQUE) == []

    def test_an_empty_id(self) -> None:
        assert Story().begin(session="").proof(UNIQUE) == [3, 4]

    def test_servers_of_a_resume(self) -> None:
        server = {"type": "http", "name": "x", "url": "http://x"}
        params = {"sessionId": "s", "cwd": "/w", "mcpServers": [server]}
        story = Story().begin()
        story.reply(story.request("session/resume", params))
        assert story.proof(MCP) == [2, 5, 6]
        story = Story().begin()
        assert story.refuse(story.request("session/resume", params), -32603).silent(MCP)
        story = Story().begin()
        story.request("session/new", params)
        assert story.reply(story.request("session/fork", params)).silent(MCP)


class TestNamed:
    baseline, known, unknown = (
        "session.baseline-methods",
        "session.updates-of-known-sessions",
        "session.unknown-session",
    )

    @pytest.mark.parametrize(
        "method", ["session/new", "session/list", "session/resume", "session/close", "session/prompt"]
    )
    def test_each_method_of_the_baseline(self, method: str) -> None:
        story = Story().begin()
        for _ in range(2):
            story.refuse(story.request(method, {"sessionId": "s"}), -32601)
        assert story.proof(self.baseline) == [2, 5, 6]

    def test_another_method_may_be_missing(self) -> None:
        story = Story().begin()
        assert story.refuse(story.request("session/delete", {"sessionId": "s"}), -32601).passes(self.baseline)

    def test_a_strange_session(self) -> None:
        assert Story().begin().idle(session="x").idle(session="x").proof(self.known) == [1, 5]
        story = Story().begin().asks("_ask", {"sessionId": "x"}).idle(session="x")
        assert story.proof(self.known) == [1, 5]
        two = Story().begin().idle(session="x").idle(session="y")
        assert len(two.fails(self.known)) == 2

    @pytest.mark.parametrize("method", ["session/close", "session/delete"])
    def test_naming_it_in_a_close_makes_nothing_known(self, method: str) -> None:
        story = Story().begin()
        story.request(method, {"sessionId": "x"})
        assert story.idle(session="x").fails(self.known)

    def test_one_that_is_explained_and_one_that_is_not(self) -> None:
        story = Story().begin().update("subagent_update", subagent={"sessionId": "child"}).idle(session="child")
        assert story.idle(session="x").proof(self.known) == [1, 7]

    @pytest.mark.parametrize("method", ["session/new", "session/fork"])
    def test_one_that_was_being_made(self, method: str) -> None:
        story = Story().begin()
        id = story.request(method, {"cwd": "/w"})
        assert story.idle(session="x").fails(self.known) == []
        assert story.refuse(id, -32603).fails(self.known) == []
        assert story.idle(session="y").proof(self.known) == [1, 8]

    @pytest.mark.parametrize("method", ["session/prompt", "session/set_config_option"])
    def test_a_closed_session(self, method: str) -> None:
        story = close(Story(driven=False).begin())
        story.reply(story.request(method, {"sessionId": "s"}))
        assert story.proof(self.unknown) == [5, 6, 7]
        story = close(Story(driven=False).begin())
        story.refuse(story.request(method, {"sessionId": "s"}), -32603)
        assert (story.fails(self.unknown), story.proof(self.unknown)) == ([], [5, 6, 7])

    def test_a_close_that_failed(self) -> None:
        story = Story(driven=False).begin()
        story.refuse(story.request("session/close", {"sessionId": "s"}), -32603)
        assert story.reply(story.prompt("Hi"), messageId="u").silent(self.unknown)

    @pytest.mark.parametrize("code", [-32002, -32601, -32000])
    def test_a_right_refusal(self, code: int) -> None:
        story = close(Story(driven=False).begin())
        assert story.refuse(story.prompt("Hi"), code).passes(self.unknown)

    def test_a_session_that_never_was(self) -> None:
        for method in ("session/prompt", "session/resume", "session/set_config_option"):
            story = Story().begin()
            story.reply(story.request(method, {"sessionId": "x"}))
            assert story.proof(self.unknown) == [5, 6], method
        story = Story().begin().update("subagent_update", subagent={"sessionId": "x"})
        assert story.reply(story.resume(session="x")).silent(self.unknown)
