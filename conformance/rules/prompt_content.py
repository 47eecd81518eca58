"""Prompts: what is reported of their content, and which content blocks are taken or refused."""

import base64
import binascii
from typing import Any, Final

from conformance.conversation import Message, Session, Submission, View, bare
from conformance.rules.insertion import in_order
from conformance.rules.refusal import (
    ADVERTISED_BY,
    BASELINE,
    block_types,
    is_supported,
    unsupported_types,
    why_refusable,
)
from conformance.rules.registry import EXERCISED, MUST, SHOULD, Verdict, rule, violation, warning

INVALID_PARAMS: Final = -32602
NOT_ITS_FAULT: Final = (-32000, -32002, -32800)
"""Errors that say nothing of the content: authentication required, session not found, cancelled."""
MAGIC: Final = {"image/png": "iVBORw0KGgo", "image/jpeg": "/9j/", "image/gif": "R0lGOD"}
"""How the base64 of an image of that type begins."""
CUT_OFF: Final = 12  # characters at the end of a prompt that are more than a mark or a mention which an agent takes off
CONSOLIDATED: Final = 40  # characters from which a repeated whole text is no coincidence


@rule(
    "prompt.content-is-reported",
    SHOULD,
    says="The reported content is the submission's content, once; streamed chunks and the whole-message update do "
    "not double it.",
    source="rfd 'Streaming user messages', schema UserMessage",
    exercised="an accepted prompt whose message was reported and whose work has ended",
    proof="after applying upserts in order the message's text holds the submission's text more than once, or not at "
    "all, or its beginning only, or no report ever had content",
    never="an agent that expands a command, a resource or a template around the text",
)
def content_is_reported(submission: Submission) -> Verdict:
    if not submission.reports or submission.nonce is None or submission.trigger is not None:
        return
    if submission.session.accepted_as.get(submission.message_id or "") is not submission:
        return  # prompt.distinct-message-ids
    first, last = submission.reports[0], submission.reports[-1]
    message = first.view.message_of(first)
    if message is None or not _is_settled(first.view, last.seq):
        return
    yield EXERCISED
    text = message.live_text
    proof = [(submission.request.event, "this prompt"), *((u.event, "is reported so") for u in message.live[:4])]
    if not message.has_content:
        yield violation("the message was reported without any content", *proof)
    elif times := _repetitions(submission, text):
        yield violation(f"the message holds the prompt's text {times} times", *proof)
    elif submission.has_own_nonce and submission.nonce not in text:
        yield violation("the message does not hold the prompt's text", *proof)
    elif not submission.has_own_nonce and _is_cut_off(submission, text):
        yield violation("the message holds no more than the beginning of the prompt's text", *proof)


def _is_cut_off(submission: Submission, text: str) -> bool:
    told, own = bare(text), bare(submission.nonce or "")
    return 0 < len(told) <= len(own) - CUT_OFF and own.startswith(told)


def _is_settled(view: View, seq: int) -> bool:
    """Whether work ended, or a barrier request was answered, after that position."""
    work = view.work_at(seq) or next(iter(view.works_after(seq)), None)
    if work is not None:
        return work.ended is not None
    return view.connection.barrier_after(seq) is not None


def _repetitions(submission: Submission, text: str) -> int:
    """How often the text holds the submission's, where that is more than once."""
    nonce = submission.nonce or ""
    if submission.has_own_nonce:
        times = text.count(nonce)
        return times if times > max(1, submission.text.count(nonce)) else 0
    told, own = bare(text), bare(nonce)
    times = len(told) // len(own) if own else 0
    return times if times > 1 and told == own * times else 0


