import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import grpc
import pytest
import pytest_asyncio
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from callers import client_channel, make_identity
from embedded_servers import Database
from integration.corpus.embeddings_server import EmbeddingsServer, running_embeddings
from integration.tools_platform.running_platform import ToolsPlatform, running_platform
from podium.adapters.v1 import corpus_service_pb2 as corpus_pb
from podium.adapters.v1.corpus_service_pb2_grpc import CorpusServiceStub
from podium.common.v1 import money_pb2, usage_pb2
from podium.ledger.v1 import budget_service_pb2 as budget_pb
from podium.ledger.v1 import cost_ledger_service_pb2 as ledger_pb
from podium.ledger.v1 import hold_pb2
from podium.ledger.v1 import price_book_service_pb2 as prices_pb
from podium.ledger.v1.budget_service_pb2_grpc import BudgetServiceStub
from podium_kit.postgres.engine import transaction
from podium_kit.rpc.identity import Scope
from tool_adapters.config import EmbeddingsSettings

SKU = "embeddings/tiny"
OWE = text(
    """
    INSERT INTO adapter_costs (key, tenant, subject, tool, sku, usage, create_time)
    SELECT 'embeddings/' || gen_random_uuid(), :tenant, 'eve', 'corpus x', :sku, '\\x1001'::bytea,
           now() - interval '1 minute'
    FROM generate_series(1, :count)
    """
)
LEFT = text("SELECT rejection FROM adapter_costs WHERE tenant = 'poison'")
COSTS = (hold_pb2.ENTRY_KIND_CAPTURE, hold_pb2.ENTRY_KIND_RECORD)
USED = {"prompt_tokens": 9, "total_tokens": 9}


@pytest_asyncio.fixture
async def server() -> AsyncIterator[EmbeddingsServer]:
    async with running_embeddings() as server:
        server.usage = USED
        yield server


@pytest_asyncio.fixture
async def platform(
    database: Database, tmp_path: Path, server: EmbeddingsServer
) -> AsyncIterator[ToolsPlatform]:
    embeddings = EmbeddingsSettings(base_url=server.base_url, model="tiny")
    async with running_platform(database, tmp_path, embeddings=embeddings) as running:
        yield running


async def test_indexing_and_searching_are_charged_at_the_list_price(
    platform: ToolsPlatform,
) -> None:
    await _set_price(platform)
    await _put(platform)
    await _search(platform)
    indexing, searching = await _entries(platform, 2)
    for entry in (indexing, searching):
        assert (entry.sku, Decimal(entry.amount.amount)) == (SKU, Decimal("0.009"))
        assert (entry.subject.tool, entry.subject.user) == ("corpus handbook", "ada")
    # What is indexed already is not embedded, nor charged, again.
    await _put(platform)
    await _search(platform)
    assert len(await _entries(platform, 3)) == 3


async def test_documents_that_are_sent_again_are_charged_for_what_was_missing(
    platform: ToolsPlatform, server: EmbeddingsServer
) -> None:
    await _set_price(platform)
    passages = [f"Passage {n} is of its own." for n in range(100)]
    # The endpoint dies in the middle: what it gave until then is kept.
    server.answers_max = 1
    with pytest.raises(grpc.aio.AioRpcError):
        await _put(platform, *passages)
    server.answers_max = None
    await _put(platform, *passages)
    assert server.billed == [64, 36]
    # And dropped once the documents are stored.
    await _put(platform, "Another.")
    await _put(platform, *passages[:1])
    assert server.billed == [64, 36, 1, 1]
    entries = await _entries(platform, 4)
    assert [Decimal(entry.amount.amount) for entry in entries] == [Decimal("0.009")] * 4


async def test_documents_that_are_sent_twice_at_once_are_charged_once(
    platform: ToolsPlatform, server: EmbeddingsServer
) -> None:
    await _set_price(platform)
    await asyncio.gather(*(_put(platform) for _ in range(3)))
    assert server.billed == [1]
    await _search(platform)
    assert len(await _entries(platform, 2)) == 2


