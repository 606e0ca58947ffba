import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client

from chart.rendering import Json
from integration.bootstrap.conftest import planned
from integration.bootstrap.namespace_server import NamespaceServer
from openai_server import OpenAiServer
from podium_kit.client.errors import UsageError
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.ports import free_ports
from podium_kit.embedded.process import ManagedProcess
from podium_kit.embedded.temporal import EmbeddedTemporal
from podium_kit.stream.settings import KafkaSettings
from podium_operations.bootstrap.cluster_objects import ClusterObjects
from podium_operations.bootstrap.making import Bootstrap
from podium_operations.bootstrap.settings import Plan, Settings
from podium_operations.local.keys import SigningKeys
from podium_operations.local.services import Engine, Surroundings, service_processes
from podium_operations.local.supervision import answers

SERVICES = (
    "cost_ledger",
    "tool_registry",
    "tool_adapters",
    "orchestrator_inference",
    "episodes",
    "episodes_worker",
    "gateway",
)
SKU = "orchestrator/mine"
PRICE: Json = {
    "sku": SKU,
    "currencyCode": "USD",
    "components": [{"dimension": "output_text", "unitPrice": "0.2", "per": "1000000"}],
}
EXPERT: Json = {
    "model": "pvc://models/math",
    "description": "Best at calculation.",
    "price": {"perSecond": "0.0011"},
}
VALUES: Json = {
    "integrations": {"kserve": {"enabled": True}},
    "experts": {"math-one": EXPERT},
    "endpoints": {"temporal": {"namespace": "podium-bootstrapped"}},
    "kafka": {"trajectories": {"topic": "bootstrapped.v1"}, "alerts": {"topic": "alerts.v1"}},
    "inference": {"sku": SKU},
    "bootstrap": {
        "tenant": {"name": "acme"},
        "prices": {"list": [PRICE]},
        "policies": [{"name": "frugal", "preset": "cost-first", "price_ceiling": "0.05 USD"}],
        "budgets": [
            {"id": "everyday", "scope": "tenant", "window": "day", "hardLimit": "5 USD"},
        ],
    },
}
START_TIMEOUT_S = 120.0


def settings_of(
    temporal: EmbeddedTemporal, kafka: EmbeddedKafka, ports: dict[str, int]
) -> Settings:
    return Settings(
        plan_file=Path(os.devnull),
        temporal_target=temporal.target,
        temporal_namespace="podium-bootstrapped",
        kafka=KafkaSettings(bootstrap=kafka.bootstrap_servers),
        gateway_target=f"http://127.0.0.1:{ports['gateway']}",
    )


@asynccontextmanager
async def services(
    namespace: NamespaceServer,
    ports: dict[str, int],
    engine: Engine,
    folder: Path,
) -> AsyncIterator[None]:
    """The services as pods start: as soon as their Secrets are there."""
    # A service that cannot start ends the test, which would wait for it.
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as starting:
        starting.create_task(_start(namespace, ports, engine, folder, stack))
        yield


async def _start(
    namespace: NamespaceServer,
    ports: dict[str, int],
    engine: Engine,
    folder: Path,
    stack: AsyncExitStack,
) -> None:
    while ("secrets", "podium-databases") not in namespace.objects:
        await asyncio.sleep(0.1)
    keys = SigningKeys(folder)
    for name, text in namespace.secret("podium-identity").items():
        (keys.folder / name).write_text(text)
    urls = namespace.secret("podium-databases")
    dsn = {key.replace("-", "_"): url for key, url in urls.items()}
    dsn["cost_ledger"] = urls["cost-ledger-owner"]
    extra = {
        "cost_ledger": {"database_url": urls["cost-ledger"]},
        "episodes": {"temporal_namespace": "podium-bootstrapped"},
        "episodes_worker": {"temporal_namespace": "podium-bootstrapped"},
    }
    around = Surroundings(ports, dsn, keys, engine, folder, None, extra)
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR")}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    for service in service_processes(around):
        process = ManagedProcess(
            service.name,
            [sys.executable, "-P", "-m", service.module],
            log_path=folder / f"{service.name}.log",
            env={**environment, **service.environment},
        )
        stack.push_async_callback(process.terminate)
        process.start()
        await process.wait_ready(partial(answers, service.name, service.port), START_TIMEOUT_S)


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("admin_url")
async def test_an_empty_platform_is_given_everything_once(
    namespace: NamespaceServer,
    objects: ClusterObjects,
    temporal: EmbeddedTemporal,
    kafka: EmbeddedKafka,
    tmp_path: Path,
) -> None:
    ports = dict(zip((*SERVICES, "temporal", "kafka"), free_ports(len(SERVICES) + 2), strict=True))
    ports |= {"temporal": temporal.port, "kafka": kafka.port}
    settings, plan = settings_of(temporal, kafka, ports), planned(VALUES)
    with OpenAiServer() as model:
        engine = Engine(model.base_url, model.models[0], SKU)
        async with services(namespace, ports, engine, tmp_path):
            made = await Bootstrap(settings, plan, objects).run()
            await assert_everything_is_there(namespace, settings, temporal, made)
            # A second run changes nothing, neither on the cluster nor in the audit log.
            before = await audited(namespace, settings)
            writes = len(namespace.writes)
            assert await Bootstrap(settings, plan, objects).run() == []
            assert len(namespace.writes) == writes
            assert await audited(namespace, settings) == before
            await assert_an_expert_comes_and_goes(namespace, settings, objects)


