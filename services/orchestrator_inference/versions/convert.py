from orchestrator_inference.versions.catalogue import VersionState
from podium.orchestrator.v1 import model_version_service_pb2 as pb
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
