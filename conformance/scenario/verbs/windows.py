"""Windows of time that end with an answered request: quiet (nothing more came) and hold (nothing came while something
was held)."""

from conformance.history import Event, controls
from conformance.scenario import sight
from conformance.scenario.actors import Actor
from conformance.scenario.shapes import Name
from conformance.scenario.stage import BARRIER, Stage
from conformance.scenario.table import Given, condition
from conformance.scenario.verbs.views import actor_of
from conformance.scenario.watching import ENDED, Met, Missed, Sent

_MOST_WINDOWS = 12  # an agent that never falls silent is not waited for longer than this many windows


async def barrier(stage: Stage, actor: Actor, *, seconds: float | None = None) -> bool:
    """A request that every agent answers at once: what it owed before, it has written by then. Whether it was
    answered."""
    return await stage.response(await ask(stage, actor), seconds=seconds) is not None


async def ask(stage: Stage, actor: Actor) -> Sent:
    """Sends that request, and does not wait."""
    method, params = ("session/list", {"cwd": str(stage.setting.workdir)}) if actor.has_sessions else (BARRIER, {})
    return await stage.send_request(actor, method, params)


async def quiet_window(
    stage: Stage, actor: Actor, session: str | None, *, share: float = 1.0, seconds: float | None = None
) -> bool:
    """Waits until no update came for the quiet window (or a share of it), then for the barrier; records the window.
    Whether all that came about.

    `session` limits it to the updates of one session; else nothing at all may come, and the window is recorded for
    each session of the connection, or for none.
    """
    window, began = stage.quiet_seconds(actor, share), stage.now
    is_quiet = False
    for _ in range(_MOST_WINDOWS):
        began = stage.now
        disturbed = await stage.waits.until(
            lambda event: _disturbs(event, actor.conn, session),
            since=began,
            patience=window,
            ended=actor.client.connection.ended,
        )
        if disturbed is None:
            is_quiet = True
            break
    if actor.client.connection.ended.is_set() or not await barrier(stage, actor, seconds=seconds):
        return False
    if is_quiet:
        sessions: list[str | None] = [session] if session is not None else [*stage.sessions_of(actor.conn)] or [None]
        for each in sessions:
            stage.record(actor.conn, controls.WINDOW, kind="quiet", session=each, began=began, seconds=round(window, 3))
    return is_quiet


def _disturbs(event: Event, conn: str, session: str | None) -> bool:
    if session is None:
        return event.conn == conn and event.dir == "agent"
    found = sight.update(event) if event.conn == conn else None
    return found is not None and found[0] == session


@condition(
    "quiet",
    "No update of the session (or nothing at all on the connection) for the quiet window, then an answered request: "
    "whatever the agent owed, it has written",
    Name("session", many=True, also="connection"),
)
async def quiet(stage: Stage, given: Given, seconds: float) -> Met | Missed:
    for name in given["quiet"]:
        chat = stage.chat(name) if name in stage.chats or name not in stage.actors else None
        actor = actor_of(stage, given, chat) if chat is not None else stage.actor(name)
        await quiet_window(stage, actor, chat.id if chat is not None else None, seconds=seconds)
        if actor.client.connection.ended.is_set():
            return Missed(ENDED, False, actor.conn)
    return Met()


@condition(
    "caught-up",
    "A request that was sent just now is answered: whatever the agent owed before, it has written",
    Name("connection", many=True),
)
async def caught_up(stage: Stage, given: Given, seconds: float) -> Met | Missed:
    for actor in [stage.actor(name) for name in given["caught-up"]]:
        if not await barrier(stage, actor, seconds=seconds):
            is_lost = actor.client.connection.ended.is_set()
            return Missed(ENDED if is_lost else "a plain request was not answered", not is_lost, actor.conn)
    return Met()


@condition(
    "held",
    "The hold window has passed (the scenario holds a model request or a permission), then an answered request",
    Name("session"),
)
async def held(stage: Stage, given: Given, seconds: float) -> Met | Missed:
    chat = stage.chat(given["held"])
    actor = actor_of(stage, given, chat)
    window, began = max(stage.setting.hold_window, 2 * stage.quiet_seconds(actor)), stage.now
    await stage.waits.until(lambda event: False, since=began, patience=window, ended=actor.client.connection.ended)
    if actor.client.connection.ended.is_set():
        return Missed(ENDED, False, actor.conn)
    if await barrier(stage, actor, seconds=seconds):
        stage.record(actor.conn, controls.WINDOW, kind="hold", session=chat.id, began=began, seconds=round(window, 3))
    return Met()
