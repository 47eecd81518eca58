"""Tool calls: permissions, ids, ends, diffs, terminals, elicitations; and the reader of Git patches."""

from typing import Any

import pytest

from conformance.rules.git_patch import header_paths, read_patch, unquote
from tests.story import Story

ALLOW = {"optionId": "yes", "name": "Run it", "kind": "allow_once"}
REJECT = {"optionId": "no", "name": "Do not", "kind": "reject_once"}
SELECTED = "selected"


def tool(story: Story, status: str | None = None, *, id: str = "c1", **body: Any) -> Story:
    return story.update("tool_call_update", toolCallId=id, **({"status": status} if status is not None else {}), **body)


def ask(
    story: Story, *, id: Any = 900, call: str = "c1", options: Any = (ALLOW, REJECT), at: str = "ada", **more: Any
) -> Story:
    subject = {"type": "tool_call", "toolCall": {"toolCallId": call, **more}}
    params = {"sessionId": "s", "title": "Run it?", "subject": subject, "options": list(options)}
    return story.asks("session/request_permission", params, id=id, at=at)


def select(story: Story, option: str, *, id: Any = 900, at: str = "ada") -> Story:
    return story.answer(id, at=at, outcome={"outcome": SELECTED, "optionId": option})


class TestDenied:
    rule = "tool.denied-is-not-run"

    def asked(self, *, driven: bool = False, status: str = "pending") -> Story:
        story = Story(driven=driven).begin()
        story.reply(story.prompt("Tidy up"), messageId="u1").running()
        return ask(story, title="delete logs", status=status)

    @pytest.mark.parametrize(
        "outcome",
        [
            {"outcome": "selected", "optionId": "no"},
            {"outcome": "selected", "optionId": "never offered"},
            {"outcome": "cancelled"},
            {"outcome": "maybe"},
            {},
        ],
    )
    def test_run_after_a_denial(self, outcome: Any) -> None:
        story = tool(self.asked().answer(900, outcome=outcome), "in_progress")
        assert story.fails(self.rule) == ["a tool call was run although the permission for it was denied"]
        assert [event.dir for event, _ in story.outcome(self.rule).findings[0].because] == ["agent", "client", "agent"]

    @pytest.mark.parametrize(("pause", "end"), [(0.0, "failed"), (0.0, "completed"), (1.0, "failed")])
    def test_reported_as_running_with_the_request(self, pause: float, end: str) -> None:
        """The line was on its way when the answer came."""
        story = tool(select(self.asked().after(pause), "no"), "in_progress")
        story.update("state_update", state="requires_action").after(0.5).running()
        tool(story, end).idle("end_turn")
        is_unsure = not pause and end == "failed"
        assert (len(story.fails(self.rule)), len(story.warns(self.rule))) == ((0, 1) if is_unsure else (1, 0))

    @pytest.mark.parametrize("status", ["failed", "cancelled"])
    def test_refused(self, status: str) -> None:
        assert tool(select(self.asked(), "no"), status).passes(self.rule)

    def test_completed_without_running_is_suspicious(self) -> None:
        story = tool(select(self.asked(), "no"), "completed")
        assert (len(story.fails(self.rule)), len(story.warns(self.rule))) == (0, 1)

    def test_a_replay_tells_how_it_ran_before(self) -> None:
        story = select(self.asked(status="in_progress"), "no").idle("cancelled")
        resumed = story.resume(replay=True)
        assert tool(story, "in_progress").idle().reply(resumed).passes(self.rule)

    def test_approved(self) -> None:
        assert tool(select(self.asked(), "yes"), "in_progress").silent(self.rule)

    def test_asked_again_and_approved(self) -> None:
        story = select(ask(select(self.asked(), "no"), id=901), "yes", id=901)
        assert tool(story, "in_progress").silent(self.rule)

    def test_approved_and_ended_before_it_was_asked_again(self) -> None:
        story = tool(tool(select(self.asked(), "yes"), "in_progress"), "completed").idle("end_turn")
        story.reply(story.prompt("Again"), messageId="u2").running()
        story = tool(select(ask(tool(story, "pending"), id=901), "no", id=901), "in_progress")
        assert story.fails(self.rule) == ["a tool call was run although the permission for it was denied"]

    @pytest.mark.parametrize("status", ["in_progress", "paused"])
    def test_a_call_that_was_running_before(self, status: str) -> None:
        story = tool(select(self.asked(status=status), "no"), "in_progress")
        assert (len(story.fails(self.rule)), len(story.warns(self.rule))) == (0, 1)

    def test_taken_back_by_the_agent_itself(self) -> None:
        story = self.asked().agent({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 900}})
        assert tool(story.answer(900, outcome={"outcome": "cancelled"}), "in_progress").silent(self.rule)

    def test_taken_back_because_the_session_was_cancelled(self) -> None:
        story = (
            self.asked().cancel().agent({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 900}})
        )
        assert len(tool(story.answer(900, outcome={"outcome": "cancelled"}), "in_progress").fails(self.rule)) == 1

    def test_approved_by_another_client(self) -> None:
        story = self.asked()
        story.reply(story.resume(at="bob"), at="bob")
        story = select(select(ask(story, at="bob"), "yes", at="bob"), "no")
        assert tool(story, "in_progress").silent(self.rule)

    @pytest.mark.parametrize("driven", [True, False])
    def test_a_custom_outcome_may_be_agreed_on(self, driven: bool) -> None:
        story = tool(self.asked(driven=driven).answer(900, outcome={"outcome": "_edited"}), "in_progress")
        assert len(story.fails(self.rule)) == (1 if driven else 0)

    def test_an_error_is_no_outcome(self) -> None:
        story = self.asked().client({"jsonrpc": "2.0", "id": 900, "error": {"code": -32601, "message": "no"}})
        tool(story, "in_progress")
        assert (len(story.fails(self.rule)), len(story.warns(self.rule))) == (0, 1)

    def test_options_of_one_id_prove_nothing(self) -> None:
        story = ask(Story().begin(), options=[{**REJECT, "optionId": "x"}, {**ALLOW, "optionId": "x"}])
        assert tool(select(story, "x"), "in_progress").silent(self.rule)

    def test_another_call_under_the_same_id_is_another_rules(self) -> None:
        story = tool(select(self.asked(), "no"), "failed")
        assert tool(story, "in_progress", title="Another").passes(self.rule)

    def test_its_effect(self) -> None:
        story = select(self.asked(driven=True), "no").control("tool-effect", nonce=None, detail="the file is there")
        assert story.fails(self.rule) == ["the effect of a denied operation was seen"]

    def test_the_effect_of_something_else(self) -> None:
        story = select(self.asked(driven=True), "no").control("tool-effect", nonce="acp-other")
        assert story.passes(self.rule)
        approved = select(ask(select(self.asked(driven=True), "no"), id=901, call="c2"), "yes", id=901)
        assert approved.control("tool-effect", nonce=None).passes(self.rule)