@rule(
    "prompt.no-consolidating-chunk",
    SHOULD,
    says="After streaming, the whole text is not sent again as one more chunk; a whole-message update replaces it.",
    source="schema ContentChunk, AgentMessage",
    exercised="an agent message or thought of three or more chunks",
    proof="a chunk whose text equals all text of the message so far (40 characters or more)",
)
def no_consolidating_chunk(message: Message) -> Verdict:
    if message.kind == "user" or len(message.updates) < 3:
        return
    parts: list[str] = []
    length = chunks = 0
    for update in message.updates:
        text = update.text
        if update.is_chunk:
            chunks += 1
            if length == len(text) >= CONSOLIDATED and "".join(parts) == text and not message.view.is_replayed(update):
                yield violation(
                    "a chunk repeats the whole message so far, so that a client shows it twice",
                    (message.first.event, f"the message {message.id!r} begins"),
                    (update.event, f"this chunk is all {length} characters of it once more"),
                )
            parts.append(text)
            length += len(text)
        elif update.sets_content:
            parts, length = [text], len(text)
    if chunks >= 3:
        yield EXERCISED


def _refused_link(submission: Submission) -> bool:
    types = block_types(submission)
    return "resource_link" in types and all(kind in BASELINE for kind in types)


def _is_text(submission: Submission) -> bool:
    types = block_types(submission)
    return bool(types) and all(kind == "text" for kind in types)


@rule(
    "prompt.baseline-content",
    MUST,
    says="text and resource_link blocks are accepted by every agent with sessions.",
    source="schema PromptRequest",
    exercised="a prompt of text and resource_link",
    proof="-32602 for such a prompt while text alone is accepted in the same session; another error where text is "
    "accepted before and after it",
    never="a prompt that was refused while work was open or about to begin, in a session that was ended or is not "
    "there, or that was cancelled; another error than -32602 where a link was taken before or after",
)
def baseline_content(session: Session) -> Verdict:
    with_link = [s for s in session.submissions if _refused_link(s) and s.response is not None]
    texts = [s for s in session.submissions if s.request.succeeded and _is_text(s)]
    takes_links = any(s.request.succeeded for s in with_link)
    for submission in with_link:
        if submission.request.succeeded:
            yield EXERCISED
            continue
        if takes_links and submission.request.error_code != INVALID_PARAMS:
            continue  # a passing failure
        here = [s for s in (texts[:1] + texts[-1:]) if s.request.connection is submission.request.connection]
        around = any(s.seq < submission.seq for s in here) and any(s.seq > submission.seq for s in here)
        code = submission.request.error_code
        if not here or code in NOT_ITS_FAULT or (code != INVALID_PARAMS and not around) or _may_be_refused(submission):
            continue
        accepted = here[0]
        if accepted.response is not None and submission.response is not None:
            yield violation(
                f"a resource_link in a prompt was refused with {code}",
                *in_order(
                    (accepted.request.event, "a prompt of text alone"),
                    (accepted.response, "is accepted"),
                    (submission.request.event, "a prompt with a resource_link, which every agent takes"),
                    (submission.response, "is refused"),
                ),
            )


def _may_be_refused(submission: Submission) -> bool:
    """Whether it was cancelled, is wrong in itself, or came when an agent may refuse whatever it is sent."""
    return _may_refuse_all(submission) or bool(submission.cancels) or why_refusable(submission) is not None


def _may_refuse_all(submission: Submission) -> bool:
    """Whether the agent may refuse whatever it is sent: it is at work, or has work to begin, or the session is not
    there: ended, or neither made nor resumed in this life of the agent."""
    view, until = submission.view, submission.answered_at
    if view is None:
        return True
    end = submission.session.end_before(until)
    if not _is_there(view, end.seq if end is not None else -1, until) and (end or view.connection.initialized):
        return True
    if view.work_at(submission.seq) is not None or submission.session.unfinished(submission.seq) is not None:
        return True
    work = next(iter(view.works_after(submission.seq)), None)
    return work is not None and work.seq < until


