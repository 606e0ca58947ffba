from typing import Any

from grpc.aio import ServicerContext

from podium.adapters.v1 import sandbox_service_pb2 as pb
from podium.adapters.v1 import sandbox_service_pb2_grpc as rpc
from tool_adapters.sandbox.convert import job_from_proto, ran_to_proto
from tool_adapters.sandbox.sandbox import Runner


class SandboxServicer(rpc.SandboxServiceServicer):
    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    async def RunCode(
        self, request: pb.RunCodeRequest, context: ServicerContext[Any, Any]
    ) -> pb.RunCodeResponse:
        return ran_to_proto(await self._runner.run(job_from_proto(request)))
