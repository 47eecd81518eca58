"""The wire: one valid JSON-RPC message a line, valid for its method (docs 'Transports', 'Extensibility'; the schema).

These rules are about the agent's lines; `conformance.rules.client` asks the same functions about the client's.
"""

from collections.abc import Iterator
from typing import Final

from conformance.conversation import Connection, Request
from conformance.conversation.shapes import Shape
from conformance.conversation.traffic import is_empty_response
from conformance.history import Event
from conformance.protocol.methods import AGENT_METHODS, PROTOCOL_METHODS, UNSTABLE_METHODS, V1_METHODS
from conformance.rules.registry import EXERCISED, MUST, Finding, Verdict, rule, violation, warning
from conformance.rules.wire_responses import answered_notification
from conformance.wire import Kind, request_key

Part = tuple[Event, str]

OWNED: Final = {
    ("session/prompt", "result"): ("messageId",),
    ("initialize", "result"): ("info", "capabilities", "authMethods", "protocolVersion"),
    ("session/request_permission", "params"): ("options",),
}
"""Places whose shape a rule of its own is about, _meta apart: (method, part) -> the first steps of their paths."""


def broken_lines(events: list[Event], *, answers_arrays: bool) -> Iterator[Finding]:
    """Lines that are no JSON-RPC message."""
    for event in events:
        envelope = event.envelope
        if envelope is None:
            continue
        why = envelope.flaws[0] if envelope.flaws else envelope.kind.value
        if envelope.kind in (Kind.NOT_JSON, Kind.NOT_OBJECT):
            if envelope.flaws and envelope.flaws[-1] == "no newline at the end":
                yield warning(f"the last line is unfinished: {why}", (event, "the line ends in the middle"))
            else:
                yield violation(f"a line that is no message: {why}", (event, "this line"))
        elif envelope.kind is Kind.NOT_JSONRPC and not is_empty_response(envelope.message):
            yield violation(f"a line that is no JSON-RPC message: {why}", (event, "this line"))
        elif envelope.kind is Kind.ARRAY:
            if answers_arrays and envelope.message:
                yield warning(
                    "an array of messages in answer to an array: the August text had batches", (event, "this line")
                )
            else:
                yield violation("a line that holds an array: the protocol has no batches", (event, "this line"))
        elif envelope.kind is Kind.TOO_LONG:
            yield warning("a line that is longer than the suite reads", (event, "this line was cut"))
        elif envelope.flaws:
            flaw = next((flaw for flaw in envelope.flaws if flaw.startswith(("jsonrpc ", "method beside"))), None)
            if flaw is not None:
                yield violation(f"a line that is no JSON-RPC 2.0 message: {flaw}", (event, "this line"))
            elif any("duplicate key" in flaw for flaw in envelope.flaws):
                yield warning(
                    f"a message with a {envelope.flaws[0]}", (event, "receivers differ in what they make of it")
                )


@rule(
    "wire.only-messages-on-stdout",
    MUST,
    says="Every line on stdout is one JSON-RPC message; nothing else (no logs, banners, escape codes), no newline "
    "inside a message.",
    source="docs 'Transports'",
    exercised="any line",
    proof="a line that is not JSON, not an object, or not a JSON-RPC 2.0 message",
    never="a non-empty array of messages in answer to an array (August text): a warning; a response to a notification, "
    "which has a rule of its own",
)
def only_messages_on_stdout(connection: Connection) -> Verdict:
    if connection.agent_events:
        yield EXERCISED
    asked = any(e.envelope is not None and e.envelope.kind is Kind.ARRAY for e in connection.client_events)
    others = {e.seq for e in connection.nameless_responses if answered_notification(connection, e) is not None}
    lines = [event for event in connection.agent_events if event.seq not in others]
    yield from broken_lines(lines, answers_arrays=asked)


@rule(
    "wire.utf8",
    MUST,
    says="Messages are UTF-8.",
    source="docs 'Transports'",
    exercised="any line",
    proof="a line that does not decode",
)
def utf8(connection: Connection) -> Verdict:
    if connection.agent_events:
        yield EXERCISED
    yield from undecodable_lines(connection.agent_events)


def undecodable_lines(events: list[Event]) -> Iterator[Finding]:
    for event in events:
        if event.envelope is not None and event.envelope.kind is Kind.NOT_UTF8:
            yield violation(f"a line that is {'; '.join(event.envelope.flaws)}", (event, "this line"))


@rule(
    "wire.valid-shape",
    MUST,
    says="Every message the agent writes is valid for its method under the v2 schema.",
    source="schema",
    exercised="any message with a known method, or a response to a known method",
    proof="schema validation fails, or a request comes without an id, or a notification with one",
    never="unknown fields under _meta; underscore-prefixed variants where the schema has an 'other' branch; fields "
    "of the unstable schema; a notification with the id null, which is wire.request-ids'",
)
def valid_shape(connection: Connection) -> Verdict:
    if connection.agent_notifications or any(request.response is not None for request in connection.requests):
        yield EXERCISED
    yield from wrong_shapes(connection.agent_shapes, connection.agent_requests)


