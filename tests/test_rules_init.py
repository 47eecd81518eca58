"""Initialization: versions, info, markers, auth methods."""

from typing import Any

import pytest

from tests.story import Story

INFO = {"name": "a", "version": "1"}
AGENT = {"type": "agent", "methodId": "key", "name": "Key"}
TERMINAL = {"type": "terminal", "methodId": "tui", "name": "Terminal"}


def initialize(story: Story, version: int, *, at: str = "ada", **params: Any) -> Any:
    asked = {"protocolVersion": version, "info": {"name": "t", "version": "1"}, "capabilities": {}, **params}
    return story.request("initialize", asked, at=at)


def answered(asked: int, given: Any) -> Story:
    story = Story()
    return story.reply(initialize(story, asked), protocolVersion=given, info=INFO, capabilities={"session": {}})


class TestVersion:
    rule = "init.version"

    @pytest.mark.parametrize(("asked", "given"), [(2, 2), (2, 1), (65535, 2), (65535, 1), (1, 1)])
    def test_a_version_not_above_the_requested_one_is_right(self, asked: int, given: int) -> None:
        assert answered(asked, given).passes(self.rule)

    @pytest.mark.parametrize(("asked", "given"), [(1, 0), (2, 0), (65535, -1)])
    def test_there_is_no_version_before_1(self, asked: int, given: int) -> None:
        assert len(answered(asked, given).fails(self.rule)) == 1

    def test_a_whole_number_is_an_integer(self) -> None:
        assert answered(2, 2.0).passes(self.rule)
        assert answered(2, 2.5).fails(self.rule)

    @pytest.mark.parametrize("asked", [0, 1])
    def test_version_2_for_an_older_request_is_the_august_text(self, asked: int) -> None:
        story = answered(asked, 2)
        assert story.fails(self.rule) == []
        assert len(story.warns(self.rule)) == 1

    def test_an_echoed_number_is_no_version(self) -> None:
        story = answered(65535, 65535)
        assert story.fails(self.rule) == [
            "version 65535 is answered, and there is no such version: the number was echoed"
        ]
        asked, given = [event for event, _ in story.outcome(self.rule).findings[0].because]
        assert (asked.dir, given.dir) == ("client", "agent")

    def test_a_version_above_the_requested_one(self) -> None:
        assert answered(2, 3).fails(self.rule) == ["version 2 was asked for and 3 answered, which is above it"]

    @pytest.mark.parametrize("given", [None, "2", True, 2.5])
    def test_what_is_no_integer(self, given: Any) -> None:
        assert len(answered(2, given).fails(self.rule)) == 1

    def test_an_older_version_although_a_later_one_was_shown(self) -> None:
        story = answered(2, 2)
        story.reply(initialize(story, 65535), protocolVersion=1, info=INFO)
        assert story.fails(self.rule) == [
            "version 1 is answered though the agent supports a later one that is not above 65535"
        ]

    def test_another_agent_may_support_less(self) -> None:
        story = answered(2, 2)
        other = initialize(story, 2, at="bob")
        assert story.reply(other, at="bob", protocolVersion=1, info={"name": "b", "version": "1"}).passes(self.rule)

    def test_an_unsupported_version_is_an_error_that_names_both(self) -> None:
        story = Story()
        story.refuse(initialize(story, 1), -32022, data={"requested": 1, "supported": [2]})
        assert story.passes(self.rule)

    @pytest.mark.parametrize(
        "data",
        [
            None,
            {},
            {"requested": 1},
            {"requested": 2, "supported": [2]},
            {"requested": True, "supported": [2]},
            {"requested": 1, "supported": [1, 2]},
            {"requested": 1, "supported": [1.0, 2]},
            {"requested": 1, "supported": ["2"]},
        ],
    )
    def test_the_error_must_say_so_and_be_true(self, data: Any) -> None:
        story = Story()
        more = {"data": data} if data is not None else {}
        assert len(story.refuse(initialize(story, 1), -32022, **more).fails(self.rule)) == 1

    @pytest.mark.parametrize("supported", [[], [3], [2]])
    def test_a_version_that_it_agrees_on_is_in_its_list(self, supported: list[int]) -> None:
        story = Story()
        story.refuse(initialize(story, 1), -32022, data={"requested": 1, "supported": supported})
        assert story.passes(self.rule)
        story.reply(initialize(story, 2, at="bob"), at="bob", protocolVersion=2, info=INFO)
        assert bool(story.fails(self.rule)) is (2 not in supported)

    def test_another_error_for_version_1(self) -> None:
        story = Story()
        assert len(story.refuse(initialize(story, 1), -32602).fails(self.rule)) == 1

    def test_another_error_for_an_unknown_version_is_suspicious(self) -> None:
        story = Story()
        story.refuse(initialize(story, 65535), -32602)
        assert story.fails(self.rule) == []
        assert len(story.warns(self.rule)) == 1

    def test_an_error_for_an_unknown_version_though_2_is_supported(self) -> None:
        story = Story()
        story.refuse(initialize(story, 65535), -32602)
        story.reply(initialize(story, 2), protocolVersion=2, info=INFO)
        assert story.fails(self.rule) == ["version 65535 is refused though the agent supports an earlier one"]

    def test_a_late_or_malformed_initialize_may_be_refused(self) -> None:
        story = Story().begin()
        story.refuse(initialize(story, 1), -32600)
        malformed = Story()
        malformed.refuse(initialize(malformed, 1, info=None), -32602)
        assert story.fails(self.rule) == malformed.fails(self.rule) == []

    def test_nothing_without_an_answer(self) -> None:
        story = Story()
        initialize(story, 2)
        assert story.silent(self.rule)
        assert story.reply(initialize(story, 2), protocolVersion=2).passes(self.rule)

    @pytest.mark.parametrize("code", [-32602, -32603])
    def test_a_refusal_of_version_2_is_a_failure_of_another_kind(self, code: int) -> None:
        story = Story()
        assert story.refuse(initialize(story, 2), code).passes(self.rule)

    def test_what_the_answer_has_instead_is_told(self) -> None:
        assert answered(2, "2").fails(self.rule) == ['the answer\'s protocolVersion is "2", must be an integer']
        story = Story()
        story.reply(initialize(story, 2), info=INFO)
        assert story.fails(self.rule) == ["the answer's protocolVersion is absent, must be an integer"]
        assert story.proof(self.rule) == [1, 2]

    def test_the_same_agent_is_known_by_its_info(self) -> None:
        story = answered(2, 2)
        story.reply(initialize(story, 2, at="bob"), at="bob", protocolVersion=1, info=INFO)
        assert story.proof(self.rule) == [2, 3, 4]

    def test_the_same_older_version_twice_shows_no_later_one(self) -> None:
        story = answered(65535, 1)
        story.reply(initialize(story, 2), protocolVersion=1, info=INFO)
        assert story.passes(self.rule)

    def test_the_error_is_named(self) -> None:
        story = Story()
        story.refuse(initialize(story, 1), -32602)
        (said,) = story.fails(self.rule)
        assert said.startswith("version 1 is refused with -32602 (invalid params)")
        story = Story()
        story.agent({"jsonrpc": "2.0", "id": initialize(story, 1), "error": {"message": "no"}})
        (said,) = story.fails(self.rule)
        assert said.startswith("version 1 is refused with an error without a code")

    def test_one_that_is_repeated_at_once_is_not_late(self) -> None:
        story = Story()
        story.refuse(initialize(story, 2), -32603)
        assert story.refuse(initialize(story, 1), -32602).fails(self.rule)

    @pytest.mark.parametrize(("asked", "by_itself"), [(65535, True), (1, True), (2, True), (65535, False)])
    def test_an_agent_that_ends_at_another_version_only(self, asked: int, by_itself: bool) -> None:
        story = answered(2, 2)
        initialize(story, asked, at="bob")
        story.control("exited", at="bob", code=1, signal=None, by_itself=by_itself)
        assert bool(story.fails(self.rule)) is (asked != 2 and by_itself)

    def test_a_refusal_on_another_connection_of_a_driven_agent(self) -> None:
        story = answered(2, 2)
        story.refuse(initialize(story, 65535, at="bob"), -32602, at="bob")
        assert story.proof(self.rule) == [2, 3, 4]


