"""An agent as a child process: what is recorded, what ends it, and that nothing of it survives."""

import asyncio
import json
import os
import sys
import textwrap
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from conformance.history import Event, Recorder, controls
from conformance.peers import (
    AgentDidNotStart,
    ConnectionEnded,
    Limits,
    ProcessConnection,
    ScriptedClient,
    start_process,
)

POSIX = pytest.mark.skipif(os.name != "posix", reason="signals and process groups")
QUICK = Limits(grace=0.3, terminate_grace=0.3, trailing_output=0.2, watch_interval=0.05)

ECHO = """
    import json, sys
    for line in sys.stdin:
        call = json.loads(line)
        if "id" in call:
            print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": call.get("params")}), flush=True)
"""


async def agent(code: str, recorder: Recorder, *, limits: Limits = QUICK, name: str = "ada") -> ProcessConnection:
    command = [sys.executable, "-u", "-c", textwrap.dedent(code)]
    return await start_process(command, name=name, recorder=recorder, limits=limits)


def played(scene: Callable[[Recorder], Coroutine[Any, Any, Any]]) -> list[Event]:
    """The history of a scene, which must end within a minute whatever the agent does."""
    recorder = Recorder()
    asyncio.run(asyncio.wait_for(scene(recorder), 60))
    return recorder.history.events


def names(events: list[Event]) -> list[str]:
    return [event.name or event.dir for event in events]


def only(events: list[Event], name: str) -> dict[str, Any]:
    found = [event.control for event in events if event.name == name]
    assert len(found) == 1, f"{len(found)} {name} events in {names(events)}"
    return dict(found[0] or {})


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_request_is_answered_and_the_agent_leaves_when_its_input_ends() -> None:
    async def scene(recorder: Recorder) -> None:
        client = ScriptedClient(await agent(ECHO, recorder), recorder, patience=20)
        answered = await client.response(await client.request("test/echo", {"n": 1}))
        assert answered is not None
        assert answered.message["result"] == {"n": 1}
        await client.close()

    events = played(scene)
    assert names(events) == ["started", "client", "agent", "closed", "exited"]
    assert events[-1].control == {"event": "exited", "code": 0, "signal": None, "by_itself": True}


def test_what_has_arrived_can_be_waited_for() -> None:
    async def scene(recorder: Recorder) -> None:
        connection = await agent("import sys; print('{}\\n' * 40_000); sys.stdin.read()", recorder)
        while not connection.process.received:
            await asyncio.sleep(0)
        arrived = connection.process.received
        await connection.catch_up()
        recorded = sum(event.dir == "agent" for event in recorder.history.events)
        assert recorded >= arrived // len("{}\n") > 0
        await connection.cut()

    played(scene)


def test_an_exit_of_its_own_is_disconnected_then_exited_after_its_last_line() -> None:
    async def scene(recorder: Recorder) -> None:
        connection = await agent("import sys; print('{\"half\":', end=''); sys.exit(3)", recorder)
        await connection.ended.wait()
        with pytest.raises(ConnectionEnded):
            connection.write(b"{}\n")
        await connection.close()

    events = played(scene)
    assert names(events) == ["started", "agent", "disconnected", "exited"]
    assert events[1].envelope is not None
    assert events[1].envelope.raw == b'{"half":'
    assert only(events, "exited")["code"] == 3


@POSIX
def test_the_signal_that_ended_an_agent_is_named() -> None:
    async def scene(recorder: Recorder) -> None:
        connection = await agent("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", recorder)
        await connection.ended.wait()
        await connection.close()

    assert only(played(scene), "exited") == {"event": "exited", "code": None, "signal": "SIGSEGV", "by_itself": True}


@POSIX
@pytest.mark.parametrize(
    "stubbornness",
    ["signal.signal(signal.SIGTERM, signal.SIG_IGN)", "os.kill(os.getpid(), signal.SIGSTOP)", "os.close(1)"],
    ids=["ignores SIGTERM", "stops itself", "closes its output"],
)
def test_an_agent_that_stays_is_ended(stubbornness: str) -> None:
    async def scene(recorder: Recorder) -> None:
        connection = await agent(f"import os, signal, time\nprint('[]')\n{stubbornness}\ntime.sleep(300)", recorder)
        client = ScriptedClient(connection, recorder, patience=20)
        await client.until(lambda event: event.dir == "agent", since=0)
        await client.close()

    events = played(scene)
    assert only(events, "lingered")["seconds"] == QUICK.grace
    assert only(events, "exited")["by_itself"] is False


