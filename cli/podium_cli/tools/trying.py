import json
from collections.abc import Callable
from typing import Annotated

import typer
import uuid_utils
from rich.text import Text

from podium.common.v1 import failure_pb2
from podium.episodes.v1 import direct_call_service_pb2 as pb
from podium_cli.command import Session, command
from podium_cli.episodes.run import Budget, Policy
from podium_cli.formats import format_money
from podium_cli.inputs import parse_money
from podium_cli.tools.tools import Name, app
from podium_kit.client.errors import UsageError, UserError
from podium_kit.client.gateway import Gateway
from podium_kit.wire import enum_word, money_to_proto, optional_money_from_proto

PATH = "/v1/direct-calls"


@command(app, "try")
async def try_tool(
    session: Session,
    name: Name,
    arguments: Annotated[
        str, typer.Argument(help="Arguments as a JSON object.", show_default=False)
    ] = "{}",
    *,
    policy: Policy = "",
    budget: Budget = "",
) -> None:
    """Call a tool once, without an episode, and print what it gives.

    podium tools try calculator '{"expression": "17% of 2,340"}'

    It is a call like any other: the policy decides about it and the ledger charges for it.
    """
    spec = pb.DirectCallSpec(tool_name=name, policy=policy, arguments_json=_json(name, arguments))
    if budget:
        spec.budget.CopyFrom(money_to_proto(parse_money(budget)))
    async with session.gateway() as gateway:
        call = await called(gateway, spec)
    cost = format_money(optional_money_from_proto(call.cost))
    if call.HasField("failure"):
        kind = enum_word(failure_pb2.FailureKind.Name(call.failure.kind), "FAILURE_KIND_")
        wrong = call.failure.kind == failure_pb2.FAILURE_KIND_INVALID_ARGUMENTS
        fix = f"`podium tools show {name}` lists the arguments" if wrong else ""
        raise UserError(f"{name} failed ({kind}, {cost}): {call.failure.message}", fix)
    session.output.result(call, Text(call.content))
    session.output.note(f"[dim]v{call.tool_version}, {cost}, by {call.policy_name}[/]")


async def called(
    gateway: Gateway, spec: pb.DirectCallSpec, waits: Callable[[], None] = lambda: None
) -> pb.DirectCall:
    """Makes a call; `waits` is called for each half a minute without its end."""
    request = pb.StartDirectCallRequest(call_id=str(uuid_utils.uuid7()), spec=spec)
    call = (await gateway.post(PATH, request, pb.StartDirectCallResponse)).call
    while not call.ended:
        # Answered when the call ends, or after half a minute.
        path = f"{PATH}/{call.id}"
        call = (await gateway.get(path, pb.GetDirectCallResponse, wait="true")).call
        if not call.ended:
            waits()
    return call


def _json(name: str, arguments: str) -> str:
    example = f'write them like \'{{"city": "Oslo"}}\'; `podium tools show {name}` lists them'
    try:
        parsed = json.loads(arguments)
    except ValueError as error:
        raise UsageError(f"the arguments are not JSON: {error}", example) from error
    if not isinstance(parsed, dict):
        raise UsageError("the arguments are no JSON object", example)
    return arguments
