from dataclasses import dataclass
from decimal import Decimal

from integration.misbehaviour.faults import Fault
from integration.tool_adapters.tool_specs import tool_limits
from integration.tools_platform.running_platform import Caller, ToolsPlatform
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.common.v1 import failure_pb2, usage_pb2
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium.ledger.v1 import hold_pb2
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium.registry.v1 import tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as registry_pb

SKU = "tool/misbehaving"
CALL_PRICE = Decimal("0.001")
UNIT_PRICES = {"CALL": f"{CALL_PRICE}", "SECOND": "0.0001", "INPUT_FRESH": "1", "OUTPUT_TEXT": "2"}
WORST_CASE = {"CALL": "1", "SECOND": "60", "INPUT_FRESH": "10000", "OUTPUT_TEXT": "10000"}


def limits_for(failure: str) -> tool_pb2.ToolLimits:
    """Only a call that is to time out gets little time: a busy machine is no finding."""
    return tool_limits(timeout_s=2 if failure == "TIMEOUT" else 30)


@dataclass(frozen=True)
class ChargedCall:
    answer: adapters_pb.InvokeResponse
    entry: hold_pb2.Entry

    def assert_failed(self, kind: str) -> None:
        found = failure_pb2.FailureKind.Name(self.answer.failure.kind)
        assert found == f"FAILURE_KIND_{kind}", self.answer
        assert self.answer.failure.message
        assert self.answer.attempts == 1
        assert self.entry.kind == hold_pb2.ENTRY_KIND_CAPTURE
        assert self.entry.usage == self._counted

    @property
    def _counted(self) -> usage_pb2.Usage:
        """The answer's usage with the call, which models do not report and the ledger adds."""
        counted = usage_pb2.Usage()
        counted.CopyFrom(self.answer.usage)
        call = usage_pb2.USAGE_DIMENSION_CALL
        if counted.quantities and call not in {each.dimension for each in counted.quantities}:
            counted.quantities.add(dimension=call, amount="1")
        return counted

    @property
    def cost(self) -> Decimal:
        assert self.entry.HasField("amount")
        return Decimal(self.entry.amount.amount)


@dataclass(frozen=True)
class ChargedCalls:
    admin: Caller
    tenant: Caller

    @classmethod
    async def through(cls, platform: ToolsPlatform) -> "ChargedCalls":
        calls = cls(await platform.admin(), await platform.tenant())
        components = [
            prices_pb.PriceComponent(dimension=_dimension(name), unit_price=price, per="1")
            for name, price in UNIT_PRICES.items()
        ]
        spec = prices_pb.PriceSpec(sku=SKU, currency_code="USD", components=components)
        await calls.admin.prices.CreatePrices(prices_pb.CreatePricesRequest(specs=[spec]))
        return calls

    async def made(
        self,
        spec: tool_pb2.ToolSpec,
        fault: Fault,
        arguments_json: str = "{}",
        *,
        closes: bool = True,
    ) -> ChargedCall:
        """One call of a tool of that fault's own: held, made, captured.

        Its episode is closed, too, unless the database that closing asks is what misbehaves.
        """
        request = registry_pb.RegisterToolRequest(spec=_priced(spec, fault), shared=True)
        tool = (await self.admin.registry.RegisterTool(request)).tool
        key = f"{tool.spec.name}/1/tool/0"
        await self._hold(key, tool.spec.name)
        answer = await self.tenant.adapters.Invoke(
            adapters_pb.InvokeRequest(
                key=key,
                episode_id=tool.spec.name,
                tool_name=tool.spec.name,
                tool_version=tool.version,
                arguments_json=arguments_json,
                model_alias=next((each.alias for each in tool.spec.connection.llm.models), ""),
            )
        )
        if closes:
            closing = adapters_pb.CloseEpisodeRequest(episode_id=tool.spec.name)
            await self.tenant.adapters.CloseEpisode(closing)
        capture = ledger_pb.CaptureRequest(key=key, usage=answer.usage)
        return ChargedCall(answer, (await self.tenant.ledger.Capture(capture)).entry)

    async def _hold(self, key: str, tool: str) -> None:
        worst_case = [
            usage_pb2.Quantity(dimension=_dimension(name), amount=most)
            for name, most in WORST_CASE.items()
        ]
        subject = hold_pb2.Subject(episode_id=tool, turn=1, tool=tool)
        request = ledger_pb.ReserveRequest(key=key, subject=subject, sku=SKU, worst_case=worst_case)
        reply = await self.tenant.ledger.Reserve(request)
        assert reply.HasField("hold"), reply.rejection.message


def _priced(spec: tool_pb2.ToolSpec, fault: Fault) -> tool_pb2.ToolSpec:
    priced = tool_pb2.ToolSpec()
    priced.CopyFrom(spec)
    priced.name = f"{spec.name}-{fault}"
    models = priced.connection.llm.models if priced.connection.HasField("llm") else ()
    # A language model's price is that of the model that answers.
    priced.sku = "" if models else SKU
    for model in models:
        model.sku = SKU
    return priced


def _dimension(name: str) -> usage_pb2.UsageDimension.ValueType:
    return usage_pb2.UsageDimension.Value(f"USAGE_DIMENSION_{name}")
