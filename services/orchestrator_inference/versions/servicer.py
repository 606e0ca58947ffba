from collections.abc import Mapping
from typing import Any

import grpc

from orchestrator_inference.pages import page_of
from orchestrator_inference.versions.catalogue import VersionCatalogue, VersionState
from podium.orchestrator.v1 import model_version_service_pb2 as pb
from podium.orchestrator.v1 import model_version_service_pb2_grpc as rpc
from podium_kit.policy_versions.decisions import RecordedDecision, Verdict
from podium_kit.policy_versions.metrics import Metrics

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
        tenant=state.tenant or "",
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


def decision_to_proto(decision: RecordedDecision) -> pb.GateDecision:
    found = pb.GateDecision(
        look=decision.look,
        pair_count=decision.pairs,
        rules=_texts(decision.rules),
        candidate_figures=_texts(decision.figures.get("candidate", {})),
        promoted_figures=_texts(decision.figures.get("promoted", {})),
    )
    for measure, bounds in decision.bounds.items():
        found.gains.add(measure=measure, **bounds)
    return found


def _texts(values: Mapping[str, str | float | None]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items() if value is not None}


def step_to_proto(step: Metrics) -> pb.TrainingStep:
    figures = {name: value for name, value in step.items() if name != "step"}
    return pb.TrainingStep(step=int(step["step"]), figures=figures)


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
        reply = pb.GetModelVersionResponse(version=version_to_proto(found))
        if found.decision is not None:
            reply.decision.CopyFrom(decision_to_proto(found.decision))
        return reply

    async def ListTrainingSteps(
        self, request: pb.ListTrainingStepsRequest, context: Context
    ) -> pb.ListTrainingStepsResponse:
        found = await self._versions.training_steps(request.name)
        return pb.ListTrainingStepsResponse(steps=map(step_to_proto, found))

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
