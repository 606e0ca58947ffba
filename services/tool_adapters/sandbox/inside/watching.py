"""Watches running code for the limits the kernel keeps for no group of processes."""

import os
import select
import signal
import socket
import time
from dataclasses import dataclass, field

POLL_S = 0.02
READ_BYTES = 65536
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
with socket.socket(socket.AF_UNIX) as _unused:
    # A last message may be as large as the buffer that it no longer fits in.
    SOCKET_BYTES = 2 * _unused.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
# Why code was ended; "" means it ended by itself.
TIME, OUTPUT, MEMORY, DISK = "time", "output", "memory", "disk"


@dataclass(frozen=True)
class RunLimits:
    """Upper bounds of one run; `mounts` are the memory file systems it may write to."""

    wall_time_s: float
    memory_bytes: int
    output_bytes: int
    workspace_bytes: int
    entries: int
    files: int
    files_bytes: int
    mounts: list[str]


class NobodyWaits(Exception):
    pass


@dataclass
class Ended:
    """The end of code: `status` is its exit status, or minus the signal that killed it."""

    cause: str = ""
    status: int = 0
    stdout: bytes = b""
    stderr: bytes = b""


@dataclass
class _Streams:
    """The output of the code, read as it comes and never more than fits."""

    bytes_max: int
    read: dict[int, bytearray] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)

    def take(self, descriptor: int) -> None:
        data = os.read(descriptor, READ_BYTES)
        self.read[descriptor] += data
        if not data:
            self.open.discard(descriptor)

    @property
    def overflowing(self) -> bool:
        return any(len(read) > self.bytes_max for read in self.read.values())


def watch(child: int, out: int, err: int, owner: int, bounds: RunLimits) -> Ended:
    """Returns when the code ended or was ended; everything it started is left to the caller.

    `owner` is readable once its other end is closed. Raises NobodyWaits then.
    """
    streams = _Streams(bounds.output_bytes, {out: bytearray(), err: bytearray()}, {out, err})
    pidfd = os.pidfd_open(child)
    deadline = time.monotonic() + bounds.wall_time_s
    cause = ""
    while not cause:
        ready = _ready([*streams.open, pidfd, owner])
        if owner in ready:
            raise NobodyWaits
        for descriptor in ready & streams.open:
            streams.take(descriptor)
        cause = _passed(streams, deadline, bounds)
        if pidfd in ready:
            break
    if cause:
        os.kill(child, signal.SIGKILL)
    status = _status(child)
    _drain(streams)
    printed = (bytes(streams.read[each][: bounds.output_bytes]) for each in (out, err))
    cause = cause or (OUTPUT if streams.overflowing else "")
    return Ended(cause, status, *printed)


def _ready(descriptors: list[int]) -> set[int]:
    poller = select.poll()
    for descriptor in descriptors:
        poller.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poller.poll(POLL_S * 1000)}


def _passed(streams: _Streams, deadline: float, bounds: RunLimits) -> str:
    if streams.overflowing:
        return OUTPUT
    if time.monotonic() > deadline:
        return TIME
    if _resident_bytes() + _socket_bytes() > bounds.memory_bytes:
        return MEMORY
    if sum(map(_entry_count, bounds.mounts)) > bounds.entries:
        return DISK
    return ""


def _resident_bytes() -> int:
    """Returns the resident memory of all other processes; shared pages count for each of them."""
    pages = 0
    for name in os.listdir("/proc"):  # noqa: PTH208 (fifty times a second)
        if name.isdigit() and name != "1":
            try:
                with open(f"/proc/{name}/statm", "rb") as file:  # noqa: PTH123
                    pages += int(file.read().split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
    return pages * PAGE_BYTES


def _socket_bytes() -> int:
    """Most that waits in the sandbox's Unix sockets, also in those that no process has open."""
    with open("/proc/net/unix", "rb") as file:  # noqa: PTH123
        # Less the heading.
        return (file.read().count(b"\n") - 1) * SOCKET_BYTES


def _entry_count(mount: str) -> int:
    status = os.statvfs(mount)
    return status.f_files - status.f_ffree


def _status(child: int) -> int:
    """Reaps the child; everybody else's orphans, adopted by process 1, wait for the end."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _drain(streams: _Streams) -> None:
    """Reads the rest of the output; a child that holds the pipe open is not waited for."""
    for descriptor in list(streams.open):
        os.set_blocking(descriptor, False)
        try:
            while descriptor in streams.open and not streams.overflowing:
                streams.take(descriptor)
        except BlockingIOError:
            continue
