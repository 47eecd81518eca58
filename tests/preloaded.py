"""The agents of `fixtures/agents` from a process that has already loaded them.

Starting Python and loading an agent costs far more than what it does in one scenario, and the matrix starts tens of
thousands. `preloaded()` keeps one process that has everything loaded; `attach.py` lets it fork and run a program. It is
the same agent, but no child of who started it. Linux and macOS only.
"""

import array
import contextlib
import gc
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
AGENTS = HERE.parent / "fixtures" / "agents"
LOADED = (
    "reference",
    "faults",
    "odd",
    "fuzz_faults",
    "asyncio",
    "sqlite3",
    "urllib.request",
    "websockets.asyncio.server",
)


@contextlib.contextmanager
def preloaded() -> Iterator[tuple[str, ...]]:
    """The words that go before `PROGRAM ARGUMENT...`, for as long as the process with everything loaded lives. Raises
    OSError where it does not start."""
    with tempfile.TemporaryDirectory(prefix="preloaded-") as folder:
        address = f"{folder}/agents"
        with subprocess.Popen(
            [sys.executable, __file__, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as server:
            assert server.stdin
            assert server.stdout
            if not server.stdout.readline():
                raise OSError(f"{__file__} did not start")
            yield (sys.executable, "-IS", str(HERE / "attach.py"), address)
            server.stdin.close()


class _Server:
    """Forks a child a connection, tells the connection how the child ended, and ends the child's group when the
    connection does."""

    def __init__(self, address: str) -> None:
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(address)
        self.listening.listen(64)
        self.woken, self.wake = socket.socketpair()
        for end in (self.woken, self.wake):
            end.setblocking(False)
        self.children: dict[int, socket.socket] = {}
        self.sources = selectors.DefaultSelector()
        self.sources.register(self.listening, selectors.EVENT_READ, self.accept)
        self.sources.register(self.woken, selectors.EVENT_READ, self.reap)
        self.sources.register(0, selectors.EVENT_READ, self.end)

    def serve(self) -> None:
        signal.set_wakeup_fd(self.wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        print("ready", flush=True)
        while True:
            for key, _ in self.sources.select():
                key.data()

    def accept(self) -> None:
        client = self.listening.accept()[0]
        length, ancillary, _, _ = client.recvmsg(10, socket.CMSG_SPACE(12))
        descriptors = array.array("i", ancillary[0][2])
        told = bytearray()
        while len(told) < int(length):
            told += client.recv(65536)
        if child := os.fork():
            for descriptor in descriptors:
                os.close(descriptor)
            self.children[child] = client
            self.sources.register(client, selectors.EVENT_READ, lambda: self.hang_up(child))
            return
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        folder, count, *fields = bytes(told).split(b"\0")
        _become(folder, fields[: int(count)], fields[int(count) :])

    def reap(self) -> None:
        self.woken.recv(4096)
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                client = self.children.pop(ended[0])
                with contextlib.suppress(KeyError):
                    self.sources.unregister(client)
                with contextlib.suppress(OSError), client:
                    client.send(b"%10d" % os.waitstatus_to_exitcode(ended[1]))

    def hang_up(self, child: int) -> None:
        if child in self.children:
            self.sources.unregister(self.children[child])
            _end(child)

    def end(self) -> None:
        for child in self.children:
            _end(child)
        raise SystemExit


def _end(child: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


def _become(folder: bytes, arguments: list[bytes], environment: list[bytes]) -> None:
    """Runs the program named by the first argument, as its interpreter would, and exits."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.closerange(3, 256)
    os.chdir(folder)
    os.environb.clear()
    os.environb.update(field.split(b"=", 1) for field in environment)
    sys.argv = [os.fsdecode(argument) for argument in arguments]
    module = sys.modules[Path(sys.argv[0]).stem]
    code: object = 1
    try:
        code = module.main()
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    if isinstance(code, str):
        print(code, file=sys.stderr)
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1 if code else 0)


if __name__ == "__main__":
    sys.path[:0] = [str(AGENTS)]
    for module in LOADED:
        __import__(module)
    gc.freeze()  # what a collection in a child would otherwise touch, and so copy
    _Server(sys.argv[1]).serve()
