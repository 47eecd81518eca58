"""Sessions: methods, ids, who is told of them."""

from typing import Any

import pytest

from tests.story import Story

HTTP = {"type": "http", "name": "m", "url": "http://localhost"}


def because(story: Story, rule: str) -> list[tuple[int, str]]:
    """(seq, direction) of the events that prove the first finding."""
    return [(event.seq, event.dir) for event, _ in story.outcome(rule).findings[0].because]


class TestBaselineMethods:
    rule = "session.baseline-methods"

    def test_a_missing_method(self) -> None:
        story = Story().begin()
        story.refuse(story.resume(), -32601)
        assert story.fails(self.rule) == ["session/resume is not found though capabilities.session is advertised"]
        assert [side for _, side in because(story, self.rule)] == ["agent", "client", "agent"]

    def test_other_errors_are_not_missing_methods(self) -> None:
        story = Story().begin()
        story.refuse(story.resume(), -32002)
        assert story.passes(self.rule)

    @pytest.mark.parametrize(("first", "fails"), [({"session": {}}, 1), ({}, 0)])
    def test_by_the_initialize_before_it(self, first: Any, fails: int) -> None:
        story = Story().initialize(capabilities=first)
        story.refuse(story.request("session/list"), -32601).initialize()
        assert len(story.fails(self.rule)) == fails

    def test_not_applicable_without_the_capability(self) -> None:
        story = Story().initialize(capabilities={})
        story.refuse(story.request("session/new", {"cwd": "/w"}), -32601)
        assert story.outcome(self.rule).not_applicable == "the agent does not advertise capabilities.session"

    def test_before_initialize_was_answered_nothing_is_promised(self) -> None:
        story = Story()
        early = story.request("session/list")
        story.refuse(early, -32601).initialize()
        assert story.silent(self.rule)


class TestUniqueIds:
    rule = "session.unique-ids"

    def create(self, story: Story, session: str, *, at: str = "ada") -> Story:
        return story.reply(story.request("session/new", {"cwd": "/w"}, at=at), at=at, sessionId=session)

    def test_two_sessions(self) -> None:
        assert self.create(Story().begin(session="s1"), "s2").passes(self.rule)
        assert Story().begin().silent(self.rule)

    @pytest.mark.parametrize("resumes", [True, False])
    def test_a_repeated_id_in_a_store_that_is_seen_to_be_one(self, resumes: bool) -> None:
        story = Story(driven=False).begin(session="s1").initialize(at="bob")
        if resumes:
            story.reply(story.resume(session="s1", at="bob"), at="bob")
        assert len(self.create(story, "s1", at="bob").fails(self.rule)) == resumes

    def test_a_repeated_id(self) -> None:
        story = self.create(Story().begin(session="s1"), "s1")
        assert story.fails(self.rule) == ['a new session got the id "s1", which another session has']
        assert [side for _, side in because(story, self.rule)] == ["agent", "client", "agent"]

    def test_a_repeated_id_of_pipelined_requests(self) -> None:
        story = Story().initialize()
        first, second = story.request("session/new", {"cwd": "/w"}), story.request("session/new", {"cwd": "/w"})
        assert len(story.reply(first, sessionId="s").reply(second, sessionId="s").fails(self.rule)) == 1

    def test_an_empty_id(self) -> None:
        assert Story().begin(session="").fails(self.rule) == ["a session got an empty id"]

    def test_the_id_of_a_listed_session(self) -> None:
        story = Story().initialize()
        story.reply(story.request("session/list"), sessions=[{"sessionId": "s1", "cwd": "/w"}])
        assert len(self.create(story, "s1").fails(self.rule)) == 1

    def test_a_list_that_was_asked_meanwhile_holds_the_new_session(self) -> None:
        story = Story().initialize()
        new = story.request("session/new", {"cwd": "/w"})
        story.reply(story.request("session/list"), sessions=[{"sessionId": "s1", "cwd": "/w"}])
        assert story.reply(new, sessionId="s1").fails(self.rule) == []

    def test_a_deleted_id_may_come_again(self) -> None:
        story = Story().begin(session="s1")
        story.reply(story.request("session/delete", {"sessionId": "s1"}))
        assert self.create(story, "s1").passes(self.rule)

    def test_two_processes_of_their_own_may_count_alike(self) -> None:
        assert Story().begin().begin(at="bob").passes(self.rule)
        assert Story(driven=False).begin().begin(at="bob").passes(self.rule)

    @pytest.mark.parametrize("shared", [True, False])
    def test_a_store_that_survives_the_restart(self, shared: bool) -> None:
        story = Story(sessions={"shared": shared, "survives-restart": True}).begin()
        story.control("closed").begin(at="ada#2")
        assert len(story.fails(self.rule)) == 1


