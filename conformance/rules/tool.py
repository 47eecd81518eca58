"""Tool calls: permission to run them, their ids and their ends (schema ToolCallUpdate, RequestPermissionRequest; docs
'Tool Calls')."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from conformance.conversation import FINAL_STATUSES, Connection, Permission, Session, ToolCall, ToolStep, Work
from conformance.history import Event
from conformance.protocol.validation import params_problems
from conformance.rules.registry import EXERCISED, MUST, SHOULD, Verdict, rule, violation, warning
from conformance.wire import shown

OPEN_STATUSES: Final = ("pending", "in_progress", "paused")
BURST: Final = 0.05
"""Seconds within which two lines may have been written at once."""


@rule(
    "tool.denied-is-not-run",
    MUST,
    says="A denied, cancelled, unknown-option or not understood permission outcome is not approval.",
    source="schema RequestPermissionOutcome",
    exercised="session/request_permission answered so",
    proof="the tool call goes from pending to in_progress after the denial, or its effect is seen; completed with no "
    "in_progress is a warning (an agent may close a refused call with a refusal text)",
    never="a tool call that was running before it asked; one that another permission request approved, unless it had "
    "ended before this one; a request that "
    "the agent took back for a reason of its own; one that is reported as running in one burst with the request, and "
    "as failed or cancelled in the end: a warning",
)
def denied_is_not_run(permission: Permission) -> Verdict:
    answer = permission.answer
    if answer is None or not permission.is_denied or _is_unsure(permission):
        return
    denied = (answer, f"the answer is no approval: {_outcome_in_words(permission)}")
    asked = (permission.request.event, "the agent asks for permission")
    yield EXERCISED
    effect = effect_after(permission, answer)
    if effect is not None:
        yield violation(
            "the effect of a denied operation was seen", asked, denied, (effect, "its effect is seen all the same")
        )
        return
    call = permission.view.tool_calls.get(permission.tool_call_id or "")
    for step in call.steps_after(answer.seq) if call is not None else ():
        before = step.before or "pending"
        if step.update.replay is not None or step.names is None:
            continue
        if step.names == "in_progress" and before not in FINAL_STATUSES:
            ran = (step.update.event, "and the tool call is reported as running")
            is_unsure = "error" in answer.message or _is_custom(permission) or _was_begun_at_once(permission, step)
            if before in ("in_progress", "paused") or is_unsure:
                yield warning("a tool call goes on after its permission request was not approved", asked, denied, ran)
            else:
                yield violation("a tool call was run although the permission for it was denied", asked, denied, ran)
            return
        if step.names == "completed" and before == "pending":
            done = (step.update.event, "and the tool call is reported as completed")
            yield warning("a tool call is completed although the permission for it was denied", asked, denied, done)
        if step.names in FINAL_STATUSES:
            return


def _is_unsure(permission: Permission) -> bool:
    """Whether something else may have approved: another request about the same call, unless it had ended since; two
    options of one id; or, where the agent itself took the request back with nobody cancelling the session, whatever
    made it do so."""
    same_id = [o for o in permission.options if o.get("optionId") == permission.outcome.get("optionId")]
    if len(same_id) > 1 and permission.outcome.get("outcome") == "selected":
        return True
    answer = permission.answer
    if (
        permission.withdrawn is not None
        and answer is not None
        and not permission.view.session.stops_between(permission.seq, answer.seq)
    ):
        return True
    call = permission.view.tool_calls.get(permission.tool_call_id or "")
    return permission.view.session.perhaps_approved_since(call, permission.seq)


def _was_begun_at_once(permission: Permission, step: ToolStep) -> bool:
    """Whether the step may have been written with the request, before the answer was read: in one burst with it, of a
    call that did not come to a good end."""
    call = permission.view.tool_calls.get(permission.tool_call_id or "")
    is_burst = step.update.event.t - permission.request.event.t < BURST
    return is_burst and call is not None and call.status in ("failed", "cancelled")


def _is_custom(permission: Permission) -> bool:
    """An outcome that the two sides may have agreed on; in a driven history it is the suite's invention and
    nobody's."""
    kind = permission.outcome.get("outcome")
    return isinstance(kind, str) and kind.startswith("_") and not permission.view.connection.conversation.is_driven


def _outcome_in_words(permission: Permission) -> str:
    assert permission.answer is not None
    kind = permission.outcome.get("outcome")
    if "error" in permission.answer.message:
        return "an error"
    if kind == "selected":
        chosen = permission.selected
        name = shown(permission.outcome.get("optionId"))
        return (
            f"the option {name}, a {chosen.get('kind')}"
            if chosen is not None
            else f"the option {name}, which was not offered"
        )
    return f"the outcome {shown(kind)}"


