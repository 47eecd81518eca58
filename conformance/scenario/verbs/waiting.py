"""`wait` and `require`: the same conditions, once as what the agent owes, once as what the scenario needs to go on."""

from typing import Any, Final

from conformance.scenario.shapes import Choice, Flag, Key, Name, Number
from conformance.scenario.stage import Stage
from conformance.scenario.stops import Broken, OutOfPatience
from conformance.scenario.table import CONDITIONS, Given, verb
from conformance.scenario.verbs import conditions, windows  # noqa: F401  (enter the conditions into their table)
from conformance.scenario.verbs.keys import ON
from conformance.scenario.watching import ENDED, Met, Missed

_HOW: Final = {
    "by": ON,
    "in": Key(Name("session"), "The session; by default the one that was used last"),
    "after": Key(Name("request"), "The prompt whose work is meant; by default the latest of the session"),
    "times": Key(Number("a number", least=1), "How many of them; one by default"),
    "beyond-idle": Key(Flag(), "true: wait on though the session's work has ended, for what comes of itself"),
}
_WAITS: Final = {found.name: Key(found.shape, found.says) for found in CONDITIONS.values() if found.waits}
_ALL: Final = {found.name: Key(found.shape, found.says) for found in CONDITIONS.values()}


@verb(
    "wait",
    "Waits for what the agent owes. Where patience runs out that is on record, and the steps end",
    {
        **_WAITS,
        **_HOW,
        "patience": Key(Number("a number", least=1, fraction=True), "So many times the patience of the profile"),
        "otherwise": Key(
            Choice(("stop", "continue"), "way"), "What to do where it does not come: stop (by default) or continue"
        ),
    },
    one_of=tuple(_WAITS),
)
async def wait(stage: Stage, given: Given) -> None:
    missed = await _look(stage, given, _WAITS)
    if missed is None or given.get("otherwise") == "continue":
        return
    if missed.ran_out and stage.is_silent(missed.conn):
        raise Broken(f"the agent said nothing at all: {missed.why}", unanswered=True)
    if missed.ran_out:
        raise OutOfPatience(f"out of patience: {missed.why}")
    await _raise_if_lost(stage, missed)
    raise stage.not_brought_about(missed.why)


@verb(
    "require",
    "Demands what the rest of the scenario is about. Where it is not so the steps end, and nobody is to blame",
    {
        **_ALL,
        **_HOW,
        "patience": Key(
            Number("a number", fraction=True), "So many times the patience of the profile, also less than once"
        ),
    },
    one_of=tuple(_ALL),
)
async def require(stage: Stage, given: Given) -> None:
    missed = await _look(stage, given, _ALL)
    if missed is not None:
        await _raise_if_lost(stage, missed)
        raise stage.not_brought_about(missed.why)


async def _look(stage: Stage, given: Given, known: dict[str, Any]) -> Missed | None:
    name = next(name for name in known if name in given)
    found = await CONDITIONS[name].look(stage, given, stage.patience * given.get("patience", 1))
    return None if isinstance(found, Met) else found


async def _raise_if_lost(stage: Stage, missed: Missed) -> None:
    if missed.why == ENDED:
        for actor in stage.actors.values():
            if actor.conn == missed.conn and actor.is_open:
                raise await stage.lost(actor, "while the scenario waited for it")
