"""Wiring: the only place where the parts are put together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import telemetry
from orchestrator_inference.config import Settings
from orchestrator_inference.engine_openai import OpenAiEngine, engine_client
from orchestrator_inference.service import Orchestrator, Policy
from orchestrator_inference.servicer import OrchestratorServicer
from podium.orchestrator.v1 import orchestrator_service_pb2_grpc as rpc
from rpckit.health import Check
from rpckit.server import Service, run_server

SERVICE_NAME = "podium.orchestrator.v1.OrchestratorService"


async def serve(settings: Settings) -> None:
    """Serves until SIGTERM."""
    shutdown = telemetry.configure("orchestrator-inference", settings.telemetry)
    try:
        async with assembled(settings) as (service, checks):
            await run_server(settings, [service], checks)
    finally:
        shutdown()


@asynccontextmanager
async def assembled(settings: Settings) -> AsyncIterator[tuple[Service, dict[str, Check]]]:
    """The service and the checks of its engine, with the connections they need."""
    secret = settings.engine_api_key
    key = secret.get_secret_value() if secret else None
    base_url = str(settings.engine_base_url)
    async with engine_client(base_url, key, settings.max_in_flight) as client:
        engine = OpenAiEngine(
            client,
            timeout_s=settings.engine_timeout_s,
            default_model=settings.default_model,
            model_aliases=settings.model_aliases,
        )
        orchestrator = Orchestrator(engine, _policy(settings), settings.max_in_flight)
        servicer = OrchestratorServicer(orchestrator)
        service = Service(rpc.add_OrchestratorServiceServicer_to_server, servicer, SERVICE_NAME)
        yield service, {"engine": engine.check}


def _policy(settings: Settings) -> Policy:
    return Policy(
        budgets=settings.prompt,
        parallel_calls_max=settings.parallel_calls_max,
        string_bounds=settings.string_bounds,
        any_whitespace=settings.engine_any_whitespace,
        model_sku=settings.model_sku,
    )
