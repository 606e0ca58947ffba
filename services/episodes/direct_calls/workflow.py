"""The workflow that servers of version 0.1 started for each direct call; none is started since.

Workers take calls from the queue. What is still open ends here as it would have then.
"""

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError

from episodes.direct_calls.payloads import CallFailed, CallInput
from episodes.workflows.retry_policies import (
    FINISH_RETRY,
    FINISH_TIMEOUT,
    HEARTBEAT_TIMEOUT,
    TURN_MARGIN,
    TURN_RETRY,
)

MAKE_CALL = "make_direct_call"
FAIL_CALL = "fail_direct_call"
# Parts of the platform that are away for so long end the call.
PATIENCE = timedelta(minutes=10)


@workflow.defn(name="DirectCall")
class DirectCallWorkflow:
    """Makes one call, and ends it whatever happens."""

    @workflow.run
    async def run(self, call: CallInput) -> None:
        longest = timedelta(seconds=call.timeout_s) + TURN_MARGIN
        try:
            await workflow.execute_activity(
                MAKE_CALL,
                call,
                start_to_close_timeout=longest,
                schedule_to_close_timeout=longest + PATIENCE,
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
                retry_policy=TURN_RETRY,
            )
        except ActivityError as error:
            await workflow.execute_activity(
                FAIL_CALL,
                CallFailed(call.call_id, str(error.cause or error)),
                start_to_close_timeout=FINISH_TIMEOUT,
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
                retry_policy=FINISH_RETRY,
            )
