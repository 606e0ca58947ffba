"""The peak memory of this process over a while (proc(5))."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# The largest message of all kinds is 16 MiB, which a reader may hold twice.
GROWTH_BYTES_MAX = 64 * 1024 * 1024


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Asserts that the highest use meanwhile is little more than that before."""
    # Makes the present use the highest known.
    Path("/proc/self/clear_refs").write_text("5")
    before = _highest_bytes()
    yield
    assert _highest_bytes() - before < GROWTH_BYTES_MAX


def _highest_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found[1]) * 1024
