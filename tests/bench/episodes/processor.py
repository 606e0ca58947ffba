from collections.abc import Iterable
from contextlib import suppress

import psutil


def processor_seconds(pids: Iterable[int]) -> float:
    """User and system time so far, that of children which have ended included."""
    total = 0.0
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            for each in (process, *process.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    times = each.cpu_times()
                    total += times.user + times.system
                    total += times.children_user + times.children_system
    return total
