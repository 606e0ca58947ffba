import uuid
from typing import Annotated

import typer
import uuid_utils
from rich.console import Group, RenderableType
from rich.text import Text

from podium.registry.v1 import description_service_pb2
from podium_cli.command import Session, command
from podium_cli.formats import counted, format_time
from podium_cli.listing import listing
from podium_cli.tools.recalibrating import Writer, written
from podium_cli.tools.tools import Name, Shared, app
from podium_kit.client.errors import UserError
from podium_kit.client.gateway import segment
from podium_kit.text import one_line
from podium_kit.wire import enum_word

TEXT_CHARACTERS = 100
FAILED = description_service_pb2.PROPOSAL_STATE_FAILED
Proposed = Annotated[str, typer.Argument(help="Id of the proposal.", show_default=False)]


@command(app, "describe")
async def describe(
    session: Session,
    name: Name,
    *,
    writer: Writer,
    model: Annotated[str, typer.Option(help="Describe this model of an llm tool.")] = "",
    sample: Annotated[int, typer.Option(min=1, max=50, help="Past episodes to show it.")] = 10,
    shared: Shared = False,
) -> None:
    """Have a language model describe a tool from past episodes; you review what it wrote."""
    request = description_service_pb2.ProposeDescriptionRequest(
        id=str(uuid.UUID(int=uuid_utils.uuid7().int)),
        tool_name=name,
        model_alias=model,
        writer_tool=writer,
        sample_size=sample,
    )
    async with session.gateway(admin=shared) as gateway:
        proposal = await written(gateway, request)
    if proposal.state == FAILED:
        raise UserError(
            f"{writer} wrote nothing", f"see `podium episodes show {proposal.id}` for what happened"
        )
    session.output.result(proposal, _compared(proposal))


@command(app, "proposals")
async def proposals(
    session: Session, tool: Annotated[str, typer.Argument(help="Only this tool's.")] = ""
) -> None:
    """List proposed descriptions, newest first."""
    async with session.gateway() as gateway:
        found = await gateway.all(
            "/v1/tool-proposals",
            description_service_pb2.ListProposalsResponse,
            tool_name=tool,
        )
    rows = [
        (
            each.id,
            each.tool_name,
            enum_word(description_service_pb2.ProposalState.Name(each.state), "PROPOSAL_STATE_"),
            format_time(each.create_time),
            one_line(each.proposed_description, TEXT_CHARACTERS),
        )
        for each in found.proposals
    ]
    session.output.result(found, listing(("proposal", "tool", "state", "made", "text…"), rows))


@command(app, "approve")
async def approve(
    session: Session,
    proposal: Proposed,
    text: Annotated[str, typer.Option(help="The description as you edited it.")] = "",
    shared: Shared = False,
) -> None:
    """Register the proposed description as a new version of the tool."""
    async with session.gateway(admin=shared) as gateway:
        reply = await gateway.post(
            f"/v1/tool-proposals/{segment(proposal)}/approve",
            {"description": text},
            description_service_pb2.ApproveProposalResponse,
        )
    tool = reply.registered.tool
    session.output.result(reply, f"{tool.spec.name} v{tool.version} registered")


@command(app, "reject")
async def reject(session: Session, proposal: Proposed, shared: Shared = False) -> None:
    """Drop a proposed description."""
    async with session.gateway(admin=shared) as gateway:
        reply = await gateway.post(
            f"/v1/tool-proposals/{segment(proposal)}/reject",
            {},
            description_service_pb2.RejectProposalResponse,
        )
    session.output.result(reply, f"{proposal} rejected")


def _compared(proposal: description_service_pb2.Proposal) -> RenderableType:
    seen = len(proposal.episode_ids)
    return Group(
        Text(
            f"from {counted(seen, 'episode')}, {proposal.succeeded_count} of them successful",
            style="dim",
        ),
        Text.assemble(("now:      ", "dim"), proposal.current_description),
        Text.assemble(("proposed: ", "bold"), proposal.proposed_description),
        Text(f"podium tools approve {proposal.id}"),
    )
