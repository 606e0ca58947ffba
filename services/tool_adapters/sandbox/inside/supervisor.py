"""Process 1 of the sandbox: waits for one job, has it run, watches it, reports, and ends.

It never runs the code itself. The code runs in a child that can neither signal this
process (process 1 of a namespace takes no signals from inside), nor read or write its
memory and descriptors (it is not dumpable, and the filter has no ptrace); so what is
reported of the child, above all how it ended, is not the child's to write. With the end
of this process the kernel ends all that is left; it ends when its standard input is closed,
so nothing runs on without the caller that ordered it, however that one and the launchers between
died.
"""

import ctypes
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from tool_adapters.sandbox.inside import cell, watching, workspace

PR_SET_DUMPABLE = 4
OPEN_FILES_MAX = 4096
# Names of files that do not come back: with all of them the header may be longer than its reader
# takes, and the answer than the model may read.
LEFT_OUT_SHOWN = 20
# However many processes the code starts, its supervisor and the platform go first.
NICENESS = 5
# Before everything else, in case the machine runs out of memory (proc(5)).
OOM_SCORE_ADJ = "1000"


def main() -> None:
    settings = json.loads(sys.argv[1])
    sys.path[1:1] = settings["path"]
    _set_dumpable(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in settings["preloaded"]:
        __import__(module)
    folder = Path(settings["workspace"])
    sys.stdout.buffer.write(b"ready\n")
    sys.stdout.buffer.flush()
    header = sys.stdin.buffer.readline()
    if header:
        job = json.loads(header)
        code, state = (sys.stdin.buffer.read(job[part]) for part in ("code_bytes", "state_bytes"))
        # Less is half a job: its sender has died.
        if len(code) == job["code_bytes"] and len(state) == job["state_bytes"]:
            with suppress(watching.NobodyWaits):
                _do(job, code.decode(), state, folder, settings["mounts"])
    os._exit(0)


def _do(job: dict[str, Any], code: str, state: bytes, folder: Path, mounts: list[str]) -> None:
    if state:
        workspace.unpack(state, folder)
    before = workspace.snapshot(folder)
    child, out, err = _start(job, code, folder)
    bounds = watching.RunLimits(**job["bounds"], mounts=mounts)
    ended = watching.watch(child, out, err, sys.stdin.fileno(), bounds)
    _end_everything()
    workspace.open_up(folder)
    _report(job, folder, before, ended)


def _start(job: dict[str, Any], code: str, folder: Path) -> tuple[int, int, int]:
    """Process id of the child and the reading ends of its standard output and error."""
    out, out_end = os.pipe()
    err, err_end = os.pipe()
    child = os.fork()
    if child == 0:
        _become_cell(out_end, err_end)
        os.chdir(folder)
        sys.path.append(str(folder))
        status = cell.run(code, folder, job["rlimits"], stateful=job["stateful"])
        _flush()
        os._exit(status & 0xFF)
    os.close(out_end)
    os.close(err_end)
    return child, out, err


def _become_cell(out: int, err: int) -> None:
    """Leaves the child nothing of the supervisor: no descriptor, no modules, no protection."""
    os.setsid()
    os.nice(NICENESS)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (out, 1), (err, 2)):
        os.dup2(source, target)
    os.closerange(3, OPEN_FILES_MAX)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _set_dumpable(True)
    Path("/proc/self/oom_score_adj").write_text(OOM_SCORE_ADJ)
    for name in [name for name in sys.modules if name.startswith("tool_adapters")]:
        del sys.modules[name]
    # Its first entry leads to the supervisor.
    del sys.path[0]
    sys.argv[:] = [""]


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # the code closed it
            continue


def _set_dumpable(dumpable: bool) -> None:
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, int(dumpable), 0, 0, 0)


def _end_everything() -> None:
    """Ends every process the code left behind, so that nothing changes what is reported."""
    try:
        os.kill(-1, signal.SIGKILL)
        while True:
            os.wait()
    except (ProcessLookupError, ChildProcessError):
        return


def _report(
    job: dict[str, Any], folder: Path, before: workspace.Snapshot, ended: watching.Ended
) -> None:
    cause = ended.cause
    if not cause and workspace.size_bytes(folder) > job["bounds"]["workspace_bytes"]:
        cause = watching.DISK
    kept, left_out = _chosen(folder, before, job) if not cause else ([], [])
    state = workspace.pack(folder) if job["stateful"] and not cause else b""
    header = {
        "cause": cause,
        "status": ended.status,
        "stdout_bytes": len(ended.stdout),
        "stderr_bytes": len(ended.stderr),
        "files": [[_text(path.name), workspace.media_type(path), _size(path)] for path in kept],
        "left_out": left_out,
        "state_bytes": len(state),
    }
    _write(sys.stdout.buffer, header, [ended.stdout, ended.stderr], kept, state)


def _write(
    target: BinaryIO, header: dict[str, Any], printed: list[bytes], files: list[Path], state: bytes
) -> None:
    # Escaped, a name of other letters is several times as long.
    target.write(json.dumps(header, ensure_ascii=False).encode() + b"\n")
    for part in printed:
        target.write(part)
    for path in files:
        target.write(path.read_bytes())
    target.write(state)
    target.flush()


def _chosen(
    folder: Path, before: workspace.Snapshot, job: dict[str, Any]
) -> tuple[list[Path], list[str]]:
    """Changed files as far as they fit, and the names of some of the others."""
    kept: list[Path] = []
    left_out: list[str] = []
    room = job["bounds"]["files_bytes"]
    for path in workspace.changed(folder, before):
        size = _size(path)
        if len(kept) < job["bounds"]["files"] and size <= room:
            kept.append(path)
            room -= size
        else:
            left_out.append(_text(path.name))
    more = len(left_out) - LEFT_OUT_SHOWN
    return kept, [*left_out[:LEFT_OUT_SHOWN], f"and {more} more"] if more > 0 else left_out


def _size(path: Path) -> int:
    return path.lstat().st_size


def _text(name: str) -> str:
    """A file name is any bytes; invalid UTF-8 is replaced."""
    return os.fsencode(name).decode(errors="replace")
