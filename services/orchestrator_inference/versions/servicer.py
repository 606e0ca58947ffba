from typing import Any

import grpc

from orchestrator_inference.pages import page_of
from orchestrator_inference.versions.catalogue import VersionCatalogue, VersionState
from podium.orchestrator.v1 import model_version_service_pb2 as pb
from podium.orchestrator.v1 import model_version_service_pb2_grpc as rpc
from podium_kit.policy_versions.decisions import Verdict

VERDICTS = {
    Verdict.PROMOTE: pb.GATE_VERDICT_PROMOTE,
    Verdict.KEEP: pb.GATE_VERDICT_KEEP,
    Verdict.CONTINUE: pb.GATE_VERDICT_CONTINUE,
}


def version_to_proto(state: VersionState) -> pb.ModelVersion:
    """Fields without a report or a decision stay unset."""
    found = pb.ModelVersion(
        name=str(state.name),
        step=state.step,
        aliases=[alias.value for alias in state.aliases],
        faults=state.faults,
    )
    if state.report is not None:
        found.served = state.report.ready
        found.replica_ready_count = state.report.replicas_ready
        found.replica_count = state.report.replicas
    if state.decision is not None:
        found.gate_verdict = VERDICTS[state.decision.verdict]
        found.gate_compared_with = state.decision.promoted
        found.gate_reasons.extend(state.decision.reasons)
    return found


Context = grpc.aio.ServicerContext[Any, Any]


class ModelVersionServicer(rpc.ModelVersionServiceServicer):
    def __init__(self, versions: VersionCatalogue) -> None:
        self._versions = versions

    async def ListModelVersions(
        self, request: pb.ListModelVersionsRequest, context: Context
    ) -> pb.ListModelVersionsResponse:
        found = await self._versions.all()
        page, next_token = page_of(
            found, lambda each: each.name.sort_key, request.page_size, request.page_token
        )
        return pb.ListModelVersionsResponse(
            versions=[version_to_proto(each) for each in page], next_page_token=next_token
        )

    async def GetModelVersion(
        self, request: pb.GetModelVersionRequest, context: Context
    ) -> pb.GetModelVersionResponse:
        found = await self._versions.get(request.name)
        return pb.GetModelVersionResponse(version=version_to_proto(found))

    async def PromoteModelVersion(
        self, request: pb.PromoteModelVersionRequest, context: Context
    ) -> pb.PromoteModelVersionResponse:
        found, previous = await self._versions.promote(request.name)
        return pb.PromoteModelVersionResponse(version=version_to_proto(found), previous=previous)

    async def RollBackModelVersion(
        self, request: pb.RollBackModelVersionRequest, context: Context
    ) -> pb.RollBackModelVersionResponse:
        found = await self._versions.roll_back(request.name)
        return pb.RollBackModelVersionResponse(version=version_to_proto(found))
