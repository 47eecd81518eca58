"""The judge: the rules of the catalogue and, beside them, what no rule of the protocol says and every agent owes.

All is decided from the history alone. A finding is identified by its rule and the kind of reaction: its message, names
and numbers left out.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from conformance.conversation import Connection, Request
from conformance.history import Event, History, controls
from conformance.protocol.validation import extensions, params_problems
from conformance.rules import RULES, Finding, Judgement, Kind, Rule, judge
from conformance.rules.paths import is_absolute
from conformance.rules.registry import EXERCISED, MUST, Verdict, violation
from conformance.rules.wire_provoked import provoked_before
from conformance.wire import request_key

_CRASHES: Final = frozenset({"SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP"})
_SAFE: Final = 2**53 - 1  # integers that every JSON reader keeps (RFC 8259)
_ROUNDS_OF_GROWTH: Final = 6
_NAMES: Final = re.compile(r"""(["'][^"']*["']|\b[0-9a-f]{8,}\b|-?\d+(\.\d+)?)""")
_HANGS: Final = re.compile(r"^(?!session/prompt )[\w$/-]+ was never answered$")
_ABOUT_IDS: Final = frozenset(
    {"wire.response-id", "wire.one-response", "wire.no-reply-to-notifications", "wire.extension-request-answered"}
)


_ABOUT_SHAPES: Final = frozenset({"wire.valid-shape", "wire.no-unknown-root-fields", "wire.open-enum-values"})


GROWTH: Final = "the memory of the agent grows with every round of the same steps"


@dataclass(frozen=True, slots=True)
class Signature:
    """What makes two findings the same."""

    rule: str
    reaction: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.reaction}"


MEMORY: Final = Signature("fuzz.bounded", GROWTH)
LEFTOVER: Final = Signature("fuzz.no-leftover", "# processes of the agent live on after it")


def _no_crash(connection: Connection) -> Verdict:
    if connection.agent_events:
        yield EXERCISED
    ended, exited = connection.ended, connection.exited
    if ended is None or (exited is not None and not (exited.control or {}).get("by_itself")):
        return
    code, signal = ((exited.control or {}).get(key) for key in ("code", "signal")) if exited is not None else (0, None)
    if ended.name in ("closed", "cut"):
        if ended.name == "closed" and exited is not None and signal in _CRASHES:
            yield violation(f"the agent died of {signal} when closed", (ended, "it is closed"), (exited, "it dies"))
        return
    if exited is not None and (signal is not None or code):
        how = f"was ended by {signal}" if signal else f"exited with status {code}"
        yield violation(f"the agent {how} by itself", *_last_line(connection, ended), (exited, "it is gone"))
    elif not any(line.seq < ended.seq for line in connection.malformed_lines):  # one may hang up on what is unreadable
        what = "the agent ended the connection by itself"
        yield violation(what, *_last_line(connection, ended), (ended, "it is gone"))


def _last_line(connection: Connection, ended: Event) -> list[tuple[Event, str]]:
    line = connection.last_client_line_before(ended.seq)
    return [(line, "the last that it was sent")] if line is not None else []


def _no_hang(connection: Connection) -> Verdict:
    for request in connection.requests:
        if request.response is not None:
            yield EXERCISED
            continue
        waited = connection.out_of_patience(request.event, answer_to=request)
        if waited is None or waited.seq > connection.ended_at or _is_excused(request, waited):
            continue
        sign = connection.last_sign_after(request.seq)
        silent = sign is None or sign.seq > waited.seq
        yield violation(
            "the agent fell silent and lives" if silent else f"{request.method[:60]} was never answered",
            (request.event, "this request is owed an answer"),
            (waited, "and gets none while the agent lives"),
        )


def _is_excused(request: Request, waited: Event) -> bool:
    connection = request.connection
    identifier, envelope = request.id, request.event.envelope
    if not is_plain(identifier) or request.shares_id or (envelope is not None and envelope.flaws):
        return True
    if provoked_before(request) is None:
        return True  # wire.one-response is about it
    if any(asked.seq < waited.seq < asked.answered_at for asked in connection.agent_requests):
        return True  # the agent waits for us
    if any(event.seq > request.seq for event in connection.strays if event.message.get("id") is None):
        return True  # it may have been answered as something that could not be read
    return request.method == "session/prompt" and any(
        view.work_at(waited.seq) is not None for view in connection.views.values()
    )


def is_plain(identifier: Any) -> bool:
    """Whether an id is a text or an integer that every agent can give back."""
    if isinstance(identifier, str):
        return True
    return isinstance(identifier, int) and not isinstance(identifier, bool) and abs(identifier) <= _SAFE


def _no_leftover(connection: Connection) -> Verdict:
    for control in connection.controls:
        if control.name == "exited":
            yield EXERCISED
        elif control.name == "leftover" and (control.control or {}).get("count"):
            count = (control.control or {}).get("count")
            yield violation(f"{count} processes of the agent live on after it", (control, "they are alive"))


def _bounded(connection: Connection) -> Verdict:
    grown = [control for control in connection.controls if control.name == controls.MEMORY]
    for control in connection.controls:
        if control.name == "limit":
            limit, value = ((control.control or {}).get(key) for key in ("limit", "value"))
            if limit != "write-patience":
                yield violation(f"the agent reached the limit {limit}", (control, f"beyond {value} it is stopped"))
    if connection.agent_events:
        yield EXERCISED
    if len(grown) >= _ROUNDS_OF_GROWTH:
        yield violation(
            GROWTH,
            (grown[0], "after the first round"),
            (grown[-1], "after the last one, nothing of the earlier ones being open any more"),
        )


def _own(id: str, says: str, proof: str, decide: Any) -> Rule:
    source = "what the fuzzer asks of every agent"
    return Rule(id, MUST, "agent", says, source, "any traffic", proof, "", Connection, decide)


OWN: Final[tuple[Rule, ...]] = (
    _own(
        "fuzz.no-crash",
        "Nothing that a client sends ends the agent.",
        "it exits by itself: by a signal or with a status, or at all where every line could be read",
        _no_crash,
    ),
    _own(
        "fuzz.no-hang",
        "A request whose id could be read is answered, whatever was sent before it.",
        "no answer within the patience while the agent lives",
        _no_hang,
    ),
    _own("fuzz.no-leftover", "What the agent starts ends with it.", "processes live on after it", _no_leftover),
    _own(
        "fuzz.bounded",
        "What a client does costs a bounded amount of output and memory.",
        "a limit of the suite is reached; memory grows by the same sequence again and again",
        _bounded,
    ),
)
"""Rules that are no part of the catalogue: `run` does not know them."""


def rules(*, strict: bool) -> list[Rule]:
    """The rules that the fuzzer judges by: those of the agent, must rules only unless `strict`."""
    return [r for r in RULES.values() if r.party == "agent" and (strict or r.level == MUST)] + list(OWN)


def decided(history: History, asked: Iterable[Rule]) -> Judgement:
    return judge(history, asked)


def findings(judgement: Judgement, history: History) -> Iterator[tuple[Signature, Finding]]:
    """The violations, those left out that an odd line of ours explains."""
    if _uses_an_id_twice(history):
        return  # nobody can tell which answer belongs to which
    has_odd_ids: bool | None = None
    for id, outcome in judgement.items():
        for finding in outcome.findings:
            if finding.kind is not Kind.VIOLATION:
                continue
            if id in _ABOUT_IDS:
                has_odd_ids = _has_odd_ids(history) if has_odd_ids is None else has_odd_ids
                if has_odd_ids and not _is_of_an_unanswered_plain_id(finding):
                    continue
            if id == "session.list" and _lists_what_we_gave(finding, history):
                continue
            if id in _ABOUT_SHAPES and _is_echo(finding) and _has_odd_prompt(history):
                continue
            yield Signature(id, kind_of(finding.message)), finding


def _is_of_an_unanswered_plain_id(finding: Finding) -> bool:
    """Whether it is about a request that got no answer at all, though its own id can be given back."""
    asked = finding.because[0][0].message
    return is_of_patience(finding) and isinstance(asked, dict) and is_plain(asked.get("id"))


def is_of_patience(finding: Finding) -> bool:
    """Whether it is proven by a wait that ran out: an agent that is only slow would show it, too."""
    return any(event.name == controls.WAITED for event, _ in finding.because)


def kind_of(message: str) -> str:
    """A message without its names and numbers. Whichever request an agent that hangs fails to answer is the same."""
    return _HANGS.sub("a request was never answered", _NAMES.sub("#", message))[:160]


def _has_odd_ids(history: History) -> bool:
    """Whether we sent an id that an agent may be unable to give back: a fraction, null, an object, a huge integer."""
    return any(
        event.dir == "client"
        and isinstance(event.message, dict)
        and "id" in event.message
        and not is_plain(event.message["id"])
        for event in history
    )


def _uses_an_id_twice(history: History) -> bool:
    """Whether we sent a request under an id that was still pending: our mistake, whatever comes of it."""
    pending: set[tuple[Any, ...]] = set()
    for event in history:
        message = event.message
        if not isinstance(message, dict) or "id" not in message:
            continue
        key = (event.conn, *request_key(message["id"]))
        if event.dir == "client" and "method" in message:
            if key in pending:
                return True
            pending.add(key)
        elif event.dir == "agent" and "method" not in message:
            pending.discard(key)
    return False


def _lists_what_we_gave(finding: Finding, history: History) -> bool:
    """Whether it is about paths that are none, of sessions that no proper session/new of ours made: an agent that took
    an odd path can only give it back."""
    listed = finding.because[-1][0].message
    result = listed.get("result") if isinstance(listed, dict) else None
    entries = result.get("sessions") if isinstance(result, dict) else None
    odd = {str(e.get("sessionId")) for e in entries or () if isinstance(e, dict) and not _has_proper_paths(e)}
    return bool(odd) and not odd & set(_properly_made(history))


def _properly_made(history: History) -> Iterator[str]:
    asked: dict[Any, Any] = {}
    for event in history:
        message = event.message if isinstance(event.message, dict) else {}
        key = (event.conn, *request_key(message.get("id")))
        if event.dir == "client" and message.get("method") == "session/new":
            asked[key] = message.get("params")
        elif event.dir == "agent" and isinstance(message.get("result"), dict) and _has_proper_paths(asked.get(key)):
            yield str(message["result"].get("sessionId"))


def _has_proper_paths(about: Any) -> bool:
    if not isinstance(about, dict) or not isinstance(folders := about.get("additionalDirectories") or [], list):
        return False
    return all(isinstance(path, str) and is_absolute(path) for path in (about.get("cwd"), *folders))


def _is_echo(finding: Finding) -> bool:
    """Whether it is about a report of a user's message, which gives back what the user sent."""
    params = finding.because[0][0].message.get("params") if isinstance(finding.because[0][0].message, dict) else None
    update = params.get("update") if isinstance(params, dict) else None
    return isinstance(update, dict) and update.get("sessionUpdate") in ("user_message", "user_message_chunk")


def _has_odd_prompt(history: History) -> bool:
    """Whether we sent a prompt that the schema forbids, or that has fields or values which it does not know."""
    for event in history:
        message = event.message
        if event.dir != "client" or not isinstance(message, dict) or message.get("method") != "session/prompt":
            continue
        params = message.get("params")
        found = extensions("session/prompt", params, "params", "client")
        if params_problems("session/prompt", params, "client") or found.unknown_fields or found.custom_values:
            return True
    return False
