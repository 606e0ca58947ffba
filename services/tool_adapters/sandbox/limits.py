import math
from dataclasses import dataclass

MIB = 1024 * 1024
# A dump of 0 bytes would still be piped to the machine's crash handler; of 1 byte is not
# (core(5)).
CORE_BYTES = 1


@dataclass(frozen=True)
class Sizes:
    # With files and headers it has to fit into a message.
    workspace_bytes: int = 32 * MIB
    temporary_bytes: int = 64 * MIB


@dataclass(frozen=True)
class Limits:
    """Upper bounds of one run; a process that passes one is killed or gets an error.

    Memory counts twice: as address space of each process (the kernel's limit) and as
    resident memory of all of them together (the supervisor's). `entries` are files and
    folders, `files` those that come back. `output_bytes` is for each of the two streams.
    """

    wall_time_s: float = 30.0
    memory_bytes: int = 1024 * MIB
    output_bytes: int = 64 * 1024
    entries: int = 1000
    files: int = 20
    files_bytes: int = 16 * MIB
    processes: int = 32
    open_files: int = 128
    sizes: Sizes = Sizes()

    def bounds(self) -> dict[str, float]:
        """The limits that the supervisor enforces; see inside.watching."""
        return {
            "wall_time_s": self.wall_time_s,
            "memory_bytes": self.memory_bytes,
            "output_bytes": self.output_bytes,
            "workspace_bytes": self.sizes.workspace_bytes,
            "entries": self.entries,
            "files": self.files,
            "files_bytes": self.files_bytes,
        }

    def resource_limits(self) -> dict[str, int]:
        """The limits that the kernel enforces, by their names in the module `resource`."""
        limits = kernel_limits(
            memory_bytes=self.memory_bytes,
            processes=self.processes,
            file_bytes=self.sizes.workspace_bytes,
            open_files=self.open_files,
        )
        # The supervisor's clock comes first: it knows what to say.
        return {**limits, "RLIMIT_CPU": math.ceil(self.wall_time_s) + 1}


def kernel_limits(
    *, memory_bytes: int, processes: int, file_bytes: int, open_files: int
) -> dict[str, int]:
    return {
        "RLIMIT_AS": memory_bytes,
        "RLIMIT_NPROC": processes,
        "RLIMIT_FSIZE": file_bytes,
        "RLIMIT_NOFILE": open_files,
        "RLIMIT_CORE": CORE_BYTES,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
    }
