from dataclasses import dataclass

from temporalio.api.workflowservice.v1 import DescribeWorkerDeploymentRequest
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import WorkerDeploymentConfig

from episodes.workflows.connection import TemporalConnection
from podium_kit.rpc.errors import InvalidArgument

INTERVAL_S = 2.0


def deployment_config(name: str, build_id: str) -> WorkerDeploymentConfig | None:
    """Pins a workflow to the build that it began with; None without names: no versions.

    Temporal gives such a worker no new episode until its version is the deployment's current
    one, which the worker controller (or `temporal worker deployment set-current-version`) does.
    """
    if not name and not build_id:
        return None
    if not (name and build_id):
        raise InvalidArgument(
            "TEMPORAL_DEPLOYMENT_NAME and TEMPORAL_WORKER_BUILD_ID belong together: set both"
        )
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(name, build_id),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.PINNED,
    )


@dataclass
class CurrentVersion:
    """Follows whether this worker's version is its deployment's current one.

    Only workers of the current version lease episodes. A worker without a version always does.
    """

    temporal: TemporalConnection
    name: str
    build_id: str
    is_current: bool = False

    def __post_init__(self) -> None:
        self.is_current = not self.name

    async def follow(self) -> None:
        """Asks Temporal. Raises RPCError while it does not answer: the last answer stays valid."""
        if not self.name:
            return
        client = self.temporal.client
        request = DescribeWorkerDeploymentRequest(
            namespace=client.namespace, deployment_name=self.name
        )
        try:
            found = await client.workflow_service.describe_worker_deployment(request)
        except RPCError as error:
            # Temporal knows a deployment from its first worker's first poll on.
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            self.is_current = False
            return
        current = found.worker_deployment_info.routing_config.current_deployment_version
        self.is_current = current.build_id == self.build_id
