"""The workflow of a run of rollouts: every group of the plan once, whatever dies on the way.

An activity rolls one group. It may be attempted many times: the ids of its episodes follow
from the run, so the platform answers a repeated start with the episode that is there.
"""

import asyncio
from dataclasses import replace
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

from podium_training.rollouts.payloads import (
    GroupOfRun,
    PlannedRun,
    RolloutProgress,
    RolloutRun,
    RolloutTotals,
)
from podium_training.rollouts.plan import run_id_from

PLAN_RUN = "plan_run"
ROLL_GROUP = "roll_group"
# History grows by a few events a group; a new one is begun long before the server's limit.
GROUPS_PER_HISTORY = 200
HEARTBEAT_TIMEOUT = timedelta(seconds=5)
PLAN_TIMEOUT = timedelta(minutes=2)
# Beyond the episodes' own limit, for those that wait to be admitted.
GROUP_MARGIN = timedelta(hours=1)
# For ever: a platform that is away comes back. What it rejects is not tried again.
RETRY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30))


@workflow.defn(name="Rollouts")
class RolloutWorkflow:
    def __init__(self) -> None:
        self._run: RolloutRun | None = None

    @workflow.run
    async def run(self, run: RolloutRun) -> RolloutProgress:
        self._run = await self._planned(run)
        first = self._run.done.groups
        end = min(first + GROUPS_PER_HISTORY, self._run.group_count)
        gate = asyncio.Semaphore(run.groups_at_once)
        await asyncio.gather(*(self._roll(index, gate) for index in range(first, end)))
        if end < self._run.group_count:
            workflow.continue_as_new(self._run)
        return self.progress()

    @workflow.query
    def progress(self) -> RolloutProgress:
        if self._run is None:
            return RolloutProgress("", 0, RolloutTotals())
        return RolloutProgress(self._run.run_id, self._run.group_count, self._run.done)

    async def _planned(self, run: RolloutRun) -> RolloutRun:
        """The run with its id, and the tools and tasks it is about, fixed until its end."""
        if run.group_count:
            return run
        made = run_id_from(workflow.now(), workflow.uuid4())
        planned = await workflow.execute_activity(
            PLAN_RUN,
            run,
            result_type=PlannedRun,
            start_to_close_timeout=PLAN_TIMEOUT,
            retry_policy=RETRY,
        )
        return replace(
            run,
            run_id=run.run_id or made,
            tool_names=planned.tool_names,
            tool_skus=planned.tool_skus,
            group_count=planned.group_count,
        )

    async def _roll(self, index: int, gate: asyncio.Semaphore) -> None:
        assert self._run is not None
        async with gate:
            longest = timedelta(seconds=self._run.limits.time_limit_s) + GROUP_MARGIN
            totals = await workflow.execute_activity(
                ROLL_GROUP,
                # What has come of others is nothing to it.
                GroupOfRun(replace(self._run, done=RolloutTotals()), index),
                result_type=RolloutTotals,
                start_to_close_timeout=longest,
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
                retry_policy=RETRY,
            )
        self._run = replace(self._run, done=self._run.done.plus(totals))