def effect_after(permission: Permission, answer: Event) -> Event | None:
    """The suite's sighting of the effect, told by the tool call or by the nonce of the last prompt before the request;
    None where any other request was approved."""
    session = permission.view.session
    later = [sighting for sighting in session.conversation.effects if sighting.seq > answer.seq]
    if not later or any(
        p.is_approved and p is not permission for view in session.conversation.views for p in view.permissions
    ):
        return None
    prompt = next((s for s in reversed(session.submissions) if s.seq < permission.seq), None)
    names = {name for name in (permission.tool_call_id, prompt.nonce if prompt else None) if name is not None}
    return next((c for c in later if c.control is not None and _names_any(c.control, names)), None)


def _names_any(control: Mapping[str, Any], names: set[str]) -> bool:
    """Whether the sighting is about one of these; one that names nothing is about all that the history holds."""
    told = [control[key] for key in ("toolCallId", "nonce") if control.get(key) is not None]
    return not told or any(name in names for name in told)


@rule(
    "tool.permission-options",
    MUST,
    says="A permission request has at least one option, with unique ids.",
    source="schema RequestPermissionRequest, PermissionOption",
    exercised="a permission request",
    proof="no option, a malformed one, or repeated ids",
)
def permission_options(permission: Permission) -> Verdict:
    yield EXERCISED
    event = permission.request.event
    problems = params_problems("session/request_permission", permission.request.params, "agent")
    wrong = [p.message for p in problems if p.path.startswith("options")]
    if not permission.options:
        yield violation(
            "a permission request without options", (event, "; ".join(wrong[:3]) or "its options are empty")
        )
    elif wrong:
        yield violation(wrong[0], (event, "; ".join(wrong[:3])))
    seen: set[str] = set()
    for option in permission.options:
        identifier = option.get("optionId")
        if isinstance(identifier, str) and identifier in seen:
            yield violation(
                f"two options of a permission request have the id {shown(identifier)}", (event, "its options")
            )
            return
        if isinstance(identifier, str):
            seen.add(identifier)


@rule(
    "tool.final-is-final",
    SHOULD,
    says="A tool call in a final status does not go back to pending or in_progress.",
    source="docs 'Tool Calls'",
    exercised="a final status, then updates",
    proof="a later non-final status of the same call",
    never="paused, which is not final and may go back to in_progress any number of times; a replay, which tells the "
    "call from its beginning; another call under the same id, which is tool.one-id-one-call's",
)
def final_is_final(call: ToolCall) -> Verdict:
    final: ToolStep | None = None
    seen = Seen()
    for step in call.steps:
        if step.update.replay is None and final is not None:
            yield EXERCISED
            if step.names is not None and step.names not in FINAL_STATUSES and seen.differences(step) == []:
                is_named = step.update.body.get("status") is not None  # null takes it back, and names none
                finding = violation if step.names in OPEN_STATUSES and is_named else warning
                yield finding(
                    f"a {final.status} tool call goes back to {step.names}",
                    (final.update.event, f"the tool call is {final.status}, which is final"),
                    (step.update.event, f"and is {step.names} again"),
                )
                return
        seen.add(step)
        if step.status in FINAL_STATUSES:
            final = final or step
        else:
            final = None


@dataclass(slots=True)
class Seen:
    """What a tool call was ever said to be: its titles, kinds and inputs, to tell it from another call."""

    values: dict[str, set[str]] = field(default_factory=lambda: {"title": set(), "kind": set(), "rawInput": set()})

    def add(self, step: ToolStep) -> None:
        for name, value in _values(step):
            self.values[name].add(value)

    def differences(self, step: ToolStep) -> list[str]:
        """The names of what this step says otherwise than all steps before it."""
        return [name for name, value in _values(step) if self.values[name] and value not in self.values[name]]


def _values(step: ToolStep) -> Iterator[tuple[str, str]]:
    for name in ("title", "kind", "rawInput"):
        value: Any = step.update.body.get(name)
        if value is not None:
            yield name, value if isinstance(value, str) else json.dumps(value, sort_keys=True)


@rule(
    "tool.one-id-one-call",
    MUST,
    says="A toolCallId names one tool call of the session; another call does not take it over.",
    source="schema ToolCallUpdate, ToolCallId",
    exercised="two tool calls in one session",
    proof="a call that reached a final status goes back to pending with another title, kind or input, on any "
    "connection; or back to in_progress with another kind or input; or has any status in later work, with another "
    "input, or another title and kind",
    never="a title that is refined while or after the call runs, or the input of a failed call that is tried again in "
    "the same work; a replay, which tells the call from its beginning; a "
    "client that sees the same updates later than another; two sessions, of two lives of the agent, under one id",
)
def one_id_one_call(session: Session) -> Verdict:
    steps: dict[tuple[str, str], list[ToolStep]] = {}
    for view in session.views:
        life = view.connection.name if session.creations > 1 else ""
        for identifier, call in view.tool_calls.items():
            steps.setdefault((life, identifier), []).extend(call.steps)
    if len(steps) > 1:
        yield EXERCISED
    for (_, identifier), told in steps.items():
        found = _taken_over(sorted(told, key=lambda step: step.update.seq))
        if found is not None:
            final, taker, differences = found
            yield violation(
                f"the tool call id {shown(identifier)} is taken over by another call: its {' and '.join(differences)} "
                f"changed",
                (final.update.event, f"the tool call is {final.names}, which is final"),
                (taker.update.event, f"its id comes again, {taker.names}, with another {' and '.join(differences)}"),
            )


