"""The kinds of objects, each with the way to apply it: only differences are applied.

Documents are what the podium command reads, so a file can be both. Every function raises
InvalidDocument for a spec that is none, Rejected and Unreachable as the gateway says.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from google.protobuf.field_mask_pb2 import FieldMask

from podium.ledger.v1 import budget_service_pb2 as budgets_pb2
from podium.ledger.v1 import price_book_service_pb2 as prices_pb2
from podium.registry.v1 import policy_pb2, policy_service_pb2, tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as tools_pb2
from podium_kit.client.errors import UserError
from podium_kit.client.gateway import Gateway, segment
from podium_kit.client.rejections import Rejected
from podium_operations.bootstrap.cluster_objects import ClusterObjects
from podium_operations.cluster.api_server import ACCOUNT
from podium_operations.controller.settings import Settings
from podium_operations.documents import message_of


class NoTenant(UserError):
    """The namespace has no key."""


class Tenants:
    """Gateways by namespace, each with the key that its Secret holds now."""

    def __init__(self, settings: Settings, account: Path = ACCOUNT) -> None:
        self._settings = settings
        self._account = account

    async def gateway(self, namespace: str) -> Gateway:
        name, key = self._settings.key_secret, self._settings.key_name
        objects = ClusterObjects(namespace, "", self._account)
        text = (await objects.secret(name) or {}).get(key)
        if not text:
            raise NoTenant(
                f"namespace {namespace} has no Secret {name} with {key}",
                f"kubectl -n {namespace} create secret generic {name} --from-literal={key}=pod_...,"
                " with a key of the tenant that may change tools, policies and budgets",
            )
        settings = self._settings
        return Gateway(settings.gateway_target, text.strip(), settings.gateway_authority)


Spec = Mapping[str, Any]
# How the services end the reason of what is not there, or out of use, like TOOL_NOT_FOUND.
GONE = ("NOT_FOUND", "DEPRECATED")


@dataclass(frozen=True)
class Applied:
    status: dict[str, Any] = field(default_factory=dict)
    changed: bool = False


class Superseded(UserError):
    """Someone created a newer version, and a policy's older content cannot be its newest again."""

    def __init__(self, name: str, version: int, newest: int) -> None:
        super().__init__(
            f"policy {name} has version {newest}, newer than version {version}, which the spec is",
            "change the spec, for example to what `podium policies show` says",
        )


Apply = Callable[[Gateway, str, Spec], Awaitable[Applied]]
End = Callable[[Gateway, str, Spec], Awaitable[None]]


@dataclass(frozen=True)
class Kind:
    """A kind by its plural: how it is applied and, if the platform knows an end of it, ended."""

    plural: str
    apply: Apply
    end: End | None = None


def tool_name(name: str, spec: Spec) -> str:
    """The platform's name: its own in the spec, or the object's with _ for -."""
    return str(spec.get("name") or name.replace("-", "_"))


async def apply_tool(gateway: Gateway, name: str, spec: Spec) -> Applied:
    own = tool_name(name, spec)
    wanted = message_of(Path(f"Tool {name}"), {**spec, "name": own}, tool_pb2.ToolSpec)
    checked = await _register(gateway, wanted, validate_only=True)
    current = await _found(gateway.get(f"/v1/tools/{segment(own)}", tools_pb2.GetToolResponse))
    known = current.tool if current else None
    same = known is not None and known.spec == checked.tool.spec
    if same and known and not known.HasField("deprecate_time"):
        return _version(known.version, known.content_digest)
    tool = (await _register(gateway, wanted, validate_only=False)).tool
    return _version(tool.version, tool.content_digest, changed=True)


async def end_tool(gateway: Gateway, name: str, spec: Spec) -> None:
    path = f"/v1/tools/{segment(tool_name(name, spec))}/deprecate"
    await _found(gateway.post(path, {}, tools_pb2.DeprecateToolResponse))


async def apply_policy(gateway: Gateway, name: str, spec: Spec) -> Applied:
    own = str(spec.get("name") or name)
    wanted = message_of(Path(f"Policy {name}"), {**spec, "name": own}, policy_pb2.PolicySpec)
    checked = await _create_policy(gateway, wanted, validate_only=True)
    current = await _found(
        gateway.get(f"/v1/policies/{segment(own)}", policy_service_pb2.GetPolicyResponse)
    )
    # The registry answers with the weights of a preset filled in, which are the same policy.
    if current and checked.policy.spec == current.policy.spec:
        return _version(current.policy.version, current.policy.content_digest)
    if current and not checked.created:
        if current.policy.version != checked.policy.version:
            raise Superseded(own, checked.policy.version, current.policy.version)
        return _version(current.policy.version, current.policy.content_digest)
    policy = (await _create_policy(gateway, wanted, validate_only=False)).policy
    return _version(policy.version, policy.content_digest, changed=True)


