"""What came of one run in the sandbox."""

from dataclasses import dataclass

from failures import ToolFailure
from tool_adapters.adapter import OutputFile


@dataclass(frozen=True)
class Execution:
    """Everything printed, the files made, and the failure when there is one."""

    output: str
    files: tuple[OutputFile, ...]
    failure: ToolFailure | None
    duration_s: float