class TestUpdatesOfKnownSessions:
    rule = "session.updates-of-known-sessions"

    def test_created_resumed_and_being_created(self) -> None:
        story = Story().initialize()
        new = story.request("session/new", {"cwd": "/w"})
        story.idle().reply(new, sessionId="s")
        story.resume(session="t")
        assert story.idle(session="t").passes(self.rule)

    @pytest.mark.parametrize("driven", [True, False])
    def test_a_strange_session(self, driven: bool) -> None:
        story = Story(driven=driven).begin().idle().idle(session="other")
        assert story.fails(self.rule) == ['the agent names the session "other", which this connection never had']
        assert because(story, self.rule)[-1] == (story.last.seq, "agent")

    def test_a_strange_session_in_a_request(self) -> None:
        story = Story().begin().asks("session/request_permission", {"sessionId": "other", "title": "x", "options": []})
        assert len(story.fails(self.rule)) == 1
        assert len(Story().begin().asks("elicitation/create", {"sessionId": "other"}).fails(self.rule)) == 1

    def test_a_session_of_another_connection(self) -> None:
        story = Story().begin().begin(at="bob", session="b").idle(session="s", at="bob")
        assert len(story.fails(self.rule)) == 1

    def test_updates_for_all_before_a_resume(self) -> None:
        story = Story().begin().initialize(at="bob").running().running(at="bob").idle().idle(at="bob")
        resumed = story.resume(at="bob")
        assert len(story.idle(at="bob").reply(resumed, at="bob").fails(self.rule)) == 1

    def test_a_fork_that_is_being_made(self) -> None:
        story = Story(driven=False).begin()
        forked = story.request("session/fork", {"sessionId": "s", "cwd": "/w"})
        assert story.idle(session="kid").reply(forked, sessionId="kid").passes(self.rule)

    def test_listing_makes_nothing_known(self) -> None:
        story = Story().begin()
        story.reply(story.request("session/list"), sessions=[{"sessionId": "t", "cwd": "/w"}])
        assert len(story.idle(session="t").fails(self.rule)) == 1

    def test_an_announced_session(self) -> None:
        story = Story().begin().update("subagent_update", subagent={"sessionId": "child"})
        assert story.idle(session="child").passes(self.rule)

    def test_an_announcement_that_comes_too_late(self) -> None:
        story = Story().begin().idle(session="child").update("subagent_update", subagent={"sessionId": "child"})
        assert len(story.fails(self.rule)) == 1

    def test_a_session_that_the_client_named(self) -> None:
        story = Story().begin()
        story.prompt("Hello", session="t")
        assert story.idle(session="t").passes(self.rule)

    def test_a_creation_that_never_told_its_id(self) -> None:
        story = Story().begin()
        story.request("session/new", {"cwd": "/w"})
        assert story.idle(session="t").fails(self.rule) == []

    def test_a_recording_that_began_later(self) -> None:
        assert Story(driven=False).idle(session="t").silent(self.rule)


class TestUnknownSession:
    rule = "session.unknown-session"

    def test_success_for_an_id_that_never_existed(self) -> None:
        story = Story().begin()
        story.reply(story.resume(session="nowhere"))
        assert story.fails(self.rule) == ["session/resume succeeds for a session that never existed"]

    def test_a_prompt_after_close(self) -> None:
        story = Story(driven=False).begin()
        story.reply(story.request("session/close", {"sessionId": "s"}))
        story.reply(story.prompt("Hello"), messageId="u1")
        assert story.fails(self.rule) == ["session/prompt succeeds for a session that was closed"]
        assert [side for _, side in because(story, self.rule)] == ["agent", "client", "agent"]

    def test_not_found_is_right_and_another_code_suspicious(self) -> None:
        right, odd = Story().begin(), Story().begin()
        right.refuse(right.prompt("Hello", session="nowhere"), -32002)
        odd.refuse(odd.prompt("Hello", session="nowhere"), -32602)
        assert right.passes(self.rule)
        assert odd.fails(self.rule) == []
        assert len(odd.warns(self.rule)) == 1

    def test_opened_again_by_anyone(self) -> None:
        story = Story().begin()
        story.reply(story.request("session/close", {"sessionId": "s"}))
        story.reply(story.resume(at="bob"), at="bob")
        story.reply(story.prompt("Hello"), messageId="u1")
        assert story.silent(self.rule)

    def test_an_unknown_past(self) -> None:
        story = Story(driven=False).begin()
        story.reply(story.resume(session="older"))
        story.reply(story.prompt("Hello", session="older"), messageId="u1")
        assert story.silent(self.rule)

    def test_a_listed_session_is_there(self) -> None:
        story = Story().initialize()
        story.reply(story.request("session/list"), sessions=[{"sessionId": "older", "cwd": "/w"}])
        story.reply(story.resume(session="older"))
        assert story.silent(self.rule)


