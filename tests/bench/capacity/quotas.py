"""A share of a core for each process, by a control group of its own: cores that are not there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
CPU_V1 = ROOT / "cpu"
PERIOD_US = 100_000


@contextmanager
def quota(name: str, pid: int, cores: float) -> Iterator[None]:
    """Holds a process to `cores`; needs root and a writable control group of either version."""
    group = (CPU_V1 if CPU_V1.is_dir() else ROOT) / name
    group.mkdir()
    try:
        allowed = round(cores * PERIOD_US)
        if CPU_V1.is_dir():
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(allowed))
        else:
            (group / "cpu.max").write_text(f"{allowed} {PERIOD_US}")
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        _return_to_parent(group)
        group.rmdir()


def is_possible() -> bool:
    if CPU_V1.is_dir():
        return os.access(CPU_V1, os.W_OK)
    controllers = ROOT / "cgroup.subtree_control"
    return os.access(ROOT, os.W_OK) and controllers.exists() and "cpu" in controllers.read_text()


def _return_to_parent(group: Path) -> None:
    for pid in (group / "cgroup.procs").read_text().split():
        (group.parent / "cgroup.procs").write_text(pid)