class TestInfo:
    rule = "init.info"

    def test_it_is_there(self) -> None:
        assert Story().initialize().passes(self.rule)

    @pytest.mark.parametrize("info", [None, {}, {"name": "a"}, {"name": "a", "version": 1}, "a"])
    def test_it_is_absent_or_malformed(self, info: Any) -> None:
        story = Story()
        story.reply(initialize(story, 2), protocolVersion=2, info=info)
        assert len(story.fails(self.rule)) == 1
        assert story.proof(self.rule) == [1, 2]

    def test_an_answer_that_has_no_such_field(self) -> None:
        story = Story()
        assert story.reply(initialize(story, 2), protocolVersion=2).proof(self.rule) == [1, 2]

    def test_its_metadata_is_judged_with_all_other(self) -> None:
        story = Story()
        story.reply(initialize(story, 2), protocolVersion=2, info={**INFO, "_meta": 5})
        assert story.passes(self.rule)
        assert story.fails("wire.valid-shape")

    def test_of_each_answer(self) -> None:
        story = Story()
        initialize(story, 2)
        story.refuse(initialize(story, 2), -32603).reply(initialize(story, 2), protocolVersion=1)
        story.reply(initialize(story, 2), protocolVersion=2)
        story.reply(initialize(story, 2), protocolVersion=2, info={})
        assert len(story.fails(self.rule)) == 2

    def test_absent(self) -> None:
        story = Story()
        story.reply(initialize(story, 2), protocolVersion=2)
        assert story.fails(self.rule) == ["the answer to initialize has no info"]

    def test_version_1_has_another_field_for_it(self) -> None:
        story = Story()
        assert story.reply(initialize(story, 2), protocolVersion=1, agentInfo=INFO).silent(self.rule)


