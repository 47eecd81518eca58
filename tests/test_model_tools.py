"""Calling an agent's tools: whichever runs a command is found, and called as its schema wants."""

from typing import Any

import pytest

from conformance.model.asked import Tool, read_chat, read_messages, read_responses
from conformance.model.replies import Reply, pieces
from conformance.model.tools import example, runner, tool_call

TEXT = {"type": "string"}


def tool(name: str, **properties: Any) -> Tool:
    return Tool(name, {"type": "object", "properties": properties, "required": list(properties)})


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["read_file", "Bash", "BashOutput", "KillShell"], "Bash"),
        (["write_stdin", "exec_command"], "exec_command"),
        (["run_command", "shell"], "shell"),
        (["list_commands", "run_terminal_cmd"], "run_terminal_cmd"),
        (["mcp__acp__Bash", "edit"], "mcp__acp__Bash"),
    ],
)
def test_the_tool_that_runs_a_command_is_found_by_its_name(names: list[str], chosen: str) -> None:
    found = runner([tool(name) for name in names])
    assert found is not None
    assert found.name == chosen


def test_a_tool_with_a_parameter_for_a_command_is_found_without() -> None:
    found = runner([tool("read", path=TEXT), tool("do_it", cmd=TEXT)])
    assert found is not None
    assert found.name == "do_it"
    assert runner([tool("read", path=TEXT)]) is None
    assert tool_call(Reply("call-tool"), []) is None


@pytest.mark.parametrize(
    ("declared", "arguments"),
    [
        (tool("Bash", command=TEXT, description=TEXT), {"command": "ls", "description": "Runs a command"}),
        (tool("shell", command={"type": "array", "items": TEXT}), {"command": ["/bin/sh", "-c", "ls"]}),
        (tool("exec_command", cmd=TEXT, yield_ms={"type": "integer"}), {"cmd": "ls", "yield_ms": 1}),
        (tool("terminal", command=TEXT, cwd=TEXT), {"command": "ls", "cwd": "."}),
        (Tool("shell"), {"command": "ls"}),
        (Tool("shell", form="custom"), "ls"),
        (Tool("local_shell", form="local_shell"), {"type": "exec", "command": ["/bin/sh", "-c", "ls"], "env": {}}),
    ],
)
def test_arguments_have_the_shape_of_the_schema(declared: Tool, arguments: Any) -> None:
    call = tool_call(Reply("call-tool", arguments={"command": "ls"}), [declared])
    assert call is not None
    assert call.arguments == arguments


def test_a_named_tool_is_called_with_the_arguments_as_they_are() -> None:
    call = tool_call(Reply("call-tool", tool="no_such", arguments={"x": None}), [tool("shell")])
    assert call is not None
    assert (call.tool.name, call.arguments) == ("no_such", {"x": None})


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "A conversation"),
        ({"anyOf": [{"type": "null"}, TEXT]}, None),
        ({"type": ["integer", "null"], "minimum": 4}, 4),
        ({"const": "x"}, "x"),
        ({"type": "array"}, []),
        ({"type": "object", "properties": {"a": TEXT}}, {"a": "A conversation"}),
        ("no schema", "A conversation"),
    ],
)
def test_an_example_follows_its_schema(schema: Any, value: Any) -> None:
    assert example(schema) == value


def test_an_endless_schema_ends() -> None:
    endless: dict[str, Any] = {"type": "object", "required": ["a"]}
    endless["properties"] = {"a": endless}
    assert example(endless)


@pytest.mark.parametrize("text", ["", "a", "ab", "abc", "One two three.", "x" * 1000])
def test_pieces_are_the_text(text: str) -> None:
    assert "".join(pieces(text)) == text
    assert 1 <= len(pieces(text)) <= 3


@pytest.mark.parametrize("read", [read_chat, read_responses, read_messages])
@pytest.mark.parametrize(
    "body",
    [
        {"messages": [1, None, {"role": "user", "content": [1, {"text": 3}]}], "input": [[], {"role": 4}]},
        {"messages": [], "input": [], "tools": "x", "text": 1, "response_format": [], "output_format": "x", "model": 3},
        {"messages": [{}], "input": "x", "tools": [{"function": 1}, {"name": 1}, {"type": "custom"}], "stream": "yes"},
    ],
)
def test_odd_requests_are_read_as_far_as_they_go(read: Any, body: Any) -> None:
    assert read(body).stream is False


@pytest.mark.parametrize("read", [read_chat, read_responses, read_messages])
@pytest.mark.parametrize("body", [None, [], {}, {"messages": "x", "input": 7}])
def test_what_is_no_request_is_refused(read: Any, body: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        read(body)
