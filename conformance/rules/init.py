"""Initialization: the version that is agreed on, who the agent is, what it can do, how one logs in (schema
InitializeResponse)."""

from collections import Counter
from typing import Any, Final

from conformance.conversation import Connection, Request, whole_number
from conformance.protocol.errors import ErrorCode, error_name
from conformance.protocol.validation import params_problems, result_problems
from conformance.rules.registry import EXERCISED, MUST, Verdict, not_applicable, rule, violation, warning
from conformance.wire import shown

EARLIEST: Final = 1
LATEST: Final = 2
MARKERS: Final = (
    "session",
    "session.prompt",
    "session.prompt.image",
    "session.prompt.audio",
    "session.prompt.embeddedContext",
    "session.mcp",
    "session.mcp.stdio",
    "session.mcp.http",
    "session.delete",
    "session.additionalDirectories",
    "auth",
)
"""Paths of the markers under `capabilities` (schema AgentCapabilities and below)."""


@rule(
    "init.version",
    MUST,
    says="The requested version if supported; else the latest supported version not above it, or error -32022 with "
    "the supported list when there is none.",
    source="schema ErrorCode -32022 and UnsupportedProtocolVersionErrorData; docs 'Version Negotiation' (August) "
    "answered the latest version instead of an error",
    exercised="an answered initialize",
    proof="the unsupported number echoed; a version above the requested one; for 1 anything but 1, 2 (August text) or "
    "-32022 whose data has requested and supported, all that the agent agrees on among them; a version or an error "
    "or an end of the agent though it showed that it supports a better one",
    never="version 2 for a request of 1 or 0, as the August text had it: a warning; an older version from an agent "
    "that has no newer one",
)
def version(connection: Connection) -> Verdict:
    for request in connection.initializes:
        asked = version_in(request.params)
        if asked is None:
            continue
        if request.response is None:
            yield from _ended_at_version(request, asked)
            continue
        yield EXERCISED
        if request.succeeded:
            yield from _answered_version(request, asked)
        elif not _is_late(request):
            yield from _refused_version(request, asked)


def version_in(value: Any) -> int | None:
    """The protocolVersion of initialize params or of their result; None where it is no integer."""
    return whole_number(value.get("protocolVersion")) if isinstance(value, dict) else None


def _answered_version(request: Request, asked: int) -> Verdict:
    assert request.response is not None
    given = version_in(request.result)
    proof = (
        (request.event, f"the client asks for version {asked}"),
        (request.response, f"the agent answers version {given}"),
    )
    if given is None:
        value = request.result.get("protocolVersion", "absent") if isinstance(request.result, dict) else "absent"
        stands = value if value == "absent" else shown(value)
        yield violation(
            f"the answer's protocolVersion is {stands}, must be an integer", proof[0], (request.response, "this answer")
        )
    elif given > asked and given == LATEST:
        yield warning(
            f"version {asked} was asked for and {given} answered: the August text; now an error -32022 is due", *proof
        )
    elif given > asked:
        yield violation(f"version {asked} was asked for and {given} answered, which is above it", *proof)
    elif given > LATEST:
        yield violation(f"version {given} is answered, and there is no such version: the number was echoed", *proof)
    elif given < min(asked, EARLIEST):
        yield violation(f"version {given} is answered, and there is none before {EARLIEST}", *proof)
    elif given < asked and (better := _supports(request, given + 1, asked, of=_info(request))) is not None:
        other = f"asked for {version_in(better.params)}, the same agent answers {version_in(better.result)}"
        yield violation(
            f"version {given} is answered though the agent supports a later one that is not above {asked}",
            *sorted([*proof, (better.response or better.event, other)], key=lambda part: part[0].seq),
        )


