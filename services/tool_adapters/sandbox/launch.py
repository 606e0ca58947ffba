"""The bubblewrap command line of one run.

As an ordinary user bubblewrap isolates by itself, in a user namespace. As root it
is started by a user without an account, because root inside of a user namespace is
still root to the kernel: it passes limits and owns what it can reach. That user may
not walk to our Python, so an outer bubblewrap, still root, first shows it the
mounted paths and nothing else.
"""

import json
import math
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tool_adapters.sandbox import runtime
from tool_adapters.sandbox.limits import Limits

# A user without an account: nothing on the machine belongs to it.
UNPRIVILEGED_ID = 65_432
WORKSPACE = "/workspace"
SETPRIV = Path("/usr/bin/setpriv")
ENVIRONMENT = {
    "HOME": WORKSPACE,
    "LANG": "C.UTF-8",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/tmp/matplotlib",  # noqa: S108 (the sandbox's own)
    "OPENBLAS_NUM_THREADS": "1",
}
# The code is process 1 of its own world: with its end the kernel ends all it started.
# Bubblewrap's own process 1 would outlive its parent and wait for somebody to reap it.
ISOLATION = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent"),
    *("--as-pid-1", "--new-session", "--clearenv", "--hostname", "sandbox", "--cap-drop", "ALL"),
)


@dataclass(frozen=True)
class Job:
    """One piece of code and where it runs."""

    code: str
    workspace: Path
    stateful: bool
    limits: Limits


def launch(bwrap: Path, job: Job, output: IO[bytes]) -> subprocess.Popen[bytes]:
    """The started sandbox; everything it prints goes to `output`."""
    code = os.memfd_create("code")
    try:
        os.write(code, job.code.encode())
        os.lseek(code, 0, os.SEEK_SET)
        outer = _drop_root(bwrap, job) if os.geteuid() == 0 else []
        return subprocess.Popen(  # noqa: S603 (the code is data to it)
            [*outer, *_isolate(bwrap, job, code)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[code],
            env={},
            cwd="/",
            start_new_session=True,
        )
    finally:
        os.close(code)


def _drop_root(bwrap: Path, job: Job) -> list[str]:
    shown = [*(mount.source for mount in _mounts()), *runtime.launcher_paths(), SETPRIV]
    folders = {folder for path in (*shown, job.workspace) for folder in path.parents}
    identity = str(UNPRIVILEGED_ID)
    return [
        *(str(bwrap), "--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"),
        # Bubblewrap would close the folders it makes on the way to everyone but root.
        *(part for path in sorted(folders) for part in ("--perms", "0755", "--dir", str(path))),
        *(part for path in shown for part in ("--ro-bind", str(path), str(path))),
        *_links(),
        *("--dev-bind", "/dev", "/dev", "--dev-bind", "/proc", "/proc"),
        *("--bind", str(job.workspace), str(job.workspace)),
        *("--", str(SETPRIV), "--reuid", identity, "--regid", identity, "--clear-groups", "--"),
    ]


def _isolate(bwrap: Path, job: Job, code: int) -> list[str]:
    site_packages = f"{runtime.standard_library()}/site-packages"
    return [
        *(str(bwrap), *ISOLATION),
        *(part for each in _mounts() for part in ("--ro-bind", str(each.source), each.target)),
        *_links(),
        # Only listed packages are for the code, not those installed beside the interpreter.
        *("--tmpfs", site_packages),
        # Settings of the kernel are the machine's, whoever may write them.
        *("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev"),
        *_temporary_folders(job.limits),
        *("--ro-bind-data", str(code), "/code.py"),
        *("--bind", str(job.workspace), WORKSPACE, "--chdir", WORKSPACE),
        # What stays writable is the workspace and two memory file systems with a size.
        *(part for path in ("/", "/dev", site_packages) for part in ("--remount-ro", path)),
        *(part for pair in ENVIRONMENT.items() for part in ("--setenv", *pair)),
        *("--", str(runtime.PYTHON), "-I", "-S", runtime.RUNNER_PATH, _settings(job)),
    ]


def _mounts() -> tuple[runtime.Mount, ...]:
    return (*runtime.python_mounts(), *runtime.package_mounts())


def _links() -> list[str]:
    links = runtime.library_links().items()
    return [part for path, target in links for part in ("--symlink", target, path)]


def _temporary_folders(limits: Limits) -> list[str]:
    size = str(limits.temporary_bytes)
    return ["--size", size, "--tmpfs", "/tmp", "--size", size, "--tmpfs", "/dev/shm"]  # noqa: S108


def _settings(job: Job) -> str:
    limits = {
        "RLIMIT_AS": job.limits.memory_bytes,
        # The watchdog's clock comes first: it knows what to say.
        "RLIMIT_CPU": math.ceil(job.limits.wall_time_s) + 1,
        "RLIMIT_NPROC": job.limits.processes,
        "RLIMIT_FSIZE": job.limits.workspace_bytes,
        "RLIMIT_NOFILE": job.limits.open_files,
        "RLIMIT_CORE": 0,
    }
    return json.dumps(
        {"limits": limits, "path": [runtime.PACKAGES_FOLDER], "stateful": job.stateful}
    )
