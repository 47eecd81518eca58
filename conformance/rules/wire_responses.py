"""The wire: requests and responses (JSON-RPC 2.0; schema RequestId, Error; docs 'Transports')."""

from collections.abc import Iterator
from typing import Any, Final

from conformance.conversation import BUSY, Connection, Request, View
from conformance.conversation.traffic import is_empty_response, names_no_request
from conformance.history import Event
from conformance.rules.clients import meant_for_another
from conformance.rules.registry import EXERCISED, MUST, Finding, Verdict, rule, violation, warning
from conformance.rules.wire_provoked import provoked_before
from conformance.wire import Kind, request_key, shown

MOST_LOOKS = 20  # stretches of silence that are looked at for one prompt
TAKES_ITS_TIME = ("auth/login",)
"""Requests that last as long as a person takes."""


def identifier_of(event: Event) -> Any:
    return event.message.get("id") if isinstance(event.message, dict) else None


def answered_notification(connection: Connection, event: Event) -> Event | None:
    """The notification that a response with id null, or with none, can only belong to: what the client had sent last,
    no line that could not be read before it and no request pending."""
    notification = connection.notification_before(event.seq)
    if not names_no_request(event.message) or notification is None or not connection.shows_its_beginning:
        return None
    if connection.malformed_between(-1, event.seq) or connection.waits_for_agent_at(event.seq):
        return None
    return notification


def _refuses_a_malformed_line(connection: Connection, event: Event) -> bool:
    """Whether an earlier line of the client was no request and bears the error's id, or no id is named at all."""
    identifier = identifier_of(event)
    if identifier is None:
        return bool(connection.malformed_between(-1, event.seq))
    return connection.malformed_ids.get(request_key(identifier), event.seq) < event.seq


def is_same_number(one: Any, other: Any) -> bool:
    """Whether both are one number, which JSON may write as 3 and as 3.0."""
    return {type(one), type(other)} <= {int, float} and bool(one == other)


@rule(
    "wire.response-id",
    MUST,
    says="A response has the request's id, the same JSON type and value.",
    source="schema RequestId",
    exercised="a response",
    proof="an id that matches no request pending on that connection (1 is not '1')",
    never="an error with id null that answers a line which could not be read, or with the id that stands in a line "
    "which is no request; a response to an item of an array; an answer to a line that is no UTF-8 and was read all the "
    "same; a response to what was asked before the recording began; digits beyond 2^53, which readers that keep "
    "numbers as doubles lose, and 3.0 for 3: a warning",
)
def response_id(connection: Connection) -> Verdict:
    if any(request.response is not None for request in connection.requests):
        yield EXERCISED
    for event, meant in connection.answers_to_alike:
        this = (event, f"this response has the id {shown(identifier_of(event))}, which was answered before")
        message = f"the response to the request {shown(meant.id)} has the id {shown(identifier_of(event))}"
        yield violation(message, (meant.event, f"the request {shown(meant.id)} is pending, and never answered"), this)
    for event in connection.strays:
        identifier = identifier_of(event)
        if isinstance(event.message.get("error"), dict) and _refuses_a_malformed_line(connection, event):
            continue
        if connection.cancelled_ids.get(request_key(identifier), event.seq) < event.seq:
            continue  # cancel.unknown-request-ignored
        if connection.array_ids.get(request_key(identifier), event.seq) < event.seq:
            continue
        if connection.lenient_ids.get(request_key(identifier), event.seq) < event.seq:
            continue
        if answered_notification(connection, event) is not None or meant_for_another(connection, event) is not None:
            continue
        like = connection.pending_like(identifier, event.seq)
        message = f"a response with the id {shown(identifier)}, and no request of that id is pending"
        this = (event, f"this response has the id {shown(identifier)}")
        if like is not None and type(like.id) is int and type(identifier) is int:
            told = f"{message}: the agent keeps numbers as doubles, which lose digits beyond 2^53"
            yield warning(told, (like.event, f"the request {shown(like.id)} is pending"), this)
        elif like is not None and is_same_number(like.id, identifier):
            yield warning(f"{message} as an integer", (like.event, f"the request {shown(like.id)} is pending"), this)
        elif like is not None:
            yield violation(message, (like.event, f"the request {shown(like.id)} is pending"), this)
        elif connection.shows_its_beginning:
            yield violation(message, this)
        else:
            yield warning(f"{message}; but the recording does not show how the connection began", this)


@rule(
    "wire.one-response",
    MUST,
    says="Every request gets exactly one response.",
    source="JSON-RPC 2.0; schema RequestId",
    exercised="a request",
    proof="a second response; or none within the patience while the process lives",
    never="a prompt held while earlier work is open, also of another session, or while a client is asked; a login; a "
    "request whose response came under a wrong id, or to another client; a connection that ended",
)
def one_response(connection: Connection) -> Verdict:
    alike = {event.seq for event, _ in connection.answers_to_alike}
    for request in connection.requests:
        if request.response is not None:
            yield EXERCISED
        later = (e for e in request.later_responses if e.seq not in alike)
        later = (e for e in later if meant_for_another(connection, e, request) is None)
        again = next((e for e in later if not any(c.seq < e.seq for c in request.cancels)), None)
        if again is not None and request.response is not None:
            yield violation(
                f"{request.method} was answered {1 + len(request.later_responses)} times",
                (request.event, f"the request {shown(request.id)}"),
                (request.response, "is answered"),
                (again, "and answered again"),
            )
        elif request.response is None and (waited := unanswered(request)) is not None:
            yield violation(
                f"{request.method} was never answered",
                (request.event, f"the request {shown(request.id)}"),
                (waited, "and up to here, the agent being alive, it has no response"),
            )


