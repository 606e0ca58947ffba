"""Which version of the worker an episode runs on."""

from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import WorkerDeploymentConfig

from podium_kit.rpc.errors import InvalidArgument


def deployment_config(name: str, build_id: str) -> WorkerDeploymentConfig | None:
    """Pinned: an episode ends on the build it began with; without names, None: no versions.

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