def marker(path: list[str]) -> Any:
    """Capabilities with true at the path."""
    return {path[0]: marker(path[1:])} if path else True


class TestMarkers:
    rule = "init.capability-markers"

    @pytest.mark.parametrize(
        "capabilities",
        [
            {},
            {"session": None},
            {"session": {"delete": {}, "prompt": {"image": None}}},
            {"_meta": {"fast": True}},
            {"x": True},
        ],
    )
    def test_objects_null_and_absent(self, capabilities: Any) -> None:
        assert Story().initialize(capabilities=capabilities).passes(self.rule)

    @pytest.mark.parametrize(
        ("capabilities", "message"),
        [
            ({"session": True}, "capabilities.session is true, must be an object"),
            ({"session": {"delete": True}}, "capabilities.session.delete is true, must be an object"),
            (
                {"session": {"prompt": {"image": False}}},
                "capabilities.session.prompt.image is false, must be an object",
            ),
            ({"auth": []}, "capabilities.auth is an empty array, must be an object"),
            (True, "capabilities is true, must be an object"),
            *(
                (marker(path.split(".")), f"capabilities.{path} is true, must be an object")
                for path in (
                    "session.prompt",
                    "session.prompt.image",
                    "session.prompt.audio",
                    "session.prompt.embeddedContext",
                    "session.mcp",
                    "session.mcp.stdio",
                    "session.mcp.http",
                    "session.additionalDirectories",
                )
            ),
        ],
    )
    def test_booleans(self, capabilities: Any, message: str) -> None:
        assert Story().initialize(capabilities=capabilities).fails(self.rule) == [message]

    def test_a_refusal_advertises_nothing(self) -> None:
        story = Story()
        assert story.refuse(initialize(story, 2), -32603).silent(self.rule)
        initialize(story, 2)
        assert story.silent(self.rule)

    def test_version_1_had_booleans(self) -> None:
        story = Story()
        assert story.reply(initialize(story, 2), protocolVersion=1, capabilities={"session": True}).silent(self.rule)
        story.reply(initialize(story, 2), protocolVersion=2, capabilities={"session": True})
        assert story.proof(self.rule) == [3, 4]


