"""Several clients of one agent: whose response it is, and one id for all (RFD 'Correlate prompts with accepted user
messages')."""

from collections import deque
from typing import Final

from conformance.conversation import Connection, Conversation, Message, Request, Session, Submission, text_after
from conformance.conversation.submissions import prompt_text
from conformance.history import Event
from conformance.rules.insertion import unreported_at
from conformance.rules.registry import EXERCISED, MUST, Verdict, rule, violation

MOST_LOST: Final = 10  # requests of clients that are gone, with one id, that are looked at


@rule(
    "clients.same-id-for-all",
    MUST,
    says="Every client of a session sees the accepted message under the id that its submitter got.",
    source="rfd 'Correlate prompts with accepted user messages'",
    exercised="two connections on one session, and a prompt on one that the other is told of",
    proof="the submission is reported on another connection under another id",
    never="equal texts, which prove nothing; a message that only quotes the prompt; a message that belongs to another "
    "submission",
)
def same_id_for_all(submission: Submission) -> Verdict:
    response, session = submission.response, submission.session
    if submission.message_id is None or response is None or len(session.views) < 2:
        return
    for message in [*submission.own_messages, *submission.marked]:
        if message.view.connection is submission.request.connection or not message.live:
            continue
        if message.id == submission.message_id:
            yield EXERCISED
        elif _tells_all(submission, message) and _is_surely_it(submission, message):
            parts = [
                (submission.request.event, "this prompt"),
                (response, f"its submitter gets the id {submission.message_id!r}"),
                (message.live[0].event, f"another client is told of it as {message.id!r}"),
            ]
            yield violation("two clients see one message under two ids", *sorted(parts, key=lambda part: part[0].seq))


def _tells_all(submission: Submission, message: Message) -> bool:
    """Whether the message says what was sent and nothing more, or what its submitter was told that this became."""
    own = (own.live_text for own in submission.own_messages if own.view is submission.view)
    return submission.is_whole(message) or message.live_text in own


def _is_surely_it(submission: Submission, message: Message) -> bool:
    """Whether the message of that text can be no other: the text has a nonce of its own, or the id is not another
    prompt's and that client was not told of the submission under the right one too."""
    if submission.has_own_nonce:
        return True
    is_told = any(own.view is message.view and own.live for own in submission.own_messages)
    return message.id not in submission.session.accepted_as and not is_told


@rule(
    "clients.response-to-submitter-only",
    MUST,
    says="A response goes to the connection that sent the request, with that request's id.",
    source="rfd 'Correlate prompts with accepted user messages'",
    exercised="two connections that use the same JSON-RPC ids at the same time",
    proof="a response on a connection where no request with that id is pending while another connection has one "
    "pending (else it is wire.response-id); an id that was used there before counts only if that other request is "
    "never answered",
)
def response_to_submitter_only(conversation: Conversation) -> Verdict:
    if conversation.connections_share_ids:
        yield EXERCISED
    for one in conversation.connections.values():
        strays: list[tuple[Event, Request | None]] = [(event, None) for event in one.strays]
        twice = [(event, own) for own in one.requests for event in own.later_responses]
        for response, own in strays + twice:
            request = meant_for_another(one, response, own)
            if request is not None:
                yield violation(
                    f"the response to {request.method} went to another client",
                    (request.event, f"{request.connection.name} asks"),
                    (response, f"{one.name} gets the response, and has no such request pending"),
                )


def meant_for_another(connection: Connection, response: Event, own: Request | None = None) -> Request | None:
    """The request of another client, pending with the response's id, that a response which nobody on its own connection
    waits for must belong to. None where it may answer something of its own connection: `own` had that id there, and is
    answered already; the other must then have stayed without an answer of its own."""
    if own is not None:
        meant = None if _says_again(response, own) else meant_for_another(connection, response)
        return meant if meant is not None and meant.response is None else None
    if connection.may_answer_its_own(response):
        return None
    others = list(connection.conversation.pending_elsewhere(response.message.get("id"), response))
    lives = next((request for request in others if request.connection.ended_at > response.seq), None)
    return lives or _answered_too_late(response, others[-MOST_LOST:])


def _answered_too_late(response: Event, lost: list[Request]) -> Request | None:
    """The prompt of a client that is gone which the response must belong to: it returns the id of the message that the
    prompt became. An equal id of the response proves nothing, since each connection counts from one."""
    result = response.message.get("result")
    identifier = result.get("messageId") if isinstance(result, dict) else None
    for request in lost if isinstance(identifier, str) else ():
        session = request.connection.conversation.sessions.get(request.session_id or "")
        messages = session.user_messages_with.get(str(identifier), []) if session is not None else []
        told = (text_after(message.updates).strip() for message in messages)
        if request.connection.died_at > response.seq and prompt_text(request.params).strip() in told:
            return request
    return None


def _says_again(later: Event, request: Request) -> bool:
    """Whether it repeats the response of its own request, with the id that only this one was given: that is
    wire.one-response's."""
    first = request.response
    return first is not None and later.message == first.message and request.method in ("session/prompt", "session/new")


@rule(
    "clients.own-association",
    MUST,
    says="Concurrent identical submissions by two clients get distinct ids, each reported.",
    source="rfd 'Correlate prompts with accepted user messages'",
    exercised="identical content from two submitters, pending together",
    proof="both are answered with one id, or one of the ids is never reported by the idle or the barrier that follows",
)
def own_association(session: Session) -> Verdict:
    if len(session.views) < 2:
        return
    pending: dict[tuple[str, str | None], dict[Connection, deque[Submission]]] = {}
    for second in session.accepted:
        alike = _first_pending(pending.get((second.text, second.message_id), {}), second)
        first = alike or _first_pending(pending.get((second.text, None), {}), second)
        for key in ((second.text, second.message_id), (second.text, None)):
            pending.setdefault(key, {}).setdefault(second.request.connection, deque()).append(second)
        if first is None or first.response is None or second.response is None:
            continue
        yield EXERCISED
        proof = [
            (first.request.event, f"{first.request.connection.name} sends a prompt"),
            (second.request.event, f"{second.request.connection.name} sends the same text while it is pending"),
        ]
        answers = [
            (first.response, f"answered with {first.message_id!r}"),
            (second.response, f"answered with {second.message_id!r}"),
        ]
        answers.sort(key=lambda part: part[0].seq)
        if first.message_id == second.message_id:
            yield violation("two clients' prompts were given one id", *proof, *answers)
            continue
        for submission in (first, second):
            if not submission.reports and (late := unreported_at(submission)) is not None:
                message = f"of two clients' equal prompts, {submission.message_id!r} was never reported"
                yield violation(message, *proof, *answers, (late, "by now it would have been reported"))


def _first_pending(waiting: dict[Connection, deque[Submission]], second: Submission) -> Submission | None:
    """The first prompt of another client that was pending when this one was sent; who was answered before is dropped
    for good."""
    for connection, submissions in waiting.items():
        while submissions and submissions[0].answered_at < second.seq:
            submissions.popleft()
        if submissions and connection is not second.request.connection:
            return submissions[0]
    return None
