from datetime import UTC, datetime, timedelta

import grpc
import pytest

from integration.cost_ledger.builders import GPT5, make_price, make_record, make_reserve, usd
from integration.cost_ledger.running_ledger import Client, RunningLedger
from integration.cost_ledger.test_prices import DEARER, at, create, effective, listed
from podium.ledger.v1 import price_book_service_pb2 as pb
from podium_kit.rpc.identity import Scope

OWN = "own/translate"


async def delete(client: Client, *ids: str, tenant: str = "") -> list[str]:
    request = pb.DeletePricesRequest(ids=ids, tenant=tenant)
    return [price.spec.sku for price in (await client.prices.DeletePrices(request)).prices]


async def rejection(client: Client, *ids: str, tenant: str = "") -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await delete(client, *ids, tenant=tenant)
    return caught.value


async def test_a_price_that_nothing_used_is_unknown_again(ledger: RunningLedger) -> None:
    admin = ledger.admin()
    made = (await create(admin, make_price("tool/x"), make_price("tool/y"))).prices
    before = datetime.now(UTC)
    assert await delete(admin, *(price.id for price in made)) == ["tool/x", "tool/y"]
    assert await listed(admin, "tool/") == []
    # The book can still be read as it was known.
    request = pb.ListPricesRequest(sku_prefix="tool/", known_at=at(before))
    assert len((await admin.prices.ListPrices(request)).prices) == 2
    assert (await rejection(admin, made[0].id)).code() is grpc.StatusCode.NOT_FOUND
    again = await create(admin, make_price("tool/x"))
    assert again.created_count == 1


async def test_what_it_ended_holds_on_until_the_next(ledger: RunningLedger) -> None:
    admin, now = ledger.admin(), datetime.now(UTC)
    first = await effective(admin)
    soon, later = now + timedelta(days=1), now + timedelta(days=9)
    wrong, right = [
        (await create(admin, make_price(components=DEARER, start_time=at(moment)))).prices[0]
        for moment in (soon, later)
    ]
    assert await delete(admin, wrong.id) == [GPT5]
    assert (await effective(admin, soon + timedelta(hours=1))).id == first.id
    assert (await effective(admin, later + timedelta(hours=1))).id == right.id


async def test_what_a_call_was_charged_or_held_by_stays(
    ledger: RunningLedger, worker: Client
) -> None:
    admin = ledger.admin()
    free = (await create(admin, make_price("tool/x"))).prices[0]
    await worker.ledger.Reserve(make_reserve("held"))
    used = await effective(admin)
    error = await rejection(admin, free.id, used.id)
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert f"the price {used.id} of {GPT5} was used" in str(error.details())
    assert "corrects_price_id" in str(error.details())
    # All or none.
    assert [price.id for price in await listed(admin, "tool/")] == [free.id]
    assert (await worker.ledger.Record(make_record("k"))).entry.amount == usd("0.00225")


async def test_a_use_by_any_tenant_counts(ledger: RunningLedger) -> None:
    await ledger.as_("zeta").ledger.Record(make_record("k"))
    used = await effective(ledger.admin())
    assert "was used" in str((await rejection(ledger.admin(), used.id)).details())


async def test_a_tenant_deletes_its_own_prices_alone(ledger: RunningLedger) -> None:
    acme, zeta = (ledger.as_(name, Scope.TENANT_ADMIN) for name in ("acme", "zeta"))
    own = (await create(acme, make_price(OWN))).prices[0]
    everyones = await effective(acme)
    denied = grpc.StatusCode.PERMISSION_DENIED
    assert (await rejection(acme, everyones.id)).code() is denied
    assert (await rejection(zeta, own.id)).code() is grpc.StatusCode.NOT_FOUND
    assert (await rejection(zeta, own.id, tenant="acme")).code() is denied
    assert await delete(acme, own.id) == [OWN]


async def test_a_platforms_admin_names_the_tenant_that_pays(ledger: RunningLedger) -> None:
    admin = ledger.admin()
    own = (await create(admin, make_price(GPT5, DEARER, tenant="zeta"))).prices[0]
    assert (await rejection(admin, own.id)).code() is grpc.StatusCode.NOT_FOUND
    assert await delete(admin, own.id, tenant="zeta") == [GPT5]
