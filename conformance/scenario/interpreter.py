"""Plays a scenario from its first step to the orderly end of every connection, and says what became of it. Never
judges.

Whatever happens, what was recorded stays, everything that was started is ended, and the whole is bounded: one
patience for an agent that hangs, a limit for the scenario.
"""

import asyncio
import contextlib
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from conformance.history import Event, Recorder, controls
from conformance.model import ScriptedModel
from conformance.peers import ConnectionEnded
from conformance.scenario import sight
from conformance.scenario.actors import Actor
from conformance.scenario.model import Scenario
from conformance.scenario.needs import missing
from conformance.scenario.performing import perform
from conformance.scenario.setting import Setting
from conformance.scenario.stage import Connector, Stage
from conformance.scenario.stops import Broken, NotApplicable, Stop
from conformance.scenario.verbs.requests import answer_held
from conformance.scenario.verbs.windows import ask, barrier, quiet_window
from conformance.scenario.watching import Sent

_MOMENT: Final = 0.5  # seconds for what is owed, before the agent is asked whether it hangs
_MOST_PATIENCE: Final = 4  # times the patience, for an agent that goes on and on
_LEAST_FAREWELL: Final = 3.0  # seconds for what is owed after the last step, however little of the limit is left
_LAST_SHARE: Final = 0.5  # of the quiet window, at the end of scenarios that do not ask for silence themselves
_AMBIGUOUS: Final = (
    "ambiguous: the connection ended before the answer to {} was read; whether it became a message, and which one, "
    "cannot be known and is not guessed"
)


@dataclass(frozen=True, slots=True)
class Played:
    """What became of a scenario. `answer` is what the agent said to `initialize`; `unanswered`: it said nothing, or
    never started."""

    status: Literal["completed", "not-applicable", "broken"]
    reason: str = ""
    answer: dict[str, Any] | None = None
    stderr: str = ""
    unanswered: bool = False


def not_applicable(scenario: Scenario, setting: Setting) -> str | None:
    """Why the scenario cannot be played on this target, and what to add to the profile; None where it can be tried."""
    return next((why for need in scenario.needs if (why := missing(need, setting)) is not None), None)


async def play(
    scenario: Scenario,
    setting: Setting,
    recorder: Recorder,
    connector: Connector,
    model: ScriptedModel | None = None,
    is_done: asyncio.Event | None = None,
) -> Played:
    """Plays the scenario; the history grows in `recorder`. The model, where there is one, listens already. `is_done` is
    set when nothing is left but the end of what was started."""
    recorder.control("", controls.PROFILE, **setting.facts())
    stage = Stage(scenario, setting, recorder, connector, model)
    played = Played("completed")
    deadline = asyncio.get_running_loop().time() + setting.limit
    try:
        try:
            async with asyncio.timeout(setting.limit):
                await perform(stage, scenario.steps)
        except TimeoutError:
            why = f"it took longer than {setting.limit:g} s and was stopped there"
            stage.is_exhausted = True
            stage.record("", controls.NOT_BROUGHT_ABOUT, why=why)
            played = Played("completed", f"{why}; give a slow agent more with [limits] scenario")
        except NotApplicable as stop:
            played = Played("not-applicable", stop.reason)
        except Broken as stop:
            stage.is_exhausted = True
            played = Played("broken", stop.reason, unanswered=stop.unanswered)
        except Stop as stop:
            played = Played("completed", stop.reason)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(_LEAST_FAREWELL, deadline - asyncio.get_running_loop().time())):
                await wind_up(stage, is_whole=played.status == "completed")
    finally:
        if played.status == "completed" and stage.ambiguous:
            ambiguous = _AMBIGUOUS.format(", ".join(sent.alias for sent in stage.ambiguous))
            played = replace(played, reason="; ".join(filter(None, (played.reason, ambiguous))))
        if is_done is not None and not played.unanswered:  # whether to begin another is not known before it is told
            is_done.set()
        await _end(stage)
        for effect in sorted(stage.effects):
            if (setting.workdir / effect).exists():
                stage.record("", controls.TOOL_EFFECT, nonce=None, detail=f"the file {effect} is there")
    actors = list(stage.actors.values())
    answer = next((actor.answer for actor in actors if actor.answer), None)
    stderr = next((tail for actor in actors if (tail := actor.client.connection.stderr_tail)), "")
    return Played(played.status, played.reason, answer, stderr, played.unanswered)


