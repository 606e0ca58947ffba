"""Wiring of the tool registry."""

from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncEngine

import telemetry
from podium.registry.v1.policy_service_pb2_grpc import add_PolicyServiceServicer_to_server
from podium.registry.v1.tool_registry_service_pb2_grpc import (
    add_ToolRegistryServiceServicer_to_server,
)
from rpckit.channel import open_channel
from rpckit.migrations import upgrade
from rpckit.server import Service, run_server
from tool_registry.catalogue import Catalogues
from tool_registry.clients import PriceBook
from tool_registry.config import Settings
from tool_registry.convert import stored_spec
from tool_registry.convert_policies import preset_policies, stored_policy
from tool_registry.service import Registry
from tool_registry.servicer_policies import PolicyServicer
from tool_registry.servicer_tools import ToolRegistryServicer
from tool_registry.store_engine import check, open_engine
from tool_registry.store_facts import FactsStore
from tool_registry.store_policies import PolicyStore
from tool_registry.store_tools import ToolStore

MIGRATIONS = Path(__file__).parent / "migrations"


async def serve(settings: Settings) -> None:
    """Serves until SIGTERM."""
    stop_telemetry = telemetry.configure("tool-registry", settings.telemetry)
    await upgrade(settings.database_url, MIGRATIONS)
    engine = open_engine(settings.database_url)
    price_book = PriceBook(open_channel(settings.cost_ledger_target, tls=settings.tls))
    try:
        await run_server(
            settings, services(engine, price_book), {"postgres": lambda: check(engine)}
        )
    finally:
        await engine.dispose()
        stop_telemetry()


def services(engine: AsyncEngine, price_book: PriceBook) -> list[Service]:
    """The registry's two services over one database."""
    tools, policies = ToolStore(engine, stored_spec), PolicyStore(engine, stored_policy)
    registry = Registry(
        tools=tools,
        policies=policies,
        facts=FactsStore(engine),
        catalogues=Catalogues(tools, policies, preset_policies()),
        price_book=price_book,
    )
    return [
        Service(
            add_ToolRegistryServiceServicer_to_server,
            ToolRegistryServicer(registry),
            "podium.registry.v1.ToolRegistryService",
        ),
        Service(
            add_PolicyServiceServicer_to_server,
            PolicyServicer(registry),
            "podium.registry.v1.PolicyService",
        ),
    ]
