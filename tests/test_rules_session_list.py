"""Listing, deleting and configuring sessions."""

from typing import Any

import pytest

from tests.story import Story


def because(story: Story, rule: str) -> list[tuple[int, str]]:
    """(seq, direction) of the events that prove the first finding."""
    return [(event.seq, event.dir) for event, _ in story.outcome(rule).findings[0].because]


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

    def test_two_pages_in_turn_under_new_cursors(self) -> None:
        story = self.page(Story().initialize(), "a", next="1")
        for number in range(1, 8):
            self.page(story, "ab"[number % 2], next=str(number + 1), cursor=str(number))
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


class TestOnePlaceOfTwoNames:
    """A directory may be listed under what a link leads to."""

    rule = "session.list"

    def listed(self, *sessions: tuple[str, str, str]) -> Story:
        """Sessions (id, cwd at its making, cwd in the list), in the list for /home/u/p."""
        story = Story(driven=False).initialize()
        for id, made, _ in sessions:
            if made:
                story.reply(story.request("session/new", {"cwd": made}), sessionId=id)
        asked = story.request("session/list", {"cwd": "/home/u/p"})
        return story.reply(asked, sessions=[{"sessionId": id, "cwd": cwd} for id, _, cwd in sessions])

    def test_what_was_made_there(self) -> None:
        assert self.listed(("s", "/home/u/p", "/var/home/u/p")).passes(self.rule)
        assert self.listed(("s", "/home/u/p", "/var/home/u/p"), ("old", "", "/var/home/u/p")).passes(self.rule)

    def test_what_was_made_elsewhere(self) -> None:
        assert self.listed(("s", "/home/u/q", "/home/u/q")).fails(self.rule)
        assert self.listed(("old", "", "/var/home/u/p")).fails(self.rule)

    def test_sessions_without_an_id_tell_nothing(self) -> None:
        story = Story(driven=False).initialize()
        story.agent({"jsonrpc": "2.0", "id": story.request("session/new", {"cwd": "/home/u/p"}), "result": {}})
        asked = story.request("session/list", {"cwd": "/home/u/p"})
        assert story.reply(asked, sessions=[{"cwd": "/w"}]).fails(self.rule)

    def test_all_under_one_name(self) -> None:
        assert self.listed(("s", "/home/u/p", "/w"), ("t", "/home/u/q", "/w")).fails(self.rule)


