"""How much an agent may write, hold and take: every bound and every timeout of the peers, in one place.

Knows numbers only. A limit that was reached is a `limit` event in the history; what came after it was cut.
"""

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes, times in seconds, per connection. None lifts a limit.

    The defaults keep the suite itself under 300 MB beside the worst agent, and give a real one a hundred times what it
    needs.
    """

    max_line: int = 16 * MIB
    max_output: int = 64 * MIB
    max_events: int = 50_000
    max_values: int = 2_000_000  # commas and brackets: 16 MiB of "[],[],..." take half a gigabyte once they are parsed
    max_memory: int | None = 4096 * MIB  # resident, of the process and all that it started
    max_processes: int | None = 256
    max_file: int | None = 4096 * MIB  # that the agent writes; where the system can bound it
    stderr_tail: int = 64 * 1024
    startup_timeout: float = 60.0  # until a server listens, or the first answer comes: a first start may build caches
    grace: float = 5.0  # to exit in, after stdin is closed, and for its children to follow; some agents take four
    terminate_grace: float = 2.0  # after the signal to terminate
    write_patience: float = 30.0  # how long an agent may leave its input unread
    write_buffer: int = 4 * MIB  # of input that it has not read; more makes senders wait
    trailing_output: float = 1.0  # how long output may be silent, its process gone, before it is given up
    watch_interval: float = 0.5  # between two looks at memory and processes