def _is_there(view: View, since: float, until: float) -> bool:
    """Whether the session was made or resumed on this connection between two positions."""
    resumed = (replay for replay in view.replays if replay.request.succeeded and replay.closes < until)
    is_new = view.created is not None and view.created.seq > since
    return is_new or any(replay.seq > since for replay in resumed)


@rule(
    "prompt.unsupported-block-rejected",
    MUST,
    says="A content block type that the agent did not advertise is rejected with -32602.",
    source="schema ContentBlock",
    exercised="a prompt with an image, audio or embedded resource block the agent did not advertise, or of an unknown "
    "type",
    proof="success, or an error with another code",
    never="a custom type with a leading underscore: the agent may know it; another code while the agent may refuse "
    "whatever it is sent (it is at work, or the session is not there): a warning",
)
def unsupported_block_rejected(submission: Submission) -> Verdict:
    types = unsupported_types(submission)
    response = submission.response
    if not types or response is None or submission.session.id not in submission.request.connection.known_sessions:
        return
    yield EXERCISED
    if submission.cancels or submission.session.end_was_before(submission.seq):
        return
    advertised = submission.request.connection.initialized
    proof = (
        [(advertised.response, "what the agent advertises")] if advertised is not None and advertised.response else []
    )
    proof.append((submission.request.event, f"a prompt with a block of type {types[0]!r}, which it does not"))
    if submission.request.succeeded:
        yield violation(f"a block of type {types[0]!r} was accepted unadvertised", *proof, (response, "is accepted"))
    elif submission.request.error_code not in (INVALID_PARAMS, *NOT_ITS_FAULT):
        code = submission.request.error_code
        tell = warning if _may_refuse_all(submission) else violation
        yield tell(f"it was refused with {code}, not with -32602", *proof, (response, f"is refused with {code}"))


@rule(
    "prompt.advertised-block-accepted",
    MUST,
    says="A block type that the agent advertised is accepted.",
    source="schema PromptCapabilities",
    exercised="a prompt with a valid block of an advertised type",
    proof="-32602 for it",
    never="data that may not be what its type says, in a recording of others: a warning; a prompt that came when the "
    "agent may refuse whatever it is sent (it is at work, or the session is not there)",
)
def advertised_block_accepted(submission: Submission) -> Verdict:
    connection = submission.request.connection
    kinds = [kind for kind in block_types(submission) if isinstance(kind, str)]
    advertised = [kind for kind in kinds if kind in ADVERTISED_BY and is_supported(connection, kind)]
    if not advertised or submission.response is None:
        return
    if submission.request.succeeded:
        yield EXERCISED
        return
    if (
        submission.request.error_code != INVALID_PARAMS
        or _may_refuse_all(submission)
        or why_refusable(submission) is not None
        or not _is_sound(submission.blocks)
        or any(is_supported(connection, kind) is None for kind in block_types(submission))
    ):
        return
    told = connection.initialized
    tell = violation if connection.conversation.is_driven or _is_surely_valid(submission.blocks) else warning
    yield tell(
        f"a block of the advertised type {advertised[0]!r} was refused with -32602",
        *([(told.response, "the agent advertises it")] if told is not None and told.response is not None else []),
        (submission.request.event, f"a prompt with a valid {advertised[0]} block"),
        (submission.response, "is refused as invalid"),
    )


def _is_surely_valid(blocks: list[Any]) -> bool:
    """Whether images are of a common type and are what they say, by their first bytes; audio is never sure."""
    for block in blocks:
        if isinstance(block, dict) and block.get("type") in ("image", "audio"):
            start = MAGIC.get(str(block.get("mimeType")))
            if start is None or not str(block.get("data")).startswith(start):
                return False
    return True


def _is_sound(blocks: list[Any]) -> bool:
    """Whether the data of all blocks is what the schema says it is, base64."""
    for block in blocks:
        data = block.get("data") if isinstance(block, dict) else None
        if isinstance(data, str):
            try:
                base64.b64decode(data, validate=True)
            except (binascii.Error, ValueError):
                return False
    return True