async def assert_everything_is_there(
    namespace: NamespaceServer, settings: Settings, temporal: EmbeddedTemporal, made: list[str]
) -> None:
    keys = namespace.secret("podium-api-keys")
    assert set(keys) == {"tenant"}
    assert set(namespace.secret("podium-platform-api-key")) == {"platform"}
    listed = await got(settings, keys["tenant"], "/v1/tools?page_size=100")
    names = {tool["spec"]["name"] for tool in listed["tools"]}
    # Code needs the sandbox, which is off.
    assert {"calculator", "country_facts", "search_corpus"} <= names
    assert "code_interpreter" not in names
    prices = await got(settings, keys["tenant"], f"/v1/prices/effective?skus={SKU}")
    assert SKU in prices["prices"]
    budgets = await got(settings, keys["tenant"], "/v1/budgets")
    assert [each["budget"]["id"] for each in budgets["statuses"]] == ["everyday"]
    assert (await got(settings, keys["tenant"], "/v1/policies/frugal"))["policy"]["version"] == 1
    corpora = await got(settings, keys["tenant"], "/v1/corpora")
    assert [each["name"] for each in corpora["corpora"]] == ["library"]
    actions = {action for _, action in await audited(namespace, settings)}
    assert {
        "BootstrapPlatform",
        "CreateApiKey",
        "CreatePrices",
        "RegisterTool",
        "CreatePolicy",
        "CreateBudget",
    } <= actions
    client = await Client.connect(temporal.target)
    found = await client.workflow_service.describe_namespace(
        DescribeNamespaceRequest(namespace="podium-bootstrapped")
    )
    assert found.config.workflow_execution_retention_ttl.ToTimedelta().days == 3
    assert "topic bootstrapped.v1 (3 partitions)" in made


async def assert_an_expert_comes_and_goes(
    namespace: NamespaceServer, settings: Settings, objects: ClusterObjects
) -> None:
    key, sku = namespace.secret("podium-api-keys")["tenant"], "expert/math-one"

    async def tool(values: Json) -> Json:
        await Bootstrap(settings, planned({**VALUES, "experts": values}), objects).run()
        listed = await got(settings, key, "/v1/tools?page_size=100&include_deprecated=true")
        found = [each for each in listed["tools"] if each["spec"]["name"] == "math_one"]
        return dict(max(found, key=lambda each: int(each["version"])))

    expert = await tool({"math-one": EXPERT})
    [model] = expert["spec"]["connection"]["llm"]["models"]
    assert (model["model"], model["sku"]) == ("podium-expert-math-one", sku)
    assert "deprecate_time" not in expert
    prices = (await got(settings, key, f"/v1/prices/effective?skus={sku}"))["prices"]
    [charged] = prices[sku]["spec"]["components"]
    assert (charged["dimension"], charged["unit_price"]) == ("USAGE_DIMENSION_SECOND", "0.0011")
    assert "deprecate_time" in await tool({})
    assert "deprecate_time" not in await tool({"math-one": EXPERT})


async def audited(namespace: NamespaceServer, settings: Settings) -> list[tuple[str, str]]:
    """(tenant, action) of every entry, newest first."""
    keys = namespace.secret("podium-api-keys") | namespace.secret("podium-platform-api-key")
    return [
        (name, entry["action"])
        for name in ("platform", "tenant")
        for entry in (await got(settings, keys[name], "/v1/audit-log?page_size=500"))["entries"]
    ]


async def got(settings: Settings, key: str, path: str) -> Json:
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=settings.gateway_target, trust_env=False) as client:
        reply = await client.get(path, headers=headers, timeout=60)
    assert reply.is_success, reply.text
    found: Json = reply.json()
    return found


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"policies": [{"name": "x", "preset": "cheap"}]}, r"bootstrap.policies\[0\]: preset"),
        ({"prices": {"list": [{"sku": "a", "unit": "b"}]}}, r"bootstrap.prices.list\[0\]: .*unit"),
        (
            {"budgets": [{"id": "a", "scope": "all", "window": "day", "hardLimit": "5 USD"}]},
            r"bootstrap.budgets\[0\]: scope",
        ),
        (
            {
                "budgets": [{"id": "a", "scope": "tenant", "window": "day", "hardLimit": "5 USD"}],
                "prices": {"list": []},
            },
            "no price of orchestrator/mine",
        ),
    ],
)
async def test_a_wrong_document_is_named_by_its_line_before_anything_is_made(
    values: Json, line: str, namespace: NamespaceServer, objects: ClusterObjects
) -> None:
    plan: Plan = planned({**VALUES, "bootstrap": VALUES["bootstrap"] | values})
    with pytest.raises(UsageError, match=line):
        await Bootstrap(Settings(plan_file=Path(os.devnull)), plan, objects).run()
    assert not namespace.objects
