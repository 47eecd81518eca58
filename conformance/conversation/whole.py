"""The conversation as a whole: every connection and session of a history, and the things of each kind in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from conformance.conversation.calls import Permission, Terminal, ToolCall
from conformance.conversation.connections import Connection
from conformance.conversation.facts import Message, Replay, Request, Work, whole_number
from conformance.conversation.model_requests import ModelRequest
from conformance.conversation.sessions import Session
from conformance.conversation.span import position
from conformance.conversation.submissions import Submission
from conformance.conversation.traffic import pending_with
from conformance.conversation.views import View
from conformance.history import Event, History
from conformance.wire import request_key

FOREIGN_PATIENCE: Final = 30.0
"""Seconds after which an answer counts as missing in a recording that the suite did not drive."""


@dataclass(eq=False)
class Conversation:
    """The whole history in the protocol's terms."""

    history: History
    connections: dict[str, Connection] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    model_requests: list[ModelRequest] = field(default_factory=list)
    profile: dict[str, Any] = field(default_factory=dict)
    controls: list[Event] = field(default_factory=list)

    @property
    def is_driven(self) -> bool:
        """Whether the suite drove it (it says so in a `profile` event), and so tells each wait that ran out."""
        return bool(self.profile)

    @property
    def hold(self) -> float:
        """Seconds for which the suite holds things to see what the agent does meanwhile."""
        value = self.profile.get("hold_window")
        return float(value) if isinstance(value, int | float) else FOREIGN_PATIENCE

    @property
    def patience(self) -> float:
        """Seconds."""
        value = self.profile.get("patience")
        return float(value) if isinstance(value, int | float) else FOREIGN_PATIENCE

    @cached_property
    def agreed_on(self) -> dict[int, list[Request]]:
        """Version -> the initializes that were answered with it."""
        found: dict[int, list[Request]] = {}
        for request in (request for connection in self.connections.values() for request in connection.initializes):
            result = request.result if request.succeeded else None
            given = whole_number(result.get("protocolVersion")) if isinstance(result, dict) else None
            if given is not None:
                found.setdefault(given, []).append(request)
        return found

    @cached_property
    def has_other_versions(self) -> bool:
        """Whether any connection agreed on an older version of the protocol."""
        return any(connection.is_other_version for connection in self.connections.values())

    @cached_property
    def sessions_with(self) -> dict[str, set[str]]:
        """Nonce -> ids of the sessions in which it was submitted."""
        found: dict[str, set[str]] = {}
        for submission in self.submissions:
            if submission.nonce is not None:
                found.setdefault(submission.nonce, set()).add(submission.session.id)
        return found

    @cached_property
    def failed_model_requests(self) -> list[ModelRequest]:
        """Those that the script made fail."""
        return [request for request in self.model_requests if request.was_failed]

    @cached_property
    def refusals(self) -> set[int | None]:
        """The error codes with which prompts were refused that nobody stopped, and that are not to be refused for
        their own sake: as of an agent that takes none while it works."""
        refused = (s for s in self.submissions if s.request.failed and not s.cancels and s.refusable is None)
        return {s.request.error_code for s in refused if not s.session.stops_between(s.seq, s.answered_at)}

    @cached_property
    def model_requests_for(self) -> dict[str, list[ModelRequest]]:
        """Nonce -> the model requests for that prompt, side requests left out."""
        found: dict[str, list[ModelRequest]] = {}
        for request in self.model_requests:
            if request.nonce is not None and not request.is_side:
                found.setdefault(request.nonce, []).append(request)
        return found

    @cached_property
    def _requests_with(self) -> dict[tuple[str, Any], list[Request]]:
        """Key of an id -> the clients' requests with it on all connections, in order."""
        found: dict[tuple[str, Any], list[Request]] = {}
        for connection in self.connections.values():
            for request in connection.requests:
                found.setdefault(request_key(request.id), []).append(request)
        return {key: sorted(requests, key=position) for key, requests in found.items()}

    def pending_elsewhere(self, identifier: Any, event: Event) -> Iterator[Request]:
        """The requests of other connections than the event's that were unanswered with that id when it came."""
        same = self._requests_with.get(request_key(identifier), [])
        return (request for request in pending_with(same, event.seq) if request.connection.name != event.conn)

    def is_answered_elsewhere(self, request: Request) -> bool:
        """Whether another connection got a response with the request's id that it had not asked for, or had already."""
        for connection in self.connections.values():
            if connection is request.connection:
                continue
            same = connection.by_id.get(("client", *request_key(request.id)), [])
            again = (event for other in same for event in other.later_responses)
            if connection.strays_with(request.id, request.seq) or any(event.seq > request.seq for event in again):
                return True
        return False

    @cached_property
    def _unclear(self) -> dict[int, tuple[str, float]]:
        """Position of a request that shared its id while it was pending, and of what seems to answer it -> who sent the
        request, and since when it shared it."""
        found: dict[int, tuple[str, float]] = {}
        for connection in self.connections.values():
            for sender, requests in (("client", connection.requests), ("agent", connection.agent_requests)):
                for request in requests:
                    if request.unclear_since < float("inf"):
                        answers = [request.response] if request.response is not None else []
                        for event in (request.event, *answers):
                            found[event.seq] = (sender, request.unclear_since)
        return found

    def is_unclear(self, events: Iterable[Event], party: str) -> bool:
        """Whether events prove nothing against a party, since the other one had two requests with one id pending."""
        if not self._unclear:
            return False
        positions = [event.seq for event in events]
        since = [self._unclear[seq] for seq in positions if seq in self._unclear]
        return any(sender != party and at <= max(positions) for sender, at in since)

    @cached_property
    def connections_share_ids(self) -> bool:
        """Whether the first requests with one id on two connections were pending together."""
        for requests in self._requests_with.values():
            first = {request.connection: request for request in reversed(requests)}
            until = -1.0
            for request in sorted(first.values(), key=position):
                if request.seq < until:
                    return True
                until = max(until, request.answered_at)
        return False

    @property
    def has_scripted_client(self) -> bool:
        """Whether the client is the suite's own, which misbehaves on purpose: nobody judges it."""
        return self.is_driven and self.profile.get("target", "agent") == "agent"

    @cached_property
    def effects(self) -> list[Event]:
        """The suite's sightings of what a tool did (`tool-effect`)."""
        return [control for control in self.controls if control.name == "tool-effect"]

    @property
    def triggers(self) -> dict[str, str]:
        triggers = self.profile.get("triggers")
        return triggers if isinstance(triggers, dict) else {}

    @cached_property
    def _announced_by(self) -> dict[str, set[str]]:
        """Session -> the sessions whose updates tell of it as a subagent."""
        found: dict[str, set[str]] = {}
        for view in self.views:
            for update in view.updates:
                child = update.body.get("sessionId") if update.kind == "subagent_update" else None
                if isinstance(child, str):
                    found.setdefault(child, set()).add(view.id)
        return found

    def worked_for_by(self, session: Session) -> list[Session]:
        """The sessions that it is a subagent of, or a subagent of theirs."""
        found, todo = {session.id}, [session.id]
        while todo:
            new = self._announced_by.get(todo.pop(), set()) - found
            found |= new
            todo += new
        return [self.sessions[identifier] for identifier in sorted(found - {session.id})]

    @cached_property
    def subagents_of(self) -> dict[str, set[str]]:
        """Session -> the sessions that its updates tell of as subagents."""
        found: dict[str, set[str]] = {}
        for child, parents in self._announced_by.items():
            for parent in parents:
                found.setdefault(parent, set()).add(child)
        return found

    @property
    def views(self) -> Iterator[View]:
        for connection in self.connections.values():
            yield from connection.views.values()

    @property
    def submissions(self) -> Iterator[Submission]:
        for session in self.sessions.values():
            yield from session.submissions

    def each(self, scope: type[Any]) -> Iterator[Any]:
        """All things of one of the conversation's types, in order."""
        if scope is Conversation:
            yield self
        elif scope is Connection:
            yield from self.connections.values()
        elif scope is Session:
            yield from self.sessions.values()
        elif scope is View:
            yield from self.views
        elif scope is Submission:
            yield from self.submissions
        elif scope is Work:
            yield from (work for view in self.views for work in view.works)
        elif scope is Replay:
            yield from (replay for view in self.views for replay in view.replays)
        elif scope is Message:
            yield from (message for view in self.views for message in view.messages.values())
        elif scope is ToolCall:
            yield from (call for view in self.views for call in view.tool_calls.values())
        elif scope is Terminal:
            yield from (terminal for view in self.views for terminal in view.terminals.values())
        elif scope is Permission:
            yield from (permission for view in self.views for permission in view.permissions)
        elif scope is Request:
            yield from (request for connection in self.connections.values() for request in connection.requests)
        else:
            raise TypeError(f"no rule can be about {scope.__name__}")