class TestDelete:
    rule = "session.delete"

    def deleted(self, *, closed: bool = True, advertised: bool = True) -> Story:
        story = Story().begin(capabilities={"session": {"delete": {}} if advertised else {}})
        if closed:
            story.reply(story.request("session/close", {"sessionId": "s"}))
        return story.reply(story.request("session/delete", {"sessionId": "s"}))

    def listing(self, story: Story, *ids: str) -> Story:
        return story.reply(story.request("session/list"), sessions=[{"sessionId": i, "cwd": "/w"} for i in ids])

    @pytest.mark.parametrize(("seen", "fails"), [("s", 1), ("t", 0)])
    def test_in_a_foreign_recording_one_store_is_seen_to_be_one(self, seen: str, fails: int) -> None:
        able = {"session": {"delete": {}}}
        story = Story(driven=False).begin(capabilities=able)
        story.reply(story.request("session/delete", {"sessionId": "old"})).initialize(at="bob", capabilities=able)
        sessions = [{"sessionId": i, "cwd": "/w"} for i in (seen, "old")]
        story.reply(story.request("session/list", at="bob"), at="bob", sessions=sessions)
        assert len(story.fails(self.rule)) == fails

    @pytest.mark.parametrize("closes", [True, False])
    def test_another_client_still_has_it_open(self, closes: bool) -> None:
        able = {"session": {"delete": {}}}
        story = Story(sessions={"shared": True}).begin(capabilities=able).initialize(at="bob", capabilities=able)
        resumed = story.resume(at="bob")
        story.idle(at="bob").reply(resumed, at="bob")
        for at in ("ada", "bob") if closes else ("ada",):
            story.reply(story.request("session/close", {"sessionId": "s"}, at=at), at=at)
        story.reply(story.request("session/delete", {"sessionId": "s"}))
        story.reply(story.request("session/list"), sessions=[{"sessionId": "s", "cwd": "/w"}])
        assert (len(story.fails(self.rule)), len(story.warns(self.rule))) == ((1, 0) if closes else (0, 1))

    @pytest.mark.parametrize("about", [{"survives-restart": True}, {"shared": True}, {}])
    def test_listed_to_another_client(self, about: dict[str, bool]) -> None:
        able = {"session": {"delete": {}}}
        story = Story(sessions=about).begin(capabilities=able)
        story.reply(story.request("session/close", {"sessionId": "s"}))
        story.reply(story.request("session/delete", {"sessionId": "s"})).control("exited", code=0)
        story.initialize(at="next", capabilities=able)
        story.reply(story.request("session/list", at="next"), at="next", sessions=[{"sessionId": "s", "cwd": "/w"}])
        assert len(story.fails(self.rule)) == bool(about)

    def test_gone(self) -> None:
        assert self.listing(self.deleted(), "t").passes(self.rule)
        assert self.deleted().silent(self.rule)

    def test_still_listed(self) -> None:
        story = self.listing(self.deleted(), "s")
        assert story.fails(self.rule) == ['the session "s" is listed although it was deleted']
        assert [side for _, side in because(story, self.rule)] == ["client", "agent", "client", "agent"]

    def test_listed_again_after_a_restart(self) -> None:
        story = self.deleted().control("closed").control("started", at="ada#2", transport="stdio", restart_of="ada")
        story.initialize(at="ada#2", capabilities={"session": {"delete": {}}})
        entries = [{"sessionId": "s", "cwd": "/w"}]
        story.reply(story.request("session/list", at="ada#2"), at="ada#2", sessions=entries)
        assert story.fails(self.rule) == ['the session "s" is listed although it was deleted']
        assert [side for _, side in because(story, self.rule)] == ["client", "agent", "client", "agent"]

    def test_an_id_that_is_used_again_after_a_restart(self) -> None:
        story = self.deleted().control("closed").control("started", at="ada#2", transport="stdio", restart_of="ada")
        story.begin(at="ada#2", capabilities={"session": {"delete": {}}})
        entries = [{"sessionId": "s", "cwd": "/w"}]
        story.reply(story.request("session/list", at="ada#2"), at="ada#2", sessions=entries)
        assert story.fails(self.rule) == []

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

    def test_an_option_left_out_although_nothing_changed(self) -> None:
        story = self.having(self.mode, self.model)
        story.reply(self.set(story, "mode", "ask"), configOptions=[self.mode])
        assert story.fails(self.rule) == ['the answer to session/set_config_option leaves out "model"']

    def test_an_option_left_out_that_can_be_set(self) -> None:
        story = self.having(self.mode, self.model)
        story.reply(self.set(story, "mode", "code"), configOptions=[self.mode])
        story.reply(self.set(story, "model", "m2"), configOptions=[self.model])
        (found,) = story.fails(self.rule)
        assert found == 'the answer to session/set_config_option left out "model", which was there all the time'

    def test_an_update_tells_what_the_answers_leave_out(self) -> None:
        story = self.having(self.mode, self.model)
        for name, value, answer in (("mode", "code", self.mode), ("model", "m2", self.model)):
            setting = self.set(story, name, value)
            story.update("config_option_update", configOptions=[self.mode, self.model])
            story.reply(setting, configOptions=[answer])
        assert len(story.fails(self.rule)) == 1

    def test_an_option_that_came_back(self) -> None:
        story = self.having(self.model, self.level)
        story.reply(self.set(story, "model", "m2"), configOptions=[self.model])
        story.reply(self.set(story, "model", "m1"), configOptions=[self.model, self.level])
        story.reply(self.set(story, "level", "high"), configOptions=[self.model, self.level])
        assert story.fails(self.rule) == []

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


