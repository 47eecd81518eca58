"""A request to a model, in words that all providers' APIs share.

The bodies come from an agent: nothing in them is taken for granted.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from conformance.profile import Api

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
    """`user_texts` are the texts of the user's messages in order (results of tools are none), `instructions` the
    system's.

    `schema` is the JSON Schema that the answer has to follow, None where it is free.
    """

    api: Api
    model: str = "scripted"
    stream: bool = False
    instructions: str = ""
    user_texts: tuple[str, ...] = ()
    tools: tuple[Tool, ...] = ()
    schema: Mapping[str, Any] | None = None
    max_tokens: int | None = None
    wants_usage: bool = False

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
    instructions, texts = [], []
    for message in _objects(_list(request, "messages")):
        if message.get("role") == "user":
            texts.append(_text(message.get("content")))
        elif message.get("role") in ("system", "developer"):
            instructions.append(_text(message.get("content")))
    functions = [_mapping(tool.get("function")) for tool in _objects(request.get("tools"))]
    tools = [Tool(f["name"], _mapping(f.get("parameters"))) for f in functions if isinstance(f.get("name"), str)]
    form = _mapping(request.get("response_format"))
    schema = _mapping(_mapping(form.get("json_schema")).get("schema")) if form.get("type") == "json_schema" else None
    return Asked(
        "openai-chat",
        _name(request),
        request.get("stream") is True,
        "\n".join(instructions),
        tuple(texts),
        tuple(tools),
        {} if form.get("type") == "json_object" else schema,
        _count(request.get("max_completion_tokens", request.get("max_tokens"))),
        _mapping(request.get("stream_options")).get("include_usage") is True,
    )


def read_responses(body: Any) -> Asked:
    """An OpenAI Responses request. Raises ValueError where it is none."""
    request = _object(body)
    given = request.get("input")
    instructions, texts = [_text(request.get("instructions"))], []
    if isinstance(given, str):
        texts.append(given)
    else:
        for item in _objects(_list(request, "input")):
            if item.get("type", "message") != "message":
                continue
            if item.get("role") == "user":
                texts.append(_text(item.get("content")))
            elif item.get("role") in ("system", "developer"):
                instructions.append(_text(item.get("content")))
    form = _mapping(_mapping(request.get("text")).get("format"))
    return Asked(
        "openai-responses",
        _name(request),
        request.get("stream") is True,
        "\n".join(instructions),
        tuple(texts),
        tuple(_responses_tools(request.get("tools"))),
        _mapping(form.get("schema")) if form.get("type") in ("json_schema", "json_object") else None,
        _count(request.get("max_output_tokens")),
    )


def read_messages(body: Any) -> Asked:
    """An Anthropic Messages request. Raises ValueError where it is none."""
    request = _object(body)
    texts = [
        text
        for message in _objects(_list(request, "messages"))
        if message.get("role") == "user" and (text := _text(message.get("content")))
    ]
    declared = [tool for tool in _objects(request.get("tools")) if isinstance(tool.get("name"), str)]
    tools = [Tool(tool["name"], _mapping(tool.get("input_schema"))) for tool in declared]
    form = _mapping(request.get("output_format") or _mapping(request.get("output_config")).get("format"))
    return Asked(
        "anthropic-messages",
        _name(request),
        request.get("stream") is True,
        _text(request.get("system")),
        tuple(texts),
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
