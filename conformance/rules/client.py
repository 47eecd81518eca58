"""What a recording alone tells of a client: whether it keeps to what the agent offers, and answers what the agent
takes back."""

from collections.abc import Iterator
from typing import Any, Final

from conformance.conversation import Connection, Permission, Request, Update
from conformance.protocol.errors import ErrorCode
from conformance.rules.init import auth_methods_of
from conformance.rules.paths import is_absolute
from conformance.rules.refusal import ADVERTISED_BY
from conformance.rules.registry import EXERCISED, MUST, Finding, Verdict, rule, violation, warning
from conformance.wire import shown

CROSSING: Final = 1.0  # seconds within which an answer may have crossed the withdrawal on its way
SESSION_METHODS: Final = (
    "session/new",
    "session/list",
    "session/resume",
    "session/close",
    "session/prompt",
    "session/delete",
    "session/set_config_option",
)


@rule(
    "client.respects-capabilities",
    MUST,
    by="client",
    says="It initializes first, sends only content, methods and fields the agent advertised, never an empty prompt, "
    "absolute paths.",
    source="schema PromptRequest; docs 'Initialization'",
    exercised="a request after initialize",
    proof="a request before initialize was answered; a content block, method, field or MCP transport that the agent "
    "did not advertise; an empty prompt; a relative path; auth/login with a method that the agent did not advertise "
    "or that is of type terminal",
    never="extensions; an agreed version 1; a capability that the agent advertised in a wrong form; recordings that "
    "began after initialize",
)
def respects_capabilities(connection: Connection) -> Verdict:
    if connection.conversation.has_scripted_client:
        return
    yield from _initializes_first(connection)
    for request in connection.requests:
        initialized = connection.initialized_before(request.seq)
        if request.method == "initialize" or initialized is None or connection.is_other_version:
            continue
        yield EXERCISED
        fault = next(_faults(request, initialized), None)
        if fault is not None and initialized.response is not None:
            yield violation(
                fault,
                (initialized.response, "what the agent offers"),
                (request.event, f"{request.method} of the client"),
            )


def _initializes_first(connection: Connection) -> Iterator[Finding]:
    early = next(
        (r for r in connection.requests if r.method != "initialize" and not r.method.startswith(("_", "$/"))), None
    )
    if early is None or connection.is_other_version:
        return
    first = next(iter(connection.initializes), None)
    if first is None:
        finding = violation if connection.started is not None else warning
        yield finding(
            f"{early.method} without any initialize", (early.event, "the client calls this, and never initialized")
        )
    elif early.seq < first.seq:
        finding = violation if connection.shows_its_beginning or _is_the_first(early) else warning
        yield finding(
            f"{early.method} comes before initialize",
            (early.event, "the client calls this"),
            (first.event, "and initializes only now"),
        )
    elif (
        not any(not r.failed and r.answered_at < early.seq for r in connection.initializes)
        and not any(first.seq < stray.seq < early.seq for stray in connection.strays)  # an answer, under a wrong id
        and not connection.unread_between(first.seq, early.seq)
    ):
        is_heard = bool(connection.agent_events) or connection.started is not None or connection.conversation.is_driven
        finding = violation if is_heard else warning  # the recording may have the client's lines alone
        yield finding(
            f"{early.method} is sent before initialize was answered with success",
            (first.event, "the client initializes"),
            (early.event, "and does not wait for the answer, which tells the version and what the agent can do"),
        )


def _is_the_first(request: Request) -> bool:
    """Whether nothing in the recording came before it, and it needs nothing that came before."""
    connection = request.connection
    is_first = connection.client_events[0] is request.event and connection.last_line_before(request.seq) is None
    return is_first and request.session_id is None


def _faults(request: Request, initialized: Request) -> Iterator[str]:
    """In words, what this request has that the agent did not offer."""
    params = request.params if isinstance(request.params, dict) else {}
    yield from _unoffered_methods(request, initialized, params)
    if request.method == "session/prompt":
        blocks = params.get("prompt")
        if blocks == []:
            yield "a prompt with no content block"
        for block in blocks if isinstance(blocks, list) else ():
            kind = block.get("type") if isinstance(block, dict) else None
            if (
                isinstance(kind, str)
                and kind in ADVERTISED_BY
                and not offers(initialized, f"session.prompt.{ADVERTISED_BY[kind]}")
            ):
                yield f"a prompt with a block of type {kind}, which the agent did not advertise"
    if request.method in ("session/new", "session/resume", "session/list"):
        yield from _places(initialized, params)


def offers(initialized: Request, path: str) -> bool:
    """Whether the agent advertised a capability in any form: a wrong marker is the agent's fault, not the client's."""
    here: Any = initialized.result.get("capabilities") if isinstance(initialized.result, dict) else None
    for name in path.split("."):
        here = here.get(name) if isinstance(here, dict) else True if here is True else None
    return here not in (None, False)


