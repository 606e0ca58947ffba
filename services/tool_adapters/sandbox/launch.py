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
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
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
    *("--as-pid-1", "--new-session", "--hostname", "sandbox", "--cap-drop", "ALL"),
)
# Not /dev/zero: mapped and shared it is memory that no limit counts.
DEVICES = ("/dev/null", "/dev/random", "/dev/urandom")
LINE_BYTES_MAX = 64 * 1024


@dataclass(frozen=True)
class World:
    """The world of a sandboxed process besides a workspace and a /tmp of its own.

    `hidden` are folders inside of mounts that appear empty. The environment is complete.
    """

    command: tuple[str, ...]
    mounts: tuple[runtime.Mount, ...]
    environment: Mapping[str, str]
    sizes: Sizes
    hidden: tuple[Path, ...] = ()


def code_world(sizes: Sizes, fonts: Path | None) -> World:
    """`fonts` is matplotlib's list, if known."""
    mounts = (*runtime.python_mounts(), *runtime.package_mounts())
    if fonts:
        mounts = (*mounts, runtime.Mount(fonts, f"{FONT_FOLDER}/{fonts.name}"))
    # Only listed packages are for the code, not those installed beside the interpreter.
    hidden = tuple(runtime.hidden_folders())
    command = (str(runtime.PYTHON), "-I", "-S", "-c", _start("supervisor"), _settings())
    return World(command, mounts, ENVIRONMENT, sizes, hidden)


def program_world(
    command: tuple[str, ...],
    folders: tuple[Path, ...],
    environment: Mapping[str, str],
    limits: Mapping[str, int],
    sizes: Sizes,
) -> World:
    """Returns the world of a program that sees our Python with all packages, and `folders`.

    `limits` are by their name in the module `resource`.
    """
    mounts = (
        *runtime.python_mounts(),
        *runtime.environment_mounts(),
        *(runtime.Mount(folder, str(folder)) for folder in folders),
    )
    start = (str(runtime.PYTHON), "-I", "-S", "-c", _start("program"), json.dumps(dict(limits)))
    return World((*start, *command), mounts, environment, sizes)


async def launch(
    bwrap: Path, world: World, errors: IO[bytes], line_bytes_max: int = LINE_BYTES_MAX
) -> Process:
    """A started sandbox, process 1 of which is the world's command."""
    with ExitStack() as stack:
        program = stack.enter_context(_memory_file(filter_program()))
        outer = _drop_root(bwrap, world) if os.geteuid() == 0 else []
        return await asyncio.create_subprocess_exec(
            *outer,
            *_isolate(bwrap, world, program),
            stdin=PIPE,
            stdout=PIPE,
            stderr=errors,
            pass_fds=[program],
            # Not as options: every user of the machine can read a command line.
            env=dict(world.environment),
            cwd="/",
            start_new_session=True,
            limit=line_bytes_max,
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


def _drop_root(bwrap: Path, world: World) -> list[str]:
    shown = [*(mount.source for mount in world.mounts), *runtime.launcher_paths(), SETPRIV]
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


def _isolate(bwrap: Path, world: World, program: int) -> list[str]:
    hidden, sizes = [str(folder) for folder in world.hidden], world.sizes
    mounts = ((str(mount.source), mount.target) for mount in world.mounts)
    return [
        *(str(bwrap), *ISOLATION, "--seccomp", str(program)),
        *("--size", str(sizes.temporary_bytes), "--tmpfs", "/tmp"),  # noqa: S108
        *(part for source, target in mounts for part in ("--ro-bind", source, target)),
        *_links(),
        *(part for folder in hidden for part in ("--tmpfs", folder)),
        # Settings of the kernel are the machine's, whatever their permissions.
        *("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"),
        *(part for path in DEVICES for part in ("--dev-bind", path, path)),
        *("--size", str(sizes.temporary_bytes), "--tmpfs", "/dev/shm"),  # noqa: S108
        *("--size", str(sizes.workspace_bytes), "--tmpfs", WORKSPACE, "--chdir", WORKSPACE),
        # What stays writable is three memory file systems with a size.
        *(part for path in ("/", *hidden) for part in ("--remount-ro", path)),
        *("--", *world.command),
    ]


def _links() -> list[str]:
    links = runtime.library_links().items()
    return [part for path, target in links for part in ("--symlink", target, path)]


def _start(module: str) -> str:
    path = f"import sys; sys.path.insert(0, {runtime.SUPERVISOR_ROOT!r})"
    return f"{path}; from tool_adapters.sandbox.inside.{module} import main; main()"


def _settings() -> str:
    return json.dumps(
        {
            "path": [runtime.PACKAGES_FOLDER],
            "preloaded": PRELOADED,
            "workspace": WORKSPACE,
            "mounts": [WORKSPACE, *TEMPORARY],
        }
    )
