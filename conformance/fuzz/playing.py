"""Plays a sequence: on a live process that goes on afterwards, or on a fresh one exactly as `run --scenario` would."""

import asyncio
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from conformance.fuzz.live import CLIENT, Live
from conformance.fuzz.situations import Mark, Past, situation
from conformance.history import History, Recorder, controls
from conformance.model import ScriptedModel
from conformance.peers import AgentDidNotStart, ConnectionEnded
from conformance.profile import Profile, redactor_of
from conformance.scenario.interpreter import play, wind_up
from conformance.scenario.lives import Lives, setting_of
from conformance.scenario.model import Scenario
from conformance.scenario.performing import perform
from conformance.scenario.stage import Stage
from conformance.scenario.stops import NotApplicable, NotBroughtAbout, Stop

_SLICE_OF_LIMIT: Final = 0.25  # of the profile's limit for a scenario: what one sequence may take


@dataclass(frozen=True, slots=True)
class Ran:
    """A sequence that was played. `unmet` are the places of steps whose situation did not arise; `marks` say where in
    the history each step began; `problem` why the suite could not do its work; `is_exhausted`: patience ran out."""

    history: History
    marks: tuple[Mark, ...] = ()
    unmet: frozenset[int] = frozenset()
    problem: str = ""
    is_exhausted: bool = False


async def on_live(
    live: Live, scenario: Scenario, *, patience: float, quiet_window: float | None, is_strict: bool = False
) -> Ran:
    """Plays the steps after the first one, `connect`, on a process that runs already. `quiet_window` (seconds) is how
    long silence is waited for at the end; None: not at all. A step whose situation does not arise is passed over; when
    `is_strict` it is the last one, as it is in a scenario."""
    setting = replace(
        live.setting,
        patience=patience,
        quiet_window=quiet_window or 0.02,
        limit=live.setting.limit * _SLICE_OF_LIMIT,
        asks_in_the_end=True,
    )
    stage = live.lend(scenario, setting)
    marks: list[Mark] = []
    unmet: set[int] = set()
    try:
        try:
            async with asyncio.timeout(setting.limit):
                await _perform(stage, scenario, marks, unmet, is_strict=is_strict)
        except TimeoutError:
            stage.is_exhausted = True
        except (Stop, ConnectionEnded):
            stage.is_exhausted = True
        marks.append(Mark(stage.now, "", "end"))
        await wind_up(stage, is_whole=True, quiet=quiet_window is not None)
        await stage.has_ended(stage.actors[CLIENT])  # how it ended belongs to the history
    finally:
        others = [a for a in stage.actors.values() if a.name != CLIENT or a.lives > 1]
        await asyncio.shield(asyncio.gather(*(a.client.close() for a in others), return_exceptions=True))
        history = stage.recorder.history
        await _tidy(live, stage)
    return Ran(history, tuple(marks), frozenset(unmet), is_exhausted=stage.is_exhausted)


async def _perform(stage: Stage, scenario: Scenario, marks: list[Mark], unmet: set[int], *, is_strict: bool) -> None:
    past = Past()
    for place, step in enumerate(scenario.steps):
        if place == 0:
            continue  # connect: done
        marks.append(situation(stage, step, past.of(step)))
        past.note(step)
        try:
            await perform(stage, [step])
        except (NotBroughtAbout, NotApplicable):
            unmet.add(place)
            if is_strict or not any(actor.is_open for actor in stage.actors.values()):
                return


async def _tidy(live: Live, stage: Stage) -> None:
    """Closes the sessions of the sequence, so that the process is as it was; ends the process where that fails."""
    sessions = {chat.id for chat in stage.chats.values()} | _made(stage.recorder.history)
    actor = stage.actors[CLIENT]
    owed = stage.unanswered(actor.conn) or stage.busy_sessions(actor.conn)
    usable = actor.lives == 1 and actor.is_open and not actor.is_deaf and not live.is_spent and not stage.is_exhausted
    is_sound = not owed and not stage.is_exhausted and not _was_restarted(stage.recorder.history)
    live.is_renewable = live.setting.is_websocket and is_sound
    tidied = usable and not owed and await _closed(stage, sessions)
    live.give_back(stage, sessions)
    if not tidied:
        await live.connection.cut()


def _was_restarted(history: History) -> bool:
    return any(event.name == controls.STARTED and (event.control or {}).get("restart_of") for event in history)


async def _closed(stage: Stage, sessions: set[str]) -> bool:
    stage.recorder.history = History()  # what is tidied up is no part of the sequence
    actor, method = stage.actors[CLIENT], "session/close"
    try:
        sent = [await stage.send_request(actor, method, {"sessionId": session}) for session in sorted(sessions)]
        return all([await stage.until_answered(each, stage.setting.patience) for each in sent])
    except (Stop, ConnectionEnded):
        return False


def _made(history: History) -> set[str]:
    """The sessions that answers to session/new named."""
    found = set()
    for event in history:
        result = event.message.get("result") if event.dir == "agent" and isinstance(event.message, dict) else None
        session = result.get("sessionId") if isinstance(result, dict) else None
        if isinstance(session, str):
            found.add(session)
    return found


async def on_fresh(
    profile: Profile, scenario: Scenario, *, seed: int, patience: float | None = None, path: Path | None = None
) -> Ran:
    """Plays the scenario on an agent that is started for it, in a folder of its own, as `run` does. `path` is where the
    transcript goes."""
    folder = Path(tempfile.mkdtemp(prefix="acp-conformance-")).resolve()
    setting = replace(setting_of(profile, workdir=folder, seed=seed, patience=patience), asks_in_the_end=True)
    redactor = redactor_of(profile)
    recorder = Recorder(path, {"scenario": scenario.id, "seed": seed}, redactor=redactor)
    model = ScriptedModel(recorder) if setting.has_model else None
    lives = Lives(profile, recorder, setting, model)
    try:
        if model is not None:
            await model.start()
        played = await play(scenario, setting, recorder, lives, model)
    except AgentDidNotStart as error:
        return Ran(recorder.history, problem=str(error))
    finally:
        await lives.end()
        if model is not None:
            await model.stop()
        recorder.close()
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    return Ran(recorder.history, problem=played.reason if played.unanswered else "")