def _refused_version(request: Request, asked: int) -> Verdict:
    assert request.response is not None
    asks, refuses = (request.event, f"the client asks for version {asked}"), (request.response, "the agent refuses")
    code = request.error_code
    if code == ErrorCode.UNSUPPORTED_PROTOCOL_VERSION:
        data = request.error.get("data") if isinstance(request.error, dict) else None
        data = data if isinstance(data, dict) else {}
        listed = data.get("supported")
        supported = [whole_number(entry) for entry in listed] if isinstance(listed, list) else [None]
        if whole_number(data.get("requested")) != asked or None in supported:
            yield violation(
                "error -32022 without the data that says what was requested and what is supported", asks, refuses
            )
        elif any(entry is not None and entry <= asked for entry in supported):
            yield violation(
                f"error -32022 though the agent supports a version that is not above {asked}", asks, refuses
            )
        elif (other := _supports(request, asked + 1, LATEST)) and version_in(other.result) not in supported:
            left_out = (other.response or other.event, f"it agrees on version {version_in(other.result)}, not listed")
            yield violation(
                "error -32022 with a list that leaves out a version which the agent supports",
                *sorted([asks, refuses, left_out], key=lambda part: part[0].seq),
            )
        return
    if asked == LATEST or params_problems("initialize", request.params, "client"):
        return  # a failure of another kind
    better = _supports(request, 0, asked)
    named = error_name(code) if code is not None else "an error without a code"
    if better is not None and better.response is not None:
        proof = [
            asks,
            refuses,
            (better.response, f"the agent supports version {version_in(better.result)}, which is not above {asked}"),
        ]
        yield violation(
            f"version {asked} is refused though the agent supports an earlier one",
            *sorted(proof, key=lambda p: p[0].seq),
        )
    elif asked < LATEST:
        yield violation(
            f"version {asked} is refused with {named}; a version that is not supported gets -32022", asks, refuses
        )
    else:
        yield warning(f"version {asked} is refused with {named}", asks, refuses)


def _ended_at_version(request: Request, asked: int) -> Verdict:
    """Whether the agent ended by itself instead of answering, and does answer another version."""
    ended = request.connection.ended
    better = _supports(request, 0, LATEST)
    if ended is None or better is None or better.response is None or asked == LATEST or _is_late(request):
        return
    alone = request.connection.last_client_line_before(ended.seq) is request.event
    if alone and (ended.name == "disconnected" or (ended.control or {}).get("by_itself") is True):
        yield violation(
            f"the agent ended at an initialize that asks for version {asked}, which must be answered",
            *sorted(
                [
                    (request.event, f"the client asks for version {asked}"),
                    (ended, "the agent ends"),
                    (better.response, f"another initialize is answered with version {version_in(better.result)}"),
                ],
                key=lambda part: part[0].seq,
            ),
        )


def _is_late(request: Request) -> bool:
    """Whether it repeats initialize after another request, which the client may not do: anything may answer it."""
    first = next((other for other in request.connection.requests if other.method != "initialize"), None)
    return first is not None and first.seq < request.seq


def _info(request: Request) -> Any:
    return request.result.get("info") if isinstance(request.result, dict) else None


def _supports(request: Request, least: int, most: int, *, of: Any = None) -> Request | None:
    """Another initialize that the same agent answered with a version between the two, both included. Where `of` is
    given, the agent is known by its info."""
    conversation = request.connection.conversation
    agreed = [found for given, found in conversation.agreed_on.items() if least <= given <= min(most, LATEST)]
    for other in (other for found in agreed for other in found):
        asked = version_in(other.params)
        if other is request or asked is None or (version_in(other.result) or 0) > asked:
            continue
        if other.connection is request.connection or (of is not None and _info(other) == of):
            return other
        if of is None and conversation.is_driven:
            return other
    return None


def _problems_at(field: str, result: Any) -> list[str]:
    """What is wrong in one field of the answer; metadata is wire.valid-shape's."""
    problems = result_problems("initialize", result)
    return [p.message for p in problems if p.path.startswith(field) and not p.path.endswith("_meta")]


def _speaks_version_1(request: Request) -> bool:
    given = version_in(request.result)
    return given is not None and given < LATEST


@rule(
    "init.info",
    MUST,
    says="info with name and version is present.",
    source="schema InitializeResponse",
    exercised="a successful initialize",
    proof="info is absent or malformed",
    never="an agent that answers version 1, where it is optional and named agentInfo",
)
def info(connection: Connection) -> Verdict:
    for request in connection.initializes:
        if request.response is None or not request.succeeded or _speaks_version_1(request):
            continue
        yield EXERCISED
        result = request.result if isinstance(request.result, dict) else {}
        if "info" not in result:
            yield violation(
                "the answer to initialize has no info", (request.event, "initialize"), (request.response, "its answer")
            )
            continue
        problems = _problems_at("info", result)
        if problems:
            yield violation(problems[0], (request.event, "initialize"), (request.response, "; ".join(problems[:3])))


