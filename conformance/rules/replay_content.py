"""Replayed content: rebuilt from its beginning, once, each message under its own id (RFD 'Streaming user
messages')."""

from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import Final

from conformance.conversation import Message, Replay, Submission, Update, View, text_after
from conformance.history import Event
from conformance.rules.registry import EXERCISED, MUST, SHOULD, Verdict, rule, violation, warning
from conformance.rules.replay import asked, is_settled
from conformance.wire import encode


def rebuilding_chunk(replay: Replay, message: Message) -> tuple[Update | None, Update | None]:
    """(the first chunk of the message in the window with nothing that set its content before it, the update that
    cleared it with null before a chunk); None for either that is not there. Where it is rebuilt from [] on, chunks
    before that are live, or of another replay, as are those that come while an earlier resume is pending, unless they
    tell its beginning again."""
    null: Update | None = None
    told = [update for update in message.within(replay) if update.replay is replay]
    if any(not update.is_chunk and update.body.get("content") == [] for update in told):
        begins = told[0].is_chunk and _is_beginning(replay, message, told[0])
        return (told[0] if begins else None), None
    for update in told:
        if update.is_chunk:
            return (update, None) if null is None else (None, null)
        if update.sets_content:
            if update.body.get("content") is not None:
                return None, None
            null = update
    return None, None


def _is_beginning(replay: Replay, message: Message, chunk: Update) -> bool:
    """Whether the chunk tells the beginning of a message that had been told whole, and no other resume brings it."""
    before, text = replay.text_before(message.kind, message.id), chunk.text
    return bool(text) and before.startswith(text) and not replay.view.another_replays(replay)


def goes_on_live(replay: Replay, message: Message) -> bool:
    """Whether the chunks of the window may be live ones: of a prompt whose message was being streamed, or of work
    that was open. Where no history was asked for, or the prompt's work was to come, they are unless they repeat the
    beginning of what was told."""
    session = replay.view.session
    if message.kind != "user":
        return replay.was_busy
    submission = session.accepted_as.get(message.id)
    if submission is not None and submission.answered_at > replay.seq:
        return True  # its report had not come to its end
    told, before = message.within(replay), replay.text_before("user", message.id)
    if not before:
        return False
    first = list(takewhile(lambda update: not update.sets_content, told))  # before any content that a replay sets
    goes_on = (before + text_after(first)).strip()
    if any(u.is_chunk for u in first) and submission is not None and submission.text.strip().startswith(goes_on):
        return True
    chunk = next((update.text for update in told if update.is_chunk), "")
    owed = session.unfinished(replay.seq)
    may_be_written = submission is not None and owed is not None and owed.seq <= submission.seq
    is_repeated = before.startswith(chunk) or chunk.startswith(before)
    return (may_be_written or not replay.asks_for_history) and not is_repeated


def is_past(replay: Replay, message: Message) -> bool:
    """Whether the window surely tells of the past by this message: it was told before, or no work was open, or could
    begin meanwhile, that writes it."""
    session = replay.view.session
    first = session.first_update_of(message.kind, message.id)
    if first is not None and first.seq < replay.seq:
        return is_settled(replay, message.kind, message.id)
    if message.kind == "user" and any(view.created is not None for view in session.views):
        return False  # all of its past was told: this may be a message from elsewhere, or a late report
    return replay.snapshot == "idle" and not replay.may_have_work


@rule(
    "replay.reset-before-chunks",
    MUST,
    says="A user message that replay rebuilds from its beginning with chunks is preceded by user_message with content "
    "[].",
    source="rfd 'Streaming user messages'",
    exercised="a user_message_chunk inside a replay window",
    proof="a chunk of that id in the window with no user_message before it in the window that sets its content; or its "
    "beginning once more, before the [] that it is then rebuilt from",
    never="a full-content user_message and then chunks that go on from it; content null instead of [] clears too "
    "under the schema: a warning; a message whose live streaming the resume interrupted; chunks before that [] that do "
    "not tell its beginning again; a "
    "message that was never told in a session whose past is all recorded: a warning",
)
def reset_before_chunks(replay: Replay) -> Verdict:
    yield from _resets(replay, "user")


@rule(
    "replay.reset-before-chunks-of-agent-messages",
    SHOULD,
    says="An agent message or thought that replay rebuilds from its beginning with chunks is preceded by an update "
    "with content [].",
    source="docs 'Resuming Sessions'",
    exercised="an agent chunk inside a replay window",
    proof="a chunk of that id in the window with no whole update before it in the window that sets its content",
    never="the chunks of a message that work of the session is writing, or that a prompt not worked off may bring",
)
def reset_before_agent_chunks(replay: Replay) -> Verdict:
    yield from _resets(replay, "agent", "thought")


