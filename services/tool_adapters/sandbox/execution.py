from dataclasses import dataclass

from podium_kit.failures import ToolFailure
from tool_adapters.adapter import OutputFile


@dataclass(frozen=True)
class Execution:
    """Everything printed, the files made, and the failure when there is one.

    `left_out` names changed files that were too many or too large to come back, and says last how
    many more there are.
    """

    stdout: str
    stderr: str
    files: tuple[OutputFile, ...]
    failure: ToolFailure | None
    duration_s: float
    left_out: tuple[str, ...] = ()

    @property
    def output(self) -> str:
        """The text for the model: standard output, then the other parts under their names."""
        parts = [self.stdout]
        if self.stderr:
            parts.append(f"[stderr]\n{self.stderr}")
        if self.left_out:
            parts.append(f"[too many or too large to come back: {', '.join(self.left_out)}]\n")
        return "".join(parts)
