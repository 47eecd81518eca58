"""The wire: what an agent makes of lines and requests that are wrong or unknown (JSON-RPC 2.0; docs 'Transports',
'Extensibility')."""

from collections.abc import Iterator
from typing import Final

from conformance.conversation import Connection, Request
from conformance.conversation.connections import is_unknown_notification
from conformance.history import Event
from conformance.protocol.methods import CLIENT_METHODS, UNSTABLE_METHODS
from conformance.protocol.validation import params_problems
from conformance.rules.registry import EXERCISED, MUST, SHOULD, Verdict, rule, violation, warning
from conformance.wire import Kind, read_envelope, request_key

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
UNREADABLE: Final = (Kind.NOT_JSON, Kind.NOT_UTF8, Kind.TOO_LONG)


def provoked_before(request: Request) -> Event | None:
    """Something wrong or unknown that the client sent since the last answer that it got: where the agent fell silent
    on it, the rule about that provocation tells it."""
    connection = request.connection
    return connection.provocation_between(connection.last_answer_before(request), request.seq)


def has_bad_params(request: Request) -> bool:
    return any(not problem.is_lenient for problem in params_problems(request.method, request.params, "client"))


def fell_silent(connection: Connection, event: Event) -> Event | None:
    """Where the first request after `event` was owed an answer and got none although the suite waited, or the agent
    was gone by itself."""
    following = next(iter(connection.requests_after(event.seq)), None)
    if following is None or following.response is not None:
        return None
    waited = connection.out_of_patience(following.event, answer_to=following)
    if waited is not None and waited.seq < connection.ended_at:
        return waited
    gone = connection.ended
    return gone if gone is not None and gone.name in ("exited", "disconnected") and gone.seq > event.seq else None


def null_answers(connection: Connection, start: float, end: float) -> Iterator[Event]:
    """Responses with id null between two positions."""
    return (event for event in connection.strays_between(start, end) if event.message.get("id") is None)


def _until_next(connection: Connection, event: Event) -> float:
    """Where the next malformed line begins: answers before it belong to this one."""
    return next((float(e.seq) for e in connection.malformed_between(event.seq, float("inf"))), float("inf"))


def _settled(connection: Connection, event: Event) -> Event | None:
    """The answer to a request that was sent after the event: by then the agent had met the event."""
    barrier = connection.barrier_after(event.seq)
    return barrier.response if barrier is not None else None


@rule(
    "wire.unknown-method",
    SHOULD,
    says="An unknown request method gets -32601.",
    source="docs 'Extensibility'",
    exercised="an unknown method",
    proof="another answer",
)
def unknown_method(connection: Connection) -> Verdict:
    for request in connection.requests:
        if request.method in CLIENT_METHODS or request.method.startswith(("_", "$/")) or request.response is None:
            continue
        if any(entry.name == request.method for entry in UNSTABLE_METHODS):
            continue
        yield EXERCISED
        if request.error_code != METHOD_NOT_FOUND:
            got = "success" if request.succeeded else str(request.error_code)
            yield violation(
                f"the unknown method {request.method!r} was answered with {got}, not with -32601",
                (request.event, "a method that no version defines"),
                (request.response, f"is answered with {got}"),
            )


@rule(
    "wire.extension-request-answered",
    MUST,
    says="An underscore-prefixed request gets some response.",
    source="docs 'Extensibility'",
    exercised="such a request",
    proof="none within the patience",
)
def extension_request_answered(connection: Connection) -> Verdict:
    for request in connection.requests:
        if not request.method.startswith("_"):
            continue
        if request.response is not None:
            yield EXERCISED
            continue
        waited = connection.out_of_patience(request.event, answer_to=request)
        if waited is None or waited.seq > connection.ended_at or connection.strays_between(request.seq, float("inf")):
            continue
        if provoked_before(request) is None:
            yield violation(
                f"{request.method} was never answered",
                (request.event, "an extension request, which is owed a response of some kind"),
                (waited, "and got none within the patience"),
            )


