"""Describes tools anew from verified episodes, and approves descriptions within bounds."""

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer
import uuid_utils

from podium.registry.v1 import description_service_pb2 as pb
from podium.registry.v1 import tool_registry_service_pb2
from podium_cli.command import Session, command
from podium_cli.listing import Listing, listing
from podium_cli.output import Output
from podium_cli.tools.tools import Shared, app
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import Gateway, segment
from podium_kit.client.rejections import Rejected
from podium_kit.tool_kinds import models_of
from podium_kit.wire import enum_word

POLL_S = 0.5
EPISODES_DEFAULT = 20
WORDS_MIN, WORDS_MAX = 5, 120
REJECTED = "rejected"
NOT_YET = {"TOO_FEW_EPISODES", "NOTHING_TO_DESCRIBE", "REVIEW_OUTSTANDING"}
# What a prompt for choosing tools has no place for. The text comes from a model that read users'
# tasks, so a person reads whatever has any of it.
OUT_OF_PLACE = {
    "a link": re.compile(r"https?:|www\."),
    "an amount of money": re.compile(r"[$€£¥]|\bUSD\b"),
    "markup or code": re.compile(r"[<>{}`]"),
    "more than one paragraph": re.compile(r"\n"),
}

Writer = Annotated[str, typer.Option("--with", help="Tool of kind llm that writes.")]


@dataclass(frozen=True)
class Described:
    """A tool, or a model of it, and what came of describing it anew."""

    name: str
    model: str
    state: str
    reason: str = ""
    proposal: str = ""

    def to_json(self) -> dict[str, str]:
        return {
            "tool": self.name,
            "model": self.model,
            "state": self.state,
            "reason": self.reason,
            "proposal": self.proposal,
        }


@dataclass(frozen=True)
class Recalibration:
    gateway: Gateway
    writer: str
    episodes_min: int
    approves: bool

    async def play(self, names: Sequence[str], *, shared: bool) -> AsyncIterator[Described]:
        """Describes the named tools, or all of their owner.

        Raises UsageError, and Rejected where the tools cannot be listed.
        """
        found = await self.gateway.all("/v1/tools", tool_registry_service_pb2.ListToolsResponse)
        own = {tool.spec.name: tool.spec for tool in found.tools if tool.shared == shared}
        if unknown := [name for name in names if name not in own]:
            owner = "the platform" if shared else "this tenant"
            fix = "see `podium tools list`; --shared is for those of the platform"
            raise UsageError(f"{unknown[0]} is no tool of {owner}", fix)
        for name in names or sorted(own.keys() - {self.writer}):
            models = [each.alias for each in models_of(own[name])]
            for model in models or [""]:
                yield await self._described(name, model)

    async def _described(self, name: str, model: str) -> Described:
        """A rejection is a state of its own: the tools that follow are described all the same."""
        try:
            return await self._renewed(name, model)
        except Rejected as error:
            state = "not yet" if error.reason in NOT_YET else REJECTED
            reason = f"{error.cause}; {error.fix}" if error.fix else error.cause
            return Described(name, model, state, reason)

    async def _renewed(self, name: str, model: str) -> Described:
        request = pb.ProposeDescriptionRequest(
            id=str(uuid.UUID(int=uuid_utils.uuid7().int)),
            tool_name=name,
            model_alias=model,
            writer_tool=self.writer,
            episodes_min=self.episodes_min,
        )
        proposal = await written(self.gateway, request)
        state = enum_word(pb.ProposalState.Name(proposal.state), "PROPOSAL_STATE_")
        if proposal.state == pb.PROPOSAL_STATE_FAILED:
            return Described(name, model, state, f"{self.writer} wrote nothing", proposal.id)
        reason = fault_of(proposal.proposed_description)
        if proposal.state == pb.PROPOSAL_STATE_PENDING and self.approves and not reason:
            path = f"/v1/tool-proposals/{segment(proposal.id)}/approve"
            reply = await self.gateway.post(path, {}, pb.ApproveProposalResponse)
            state, reason = "approved", f"v{reply.registered.tool.version} registered"
        return Described(name, model, state, reason, proposal.id)


async def written(gateway: Gateway, request: pb.ProposeDescriptionRequest) -> pb.Proposal:
    """Proposes a description, and waits until it is written or its writer has failed."""
    reply = pb.ProposeDescriptionResponse
    proposal = (await gateway.post("/v1/tool-proposals", request, reply)).proposal
    while proposal.state == pb.PROPOSAL_STATE_WRITING:
        await asyncio.sleep(POLL_S)
        # The same request again returns its current state.
        proposal = (await gateway.post("/v1/tool-proposals", request, reply)).proposal
    return proposal


def fault_of(text: str) -> str:
    """Returns why a description must be read by a person; "" for one that need not be."""
    words = len(text.split())
    if not WORDS_MIN <= words <= WORDS_MAX:
        return f"has {words} words, of {WORDS_MIN} to {WORDS_MAX}"
    found = (what for what, pattern in OUT_OF_PLACE.items() if pattern.search(text.strip()))
    return next((f"has {what}" for what in found), "")


async def recalibrated(
    output: Output, recalibration: Recalibration, names: Sequence[str], *, shared: bool = False
) -> list[Described]:
    """Describes tools anew and notes each one that was written about or rejected."""
    described = []
    async for each in recalibration.play(names, shared=shared):
        described.append(each)
        if each.proposal or each.state == REJECTED:
            called = f"{each.name}/{each.model}" if each.model else each.name
            output.note(f"description of {called}: {each.state} {each.reason}".rstrip())
    return described


@command(app, "recalibrate")
async def recalibrate(
    session: Session,
    names: Annotated[
        list[str] | None, typer.Argument(help="Tools; all of the tenant's own by default.")
    ] = None,
    *,
    writer: Writer,
    episodes: Annotated[
        int, typer.Option(min=1, max=50, help="Verified episodes needed since the last review.")
    ] = EPISODES_DEFAULT,
    approve: Annotated[
        bool, typer.Option("--approve", help="Register what is within bounds; the rest waits.")
    ] = False,
    shared: Shared = False,
) -> None:
    """Describe tools anew from what was verified since their last review; for a schedule.

    Exit status 1 when a tool was rejected; the others are described all the same.
    """
    async with session.gateway(admin=shared) as gateway:
        recalibration = Recalibration(gateway, writer, episodes, approve)
        described = await recalibrated(session.output, recalibration, names or [], shared=shared)
    values = {"tools": [each.to_json() for each in described]}
    session.output.result(values, _table(described))
    if any(each.state == REJECTED for each in described):
        raise typer.Exit(1)


def _table(described: Sequence[Described]) -> Listing:
    rows = [
        (each.name, each.model or "-", each.state, each.proposal or "-", each.reason)
        for each in described
    ]
    return listing(("tool", "model", "state", "proposal", "reason…"), rows)
