import grpc

from podium.adapters.v1.sandbox_service_pb2_grpc import SandboxServiceStub
from podium_kit.rpc.errors import DependencyAway, DomainError
from podium_kit.rpc.status import answered
from tool_adapters.sandbox.convert import job_to_proto, ran_from_proto
from tool_adapters.sandbox.sandbox import Job, Ran, SandboxBroken

# On top of the run: its start, its report and the way there and back.
OVERHEAD_S = 20.0


class RemoteRunner:
    """Runs jobs as the caller; what an episode keeps travels with them."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = SandboxServiceStub(channel)

    async def run(self, job: Job) -> Ran:
        """Raises SandboxBroken, and DependencyAway while no pod answers."""
        timeout_s = job.limits.wall_time_s + OVERHEAD_S
        try:
            ran = await answered(self._stub.RunCode(job_to_proto(job), timeout=timeout_s))
        except DependencyAway:
            raise
        except DomainError as error:
            raise SandboxBroken(f"the sandbox service: {error.message}") from error
        return ran_from_proto(ran)

    async def require_isolation(self) -> None:
        """The other side proves it, and is not ready until it has."""

    def warm_up(self) -> None: ...

    async def close(self) -> None: ...
