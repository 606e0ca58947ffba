from dataclasses import dataclass, replace
from typing import Protocol

from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.rpc.errors import InternalError
from tool_adapters.adapter import OutputFile
from tool_adapters.sandbox.limits import Limits
from tool_adapters.workspaces.models import Whose, WorkspaceFull
from tool_adapters.workspaces.service import Workspaces


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


class Sandbox:
    """Gives every run what its episode left, and keeps what it leaves."""

    def __init__(self, workspaces: Workspaces, runner: Runner) -> None:
        self._workspaces = workspaces
        self._runner = runner

    async def run(self, code: str, limits: Limits) -> Execution:
        """Runs code whose files are gone afterwards. Raises SandboxBroken."""
        return (await self._runner.run(Job(code, False, limits))).execution

    async def run_in_episode(
        self, code: str, limits: Limits, tenant: str, episode_id: str
    ) -> Execution:
        """Runs code that finds the files and variables of the episode's earlier runs.

        A run that passed a limit leaves them as they were. Raises SandboxBroken and
        DatabaseUnavailable.
        """
        whose = Whose(tenant, episode_id)
        async with self._workspaces.turn_of(whose):
            while True:
                found = await self._workspaces.load(whose)
                ran = await self._runner.run(Job(code, True, limits, found.packed))
                if not ran.state:
                    return ran.execution
                try:
                    if await self._workspaces.save(whose, found.revision, ran.state):
                        return ran.execution
                except WorkspaceFull as error:
                    return _not_kept(ran.execution, error)
                # A call that another process served came first. This one has had no effect
                # anywhere else, so it runs again, on what that left.

    async def close_episode(self, tenant: str, episode_id: str) -> None:
        await self._workspaces.close(Whose(tenant, episode_id))

    async def require_isolation(self) -> None:
        await self._runner.require_isolation()

    def warm_up(self) -> None:
        self._runner.warm_up()

    async def close(self) -> None:
        """Ends what was started ahead. Workspaces stay: an episode outlives a restart."""
        await self._runner.close()


def _not_kept(execution: Execution, error: WorkspaceFull) -> Execution:
    result = execution.failure.message if execution.failure else execution.output
    message = f"{error.message}\n{result}".strip()
    return replace(execution, failure=ToolFailure(FailureKind.LIMIT_EXCEEDED, message))
