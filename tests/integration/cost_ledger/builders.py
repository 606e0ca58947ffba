from collections.abc import Mapping
from itertools import count
from typing import Any

from podium.common.v1 import money_pb2, usage_pb2
from podium.ledger.v1 import budget_service_pb2, cost_ledger_service_pb2, hold_pb2
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium_kit.metering import Dimension

GPT5 = "openai/gpt-5"
# The paper's price of GPT-5, in dollars per million tokens.
GPT5_COMPONENTS = {"input_fresh": ("1.25", "1000000"), "output_text": ("10", "1000000")}
_numbers = count()


def usd(amount: str) -> money_pb2.Money:
    return money_pb2.Money(currency_code="USD", amount=amount)


def quantities(**amounts: object) -> list[usage_pb2.Quantity]:
    return [
        usage_pb2.Quantity(dimension=_dimension(name), amount=str(amount))
        for name, amount in amounts.items()
    ]


def make_usage(request_id: str = "", **amounts: object) -> usage_pb2.Usage:
    return usage_pb2.Usage(
        quantities=quantities(**amounts),
        source=usage_pb2.USAGE_SOURCE_PROVIDER,
        provider_request_id=request_id,
    )


def make_key(episode: str = "episode-1") -> str:
    return f"{episode}/{next(_numbers)}/tool/0"


def make_reserve(key: str = "", **fields: Any) -> cost_ledger_service_pb2.ReserveRequest:
    """A call of GPT-5 with 1000 input and 1000 output tokens at most: $0.01125."""
    defaults: dict[str, Any] = {
        "key": key or make_key(),
        "subject": make_subject(),
        "sku": GPT5,
        "worst_case": quantities(input_fresh=1000, output_text=1000),
    }
    return cost_ledger_service_pb2.ReserveRequest(**defaults | fields)


def make_capture(key: str, usage: usage_pb2.Usage | None = None) -> Any:
    """The call used 1000 input and 100 output tokens: $0.00225."""
    return cost_ledger_service_pb2.CaptureRequest(
        key=key, usage=usage or make_usage(input_fresh=1000, output_text=100)
    )


def make_record(key: str = "", **fields: Any) -> cost_ledger_service_pb2.RecordRequest:
    defaults: dict[str, Any] = {
        "key": key or make_key(),
        "subject": make_subject(),
        "sku": GPT5,
        "usage": make_usage(input_fresh=1000, output_text=100),
    }
    return cost_ledger_service_pb2.RecordRequest(**defaults | fields)


def make_subject(**fields: Any) -> hold_pb2.Subject:
    defaults: dict[str, Any] = {"episode_id": "episode-1", "turn": 1, "tool": "answer"}
    return hold_pb2.Subject(**defaults | fields)


def make_price(
    sku: str = GPT5,
    components: Mapping[str, tuple[str, str]] = GPT5_COMPONENTS,
    **fields: Any,
) -> prices_pb.PriceSpec:
    return prices_pb.PriceSpec(
        sku=sku,
        currency_code=fields.pop("currency_code", "USD"),
        components=[
            prices_pb.PriceComponent(dimension=_dimension(name), unit_price=price, per=per)
            for name, (price, per) in components.items()
        ],
        **fields,
    )


def make_budget(id: str = "cap", limit: str = "1", **fields: Any) -> budget_service_pb2.Budget:
    defaults: dict[str, Any] = {
        "id": id,
        "scope": budget_service_pb2.BUDGET_SCOPE_TENANT,
        "window": budget_service_pb2.BUDGET_WINDOW_TOTAL,
        "hard_limit": usd(limit),
    }
    return budget_service_pb2.Budget(**defaults | fields)


def _dimension(name: str) -> Any:
    return usage_pb2.UsageDimension.Value(f"USAGE_DIMENSION_{Dimension(name).name}")
