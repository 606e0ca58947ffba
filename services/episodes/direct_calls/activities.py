"""Activities of the workflow that servers of version 0.1 started for each direct call.

Calls come from the queue since; a workflow that is still open ends as it would have then.
"""

from dataclasses import dataclass

from temporalio import activity

from episodes.direct_calls.making import DirectCallMaker
from episodes.direct_calls.payloads import CallFailed, CallInput
from episodes.direct_calls.workflow import FAIL_CALL, MAKE_CALL
from episodes.temporal.activity_errors import activity_errors
from episodes.temporal.heartbeats import heartbeats


@dataclass(frozen=True)
class DirectCallActivities:
    """Makes calls, and ends those that cannot be made."""

    maker: DirectCallMaker

    @activity.defn(name=MAKE_CALL)
    async def make(self, call: CallInput) -> None:
        """Makes the call, continuing where an earlier attempt stopped."""
        with activity_errors():
            async with heartbeats():
                await self.maker.make(await self.maker.store.load(call.call_id))

    @activity.defn(name=FAIL_CALL)
    async def fail(self, failed: CallFailed) -> None:
        """Ends the call with a failure."""
        async with heartbeats():
            await self.maker.fail(failed.call_id, failed.message)
