import uuid

from podium.registry.v1 import description_service_pb2 as pb
from podium.registry.v1 import tool_pb2
from podium_kit.rpc.errors import InvalidArgument
from podium_kit.wire import timestamp_to_proto
from tool_registry.descriptions.models import Proposal, ProposalState
from tool_registry.descriptions.service import Wanted
from tool_registry.models import ToolSpec
from tool_registry.tools.convert import new_spec_from_proto

STATE_TO_WIRE = {
    state: pb.ProposalState.Value(f"PROPOSAL_STATE_{state.name}") for state in ProposalState
}


def wanted_from_proto(request: pb.ProposeDescriptionRequest) -> Wanted:
    return Wanted(
        checked_id(request.id),
        request.tool_name,
        request.model_alias,
        request.writer_tool,
        request.sample_size,
        request.episodes_min,
    )


def checked_id(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError as error:
        raise InvalidArgument(f"id {text!r} is not a UUID") from error


def proposal_to_proto(proposal: Proposal) -> pb.Proposal:
    return pb.Proposal(
        id=proposal.id,
        tool_name=proposal.tool_name,
        tool_version=proposal.tool_version,
        model_alias=proposal.model_alias,
        current_description=proposal.current_description,
        proposed_description=proposal.proposed_description,
        writer_tool=proposal.writer_tool,
        episode_ids=proposal.episode_ids,
        succeeded_count=proposal.succeeded_count,
        state=STATE_TO_WIRE[proposal.state],
        create_time=timestamp_to_proto(proposal.create_time),
        created_by=proposal.created_by,
        reviewed_by=proposal.reviewed_by,
    )


def described(wire: bytes, model_alias: str, text: str) -> ToolSpec:
    spec = tool_pb2.ToolSpec.FromString(wire)
    for model in spec.connection.llm.models:
        if model_alias and model.alias == model_alias:
            model.description = text
    if not model_alias:
        spec.description = text
    return new_spec_from_proto(spec)
