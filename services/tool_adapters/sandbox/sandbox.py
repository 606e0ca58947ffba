"""The sandbox's interface: code with and without the state of an episode."""

import asyncio

from tool_adapters.sandbox.execution import Execution
from tool_adapters.sandbox.limits import Limits
from tool_adapters.sandbox.runner import Job, Runner
from tool_adapters.sandbox.workspaces import Workspaces


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

        A run that passed a limit leaves them as they were. Raises SandboxBroken.
        """
        async with self._workspaces.of_episode(tenant, episode_id) as workspace:
            ran = await self._runner.run(Job(code, True, limits, await workspace.load()))
            if ran.state:
                await workspace.save(ran.state)
            return ran.execution

    async def close_episode(self, tenant: str, episode_id: str) -> None:
        await asyncio.to_thread(self._workspaces.close_episode, tenant, episode_id)

    async def require_isolation(self) -> None:
        """Raises IsolationUnavailable where code cannot be isolated."""
        await self._runner.require_isolation()

    def warm_up(self) -> None:
        """Prepares for the first run, in the background."""
        self._runner.warm_up()

    async def close(self) -> None:
        """Ends what was started ahead. Workspaces stay: an episode outlives a restart."""
        await self._runner.close()