class TestPermissionOptions:
    rule = "tool.permission-options"

    def test_right(self) -> None:
        assert ask(Story().begin()).passes(self.rule)
        assert Story().begin().silent(self.rule)

    @pytest.mark.parametrize(
        "options", [[], [ALLOW, ALLOW], [ALLOW, {**REJECT, "optionId": "yes"}], [{"optionId": "a"}], [5]]
    )
    def test_wrong(self, options: Any) -> None:
        assert len(ask(Story().begin(), options=options).fails(self.rule)) == 1


class TestFinal:
    rule = "tool.final-is-final"

    @pytest.mark.parametrize("status", ["pending", "in_progress", "paused"])
    def test_back_again(self, status: str) -> None:
        story = tool(tool(Story().begin(), "completed", title="Read"), title="Read", id="c1", status_=None)
        story.update("tool_call_update", toolCallId="c1", status=status)
        assert len(story.fails(self.rule)) == 1

    def test_taken_back(self) -> None:
        story = tool(Story().begin(), "completed", title="Read").update(
            "tool_call_update", toolCallId="c1", status=None
        )
        assert (story.fails(self.rule), len(story.warns(self.rule))) == ([], 1)

    def test_what_may_follow(self) -> None:
        story = tool(tool(Story().begin(), "completed", title="Read"), title="Read a.txt")
        assert tool(story, "failed").passes(self.rule)

    def test_paused_is_not_final(self) -> None:
        story = tool(tool(tool(Story().begin(), "in_progress"), "paused"), "in_progress")
        assert tool(tool(story, "paused"), "completed").silent(self.rule)

    def test_a_custom_status_is_suspicious(self) -> None:
        story = tool(tool(Story().begin(), "completed"), "_archiving")
        assert (len(story.fails(self.rule)), len(story.warns(self.rule))) == (0, 1)

    def test_a_replay_tells_it_from_the_beginning(self) -> None:
        story = tool(tool(Story().begin(), "pending", title="Read"), "completed")
        again = story.resume(replay=True)
        tool(tool(story, "pending", title="Read"), "completed").idle().reply(again)
        assert story.fails(self.rule) == []

    def test_another_call_under_the_same_id_is_another_rules(self) -> None:
        story = tool(
            tool(Story().begin(), "completed", title="Read", kind="read"), "pending", title="Run", kind="execute"
        )
        assert story.fails(self.rule) == []


