"""Prompts: the one id of an accepted message, in all its updates and never again (RFD 'Correlate prompts with accepted
user messages')."""

import json
from itertools import islice

from conformance.conversation import Message, Session, Submission, Update, bare
from conformance.rules.insertion import in_order, unreported_at
from conformance.rules.registry import EXERCISED, MUST, SHOULD, Verdict, rule, violation, warning

MOST_PIECES = 100  # messages after a prompt that are looked at
COINCIDENCE = 12  # characters, without spaces, that somebody else may have sent as a message of its own


@rule(
    "prompt.one-id-for-all-updates",
    MUST,
    says="All updates and chunks of the accepted message carry the returned id.",
    source="rfd 'Correlate prompts with accepted user messages'",
    exercised="a success response and a user-message update that shows the submission",
    proof="the submission is reported live in a user message under an id other than the returned one; or its beginning "
    "under that one and the rest, piece by piece, under others",
    never="identical prompts: where texts are equal to the letter only counts and ids are compared; a message that "
    "merely quotes the prompt",
)
def one_id_for_all_updates(submission: Submission) -> Verdict:
    response = submission.response
    if submission.message_id is None or response is None:
        return
    if submission.reports or submission.marked:
        yield EXERCISED
    piece = _next_piece(submission)
    other = submission.marked_elsewhere or _second_message(submission) or piece
    if other is None:
        return
    message = f"the response names {submission.message_id!r}, the message is reported as {other.id!r}"
    late = unreported_at(submission)
    is_certain = submission.has_own_nonce or (late is not None and other is submission.marked_elsewhere)
    is_certain = is_certain or _is_mixed_up(submission, other) or other is piece
    proof = in_order(
        (submission.request.event, "this prompt"),
        (response, f"is answered with the id {submission.message_id!r}"),
        (other.live[0].event, f"its text is reported under the id {other.id!r}"),
        (late, "and by now it would have been reported under its own")
        if late is not None and not submission.has_own_nonce
        else None,
    )
    if is_certain:
        yield violation(message, *proof)
    elif not _came_again(submission, other):
        yield warning(f"{message}, if no other client sent the same text", *proof)


def _is_mixed_up(submission: Submission, other: Message) -> bool:
    """Whether the message under its own id is another prompt of the session, and the other message is all of it."""
    session, text = submission.session, submission.text.strip()
    if other.id not in session.accepted_as or not submission.is_whole(other):
        return False
    own = {message.live_text.strip() for message in submission.own_messages if message.view is submission.view}
    return any(told != text and told in session.sent_texts for told in own)


def _came_again(submission: Submission, other: Message) -> bool:
    """Whether it was reported under its own id and worked off before the other message came, which is worked on too: a
    schedule, or a command that does it once more, has the same text."""
    work, seq = submission.work, other.live[0].seq
    is_told = any(submission.is_whole(message) for message in submission.own_messages)
    goes_on = other.view.work_at(seq) is not None or bool(other.view.works_after(seq))
    return is_told and work is not None and work.ended_at < seq and goes_on


def _second_message(submission: Submission) -> Message | None:
    """A message under another id on its own connection that is the whole submission once more."""
    here = submission.request.connection
    others = (m for m in submission.marked if m.id != submission.message_id and m.view.connection is here)
    return next((message for message in others if submission.is_whole(message)), None)


def _next_piece(submission: Submission) -> Message | None:
    """The first message under an id of its own that holds a later piece of the submission, where the one under the
    returned id holds its beginning only, and later ones on that connection all the rest: each chunk is a message. None
    where the text is another prompt's too, or so short that the rest may be a message of its own."""
    view = submission.view
    if view is None or submission.nonce is None:
        return None
    own, text = view.messages.get(("user", submission.message_id or "")), bare(submission.text)
    told = own.bare_text if own is not None else ""
    if not told or told == text or not text.startswith(told):
        return None
    if not submission.has_own_nonce and len(text) - len(told) < COINCIDENCE:
        return None
    pieces = []
    for message in islice(view.user_messages_after(submission.seq), MOST_PIECES):
        piece = message.bare_text
        if message is not own and piece and text.startswith(told + piece):
            told += piece
            pieces.append(message)
    return pieces[0] if told == text else None


@rule(
    "prompt.one-submission-one-message",
    SHOULD,
    says="One accepted submission is one logical user message (the RFD's working assumption).",
    source="rfd 'Correlate prompts with accepted user messages'",
    exercised="a success response and a user-message update that shows the submission",
    proof="one submission is reported live under two ids",
)
def one_submission_one_message(submission: Submission) -> Verdict:
    if not submission.marked:
        return
    yield EXERCISED
    first: dict[str, Update] = {}
    for message in submission.marked:
        if submission.is_whole(message) and message.id not in first:
            first[message.id] = message.live[0]
    if len(first) > 1 and submission.has_own_nonce:
        yield violation(
            f"one submission was reported as {len(first)} messages: {', '.join(map(repr, first))}",
            (submission.request.event, "this prompt"),
            *((update.event, f"is reported as {identifier!r}") for identifier, update in first.items()),
        )


@rule(
    "prompt.retry-is-a-new-message",
    MUST,
    says="A submission sent again, also after its response was lost, is a new message with a new id; nothing is "
    "promised beyond that.",
    source="rfd 'Does returning messageId make retrying safe?'",
    exercised="a prompt whose connection was cut before its response, then the same content submitted again",
    proof="the second submission's id equals an id already reported in the session for another message",
    never="the first submission present, absent, or present twice in replay",
)
def retry_is_a_new_message(session: Session) -> Verdict:
    lost: dict[str, Submission] = {}
    for again in session.submissions:
        content = json.dumps(again.blocks, sort_keys=True)
        first = lost.get(content)
        if again.response is None:
            lost.setdefault(content, again)
        if first is None or again.response is None or again.message_id is None or not _was_lost(first, again):
            continue
        yield EXERCISED
        known = session.first_update_of("user", again.message_id)
        if session.creations > 1 and known is not None and known.view is not again.view:
            continue  # two agents, or two lives of one, count by themselves
        if known is not None and known.seq < again.seq:
            yield violation(
                f"the prompt that was sent again got the id {again.message_id!r} of a message that was there before it",
                *in_order(
                    (first.request.event, "this prompt's response was lost"),
                    (known.event, f"the message {again.message_id!r} is reported"),
                    (again.request.event, "the same content is submitted again: a new submission"),
                    (again.response, "and it is given the id of that earlier message"),
                ),
            )


def _was_lost(first: Submission, again: Submission) -> bool:
    """Whether the first one's response can no longer come: its connection has ended or, in a foreign recording,
    another is used."""
    connection = first.request.connection
    if connection.ended is not None:
        return connection.ended_at < again.seq
    is_elsewhere = again.request.connection is not connection
    return is_elsewhere and not again.session.conversation.is_driven and connection.last_sign_after(again.seq) is None
