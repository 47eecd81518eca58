"""Several clients of one agent: whose response it is, and one id for all (RFD 'Correlate prompts with accepted user
messages')."""

from conformance.conversation import Connection, Conversation, Message, Request, Session, Submission, text_after
from conformance.conversation.submissions import prompt_text
from conformance.history import Event
from conformance.rules.insertion import unreported_at
from conformance.rules.registry import EXERCISED, MUST, Verdict, rule, violation


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
        twice = [
            later for request in one.requests for later in request.later_responses if not _says_again(later, request)
        ]
        for response, is_stray in [*((e, True) for e in one.strays), *((e, False) for e in twice)]:
            request = meant_for_another(one, response)
            if request is not None and (is_stray or request.response is None):
                yield violation(
                    f"the response to {request.method} went to another client",
                    (request.event, f"{request.connection.name} asks"),
                    (response, f"{one.name} gets the response, and has no such request pending"),
                )


def meant_for_another(connection: Connection, response: Event) -> Request | None:
    """The request of another client, pending with the response's id, that a response which nobody on its own connection
    waits for must belong to. None where it may answer something of its own connection."""
    if connection.may_answer_its_own(response):
        return None
    others = connection.conversation.pending_elsewhere(response.message.get("id"), response)
    return next((r for r in others if r.connection.ended_at > response.seq or _names_its_message(response, r)), None)


def _names_its_message(response: Event, request: Request) -> bool:
    """Whether the response returns the id of the message that this prompt became. Where the client that sent it is
    gone, an equal id of the response proves nothing: each connection counts from one."""
    session = request.connection.conversation.sessions.get(request.session_id or "")
    result = response.message.get("result")
    identifier = result.get("messageId") if isinstance(result, dict) else None
    if session is None or not isinstance(identifier, str) or request.connection.died_at < response.seq:
        return False
    told = (text_after(message.updates) for message in session.user_messages_with.get(identifier, []))
    return prompt_text(request.params).strip() in (text.strip() for text in told)


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
    latest: dict[str, list[Submission]] = {}
    for second in session.submissions:
        together = [s for s in latest.get(second.text, []) if s.answered_at > second.seq]
        latest[second.text] = [*together, second]
        others = [s for s in together if s.request.connection is not second.request.connection]
        alike = (s for s in others if s.message_id == second.message_id)
        first = next(alike, others[0] if others else None)
        if first is None or first.message_id is None or second.message_id is None:
            continue
        if first.response is None or second.response is None:
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