class TestOneIdOneCall:
    rule = "tool.one-id-one-call"

    def finished(self) -> Story:
        return tool(tool(Story().begin(), "in_progress", title="Read", kind="read", rawInput={"a": 1}), "completed")

    @pytest.mark.parametrize(
        ("body", "differs"),
        [({"title": "Run"}, "title"), ({"kind": "execute"}, "kind"), ({"rawInput": {"a": 2}}, "rawInput")],
    )
    def test_taken_over(self, body: Any, differs: str) -> None:
        story = tool(self.finished(), "pending", **body)
        assert story.fails(self.rule) == [f'the tool call id "c1" is taken over by another call: its {differs} changed']

    def test_running_at_once(self) -> None:
        assert len(tool(self.finished(), "in_progress", title="Run", kind="execute").fails(self.rule)) == 1
        assert tool(self.finished(), "in_progress", title="Read (again)").fails(self.rule) == []

    @pytest.mark.parametrize("later", [False, True])
    def test_taken_over_with_its_status_left_out_at_first(self, later: bool) -> None:
        story = self.finished()
        if later:
            story.running()
        tool(story, title="Run", kind="execute", rawInput={"c": "ls"})
        assert story.fails(self.rule) == []
        assert len(tool(story, "in_progress").fails(self.rule)) == 1

    def test_refined_before_the_next_turn(self) -> None:
        story = tool(self.finished().running(), title="Run", kind="execute").idle("end_turn").running()
        assert tool(story, "completed").fails(self.rule) == []

    def in_the_next_turn(self, **body: Any) -> Story:
        """A call that ends in one turn, and an update under its id in the next one."""
        story = Story(driven=False).begin().running()
        tool(story, "completed", title="Read a", kind="read", rawInput={"p": "a"}).idle("end_turn").running()
        return tool(story, **body).idle("end_turn")

    @pytest.mark.parametrize(
        "body",
        [
            {"status": "completed", "rawInput": {"p": "b"}},
            {"status": "completed", "title": "Run b", "kind": "execute"},
            {"status": "failed", "title": "Run b", "kind": "execute", "rawInput": {"p": "b"}},
        ],
    )
    def test_counted_anew_in_each_turn(self, body: dict[str, Any]) -> None:
        assert len(self.in_the_next_turn(**body).fails(self.rule)) == 1

    @pytest.mark.parametrize(
        "body",
        [
            {"status": "completed", "rawInput": {"p": "a"}},
            {"status": "completed", "title": "Read a (cached)"},
            {"title": "Read a (cached)", "kind": "other"},
        ],
    )
    def test_told_again_in_the_next_turn(self, body: dict[str, Any]) -> None:
        assert self.in_the_next_turn(**body).fails(self.rule) == []

    def test_a_failed_call_that_is_tried_again(self) -> None:
        story = tool(Story().begin(), "in_progress", title="Run", kind="execute", rawInput={"timeout": 5})
        tool(story, "failed")
        assert tool(story, "in_progress", rawInput={"timeout": 50}).fails(self.rule) == []
        assert tool(story, "in_progress", kind="read", rawInput={"path": "a"}).fails(self.rule)

    def test_two_calls(self) -> None:
        assert tool(self.finished(), "pending", id="c2", title="Run").passes(self.rule)
        assert self.finished().silent(self.rule)

    def test_refined_after_its_end(self) -> None:
        assert tool(self.finished(), title="Read 3 lines", kind="other").fails(self.rule) == []

    def test_the_same_call_again(self) -> None:
        assert tool(self.finished(), "pending", title="Read", kind="read", rawInput={"a": 1}).fails(self.rule) == []

    def test_taken_over_after_a_restart(self) -> None:
        story = self.finished().control("exited").initialize(at="ada#2")
        story.reply(story.resume(at="ada#2"), at="ada#2")
        story.update("tool_call_update", at="ada#2", toolCallId="c1", status="pending", title="Run")
        assert len(story.fails(self.rule)) == 1

    def test_two_lives_that_count_by_themselves(self) -> None:
        story = self.finished().control("exited").begin(at="bob")
        story.update("tool_call_update", at="bob", toolCallId="c1", status="pending", title="Run")
        assert story.fails(self.rule) == []

    def test_a_client_that_lags_behind(self) -> None:
        story = Story().begin()
        story.reply(story.resume(at="bob"), at="bob")
        tool(tool(tool(story, "pending", title="Read"), title="Read a.txt"), "completed")
        for body in ({"status": "pending", "title": "Read"}, {"title": "Read a.txt"}, {"status": "completed"}):
            story.update("tool_call_update", at="bob", toolCallId="c1", **body)
        assert story.fails(self.rule) == []

    def test_a_replay_after_a_changed_title(self) -> None:
        story = tool(self.finished(), title="Read a.txt")
        again = story.resume(replay=True)
        tool(tool(story, "pending", title="Reading"), "completed").idle().reply(again)
        assert story.fails(self.rule) == []