@rule(
    "wire.unknown-notification-ignored",
    SHOULD,
    says="Unknown notifications are ignored.",
    source="docs 'Extensibility'",
    exercised="an unknown notification, then a request",
    proof="a response to it, or the next request unanswered",
)
def unknown_notification_ignored(connection: Connection) -> Verdict:
    for event in connection.notifications:
        if not is_unknown_notification(event):
            continue
        settled = _settled(connection, event)
        answer = next(null_answers(connection, event.seq, settled.seq if settled is not None else float("inf")), None)
        if settled is not None:
            yield EXERCISED
        if answer is not None and not connection.malformed_between(-1, answer.seq):
            yield violation(
                "an unknown notification was answered",
                (event, "this notification is unknown"),
                (answer, "and is answered"),
            )
        elif (silence := fell_silent(connection, event)) is not None:
            yield violation(
                "after an unknown notification the agent answered no more",
                (event, "this notification is unknown"),
                (silence, "and the next request got no answer"),
            )


@rule(
    "wire.parse-error",
    SHOULD,
    says="A line that is not JSON gets -32700 with id null, and the connection stays usable.",
    source="docs 'Transports'",
    exercised="a malformed line, then a request",
    proof="silence, another answer, or the next request unanswered",
    never="silence to bytes that are not UTF-8 and, read with replacement characters, are a notification: a warning",
)
def parse_error(connection: Connection) -> Verdict:
    for event in connection.client_events:
        if event.envelope is None or event.envelope.kind not in UNREADABLE:
            continue
        yield from _answer_owed(connection, event, (PARSE_ERROR,), "a line that is not JSON")


def is_lenient_notification(event: Event) -> bool:
    """Whether a line that is not UTF-8 is a notification to a decoder that puts replacement characters in."""
    envelope = event.envelope
    if envelope is None or envelope.kind is not Kind.NOT_UTF8 or envelope.raw is None:
        return False
    return read_envelope(envelope.raw.decode("utf-8", "replace").encode()).kind is Kind.NOTIFICATION


def _answer_owed(connection: Connection, event: Event, codes: tuple[int, ...], what: str) -> Verdict:
    answer = next(null_answers(connection, event.seq, _until_next(connection, event)), None)
    silence, settled = fell_silent(connection, event), _settled(connection, event)
    if silence is not None:
        yield violation(
            f"after {what} the agent answered no more", (event, what), (silence, "and the next request got no answer")
        )
    elif answer is not None:
        yield EXERCISED
        error = answer.message.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        if code not in codes:
            yield violation(
                f"{what} was answered with {code if code is not None else 'no error'}, not with {codes[0]}",
                (event, what),
                (answer, "its answer"),
            )
    elif settled is not None:
        say = warning if is_lenient_notification(event) else violation
        yield say(
            f"{what} was met with silence", (event, what), (settled, "a later request is answered, the line never is")
        )


@rule(
    "wire.array-is-answered",
    SHOULD,
    says="The protocol has no batches any more: an array line is met with one -32600 with id null, or by an agent "
    "of the August text with a JSON-RPC batch answer; the connection goes on.",
    source="schema (no batch envelope); docs 'Transports' of August",
    exercised="an empty array, an array of a request and a notification, then a request",
    proof="silence to an array that holds a request, an empty array as answer, a crash, or the next request unanswered",
)
def array_is_answered(connection: Connection) -> Verdict:
    for event in connection.client_events:
        if event.envelope is None or event.envelope.kind is not Kind.ARRAY:
            continue
        end = _until_next(connection, event)
        lines = connection.agent_events_between(event.seq, end)
        arrays = [e for e in lines if e.envelope is not None and e.envelope.kind is Kind.ARRAY]
        empty = next((e for e in arrays if e.envelope is not None and not e.envelope.message), None)
        asked = {
            request_key(item.get("id"))
            for item in event.message
            if isinstance(item, dict) and "method" in item and "id" in item
        }
        own = any(request_key(e.message.get("id")) in asked for e in connection.strays_between(event.seq, end))
        if empty is not None:
            yield violation("an array was answered with an empty array", (event, "an array"), (empty, "its answer"))
        elif arrays or own:
            yield EXERCISED
        elif asked or not event.message:
            yield from _answer_owed(connection, event, (INVALID_REQUEST, PARSE_ERROR), "an array line")


