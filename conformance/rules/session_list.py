"""Listing and deleting sessions (schema ListSessionsResponse, DeleteSessionRequest; docs 'Session List', 'Session
Delete')."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from conformance.conversation import Connection, Conversation, Request, View
from conformance.history import Event
from conformance.protocol.errors import ErrorCode, error_name
from conformance.rules.paths import is_absolute, is_same, normal
from conformance.rules.registry import EXERCISED, MUST, Finding, Verdict, not_applicable, rule, violation, warning
from conformance.rules.session import entries_in, listed_ids, session_in, stores
from conformance.wire import shown

ROUNDS = 3  # pages in a row that hold nothing new: the list goes round
EMPTY = 10  # pages in a row that hold nothing, where no folder is asked for: the list goes past its end


@rule(
    "session.list",
    MUST,
    says="session/list returns an array of sessions with absolute cwd, filtered by cwd when asked, pages that end.",
    source="docs 'Session List'; schema ListSessionsResponse",
    exercised="a successful session/list",
    proof="no array; an entry of another cwd; a relative path; a cursor that stood before in the same list; page "
    "after page with nothing new",
    never="an empty string as a cursor; a cwd that normalising makes equal, or under which the agent lists what "
    "was made with the one that was asked for; the same page asked for again by the "
    "client",
)
def session_list(connection: Connection) -> Verdict:
    pages = _Pages()
    for request in connection.requests:
        if request.method != "session/list" or not request.succeeded or request.response is None:
            continue
        yield EXERCISED
        asked = (request.event, "the client lists sessions")
        result = request.result if isinstance(request.result, dict) else {}
        if not isinstance(result.get("sessions"), list):
            yield violation(
                "session/list is answered without an array of sessions", asked, (request.response, "its answer")
            )
            continue
        entries = [entry for entry in result["sessions"] if isinstance(entry, dict)]
        wrong = next((path for path in _paths(entries) if not is_absolute(path)), None)
        if wrong is not None:
            yield violation(
                f"a session is listed with the path {shown(wrong)}, which is not absolute",
                asked,
                (request.response, "its answer"),
            )
        yield from _filtered(request, entries)
        repeated = pages.turn(request, result.get("nextCursor"))
        if repeated is not None:
            yield repeated


def _paths(entries: list[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        more = entry.get("additionalDirectories")
        for path in (entry.get("cwd"), *(more if isinstance(more, list) else ())):
            if isinstance(path, str):
                yield path


def _filtered(request: Request, entries: list[dict[str, Any]]) -> Iterator[Finding]:
    wanted = request.params.get("cwd") if isinstance(request.params, dict) else None
    if not isinstance(wanted, str) or not is_absolute(wanted) or request.response is None:
        return
    listed = (e["cwd"] for e in entries if isinstance(e.get("cwd"), str) and is_absolute(e["cwd"]))
    others = [cwd for cwd in listed if not is_same(cwd, wanted)]
    names = _names_of_places(request.connection.conversation) if others else {}
    other = next((cwd for cwd in others if names.get(normal(cwd)) != normal(wanted)), None)
    if other is not None:
        yield violation(
            f"sessions of {shown(wanted)} were asked for, and one of {shown(other)} is listed",
            (request.event, f"the client asks for sessions of {shown(wanted)} only"),
            (request.response, f"a session of {shown(other)} stands in the answer"),
        )


def _names_of_places(conversation: Conversation) -> dict[str, str]:
    """Path under which sessions are listed -> the one with which all of those were made that this history made: a link
    and what it leads to, a short name of Windows and the long one."""
    requests = [request for c in conversation.connections.values() for request in c.requests if request.succeeded]
    made = {
        session_in(r.result): r.params["cwd"]
        for r in requests
        if r.method == "session/new" and isinstance(r.params, dict) and isinstance(r.params.get("cwd"), str)
    }
    found: dict[str, set[str]] = {}
    for request in requests:
        for entry in entries_in(request) if request.method == "session/list" else ():
            cwd, identifier = entry.get("cwd"), session_in(entry)
            if isinstance(cwd, str) and identifier is not None and identifier in made:
                found.setdefault(normal(cwd), set()).add(normal(made[identifier]))
    return {listed: next(iter(names)) for listed, names in found.items() if len(names) == 1}


@dataclass(slots=True)
class _Chain:
    """One list read page by page: each cursor with the page that it leads to, the ids so far, pages in a row without a
    new one, and without any."""

    places: dict[str, tuple[int, Event]] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    pages: int = 1
    rounds: int = 0
    empty: int = 0


class _Pages:
    """The lists that a connection reads. A cursor belongs to the list that offered it last."""

    def __init__(self) -> None:
        self._offered: dict[str, tuple[_Chain, int]] = {}

    def turn(self, request: Request, following: Any) -> Finding | None:
        """Takes one more page; a finding where its nextCursor leads back."""
        cursor = request.params.get("cursor") if isinstance(request.params, dict) else None
        chain, page = self._offered.get(cursor, (_Chain(), 0)) if isinstance(cursor, str) else (_Chain(), 0)
        if not isinstance(following, str) or request.response is None:
            return None
        ids = set(listed_ids(request))
        is_further = page == chain.pages - 1 or page == 0
        chain.rounds = chain.rounds + 1 if ids and ids <= chain.ids and is_further and page > 0 else 0
        chain.empty = chain.empty + 1 if not ids and is_further else 0
        chain.ids |= ids
        back = chain.places.get(following)
        if back is not None and back[0] <= page:
            return violation(
                f"the cursor {shown(following)} comes again: the pages never end",
                (back[1], f"nextCursor {shown(following)} is offered"),
                (request.event, "the client reads on"),
                (request.response, f"nextCursor {shown(following)} is offered again"),
            )
        if chain.rounds >= ROUNDS:
            return violation(
                f"{chain.rounds} pages in a row hold nothing new and still offer a cursor: the pages never end",
                (request.event, "the client reads on"),
                (request.response, "again all that it holds was listed before"),
            )
        if chain.empty >= EMPTY and not _asks_for_folder(request):
            return violation(
                f"{chain.empty} pages in a row are empty and still offer a cursor: the pages never end",
                (request.event, "the client reads on"),
                (request.response, "again nothing, and a cursor"),
            )
        chain.places.setdefault(following, (page + 1, request.response))
        chain.pages = max(chain.pages, page + 2)
        self._offered[following] = (chain, page + 1)
        return None


def _asks_for_folder(request: Request) -> bool:
    """Whether sessions of one folder are asked for: pages of others may come out empty."""
    return isinstance(request.params, dict) and request.params.get("cwd") is not None


@rule(
    "session.delete",
    MUST,
    says="A deleted session is gone from session/list; deleting it again succeeds (should).",
    source="docs 'Session Delete'",
    exercised="a successful session/delete, then session/list, also by another client of the same sessions",
    proof="still listed; or -32601 to session/delete though session.delete is advertised",
    never="a session that was active when it was deleted, whose fate is left to the agent, or that was opened again: "
    "a warning",
)
def session_delete(conversation: Conversation) -> Verdict:
    for store in _with_later_lives(stores(conversation)):
        able = [c for c in store if c.initialized is not None and not c.is_other_version]
        if able and not any(c.advertises("session.delete") for c in able):
            yield not_applicable("the agent does not advertise session.delete")
            continue
        deleted: dict[str, Request] = {}
        answered = [r for connection in store for r in connection.requests if r.response is not None]
        for request in sorted(answered, key=lambda request: request.answered_at):
            if request.method == "session/delete" and request.session_id is not None:
                yield from _deletes(request, deleted)
            elif request.method == "session/list" and request.succeeded and deleted:
                still = [i for i in listed_ids(request) if i in deleted and deleted[i].answered_at < request.seq]
                yield EXERCISED
                for identifier in still[:1]:
                    yield _still_listed(conversation, deleted.pop(identifier), request)


def _with_later_lives(groups: Iterable[list[Connection]]) -> Collection[list[Connection]]:
    """Each store with the connections on which its agent was started again: what is deleted, and is listed there
    although nobody made it anew, was kept."""
    found: dict[str, list[Connection]] = {}
    for store in groups:
        began = store[0].started
        former = found.get(str((began.control or {}).get("restart_of")), []) if began is not None else []
        found.setdefault(store[0].name, former or store)
        former.extend(store)
    return {id(store): store for store in found.values()}.values()


def _deletes(request: Request, deleted: dict[str, Request]) -> Verdict:
    assert request.response is not None
    assert request.session_id is not None
    earlier = deleted.get(request.session_id)
    if request.succeeded:
        deleted.setdefault(request.session_id, request)
    elif request.error_code == ErrorCode.METHOD_NOT_FOUND:
        connection = request.connection
        initialized = connection.initialized_before(request.seq)
        is_offered = connection.advertises("session.delete")
        if is_offered and initialized is not None and initialized.response is not None:
            yield violation(
                "session/delete is not found though session.delete is advertised",
                (initialized.response, "the agent advertises session.delete"),
                (request.event, "the client deletes a session"),
                (request.response, "the agent does not know the method"),
            )
    elif earlier is not None and earlier.response is not None and earlier.answered_at < request.seq:
        code = error_name(request.error_code) if request.error_code is not None else "an error without a code"
        yield warning(
            f"deleting a deleted session again fails with {code}",
            (earlier.response, "the session is deleted"),
            (request.event, "it is deleted again"),
            (request.response, f"this gets {code}"),
        )


def _still_listed(conversation: Conversation, delete: Request, listing: Request) -> Finding:
    assert delete.response is not None
    assert listing.response is not None
    session = conversation.sessions.get(delete.session_id or "")
    was_active = any(_is_open(view, delete, listing) for view in (session.views if session is not None else ()))
    finding = warning if was_active else violation
    return finding(
        f"the session {shown(delete.session_id)} is listed although it was deleted"
        + (" while it was active" if was_active else ""),
        (delete.event, "the session is deleted"),
        (delete.response, "the agent says that it is"),
        (listing.event, "then sessions are listed"),
        (listing.response, "and it stands in the list"),
    )


def _is_open(view: View, delete: Request, listing: Request) -> bool:
    """Whether this client had the session open when it was deleted, or opened it again before the listing."""
    opened = [replay.seq for replay in view.replays] + ([view.created.answered_at] if view.created is not None else [])
    last = max((seq for seq in opened if seq < listing.answered_at), default=-1.0)
    if last < 0:
        return False
    closed = (c.answered_at for c in view.session.closes if c.connection is view.connection and c.succeeded)
    return not any(last < seq < delete.seq for seq in (*closed, view.connection.ended_at))