class TestTitled:
    rule = "tool.titled"

    def test_titled(self) -> None:
        assert tool(tool(Story().begin(), "pending", title="Read"), "completed").passes(self.rule)

    @pytest.mark.parametrize("body", [{}, {"title": None}])
    def test_untitled(self, body: Any) -> None:
        story = tool(tool(Story().begin(), "pending", **body), title="Read")
        assert story.fails(self.rule) == ['the tool call "c1" is reported without a title']

    @pytest.mark.parametrize("was_there", [True, False])
    def test_one_of_work_that_a_client_comes_to(self, was_there: bool) -> None:
        story = Story().begin().control("cut").initialize(at="bob")
        if was_there:
            story.reply(story.resume(at="bob"), at="bob").running(at="bob")
        else:
            resumed = story.resume(at="bob")
            story.running(at="bob").reply(resumed, at="bob")
        story.update("tool_call_update", at="bob", toolCallId="c", status="failed")
        assert bool(story.fails(self.rule)) == was_there

    def test_a_permission_request_tells_it_first(self) -> None:
        assert tool(ask(Story().begin(), title="Read"), "in_progress").passes(self.rule)
        assert tool(ask(Story().begin()), title="Read").passes(self.rule)
        assert len(tool(ask(Story().begin()), "in_progress").fails(self.rule)) == 1

    def test_a_call_from_before(self) -> None:
        story = Story().initialize()
        story.reply(story.resume())
        assert tool(story, "completed").silent(self.rule)