@POSIX
def test_cut_reads_nothing_more_and_ends_the_agent_at_once() -> None:
    async def scene(recorder: Recorder) -> None:
        connection = await agent("import time\nwhile True: print('[1]')", recorder)
        client = ScriptedClient(connection, recorder, patience=20)
        await client.until(lambda event: event.dir == "agent", since=0)
        pending = await client.request("test/never-answered")
        await client.cut()
        assert pending.response.result() is None

    events = played(scene)
    after = names(events)[names(events).index("cut") :]
    assert after == ["cut", "exited"]
    assert only(events, "exited")["signal"] == "SIGKILL"


FAMILIES = {
    "a grandchild that holds the pipes": (
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'])",
        True,
    ),
    "a daemon": (
        """
        subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'], start_new_session=True,
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)""",
        False,  # it may be the user's own shell's
    ),
    "a stopped child": (
        """
        import signal
        os.kill(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)']).pid, signal.SIGSTOP)""",
        True,
    ),
}


@POSIX
@pytest.mark.parametrize(("family", "is_told"), FAMILIES.values(), ids=FAMILIES.keys())
def test_nothing_of_the_agent_survives(family: str, is_told: bool) -> None:
    code = f"import os, subprocess, sys\nchild = {{}}\n{textwrap.dedent(family)}\n"
    code = code.replace("subprocess.Popen(", "spawn(") + "print(json.dumps(pids)); sys.stdin.read()"
    code = (
        textwrap.dedent("""
        import json, os, subprocess, sys
        pids = []
        def spawn(*args, **options):
            process = subprocess.Popen(*args, **options)
            pids.append(process.pid)
            return process
    """)
        + code
    )

    pids: list[int] = []

    async def scene(recorder: Recorder) -> None:
        connection = await agent(code, recorder)
        client = ScriptedClient(connection, recorder, patience=20)
        told = await client.until(lambda event: event.dir == "agent", since=0)
        assert told is not None
        pids.extend(told.message)
        assert all(is_alive(pid) for pid in pids)
        await client.close()

    events = played(scene)
    assert [(event.control or {})["count"] for event in events if event.name == "leftover"] == ([1] if is_told else [])
    assert not any(is_alive(pid) for pid in pids)


def test_an_exit_that_is_not_on_record_yet_is_known_already() -> None:
    async def scene(recorder: Recorder) -> None:
        connection = await agent("import sys; sys.exit(3)", recorder)
        await connection.process.exited.wait()
        assert connection.is_ending
        with pytest.raises(ConnectionEnded):
            connection.write(b"{}\n")
        await connection.ended.wait()
        assert recorder.history.events[-1].name == "exited"
        await connection.close()

    played(scene)


@POSIX
def test_an_agent_that_reads_nothing_does_not_hold_us() -> None:
    limits = Limits(grace=0.2, terminate_grace=0.2, write_buffer=1000, write_patience=0.2)

    async def scene(recorder: Recorder) -> None:
        connection = await agent("import time; time.sleep(300)", recorder, limits=limits)
        with pytest.raises(ConnectionEnded, match="has not read its input"):
            await connection.send(b'"' + b"x" * 300_000 + b'"\n')
        await connection.close()

    events = played(scene)
    assert only(events, "limit")["limit"] == "write-patience"
    assert only(events, "exited")["by_itself"] is False


@POSIX
@pytest.mark.parametrize(
    ("code", "limits", "limit"),
    [
        ("while True: print('[' + 'x' * 1000)", Limits(max_output=200_000), "max-output"),
        ("while True: print('[]')", Limits(max_events=500), "max-events"),
        ("print('[' + '[],' * 1_000_000)", Limits(max_values=100_000), "max-values"),
        ("x = bytearray(80_000_000)\ninput()", Limits(max_memory=60_000_000, watch_interval=0.05), "max-memory"),
        (
            "import subprocess, sys\nfor _ in range(9): subprocess.Popen([sys.executable, '-c', 'input()'])\ninput()",
            Limits(max_processes=5, watch_interval=0.05),
            "max-processes",
        ),
    ],
    ids=["bytes", "lines", "values", "memory", "processes"],
)
def test_a_limit_ends_the_agent_and_is_told(code: str, limits: Limits, limit: str) -> None:
    async def scene(recorder: Recorder) -> None:
        connection = await agent(code, recorder, limits=limits)
        await connection.ended.wait()
        await connection.close()

    events = played(scene)
    assert only(events, "limit")["limit"] == limit
    assert only(events, "exited")["by_itself"] is False
    assert "agent" not in names(events)[names(events).index("limit") :]