def unanswered(request: Request) -> Event | None:
    """The event by which a response was owed; None where none is owed, or another rule is about its absence."""
    connection = request.connection
    if request.method.startswith("_") or request.method in TAKES_ITS_TIME:
        return None
    waited = connection.out_of_patience(request.event, answer_to=request)
    if request.method == "session/prompt" and waited is not None:
        waited = None if request.cancels else _owed_at(request, waited)  # held; or the rules about cancels
    elif request.method in _TELLS_FIRST and waited is not None and not connection.conversation.is_driven:
        waited = _owed_at(request, waited)
    if waited is None or waited.seq > connection.ended_at or connection.waits_for_client_at(waited.seq):
        return None
    return None if provoked_before(request) is not None or _is_answered_wrongly(request, waited) else waited


def _is_answered_wrongly(request: Request, waited: Event) -> bool:
    """Whether something came that may be meant as its response: one that answers nothing, which is wire.response-id's,
    one for another client, which is clients.response-to-submitter-only's, or, in time, a line that is no message, which
    is wire.only-messages-on-stdout's."""
    connection, end = request.connection, float("inf")
    if connection.strays_between(request.seq, end) or connection.agent_malformed_between(request.seq, waited.seq):
        return True
    if any(event.seq > request.seq for event, _ in connection.answers_to_alike[-1:]):
        return True
    return connection.conversation.is_answered_elsewhere(request)


_TELLS_FIRST: Final = ("session/resume", "session/close")
"""Requests that are answered when all that the agent has to tell of the session has been told."""


def _owed_at(request: Request, waited: Event) -> Event | None:
    """The event by which nothing held the request back any longer and its answer was owed; None where none shows it."""
    connection, conversation = request.connection, request.connection.conversation
    view = connection.views.get(request.session_id or "")
    if view is None:
        return waited if conversation.is_driven or request.method in _TELLS_FIRST else None
    if conversation.is_driven:
        return waited if _is_free(request, view, waited) else None
    candidate: Event | None = waited
    for _ in range(MOST_LOOKS):
        if candidate is None:
            return None
        last = view.last_update_before(candidate.seq + 1)
        if last is not None and last.seq > request.seq and candidate.t - last.event.t < conversation.patience:
            candidate = connection.out_of_patience(last.event)  # the session was still telling of something
        elif request.method in _TELLS_FIRST or (
            view.work_at(candidate.seq) is None and view.state_at(candidate.seq) not in BUSY
        ):
            return candidate
        else:
            candidate = connection.out_of_patience(candidate)
    return None


def _is_free(request: Request, view: View, waited: Event) -> bool:
    """Whether the agent under test was free to answer: no work is open, and none was just now; or its own work has all
    that it needs of the model."""
    conversation, work = view.session.conversation, view.work_at(waited.seq)
    others = (v for session in conversation.sessions.values() if session is not view.session for v in session.views)
    if any(v.work_at(waited.seq) is not None and v.connection.ended_at > waited.seq for v in others):
        return False  # it may do one thing at a time
    if any(v.connection.waits_for_client_at(waited.seq) for v in view.session.views):
        return False  # another client is asked, and the work waits for that
    if work is not None:
        later = (r for r in conversation.model_requests if r.seq > work.seq)
        held = any(r.answered is None or r.answered.seq > waited.seq for r in later)
        return work.seq > request.seq and not held
    last = view.work_before(waited.seq)
    if view.state_at(waited.seq) in BUSY:
        return False
    if last is None or last.ended is None or last.ended.seq < request.seq:
        return True
    return waited.t - last.ended.event.t >= conversation.patience / 2


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
        if is_response(event):
            yield EXERCISED
            yield from flawed_outcome(event, *OUTCOME, "method beside")


OUTCOME: Final = ("both result", "none of", "error")
"""How the flaws of an envelope begin that are about what a response says."""


def is_response(event: Event) -> bool:
    """Whether the line is a response, or meant as one."""
    envelope = event.envelope
    if envelope is None:
        return False
    is_empty = envelope.kind is Kind.NOT_JSONRPC and is_empty_response(envelope.message)
    return envelope.kind in (Kind.RESULT, Kind.ERROR) or is_empty


def flawed_outcome(event: Event, *about: str) -> Iterator[Finding]:
    """A finding where a flaw of the response begins so."""
    flaws = event.envelope.flaws if event.envelope is not None else ()
    flaw = next((flaw for flaw in flaws if flaw.startswith(about)), None)
    if flaw is not None:
        yield violation(f"a response with {flaw}", (event, "this response"))


@rule(
    "wire.no-reply-to-notifications",
    MUST,
    says="Notifications get no response, alone or in a batch.",
    source="docs 'Transports'",
    exercised="a notification (session/cancel, $/cancel_request, an unknown one)",
    proof="a response that can only belong to it (id null, or no id)",
    never="an error with id null that answers a malformed line, or may answer a request that is pending",
)
def no_reply_to_notifications(connection: Connection) -> Verdict:
    if connection.notifications:
        yield EXERCISED
    for event in connection.nameless_responses:
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
    latest: dict[tuple[str, Any], Request] = {}
    for request in requests:
        yield EXERCISED
        identifier = request.id
        earlier = latest.get(request_key(identifier))
        latest[request_key(identifier)] = request
        is_whole = isinstance(identifier, float) and identifier.is_integer()  # 1.0 is an integer to JSON Schema
        if isinstance(identifier, bool) or not (is_whole or isinstance(identifier, int | str)):
            yield violation(
                f"a request with the id {shown(identifier)}", (request.event, "an id is a string or an integer")
            )
        elif request.shares_id:
            yield violation(
                f"the id {shown(identifier)} is used again while a request with it is pending",
                *([(earlier.event, f"{earlier.method} holds it")] if earlier is not None else []),
                (request.event, "this request takes it"),
            )
