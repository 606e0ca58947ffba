from typing import Any

import grpc

from podium.registry.v1 import description_service_pb2 as pb
from podium.registry.v1 import tool_registry_service_pb2 as registry_pb
from podium.registry.v1.description_service_pb2_grpc import DescriptionServiceServicer
from tool_registry.descriptions.convert import (
    STATE_TO_WIRE,
    checked_id,
    proposal_to_proto,
    wanted_from_proto,
)
from tool_registry.descriptions.models import Proposal
from tool_registry.descriptions.service import Descriptions
from tool_registry.tools.convert import tool_to_proto
from tool_registry.tools.listing import take_page

Context = grpc.aio.ServicerContext[Any, Any]


class DescriptionServicer(DescriptionServiceServicer):
    def __init__(self, descriptions: Descriptions) -> None:
        self._descriptions = descriptions

    async def ProposeDescription(
        self, request: pb.ProposeDescriptionRequest, context: Context
    ) -> pb.ProposeDescriptionResponse:
        proposal = await self._descriptions.propose(wanted_from_proto(request))
        return pb.ProposeDescriptionResponse(proposal=proposal_to_proto(proposal))

    async def ListProposals(
        self, request: pb.ListProposalsRequest, context: Context
    ) -> pb.ListProposalsResponse:
        found = await self._descriptions.find(request.tool_name)
        states = set(request.states) or set(STATE_TO_WIRE.values())
        kept = [each for each in found if STATE_TO_WIRE[each.state] in states]
        page, token = take_page(kept, _age, request.page_size, request.page_token)
        return pb.ListProposalsResponse(
            proposals=[proposal_to_proto(each) for each in page], next_page_token=token
        )

    async def ApproveProposal(
        self, request: pb.ApproveProposalRequest, context: Context
    ) -> pb.ApproveProposalResponse:
        proposal, tool, created = await self._descriptions.approve(
            checked_id(request.id), request.description
        )
        registered = registry_pb.RegisterToolResponse(tool=tool_to_proto(tool), created=created)
        return pb.ApproveProposalResponse(
            proposal=proposal_to_proto(proposal), registered=registered
        )

    async def RejectProposal(
        self, request: pb.RejectProposalRequest, context: Context
    ) -> pb.RejectProposalResponse:
        proposal = await self._descriptions.reject(checked_id(request.id))
        return pb.RejectProposalResponse(proposal=proposal_to_proto(proposal))


def _age(proposal: Proposal) -> str:
    """Sorts newest first: ids are UUIDv7, whose order is that of time."""
    return f"{2**128 - int(proposal.id.replace('-', ''), 16):040}"