async def test_an_unknown_price_is_unknown_and_not_nothing(platform: ToolsPlatform) -> None:
    await _put(platform)
    [entry] = await _entries(platform, 1)
    assert entry.sku == SKU and not entry.HasField("amount")
    assert [quantity.amount for quantity in entry.usage.quantities] == ["9"]


async def test_what_an_endpoint_that_breaks_off_used_counts_as_its_worst_case(
    platform: ToolsPlatform, server: EmbeddingsServer
) -> None:
    await _set_price(platform)
    server.breaks_off = True
    with pytest.raises(grpc.aio.AioRpcError):
        await _put(platform)
    # The channel tries again by itself, and so the endpoint is asked again.
    for entry in await _entries(platform, 1):
        # Counted against budgets as an estimate until the cost is known.
        assert entry.usage.source == usage_pb2.USAGE_SOURCE_ESTIMATED
        assert "provisional" in {posting.account for posting in entry.postings}


async def test_an_endpoint_that_rejects_costs_nothing(
    platform: ToolsPlatform, server: EmbeddingsServer
) -> None:
    await _set_price(platform)
    server.status = 401
    with pytest.raises(grpc.aio.AioRpcError):
        await _put(platform)
    server.status = 200
    await _put(platform)
    assert len(await _entries(platform, 1)) == 1


async def test_what_the_budgets_do_not_cover_is_not_bought(
    platform: ToolsPlatform, server: EmbeddingsServer
) -> None:
    await _set_price(platform)
    await _put(platform)
    await _limit(platform, "0.010")
    with pytest.raises(grpc.aio.AioRpcError, match=r"budget everyday has .* left") as rejected:
        await _put(platform, "Something else.")
    assert rejected.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    # Words cost nothing, and are searched all the same.
    await _search(platform, "holiday")
    assert server.billed == [1]


async def test_what_is_not_bought_leaves_no_hold(
    platform: ToolsPlatform, server: EmbeddingsServer
) -> None:
    await _set_price(platform)
    await _limit(platform, "1")
    server.status = 401
    with pytest.raises(grpc.aio.AioRpcError):
        await _put(platform)
    await _released(platform, len(server.requests))
    server.status = 200
    await _put(platform)
    [entry] = await _entries(platform, 1)
    assert Decimal(entry.amount.amount) == Decimal("0.009")


async def test_costs_that_the_ledger_rejects_keep_no_other_waiting(
    platform: ToolsPlatform,
) -> None:
    await _set_price(platform)
    engine = create_async_engine(platform.adapters_settings.database_url)
    async with transaction(engine) as connection:
        await connection.execute(OWE, {"tenant": "poison", "sku": "no-vectors", "count": 700})
        await connection.execute(OWE, {"tenant": "poison", "sku": SKU, "count": 1})
    await _put(platform)
    assert len(await _entries(platform, 1)) == 1
    # Nor those of the same tenant, of which the ledger hears later.
    [entry] = await _entries(platform, 1, "poison")
    assert entry.sku == SKU
    async with engine.connect() as connection:
        left = (await connection.execute(LEFT)).scalars().all()
    await engine.dispose()
    assert len(left) == 700
    assert any("does not begin with embeddings/" in (rejection or "") for rejection in left)


