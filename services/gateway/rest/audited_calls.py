import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from gateway.audit.service import AuditLog
from gateway.clients import UnaryCall, Upstreams
from gateway.rest.messages import merge_fields, method_of, new_request, to_json
from gateway.rest.routes import (
    ADAPTERS,
    BUDGETS,
    DEAD_LETTERS,
    DESCRIPTIONS,
    EVALUATIONS,
    LEDGER,
    POLICIES,
    PRICES,
    SECRETS,
    TOOLS,
    VERSIONS,
    WEBHOOKS,
    Route,
)
from podium_kit.rpc.access import access_of
from podium_kit.rpc.errors import NotFound


@dataclass(frozen=True)
class Resource:
    """The resource that an administrative RPC changes: its name in the request, and its reader."""

    # Path into the request, like "spec.name"; a list is walked through.
    named_by: str
    # The RPC that shows it, and the field of that RPC's request the name goes into.
    service: str = ""
    reader: str = ""
    field: str = ""


RESOURCES = {
    f"{TOOLS}/RegisterTool": Resource("spec.name", TOOLS, "GetTool", "name"),
    # What each was before is in the entry that made it.
    f"{TOOLS}/RegisterTools": Resource("specs.name"),
    f"{TOOLS}/DeprecateTool": Resource("name", TOOLS, "GetTool", "name"),
    f"{TOOLS}/DeleteTool": Resource("name", TOOLS, "GetTool", "name"),
    # One followed server cannot be read by itself; what was asked is in the entry.
    f"{ADAPTERS}/FollowMcpServer": Resource("server.id"),
    f"{ADAPTERS}/UnfollowMcpServer": Resource("id"),
    f"{POLICIES}/CreatePolicy": Resource("spec.name", POLICIES, "GetPolicy", "name"),
    f"{POLICIES}/ActivatePolicy": Resource("name", POLICIES, "GetPolicy", "name"),
    f"{POLICIES}/DeletePolicy": Resource("name", POLICIES, "GetPolicy", "name"),
    # A binding is what was asked; the answer shows it.
    f"{POLICIES}/BindPolicy": Resource("policy"),
    f"{POLICIES}/UnbindPolicy": Resource("policy"),
    f"{POLICIES}/RecordLearningStep": Resource("step.policy", POLICIES, "GetPolicy", "name"),
    f"{BUDGETS}/CreateBudget": Resource("budget.id", BUDGETS, "GetBudget", "id"),
    f"{BUDGETS}/UpdateBudget": Resource("id", BUDGETS, "GetBudget", "id"),
    f"{BUDGETS}/RaiseBudget": Resource("id", BUDGETS, "GetBudget", "id"),
    f"{BUDGETS}/CloseBudget": Resource("id", BUDGETS, "GetBudget", "id"),
    f"{PRICES}/CreatePrices": Resource("specs.sku", PRICES, "GetEffectivePrices", "skus"),
    # The answer shows what is gone.
    f"{PRICES}/DeletePrices": Resource("ids"),
    # The request names the entry or the call, and the answer has the correction.
    f"{LEDGER}/Adjust": Resource("key"),
    f"{LEDGER}/Settle": Resource("key"),
    # What is closed has no name but its end.
    f"{LEDGER}/ClosePeriod": Resource("end_time"),
    f"{VERSIONS}/PromoteModelVersion": Resource("name", VERSIONS, "GetModelVersion", "name"),
    f"{VERSIONS}/RollBackModelVersion": Resource("name", VERSIONS, "GetModelVersion", "name"),
    f"{EVALUATIONS}/StartLiveEvaluation": Resource("evaluation.id"),
    f"{EVALUATIONS}/StopLiveEvaluation": Resource(
        "evaluation_id", EVALUATIONS, "GetEvaluation", "evaluation_id"
    ),
    f"{DEAD_LETTERS}/RedriveDeadLetters": Resource("record_ids"),
    f"{WEBHOOKS}/PutWebhook": Resource("id"),
    f"{WEBHOOKS}/DeleteWebhook": Resource("id"),
    f"{WEBHOOKS}/ReplayWebhookDeliveries": Resource("delivery_ids"),
    # No one reads a secret; that it has a new version is in the answer.
    f"{SECRETS}/PutSecret": Resource("name"),
    f"{SECRETS}/DeleteSecret": Resource("name"),
    f"{SECRETS}/PutUserSecret": Resource("name"),
    f"{SECRETS}/DeleteUserSecret": Resource("name"),
    # A proposal cannot be read by its id; the answer shows what became of it.
    f"{DESCRIPTIONS}/ApproveProposal": Resource("id"),
    f"{DESCRIPTIONS}/RejectProposal": Resource("id"),
}


@dataclass(frozen=True)
class AuditedCalls:
    upstreams: Upstreams
    log: AuditLog

    def of(self, route: Route) -> UnaryCall:
        method, path = method_of(route), f"{route.service}/{route.rpc}"
        call = self.upstreams.unary(method)
        if not access_of(path).administrative:
            return call
        resource = RESOURCES[path]

        async def audited(request: Message) -> Message:
            # Trying something changes nothing.
            if getattr(request, "validate_only", False):
                return await call(request)
            requested = _values(request)
            names = _texts_at(requested, resource.named_by)
            before = await self._before(resource, names)
            async with self.log.change(route.rpc, ", ".join(names), requested, before) as change:
                reply = await call(request)
                change.after = _values(reply)
            return reply

        return audited

    async def _before(self, resource: Resource, names: list[str]) -> dict[str, Any] | None:
        if not resource.reader or not names:
            return None
        method = method_of(Route("GET", "", resource.service, resource.reader))
        request = new_request(method)
        repeated = request.DESCRIPTOR.fields_by_name[resource.field].is_repeated
        merge_fields(request, {resource.field: names if repeated else names[0]})
        try:
            return _values(await self.upstreams.unary(method)(request))
        except NotFound:
            return None


def _values(message: Message) -> dict[str, Any]:
    """Returns the fields that the contract allows to show."""
    shown = type(message)()
    shown.CopyFrom(message)
    for field in message.DESCRIPTOR.fields:
        if field.GetOptions().debug_redact:
            shown.ClearField(field.name)
    values: dict[str, Any] = json.loads(to_json(shown))
    return values


def _texts_at(values: Any, path: str) -> list[str]:
    """The distinct texts a dotted path leads to, in their order."""
    if isinstance(values, list):
        return list(dict.fromkeys(text for each in values for text in _texts_at(each, path)))
    if not path:
        return [values] if isinstance(values, str) and values else []
    name, _, rest = path.partition(".")
    return _texts_at(values.get(name), rest) if isinstance(values, Mapping) else []
