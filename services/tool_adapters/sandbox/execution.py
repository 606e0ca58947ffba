"""What came of one run in the sandbox."""

from dataclasses import dataclass

from failures import ToolFailure


@dataclass(frozen=True)
class SandboxFile:
    """A file the code left in its workspace; the name holds no folder."""

    name: str
    media_type: str
    data: bytes


@dataclass(frozen=True)
class Execution:
    """Everything printed, the files made, and the failure when there is one."""

    output: str
    files: tuple[SandboxFile, ...]
    failure: ToolFailure | None
    duration_s: float
