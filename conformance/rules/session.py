"""Sessions: the methods that come with them, their ids, and who may be told of them (schema SessionCapabilities; docs
'Session Setup').

Closing, listing and configuration have modules of their own.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from conformance.conversation import Connection, Conversation, Request
from conformance.conversation.announced import announced_sessions
from conformance.history import Event
from conformance.protocol.errors import ErrorCode, error_name
from conformance.rules.registry import EXERCISED, MUST, SHOULD, Verdict, not_applicable, rule, violation, warning
from conformance.wire import shown

BASELINE: Final = ("session/new", "session/list", "session/resume", "session/close", "session/prompt")
"""Requests that come with capabilities.session; session/cancel and session/update are notifications."""
NAMES_NO_OWN: Final = ("session/close", "session/delete")
"""Requests that may name a session without taking part in it."""


@rule(
    "session.baseline-methods",
    MUST,
    says="capabilities.session means session/new, list, resume, close, prompt, cancel and update all work.",
    source="schema SessionCapabilities",
    exercised="a baseline request to an agent that advertises capabilities.session",
    proof="-32601 to one of them",
    never="a request that was sent before initialize was answered",
)
def baseline_methods(connection: Connection) -> Verdict:
    if connection.initialized is None or connection.is_other_version:
        return
    if not connection.advertises("session"):
        yield not_applicable("the agent does not advertise capabilities.session")
        return
    told: set[str] = set()
    for request in connection.requests:
        if request.method not in BASELINE or request.response is None:
            continue
        initialized = connection.initialized_before(request.seq)
        if initialized is None or initialized.response is None or not _has_sessions(initialized):
            continue
        if request.error_code != ErrorCode.METHOD_NOT_FOUND:
            yield EXERCISED
        elif request.method not in told:
            told.add(request.method)
            yield violation(
                f"{request.method} is not found though capabilities.session is advertised",
                (initialized.response, "the agent advertises capabilities.session, which brings the baseline methods"),
                (request.event, f"the client calls {request.method}"),
                (request.response, "the agent does not know it"),
            )


def _has_sessions(initialized: Request) -> bool:
    capabilities = initialized.result.get("capabilities") if isinstance(initialized.result, dict) else None
    return isinstance(capabilities, dict) and isinstance(capabilities.get("session"), dict)


@rule(
    "session.unique-ids",
    MUST,
    says="session/new returns a non-empty id that no other session has.",
    source="docs 'Session ID'",
    exercised="two session/new",
    proof="an empty id, or one that another session had before: of an earlier session/new, a resume, or a list",
    never="the id of a deleted session; the same id from two processes that are not seen to share their sessions",
)
def unique_ids(conversation: Conversation) -> Verdict:
    created = [
        r for c in conversation.connections.values() for r in c.requests if r.method == "session/new" and r.succeeded
    ]
    if len(created) > 1:
        yield EXERCISED
    for store in stores(conversation):
        known: dict[str, tuple[Event, str]] = {}
        answered = [r for connection in store for r in connection.requests if r.succeeded]
        for request in sorted(answered, key=lambda request: request.answered_at):
            assert request.response is not None
            if request.method == "session/new":
                identifier = session_in(request.result)
                if identifier == "":
                    yield violation(
                        "a session got an empty id", (request.event, "session/new"), (request.response, "its answer")
                    )
                elif identifier is not None:
                    earlier = known.setdefault(identifier, (request.response, "a new session gets this id"))
                    if earlier[0] is not request.response and (earlier[0].seq < request.seq or "new" in earlier[1]):
                        yield violation(
                            f"a new session got the id {shown(identifier)}, which another session has",
                            earlier,
                            *(
                                [(request.event, "another session is asked for")]
                                if request.seq > earlier[0].seq
                                else []
                            ),
                            (request.response, "it gets the same id"),
                        )
            elif request.method == "session/delete":
                known.pop(request.session_id or "", None)
            elif request.method == "session/resume" and request.session_id is not None:
                known.setdefault(request.session_id, (request.response, "this session is resumed, so it is there"))
            elif request.method == "session/list":
                for identifier in listed_ids(request):
                    known.setdefault(identifier, (request.response, "this session is listed, so it is there"))


def stores(conversation: Conversation) -> Iterator[list[Connection]]:
    """Connections by the store of sessions that they surely have in common: one each, unless the profile says that all
    see one or, in a foreign recording, one resumes or lists what another created."""
    connections = list(conversation.connections.values())
    about = conversation.profile.get("sessions")
    about = about if isinstance(about, dict) else {}
    one_at_a_time = all(one.ended_at < _began(next_) for one, next_ in pairwise(connections))
    if about.get("shared") is True or (about.get("survives-restart") is True and one_at_a_time):
        yield connections
    elif conversation.is_driven:
        yield from ([connection] for connection in connections)
    else:
        yield from _seen_to_be_shared(connections)


def _seen_to_be_shared(connections: list[Connection]) -> Iterator[list[Connection]]:
    store = {connection.name: [connection] for connection in connections}
    home: dict[str, Connection] = {}  # sessionId -> the connection that created it first
    answered = (r for connection in connections for r in connection.requests if r.succeeded)
    for request in sorted(answered, key=lambda request: request.answered_at):
        if request.method == "session/new" and (created := session_in(request.result)) is not None:
            home.setdefault(created, request.connection)
        resumed = [request.session_id] if request.method == "session/resume" else []
        for identifier in listed_ids(request) if request.method == "session/list" else resumed:
            one = store[request.connection.name]
            other = store[home.get(identifier or "", request.connection).name]
            if one is not other:
                one += other
                store |= {connection.name: one for connection in other}
    yield from {id(one): one for one in store.values()}.values()


def _began(connection: Connection) -> int:
    firsts = [
        events[0].seq for events in (connection.controls, connection.client_events, connection.agent_events) if events
    ]
    return min(firsts, default=0)


def session_in(result: Any) -> str | None:
    """The sessionId of a result; None where there is none."""
    identifier = result.get("sessionId") if isinstance(result, dict) else None
    return identifier if isinstance(identifier, str) else None


def entries_in(request: Request) -> list[dict[str, Any]]:
    """The entries in the answer to a session/list."""
    entries = request.result.get("sessions") if isinstance(request.result, dict) else None
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def listed_ids(request: Request) -> Iterator[str]:
    """The ids in the answer to a session/list."""
    for entry in entries_in(request):
        if (identifier := session_in(entry)) is not None:
            yield identifier


@rule(
    "session.updates-of-known-sessions",
    MUST,
    says="Updates and requests name a session that this connection created, is creating, resumed or is resuming.",
    source="docs 'Session Setup'",
    exercised="an update",
    proof="a sessionId that this connection never had, or had not yet",
    never="updates that come before the session/new response that names their session; sessions that an update of a "
    "known session announced (subagents and forks of the unstable schema); sessions that the client itself named in a "
    "request; recordings that began after initialize",
)
def updates_of_known_sessions(connection: Connection) -> Verdict:
    if connection.is_other_version or not connection.shows_its_beginning:
        return
    first: dict[str, Event] = {}
    for view in connection.views.values():
        if view.updates:
            first[view.id] = view.updates[0].event
    for request in connection.agent_requests:
        if request.session_id is not None and (
            request.session_id not in first or request.seq < first[request.session_id].seq
        ):
            first[request.session_id] = request.event
    if first:
        yield EXERCISED
    known = connection.known_sessions
    strange = {
        identifier: event for identifier, event in first.items() if known.get(identifier, event.seq) >= event.seq
    }
    if not strange:
        return
    explained = _named_otherwise(connection)
    for identifier, event in sorted(strange.items(), key=lambda item: item[1].seq):
        if explained.get(identifier, float("inf")) < event.seq or _may_be_new(connection, event):
            continue
        yield violation(
            f"the agent names the session {shown(identifier)}, which this connection never had"
            + (" before" if identifier in known else ""),
            (connection.initializes[0].event, "the connection begins"),
            (event, "no session/new or session/resume of this connection is about this session"),
        )


def _named_otherwise(connection: Connection) -> dict[str, int]:
    """Session ids that the client named in a request, or that the agent announced, with the position where that was
    first done."""
    named: dict[str, int] = {}
    for request in connection.requests:
        if request.session_id is not None and request.method not in NAMES_NO_OWN:
            named.setdefault(request.session_id, request.seq)
        if request.response is not None and request.method != "session/list":
            for identifier in announced_sessions(request.result):
                named.setdefault(identifier, request.seq)  # as session/fork does, which is creating it
    for event in (*connection.agent_notifications, *(request.event for request in connection.agent_requests)):
        params = event.message.get("params")
        for part in params.values() if isinstance(params, dict) else ():
            for identifier in announced_sessions(part):
                named[identifier] = min(event.seq, named.get(identifier, event.seq))
    return named


def _may_be_new(connection: Connection, event: Event) -> bool:
    """Whether it may be about a session that a request was creating whose answer does not tell an id."""
    return any(
        r.method in ("session/new", "session/fork")
        and r.seq < event.seq < r.answered_at
        and session_in(r.result) is None
        for r in connection.requests
    )


@rule(
    "session.unknown-session",
    SHOULD,
    says="A request that names an unknown or closed session gets an error (-32002).",
    source="schema SessionNotFoundErrorData",
    exercised="session/prompt, session/resume or session/set_config_option with an id that never existed, or with one "
    "that was closed (resume excepted)",
    proof="success (a failure), or another code (a warning)",
    never="a session that another client resumed meanwhile; in a recording that the suite did not drive, an id of an "
    "unknown past",
)
def unknown_session(conversation: Conversation) -> Verdict:
    there = sessions_there(conversation) if conversation.is_driven else set()
    for connection in conversation.connections.values():
        if connection.is_other_version:
            continue
        for request in connection.requests:
            if request.method not in ("session/prompt", "session/resume", "session/set_config_option"):
                continue
            if request.session_id is None or request.response is None:
                continue
            closed = closed_before(request) if request.method != "session/resume" else None
            never = request.session_id not in there and conversation.is_driven
            if closed is None and not never:
                continue
            proof = [
                *([(closed, "the session was closed on this connection")] if closed is not None else []),
                (
                    request.event,
                    f"{request.method} names {'the closed' if closed is not None else 'a'} session "
                    f"{shown(request.session_id)}",
                ),
            ]
            if request.succeeded:
                why = "was closed" if closed is not None else "never existed"
                yield violation(
                    f"{request.method} succeeds for a session that {why}", *proof, (request.response, "it succeeds")
                )
            elif request.error_code not in (ErrorCode.RESOURCE_NOT_FOUND, *_OTHER_REASONS):
                code = error_name(request.error_code) if request.error_code is not None else "an error without a code"
                yield warning(
                    f"{request.method} for a session that is not there gets {code}",
                    *proof,
                    (request.response, "not -32002"),
                )
            else:
                yield EXERCISED


_OTHER_REASONS: Final = (ErrorCode.METHOD_NOT_FOUND, ErrorCode.AUTHENTICATION_REQUIRED)


def sessions_there(conversation: Conversation) -> set[str]:
    """Ids of sessions that the history shows to exist: created, listed or announced, on any connection."""
    there: set[str] = set()
    for connection in conversation.connections.values():
        for request in connection.requests:
            if request.succeeded:
                there.update(announced_sessions(request.result))
        for event in connection.strays:
            there.update(announced_sessions(event.message))
        for event in connection.agent_notifications:
            params = event.message.get("params")
            for part in params.values() if isinstance(params, dict) else ():
                there.update(announced_sessions(part))
    return there


def closed_before(request: Request) -> Event | None:
    """The close response after which this session was not active on the connection of `request` when that was sent;
    None where it was active, or nobody closed it, or somebody opened it again."""
    session = request.connection.conversation.sessions.get(request.session_id or "")
    if session is None:
        return None
    own = (c for c in reversed(session.closes_before(request.seq)) if c.connection is request.connection)
    last = next((c for c in own if c.succeeded and c.answered_at < request.seq), None)
    if last is None or last.response is None:
        return None
    closed = last.response
    for view in session.views:
        created = view.created.answered_at if view.created is not None else -1.0
        resumed = view.replay_after(closed.seq)
        if closed.seq < created < request.answered_at or (resumed is not None and resumed.seq < request.answered_at):
            return None
    return closed


@rule(
    "session.unsupported-mcp-rejected",
    MUST,
    says="An MCP transport that the agent does not support is rejected with -32602.",
    source="schema McpServer",
    exercised="session/new or session/resume with an unadvertised or unknown transport",
    proof="success or another code",
    never="a refusal for another reason, such as a missing login; in a recording that the suite did not drive, an "
    "underscore-prefixed transport, and another code unless the same request without the server succeeds",
)
def unsupported_mcp_rejected(connection: Connection) -> Verdict:
    for request in connection.requests:
        if (
            request.method not in ("session/new", "session/resume")
            or request.response is None
            or connection.is_other_version
        ):
            continue
        initialized = connection.initialized_before(request.seq)
        kinds = unsupported_transports(connection, request)
        if not kinds or initialized is None or initialized.response is None:
            continue
        proof = (
            (initialized.response, f"the agent does not advertise the MCP transport {shown(kinds[0])}"),
            (request.event, f"{request.method} names a server of that transport"),
        )
        if request.succeeded:
            yield violation(
                f"an MCP server of the transport {shown(kinds[0])} is accepted",
                *proof,
                (request.response, "it succeeds"),
            )
        elif request.error_code == ErrorCode.INVALID_PARAMS:
            yield EXERCISED
        elif request.error_code not in _OTHER_REASONS and request.method == "session/new":
            code = error_name(request.error_code) if request.error_code is not None else "an error without a code"
            works = _works_without(connection, request, kinds)
            finding = violation if connection.conversation.is_driven or works is not None else warning
            yield finding(
                f"an MCP server of an unsupported transport is refused with {code}",
                *proof,
                (request.response, "not -32602"),
                *([(works.response, "without it, session/new succeeds")] if works and works.response else []),
            )


def _works_without(connection: Connection, request: Request, kinds: list[str]) -> Request | None:
    """A later session/new that differs in naming no such server, and succeeds: nothing else was wrong, where the first
    named no other servers."""
    if len(kinds) < len(request.params["mcpServers"]):
        return None
    rest = {key: value for key, value in request.params.items() if key != "mcpServers"}
    for later in connection.requests_after(request.seq):
        if later.method == "session/new" and later.succeeded and isinstance(later.params, dict):
            is_same = {key: value for key, value in later.params.items() if key != "mcpServers"} == rest
            if is_same and not unsupported_transports(connection, later) and later.answered_at > request.answered_at:
                return later
    return None


def unsupported_transports(connection: Connection, request: Request) -> list[str]:
    """Types of MCP servers in the request that the agent did not advertise. Of custom types only the suite's own are
    surely unknown."""
    servers = request.params.get("mcpServers") if isinstance(request.params, dict) else None
    kinds = [server.get("type") for server in servers if isinstance(server, dict)] if isinstance(servers, list) else []
    return [
        kind
        for kind in kinds
        if isinstance(kind, str)
        and connection.leaves_out(f"session.mcp.{kind}")
        and (not kind.startswith("_") or connection.conversation.is_driven)
    ]
