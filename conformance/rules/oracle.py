"""The oracle: every rule over one conversation. A rule that breaks is told with its traceback and harms no other."""

import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from conformance.collecting import uncollected
from conformance.conversation import Connection, Conversation, Request, Session, Submission, View, read
from conformance.history import History
from conformance.rules.registry import RULES, Exercised, Finding, Kind, NotApplicable, Rule, warning

MOST_FINDINGS = 50  # of one rule in one history; the rest is counted


OF_VERSION_2 = ("prompt", "command", "state", "cancel", "replay", "clients", "wire", "session", "tool")
"""Areas that judge nothing on a connection that agreed on version 1: its rules are others."""


OF_UPDATES = ("prompt", "command", "state", "cancel", "replay", "clients", "session", "tool")
"""Areas that put together what several lines tell."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one rule found in one history. `broken` is the traceback of a rule that failed itself."""

    exercised: bool
    findings: tuple[Finding, ...] = ()
    omitted: int = 0
    not_applicable: str | None = None
    broken: str | None = None


Judgement = dict[str, Outcome]
"""Rule id -> outcome, for every rule that was asked."""


def judge(history: History, rules: Iterable[Rule] | None = None) -> Judgement:
    """Decides `rules` (all by default) from the history alone."""
    with uncollected():
        conversation = read(history)
        return {rule.id: decide(rule, conversation) for rule in (RULES.values() if rules is None else rules)}


def _is_of_version_1(thing: Any) -> bool:
    """Whether a thing of the conversation belongs to such connections only."""
    if isinstance(thing, Connection):
        return thing.is_other_version
    if isinstance(thing, Session):
        return bool(thing.views) and all(view.connection.is_other_version for view in thing.views)
    if isinstance(thing, View | Request):
        return thing.connection.is_other_version
    if isinstance(thing, Submission):
        return thing.request.connection.is_other_version
    view = getattr(thing, "view", None)
    return isinstance(view, View) and view.connection.is_other_version


def _as_far_as_read(finding: Finding, conversation: Conversation) -> Finding:
    """A violation as a warning where, amid the events that prove it, the agent wrote a line that nobody can read: that
    may have told what was missed. wire.utf8 and wire.only-messages-on-stdout are about the line."""
    if finding.kind is not Kind.VIOLATION:
        return finding
    events = {event.seq: event for event, _ in finding.because}
    names = dict.fromkeys(event.conn for event in events.values())
    connections = (c for name in names if (c := conversation.connections.get(name)) is not None)
    unread = (line for c in connections for line in c.unread_between(min(events), max(events)))
    line = next((line for line in unread if line.seq not in events), None)
    if line is None:
        return finding
    because = [*finding.because, (line, "a line that nobody can read, which may have told it")]
    ordered = sorted(because, key=lambda part: part[0].seq)
    return warning(f"{finding.message}, as far as the agent's lines can be read", *ordered)


def decide(rule: Rule, conversation: Conversation) -> Outcome:
    exercised, omitted = False, 0
    findings: list[Finding] = []
    reasons: list[str] = []
    try:
        things = conversation.each(rule.scope)
        if conversation.has_other_versions and rule.area in OF_VERSION_2:
            things = (thing for thing in things if not _is_of_version_1(thing))
        for thing in things:
            for said in rule.decide(thing):
                if isinstance(said, Finding):
                    if conversation.is_unclear((event for event, _ in said.because), rule.party):
                        continue
                    exercised = True
                    if len(findings) < MOST_FINDINGS:
                        findings.append(said if rule.area not in OF_UPDATES else _as_far_as_read(said, conversation))
                    else:
                        omitted += 1
                elif isinstance(said, Exercised):
                    exercised = True
                elif isinstance(said, NotApplicable):
                    reasons.append(said.reason)
    except Exception:  # a rule's own bug must not cost the other verdicts
        return Outcome(exercised, tuple(findings), omitted, None, traceback.format_exc(limit=-6))
    return Outcome(exercised, tuple(findings), omitted, reasons[0] if reasons and not exercised else None)
