from dataclasses import dataclass
from typing import Protocol

from podium_kit.rpc.errors import InternalError
from tool_adapters.sandbox.execution import Execution
from tool_adapters.sandbox.limits import Limits


@dataclass(frozen=True)
class Job:
    """One piece of code; `state` is what an earlier run of the same episode left."""

    code: str
    stateful: bool
    limits: Limits
    state: bytes = b""


@dataclass(frozen=True)
class Ran:
    """The result of a job; an empty state leaves the episode's as it was."""

    execution: Execution
    state: bytes


class SandboxBroken(InternalError):
    """A sandbox that does not start or does not report: no answer, so the call is made again.

    Not for ever, as while the pods are away: the code itself may be what breaks its sandbox.
    """


class Runner(Protocol):
    """Runs jobs one by one or at once; nothing of one is seen by another."""

    async def run(self, job: Job) -> Ran:
        """Raises SandboxBroken and DependencyAway; whatever happens, nothing is left running."""

    async def require_isolation(self) -> None:
        """Raises IsolationUnavailable where code cannot be isolated."""

    def warm_up(self) -> None: ...

    async def close(self) -> None: ...
