"""A real Prometheus scrapes a real cost ledger and fires its alerts. Run by `make prometheus`."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest_asyncio
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from sqlalchemy import text

from chart.rendering import Json
from cost_ledger.server import MIGRATIONS
from embedded_servers import Database
from integration.cost_ledger.builders import make_budget, make_price, make_record, make_reserve, usd
from integration.cost_ledger.running_ledger import (
    RunningLedger,
    as_owner,
    running_ledger,
    set_clock,
)
from podium.ledger.v1 import budget_service_pb2 as budgets_pb
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium_kit import telemetry
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.process import ManagedProcess
from podium_kit.postgres.migrations import upgrade
from podium_kit.rpc.identity import Scope
from prometheus.promtool import groups, program

TIMEOUT_S = 180
# What a record of `make_record` costs at `make_price`, as a share of a budget: 0.9 and more.
LIMIT = "0.0024"
# An anchor of long ago; the service's role may add none after it.
OLD_ANCHOR = """
    INSERT INTO anchor (day, root, tenant_count, previous_root, signature, public_key, create_time)
    VALUES ('2020-01-01', '', 0, '', '', '', '2020-01-02')
"""


def at_once(found: list[Json]) -> list[Json]:
    return [
        {**group, "interval": "1s", "rules": [{**rule, "for": "0s"} for rule in group["rules"]]}
        for group in found
    ]


@pytest_asyncio.fixture
async def scraped(tmp_path: Path) -> AsyncIterator[tuple[int, str]]:
    """The port of the metrics page to serve, and the URL of a Prometheus that scrapes it.

    It also scrapes a gateway that is not there.
    """
    page, port, nobody = free_port(), free_port(), free_port()
    targets = {"cost-ledger": page, "gateway": nobody}
    jobs = [
        {
            "job_name": component,
            "scrape_interval": "1s",
            "static_configs": [
                {
                    "targets": [f"127.0.0.1:{target}"],
                    "labels": {"namespace": "podium", "app_kubernetes_io_component": component},
                }
            ],
        }
        for component, target in targets.items()
    ]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": at_once(groups())}))
    config = tmp_path / "prometheus.yaml"
    config.write_text(yaml.safe_dump({"scrape_configs": jobs, "rule_files": ["rules.yaml"]}))
    process = ManagedProcess(
        "prometheus",
        [
            program("prometheus"),
            f"--config.file={config}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        log_path=tmp_path / "prometheus.log",
        env=dict(os.environ),
    )
    process.start()
    try:
        yield page, f"http://127.0.0.1:{port}"
    finally:
        await process.terminate()


async def firing(url: str, wanted: set[str]) -> list[Json]:
    names: set[str] = set()
    async with httpx.AsyncClient(base_url=url) as client:
        for _ in range(TIMEOUT_S):
            await asyncio.sleep(1)
            try:
                alerts = (await client.get("/api/v1/alerts")).json()["data"]["alerts"]
            except httpx.TransportError:
                continue  # It is starting.
            names = {each["labels"]["alertname"] for each in alerts}
            if wanted <= names:
                return list(alerts)
    raise AssertionError(f"{wanted - names} do not fire; {names} do")


def summaries(alerts: list[Json]) -> set[str]:
    return {each["annotations"]["summary"] for each in alerts}


async def break_what_can_be_broken(ledger: RunningLedger) -> None:
    admin, worker = ledger.as_("acme", Scope.TENANT_ADMIN), ledger.as_("acme")
    await ledger.admin().prices.CreatePrices(prices_pb.CreatePricesRequest(specs=[make_price()]))
    month = make_budget("month", LIMIT, soft_limits=[usd("0.001")])
    await admin.budgets.CreateBudget(budgets_pb.CreateBudgetRequest(budget=month))
    await worker.ledger.Record(make_record("known"))
    await worker.ledger.Record(make_record("unknown", sku="tool/nobody-prices-it"))
    # In another tenant, whose budgets do not reject it.
    await ledger.as_("beta").ledger.Reserve(make_reserve("left-open"))
    async with as_owner(ledger) as connection:
        await connection.execute(text("UPDATE hold SET amount = amount + 1 WHERE tenant = 'beta'"))
    # The hold is overdue, the sweep comes in ten minutes, the alert has waited for its topic.
    await set_clock(ledger, "2 hours")


async def test_a_broken_ledger_fires_its_alerts(
    database: Database, tmp_path: Path, scraped: tuple[int, str]
) -> None:
    page, prometheus = scraped
    url = await database("cost_ledger")
    key = tmp_path / "anchors.pem"
    key.write_bytes(
        Ed25519PrivateKey.generate().private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
    )
    shutdown = telemetry.configure("cost-ledger", telemetry.TelemetrySettings(metrics_port=page))
    await upgrade(url, MIGRATIONS)
    async with running_ledger(
        url,
        tmp_path,
        anchor_key_file=key,
        kafka={"bootstrap": f"127.0.0.1:{free_port()}"},
    ) as ledger:
        async with as_owner(ledger) as connection:
            await connection.execute(text("REVOKE INSERT ON anchor FROM cost_ledger_service"))
            await connection.execute(text(OLD_ANCHOR))
        await break_what_can_be_broken(ledger)
        found = await firing(
            prometheus,
            {
                "PodiumHoldLeak",
                "PodiumTieOutBroken",
                "PodiumCallsUnpriced",
                "PodiumOutboxLag",
                "PodiumAnchorsLate",
                "PodiumBudgetNearlySpent",
                "PodiumComponentDown",
                "PodiumBackgroundTaskFailing",
            },
        )
    shutdown()
    assert {
        "1 calls of tool/nobody-prices-it were charged without a known price",
        "the budget month of acme is used to 93.75%",
        "no pod of gateway answers its scraper",
    } <= summaries(found)
    assert "PodiumGatewayErrors" not in {each["labels"]["alertname"] for each in found}