@pytest.mark.parametrize(
    ("about", "pages", "fails"), [({}, 14, True), ({}, 10, True), ({}, 9, False), ({"cwd": "/w"}, 14, False)]
)
def test_empty_pages_without_end(about: dict[str, str], pages: int, fails: bool) -> None:
    story = Story().begin()
    story.reply(story.request("session/list", about), sessions=[{"sessionId": "s", "cwd": "/w"}], nextCursor="0")
    for at in range(pages):
        asked = story.request("session/list", {**about, "cursor": str(at)})
        story.reply(asked, sessions=[], nextCursor=str(at + 1))
    assert bool(story.fails("session.list")) == fails


@pytest.mark.parametrize(("pages", "fails"), [(9, 0), (10, 1)])
def test_a_list_that_is_empty_from_the_first_page_on(pages: int, fails: int) -> None:
    story, params = Story().begin(), {}
    for at in range(pages):
        story.reply(story.request("session/list", params), sessions=[], nextCursor=str(at))
        params = {"cursor": str(at)}
    assert len(story.fails("session.list")) == fails


def test_a_long_list_with_something_new_on_each_page() -> None:
    story, params = Story().begin(), {}
    for at in range(15):
        entries = [{"sessionId": f"s{at}", "cwd": "/w"}]
        story.reply(story.request("session/list", params), sessions=entries, nextCursor=str(at))
        params = {"cursor": str(at)}
    assert story.passes("session.list")


def test_each_answer_without_an_array_is_told() -> None:
    story = Story().begin()
    story.reply(story.request("session/list")).reply(story.request("session/list"))
    assert len(story.fails("session.list")) == 2


@pytest.mark.parametrize("rule", ["session.list", "session.delete", "session.unique-ids", "session.unknown-session"])
def test_an_entry_whose_id_is_no_string_names_no_session(rule: str) -> None:
    story = Story().begin(capabilities={"session": {"delete": {}}})
    story.reply(story.request("session/delete", {"sessionId": "s"}))
    story.reply(story.request("session/list"), sessions=[{"sessionId": ["s"], "cwd": "/w"}])
    assert story.fails(rule) == []


def test_an_error_without_a_code_for_a_session_that_was_deleted_before() -> None:
    story = Story().begin(capabilities={"session": {"delete": {}}})
    story.reply(story.request("session/delete", {"sessionId": "s"}))
    again = story.request("session/delete", {"sessionId": "s"})
    story.agent({"jsonrpc": "2.0", "id": again, "error": {"message": "no"}})
    assert story.warns("session.delete") == ["deleting a deleted session again fails with an error without a code"]


def test_a_deleted_session_of_which_the_client_was_only_told_is_still_listed() -> None:
    story = Story().initialize(capabilities={"session": {"delete": {}}})
    story.update("session_info_update", session="old", title="Old")
    story.reply(story.request("session/delete", {"sessionId": "old"}))
    story.reply(story.request("session/list"), sessions=[{"sessionId": "old", "cwd": "/w"}])
    assert story.fails("session.delete") == ['the session "old" is listed although it was deleted']


def test_a_value_that_is_not_offered_gets_an_error_without_a_code() -> None:
    story = Story().initialize()
    new = story.request("session/new", {"cwd": "/w"})
    story.reply(new, sessionId="s", configOptions=[select("mode", "ask", "ask", "code")])
    params = {"sessionId": "s", "configId": "mode", "type": "id", "value": "fly"}
    asked = story.request("session/set_config_option", params)
    story.agent({"jsonrpc": "2.0", "id": asked, "error": {"message": "no"}})
    assert story.fails("session.config-options") == [
        "an option or value that is not offered gets an error without a code instead of -32602"
    ]