def _resets(replay: Replay, *kinds: str) -> Verdict:
    for message in replay.messages:
        if (
            message.kind not in kinds
            or not any(u.is_chunk for u in message.within(replay))
            or goes_on_live(replay, message)
        ):
            continue
        chunk, null = rebuilding_chunk(replay, message)
        if null is not None:
            yield warning(
                f"{message.id!r} is cleared with content null before its replay; the text names []",
                asked(replay),
                (null.event, "cleared with null"),
            )
        elif chunk is None:
            yield EXERCISED
        elif is_past(replay, message):
            yield violation(
                f"{message.id!r} is replayed in chunks, and nothing cleared it first",
                asked(replay),
                (chunk.event, "its first chunk, which a client appends to the copy it holds"),
            )
        elif message.kind == "user":
            yield warning(
                f"{message.id!r} comes in chunks, and nothing cleared it first: live, or of the past?",
                asked(replay),
                (chunk.event, "a chunk"),
            )


@rule(
    "replay.no-doubled-content",
    MUST,
    says="A client that kept its copy and applies the replay in order ends with the message's content once.",
    source="rfd 'Streaming user messages'",
    exercised="a user message held by the client and replayed",
    proof="after applying the window to the kept copy, the submission stands more than once in its message",
    never="a text that was doubled before the replay",
)
def no_doubled_content(replay: Replay) -> Verdict:
    for message in replay.messages:
        if message.kind != "user" or goes_on_live(replay, message):
            continue
        held = _held(replay, message)
        told = message.within(replay)
        if not held and not any(update.sets_content for update in told):
            continue
        yield EXERCISED
        submission = message.view.session.accepted_as.get(message.id)
        is_appended = any(update.is_chunk for update in told)  # a full content may hold the nonce twice by design
        nonce = submission.nonce if submission is not None and submission.has_own_nonce and is_appended else None
        after = text_after(told) if any(update.sets_content for update in told) else text_after(held) + text_after(told)
        once = text_after(held) or (submission.text if submission is not None else "")
        doubled = after.count(nonce) > max(1, once.count(nonce)) if nonce is not None else is_twice(once, after)
        if doubled:
            yield violation(
                f"the replay doubles the content of {message.id!r}",
                *((update.event, "the client holds its content") for update in held[-1:]),
                asked(replay),
                *((update.event, "with this the content is there twice") for update in told[-1:]),
            )


def _held(replay: Replay, message: Message) -> Sequence[Update]:
    """The updates by which this client holds the message: on this connection or, where the suite says that it is a
    restart, before it."""
    own = message.before(replay.seq)
    started = replay.request.connection.started
    former = (started.control or {}).get("restart_of") if started is not None and not own else None
    view: View | None = next((v for v in message.view.session.views if v.connection.name == former), None)
    earlier = view.messages.get((message.kind, message.id)) if view is not None else None
    return own or (earlier.before(replay.seq) if earlier is not None else [])


def is_twice(once: str, text: str) -> bool:
    """Whether `text` is `once` more than one time over and nothing else."""
    part = once.strip()
    return bool(part) and text.count(part) > 1 and not text.replace(part, "").strip()


@rule(
    "replay.distinct-messages",
    MUST,
    says="In replay, different messages of one type have different ids.",
    source="schema MessageId",
    exercised="a replay with two messages of one type",
    proof="two submissions that were accepted under different ids are replayed under one; or two messages of the "
    "agent, told before under ids of their own, the second in place of the first",
    never="a message one part of which is all that another one says; one that quotes others and says more",
)
def distinct_messages(replay: Replay) -> Verdict:
    kinds = [message.kind for message in replay.messages]
    if len(set(kinds)) < len(kinds):
        yield EXERCISED
    session = replay.view.session
    for message in replay.messages:
        if message.kind != "user":
            yield from _overwritten(replay, message)
            continue
        told: dict[str, tuple[Submission, Event]] = {}
        for text, event in _texts(message.within(replay)):
            submission = session.told_by(text)
            if submission is not None and submission.message_id is not None and submission.answered_at < replay.seq:
                told.setdefault(submission.message_id, (submission, event))
        whole = {
            identifier: event
            for identifier, (submission, event) in told.items()
            if not any(_is_part(submission.text, other) for other, _ in told.values() if other is not submission)
        }
        if len(whole) > 1:
            parts = sorted(whole.items(), key=lambda item: item[1].seq)
            yield violation(
                f"two messages are replayed under the id {message.id!r}",
                asked(replay),
                *((event, f"the content of {identifier!r} under {message.id!r}") for identifier, event in parts),
            )
        elif merged := _merged(replay, message):
            yield violation(
                f"two messages are replayed as one, under the id {message.id!r}",
                *((submission.request.event, f"this prompt became {submission.message_id!r}") for submission in merged),
                asked(replay),
                (message.within(replay)[-1].event, "with this the message holds both, and nothing else"),
            )


