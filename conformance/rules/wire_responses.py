"""The wire: requests and responses (JSON-RPC 2.0; schema RequestId, Error; docs 'Transports')."""

from typing import Any

from conformance.conversation import BUSY, Connection, Request
from conformance.history import Event
from conformance.protocol.methods import CLIENT_METHODS, UNSTABLE_METHODS
from conformance.rules.registry import EXERCISED, MUST, Verdict, rule, violation
from conformance.rules.wire_provoked import malformed_lines, provoked_before
from conformance.wire import Kind, request_key


def identifier_of(event: Event) -> Any:
    return event.message.get("id") if isinstance(event.message, dict) else None


def pending_elsewhere(connection: Connection, event: Event) -> Request | None:
    """The request of another connection that was pending with this response's id: clients.response-to-submitter-only is about it."""
    key = request_key(identifier_of(event))
    for other in connection.conversation.connections.values():
        if other is not connection and other.ended_at > event.seq:
            for request in other.by_id.get(("client", *key), []):
                if request.seq < event.seq < request.answered_at:
                    return request
    return None


def was_cancelled(connection: Connection, event: Event) -> bool:
    """Whether a $/cancel_request named this id before: cancel.unknown-request-ignored is about its answer."""
    key = request_key(identifier_of(event))
    return any(
        e.seq < event.seq
        and e.message.get("method") == "$/cancel_request"
        and isinstance(e.message.get("params"), dict)
        and request_key(e.message["params"].get("requestId")) == key
        for e in connection.notifications
    )


def answered_notification(connection: Connection, event: Event) -> Event | None:
    """The notification that a response with id null can only belong to; None where a line that could not be read explains it."""
    if identifier_of(event) is not None or malformed_lines(connection, event.seq):
        return None
    return next((e for e in reversed(connection.notifications) if e.seq < event.seq), None)


@rule(
    "wire.response-id",
    MUST,
    says="A response has the request's id, the same JSON type and value.",
    source="schema RequestId",
    exercised="a response",
    proof="an id that matches no request pending on that connection (1 is not '1')",
    never="an error with id null that answers a line which could not be read",
)
def response_id(connection: Connection) -> Verdict:
    if any(request.response is not None for request in connection.requests):
        yield EXERCISED
    for event in connection.strays:
        identifier = identifier_of(event)
        if identifier is None and malformed_lines(connection, event.seq) and isinstance(event.message.get("error"), dict):
            continue
        if answered_notification(connection, event) is not None or was_cancelled(connection, event):
            continue
        if pending_elsewhere(connection, event) is not None:
            continue
        pending = [r for r in connection.requests if r.seq < event.seq < r.answered_at]
        like = next((r for r in pending if _looks_like(r.id, identifier)), None)
        yield violation(
            f"a response with the id {_shown(identifier)}, and no request of that id is pending",
            *([(like.event, f"the request {_shown(like.id)} is pending")] if like is not None else []),
            (event, f"this response has the id {_shown(identifier)}"),
        )


def _looks_like(one: Any, other: Any) -> bool:
    return str(one).strip() == str(other).strip() or (isinstance(other, float) and one == other)


def _shown(identifier: Any) -> str:
    return "null" if identifier is None else repr(identifier).replace("'", '"')


@rule(
    "wire.one-response",
    MUST,
    says="Every request gets exactly one response.",
    source="JSON-RPC 2.0; schema RequestId",
    exercised="a request",
    proof="a second response; or none within the patience while the process lives",
    never="a prompt held while earlier work is open; a request whose response came under a wrong id; a connection that ended",
)
def one_response(connection: Connection) -> Verdict:
    for request in connection.requests:
        if request.response is not None:
            yield EXERCISED
        again = next((e for e in request.later_responses if not any(c.seq < e.seq for c in request.cancels)), None)
        if again is not None and request.response is not None:
            yield violation(
                f"{request.method} was answered {1 + len(request.later_responses)} times",
                (request.event, f"the request {_shown(request.id)}"),
                (request.response, "is answered"),
                (again, "and answered again"),
            )
        elif request.response is None and (waited := unanswered(request)) is not None:
            yield violation(
                f"{request.method} was never answered",
                (request.event, f"the request {_shown(request.id)}"),
                (waited, "and up to here, the agent being alive, it has no response"),
            )


