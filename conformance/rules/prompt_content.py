"""Prompts: what is reported of their content, and which content blocks are taken or refused."""

import base64
import binascii
from typing import Any, Final

from conformance.conversation import Message, Submission, View
from conformance.rules.refusal import ADVERTISED_BY, BASELINE, block_types, is_supported, unsupported_types, why_refusable
from conformance.rules.registry import EXERCISED, MUST, SHOULD, Verdict, rule, violation

INVALID_PARAMS: Final = -32602
CONSOLIDATED: Final = 40  # characters from which a repeated whole text is no coincidence


@rule(
    "prompt.content-is-reported",
    SHOULD,
    says="The reported content is the submission's content, once; streamed chunks and the whole-message update do not double it.",
    source="rfd 'Streaming user messages', schema UserMessage",
    exercised="an accepted prompt whose message was reported and whose work has ended",
    proof="after applying upserts in order the message's text holds the submission's text more than once, or no report ever had content",
    never="an agent that expands a command, a resource or a template around the text",
)
def content_is_reported(submission: Submission) -> Verdict:
    if not submission.reports or submission.nonce is None or submission.trigger is not None:
        return
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
    bare, own = "".join(text.split()), "".join(nonce.split())
    times = len(bare) // len(own) if own else 0
    return times if times > 1 and bare == own * times else 0


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


def _accepted_text_on_its_connection(submission: Submission) -> Submission | None:
    """Another prompt of nothing but text that was accepted on the same connection."""
    return next(
        (
            other
            for session in submission.session.conversation.sessions.values()
            for other in session.submissions
            if other.request.connection is submission.request.connection
            and other.request.succeeded
            and set(block_types(other)) == {"text"}
        ),
        None,
    )


@rule(
    "prompt.baseline-content",
    MUST,
    says="text and resource_link blocks are accepted by every agent with sessions.",
    source="schema PromptRequest",
    exercised="a prompt of text and resource_link",
    proof="an error for such a prompt while text alone is accepted",
)
def baseline_content(submission: Submission) -> Verdict:
    types = block_types(submission)
    if "resource_link" not in types or not set(types) <= set(BASELINE) or submission.response is None:
        return
    if submission.request.succeeded:
        yield EXERCISED
        return
    accepted = _accepted_text_on_its_connection(submission)
    if accepted is None or accepted.response is None or submission.cancels or why_refusable(submission) is not None:
        return
    yield violation(
        f"a resource_link in a prompt was refused with {submission.request.error_code}",
        *sorted(
            [
                (accepted.request.event, "a prompt of text alone"),
                (accepted.response, "is accepted"),
                (submission.request.event, "a prompt with a resource_link, which every agent takes"),
                (submission.response, "is refused"),
            ],
            key=lambda part: part[0].seq,
        ),
    )


@rule(
    "prompt.unsupported-block-rejected",
    MUST,
    says="A content block type that the agent did not advertise is rejected with -32602.",
    source="schema ContentBlock",
    exercised="a prompt with an image, audio or embedded resource block the agent did not advertise, or of an unknown type",
    proof="success, or an error with another code",
    never="a custom type with a leading underscore: the agent may know it",
)
def unsupported_block_rejected(submission: Submission) -> Verdict:
    types = unsupported_types(submission)
    response = submission.response
    if not types or response is None or submission.session.id not in submission.request.connection.known_sessions:
        return
    yield EXERCISED
    if submission.cancels:
        return
    advertised = submission.request.connection.initialized
    proof = [(advertised.response, "what the agent advertises")] if advertised is not None and advertised.response else []
    proof.append((submission.request.event, f"a prompt with a block of type {types[0]!r}, which it does not"))
    if submission.request.succeeded:
        yield violation(f"a block of type {types[0]!r} was accepted unadvertised", *proof, (response, "is accepted"))
    elif submission.request.error_code not in (INVALID_PARAMS, -32000):
        code = submission.request.error_code
        yield violation(f"it was refused with {code}, not with -32602", *proof, (response, f"is refused with {code}"))


@rule(
    "prompt.advertised-block-accepted",
    MUST,
    says="A block type that the agent advertised is accepted.",
    source="schema PromptCapabilities",
    exercised="a prompt with a valid block of an advertised type",
    proof="-32602 for it",
)
def advertised_block_accepted(submission: Submission) -> Verdict:
    connection = submission.request.connection
    advertised = [kind for kind in block_types(submission) if kind in ADVERTISED_BY and is_supported(connection, kind)]
    if not advertised or submission.response is None:
        return
    if submission.request.succeeded:
        yield EXERCISED
        return
    if submission.request.error_code != INVALID_PARAMS or why_refusable(submission) is not None or not _is_sound(submission.blocks):
        return
    told = connection.initialized
    yield violation(
        f"a block of the advertised type {advertised[0]!r} was refused with -32602",
        *([(told.response, "the agent advertises it")] if told is not None and told.response is not None else []),
        (submission.request.event, f"a prompt with a valid {advertised[0]} block"),
        (submission.response, "is refused as invalid"),
    )


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