def wrong_shapes(shapes: list[Shape], own: list[Request]) -> Iterator[Finding]:
    """One finding for each line of a wrong shape, places left out that a rule of their own is about. `own` are the
    requests of the same side, whose ids wire.request-ids judges."""
    ids = {request_key(request.id) for request in own}
    for shape in shapes:
        owned = OWNED.get((shape.method, shape.part), ())
        if (shape.method, shape.part) == ("session/prompt", "result") and not isinstance(shape.value, dict):
            continue  # prompt.message-id-in-response
        if shape.method == "$/cancel_request" and isinstance(shape.value, dict):
            owned = ("requestId",) if request_key(shape.value.get("requestId")) in ids else ()
        problems = [p for p in shape.problems if not _is_owned(p.path, owned) and not _is_error_of_idle(shape, p.path)]
        if problems:
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            yield violation(
                f"{shape.method}: {problems[0].message}{more}",
                (shape.event, "; ".join(p.message for p in problems[:3])),
            )


def _is_owned(path: str, owned: tuple[str, ...]) -> bool:
    return path.startswith(owned) and not path.endswith("_meta")


def _is_error_of_idle(shape: Shape, path: str) -> bool:
    return shape.method == "session/update" and path.startswith("update.error")


@rule(
    "wire.known-methods",
    MUST,
    says="The agent calls only methods of the protocol version, $/-prefixed protocol methods, or "
    "underscore-prefixed extensions.",
    source="docs 'Extensibility'",
    exercised="any request or notification of the agent",
    proof="another method (fs/* and terminal/create are methods of version 1 and count)",
    never="a method of the unstable schema: a warning",
)
def known_methods(connection: Connection) -> Verdict:
    calls = [(request.event, request.method) for request in connection.agent_requests]
    calls += [(event, str(event.message.get("method"))) for event in connection.agent_notifications]
    if calls:
        yield EXERCISED
    told: set[str] = set()
    for event, method in calls:
        if method in AGENT_METHODS or method in PROTOCOL_METHODS or method.startswith(("_", "$/")) or method in told:
            continue
        told.add(method)
        if any(entry.name == method and entry.sender != "client" for entry in UNSTABLE_METHODS):
            yield warning(f"{method} is a method of the unstable schema", (event, "this call"))
        elif method in V1_METHODS:
            yield violation(f"{method} is a method of version 1", (event, "this call, under version 2"))
        else:
            yield violation(f"{method} is no method that an agent may call", (event, "this call"))


@rule(
    "wire.no-unknown-root-fields",
    MUST,
    says="No custom fields at the root of a protocol type; custom data goes to _meta.",
    source="docs 'Extensibility'",
    exercised="any message of a closed type",
    proof="a field the schema does not define, outside _meta and outside 'other' branches",
    never="a field that the unstable schema has at that place, or beside which a required field is missing, whose name "
    "or place it may miss: a warning; error beside another stop reason, which has a rule of its own",
)
def no_unknown_root_fields(connection: Connection) -> Verdict:
    if connection.agent_notifications or any(request.succeeded for request in connection.requests):
        yield EXERCISED
    yield from unknown_fields(connection.agent_shapes)


OF_VERSION_1: Final = {
    ("InitializeResponse", "agentInfo"): "that was version 1, now it is 'info'",
    ("InitializeResponse", "agentCapabilities"): "that was version 1, now it is 'capabilities'",
    ("PromptResponse", "stopReason"): "that was version 1, now the idle state_update says it",
}
"""What became of fields of version 1 that agents go on sending."""


def unknown_fields(shapes: list[Shape]) -> Iterator[Finding]:
    told: set[tuple[str, str, bool]] = set()
    for shape in shapes:
        for field in shape.extensions.unknown_fields:
            is_another = _stands_for_another(shape, field.path)
            if (field.definition, field.name, is_another) in told or (
                field.name == "error" and field.definition.endswith("StateUpdate")
            ):
                continue
            told.add((field.definition, field.name, is_another))
            if field.unstable:
                yield warning(
                    f"{field.definition}.{field.name} is of the unstable schema", (shape.event, f"at {field.path}")
                )
            else:
                instead = OF_VERSION_1.get((field.definition, field.name), "custom data goes to _meta")
                tell = warning if is_another else violation
                yield tell(
                    f"{field.definition} has no field {field.name!r}; {instead}",
                    (shape.event, f"at {field.path or 'the root'}"),
                )


def _stands_for_another(shape: Shape, path: str) -> bool:
    """Whether the same object lacks a field that it must have: one fault, which the rule about that field tells."""
    place = path.rpartition(".")[0]
    missing = (p.path for p in shape.problems if p.message.startswith(f"{p.path} is missing"))
    return any(other.rpartition(".")[0] == place for other in missing)


@rule(
    "wire.open-enum-values",
    MUST,
    says="A custom value of an open enum or tagged union begins with an underscore.",
    source="docs 'Extensibility'",
    exercised="a value outside the defined ones at a place with an 'other' branch",
    proof="it does not begin with an underscore",
    never="a value that the unstable schema defines: a warning; the type of an auth method, which is "
    "init.auth-methods'",
)
def open_enum_values(connection: Connection) -> Verdict:
    if any(shape.extensions.custom_values for shape in connection.agent_shapes):
        yield EXERCISED
    yield from custom_values(connection.agent_shapes)


def custom_values(shapes: list[Shape]) -> Iterator[Finding]:
    told: set[tuple[str, str]] = set()
    for shape in shapes:
        for custom in shape.extensions.custom_values:
            if custom.definition == "AuthMethod":
                continue
            if custom.value.startswith("_") or (custom.definition, custom.value) in told:
                continue
            told.add((custom.definition, custom.value))
            if custom.unstable:
                yield warning(
                    f"{custom.value!r} is a {custom.definition} of the unstable schema",
                    (shape.event, f"at {custom.path}"),
                )
            else:
                yield violation(
                    f"{custom.value!r} is no {custom.definition} of the protocol and has no leading underscore",
                    (shape.event, f"at {custom.path}"),
                )
