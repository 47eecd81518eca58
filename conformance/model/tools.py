"""Calling an agent's tools without knowing the agent: which of them runs a command, and how its schema wants it."""

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from conformance.model.asked import Tool
from conformance.model.replies import AUTO, Reply

_RUNNERS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"bash|shell|local_shell|exec_command|shell_command",
        r"(run|execute|exec)_?(shell|terminal|bash)?_?(command|cmd)|terminal|execute|exec",
        r"(?!.*(output|kill|stdin|read|list|stop|status)).*(shell|bash|command|terminal|exec).*",
    )
)
"""Names of tools that run a command, the surest first."""

_COMMAND_NAMES: Final = ("command", "cmd", "script", "commandLine", "command_line", "code", "input")
_DEFAULT_COMMAND: Final = "echo acp-conformance"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a reply makes; `arguments` are an object, or the text of a tool that takes free text."""

    tool: Tool
    arguments: Mapping[str, Any] | str


def tool_call(reply: Reply, tools: Sequence[Tool], more: Mapping[str, Any] | None = None) -> ToolCall | None:
    """The call that `reply` means among the declared `tools`; None where there is none to call.

    A tool that is named is called with the arguments as they are, whether it is declared or not. Of `more` arguments,
    which this agent wants with a command, those that the tool has are added.
    """
    if reply.tool != AUTO:
        declared = next((tool for tool in tools if tool.name == reply.tool), Tool(reply.tool))
        return ToolCall(declared, dict(reply.arguments))
    tool = runner(tools)
    if tool is None:
        return None
    command = reply.arguments.get("command")
    if not isinstance(command, str):
        command = creating(reply.effect) if reply.effect is not None else _DEFAULT_COMMAND
    if tool.form == "custom":
        return ToolCall(tool, command)
    if tool.form == "local_shell":
        return ToolCall(tool, {"type": "exec", "command": _words(command), "env": {}})
    others = {name: value for name, value in (more or {}).items() if name in _properties(tool.schema)}
    others |= {name: value for name, value in reply.arguments.items() if name != "command"}
    return ToolCall(tool, {**_arguments(tool.schema, command), **others})


def runner(tools: Sequence[Tool]) -> Tool | None:
    """The declared tool that most surely runs a command; failing that the first with a parameter for one."""
    for pattern in _RUNNERS:
        for tool in tools:
            if pattern.fullmatch(tool.name):
                return tool
    return next((tool for tool in tools if _command_name(_properties(tool.schema))), None)


def creating(path: str) -> str:
    """The command that creates an empty file."""
    return f'type nul > "{path}"' if sys.platform == "win32" else f"touch {shlex.quote(path)}"


def example(schema: Any, depth: int = 0) -> Any:
    """A plausible value for a JSON Schema, required properties only: what a structured side request gets."""
    if not isinstance(schema, Mapping) or depth > 20:
        return "A conversation"
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][0]
    if "const" in schema:
        return schema["const"]
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(key), list) and schema[key]:
            return example(schema[key][0], depth + 1)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    match kind:
        case "boolean":
            return False
        case "integer" | "number":
            low = schema.get("minimum")
            return low if isinstance(low, int | float) else 1
        case "array":
            return []
        case "null":
            return None
    properties = _properties(schema)
    if kind == "object" or properties:
        required = schema.get("required")
        names = required if isinstance(required, list) else list(properties)
        return {name: example(properties.get(name), depth + 1) for name in names if isinstance(name, str)}
    return "A conversation"


def _arguments(schema: Mapping[str, Any], command: str) -> dict[str, Any]:
    """Arguments in the shape of the tool's schema: the command in its place, examples where more is required."""
    properties = _properties(schema)
    name = _command_name(properties) or "command"
    required = schema.get("required")
    wanted = [other for other in required if isinstance(other, str)] if isinstance(required, list) else []
    arguments = {other: _example_argument(other, properties.get(other)) for other in wanted if other != name}
    field = properties.get(name)
    is_list = isinstance(field, Mapping) and field.get("type") == "array"
    return {name: _words(command) if is_list else command, **arguments}


def _example_argument(name: str, schema: Any) -> Any:
    value = example(schema)
    if not isinstance(value, str) or not isinstance(schema, Mapping) or "enum" in schema or "const" in schema:
        return value
    return "." if re.search(r"cwd|dir|folder|path", name, re.IGNORECASE) else "Runs a command"


def _words(command: str) -> list[str]:
    return ["cmd", "/c", command] if sys.platform == "win32" else ["/bin/sh", "-c", command]


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _command_name(properties: Mapping[str, Any]) -> str | None:
    return next((name for name in _COMMAND_NAMES if name in properties), None)
