"""The bubblewrap command line of one sandbox.

As an ordinary user bubblewrap isolates by itself, in a user namespace. As root it
is started by a user without an account, because root inside of a user namespace is
still root to the kernel: it passes limits and owns what it can reach. That user may
not walk to our Python, so an outer bubblewrap, still root, first shows it the
mounted paths and nothing else.
"""

import asyncio
import json
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from tool_adapters.sandbox import runtime
from tool_adapters.sandbox.limits import Sizes
from tool_adapters.sandbox.system_calls import filter_program

# A user without an account: nothing on the machine belongs to it.
UNPRIVILEGED_ID = 65_432
WORKSPACE = "/workspace"
TEMPORARY = ("/tmp", "/dev/shm")  # noqa: S108 (the sandbox's own)
FONT_FOLDER = "/tmp/matplotlib"  # noqa: S108 (the sandbox's own)
SETPRIV = Path("/usr/bin/setpriv")
PRELOADED = ("cloudpickle",)
START = "from tool_adapters.sandbox.inside.supervisor import main; main()"
ENVIRONMENT = {
    "HOME": WORKSPACE,
    "LANG": "C.UTF-8",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": FONT_FOLDER,
    "OPENBLAS_NUM_THREADS": "1",
}
# The supervisor is process 1 of its own world: with its end the kernel ends all there is.
# Bubblewrap's own process 1 would outlive its parent and wait to be reaped.
ISOLATION = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent"),
    *("--as-pid-1", "--new-session", "--clearenv", "--hostname", "sandbox", "--cap-drop", "ALL"),
)
# Not /dev/zero: mapped and shared it is memory that no limit counts.
DEVICES = ("/dev/null", "/dev/random", "/dev/urandom")


async def launch(bwrap: Path, sizes: Sizes, fonts: Path | None, errors: IO[bytes]) -> Process:
    """A started sandbox that waits for its job; `fonts` is matplotlib's list, if it is known."""
    with ExitStack() as stack:
        program = stack.enter_context(_memory_file(filter_program()))
        outer = _drop_root(bwrap, fonts) if os.geteuid() == 0 else []
        return await asyncio.create_subprocess_exec(
            *outer,
            *_isolate(bwrap, sizes, fonts, program),
            stdin=PIPE,
            stdout=PIPE,
            stderr=errors,
            pass_fds=[program],
            env={},
            cwd="/",
            start_new_session=True,
        )


@contextmanager
def _memory_file(content: bytes) -> Iterator[int]:
    descriptor = os.memfd_create("sandbox")
    try:
        os.write(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def _drop_root(bwrap: Path, fonts: Path | None) -> list[str]:
    shown = [*(mount.source for mount in _mounts(fonts)), *runtime.launcher_paths(), SETPRIV]
    # The inner bubblewrap begins its own world by mounting over /tmp, which must be there.
    folders = {Path("/tmp"), *(folder for path in shown for folder in path.parents)}  # noqa: S108
    identity = str(UNPRIVILEGED_ID)
    return [
        *(str(bwrap), "--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"),
        # Bubblewrap would close the folders it makes on the way to everyone but root.
        *(part for path in sorted(folders) for part in ("--perms", "0755", "--dir", str(path))),
        *(part for path in shown for part in ("--ro-bind", str(path), str(path))),
        *_links(),
        *("--dev-bind", "/dev", "/dev", "--dev-bind", "/proc", "/proc"),
        *("--", str(SETPRIV), "--reuid", identity, "--regid", identity, "--clear-groups", "--"),
    ]


def _isolate(bwrap: Path, sizes: Sizes, fonts: Path | None, program: int) -> list[str]:
    hidden = [str(folder) for folder in runtime.hidden_folders()]
    return [
        *(str(bwrap), *ISOLATION, "--seccomp", str(program)),
        *("--size", str(sizes.temporary_bytes), "--tmpfs", "/tmp"),  # noqa: S108
        *(part for each in _mounts(fonts) for part in ("--ro-bind", str(each.source), each.target)),
        *_links(),
        # Only listed packages are for the code, not those installed beside the interpreter.
        *(part for folder in hidden for part in ("--tmpfs", folder)),
        # Settings of the kernel are the machine's, whoever may write them.
        *("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"),
        *(part for path in DEVICES for part in ("--dev-bind", path, path)),
        *("--size", str(sizes.temporary_bytes), "--tmpfs", "/dev/shm"),  # noqa: S108
        *("--size", str(sizes.workspace_bytes), "--tmpfs", WORKSPACE, "--chdir", WORKSPACE),
        # What stays writable is three memory file systems with a size.
        *(part for path in ("/", *hidden) for part in ("--remount-ro", path)),
        *(part for pair in ENVIRONMENT.items() for part in ("--setenv", *pair)),
        *("--", str(runtime.PYTHON), "-I", "-S", "-c", _start(), _settings()),
    ]


def _mounts(fonts: Path | None) -> tuple[runtime.Mount, ...]:
    mounts = (*runtime.python_mounts(), *runtime.package_mounts())
    return (*mounts, runtime.Mount(fonts, f"{FONT_FOLDER}/{fonts.name}")) if fonts else mounts


def _links() -> list[str]:
    links = runtime.library_links().items()
    return [part for path, target in links for part in ("--symlink", target, path)]


def _start() -> str:
    return f"import sys; sys.path.insert(0, {runtime.SUPERVISOR_ROOT!r}); {START}"


def _settings() -> str:
    return json.dumps(
        {
            "path": [runtime.PACKAGES_FOLDER],
            "preloaded": PRELOADED,
            "workspace": WORKSPACE,
            "mounts": [WORKSPACE, *TEMPORARY],
        }
    )
