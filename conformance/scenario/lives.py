"""The lives of an agent within one scenario: each connection started or dialled as the profile says, in the same
working folder.

Knows profiles and peers; knows no step. An agent over stdin and stdout is started for each connection; a server
once for all of them.
"""

from pathlib import Path

from conformance.history import Recorder
from conformance.model import ScriptedModel
from conformance.peers import Connection, ScriptedClient, Server, dial_websocket, start_process, start_server
from conformance.peers.launch import Launch, prepare
from conformance.profile import Profile
from conformance.scenario.setting import Setting


def setting_of(profile: Profile, *, workdir: Path, seed: int, patience: float | None = None) -> Setting:
    """What a scenario may count on under `profile`. `patience` (seconds) replaces that of the profile; windows and
    limits grow with it."""
    limits = profile.limits
    stretch = max(1.0, patience / limits.patience) if patience is not None else 1.0
    is_process = profile.agent.url is None
    return Setting(
        workdir=workdir,
        seed=seed,
        patience=limits.patience if patience is None else patience,
        startup=profile.agent.startup_timeout * stretch,
        hold_window=limits.hold_window * stretch,
        quiet_window=limits.quiet_window * stretch,
        limit=limits.scenario * stretch,
        triggers=profile.triggers,
        model_api=profile.model.api if profile.model is not None else None,
        shared=profile.sessions.shared,
        survives_restart=profile.sessions.survives_restart,
        is_process=is_process,
        can_restart=profile.agent.command is not None,
        install=profile.agent.install,
    )


class Lives:
    """A `Connector` for the agent of `profile`. `beside` others: the server is theirs, where there is one."""

    def __init__(
        self,
        profile: Profile,
        recorder: Recorder,
        setting: Setting,
        model: ScriptedModel | None,
        *,
        beside: "Lives | None" = None,
    ) -> None:
        self._profile, self._recorder, self._setting, self._model = profile, recorder, setting, model
        self._servers: list[Server] = beside._servers if beside is not None else []  # one, once it is started

    async def __call__(self, name: str, *, restart_of: str | None) -> ScriptedClient:
        connection = await self.connection(name, restart_of=restart_of)
        return ScriptedClient(connection, self._recorder, patience=self._setting.patience)

    async def connection(self, name: str, *, restart_of: str | None = None) -> Connection:
        """A life without a client on it. Raises AgentDidNotStart."""
        launch = prepare(
            self._profile,
            workdir=self._setting.workdir,
            model_origin=self._model.origin if self._model is not None else None,
        )
        if launch.url is not None:
            return await self._dialled(launch, name, restart_of)
        return await start_process(
            launch.command,
            name=name,
            recorder=self._recorder,
            cwd=launch.cwd,
            env=launch.env,
            limits=launch.limits,
            restart_of=restart_of,
        )

    async def _dialled(self, launch: Launch, name: str, restart_of: str | None) -> Connection:
        """A connection to the server, which is started for the first one and again for a restart."""
        assert launch.url is not None
        url = launch.url
        if launch.command:
            if restart_of is not None:
                await self.end()
            if not self._servers:
                server = await start_server(
                    launch.command,
                    url=url,
                    recorder=self._recorder,
                    cwd=launch.cwd,
                    env=launch.env,
                    limits=launch.limits,
                )
                self._servers.append(server)
            url = self._servers[0].url
        return await dial_websocket(
            url, name=name, recorder=self._recorder, limits=launch.limits, restart_of=restart_of
        )

    @property
    def stderr_tail(self) -> str:
        """The end of what a server wrote to stderr."""
        return self._servers[0].output_tail if self._servers else ""

    async def end(self) -> None:
        """Ends what outlives single connections: the server, where there is one."""
        while self._servers:
            await self._servers.pop().stop()