PATCH = "diff --git /w/a.txt /w/a.txt\n--- /w/a.txt\n+++ /w/a.txt\n@@ -1 +1 @@\n---- x\n+++ y\n"
QUOTED = '"/w/\\303\\244\\t.txt"'
UMLAUT = f"diff --git {QUOTED} {QUOTED}\n--- {QUOTED}\n+++ {QUOTED}\n@@ -1 +1 @@\n"
MODIFY = {"operation": "modify", "path": "/w/a.txt"}


class TestDiffs:
    rule = "tool.diffs"

    def showing(self, changes: Any, patch: str | None = None, *, format: str = "git_patch") -> Story:
        diff = {"type": "diff", "changes": changes}
        if patch is not None:
            diff["patch"] = {"format": format, "text": patch}
        return tool(Story().begin(), "completed", title="Edit", content=[diff])

    @pytest.mark.parametrize(
        ("changes", "patch"),
        [
            ([MODIFY], None),
            ([MODIFY], PATCH),
            ([MODIFY], PATCH.replace("\n", "\r\n")),
            ([MODIFY, {"operation": "delete", "path": "/w/b"}], PATCH),
            (
                [{"operation": "add", "path": "/w/n"}],
                "diff --git /w/n /w/n\nnew file mode 100644\n--- /dev/null\n+++ /w/n\n@@ -0,0 +1 @@\n+x\n",
            ),
            (
                [{"operation": "move", "oldPath": "/w/a b", "path": "/w/c d"}],
                "diff --git /w/a b /w/c d\nsimilarity index 100%\nrename from /w/a b\nrename to /w/c d\n",
            ),
            (
                [{"operation": "modify", "path": "/w/ä\t.txt"}],
                UMLAUT,
            ),
            ([{"operation": "modify", "path": "C:\\w\\a"}], 'diff --git "C:\\\\w\\\\a" "C:\\\\w\\\\a"\n'),
            ([{"operation": "modify", "path": "/w/a b"}], "diff --git /w/a b /w/a b\n--- /w/a b\t\n+++ /w/a b\t\n"),
            ([{"operation": "_chmod"}], PATCH),
            ([{"operation": "_rename_symbol", "path": "foo::bar"}], None),
        ],
    )
    def test_right(self, changes: Any, patch: str | None) -> None:
        assert self.showing(changes, patch).passes(self.rule)

    @pytest.mark.parametrize(
        ("changes", "patch"),
        [
            ([{"operation": "modify", "path": "a.txt"}], None),
            ([{"operation": "move", "oldPath": "a", "path": "/w/b"}], None),
            ([MODIFY], PATCH.replace("/w/a.txt", "a.txt")),
            ([MODIFY], PATCH.replace("--- /w", "--- a/w").replace("+++ /w", "+++ b/w")),
            ([MODIFY], "diff --git a/w/a.txt b/w/a.txt\nold mode 100644\nnew mode 100755\n"),
            ([MODIFY], PATCH.replace("/w/a.txt", "/w/b.txt")),
            ([MODIFY], PATCH + PATCH.replace("/w/a.txt", "/w/b.txt")),
            ([MODIFY], "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-x\n+y\n"),
            (
                [{"operation": "move", "oldPath": "/w/a", "path": "/w/b"}],
                "diff --git /w/a /w/b\nrename from w/a\nrename to w/b\n",
            ),
            (
                [{"operation": "copy", "oldPath": "/w/a", "path": "/w/b"}],
                "diff --git /w/a /w/b\ncopy from /w/x\ncopy to /w/b\n",
            ),
        ],
    )
    def test_wrong(self, changes: Any, patch: str | None) -> None:
        story = self.showing(changes, patch)
        assert len(story.fails(self.rule)) == 1
        assert story.outcome(self.rule).findings[0].because[0][0] is story.last

    def test_repeated_content_is_told_once(self) -> None:
        story = self.showing([{"operation": "modify", "path": "a.txt"}])
        tool(story, content=[{"type": "diff", "changes": [{"operation": "modify", "path": "a.txt"}]}])
        assert len(story.fails(self.rule)) == 1

    def test_in_a_chunk_and_in_a_permission(self) -> None:
        diff = {"type": "diff", "changes": [{"operation": "modify", "path": "a.txt"}]}
        chunked = tool(Story().begin(), title="Edit").update("tool_call_content_chunk", toolCallId="c1", content=diff)
        assert len(chunked.fails(self.rule)) == 1
        assert len(ask(Story().begin(), content=[diff]).fails(self.rule)) == 1

    def test_lines_of_hunks_are_no_headers(self) -> None:
        hunk = "@@ -1,2 +1,2 @@\n--- old/path\n+++ new/path\n rename from x\n+diff --git a/x b/x\n"
        assert self.showing([MODIFY], "diff --git /w/a.txt /w/a.txt\n--- /w/a.txt\n+++ /w/a.txt\n" + hunk).passes(
            self.rule
        )

    @pytest.mark.parametrize("patch", ["From 1234 Mon Sep 17\n\n" + PATCH, PATCH.partition("\n")[2], "just words"])
    def test_what_is_not_sections_alone_is_suspicious(self, patch: str) -> None:
        story = self.showing([MODIFY], patch)
        assert (len(story.fails(self.rule)), len(story.warns(self.rule))) == (0, 1)

    def test_formats_of_others(self) -> None:
        assert self.showing([MODIFY], "a.txt", format="_ed").passes(self.rule)
        assert tool(Story().begin(), content=[{"type": "diff", "path": "a.txt"}]).silent(self.rule)


