from typing import Annotated

import typer

from podium.registry.v1 import policy_service_pb2 as pb
from podium_cli.command import Session, command
from podium_cli.commands.keys import all_keys
from podium_cli.formats import format_time
from podium_cli.listing import listing
from podium_cli.policies.policies import Name, app
from podium_cli.unmatched import warn_of_unknown_principal
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import Gateway, segment

Principal = Annotated[
    str,
    typer.Argument(
        help="team:NAME, role:NAME, user:NAME, or key:ID from `podium keys list`.",
        show_default=False,
    ),
]


@command(app, "bind")
async def bind(session: Session, name: Name, principal: Principal) -> None:
    """Make a policy bind a team, role, user or API key, in running episodes too."""
    async with session.gateway() as gateway:
        request = pb.BindPolicyRequest(principal=await _written(gateway, principal))
        path = f"/v1/policies/{segment(name)}/bind"
        reply = await gateway.post(path, request, pb.BindPolicyResponse)
        kind, _, named = principal.partition(":")
        if kind in ("team", "user"):
            await warn_of_unknown_principal(gateway, session.output, kind, named)
    session.output.result(reply, f"{name} binds {reply.binding.principal}")


@command(app, "unbind")
async def unbind(session: Session, name: Name, principal: Principal) -> None:
    """Take a binding back."""
    async with session.gateway() as gateway:
        request = pb.UnbindPolicyRequest(principal=await _written(gateway, principal))
        path = f"/v1/policies/{segment(name)}/unbind"
        reply = await gateway.post(path, request, pb.UnbindPolicyResponse)
    session.output.result(reply, f"{name} does not bind {reply.binding.principal} any more")


@command(app, "bindings")
async def bindings(session: Session) -> None:
    """List whom policies bind, besides the floor."""
    async with session.gateway() as gateway:
        found = await gateway.all("/v1/policy-bindings", pb.ListPolicyBindingsResponse)
    rows = [
        (one.principal, one.policy, format_time(one.create_time), one.created_by)
        for one in found.bindings
    ]
    columns = ("binds", "policy", "since", "by")
    session.output.result(found, listing(columns, rows, ("since", "by")))


async def _written(gateway: Gateway, principal: str) -> str:
    """A key by the first of its rotations, so that the next one changes nothing."""
    kind, _, key_id = principal.partition(":")
    if kind != "key":
        return principal
    for key in await all_keys(gateway):
        if key["id"] == key_id:
            return f"key:{key['origin_id']}"
    raise UsageError(f"there is no key {key_id}", "`podium keys list` shows the tenant's")
