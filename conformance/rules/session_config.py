"""Configuration options of a session (schema SessionConfigSelect, SetSessionConfigOptionRequest; docs 'Session Config
Options')."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from conformance.conversation import Connection, Request
from conformance.history import Event
from conformance.protocol.errors import ErrorCode, error_name
from conformance.rules.registry import EXERCISED, MUST, Finding, Verdict, rule, violation, warning
from conformance.rules.session import session_in
from conformance.wire import shown


@dataclass(frozen=True, slots=True)
class _Listing:
    """The options of one session as one line tells them; `answers` is the session/set_config_option that it answers."""

    event: Event
    options: list[dict[str, Any]]
    answers: Request | None = None
    pending: tuple[Request, ...] = ()  # session/set_config_option of the session that were pending at this line

    def is_told_while_setting(self, name: str) -> bool:
        """Whether it is told in the course of setting this option, before the answer to that."""
        return any(isinstance(r.params, dict) and r.params.get("configId") == name for r in self.pending)

    def option(self, identifier: Any) -> dict[str, Any] | None:
        return next((option for option in self.options if option.get("configId") == identifier), None)


@rule(
    "session.config-options",
    MUST,
    says="Each config option's current value is among its unique options; setting one answers with the complete list; "
    "an unknown option or value gets -32602 and changes nothing.",
    source="schema SessionConfigSelect, SetSessionConfigOptionRequest",
    exercised="config options present",
    proof="a current value that is not among the options; a value or an option that stands there twice; an answer "
    "without the list, or without options that are still there: that a later request sets, or though nothing was "
    "changed, or all of several others; success or another code for an option or value that no list offers",
    never="options that come and go with the value of another: a warning where one is missing; a value that a list "
    "offers before or after; custom option types",
)
def config_options(connection: Connection) -> Verdict:
    if connection.is_other_version:
        return
    told: dict[str, list[_Listing]] = {}
    left_out: dict[tuple[str, str], tuple[_Listing, _Listing]] = {}  # (session, option) -> last with, first without
    for session, listing, request in _steps(connection):
        if listing is not None:
            if listing.options:
                yield EXERCISED
            for fault in _faults(listing.options):
                yield violation(fault, (listing.event, "the options of the session"))
        lists = told.setdefault(session, [])
        if request is not None:
            known = lists[: bisect_left(lists, request.seq, key=lambda earlier: earlier.event.seq)][-1:]
            if known and known[0].options:
                yield from _judge_setting(request, known[0], lists[-1], listing)
        if listing is None:
            continue
        for name in _names(listing):
            found = left_out.get((session, name))
            if found is not None and not listing.is_told_while_setting(name):
                del left_out[session, name]
                if request is not None and request.params.get("configId") == name:
                    yield _was_there(name, *found, request)
        if lists and request is not None:
            left_out |= {(session, name): (lists[-1], listing) for name in _names(lists[-1]) - _names(listing)}
        lists.append(listing)


def _steps(connection: Connection) -> Iterator[tuple[str, _Listing | None, Request | None]]:
    """(sessionId, the options that a line tells, the session/set_config_option that was answered), in the order of the
    lines."""
    found: list[tuple[int, str, _Listing | None, Request | None]] = []
    for request in connection.requests:
        if request.response is None or request.method not in (
            "session/new",
            "session/resume",
            "session/set_config_option",
        ):
            continue
        session = session_in(request.result) if request.method == "session/new" else request.session_id
        setting = request if request.method == "session/set_config_option" else None
        options = _options_in(request.result)
        listing = _Listing(request.response, options, setting) if options is not None else None
        if session is not None and (listing is not None or setting is not None):
            found.append((request.response.seq, session, listing, setting))
    settings = [r for r in connection.requests if r.method == "session/set_config_option"]
    for view in connection.views.values():
        for update in view.updates:
            if update.kind == "config_option_update" and (options := _options_in(update.body)) is not None:
                pending = tuple(r for r in settings if r.session_id == view.id and r.seq < update.seq < r.answered_at)
                found.append((update.seq, view.id, _Listing(update.event, options, pending=pending), None))
    found.sort(key=lambda step: step[0])
    for _, session, listing, setting in found:
        yield session, listing, setting


def _options_in(value: Any) -> list[dict[str, Any]] | None:
    options = value.get("configOptions") if isinstance(value, dict) else None
    return [option for option in options if isinstance(option, dict)] if isinstance(options, list) else None


def _names(listing: _Listing) -> set[str]:
    return {option["configId"] for option in listing.options if isinstance(option.get("configId"), str)}


def values_of(option: dict[str, Any]) -> list[str] | None:
    """The values of a select, groups opened; None where the option is no select or is malformed."""
    if option.get("type") != "select" or not isinstance(option.get("options"), list):
        return None
    values: list[str] = []
    for entry in option["options"]:
        inner = entry.get("options") if isinstance(entry, dict) else None
        for choice in inner if isinstance(inner, list) else [entry]:
            value = choice.get("value") if isinstance(choice, dict) else None
            if not isinstance(value, str):
                return None
            values.append(value)
    return values


def _faults(options: list[dict[str, Any]]) -> Iterator[str]:
    names = Counter(option["configId"] for option in options if isinstance(option.get("configId"), str))
    for name, count in names.items():
        if count > 1:
            yield f"the option {shown(name)} stands in the list {count} times"
    for option in options:
        values = values_of(option)
        if values is None:
            continue
        current, name = option.get("currentValue"), shown(option.get("configId"))
        if isinstance(current, str) and current not in values:
            yield f"the current value {shown(current)} of the option {name} is not among its options"
        twice = next((value for value, count in Counter(values).items() if count > 1), None)
        if twice is not None:
            yield f"the value {shown(twice)} stands twice among the options of {name}"


def _judge_setting(request: Request, before: _Listing, latest: _Listing, after: _Listing | None) -> Verdict:
    """`before` is the last list before the request, `latest` the last before its answer."""
    assert request.response is not None
    params = request.params if isinstance(request.params, dict) else {}
    identifier = params.get("configId")
    offered = (before.event, "the options that the session has")
    asked = (request.event, f"the client sets {shown(identifier)} to {shown(params.get('value'))}")
    is_offered = _is_offered(before, params)
    if request.succeeded:
        answered = (request.response, "it succeeds")
        if after is None:
            yield violation(
                "session/set_config_option is answered without the list of options", offered, asked, answered
            )
            return
        if is_offered is False and _is_offered(after, params) is False:
            yield violation(
                "an option or value that is not offered was accepted", offered, asked, (request.response, "accepted")
            )
            return
        yield from _judge_completeness(request, before, latest, after)
    elif is_offered is False and request.error_code == ErrorCode.INVALID_PARAMS:
        yield EXERCISED
    elif request.error_code == ErrorCode.METHOD_NOT_FOUND:
        refused = (request.response, "the agent does not know the method")
        yield violation(
            "session/set_config_option is not found though the session has options", offered, asked, refused
        )
    elif is_offered is False and not request.cancels and request.error_code not in _OTHER_REASONS:
        code = error_name(request.error_code) if request.error_code is not None else "an error without a code"
        refused = (request.response, f"it gets {code}")
        yield violation(
            f"an option or value that is not offered gets {code} instead of -32602", offered, asked, refused
        )


_OTHER_REASONS = (ErrorCode.AUTHENTICATION_REQUIRED, ErrorCode.RESOURCE_NOT_FOUND)


def _is_offered(listing: _Listing, params: dict[str, Any]) -> bool | None:
    """Whether this list offers the value that is to be set; None where nobody can tell."""
    option = listing.option(params.get("configId"))
    if option is None:
        return False if isinstance(params.get("configId"), str) else None
    values = values_of(option)
    if params.get("type") == "id" and values is not None and isinstance(params.get("value"), str):
        return params["value"] in values
    return None


def _judge_completeness(request: Request, before: _Listing, latest: _Listing, after: _Listing) -> Verdict:
    known, told = _names(before), _names(after)
    missing = sorted(known & _names(latest) - told)  # another client may have set what takes one away
    if not missing or request.response is None:
        return
    set_alone = list(told) == [request.params.get("configId")] and len(known) > 2
    option = before.option(request.params.get("configId"))
    changed_nothing = option is not None and option.get("currentValue") == request.params.get("value")
    finding = violation if set_alone or changed_nothing or not told else warning
    yield finding(
        f"the answer to session/set_config_option leaves out {', '.join(shown(name) for name in missing[:5])}",
        (before.event, f"the session has {len(known)} options"),
        (request.event, f"the client sets {shown(request.params.get('configId'))}"),
        (request.response, f"the answer, which is to be the complete list, has {len(told)}"),
    )


def _was_there(name: str, last: _Listing, without: _Listing, request: Request) -> Finding:
    """An option that an answer left out can be set: it was there all the time."""
    assert request.response is not None
    told = (
        without.event,
        f"the answer to session/set_config_option, which is to be the complete list, has no {shown(name)}",
    )
    return violation(
        f"the answer to session/set_config_option left out {shown(name)}, which was there all the time",
        (last.event, f"the session has the option {shown(name)}"),
        told,
        (request.event, f"the client sets {shown(name)}, with no other list in between that has it"),
        (request.response, "and the agent does so"),
    )
