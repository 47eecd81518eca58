"""Without the garbage collector for a while: for work that makes many objects and keeps them.

The collector would look at every object of a long history again and again as it grows, which is a third of what
`check` takes; there is nothing to collect until the work is done.
"""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Within it nothing is collected; afterwards all is as it was."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
