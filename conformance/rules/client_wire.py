"""The wire rules for the client's own messages: the functions that judge the agent's lines, asked about the other
side's."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from conformance.conversation import Connection, Request
from conformance.conversation.shapes import Shape
from conformance.conversation.traffic import MOST_ALIKE, look
from conformance.protocol.methods import CLIENT_METHODS, PROTOCOL_METHODS, V1_METHODS, is_unstable
from conformance.protocol.validation import Extensions
from conformance.rules.registry import EXERCISED, MUST, Finding, Verdict, rule, violation, warning
from conformance.rules.wire import broken_lines, custom_values, undecodable_lines, unknown_fields, wrong_shapes
from conformance.rules.wire_responses import OUTCOME, flawed_outcome, ids_of, is_response, is_same_number
from conformance.wire import Kind, request_key, shown

FOR_THE_USER: Final = ("session/request_permission", "elicitation/create")
"""Requests of the agent that wait for a person, however long that takes."""
VERSION_1_FIELDS: Final = ("clientInfo", "clientCapabilities")
"""What a client of both versions may say in its initialize for agents of the first."""


@rule(
    "client.wire",
    MUST,
    by="client",
    says="The wire rules, for the client's own messages.",
    source="docs 'Transports'",
    exercised="a message of the client",
    proof="as the wire rules say: a line that is no message, a wrong shape, an unknown method, field or value, a "
    "response without a request, a second one, none within the patience although the client went on, an id that is "
    "null or pending already",
    never="a permission or an elicitation that the user has not decided; a connection that ended; an agreed version "
    "1; recordings that began after initialize, for responses to requests that they do not hold",
)
def client_wire(connection: Connection) -> Verdict:
    if connection.conversation.has_scripted_client or not connection.client_events:
        return
    yield EXERCISED
    yield from _lines(connection)
    if not speaks_version_1(connection):
        yield from _shapes(connection)
        yield from _methods(connection)
    yield from (finding for finding in ids_of(connection.requests) if isinstance(finding, Finding))
    yield from _responses(connection)
    yield from _silences(connection)


def speaks_version_1(connection: Connection) -> bool:
    """Whether version 1 was agreed on, or all that the client asked for: its messages have other shapes."""
    asked = [r.params.get("protocolVersion") for r in connection.initializes if isinstance(r.params, dict)]
    return connection.is_other_version or (bool(asked) and all(version in (0, 1) for version in asked))


def _lines(connection: Connection) -> Iterator[Finding]:
    """Lines that are no message. An array is a batch of the August text, which a client was free to send: a warning."""
    arrays = [e for e in connection.client_events if e.envelope is not None and e.envelope.kind is Kind.ARRAY]
    others = [e for e in connection.client_events if e.envelope is None or e.envelope.kind is not Kind.ARRAY]
    yield from broken_lines(others, answers_arrays=False)
    yield from undecodable_lines(others)
    if arrays:
        yield warning(
            "a line that holds an array: the August text had batches, the protocol has them no more",
            (arrays[0], "this line"),
        )
    for event in others:
        if is_response(event):
            yield from flawed_outcome(event, *OUTCOME)


def _shapes(connection: Connection) -> Iterator[Finding]:
    own = [shape for shape in connection.client_shapes if not is_empty_prompt(shape)]
    yield from wrong_shapes(own, connection.requests)
    both, rest = [], []
    for shape in own:
        fields = shape.extensions.unknown_fields
        older = [
            f for f in fields if shape.method == "initialize" and shape.part == "params" and f.name in VERSION_1_FIELDS
        ]
        if older:
            both.append(shape.event)
        kept = [f for f in fields if f not in older]
        beyond = Extensions(kept, shape.extensions.custom_values, shape.extensions.odd_formats)
        rest.append(replace(shape, extensions=beyond))
    if both:
        yield warning(
            "initialize has fields of version 1 beside those of version 2",
            (both[0], "for agents of version 1, perhaps"),
        )
    yield from unknown_fields(rest)
    yield from custom_values(rest)


def is_empty_prompt(shape: Shape) -> bool:
    """A prompt of no blocks: client.respects-capabilities is about it."""
    return shape.method == "session/prompt" and isinstance(shape.value, dict) and shape.value.get("prompt") == []


def _methods(connection: Connection) -> Iterator[Finding]:
    calls = [(request.event, request.method) for request in connection.requests]
    calls += [(event, str(event.message.get("method"))) for event in connection.notifications]
    told: set[str] = set()
    for event, method in calls:
        if method in CLIENT_METHODS or method in PROTOCOL_METHODS or method.startswith(("_", "$/")) or method in told:
            continue
        told.add(method)
        if is_unstable(method, "client"):
            yield warning(f"{method} is a method of the unstable schema", (event, "this call"))
        elif method in V1_METHODS:
            yield violation(f"{method} is a method of version 1", (event, "this call, under version 2"))
        else:
            yield violation(f"{method} is no method that a client may call", (event, "this call"))


def _responses(connection: Connection) -> Iterator[Finding]:
    for request in connection.agent_requests:
        if request.later_responses and request.response is not None:
            yield violation(
                f"{request.method} was answered {1 + len(request.later_responses)} times",
                (request.event, f"the agent's request {shown(request.id)}"),
                (request.response, "is answered"),
                (request.later_responses[0], "and answered again"),
            )
    asked: dict[str, list[Request]] = {}
    for request in connection.agent_requests:
        asked.setdefault(look(request.id), []).append(request)
    refused = connection.agent_malformed_ids
    is_recorded = connection.shows_its_beginning and bool(connection.agent_events)
    for event in connection.client_strays if is_recorded else ():
        identifier = event.message.get("id")
        if identifier is None and "error" in event.message:
            continue  # answers a line that could not be read
        if "error" in event.message and refused.get(request_key(identifier), event.seq) < event.seq:
            continue  # refuses a line of the agent that is no request
        like = [r for r in asked.get(look(identifier), [])[:MOST_ALIKE] if r.seq < event.seq < r.answered_at]
        unread = connection.unread_between(-1, event.seq)
        if not like and any(line.envelope is not None and line.envelope.kind is not Kind.ARRAY for line in unread):
            continue  # the client may have read the request in a line that a stricter reader cannot
        tell = warning if like and is_same_number(like[0].id, identifier) else violation
        yield tell(
            f"a response with the id {shown(identifier)}, and no request of the agent has that id",
            *[(r.event, f"the request {shown(r.id)} is pending") for r in like[:1]],
            (event, f"this response has the id {shown(identifier)}"),
        )


def _silences(connection: Connection) -> Iterator[Finding]:
    strays = {look(event.message.get("id")): event.seq for event in connection.client_strays}  # the last with each id
    for request in connection.agent_requests:
        is_answered = strays.get(look(request.id), -1) > request.seq  # under another id, or one of another type
        if request.response is not None or is_answered or request.method in FOR_THE_USER or not _is_an_id(request.id):
            continue
        waited = connection.client_out_of_patience(request.event, answer_to=request)
        if waited is not None:
            yield violation(
                f"the agent's request {request.method} was never answered",
                (request.event, f"the agent asks {request.method}, id {shown(request.id)}"),
                (waited, f"{waited.t - request.event.t:.0f} s later the client goes on, and has not answered"),
            )


def _is_an_id(identifier: object) -> bool:
    """Whether a client could know by which id to answer."""
    return isinstance(identifier, int | str) and not isinstance(identifier, bool)
