import asyncio
import re
import sys
from collections import Counter
from collections.abc import Awaitable, Container
from pathlib import Path
from tempfile import TemporaryDirectory

# What `uv tool run` installs for itself.
PY_SPY = [str(Path(sys.executable).parent / "uv"), "tool", "run", "--quiet", "py-spy"]
RATE = "200"
SERVICES = Path("services")
FRAME = re.compile(r"\((?P<file>[^()]*?)(:\d+)?\)$")
GRPC = ("grpc/", "src/python/grpcio/")


async def shares(pid: int, load: Awaitable[object]) -> dict[str, float]:
    """Returns shares of the samples while there is load, by the innermost frame; the largest first.

    Of threads that hold the interpreter's lock: what libraries of C do without it is not in it.
    """
    with TemporaryDirectory() as folder:
        raw = Path(folder) / "raw"
        command = [*PY_SPY, "record", "--pid", str(pid), "--rate", RATE, "--gil", "--format", "raw"]
        spy = await asyncio.create_subprocess_exec(
            *(*command, "--output", str(raw), "--duration", "unlimited"),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            await load
        finally:
            spy.send_signal(2)
            _, said = await spy.communicate()
        if not raw.exists():
            raise RuntimeError(f"py-spy recorded nothing: {said.decode()[-500:]}")
        counts = counted(raw.read_text())
    total = counts.total()
    return {name: count / total for name, count in counts.most_common()}


def counted(raw: str) -> Counter[str]:
    ours = {"podium", "podium_kit", *(path.name for path in SERVICES.iterdir())}
    counts: Counter[str] = Counter()
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        counts[place(stack.rpartition(";")[2], ours)] += int(count)
    return counts


def place(frame: str, ours: Container[str]) -> str:
    """`send (httpx/_client.py:914)` is httpx; of our packages it is the folder as well."""
    found = FRAME.search(frame)
    path = found["file"] if found else ""
    parts = path.split("/")
    if path.startswith(GRPC):
        return "grpc"
    if len(parts) == 1:
        return "Python's library"
    return "/".join(parts[:-1][:2]) if parts[0] in ours else parts[0]
