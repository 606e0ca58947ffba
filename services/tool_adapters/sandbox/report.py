"""The supervisor's report of a run, read as untrusted output of a sandbox."""

import asyncio
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from podium_kit.failures import FailureKind, ToolFailure
from tool_adapters.adapter import OutputFile
from tool_adapters.sandbox.inside.cell import OUT_OF_MEMORY
from tool_adapters.sandbox.limits import MIB, Limits

# A tar's headers and padding for every entry come on top of its content.
PACKED_ENTRY_BYTES = 4096
SIGNAL_EXIT = 128


class BrokenReport(Exception):
    pass


class _Header(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    cause: str
    status: int
    stdout_bytes: int = Field(ge=0)
    stderr_bytes: int = Field(ge=0)
    files: list[tuple[str, str, int]]
    left_out: list[str]
    state_bytes: int = Field(ge=0)


@dataclass(frozen=True)
class RunReport:
    """The end of a run; `state` is the packed workspace, never opened outside of a sandbox."""

    cause: str
    status: int
    stdout: str
    stderr: str
    files: tuple[OutputFile, ...]
    left_out: tuple[str, ...]
    state: bytes


async def read_report(stream: asyncio.StreamReader, limits: Limits) -> RunReport:
    try:
        header = _Header.model_validate_json(await stream.readline())
        _require_within(header, limits)
        stdout = _text(await stream.readexactly(header.stdout_bytes))
        stderr = _text(await stream.readexactly(header.stderr_bytes))
        files = [
            OutputFile(name, media_type, await stream.readexactly(size))
            for name, media_type, size in header.files
        ]
        state = await stream.readexactly(header.state_bytes)
    except (ValueError, asyncio.IncompleteReadError) as error:
        raise BrokenReport("the sandbox ended without a report") from error
    return RunReport(
        header.cause, header.status, stdout, stderr, tuple(files), tuple(header.left_out), state
    )


def failure_of(report: RunReport, limits: Limits) -> ToolFailure | None:
    """The failure the model sees; None for code that ran to its end."""
    if report.cause:
        return _limit_failure(report.cause, limits)
    if report.status == 0:
        return None
    if report.status == OUT_OF_MEMORY:
        return _limit_failure("memory", limits)
    if report.status < 0 or report.status > SIGNAL_EXIT:
        number = -report.status if report.status < 0 else report.status - SIGNAL_EXIT
        message = f"the code was killed by signal {number}; it passed a limit or crashed"
        return ToolFailure(FailureKind.LIMIT_EXCEEDED, message)
    printed = f"{report.stdout}{report.stderr}".strip()
    return ToolFailure(FailureKind.TOOL_ERROR, f"the code failed; fix it:\n{printed}")


def _limit_failure(cause: str, limits: Limits) -> ToolFailure:
    messages = {
        "time": f"the code ran longer than {limits.wall_time_s:g} s; do less in one call",
        "output": f"the code printed more than {limits.output_bytes} bytes; print a summary",
        "memory": f"the code needs more than {limits.memory_bytes // MIB} MiB of memory; "
        "work on less data",
        "disk": f"the workspace holds at most {limits.sizes.workspace_bytes // MIB} MiB in "
        f"{limits.entries} files; write less",
    }
    kinds = {"time": FailureKind.TIMEOUT, "output": FailureKind.OUTPUT_TOO_LARGE}
    return ToolFailure(kinds.get(cause, FailureKind.LIMIT_EXCEEDED), messages[cause])


def _require_within(header: _Header, limits: Limits) -> None:
    sizes = [size for _, _, size in header.files]
    packed_max = limits.sizes.workspace_bytes + (limits.entries + 8) * PACKED_ENTRY_BYTES
    fits = (
        max(header.stdout_bytes, header.stderr_bytes) <= limits.output_bytes
        and len(sizes) <= limits.files
        and all(size >= 0 for size in sizes)
        and sum(sizes) <= limits.files_bytes
        and header.state_bytes <= packed_max
        and header.cause in {"", "time", "output", "memory", "disk"}
    )
    if not fits:
        raise BrokenReport("the sandbox reported more than it may")


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
