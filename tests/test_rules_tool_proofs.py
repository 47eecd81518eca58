"""Tool calls, closer: which events prove each fault, and what is near a fault and none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.story import Story
from tests.test_rules_tool import ALLOW, MODIFY, REJECT, ask, select, tool

DENIED = "tool.denied-is-not-run"
OPTIONS = "tool.permission-options"
FINAL = "tool.final-is-final"
ONE_CALL = "tool.one-id-one-call"
TITLED = "tool.titled"
TERMINALS = "tool.terminals"
DIFFS = "tool.diffs"
ELICITATION = "tool.elicitation-only-when-enabled"


def asked(*, driven: bool = False, status: str = "pending") -> Story:
    """Recorded, the permission request is event 7 and its answer 8; driven one later each."""
    story = Story(driven=driven).begin()
    story.reply(story.prompt("Tidy up"), messageId="u1").running()
    return ask(story, title="delete logs", status=status)


class TestDenied:
    def test_the_proof(self) -> None:
        story = tool(select(asked(), "no"), "in_progress")
        assert story.proof(DENIED) == [7, 8, 9]
        story = tool(select(asked(), "no"), "completed")
        assert story.warns(DENIED) == ["a tool call is completed although the permission for it was denied"]
        assert story.proof(DENIED) == [7, 8, 9]
        story = select(asked(driven=True), "no").control("tool-effect", nonce=None)
        assert story.proof(DENIED) == [8, 9, 10]

    @pytest.mark.parametrize("status", ["in_progress", "paused"])
    def test_a_call_that_ran_before_it_asked(self, status: str) -> None:
        story = tool(select(asked(status=status), "no"), "in_progress")
        assert (story.fails(DENIED), len(story.warns(DENIED))) == ([], 1)
        assert story.proof(DENIED) == [7, 8, 9]

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            ({"outcome": {"outcome": "selected", "optionId": "no"}}, 'the option "no", a reject_once'),
            ({"outcome": {"outcome": "selected", "optionId": "x"}}, 'the option "x", which was not offered'),
            ({"outcome": {"outcome": "cancelled"}}, 'the outcome "cancelled"'),
        ],
    )
    def test_what_was_answered(self, answer: Any, words: str) -> None:
        story = tool(asked().answer(900, **answer), "in_progress")
        (finding,) = story.outcome(DENIED).findings
        assert finding.because[1][1].endswith(words)

    def test_an_error_as_answer(self) -> None:
        story = asked().client({"jsonrpc": "2.0", "id": 900, "error": {"code": -32603, "message": "no"}})
        assert tool(story, "in_progress").fails(DENIED) == []
        (finding,) = story.outcome(DENIED).findings
        assert finding.because[1][1].endswith("an error")

    def test_what_is_no_run(self) -> None:
        for follows in ("failed", "cancelled", "pending", None):
            assert tool(select(asked(), "no"), follows).passes(DENIED), follows
        assert tool(tool(select(asked(), "no"), "failed"), "in_progress").passes(DENIED)
        assert tool(select(asked(), "no"), "in_progress", id="other").passes(DENIED)

    def test_two_options_of_one_id(self) -> None:
        story = Story(driven=False).begin()
        ask(story, title="t", options=[REJECT, {**ALLOW, "optionId": "no"}])
        assert tool(select(story, "no"), "in_progress").silent(DENIED)

    def test_a_request_that_the_agent_took_back(self) -> None:
        def withdrawn(story: Story) -> Story:
            return story.agent({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 900}})

        story = withdrawn(asked()).answer(900, outcome={"outcome": "cancelled"})
        assert tool(story, "in_progress").silent(DENIED)
        story = withdrawn(asked().cancel()).answer(900, outcome={"outcome": "cancelled"})
        assert tool(story, "in_progress").fails(DENIED)

    def test_another_request_that_may_still_be_approved(self) -> None:
        story = ask(select(asked(), "no"), id=901)
        assert tool(story, "in_progress").silent(DENIED)
        assert tool(select(story, "yes", id=901), "in_progress").silent(DENIED)
        assert tool(select(ask(select(asked(), "no"), id=901), "no", id=901), "in_progress").fails(DENIED)

    @pytest.mark.parametrize(
        ("sighting", "fails"),
        [
            ({"toolCallId": "c1"}, 1),
            ({"toolCallId": "c2"}, 0),
            ({"toolCallId": "c2", "nonce": "acp-1"}, 1),
            ({"nonce": "acp-1"}, 1),
            ({"nonce": "acp-2"}, 0),
            ({}, 1),
        ],
    )
    def test_whose_effect_it_is(self, sighting: Any, fails: int) -> None:
        story = Story().begin()
        story.prompt("Before", nonce="acp-0")
        story.reply(story.prompt("Tidy up", nonce="acp-1"), messageId="u1").running()
        select(ask(story, title="delete logs"), "no")
        story.prompt("After", nonce="acp-2")
        assert len(story.control("tool-effect", **sighting).fails(DENIED)) == fails

    def test_an_effect_with_no_prompt_before(self) -> None:
        story = select(ask(Story().begin(), title="t"), "no").control("tool-effect", toolCallId="c1")
        assert story.proof(DENIED) == [5, 6, 7]

    def test_an_effect_that_was_seen_before(self) -> None:
        assert select(asked(driven=True).control("tool-effect"), "no").passes(DENIED)


class TestOptions:
    def test_the_proof(self) -> None:
        for options in ([], [ALLOW, ALLOW], [{"optionId": "a"}, ALLOW]):
            story = ask(Story(driven=False).begin(), options=options)
            assert story.proof(OPTIONS) == [4]
        assert ask(Story(driven=False).begin(), options=[]).fails(OPTIONS) == ["a permission request without options"]
        doubled = ask(Story(driven=False).begin(), options=[ALLOW, REJECT, ALLOW, ALLOW])
        assert doubled.fails(OPTIONS) == ['two options of a permission request have the id "yes"']

    def test_ids_that_are_none(self) -> None:
        assert len(ask(Story(driven=False).begin(), options=[{**ALLOW, "optionId": 5}] * 2).fails(OPTIONS)) == 1


class TestEnds:
    def begin(self) -> Story:
        return Story(driven=False).begin()

    def test_back_again(self) -> None:
        story = tool(tool(tool(self.begin(), "completed"), "failed"), "in_progress")
        assert story.proof(FINAL) == [4, 6]
        assert tool(tool(self.begin(), "cancelled"), "pending").proof(FINAL) == [4, 5]

    def test_taken_over(self) -> None:
        story = tool(tool(tool(self.begin(), "in_progress", title="Read"), "completed"), "pending", title="Run")
        assert story.proof(ONE_CALL) == [5, 6]
        story = tool(tool(tool(self.begin(), "completed", title="Read"), "failed"), "pending", title="Run")
        assert story.proof(ONE_CALL) == [4, 6]

    def test_taken_over_in_all_ways(self) -> None:
        story = tool(self.begin(), "completed", title="Read", kind="read", rawInput={"b": 1, "a": 2})
        tool(story, "pending", title="Run", kind="execute", rawInput={"a": 2, "b": 1})
        (said,) = story.fails(ONE_CALL)
        assert said.endswith("its title and kind changed")

    def test_another_input_at_once(self) -> None:
        story = tool(self.begin(), "completed", title="Read", rawInput={"a": 1})
        assert tool(story, "in_progress", title="Read", rawInput={"a": 2}).fails(ONE_CALL)

    def test_a_title_it_had_once(self) -> None:
        story = tool(tool(tool(self.begin(), "pending", title="Read"), title="Read a.txt"), "completed")
        assert tool(story, "pending", title="Read").fails(ONE_CALL) == []

    def test_nothing_was_said_of_it_before(self) -> None:
        assert tool(tool(self.begin(), "completed"), "pending", title="Run").fails(ONE_CALL) == []

    @pytest.mark.parametrize("status", ["paused", "completed", None])
    def test_another_status_takes_nothing_over(self, status: str | None) -> None:
        assert tool(tool(self.begin(), "completed", title="Read"), status, title="Run").fails(ONE_CALL) == []

    def test_titles(self) -> None:
        story = tool(tool(self.begin(), "pending"), "completed")
        assert story.proof(TITLED) == [4]
        story = self.begin().initialize(at="bob")
        story.reply(story.resume(at="bob"), at="bob")
        story.update("tool_call_update", at="bob", toolCallId="c1", title="Read", status="pending")
        assert tool(story, "completed").passes(TITLED)
        other = self.begin().initialize(at="bob")
        tool(other.reply(other.resume(at="bob"), at="bob"), "pending")
        other.update("tool_call_update", at="bob", toolCallId="c1", title="Read", status="completed")
        assert other.proof(TITLED) == [8]

    def test_a_chunk_is_no_first_update(self) -> None:
        content = {"type": "content", "content": {"type": "text", "text": "x"}}
        story = self.begin().update("tool_call_content_chunk", toolCallId="c1", content=content)
        assert story.silent(TITLED)


class TestTerminals:
    def test_the_proof(self) -> None:
        story = Story(driven=False).begin().update("terminal_update", terminalId="t", cwd="/w")
        story.update("terminal_update", terminalId="t", cwd="/w").update("terminal_update", terminalId="t", cwd="/x")
        assert story.fails(TERMINALS) == []
        assert story.proof(TERMINALS) == [5, 6]
        story = Story(driven=False).begin().update("terminal_update", terminalId="t", cwd="w")
        assert story.proof(TERMINALS) == [4]

    def test_what_is_not_base64(self) -> None:
        def output(**body: Any) -> Story:
            return Story(driven=False).begin().update("terminal_update", terminalId="t", **body)

        (said,) = output(output={"data": "x"}).fails(TERMINALS)
        assert said.startswith("an output snapshot")
        chunk = Story(driven=False).begin().update("terminal_output_chunk", terminalId="t", data="x", cwd="w")
        (said,) = chunk.fails(TERMINALS)
        assert said.startswith("an output chunk")
        assert output(data="x").passes(TERMINALS)

    def test_each_fault_of_a_terminal_is_told_once(self) -> None:
        story = Story().begin()
        for cwd in ("a", "b", "a"):
            story.update("terminal_update", terminalId="t", cwd=cwd, output={"data": "x"})
        assert (len(story.fails(TERMINALS)), len(story.warns(TERMINALS))) == (2, 1)

    def test_a_changed_cwd_is_told_once(self) -> None:
        story = Story().begin()
        for cwd in ("/a", "/b", "/c"):
            story.update("terminal_update", terminalId="t", cwd=cwd)
        assert len(story.warns(TERMINALS)) == 1


class TestDiffs:
    def test_which_change(self) -> None:
        changes = [MODIFY, {"operation": "move", "oldPath": "b", "path": "/w/c"}]
        story = tool(Story(driven=False).begin(), title="Edit", content=[{"type": "diff", "changes": changes}])
        (said,) = story.fails(DIFFS)
        assert '"b"' in said
        assert story.proof(DIFFS) == [4]

    def patched(self, patch: str, *changes: Any) -> Story:
        listed = list(changes) or [MODIFY]
        diff = {"type": "diff", "changes": listed, "patch": {"format": "git_patch", "text": patch}}
        return tool(Story(driven=False).begin(), title="Edit", content=[diff])

    @pytest.mark.parametrize("prefix", ["a/", "b/", "c/", "i/", "w/", "o/"])
    def test_the_prefixes_that_git_writes(self, prefix: str) -> None:
        (said,) = self.patched(f"diff --git {prefix}w/a {prefix}w/a\n").fails(DIFFS)
        assert said.endswith(f"has the prefix {prefix!r}")
        (said,) = self.patched("diff --git x/w/a x/w/a\n").fails(DIFFS)
        assert said.endswith("is not absolute")

    def test_what_the_changes_are_about(self) -> None:
        story = self.patched("diff --git /w/b /w/b\n", MODIFY, {"operation": "add", "path": "/w/n"})
        assert story.outcome(DIFFS).findings[0].because[0][1].endswith('"/w/a.txt", "/w/n"')
        story = self.patched("diff --git /w/b /w/b\n", 5)
        assert story.outcome(DIFFS).findings[0].because[0][1].endswith("no file")

    @pytest.mark.parametrize("operation", ["add", "delete", "modify", "move", "copy", "_own"])
    def test_an_operation_that_may_be_about_any_file(self, operation: str) -> None:
        change = {"operation": operation, "path": "/w/a", "oldPath": "/w/a"}
        assert bool(self.patched("diff --git /w/b /w/b\n", change).fails(DIFFS)) is (operation != "_own")

    def test_a_missing_side_and_then_another_file(self) -> None:
        patch = "diff --git /w/a.txt /w/a.txt\n--- /dev/null\nrename to /dev/null\n+++ /w/b\n"
        assert len(self.patched(patch).fails(DIFFS)) == 1

    @pytest.mark.parametrize(
        ("text", "warned"), [("", 0), (" \n", 0), ("words", 1), ("x\ndiff --git /w/a.txt /w/a.txt", 1)]
    )
    def test_a_text_that_is_no_patch(self, text: str, warned: int) -> None:
        assert len(self.patched(text).warns(DIFFS)) == warned

    def test_two_files(self) -> None:
        patch = "diff --git /w/a.txt /w/a.txt\n" * 2 + "--- /w/a.txt\n--- /w/c\n"
        assert self.patched(patch).proof(DIFFS) == [4]


class TestElicitation:
    def asked(self, mode: Any, client: Any) -> Story:
        story = Story(driven=False).begin(client=client)
        return story.asks("elicitation/create", {"sessionId": "s", "mode": mode, "message": "x"})

    @pytest.mark.parametrize("mode", ["form", "url"])
    @pytest.mark.parametrize("offer", [None, False])
    def test_not_offered(self, mode: str, offer: Any) -> None:
        other = "url" if mode == "form" else "form"
        story = self.asked(mode, {"elicitation": {mode: offer, other: {}}})
        assert story.proof(ELICITATION) == [0, 4]
        assert self.asked(other, {"elicitation": {mode: offer, other: {}}}).passes(ELICITATION)
        assert self.asked(mode, {"elicitation": {mode: True}}).passes(ELICITATION)

    @pytest.mark.parametrize("mode", ["form", "url"])
    def test_a_known_mode_is_not_excused_by_an_extension(self, mode: str) -> None:
        assert self.asked(mode, {"_meta": {"own": True}}).fails(ELICITATION)

    def test_by_the_latest_initialize_before_it(self) -> None:
        story = self.asked("form", {"elicitation": {"form": {}}}).initialize()
        assert story.passes(ELICITATION)
        assert story.asks("elicitation/create", {"mode": "form"}, id=901).proof(ELICITATION) == [5, 7]

    def test_every_request_is_looked_at(self) -> None:
        story = Story(driven=False).asks("elicitation/create", {"mode": "form"}, id=1)
        story.initialize(client={"elicitation": {"form": {}}}).asks("_ask", {}, id=2)
        story.asks("elicitation/create", {"mode": "_own"}, id=3).asks("elicitation/create", {"mode": "url"}, id=4)
        assert story.proof(ELICITATION) == [1, 5]

    def test_before_any_initialize(self) -> None:
        assert Story(driven=False).asks("elicitation/create", {"mode": "form"}).silent(ELICITATION)
