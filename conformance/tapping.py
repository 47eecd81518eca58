"""The tap: two streams passed through byte for byte, and recorded on the way. Judges nothing.

A line is recorded before its last byte is passed on, so that an answer can never be recorded before its question.
Recording that fails (a full disk, a bug) ends the recording and never the traffic.
"""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Final

from conformance.history import Direction, Recorder, Redactor
from conformance.history import controls as named
from conformance.wire import LineReader

EDITOR: Final = "editor"
CHUNK: Final = 65_536  # bytes
GRACE: Final = 5.0  # seconds for an agent to exit once it was told to


class Tap:
    """One agent between one editor and us. `transcript` is the file, None where it could not be written."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self.command = tuple(command)
        name = time.strftime("tap-%Y%m%d-%H%M%S") + f"-{os.getpid()}.ndjson"
        self.transcript: Path | None = folder / "transcripts" / name
        home = os.path.expanduser("~")
        self._recorder = Recorder(
            self.transcript,
            {"scenario": "tap", "recorded": "tap"},
            redactor=Redactor(os.environ, (home,) if home != "~" else (), command=self.command),
        )
        self._lock = threading.Lock()
        self._is_recording = True

    def run(self, source: IO[bytes], target: IO[bytes]) -> int:
        """Starts the agent, passes traffic until it has exited; returns its exit status (128 + signal as a shell has
        it).

        Raises OSError where it cannot be started.
        """
        agent = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert agent.stdin is not None
        assert agent.stdout is not None
        self._control(named.STARTED, transport="stdio", restart_of=None)
        inward = threading.Thread(target=self._inward, args=(source, agent.stdin), daemon=True)
        inward.start()
        try:
            self._pass("agent", agent.stdout, target)
            status = agent.wait()
            by_itself = True
        except (KeyboardInterrupt, BrokenPipeError):  # the editor is gone, or wants us gone
            status, by_itself = _end(agent), False
        code = None if status < 0 else status
        self._control(
            named.EXITED, code=code, signal=_signal_name(-status) if status < 0 else None, by_itself=by_itself
        )
        with self._lock:
            self._recorder.close()
            if self._recorder.history.flaws:
                self._give_up("; ".join(self._recorder.history.flaws))
        return 128 - status if status < 0 else status

    def _inward(self, source: IO[bytes], agent: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError):  # the agent is gone: its exit is told elsewhere
            self._pass("client", source, agent)
            self._control(named.CLOSED)
            agent.close()

    def _pass(self, direction: Direction, source: IO[bytes], target: IO[bytes]) -> None:
        reader = LineReader()
        while chunk := os.read(source.fileno(), CHUNK):
            self._record(direction, reader, chunk)
            target.write(chunk)
            target.flush()
        self._record(direction, reader, None)

    def _record(self, direction: Direction, reader: LineReader, chunk: bytes | None) -> None:
        if not self._is_recording:
            return
        try:
            last = reader.end() if chunk is None else None
            envelopes = reader.feed(chunk) if chunk is not None else [last] if last is not None else []
            with self._lock:
                for envelope in envelopes:
                    written = self._recorder.wire(EDITOR, direction, envelope)
                    self._recorder.history.events[-1] = replace(written, envelope=None)  # an editor may run for days
        except Exception as error:  # whatever it is, the editor's work goes on
            self._give_up(str(error))

    def _control(self, name: str, **fields: object) -> None:
        if self._is_recording:
            with self._lock:
                self._recorder.control(EDITOR, name, **fields)

    def _give_up(self, why: str) -> None:
        self._is_recording = False
        if not self._recorder.history.events or self.transcript is None or not self.transcript.is_file():
            self.transcript = None
        print(f"acp-conformance tap: the recording is not whole: {why}", file=sys.stderr, flush=True)


def _end(agent: "subprocess.Popen[bytes]") -> int:
    """Closes the agent's input, then terminates, then kills it."""
    with contextlib.suppress(OSError, ValueError):
        if agent.stdin is not None:
            agent.stdin.close()
    for stop in (agent.terminate, agent.kill):
        try:
            return agent.wait(GRACE)
        except subprocess.TimeoutExpired:
            stop()
    return agent.wait()


def _signal_name(number: int) -> str:
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
