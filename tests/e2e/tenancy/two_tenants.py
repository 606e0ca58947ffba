"""acme, who owns one of everything, and strangers, who must not get at any of it.

Everything acme writes carries the canary; ids do not, so that an echoed id is no leak.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import httpx
import uuid_utils
from google.protobuf import json_format
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from e2e.conftest import CANARY
from gateway.config import DatabaseSettings
from gateway.keys.models import KeyRequest
from gateway.keys.offline import api_keys
from gateway.responses.ids import ResponseId
from podium_kit.rpc.channel import open_channel
from podium_kit.rpc.identity import Identity, Role, Scope, acting_as
from podium_kit.rpc.tokens import TokenSigner
from podium_operations.local.keys import SigningKeys
from podium_operations.local.platform import LocalPlatform

OWNER, STRANGER, OTHER_STRANGER = "acme", "umbrella", "globex"
SERVICE_OF_PACKAGE = {
    "podium.episodes.v1": "episodes",
    "podium.registry.v1": "tool_registry",
    "podium.ledger.v1": "cost_ledger",
    "podium.adapters.v1": "tool_adapters",
    "podium.orchestrator.v1": "orchestrator_inference",
}
# Everything but the platform's own scopes, which are there to cross tenants.
ALL_OF_A_TENANT = frozenset(set(Scope) - {Scope.PLATFORM_ADMIN, Scope.TRAINING_READ})
SCHEMA = {"type": "object", "properties": {"expression": {"type": "string"}}}


@dataclass
class TwoTenants:
    platform: LocalPlatform
    keys: dict[str, str]
    things: dict[str, str] = field(default_factory=dict)

    def http(self, tenant: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.platform.gateway_url,
            headers={"authorization": f"Bearer {self.keys[tenant]}"},
            trust_env=False,
            verify=False,
            timeout=30,
        )

    async def call(
        self, tenant: str, method: MethodDescriptor, values: Any, scopes: Sequence[str] = ()
    ) -> "Answer":
        """The RPC as the tenant, with every scope of a tenant unless others are given."""
        identity = Identity(tenant, "mallory", frozenset(scopes or ALL_OF_A_TENANT))
        service = method.containing_service
        target = f"127.0.0.1:{self.platform.ports[SERVICE_OF_PACKAGE[service.file.package]]}"
        pem = SigningKeys(self.platform.state.keys).private_key_file("gateway").read_text()
        request = json_format.ParseDict(values, GetMessageClass(method.input_type)())
        async with open_channel(target, TokenSigner(pem, "gateway"), identity) as channel:
            return await _answer(channel, method, request)


@dataclass(frozen=True)
class Answer:
    """A reply: its status and all of the bytes a caller can see."""

    code: grpc.StatusCode
    seen: bytes


async def _answer(channel: grpc.aio.Channel, method: MethodDescriptor, request: Any) -> Answer:
    # Which of the two it is depends on the descriptor, which types cannot see.
    kind: Any = channel.unary_stream if method.server_streaming else channel.unary_unary
    call = kind(
        f"/{method.containing_service.full_name}/{method.name}",
        request_serializer=GetMessageClass(method.input_type).SerializeToString,
        response_deserializer=GetMessageClass(method.output_type).FromString,
    )
    try:
        if method.server_streaming:
            seen = b"".join([each.SerializeToString() async for each in call(request, timeout=20)])
        else:
            seen = (await call(request, timeout=20)).SerializeToString()
    except grpc.aio.AioRpcError as error:
        return Answer(error.code(), f"{error.details()}{error.trailing_metadata()}".encode())
    return Answer(grpc.StatusCode.OK, seen)


async def own_something(platform: LocalPlatform) -> TwoTenants:
    tenants = TwoTenants(platform, {})
    settings = DatabaseSettings(database_url=platform.dsn["gateway"])
    async with api_keys(settings) as keys:
        for tenant in (OWNER, STRANGER, OTHER_STRANGER):
            wanted = KeyRequest(tenant, f"admin of {tenant}", roles=frozenset({Role.TENANT_ADMIN}))
            with acting_as(Identity(tenant, "operator", frozenset())):
                tenants.keys[tenant] = (await keys.issue(wanted))[1]
    async with tenants.http(OWNER) as owner:
        await _own(owner, tenants)
    return tenants


async def _own(owner: httpx.AsyncClient, tenants: TwoTenants) -> None:
    episode_id, held = str(uuid_utils.uuid7()), str(uuid_utils.uuid7())
    tenants.things |= {
        "tool": "acme_sum",
        "policy": "acme-policy",
        "budget": "acme-budget",
        "corpus": "acme_corpus",
        "document": "acme-document",
        "sku": "own/acme",
        "episode": episode_id,
        "response": str(ResponseId(episode_id, 0)),
        # Apart from the episode, which must cost what its own calls cost.
        "held_episode": held,
        "hold": f"{held}/7/tool/0",
        "unknown": str(uuid_utils.uuid7()),
        "webhook": "acme-hook",
        "secret": "acme-secret",
        "evaluation": str(uuid_utils.uuid7()),
    }
    for method, path, body in _belongings(tenants.things):
        await _ask(owner, method, path, body)
    await _finished(owner, episode_id)
    key = await _ask(owner, "POST", "/v1/api-keys", {"subject": CANARY, "roles": ["developer"]})
    tenants.things["key"] = key["api_key"]["id"]


def _belongings(things: dict[str, str]) -> list[tuple[str, str, Any]]:
    usd = {"currency_code": "USD", "amount": "5"}
    component = {"dimension": "USAGE_DIMENSION_CALL", "unit_price": "0.1", "per": "1"}
    price = {"sku": things["sku"], "currency_code": "USD", "components": [component]}
    document = {"id": things["document"], "title": CANARY, "content": f"{CANARY} is a secret"}
    tool = {
        "name": things["tool"],
        "kind": "TOOL_KIND_FUNCTION",
        "description": f"adds for {CANARY}",
        "parameters_json_schema": json.dumps(SCHEMA),
        "connection": {"function": {"function": "calculator"}},
        "side_effect": "SIDE_EFFECT_PURE",
    }
    policy = {
        "name": things["policy"],
        "instruction": f"think of {CANARY}",
        "unknown_price": "UNKNOWN_PRICE_RULE_ADMIT",
    }
    budget = {"id": things["budget"], "scope": "BUDGET_SCOPE_TENANT", "hard_limit": usd}
    hook = {"url": f"http://127.0.0.1:1/{CANARY}", "secret": {"name": "none"}}
    episode = {"task": f"what is {CANARY}?", "policy": things["policy"]}
    check = {"verifier": "exact", "parameters_json": json.dumps({"expected": CANARY})}
    item = {"id": "one", "question": f"what is {CANARY}?", "check": check}
    evaluation = {"id": things["evaluation"], "suite": CANARY, "arms": [{"name": "podium"}]}
    return [
        ("POST", "/v1/prices", {"specs": [{**price, "source": CANARY}]}),
        ("POST", "/v1/tools", {"spec": tool}),
        ("POST", "/v1/policies", {"spec": policy}),
        ("POST", "/v1/budgets", {"budget": {**budget, "window": "BUDGET_WINDOW_TOTAL"}}),
        ("PUT", f"/v1/corpora/{things['corpus']}/documents", {"documents": [document]}),
        ("PUT", f"/v1/webhooks/{things['webhook']}", hook),
        ("PUT", f"/v1/secrets/{things['secret']}", {"value": CANARY}),
        ("PUT", f"/v1/user-secrets/{things['secret']}", {"value": CANARY, "hosts": ["a.example"]}),
        ("POST", "/v1/episodes", {"episode_id": things["episode"], "spec": episode}),
        ("POST", "/v1/evaluations", {"evaluation": evaluation, "items": [item]}),
    ]


async def _finished(owner: httpx.AsyncClient, episode_id: str) -> None:
    while True:
        reply = await _ask(owner, "GET", f"/v1/episodes/{episode_id}")
        if reply["episode"]["state"] == "EPISODE_STATE_FINISHED":
            return
        await asyncio.sleep(0.1)


async def _ask(owner: httpx.AsyncClient, method: str, path: str, body: Any = None) -> Any:
    reply = await owner.request(method, path, json=body)
    assert reply.is_success, (path, reply.text)
    return reply.json()