class TestAuthMethods:
    rule = "init.auth-methods"

    def advertising(self, *methods: Any, **client: Any) -> Story:
        story = Story()
        asked = initialize(story, 2, capabilities=client)
        return story.reply(asked, protocolVersion=2, info=INFO, capabilities={"session": {}}, authMethods=list(methods))

    def test_known_and_custom_types(self) -> None:
        custom = {"type": "_sso", "methodId": "sso", "name": "SSO", "realm": "x"}
        assert self.advertising(AGENT, custom).passes(self.rule)

    def test_a_repeated_id(self) -> None:
        story = self.advertising(AGENT, AGENT)
        assert story.fails(self.rule) == ['the auth method id "key" stands there 2 times']
        assert story.proof(self.rule) == [1, 2]

    def test_a_type_without_underscore(self) -> None:
        story = self.advertising({"type": "sso", "methodId": "sso", "name": "SSO"})
        assert story.fails(self.rule) == ['the auth method type "sso" is neither known nor has it a leading underscore']
        assert story.fails("wire.open-enum-values") == []

    def test_a_malformed_method(self) -> None:
        assert "methodId is missing" in self.advertising({"type": "agent", "name": "Key"}).fails(self.rule)[0]

    def test_terminals_only_where_enabled(self) -> None:
        assert len(self.advertising(TERMINAL).fails(self.rule)) == 1
        assert self.advertising(TERMINAL, auth={"terminal": {}}).passes(self.rule)

    @pytest.mark.parametrize("method", ["auth/login", "auth/logout"])
    def test_the_methods_exist(self, method: str) -> None:
        story = self.advertising(AGENT)
        story.refuse(story.request(method, {"methodId": "key"}), -32601)
        assert story.fails(self.rule) == [f"{method} is not found though authMethods are advertised"]
        assert [event.dir for event, _ in story.outcome(self.rule).findings[0].because] == ["agent", "client", "agent"]

    def test_login_with_a_terminal_method_may_be_unknown(self) -> None:
        story = self.advertising(AGENT, TERMINAL, auth={"terminal": {}})
        story.refuse(story.request("auth/login", {"methodId": "tui"}), -32601)
        assert story.passes(self.rule)

    def test_not_applicable_without_methods(self) -> None:
        outcome = Story().initialize().outcome(self.rule)
        assert (outcome.exercised, outcome.not_applicable) == (False, "the agent advertises no authMethods")

    def test_before_they_were_advertised_they_need_not_exist(self) -> None:
        story = Story()
        story.refuse(story.request("auth/logout"), -32601)
        asked = initialize(story, 2)
        story.reply(asked, protocolVersion=2, info=INFO, authMethods=[AGENT])
        assert story.passes(self.rule)

    def test_nor_where_the_latest_answer_has_none(self) -> None:
        story = self.advertising(AGENT)
        story.reply(initialize(story, 2), protocolVersion=2, info=INFO)
        story.refuse(story.request("auth/logout"), -32601).request("auth/logout")
        assert story.passes(self.rule)


@pytest.mark.parametrize(("given", "fails"), [(1, 1), (2, 0)])
def test_an_agent_that_ends_at_a_version_shows_nothing_by_an_answer_above_what_was_asked(
    given: int, fails: int
) -> None:
    story = Story().control("started", at="bob")
    story.reply(initialize(story, 1), protocolVersion=given, info=INFO, capabilities={})
    initialize(story, 99, at="bob")
    story.control("exited", at="bob", code=1, signal=None, by_itself=True)
    assert len(story.fails("init.version")) == fails


def test_the_proof_of_an_error_though_the_version_is_supported() -> None:
    story = Story()
    story.refuse(initialize(story, 2), -32022, data={"requested": 2, "supported": [2]})
    assert story.proof("init.version") == [1, 2]