@rule(
    "init.capability-markers",
    MUST,
    says="Capabilities are object markers, never booleans.",
    source="schema AgentCapabilities",
    exercised="a successful initialize",
    proof="a known marker that is neither absent, null nor an object",
    never="an agent that answers version 1, which had booleans; fields under _meta",
)
def capability_markers(connection: Connection) -> Verdict:
    for request in connection.initializes:
        if request.response is None or not request.succeeded or _speaks_version_1(request):
            continue
        yield EXERCISED
        result = request.result if isinstance(request.result, dict) else {}
        wrong = wrong_markers(result.get("capabilities"))
        if wrong:
            yield violation(
                "; ".join(wrong), (request.event, "initialize"), (request.response, "these markers are no objects")
            )


def wrong_markers(capabilities: Any) -> list[str]:
    """In words, what is neither absent, null nor an object where the protocol has a marker."""
    if capabilities is not None and not isinstance(capabilities, dict):
        return [f"capabilities is {shown(capabilities)}, must be an object"]
    wrong = []
    for path in MARKERS:
        here: Any = capabilities
        for name in path.split("."):
            here = here.get(name) if isinstance(here, dict) else None
        if here is not None and not isinstance(here, dict):
            wrong.append(f"capabilities.{path} is {shown(here)}, must be an object")
    return wrong


@rule(
    "init.auth-methods",
    MUST,
    says="Auth methods have unique ids and known or underscore-prefixed types; terminal methods appear only if the "
    "client enabled them; a non-empty list means auth/login and auth/logout exist.",
    source="schema InitializeResponse, AuthMethodTerminal",
    exercised="a non-empty authMethods",
    proof="a repeated id; a malformed method; a type that is neither known nor underscore-prefixed; a terminal method "
    "though the client did not enable it; -32601 to auth/logout, or to auth/login with an advertised method of type "
    "agent",
    never="auth/login with a terminal or custom method, or with an id that was not advertised",
)
def auth_methods(connection: Connection) -> Verdict:
    advertised = [
        r for r in connection.initializes if r.succeeded and not _speaks_version_1(r) and _has_auth_methods(r)
    ]
    if not advertised and connection.initialized is not None and not connection.is_other_version:
        yield not_applicable("the agent advertises no authMethods")
    for request in advertised:
        yield EXERCISED
        assert request.response is not None
        for fault in _faults_of_methods(request):
            yield violation(
                fault, (request.event, "initialize"), (request.response, "its answer advertises these methods")
            )
    for request in connection.requests if advertised else ():
        if request.method not in ("auth/login", "auth/logout") or request.error_code != ErrorCode.METHOD_NOT_FOUND:
            continue
        latest = connection.initialized_before(request.seq)
        if latest is None or latest.response is None or request.response is None or not auth_methods_of(latest):
            continue
        agents = [entry.get("methodId") for entry in auth_methods_of(latest) if entry.get("type") == "agent"]
        chosen = request.params.get("methodId") if isinstance(request.params, dict) else None
        if request.method == "auth/logout" or chosen in agents:
            yield violation(
                f"{request.method} is not found though authMethods are advertised",
                (latest.response, "the agent advertises authMethods"),
                (request.event, f"the client calls {request.method}"),
                (request.response, "the agent does not know it"),
            )


def auth_methods_of(request: Request) -> list[dict[str, Any]]:
    """The objects in the authMethods of a successful initialize."""
    listed = request.result.get("authMethods") if isinstance(request.result, dict) else None
    return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []


def _has_auth_methods(request: Request) -> bool:
    return isinstance(request.result, dict) and request.result.get("authMethods", []) != []


def _faults_of_methods(request: Request) -> list[str]:
    methods = auth_methods_of(request)
    faults = _problems_at("authMethods", request.result)[:3]
    ids = Counter(entry["methodId"] for entry in methods if isinstance(entry.get("methodId"), str))
    faults += [
        f"the auth method id {shown(name)} stands there {count} times" for name, count in ids.items() if count > 1
    ]
    kinds = {entry["type"] for entry in methods if isinstance(entry.get("type"), str)}
    faults += [
        f"the auth method type {shown(kind)} is neither known nor has it a leading underscore"
        for kind in sorted(kinds)
        if kind not in ("agent", "terminal") and not kind.startswith("_")
    ]
    if "terminal" in kinds and not _enables_terminals(request):
        faults.append("an auth method of type terminal, which the client did not enable")
    return faults


def _enables_terminals(request: Request) -> bool:
    capabilities = request.params.get("capabilities") if isinstance(request.params, dict) else None
    auth = capabilities.get("auth") if isinstance(capabilities, dict) else None
    return isinstance(auth, dict) and auth.get("terminal") not in (None, False)