async def wind_up(stage: Stage, *, is_whole: bool, quiet: bool = True) -> None:
    """After the last step: nothing is held any more, work may end, and each connection is asked once more, so that what
    it still owes is either there or missing for good. Without `quiet` it is asked at once, and no window is recorded.
    """
    if (model := stage.model) is not None:
        model.release(None)
        stage.recorder.listen(lambda event: _let_go(model, event))
    living = [actor for actor in stage.actors.values() if _is_usable(actor)]
    for actor in living:
        actor.client.policies.update(dict.fromkeys(actor.client.policies, "cancel"))
        answer_held(stage, actor, "cancel")
    if not is_whole:
        return
    try:
        await asyncio.gather(*(_settle(stage, actor, quiet=quiet) for actor in living))
    except (Stop, ConnectionEnded):
        return  # an agent that goes away now owes nothing that could still be asked for


def _let_go(model: ScriptedModel, event: Event) -> None:
    if event.name == controls.MODEL_HELD:
        model.release(None)


def _is_usable(actor: Actor) -> bool:
    return actor.is_open and not actor.is_deaf and not actor.client.connection.ended.is_set()


async def _settle(stage: Stage, actor: Actor, *, quiet: bool) -> None:
    """Waits until no request is open and no session at work, then for quiet and an answered request."""
    conn, began, patience = actor.conn, stage.now, stage.patience
    asks = stage.setting.asks_in_the_end and actor.answer is not None
    asked: Sent | None = None
    if asks and not await _until_nothing_is_owed(stage, conn, min(_MOMENT, patience / 4), most=1):
        asked = await ask(stage, actor)  # an agent that hangs owes this answer, too, whatever excuses the others
    await _until_nothing_is_owed(stage, conn, patience, most=_MOST_PATIENCE)
    if actor.client.connection.ended.is_set():
        return
    for sent in stage.unanswered(conn):
        await stage.out_of_patience(conn, "response", patience, began, id=sent.id, session=sent.session)
    for session in stage.busy_sessions(conn):
        await stage.out_of_patience(conn, "idle", patience, began, session=session)
    if actor.answer is None or stage.is_settled(actor) or (asked is not None and asked.response is None):
        return
    if quiet and stage.sessions_of(conn):
        await quiet_window(stage, actor, None, share=_LAST_SHARE)
    else:
        await barrier(stage, actor)


async def _until_nothing_is_owed(stage: Stage, conn: str, patience: float, *, most: int) -> bool:
    """Whether it comes to that. Given up once the agent was silent for all patience, or after so many times of it."""

    def is_over(event: Event) -> bool:
        return (not stage.unanswered(conn) and not stage.is_busy(conn)) or sight.ends(event, conn)

    events, now = stage.recorder.history.events, stage.recorder.now
    since, deadline = stage.now, now() + most * patience
    silence_ends = now() + patience
    while now() < min(deadline, silence_ends):
        left = min(deadline, silence_ends) - now()
        found = await stage.waits.until(is_over, since=max(0, since - 1), patience=left)
        # Between the idle of one prompt and the running of the next it is over for a moment.
        if found is not None and (is_over(found) or sight.ends(events[-1], conn)):
            return True
        signs = [event.t for event in events[since:] if event.conn == conn and event.dir == "agent"]
        silence_ends, since = max([silence_ends, *(t + patience for t in signs)]), stage.now
    return False


async def _end(stage: Stage) -> None:
    """Ends every connection, the open ones in an orderly way, and waits until all is gone."""
    ending = [actor.client.cut() if actor.is_deaf else actor.client.close() for actor in stage.actors.values()]
    ended = asyncio.gather(*ending, return_exceptions=True)
    try:
        await asyncio.shield(ended)
    except asyncio.CancelledError:  # interrupted: what is begun here ends soon, and belongs to the record
        await ended
        raise
