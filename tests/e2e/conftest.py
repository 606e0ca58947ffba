import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio

from builders.episode_costs import misreported
from local_platforms import local_platform
from openai_server import OpenAiServer, Reply, Scripted
from podium_operations.local.platform import LocalPlatform
from podium_operations.local.services import CONTENT, ENDPOINT
from podium_operations.local.state import Connection
from servers.otlp_collector import OtlpCollector
from temporary_files import server_folder

MODEL = "scripted-model"
SUM = {"thought": "I will compute it.", "tool": "calculator", "arguments": {"expression": "6*7"}}
SLOW_TASK = "take your time"
PAUSED_TASK = "think before you check"
# Nothing that is offered for it calculates.
FINDING_TASK = "in which country is the airport of the city of Lyon, and its currency?"
FIND = {"tool": "find_tools", "arguments": {"query": "calculate the product of two numbers"}}
# The client has a function for it.
CLIENT_TASK = "how warm is it at our own station in Oslo?"
ASK_CLIENT = {"tool": "getWeather", "arguments": {"city": "Oslo"}}
# Two guests, who are served once both have come.
MEETING_TASK = "let Ada and Bob meet"
MEET = {"calls": [{"tool": "meet", "arguments": {"guest": guest}} for guest in ("Ada", "Bob")]}
# Webhooks reach receivers of this machine, and are signed with a secret of the first tenant.
WEBHOOK_SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
RECEIVING = {
    "tool_adapters": {
        "allowed_hosts": '["127.0.0.1"]',
        "secret_default__hooks": WEBHOOK_SECRET,
    }
}
# In everything that the owner among tenancy's tenants writes.
CANARY = "canary-7f3a9c"


def first_action(body: Mapping[str, Any]) -> Reply:
    """A sum; a minute late for the slow task; a search for tools where nothing calculates; a call
    of the client's function where that is asked for; two calls at once for those who meet.
    """
    if CLIENT_TASK in json.dumps(body["messages"]):
        return Reply(json.dumps({"thought": "I will ask the client.", **ASK_CLIENT}))
    if FINDING_TASK in json.dumps(body["messages"]):
        return Reply(json.dumps({"thought": "I need another tool.", **FIND}))
    if MEETING_TASK in json.dumps(body["messages"]):
        return Reply(json.dumps(MEET))
    slow = SLOW_TASK in json.dumps(body["messages"])
    return Reply(json.dumps(SUM), delay_s=60.0 if slow else 0.0)


def second_action(body: Mapping[str, Any]) -> Reply:
    paused = PAUSED_TASK in json.dumps(body["messages"])
    checked = {**SUM, "thought": "I will check it."}
    return Reply(json.dumps(checked), delay_s=8.0 if paused else 0.0)


def conclusion(body: Mapping[str, Any]) -> dict[str, str]:
    quoted = CANARY in json.dumps(body["messages"])
    return {"answer": f"42 {CANARY}" if quoted else "42"}


SCRIPT: list[Scripted] = [first_action, second_action, conclusion]


@dataclass(frozen=True)
class WholePlatform:
    platform: LocalPlatform
    connection: Connection
    model: OpenAiServer
    collector: OtlpCollector

    def client(self, api_key: str | None = None) -> httpx.AsyncClient:
        key = self.connection.api_key if api_key is None else api_key
        return httpx.AsyncClient(
            base_url=self.connection.gateway_url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=120,
            trust_env=False,
            verify=False,
        )


async def price_the_model(whole: WholePlatform) -> None:
    components = [
        {"dimension": f"USAGE_DIMENSION_{name}", "unit_price": "0.2", "per": "1000000"}
        for name in ("INPUT_FRESH", "OUTPUT_TEXT")
    ]
    price = {"sku": f"orchestrator/{MODEL}", "currency_code": "USD", "components": components}
    async with whole.client(whole.connection.admin_key) as admin:
        reply = await admin.post("/v1/prices", json={"specs": [price]})
    assert reply.is_success, reply.text


@pytest_asyncio.fixture(scope="session")
async def whole() -> AsyncIterator[WholePlatform]:
    """The platform as a user starts it who sets OpenTelemetry's variables."""
    with (
        server_folder("e2e") as folder,
        OpenAiServer(script=SCRIPT, models=[MODEL], delay_s=0.2) as model,
        pytest.MonkeyPatch.context() as environment,
    ):
        async with OtlpCollector() as collector:
            environment.setenv(ENDPOINT, collector.grpc_endpoint)
            environment.setenv(CONTENT, "true")
            environment.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret")
            running = local_platform(folder, model.base_url, MODEL, settings=RECEIVING)
            async with running as (platform, connection):
                whole = WholePlatform(platform, connection, model, collector)
                await price_the_model(whole)
                yield whole
                # After all tests, the episodes' costs are those of the ledger.
                assert not await misreported(folder / "state")
