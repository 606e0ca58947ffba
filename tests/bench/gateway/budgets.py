from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import httpx

from bench.episodes.model_server import MODEL
from bench.gateway.load import Endpoint, statuses
from podium_operations.local.state import Connection

# What the model server reports of every call.
SPENT = Decimal("0.0007")
PER_MILLION = {"INPUT_FRESH": "1", "OUTPUT_TEXT": "10"}
OUTPUT_TOKENS = 1000
# More at once than the budget covers at the least they can be held for, which is $0.0018: a budget
# that is less than a hundred times as much could not be used to 99 %.
CALLS_COVERED, CALLS_SENT, CONCURRENT = 320, 640, 200
CALLS_AFTERWARDS = 5
LIMITS = {"requests_per_s": 1000, "burst": 1000, "concurrency": 300, "running_episodes": 300}
OK, REJECTED = 200, 402


@dataclass(frozen=True)
class Used:
    """The state of a budget that covers CALLS_COVERED calls."""

    limit: Decimal
    posted: Decimal
    held: Decimal
    answered: int
    rejected: int
    failed: int
    falsely_rejected: int
    """Calls like the rejected ones that were answered afterwards, one at a time."""


async def use_up(endpoint: Endpoint, connection: Connection) -> Used:
    """Sends more calls at once than a new budget of the tenant covers, each with a long answer."""
    await _sent(connection, connection.admin_key, "POST", "/v1/prices", {"specs": [_price()]})
    limit = CALLS_COVERED * SPENT
    budget = {
        "id": "bench",
        "scope": "BUDGET_SCOPE_TENANT",
        "window": "BUDGET_WINDOW_TOTAL",
        "hard_limit": {"currency_code": "USD", "amount": str(limit)},
    }
    await _sent(connection, connection.api_key, "POST", "/v1/budgets", {"budget": budget})
    await _sent(connection, connection.admin_key, "PUT", "/v1/tenants/default/limits", LIMITS)
    found = await statuses(endpoint, CONCURRENT, CALLS_SENT, max_tokens=OUTPUT_TOKENS)
    status = await _status(connection)
    again = await statuses(endpoint, 1, CALLS_AFTERWARDS, max_tokens=OUTPUT_TOKENS)
    await _sent(connection, connection.api_key, "POST", "/v1/budgets/bench/close", {})
    return Used(
        limit,
        Decimal(status["posted"]["amount"]),
        Decimal(status["held"]["amount"]),
        answered=found.count(OK),
        rejected=found.count(REJECTED),
        failed=sum(status not in (OK, REJECTED) for status in found),
        falsely_rejected=min(found.count(REJECTED), again.count(OK)),
    )


def _price() -> dict[str, Any]:
    components = [
        {"dimension": f"USAGE_DIMENSION_{name}", "unit_price": price, "per": "1000000"}
        for name, price in PER_MILLION.items()
    ]
    return {"sku": f"llm/{MODEL}", "currency_code": "USD", "components": components}


async def _status(connection: Connection) -> Any:
    async with _client(connection, connection.api_key) as http:
        reply = (await http.get("/v1/budgets/bench")).raise_for_status()
    return reply.json()["status"]


async def _sent(
    connection: Connection, key: str, method: str, path: str, body: dict[str, Any]
) -> None:
    async with _client(connection, key) as http:
        (await http.request(method, path, json=body)).raise_for_status()


def _client(connection: Connection, key: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=connection.gateway_url,
        headers={"authorization": f"Bearer {key}"},
        timeout=60,
        trust_env=False,
    )
