"""How long a queue's tasks have waited: what no worker takes stands still, however many run."""

from google.protobuf.duration_pb2 import Duration
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest

from episodes.temporal.connection import TemporalConnection

TYPES = (
    TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
)


async def backlog_age_s(temporal: TemporalConnection, task_queue: str) -> float:
    """Seconds that the oldest task has waited; 0 when none does. Raises RPCError."""
    client = temporal.client
    ages = []
    for kind in TYPES:
        request = DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=task_queue),
            task_queue_type=kind,
            report_stats=True,
        )
        reply = await client.workflow_service.describe_task_queue(request)
        ages.append(_seconds(reply.stats.approximate_backlog_age))
    return max(ages)


def _seconds(duration: Duration) -> float:
    return duration.seconds + duration.nanos / 1e9
