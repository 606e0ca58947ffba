import re
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

from podium.ledger.v1 import budget_service_pb2 as budgets_pb2
from podium.ledger.v1 import price_book_service_pb2 as prices_pb2
from podium.registry.v1 import policy_pb2, policy_service_pb2
from podium.registry.v1 import tool_registry_service_pb2 as tools_pb2
from podium_kit.client.gateway import Gateway
from podium_kit.wire import enum_words
from podium_operations.controller.kinds import tool_name
from podium_operations.documents import written

API_VERSION = "podium.dev/v1alpha1"
OWN = "own/"
OF_THE_PLATFORM = "platform:"
BUDGET_FIELDS = (
    "scope",
    "scope_id",
    "window",
    "rolling_length",
    "time_zone",
    "hard_limit",
    "soft_limits",
    "soft_limit_shares",
)
NAME_CHARACTERS_MAX = 253
DIGEST_CHARACTERS = 8

Object = dict[str, Any]


async def exported(gateway: Gateway) -> list[Object]:
    objects = [
        *await _tools(gateway),
        *await _policies(gateway),
        *await _prices(gateway),
        *await _budgets(gateway),
    ]
    return list(_apart(objects))


def _apart(objects: Sequence[Object]) -> Iterator[Object]:
    """The objects; two names of one kind that Kubernetes would take for one become two."""
    named = Counter((each["kind"], each["metadata"]["name"]) for each in objects)
    for each in objects:
        name, spec = each["metadata"]["name"], each["spec"]
        # Whose object says its name is the one that Kubernetes does not take as it is.
        given = spec.get("name") or spec.get("id")
        if given and named[each["kind"], name] > 1:
            digest = sha256(given.encode()).hexdigest()[:DIGEST_CHARACTERS]
            short = name[: NAME_CHARACTERS_MAX - DIGEST_CHARACTERS - 1]
            yield _object(each["kind"], f"{short}-{digest}", spec)
        else:
            yield each


async def _tools(gateway: Gateway) -> list[Object]:
    found = await gateway.all("/v1/tools", tools_pb2.ListToolsResponse)
    objects = []
    for tool in found.tools:
        if not tool.shared:
            spec = written(tool.spec)
            name = _object_name(spec["name"])
            # The object's own name says it already.
            if tool_name(name, {}) == spec["name"]:
                del spec["name"]
            objects.append(_object("Tool", name, spec))
    return objects


async def _policies(gateway: Gateway) -> list[Object]:
    found = await gateway.all("/v1/policies", policy_service_pb2.ListPoliciesResponse)
    # Presets are in every platform.
    presets = enum_words(policy_pb2.PolicyPreset.DESCRIPTOR)
    return [
        _named("Policy", "name", written(each.spec))
        for each in found.policies
        if each.spec.name not in presets
    ]


async def _prices(gateway: Gateway) -> list[Object]:
    found = await gateway.all("/v1/prices", prices_pb2.ListPricesResponse, sku_prefix=OWN)
    newest: dict[tuple[str, str, str], Object] = {}
    for each in found.prices:
        spec = written(each.spec)
        key = (each.spec.sku, each.spec.service_class, each.spec.region)
        for known_already in ("tenant", "start_time", "corrects_price_id"):
            spec.pop(known_already, None)
        if not each.spec.HasField("end_time"):
            newest[key] = spec
    return [_object("PriceList", "own", {"prices": list(newest.values())})] if newest else []


async def _budgets(gateway: Gateway) -> list[Object]:
    found = await gateway.all("/v1/budgets", budgets_pb2.ListBudgetsResponse)
    objects = []
    for status in found.statuses:
        budget = status.budget
        if not budget.HasField("close_time") and not budget.id.startswith(OF_THE_PLATFORM):
            spec = {key: value for key, value in written(budget).items() if key in BUDGET_FIELDS}
            objects.append(_named("Budget", "id", {"id": budget.id, **spec}))
    return objects


def _named(kind: str, field: str, spec: Object) -> Object:
    name = _object_name(spec[field])
    if name == spec[field]:
        del spec[field]
    return _object(kind, name, spec)


def _object(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _object_name(name: str) -> str:
    """Turns the name into one that Kubernetes accepts: lower case, digits, - and . between."""
    plain = re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.")
    return (plain or "unnamed")[:NAME_CHARACTERS_MAX]