def unanswered(request: Request) -> Event | None:
    """The event by which a response was owed; None where none is owed, or another rule is about its absence."""
    connection = request.connection
    if request.method.startswith("_") or any(_looks_like(request.id, identifier_of(e)) for e in connection.strays if e.seq > request.seq):
        return None
    waited = connection.out_of_patience(request.event, answer_to=request)
    if waited is None or waited.seq > connection.ended_at or provoked_before(request):
        return None
    if request.cancels and request.method == "session/prompt":
        return None  # cancel.request-before-insertion, cancel.held-prompts-cancelled
    if request.method == "session/prompt" and not _idle_long_enough(request, waited):
        return None
    if any(r.seq < waited.seq < r.answered_at for r in connection.agent_requests):
        return None  # the agent waits for an answer of the client itself
    return waited


def _idle_long_enough(request: Request, waited: Event) -> bool:
    """Whether nothing held the prompt back: no work that began before it was open when patience ran out, and, in a foreign recording,
    the session had been idle for the whole patience."""
    connection = request.connection
    view = connection.views.get(request.session_id or "")
    if view is None or view.session is None:
        return False
    submission = next((s for s in view.session.submissions if s.request is request), None)
    if submission is None or submission.model_requests or submission.report is not None and view.work_at(waited.seq) is not None:
        return False
    work = view.work_at(waited.seq)
    if work is not None:
        return work.seq > request.seq and not any(
            r.seq > work.seq and (r.answered is None or r.answered.seq > waited.seq) for r in connection.conversation.model_requests
        )
    if view.state_at(waited.seq) in BUSY:
        return False
    last = [work.ended for work in view.works if work.ended is not None and request.seq < work.ended.seq < waited.seq][-1:]
    return connection.conversation.is_driven or not last or waited.t - last[0].event.t >= connection.conversation.patience


@rule(
    "wire.result-or-error",
    MUST,
    says="A response has exactly one of result and error; an error has an integer code and a string message.",
    source="JSON-RPC 2.0; schema Error",
    exercised="a response",
    proof="both, neither, or a malformed error",
)
def result_or_error(connection: Connection) -> Verdict:
    for event in connection.agent_events:
        envelope = event.envelope
        if envelope is None:
            continue
        message = envelope.message
        is_response = envelope.kind in (Kind.RESULT, Kind.ERROR) or (
            envelope.kind is Kind.NOT_JSONRPC and isinstance(message, dict) and "id" in message and "method" not in message
        )
        if not is_response:
            continue
        yield EXERCISED
        flaw = next((flaw for flaw in envelope.flaws if _is_about_outcome(flaw)), None)
        if flaw is not None:
            yield violation(f"a response with {flaw}", (event, "this response"))


def _is_about_outcome(flaw: str) -> bool:
    return flaw.startswith(("both result", "none of", "error", "method beside"))


@rule(
    "wire.no-reply-to-notifications",
    MUST,
    says="Notifications get no response, alone or in a batch.",
    source="docs 'Transports'",
    exercised="a notification (session/cancel, $/cancel_request, an unknown one)",
    proof="a response that can only belong to it (id null)",
    never="an error with id null that answers a malformed line",
)
def no_reply_to_notifications(connection: Connection) -> Verdict:
    if connection.notifications:
        yield EXERCISED
    for event in connection.strays:
        if (notification := answered_notification(connection, event)) is not None:
            yield violation(
                f"a response to the notification {notification.message.get('method')}",
                (notification, "this notification asks for no answer"),
                (event, "and this response can only belong to it"),
            )


@rule(
    "wire.request-ids",
    MUST,
    says="Ids of the agent's own requests are strings or integers, not null, and not reused while pending.",
    source="schema RequestId",
    exercised="a request of the agent",
    proof="a null or other-typed id; an id already pending in that direction",
    never="an id equal to one of the client's: each side has its own",
)
def request_ids(connection: Connection) -> Verdict:
    yield from ids_of(connection.agent_requests)


def ids_of(requests: list[Request]) -> Verdict:
    for request in requests:
        yield EXERCISED
        identifier = request.id
        if isinstance(identifier, bool) or not isinstance(identifier, int | str):
            yield violation(f"a request with the id {_shown(identifier)}", (request.event, "an id is a string or an integer"))
        elif request.shares_id:
            yield violation(
                f"the id {_shown(identifier)} is used again while a request with it is pending", (request.event, "this request takes it")
            )


def is_known_request(method: str) -> bool:
    """Whether an agent may know this method of a client: of the stable schema, the unstable one, or an extension."""
    return method in CLIENT_METHODS or method.startswith(("_", "$/")) or any(entry.name == method for entry in UNSTABLE_METHODS)
