"""The end of a run: its exit statuses, faults that someone has to fix, and signals.

SIGTERM and Ctrl-C end a run after the step it is in, and no step is lost: Kubernetes preempts a pod
with SIGTERM, and torchrun passes it on. A second signal ends it at once.
"""

import signal
from threading import Event
from types import FrameType

LASTING, PASSING, STREAM_ENDED = 2, 1, 3
"""Exit statuses: the next attempt would meet the same, might not, would wait for records again."""


class Fault(RuntimeError):
    """A failure that every attempt meets until something is changed."""


class Interrupted(RuntimeError):
    """The run was asked to end; its checkpoint is written."""

    def __init__(self, step: int) -> None:
        super().__init__(f"stopped after step {step}; the same command continues from there")


def stop_on_signals() -> Event:
    """Set by the first signal. For the process that leads; of the main thread."""
    stop = Event()

    def handle(number: int, _: FrameType | None) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
    return stop


def leave_signals() -> None:
    """Ignores signals in processes that follow: the first one decides when to end."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
