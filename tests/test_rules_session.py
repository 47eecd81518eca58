"""Sessions: methods, ids, who is told of them, closing, listing, deleting, configuring."""

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

    def test_advertised_or_not_logged_in(self) -> None:
        story, asked = self.ask(HTTP, http={})
        assert story.reply(asked, sessionId="s").silent(self.rule)
        story, asked = self.ask(HTTP)
        assert story.refuse(asked, -32000).silent(self.rule)

    @pytest.mark.parametrize("driven", [True, False])
    def test_a_custom_transport(self, driven: bool) -> None:
        story, asked = self.ask({"type": "_pipe"}, driven=driven)
        assert len(story.reply(asked, sessionId="s").fails(self.rule)) == (1 if driven else 0)


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

    def test_work_that_ends_by_itself(self) -> None:
        story, close = self.closing()
        assert story.idle("end_turn").reply(close).silent(self.rule)

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

    def test_another_error_for_a_held_prompt(self) -> None:
        story, (held, close) = self.closing(inserted=False)
        story.idle("cancelled").refuse(held, -32603).reply(close)
        assert len(story.fails(self.rule)) == 1

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


class TestList:
    rule = "session.list"

    def page(self, story: Story, *ids: str, next: Any = None, cwd: str = "/w", **params: Any) -> Story:
        more = {"nextCursor": next} if next is not None else {}
        entries = [{"sessionId": identifier, "cwd": cwd} for identifier in ids]
        return story.reply(story.request("session/list", params), sessions=entries, **more)

    def test_pages_that_end(self) -> None:
        story = self.page(Story().initialize(), "a", next="")
        self.page(story, "b", next="2", cursor="")
        assert self.page(story, "c", cursor="2").passes(self.rule)

    def test_no_array(self) -> None:
        story = Story().initialize()
        assert len(story.reply(story.request("session/list")).fails(self.rule)) == 1

    @pytest.mark.parametrize("cwd", ["w", "./w", "file:///w", "~/w", "C:w"])
    def test_a_relative_path(self, cwd: str) -> None:
        assert len(self.page(Story().initialize(), "a", cwd=cwd).fails(self.rule)) == 1

    @pytest.mark.parametrize("cwd", ["/", "C:\\w", "C:/w", "\\\\server\\share"])
    def test_absolute_paths(self, cwd: str) -> None:
        assert self.page(Story().initialize(), "a", cwd=cwd).passes(self.rule)

    def test_a_session_of_another_cwd(self) -> None:
        story = self.page(Story().initialize(), "a", cwd="/w/inner")
        assert story.passes(self.rule)
        story.reply(story.request("session/list", {"cwd": "/w"}), sessions=[{"sessionId": "a", "cwd": "/w/inner"}])
        assert story.fails(self.rule) == ['sessions of "/w" were asked for, and one of "/w/inner" is listed']

    @pytest.mark.parametrize(
        ("asked", "listed"), [("/w/", "/w"), ("/tmp/w", "/private/tmp/w"), ("C:\\W", "c:/w"), ("/x/../w", "/w")]
    )
    def test_a_normalised_cwd(self, asked: str, listed: str) -> None:
        story = Story().initialize()
        story.reply(story.request("session/list", {"cwd": asked}), sessions=[{"sessionId": "a", "cwd": listed}])
        assert story.passes(self.rule)

    def test_a_repeating_cursor(self) -> None:
        story = self.page(Story().initialize(), "a", next="2")
        self.page(story, "b", next="2", cursor="2")
        assert story.fails(self.rule) == ['the cursor "2" comes again: the pages never end']
        assert [side for _, side in because(story, self.rule)] == ["agent", "client", "agent"]

    def test_cursors_that_go_round(self) -> None:
        story = self.page(Story().initialize(), "a", next="2")
        self.page(story, "b", next="3", cursor="2")
        assert len(self.page(story, "a", next="2", cursor="3").fails(self.rule)) == 1

    def test_pages_that_go_round_under_new_cursors(self) -> None:
        story = self.page(Story().initialize(), "a", next="1")
        for number in range(1, 4):
            self.page(story, "a", next=str(number + 1), cursor=str(number))
        assert len(story.fails(self.rule)) == 1

    def test_the_client_may_read_twice(self) -> None:
        story = Story().initialize()
        for _ in range(2):
            self.page(story, "a", next="2")
            self.page(story, "b", next="3", cursor="2")
            self.page(story, "b", next="3", cursor="2")
            self.page(story, "c", cursor="3")
        assert story.passes(self.rule)

    def test_nothing_without_a_list(self) -> None:
        assert Story().begin().silent(self.rule)