def _taken_over(told: list[ToolStep]) -> tuple[ToolStep, ToolStep, list[str]] | None:
    """(the step that ended a call, the step that takes its id for another one, in what they differ)."""
    seen, final = Seen(), None
    unnamed: dict[Work | None, list[str]] = {}  # differences told with no status since the end, in that work
    for step in told:
        if step.update.replay is None and final is not None:
            before = unnamed.pop(step.update.work, [])
            differences = list(dict.fromkeys([*before, *seen.differences(step)]))
            if step.names is None:
                unnamed = {step.update.work: differences}
            elif _is_another(step, final, set(differences)):
                return final, step, differences
        seen.add(step)
        if step.names in FINAL_STATUSES and final is None:
            final = step
    return None


def _is_another(step: ToolStep, final: ToolStep, differences: set[str]) -> bool:
    """Whether a step that says these things otherwise than all before it tells of another call than the one that had
    ended."""
    if step.names == "pending":
        return bool(differences)
    is_retry = final.names == "failed" and differences == {"rawInput"}  # tried again, with an input that is refined
    if step.names == "in_progress" and differences & {"kind", "rawInput"} and not is_retry:
        return True
    work, is_same_view = step.update.work, step.update.view is final.update.view
    is_later = is_same_view and work is not None and final.update.work is not work
    return is_later and ("rawInput" in differences or {"title", "kind"} <= differences)


@rule(
    "tool.titled",
    SHOULD,
    says="The first update of a tool call has a title.",
    source="docs 'Tool Calls'",
    exercised="a tool call in a session that was created in this history",
    proof="no title in it",
    never="a call that began before the client joined the session; a permission request that names a call not yet "
    "reported",
)
def titled(session: Session) -> Verdict:
    if not any(view.created is not None for view in session.views):
        return
    first: dict[str, ToolStep] = {}
    for view in session.views:
        for identifier, call in view.tool_calls.items():
            step = next((s for s in call.steps if _is_report(s)), None)
            if step is not None and (identifier not in first or step.update.seq < first[identifier].update.seq):
                first[identifier] = step
    for identifier, step in first.items():
        yield EXERCISED
        if step.update.work is not None and step.update.work.began.update.replay is not None:
            continue  # the client came to work that was under way
        is_all_read = not step.update.view.connection.unread_between(-1, step.update.seq)
        if is_all_read and not isinstance(step.update.body.get("title"), str):
            yield violation(
                f"the tool call {shown(identifier)} is reported without a title",
                (step.update.event, "the first update of this tool call"),
            )


def _is_report(step: ToolStep) -> bool:
    """An update of the call, or a permission request that tells its title."""
    return step.update.event.message.get("method") == "session/update" or isinstance(step.update.body.get("title"), str)


@rule(
    "tool.elicitation-only-when-enabled",
    MUST,
    says="elicitation/create is called only in a mode that the client advertised.",
    source="docs 'Elicitation'",
    exercised="a client that advertises no mode, or not all, and an agent at work; or an elicitation",
    proof="an elicitation/create request in a mode that the client did not advertise",
    never="a custom mode where the client advertises elicitation or an extension at all",
)
def elicitation_only_when_enabled(connection: Connection) -> Verdict:
    if connection.is_other_version:
        return
    if connection.initialized is not None and any(view.works for view in connection.views.values()):
        offered = _elicitation_of(connection.client_capabilities)
        if any(offered.get(mode) in (None, False) for mode in ("form", "url")):
            yield EXERCISED
    for request in connection.agent_requests:
        if request.method != "elicitation/create":
            continue
        asked = next((i for i in reversed(connection.initializes) if i.seq < request.seq), None)
        if asked is None:
            continue
        yield EXERCISED
        mode = request.params.get("mode") if isinstance(request.params, dict) else None
        capabilities = asked.params.get("capabilities") if isinstance(asked.params, dict) else None
        capabilities = capabilities if isinstance(capabilities, dict) else {}
        offered = _elicitation_of(capabilities)
        if mode not in ("form", "url") and (offered or "_meta" in capabilities):
            continue
        if not isinstance(mode, str) or offered.get(mode) in (None, False):
            yield violation(
                f"elicitation/create in the mode {shown(mode)}, which the client did not advertise",
                (asked.event, "the client advertises " + (", ".join(sorted(offered)) or "no elicitation")),
                (request.event, f"the agent asks in the mode {shown(mode)}"),
            )


def _elicitation_of(capabilities: dict[str, Any]) -> dict[str, Any]:
    offered = capabilities.get("elicitation")
    return offered if isinstance(offered, dict) else {}