class TestUnsupportedMcp:
    rule = "session.unsupported-mcp-rejected"

    def ask(self, server: Any, *, driven: bool = True, **mcp: Any) -> tuple[Story, Any]:
        story = Story(driven=driven).initialize(capabilities={"session": {"mcp": mcp}})
        return story, story.request("session/new", {"cwd": "/w", "mcpServers": [server]})

    def test_success(self) -> None:
        story, asked = self.ask(HTTP, driven=False)
        story.reply(asked, sessionId="s")
        assert story.fails(self.rule) == ['an MCP server of the transport "http" is accepted']

    def test_rejected(self) -> None:
        story, asked = self.ask(HTTP)
        assert story.refuse(asked, -32602).passes(self.rule)

    @pytest.mark.parametrize("driven", [True, False])
    def test_another_code(self, driven: bool) -> None:
        story, asked = self.ask(HTTP, driven=driven)
        story.refuse(asked, -32603)
        assert (len(story.fails(self.rule)), len(story.warns(self.rule))) == ((1, 0) if driven else (0, 1))

    @pytest.mark.parametrize(("cwd", "fails"), [("/w", 1), ("/elsewhere", 0)])
    def test_another_code_and_success_without_the_server(self, cwd: str, fails: int) -> None:
        story, asked = self.ask(HTTP, driven=False)
        again = story.refuse(asked, -32603).request("session/new", {"cwd": cwd})
        assert len(story.reply(again, sessionId="s").fails(self.rule)) == fails

    def test_advertised_or_not_logged_in(self) -> None:
        for marker in ({}, True):
            story, asked = self.ask(HTTP, http=marker)
            assert story.reply(asked, sessionId="s").silent(self.rule)
        story, asked = self.ask(HTTP)
        assert story.refuse(asked, -32000).silent(self.rule)

    @pytest.mark.parametrize("driven", [True, False])
    def test_a_custom_transport(self, driven: bool) -> None:
        story, asked = self.ask({"type": "_pipe"}, driven=driven)
        assert len(story.reply(asked, sessionId="s").fails(self.rule)) == (1 if driven else 0)


@pytest.mark.parametrize(("method", "fails"), [("session/prompt", 0), ("session/resume", 1)])
def test_two_agents_may_count_alike_until_one_resumes_what_the_other_made(method: str, fails: int) -> None:
    story = Story(driven=False).begin().initialize(at="bob")
    story.request(method, {"sessionId": "s", "cwd": "/w", "prompt": []}, id="r", at="bob")
    story.reply("r", at="bob", messageId="u1")
    for name in ("ada", "bob"):
        story.reply(story.request("session/new", {"cwd": "/w"}, at=name), at=name, sessionId="s2")
    assert len(story.fails("session.unique-ids")) == fails


def test_a_session_that_another_client_was_given_after_the_close_is_there() -> None:
    story = Story().begin()
    story.reply(story.request("session/close", {"sessionId": "s"})).begin(at="bob")
    story.reply(story.prompt("Hi", nonce="acp-1"), messageId="u1")
    assert story.fails("session.unknown-session") == []


def test_an_update_while_a_session_with_another_id_is_created() -> None:
    story = Story().initialize()
    new = story.request("session/new", {"cwd": "/w"})
    story.update("session_info_update", session="x", title="X").reply(new, sessionId="s")
    assert len(story.fails("session.updates-of-known-sessions")) == 1


def test_a_notification_without_named_params_announces_no_session() -> None:
    story = Story().begin().update("session_info_update", session="x", title="X")
    story.agent({"jsonrpc": "2.0", "method": "_vendor/said", "params": [{"sessionId": "x"}]})
    assert len(story.fails("session.updates-of-known-sessions")) == 1
