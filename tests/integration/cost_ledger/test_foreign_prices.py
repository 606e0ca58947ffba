import grpc
import pytest

from integration.cost_ledger.builders import GPT5, make_price, make_record, usd
from integration.cost_ledger.running_ledger import Client, RunningLedger
from podium.ledger.v1 import price_book_service_pb2 as pb
from podium_kit.rpc.identity import Scope

FREE = {"output_text": ("0", "1")}


async def create(client: Client, *specs: pb.PriceSpec) -> pb.CreatePricesResponse:
    return await client.prices.CreatePrices(pb.CreatePricesRequest(specs=specs))


@pytest.mark.parametrize(
    "spec",
    [
        make_price(GPT5, FREE),
        make_price(GPT5, FREE, tenant="acme"),
        make_price("tool/yet-without-a-price", FREE, tenant="acme"),
        make_price("own/translate", FREE, tenant="zeta"),
    ],
)
async def test_a_tenant_prices_nothing_that_is_not_its_own(
    ledger: RunningLedger, worker: Client, spec: pb.PriceSpec
) -> None:
    admin = ledger.as_("acme", Scope.TENANT_ADMIN)
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await create(admin, make_price("own/translate"), spec)
    assert rejected.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert f"{spec.sku!r} is the operator's" in (rejected.value.details() or "")
    assert "own/" in (rejected.value.details() or "")
    listed = await admin.prices.ListPrices(pb.ListPricesRequest())
    assert {price.spec.sku for price in listed.prices} == {GPT5}
    assert (await worker.ledger.Record(make_record("k"))).entry.amount == usd("0.00225")


async def test_the_same_own_sku_of_two_tenants_has_two_prices(ledger: RunningLedger) -> None:
    amounts = {"acme": "1", "zeta": "2"}
    for tenant, price in amounts.items():
        admin = ledger.as_(tenant, Scope.TENANT_ADMIN)
        spec = make_price("own/translate", {"output_text": (price, "1000")})
        (created,) = (await create(admin, spec)).prices
        # What is listed can be imported again.
        assert (await create(admin, created.spec)).created_count == 0
    for tenant, price in amounts.items():
        record = make_record("k", sku="own/translate")
        entry = (await ledger.as_(tenant).ledger.Record(record)).entry
        assert entry.amount == usd(f"0.{price}")