async def apply_price_list(gateway: Gateway, name: str, spec: Spec) -> Applied:
    """Adds the prices that do not hold yet: all of them, or none."""
    specs = [
        message_of(Path(f"PriceList {name}: prices[{number}]"), each, prices_pb2.PriceSpec)
        for number, each in enumerate(spec["prices"])
    ]
    reply = await _create_prices(gateway, specs, validate_only=True)
    new = [
        each
        for each, difference in zip(specs, reply.differences, strict=True)
        if difference.change != prices_pb2.PRICE_CHANGE_UNCHANGED
    ]
    if new:
        await _create_prices(gateway, new, validate_only=False)
    return Applied({"prices": len(specs)}, changed=bool(new))


async def apply_budget(gateway: Gateway, name: str, spec: Spec) -> Applied:
    own = str(spec.get("id") or name)
    wanted = message_of(Path(f"Budget {name}"), {**spec, "id": own}, budgets_pb2.Budget)
    path = f"/v1/budgets/{segment(own)}"
    found = await _found(gateway.get(path, budgets_pb2.GetBudgetResponse))
    if found is None:
        request = budgets_pb2.CreateBudgetRequest(budget=wanted)
        made = await gateway.post("/v1/budgets", request, budgets_pb2.CreateBudgetResponse)
        return _of_budget(made.budget, changed=True)
    known = found.status.budget
    different = [
        each
        for each in ("hard_limit", "soft_limits", "soft_limit_shares")
        if _comparable(wanted, each) != _comparable(known, each)
    ]
    if not different:
        return _of_budget(known)
    update = budgets_pb2.UpdateBudgetRequest(
        id=own,
        version=known.version,
        update_mask=FieldMask(paths=different),
        hard_limit=wanted.hard_limit,
        soft_limits=wanted.soft_limits,
        soft_limit_shares=wanted.soft_limit_shares,
    )
    changed = await gateway.patch(path, update, budgets_pb2.UpdateBudgetResponse)
    return _of_budget(changed.budget, changed=True)


async def end_budget(gateway: Gateway, name: str, spec: Spec) -> None:
    path = f"/v1/budgets/{segment(str(spec.get('id') or name))}/close"
    await _found(gateway.post(path, {}, budgets_pb2.CloseBudgetResponse))


# Policies and prices have no end: what was decided and paid by them stays explainable.
KINDS = (
    Kind("tools", apply_tool, end_tool),
    Kind("policies", apply_policy),
    Kind("pricelists", apply_price_list),
    Kind("budgets", apply_budget, end_budget),
)


async def _register(
    gateway: Gateway, spec: tool_pb2.ToolSpec, *, validate_only: bool
) -> tools_pb2.RegisterToolResponse:
    request = tools_pb2.RegisterToolRequest(spec=spec, validate_only=validate_only)
    return await gateway.post("/v1/tools", request, tools_pb2.RegisterToolResponse)


async def _create_policy(
    gateway: Gateway, spec: policy_pb2.PolicySpec, *, validate_only: bool
) -> policy_service_pb2.CreatePolicyResponse:
    request = policy_service_pb2.CreatePolicyRequest(spec=spec, validate_only=validate_only)
    return await gateway.post("/v1/policies", request, policy_service_pb2.CreatePolicyResponse)


async def _create_prices(
    gateway: Gateway, specs: Sequence[prices_pb2.PriceSpec], *, validate_only: bool
) -> prices_pb2.CreatePricesResponse:
    request = prices_pb2.CreatePricesRequest(specs=specs, validate_only=validate_only)
    return await gateway.post("/v1/prices", request, prices_pb2.CreatePricesResponse)


async def _found(reply: Awaitable[Any]) -> Any:
    try:
        return await reply
    except Rejected as rejected:
        if rejected.reason.endswith(GONE):
            return None
        raise


def _version(version: int, digest: str, *, changed: bool = False) -> Applied:
    return Applied({"version": version, "digest": digest}, changed)


def _of_budget(budget: budgets_pb2.Budget, *, changed: bool = False) -> Applied:
    status = {"version": budget.version, "closed": budget.HasField("close_time")}
    return Applied(status, changed)


def _comparable(budget: budgets_pb2.Budget, name: str) -> object:
    """A limit as a number, since 5 and 5.00 are one amount."""
    if name == "soft_limit_shares":
        return list(budget.soft_limit_shares)
    amounts = [budget.hard_limit] if name == "hard_limit" else list(budget.soft_limits)
    return [(Decimal(each.amount), each.currency_code) for each in amounts]