def test_a_line_over_the_limit_is_told_and_the_next_one_read() -> None:
    async def scene(recorder: Recorder) -> None:
        connection = await agent("print('x' * 5000); print('[]')", recorder, limits=Limits(max_line=1000))
        await connection.ended.wait()
        await connection.close()

    events = played(scene)
    assert [event.envelope.kind for event in events if event.envelope] == ["too-long", "array"]
    assert only(events, "limit") == {"event": "limit", "limit": "max-line", "value": 1000}


def test_stderr_is_drained_and_its_end_kept() -> None:
    async def scene(recorder: Recorder) -> None:
        code = "import sys; sys.stderr.write('x' * 3_000_000 + 'the end'); print('[]')"
        connection = await agent(code, recorder, limits=Limits(stderr_tail=100))
        await connection.ended.wait()
        await connection.close()
        assert connection.stderr_tail.endswith("the end")
        assert len(connection.stderr_tail) == 100

    assert "agent" in names(played(scene))


def test_lines_are_recorded_in_order_however_many_arrive_at_once() -> None:
    async def scene(recorder: Recorder) -> None:
        connection = await agent("import sys; sys.stdout.write(''.join(f'[{n}]\\n' for n in range(20000)))", recorder)
        await connection.ended.wait()
        await connection.close()

    events = played(scene)
    assert [event.message[0] for event in events if event.dir == "agent"] == list(range(20000))


@pytest.mark.parametrize(
    ("command", "cwd", "says"),
    [
        (["no-such-agent-anywhere"], None, "not on PATH"),
        (["./no-such-agent"], None, "no such file"),
        ([sys.executable], "/no/such/folder", "does not exist"),
        ([], None, "empty"),
    ],
)
def test_what_cannot_be_started_says_why(command: list[str], cwd: str | None, says: str) -> None:
    async def scene(recorder: Recorder) -> None:
        with pytest.raises(AgentDidNotStart, match=says):
            await start_process(command, name="ada", recorder=recorder, cwd=cwd)

    assert played(scene) == []


@POSIX
def test_a_file_that_is_no_program_says_what_to_do(tmp_path: Path) -> None:
    script = tmp_path / "agent"
    script.write_text("print(1)")

    async def scene(recorder: Recorder) -> None:
        with pytest.raises(AgentDidNotStart, match="not executable"):
            await start_process([str(script)], name="ada", recorder=recorder)
        script.chmod(0o755)
        script.write_bytes(b"\x00\x01 no program")
        with pytest.raises(AgentDidNotStart, match="#!"):
            await start_process([str(script)], name="ada", recorder=recorder)

    played(scene)


def test_the_environment_and_the_folder_are_the_ones_given(tmp_path: Path) -> None:
    async def scene(recorder: Recorder) -> None:
        code = "import json, os; print(json.dumps([os.environ.get('COLOUR'), os.environ.get('LEFT_OUT'), os.getcwd()]))"
        environment = {**os.environ, "COLOUR": "green"}
        connection = await start_process(
            [sys.executable, "-c", code], name="ada", recorder=recorder, cwd=tmp_path, env=environment, limits=QUICK
        )
        await connection.ended.wait()
        await connection.close()

    told = next(event.message for event in played(scene) if event.dir == "agent")
    assert told == ["green", None, os.path.realpath(tmp_path)]
    assert json.dumps(told)


def test_a_restart_names_the_life_before() -> None:
    async def scene(recorder: Recorder) -> None:
        first = await agent(ECHO, recorder)
        await first.close()
        command = [sys.executable, "-c", "pass"]
        second = await start_process(command, name="ada#2", recorder=recorder, limits=QUICK, restart_of="ada")
        await second.close()

    started = [event for event in played(scene) if event.name == controls.STARTED]
    assert [event.conn for event in started] == ["ada", "ada#2"]
    assert started[1].control == {"event": "started", "transport": "stdio", "restart_of": "ada"}
