"""What one run in the sandbox may take."""

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """Upper bounds of one run; whoever passes one is killed or gets an error.

    Memory counts twice: as address space of each process (the kernel's limit)
    and as resident memory of all of them together (the watchdog's).
    """

    wall_time_s: float = 30.0
    memory_bytes: int = 1024 * MIB
    output_bytes: int = 64 * 1024
    workspace_bytes: int = 64 * MIB
    workspace_entries: int = 1000
    temporary_bytes: int = 64 * MIB
    processes: int = 32
    open_files: int = 128
