"""Where lines depart from the schema, found once for each connection and side: shapes that are wrong, fields and values
beyond it.

Knows how to ask `conformance.protocol` about each line; judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from conformance.history import Event
from conformance.protocol.methods import method as known_method
from conformance.protocol.validation import Extensions, Problem, extensions, params_problems, result_problems

if TYPE_CHECKING:
    from conformance.conversation.facts import Request

Side = Literal["agent", "client"]


@dataclass(frozen=True, slots=True)
class Shape:
    """One line that departs from the schema of its method: `part` is "params" or "result"."""

    event: Event
    method: str
    part: str
    value: Any
    problems: list[Problem]
    extensions: Extensions


MOST_EXPLAINED: Final = 1_000
"""Params of one side that are wrong and say why: each costs a hundred times what a right one does."""


def shapes(side: Side, own: list[Request], notifications: list[Event], answered: list[Request]) -> list[Shape]:
    """What departs, in order, in the params that `side` sent (its `own` requests and `notifications`) and in the
    results that it gave (the other side's requests that it `answered`). Lines that are all right are left out."""
    found = [*_params(side, own, notifications), *_results(answered)]
    return sorted(found, key=lambda shape: shape.event.seq)


def _params(side: Side, own: list[Request], notifications: list[Event]) -> Iterator[Shape]:
    calls = [(request.event, request.method, request.params, True) for request in own]
    calls += [(event, str(event.message.get("method")), event.message.get("params"), False) for event in notifications]
    wrong = 0
    for event, method, params, is_request in calls:
        problems = params_problems(method, params, side) if wrong < MOST_EXPLAINED else []
        problems = [*problems, *_kind_problems(side, method, event.message.get("id"), is_request=is_request)]
        wrong += bool(problems)
        beyond = extensions(method, params, "params", side)
        if problems or beyond.unknown_fields or beyond.custom_values:
            yield Shape(event, method, "params", params, problems, beyond)


def _kind_problems(side: Side, method: str, identifier: Any, *, is_request: bool) -> list[Problem]:
    """A request that is sent as a notification, or the other way round; an id of null is no certain request."""
    known = known_method(method, side)
    if known is None or known.is_request == is_request or (is_request and identifier is None):
        return []
    told = "it is a request, and has no id" if known.is_request else "it is a notification, and has an id"
    return [Problem("id", identifier, known.params, told)]


def _results(answered: list[Request]) -> Iterator[Shape]:
    for request in answered:
        if request.response is None or not request.succeeded:
            continue
        problems = result_problems(request.method, request.result)
        beyond = extensions(request.method, request.result, "result")
        if problems or beyond.unknown_fields or beyond.custom_values:
            yield Shape(request.response, request.method, "result", request.result, problems, beyond)
