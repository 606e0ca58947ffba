"""Warnings about names that nothing has: SKUs, secrets, teams and users.

Each may be right, since what it names can come later or from elsewhere (an identity provider, a
mounted Secret); so the command goes through, and says what it did not find.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

from google.protobuf.message import Message

from podium.adapters.v1 import secret_service_pb2
from podium.ledger.v1 import price_book_service_pb2 as prices_pb2
from podium.registry.v1 import tool_pb2, tool_registry_service_pb2
from podium_cli.commands.keys import all_keys
from podium_cli.output import Output
from podium_kit.client.gateway import Gateway
from podium_kit.client.rejections import Rejected
from podium_kit.tool_kinds import models_of

SKUS_PER_REQUEST = 500
# SKUs that belong to one tool; those of providers are imported by the list, used or not.
OF_ONE_TOOL = ("own/", "tool/")
# A user's own secrets; only the user can list them.
OF_A_USER = "user/"


def skus_of(spec: tool_pb2.ToolSpec) -> list[str]:
    """The SKUs that calls of a tool are priced by."""
    return [sku for sku in (spec.sku, *(model.sku for model in models_of(spec))) if sku]


async def warn_of_unused_skus(gateway: Gateway, output: Output, skus: Iterable[str]) -> None:
    listed = await gateway.all("/v1/tools", tool_registry_service_pb2.ListToolsResponse)
    used = {sku for tool in listed.tools for sku in skus_of(tool.spec)}
    for sku in sorted(set(skus) - used):
        if sku.startswith(OF_ONE_TOOL) or "/" not in sku:
            output.warn(f"no tool has the SKU {sku}{_nearest(sku, used)}")


async def warn_of_unpriced_tools(
    gateway: Gateway, output: Output, specs: Sequence[tool_pb2.ToolSpec]
) -> None:
    """Warns of SKUs without a price: the cost of their calls is unknown, which is not free."""
    tools = {sku: spec.name for spec in specs for sku in skus_of(spec)}
    skus = sorted(tools)
    for at in range(0, len(skus), SKUS_PER_REQUEST):
        part = skus[at : at + SKUS_PER_REQUEST]
        found = await gateway.get(
            "/v1/prices/effective", prices_pb2.GetEffectivePricesResponse, skus=part
        )
        for sku in part:
            if sku not in found.prices:
                output.warn(
                    f"{tools[sku]}: {sku} has no price, so the cost of a call is unknown; "
                    "`podium prices import` adds one"
                )


async def warn_of_missing_secrets(
    gateway: Gateway, output: Output, named: Mapping[str, str]
) -> None:
    """Warns of secrets that the tenant has not stored; the operator may have mounted them.

    `named` has the tool or webhook that names each.
    """
    if not named:
        return
    try:
        listed = await gateway.all("/v1/secrets", secret_service_pb2.ListSecretsResponse)
    except Rejected:
        # A tool owner may register tools without the right to list secrets.
        return
    stored = {secret.name for secret in listed.secrets}
    for secret in sorted(set(named) - stored):
        if not secret.startswith(OF_A_USER):
            output.warn(
                f"{named[secret]}: no secret {secret} is stored{_nearest(secret, stored)}; "
                f"calls fail until `podium secrets set {secret}`, unless the operator mounts it"
            )


async def warn_of_unknown_principal(gateway: Gateway, output: Output, kind: str, name: str) -> None:
    try:
        keys = await all_keys(gateway)
    except Rejected:
        return
    if kind == "team":
        known = {team for key in keys for team in key["teams"]}
    else:
        known = {key["subject"] for key in keys}
    if name not in known:
        output.warn(
            f"no API key is of the {kind} {name}{_nearest(name, known)}; only tokens of an "
            f"identity provider that name the {kind} count"
        )


def secrets_of(specs: Sequence[tool_pb2.ToolSpec]) -> dict[str, str]:
    return {secret: spec.name for spec in specs for secret in _secrets(spec.connection)}


def _secrets(message: Message) -> Iterator[str]:
    if isinstance(message, tool_pb2.SecretRef):
        yield message.name
        return
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for inner in value if field.is_repeated else [value]:
            yield from _secrets(inner)


def _nearest(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""