def _unoffered_methods(request: Request, initialized: Request, params: dict[str, Any]) -> Iterator[str]:
    method = request.method
    if method in SESSION_METHODS and not offers(initialized, "session"):
        yield f"{method} although the agent did not advertise capabilities.session"
    elif method == "session/delete" and not offers(initialized, "session.delete"):
        yield "session/delete although the agent did not advertise session.delete"
    elif method in ("auth/login", "auth/logout"):
        methods = auth_methods_of(initialized)
        kinds = [entry.get("type") for entry in methods if entry.get("methodId") == params.get("methodId")]
        if not methods:
            yield f"{method} although the agent advertised no authMethods"
        elif method == "auth/login" and not kinds:
            yield f"auth/login with the method {shown(params.get('methodId'))}, which the agent did not advertise"
        elif method == "auth/login" and all(kind == "terminal" for kind in kinds):
            yield "auth/login with a method of type terminal, which is not the protocol's to run"
    elif method in ("tool_call/cancel", "terminal/cancel") and not _may_cancel(request, params):
        yield f"{method} although capabilities.cancel was never advertised for it"


def _may_cancel(request: Request, params: dict[str, Any]) -> bool:
    """Whether the tool call or terminal ever advertised that it can be cancelled (that it no longer does may have
    crossed)."""
    session = request.connection.conversation.sessions.get(request.session_id or "")
    updates: list[Update] = []
    for view in session.views if session is not None else ():  # a client that comes back knows what it was told before
        if request.method == "tool_call/cancel":
            call = view.tool_calls.get(str(params.get("toolCallId")))
            updates += [step.update for step in call.steps] if call is not None else []
        else:
            terminal = view.terminals.get(str(params.get("terminalId")))
            updates += terminal.updates if terminal is not None else []
    offered = (u.body.get("capabilities") for u in updates if u.seq < request.seq)
    return any(isinstance(found, dict) and found.get("cancel") not in (None, False) for found in offered)


def _places(initialized: Request, params: dict[str, Any]) -> Iterator[str]:
    """Relative paths, and roots and servers that the agent did not say it takes."""
    more = params.get("additionalDirectories")
    if isinstance(more, list) and more and not offers(initialized, "session.additionalDirectories"):
        yield "additionalDirectories although the agent did not advertise them"
    for path in (params.get("cwd"), *(more if isinstance(more, list) else ())):
        if isinstance(path, str) and not is_absolute(path):
            yield f"the path {shown(path)}, which is not absolute"
    servers = params.get("mcpServers")
    for server in servers if isinstance(servers, list) else ():
        kind = server.get("type") if isinstance(server, dict) else None
        if kind in ("stdio", "http") and not offers(initialized, f"session.mcp.{kind}"):
            yield f"an MCP server of the transport {kind}, which the agent did not advertise"
        command = server.get("command") if kind == "stdio" else None
        if isinstance(command, str) and not is_absolute(command):
            yield f"the MCP server command {shown(command)}, which is no absolute path"


@rule(
    "client.cancel-answers-permissions",
    MUST,
    by="client",
    says="After session/cancel each pending permission request is answered with the cancelled outcome.",
    source="docs 'Cancellation'; schema RequestPermissionRequest",
    exercised="a cancel with permission requests pending, withdrawn by the agent",
    proof="unanswered although the client went on for longer than the patience, or another outcome well after the "
    "withdrawal",
    never="error -32800, which the August text showed: a warning; an answer that crossed the withdrawal; a request "
    "that the agent did not take back, which the client need not answer for the user",
)
def cancel_answers_permissions(permission: Permission) -> Verdict:
    request, withdrawn = permission.request, permission.withdrawn
    connection = request.connection
    if connection.conversation.has_scripted_client or withdrawn is None or withdrawn.seq > request.answered_at:
        return
    stops = permission.view.session.stops_between(permission.seq, withdrawn.seq)
    if not stops:
        return
    asked, stopped = (request.event, "the agent asks for permission"), (stops[0], "the session is cancelled")
    taken_back = (withdrawn, "the agent takes the request back")
    if permission.answer is None:
        waited = connection.client_out_of_patience(withdrawn, answer_to=request)
        if waited is not None:
            on = (waited, f"{waited.t - withdrawn.t:.0f} s later the client goes on, and has not answered")
            yield violation("a permission request of cancelled work was never answered", asked, stopped, taken_back, on)
        return
    yield EXERCISED
    if permission.outcome.get("outcome") == "cancelled":
        return
    answered = (permission.answer, "the client answers otherwise than with the cancelled outcome")
    if request.error_code == ErrorCode.REQUEST_CANCELLED:
        yield warning(
            "a permission request of cancelled work was answered with error -32800",
            asked,
            stopped,
            taken_back,
            answered,
        )
    elif permission.answer.t - withdrawn.t < CROSSING:
        yield warning("a permission request was answered while it was taken back", asked, stopped, taken_back, answered)
    else:
        yield violation(
            "a permission request of cancelled work was not answered as cancelled", asked, stopped, taken_back, answered
        )
