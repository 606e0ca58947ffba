from dataclasses import replace

from podium_kit.failures import FailureKind, ToolFailure
from tool_adapters.sandbox.execution import Execution
from tool_adapters.sandbox.limits import Limits
from tool_adapters.sandbox.runner import Job, Runner
from tool_adapters.workspaces.errors import WorkspaceFull
from tool_adapters.workspaces.models import Whose
from tool_adapters.workspaces.service import Workspaces


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
    said = execution.failure.message if execution.failure else execution.output
    message = f"{error.message}\n{said}".strip()
    return replace(execution, failure=ToolFailure(FailureKind.LIMIT_EXCEEDED, message))