@rule(
    "wire.invalid-params",
    SHOULD,
    says="Parameters of the wrong shape get -32602 and change nothing.",
    source="JSON-RPC 2.0; schema ErrorCode",
    exercised="a request with params that the schema forbids",
    proof="success, another code, or a dead connection",
    never="fields that the schema marks to default on error or on null, or to skip invalid items: leniency is their "
    "rule; an empty prompt, which an agent may reject",
)
def invalid_params(connection: Connection) -> Verdict:
    for request in connection.requests:
        if not has_bad_params(request) or _is_another_rules(request):
            continue
        if request.response is None:
            waited = connection.out_of_patience(request.event, answer_to=request)
            gone = connection.ended
            silence = waited or (gone if gone is not None and gone.name in ("exited", "disconnected") else None)
            if silence is not None and silence.seq > request.seq:
                yield violation(
                    f"{request.method} with wrong params was never answered",
                    (request.event, _what_is_wrong(request)),
                    (silence, "and it got no answer"),
                )
            continue
        yield EXERCISED
        if request.succeeded:
            yield violation(
                f"{request.method} with wrong params succeeded",
                (request.event, _what_is_wrong(request)),
                (request.response, "it succeeds"),
            )
        elif request.error_code not in (INVALID_PARAMS, -32000):
            if request.error_code == -32002:
                yield warning(
                    f"{request.method} with wrong params got -32002",
                    (request.event, _what_is_wrong(request)),
                    (request.response, "its answer"),
                )
            else:
                yield violation(
                    f"{request.method} with wrong params got {request.error_code}, not -32602",
                    (request.event, _what_is_wrong(request)),
                    (request.response, "its answer"),
                )


def _what_is_wrong(request: Request) -> str:
    problems = [p for p in params_problems(request.method, request.params, "client") if not p.is_lenient]
    return problems[0].message if problems else "its params are wrong"


def _is_another_rules(request: Request) -> bool:
    """Params about which other rules decide, or which an agent may take: an empty prompt, replay cursors,
    initialize."""
    params = request.params
    if request.method == "session/prompt" and isinstance(params, dict) and params.get("prompt") == []:
        return True
    return request.method == "initialize" or (
        request.method == "session/resume" and isinstance(params, dict) and "replayFrom" in params
    )


@rule(
    "wire.ends-with-stdin",
    SHOULD,
    says="The agent exits when its stdin is closed, and leaves no child behind.",
    source="docs 'Transports'",
    exercised="stdin closed",
    proof="still alive after the grace time; a process of its group still alive after it exited",
)
def ends_with_stdin(connection: Connection) -> Verdict:
    closed = next((control for control in connection.controls if control.name == "closed"), None)
    transport = (connection.started.control or {}).get("transport") if connection.started is not None else None
    if closed is None or transport not in (None, "stdio"):
        return
    for control in connection.controls_after(closed.seq):
        if control.name == "lingered":
            seconds = (control.control or {}).get("seconds")
            yield violation(
                f"still alive {seconds} s after stdin was closed", (closed, "stdin is closed"), (control, "it lives on")
            )
        elif control.name == "leftover":
            count = (control.control or {}).get("count")
            yield violation(
                f"left {count} processes behind",
                (closed, "stdin is closed"),
                (control, "they are alive after it exited"),
            )
        elif control.name == "exited":
            yield EXERCISED