async def test_the_adapters_key_records_costs_of_vectors_and_of_nothing_else(
    platform: ToolsPlatform,
) -> None:
    thief = await platform.as_adapters("acme", *Scope)
    usage = usage_pb2.Usage(source=usage_pb2.USAGE_SOURCE_MEASURED)
    subject = hold_pb2.Subject(tool="x")
    for key, sku in (("k", SKU), ("embeddings/k", "gpt"), ("", "")):
        record = ledger_pb.RecordRequest(key=key, sku=sku, usage=usage, subject=subject)
        stolen = ledger_pb.CaptureRequest(key="e/1/model/0", usage=usage)
        of_others = hold_pb2.Fallback(model="m", sku="gpt")
        reserve = ledger_pb.ReserveRequest(key="embeddings/k", sku=SKU, fallbacks=[of_others])
        for operation in (
            ledger_pb.Operation(record=record),
            ledger_pb.Operation(capture=stolen),
            ledger_pb.Operation(release=ledger_pb.ReleaseRequest(key="e/1/model/0")),
            ledger_pb.Operation(reserve=reserve),
        ):
            request = ledger_pb.ApplyEmbeddingsRequest(operations=[operation])
            with pytest.raises(grpc.aio.AioRpcError, match="does not begin with embeddings/"):
                await thief.ledger.ApplyEmbeddings(request)
    settle = ledger_pb.Operation(settle=ledger_pb.SettleRequest(key="embeddings/r"))
    with pytest.raises(grpc.aio.AioRpcError, match="settle is not for the adapters"):
        request = ledger_pb.ApplyEmbeddingsRequest(operations=[settle])
        await thief.ledger.ApplyEmbeddings(request)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await thief.ledger.Record(record)
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def _set_price(platform: ToolsPlatform) -> None:
    admin = await platform.admin()
    component = prices_pb.PriceComponent(
        dimension=usage_pb2.USAGE_DIMENSION_INPUT_FRESH, unit_price="1", per="1000"
    )
    price = prices_pb.PriceSpec(sku=SKU, currency_code="USD", components=[component])
    await admin.prices.CreatePrices(prices_pb.CreatePricesRequest(specs=[price]))


async def _limit(platform: ToolsPlatform, amount: str) -> None:
    limit = money_pb2.Money(currency_code="USD", amount=amount)
    budget = budget_pb.Budget(
        id="everyday",
        scope=budget_pb.BUDGET_SCOPE_TENANT,
        window=budget_pb.BUDGET_WINDOW_DAY,
        hard_limit=limit,
    )
    identity = make_identity("acme", scopes=[Scope.TENANT_ADMIN])
    async with client_channel(platform.ports.ledger, identity, platform.keys) as channel:
        await BudgetServiceStub(channel).CreateBudget(budget_pb.CreateBudgetRequest(budget=budget))


async def _released(platform: ToolsPlatform, count_min: int) -> None:
    tenant = await platform.as_("acme", Scope.SPEND_READ)
    released = ledger_pb.ListEntriesRequest(kinds=[hold_pb2.ENTRY_KIND_RELEASE])
    async with asyncio.timeout(60):
        while len((await tenant.ledger.ListEntries(released)).entries) < count_min:
            await asyncio.sleep(0.05)


async def _put(platform: ToolsPlatform, *contents: str) -> None:
    documents = [
        corpus_pb.Document(id="leave" if n == 0 else f"d{n}", content=content)
        for n, content in enumerate(contents or ("Everyone has 27 days of holiday.",))
    ]
    identity = make_identity("acme", scopes=[Scope.TOOLS_WRITE])
    async with client_channel(platform.ports.adapters, identity, platform.keys) as channel:
        request = corpus_pb.PutDocumentsRequest(corpus="handbook", documents=documents)
        await CorpusServiceStub(channel).PutDocuments(request)


async def _search(platform: ToolsPlatform, query: str = "vacation") -> None:
    identity = make_identity("acme", scopes=[Scope.EPISODES_RUN])
    async with client_channel(platform.ports.adapters, identity, platform.keys) as channel:
        request = corpus_pb.SearchRequest(corpus="handbook", query=query)
        [hit] = (await CorpusServiceStub(channel).Search(request)).hits
    assert hit.document_id == "leave"


async def _entries(platform: ToolsPlatform, count: int, of: str = "acme") -> list[hold_pb2.Entry]:
    tenant = await platform.as_(of, Scope.SPEND_READ)
    async with asyncio.timeout(60):
        while True:
            reply = await tenant.ledger.ListEntries(ledger_pb.ListEntriesRequest(kinds=COSTS))
            if len(reply.entries) >= count:
                return list(reply.entries)
            await asyncio.sleep(0.05)