class TestDelete:
    rule = "session.delete"

    def deleted(self, *, closed: bool = True, advertised: bool = True) -> Story:
        story = Story().begin(capabilities={"session": {"delete": {}} if advertised else {}})
        if closed:
            story.reply(story.request("session/close", {"sessionId": "s"}))
        return story.reply(story.request("session/delete", {"sessionId": "s"}))

    def listing(self, story: Story, *ids: str) -> Story:
        return story.reply(story.request("session/list"), sessions=[{"sessionId": i, "cwd": "/w"} for i in ids])

    def test_gone(self) -> None:
        assert self.listing(self.deleted(), "t").passes(self.rule)
        assert self.deleted().silent(self.rule)

    def test_still_listed(self) -> None:
        story = self.listing(self.deleted(), "s")
        assert story.fails(self.rule) == ['the session "s" is listed although it was deleted']
        assert [side for _, side in because(story, self.rule)] == ["client", "agent", "client", "agent"]

    def test_an_active_one_is_the_agents_to_decide(self) -> None:
        story = self.listing(self.deleted(closed=False), "s")
        assert (len(story.fails(self.rule)), len(story.warns(self.rule))) == (0, 1)

    def test_opened_again(self) -> None:
        story = self.deleted()
        story.reply(story.resume())
        assert self.listing(story, "s").fails(self.rule) == []

    def test_again(self) -> None:
        story = self.deleted()
        story.refuse(story.request("session/delete", {"sessionId": "s"}), -32002)
        assert (len(story.fails(self.rule)), len(story.warns(self.rule))) == (0, 1)

    def test_a_missing_method(self) -> None:
        story = Story().begin(capabilities={"session": {"delete": {}}})
        story.refuse(story.request("session/delete", {"sessionId": "s"}), -32601)
        assert len(story.fails(self.rule)) == 1

    def test_not_applicable_without_the_capability(self) -> None:
        story = self.listing(self.deleted(advertised=False), "s")
        assert story.outcome(self.rule).not_applicable == "the agent does not advertise session.delete"


def select(name: str, current: str, *values: str) -> dict[str, Any]:
    options = [{"value": value, "name": value} for value in values]
    return {"configId": name, "name": name, "type": "select", "currentValue": current, "options": options}


class TestConfigOptions:
    rule = "session.config-options"
    mode, model, level = (
        select("mode", "ask", "ask", "code"),
        select("model", "m1", "m1", "m2"),
        select("level", "low", "low", "high"),
    )

    def having(self, *options: Any) -> Story:
        story = Story().initialize()
        return story.reply(story.request("session/new", {"cwd": "/w"}), sessionId="s", configOptions=list(options))

    def set(self, story: Story, name: str, value: Any, kind: str = "id") -> Any:
        params = {"sessionId": "s", "configId": name, "type": kind, "value": value}
        return story.request("session/set_config_option", params)

    def test_right_options(self) -> None:
        grouped = select("model", "b", "a")
        grouped["options"] = [
            {"groupId": "1", "name": "1", "options": [{"value": "a", "name": "a"}]},
            {"groupId": "2", "name": "2", "options": [{"value": "b", "name": "b"}]},
        ]
        story = self.having(self.mode, grouped, {"configId": "x", "name": "x", "type": "boolean", "currentValue": True})
        story.update("config_option_update", configOptions=[self.mode])
        assert story.passes(self.rule)
        assert Story().begin().silent(self.rule)

    @pytest.mark.parametrize(
        "options",
        [
            [select("mode", "other", "ask", "code")],
            [select("mode", "ask", "ask", "ask")],
            [select("mode", "ask", "ask"), select("mode", "ask", "ask")],
        ],
    )
    def test_faulty_lists(self, options: list[Any]) -> None:
        assert len(self.having(*options).fails(self.rule)) == 1
        assert len(Story().begin().update("config_option_update", configOptions=options).fails(self.rule)) == 1

    def test_the_same_value_in_two_groups(self) -> None:
        grouped = select("mode", "a", "a")
        grouped["options"] = [{"groupId": g, "name": g, "options": [{"value": "a", "name": "a"}]} for g in "12"]
        assert self.having(grouped).fails(self.rule) == ['the value "a" stands twice among the options of "mode"']

    def test_setting_answers_with_the_list(self) -> None:
        story = self.having(self.mode, self.model)
        story.reply(self.set(story, "mode", "code"), configOptions=[{**self.mode, "currentValue": "code"}, self.model])
        assert story.passes(self.rule)

    def test_setting_answers_with_nothing(self) -> None:
        story = self.having(self.mode, self.model)
        assert len(story.reply(self.set(story, "mode", "code")).fails(self.rule)) == 1

    def test_setting_answers_with_the_set_option_alone(self) -> None:
        story = self.having(self.mode, self.model, self.level)
        story.reply(self.set(story, "mode", "code"), configOptions=[self.mode])
        assert story.fails(self.rule) == ['the answer to session/set_config_option leaves out "level", "model"']

    def test_an_option_may_go_with_another(self) -> None:
        story = self.having(self.model, self.level)
        story.reply(self.set(story, "model", "m2"), configOptions=[self.model])
        assert (len(story.fails(self.rule)), len(story.warns(self.rule))) == (0, 1)

    @pytest.mark.parametrize(("name", "value"), [("other", "ask"), ("mode", "other")])
    def test_what_is_not_offered(self, name: str, value: str) -> None:
        right, accepted, other = self.having(self.mode), self.having(self.mode), self.having(self.mode)
        assert right.refuse(self.set(right, name, value), -32602).passes(self.rule)
        assert len(accepted.reply(self.set(accepted, name, value), configOptions=[self.mode]).fails(self.rule)) == 1
        assert len(other.refuse(self.set(other, name, value), -32603).fails(self.rule)) == 1

    def test_a_value_that_was_added_meanwhile(self) -> None:
        story = self.having(self.mode)
        story.reply(self.set(story, "mode", "plan"), configOptions=[select("mode", "plan", "ask", "plan")])
        assert story.passes(self.rule)

    def test_the_method_is_missing(self) -> None:
        story = self.having(self.mode)
        assert len(story.refuse(self.set(story, "mode", "code"), -32601).fails(self.rule)) == 1

    def test_a_failure_to_set_what_is_offered(self) -> None:
        story = self.having(self.mode)
        assert story.refuse(self.set(story, "mode", "code"), -32603).passes(self.rule)