def _overwritten(replay: Replay, message: Message) -> Verdict:
    """What there is to say of an agent message or thought that the window tells, and then tells again as another one
    that it knows, and that has no place of its own in the window."""
    contents: list[Update] = []  # the update that completes each of its contents that another one replaces, or the end
    texts: list[str] = []
    told = message.within(replay)
    for at, update in enumerate(told):
        if at + 1 == len(told) or told[at + 1].sets_content:
            contents.append(update)
            texts.append(text_after(told[: at + 1]).strip())
    session = replay.view.session
    for (one, first), (other, second) in pairwise([(c, t) for c, t in zip(contents, texts, strict=True) if t]):
        known = session.first_said.get((message.kind, second))
        if known is None or known.message_id in (None, message.id) or known.seq > replay.seq or first == second:
            continue
        another = replay.view.messages.get((message.kind, known.message_id or ""))
        is_own_text = any(
            text_after(copy.before(replay.seq)).strip() == second
            for copy in session.copies_of(message.kind, message.id)
        )
        if is_own_text or (another is not None and another.within(replay)):
            continue
        yield violation(
            f"two messages are replayed under the id {message.id!r}",
            (known.event, f"a message of its own, {known.message_id!r}"),
            asked(replay),
            (one.event, f"a message is replayed as {message.id!r}"),
            (other.event, f"and then {known.message_id!r} in its place"),
        )
        return


def _merged(replay: Replay, message: Message) -> list[Submission]:
    """The prompts of the past that the text under an accepted id is put together from, where it is from several; none
    where it says anything else."""
    session = replay.view.session
    rest = text_after(message.within(replay))
    is_one = message.id not in session.accepted_as or session.told_by(rest) is not None
    if is_one or not session.conversation.is_driven:
        return []  # without nonces of their own, texts may be put together by chance
    past = [s for s in session.accepted if s.has_own_nonce and s.answered_at < replay.seq]
    found: list[Submission] = []
    for submission in sorted(past, key=lambda submission: -len(submission.text)):  # one may quote a shorter one
        if (text := submission.text.strip()) in rest:
            rest = rest.replace(text, "", 1)
            found.append(submission)
    return sorted(found, key=lambda submission: submission.seq) if len(found) > 1 and not rest.strip() else []


def _is_part(text: str, prompt: Submission) -> bool:
    """Whether what is told as that text may be the beginning or a block of the prompt."""
    blocks = (block.get("text") for block in prompt.blocks if isinstance(block, dict))
    return prompt.text.startswith(text) or text in blocks


def _texts(updates: list[Update]) -> Iterator[tuple[str, Event]]:
    """The texts that the updates may each be meant as: every update by itself, and every run of chunks with what it
    goes on from."""
    run = ""
    for update in updates:
        run = run + update.text if update.is_chunk else update.text
        yield update.text, update.event
        yield run, update.event


NOTICE: Final = ("severity", "title", "description")


@rule(
    "replay.notices-are-live-only",
    SHOULD,
    says="Notices are live events and are not replayed.",
    source="schema Notice",
    exercised="a notice seen live, then a replay",
    proof="a notice of earlier work stands again in the window, after the same message as it did live",
    never="a notice that a resume may cause anew (a server that does not start, again): a warning; one that comes "
    "while work is open, which may say it once more",
)
def notices_are_live_only(replay: Replay) -> Verdict:
    view = replay.view
    earlier = [notice for notice in view.session.notices if notice.seq < replay.seq and notice.replay is None]
    if not earlier or not replay.asks_for_history:
        return
    yield EXERCISED
    first = {_said(notice): notice for notice in reversed(earlier)}
    for update in replay.updates:
        live = first.get(_said(update)) if update.kind == "notice" else None
        if live is None:
            continue
        proof = ((live.event, "a notice, live"), asked(replay), (update.event, "the same notice in the replay"))
        place = _message_before(live)
        if replay.may_have_work:
            continue
        if live.work is not None and place is not None and place == _message_before(update):
            yield violation("a notice was replayed", *proof)
        else:
            yield warning("a notice came again within the replay: replayed, or caused anew?", *proof)


def _said(notice: Update) -> bytes:
    return encode([notice.body.get(name) for name in NOTICE])


def _message_before(notice: Update) -> tuple[str, str] | None:
    message = notice.view.messages_before_notices.get(notice)
    return (message.kind, message.id) if message is not None else None