@pytest.mark.parametrize(
    ("header", "paths"),
    [
        ("/w/a /w/a", ("/w/a", "/w/a")),
        ("a/x b/x", ("a/x", "b/x")),
        ("/w/a b /w/a b", ("/w/a b", "/w/a b")),
        ("a/w/a b b/w/a b", ("a/w/a b", "b/w/a b")),
        ("i/a b w/a b", ("i/a b", "w/a b")),
        ("o/a b w/a b", ("o/a b", "w/a b")),
        ("/w/a b /w/c d", None),
        ('"/w/\\"q\\"" /w/b', ('/w/"q"', "/w/b")),
        ('/w/b "/w/\\\\"', ("/w/b", "/w/\\")),
        ('"/w/a', None),
        ("", None),
    ],
)
def test_header_paths(header: str, paths: Any) -> None:
    assert header_paths(header) == paths


@pytest.mark.parametrize(
    ("quoted", "read"),
    [
        ('"a\\tb"c', ("a\tb", "c")),
        ('"\\360\\237"', ("�", "")),
        ('"a\ud800"', ("a?", "")),
        ('"\\x"', None),
        ('"\\9"', None),
        ('"\\400"', None),
        ('"', None),
    ],
)
def test_unquote(quoted: str, read: Any) -> None:
    assert unquote(quoted) == read


def test_the_missing_side_of_a_file() -> None:
    text = "diff --git /a /a\n--- /dev/null\n+++ /dev/null\nrename to /dev/null\n@@ \n--- /b\ndiff --git /c /c\n"
    assert [list(section.named()) for section in read_patch(text).sections] == [
        [("diff --git", "/a"), ("diff --git", "/a"), ("rename to", "/dev/null")],
        [("diff --git", "/c"), ("diff --git", "/c")],
    ]


@pytest.mark.parametrize("letter", "abtnvfr")
def test_escapes_of_git(letter: str) -> None:
    assert unquote(f'"{chr(92)}{letter}"') == (("\a\b\t\n\v\f\r"["abtnvfr".index(letter)]), "")


