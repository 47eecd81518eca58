"""A request to a model, in words that all providers' APIs share.

The bodies come from an agent: nothing in them is taken for granted.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from conformance.profile import Api

USER: Final = "user"
SYSTEM: Final = ("system", "developer")
_TITLES: Final = re.compile(
    r"(?is)\b(generat|creat|writ|giv|come up with|produc|suggest|provid|return|output)\w*\b[^.\n]{0,60}?"
    r"\b(title|session name|topic|headline|label|summary)\b"
    r"|\bsummari[sz]e (this|the|our) (coding |chat )?(conversation|session|chat)"
    r"|\btitle generator\b|\b(classif|rout)\w+ (this|the) (message|request|prompt|query|task)"
)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the agent declares. `form` is how the provider's API calls it."""

    name: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    form: Literal["function", "custom", "local_shell"] = "function"


@dataclass(frozen=True, slots=True)
class Asked:
    """`spoken` is the conversation in order, each message or item with its role or kind and its text; `user_texts` are
    the texts of the user's in it (results of tools are none), `instructions` the system's.

    `schema` is the JSON Schema that the answer has to follow, None where it is free.
    """

    api: Api
    model: str = "scripted"
    stream: bool = False
    instructions: str = ""
    spoken: tuple[tuple[str, str], ...] = ()
    tools: tuple[Tool, ...] = ()
    schema: Mapping[str, Any] | None = None
    max_tokens: int | None = None
    wants_usage: bool = False

    @property
    def user_texts(self) -> tuple[str, ...]:
        return tuple(text for role, text in self.spoken if role == USER)

    @property
    def is_structured(self) -> bool:
        return self.schema is not None

    @property
    def is_about_titles(self) -> bool:
        """Whether it asks for a title, a summary or a class of something, not for work."""
        last = self.user_texts[-1] if self.user_texts else ""
        is_probe = self.max_tokens is not None and self.max_tokens <= 16
        return is_probe or any(_TITLES.search(text[:20_000]) for text in (self.instructions, last))

    @property
    def input_tokens(self) -> int:
        """A plausible count."""
        return 1 + (len(self.instructions) + sum(map(len, self.user_texts))) // 4


def read_chat(body: Any) -> Asked:
    """An OpenAI Chat request. Raises ValueError, in words for the agent, where it is none."""
    request = _object(body)
    messages = _objects(_list(request, "messages"))
    spoken = [(_role(message), _text(message.get("content"))) for message in messages]
    instructions = [text for role, text in spoken if role in SYSTEM]
    functions = [_mapping(tool.get("function")) for tool in _objects(request.get("tools"))]
    tools = [Tool(f["name"], _mapping(f.get("parameters"))) for f in functions if isinstance(f.get("name"), str)]
    form = _mapping(request.get("response_format"))
    schema = _mapping(_mapping(form.get("json_schema")).get("schema")) if form.get("type") == "json_schema" else None
    return Asked(
        "openai-chat",
        _name(request),
        request.get("stream") is True,
        "\n".join(instructions),
        tuple(spoken),
        tuple(tools),
        {} if form.get("type") == "json_object" else schema,
        _count(request.get("max_completion_tokens", request.get("max_tokens"))),
        _mapping(request.get("stream_options")).get("include_usage") is True,
    )


def read_responses(body: Any) -> Asked:
    """An OpenAI Responses request. Raises ValueError where it is none."""
    request = _object(body)
    given = request.get("input")
    items = [{"role": USER, "content": given}] if isinstance(given, str) else _objects(_list(request, "input"))
    spoken = [(_role(item), _text(item.get("content", item.get("output")))) for item in items]
    instructions = [_text(request.get("instructions")), *(text for role, text in spoken if role in SYSTEM)]
    form = _mapping(_mapping(request.get("text")).get("format"))
    return Asked(
        "openai-responses",
        _name(request),
        request.get("stream") is True,
        "\n".join(instructions),
        tuple(spoken),
        tuple(_responses_tools(request.get("tools"))),
        _mapping(form.get("schema")) if form.get("type") in ("json_schema", "json_object") else None,
        _count(request.get("max_output_tokens")),
    )


def read_messages(body: Any) -> Asked:
    """An Anthropic Messages request. Raises ValueError where it is none."""
    request = _object(body)
    messages = [(_role(message), message.get("content")) for message in _objects(_list(request, "messages"))]
    spoken = [("tool" if role == USER and not _text(content) else role, _text(content)) for role, content in messages]
    declared = [tool for tool in _objects(request.get("tools")) if isinstance(tool.get("name"), str)]
    tools = [Tool(tool["name"], _mapping(tool.get("input_schema"))) for tool in declared]
    form = _mapping(request.get("output_format") or _mapping(request.get("output_config")).get("format"))
    return Asked(
        "anthropic-messages",
        _name(request),
        request.get("stream") is True,
        _text(request.get("system")),
        tuple(spoken),
        tuple(tools),
        _mapping(form.get("schema")) if form.get("type") == "json_schema" else None,
        _count(request.get("max_tokens")),
    )


def _responses_tools(declared: Any) -> Iterator[Tool]:
    for tool in _objects(declared):
        name = tool.get("name")
        match tool.get("type"):
            case "function" if isinstance(name, str):
                yield Tool(name, _mapping(tool.get("parameters")))
            case "custom" if isinstance(name, str):
                yield Tool(name, form="custom")
            case "local_shell":
                yield Tool("local_shell", form="local_shell")


def _role(item: dict[str, Any]) -> str:
    """Who speaks or, of an item that is no message, what it is."""
    kind = item.get("type", "message")
    role = item.get("role") if kind == "message" else kind
    return role if isinstance(role, str) else ""


def _text(content: Any) -> str:
    """The text of a message's content, which is a text or a list of parts; parts of other kinds have none."""
    if isinstance(content, str):
        return content
    texts = (part.get("text") for part in _objects(content) if part.get("type") in ("text", "input_text", None))
    return "\n".join(text for text in texts if isinstance(text, str))


def _object(body: Any) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise ValueError("the body must be a JSON object")
    return body


def _list(request: dict[str, Any], key: str) -> list[Any]:
    value = request.get(key)
    if not isinstance(value, list):
        raise ValueError(f"{key!r} must be a list")
    return value


def _objects(values: Any) -> Iterator[dict[str, Any]]:
    return (value for value in values if isinstance(value, dict)) if isinstance(values, list) else iter(())


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _name(request: dict[str, Any]) -> str:
    name = request.get("model")
    return name[:200] if isinstance(name, str) and name else "scripted"


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