def test_read_patch_of_no_patch() -> None:
    assert read_patch("").sections == []
    assert read_patch("\n\n").preamble is False
    assert [list(section.named()) for section in read_patch("diff --git \n--- \n").sections] == [[("---", "")]]


class TestTerminals:
    rule = "tool.terminals"

    def terminal(self, **body: Any) -> Story:
        return Story().begin().update("terminal_update", terminalId="t", **body)

    @pytest.mark.parametrize(
        "body", [{}, {"cwd": "/w", "output": {"data": "b2s="}}, {"cwd": None, "output": None}, {"output": {"data": ""}}]
    )
    def test_right(self, body: Any) -> None:
        assert self.terminal(**body).passes(self.rule)

    def test_a_relative_cwd(self) -> None:
        assert self.terminal(cwd="src").fails(self.rule) == ['a terminal\'s cwd is "src", which is not absolute']

    @pytest.mark.parametrize("data", ["plain text", "b2s", "b2s=b2s=", "b2\ns=", "b-_=", "ä"])
    def test_what_is_not_base64(self, data: str) -> None:
        assert len(self.terminal(output={"data": data}).fails(self.rule)) == 1
        chunk = Story().begin().update("terminal_output_chunk", terminalId="t", data=data)
        assert len(chunk.fails(self.rule)) == 1

    def test_each_by_itself(self) -> None:
        story = self.terminal().update("terminal_output_chunk", terminalId="t", data="aGVs")
        story.update("terminal_output_chunk", terminalId="t", data="bG8=")
        assert story.passes(self.rule)
        assert len(story.update("terminal_output_chunk", terminalId="t", data="bG8").fails(self.rule)) == 1

    def test_a_changed_cwd_is_suspicious(self) -> None:
        story = self.terminal(cwd="/w").update("terminal_update", terminalId="t", cwd="/x")
        assert (len(story.fails(self.rule)), len(story.warns(self.rule))) == (0, 1)

    def test_no_terminal(self) -> None:
        assert Story().begin().silent(self.rule)


class TestElicitation:
    rule = "tool.elicitation-only-when-enabled"

    def asked(self, mode: Any, client: Any) -> Story:
        return Story().begin(client=client).asks("elicitation/create", {"sessionId": "s", "mode": mode, "message": "x"})

    @pytest.mark.parametrize(
        ("mode", "client"),
        [
            ("form", {}),
            ("form", {"elicitation": None}),
            ("form", {"elicitation": {}}),
            ("url", {"elicitation": {"form": {}, "url": None}}),
            ("_own", {}),
            (None, {}),
        ],
    )
    def test_not_advertised(self, mode: Any, client: Any) -> None:
        story = self.asked(mode, client)
        assert len(story.fails(self.rule)) == 1
        assert [event.dir for event, _ in story.outcome(self.rule).findings[0].because] == ["client", "agent"]

    @pytest.mark.parametrize(
        ("mode", "client"),
        [
            ("form", {"elicitation": {"form": {}}}),
            ("_own", {"elicitation": {"form": {}}}),
            ("_own", {"_meta": {"own": True}}),
        ],
    )
    def test_advertised_or_not_to_be_told(self, mode: str, client: Any) -> None:
        assert self.asked(mode, client).passes(self.rule)

    def test_never_asked(self) -> None:
        assert Story().begin().running().idle("end_turn").passes(self.rule)
        assert Story().begin().silent(self.rule)
        both = {"elicitation": {"form": {}, "url": {}}}
        assert Story().begin(client=both).running().silent(self.rule)


def test_a_denied_call_that_is_told_as_pending_once_more_and_then_runs() -> None:
    story = Story(driven=False).begin()
    story.reply(story.prompt("Tidy up"), messageId="u1").running()
    select(ask(story, title="delete logs", status="pending"), "no")
    tool(tool(story, "pending", title="delete all logs"), "in_progress")
    assert story.fails("tool.denied-is-not-run") == ["a tool call was run although the permission for it was denied"]
