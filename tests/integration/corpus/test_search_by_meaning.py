from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio
from sqlalchemy.ext.asyncio import AsyncEngine

from builders.corpus_documents import make_document
from callers import make_identity
from integration.corpus.embeddings_server import EmbeddingsServer, running_embeddings
from podium_kit.metering import Quantity
from podium_kit.models.embeddings import EmbeddingsUnavailable
from podium_kit.models.openai_embeddings import OpenAiEmbeddings
from podium_kit.rpc.identity import acting_as
from tool_adapters.corpus.charging import ChargedEmbeddings
from tool_adapters.corpus.convert import stored_usage, usage_from_store
from tool_adapters.corpus.models import Document
from tool_adapters.corpus.service import Corpora
from tool_adapters.corpus.store import PostgresCorpusStore
from tool_adapters.corpus.store_bought import PostgresBoughtVectors
from tool_adapters.costs.models import AdapterCost
from tool_adapters.costs.store import PostgresPendingCosts

DOCUMENTS = [
    make_document("Everyone has 27 days of holiday.", id="leave"),
    make_document("The salary arrives on the 25th.", id="pay"),
    make_document("Take the railway where there is one.", id="travel"),
]


class Unlimited:
    async def hold(self, cost: AdapterCost, worst_case: Sequence[Quantity]) -> None:
        assert all(each.amount > 0 for each in worst_case)

    async def settle(self, tenant: str, costs: Sequence[AdapterCost]) -> None:
        raise AssertionError("nothing is sent in these tests")


@pytest_asyncio.fixture
async def server() -> AsyncIterator[EmbeddingsServer]:
    async with running_embeddings() as server:
        yield server


@pytest_asyncio.fixture
async def corpora(engine: AsyncEngine, server: EmbeddingsServer) -> AsyncIterator[Corpora]:
    embeddings = OpenAiEmbeddings(server.base_url, "tiny", "key-1")
    pending = PostgresPendingCosts(engine, stored_usage, usage_from_store)
    charged = ChargedEmbeddings(embeddings, pending, PostgresBoughtVectors(engine), Unlimited())
    yield Corpora(PostgresCorpusStore(engine), charged)
    await embeddings.close()


async def put(corpora: Corpora, documents: list[Document]) -> tuple[int, int]:
    with acting_as(make_identity("acme")):
        return await corpora.put("handbook", documents, shared=False)


async def found(corpora: Corpora, query: str) -> list[str]:
    with acting_as(make_identity("acme")):
        hits = await corpora.search("acme", "handbook", query, 3)
    return [hit.passage.document_id for hit in hits]


async def test_a_passage_without_a_word_of_the_query_is_found_by_its_meaning(
    corpora: Corpora, server: EmbeddingsServer
) -> None:
    await put(corpora, DOCUMENTS)
    assert (await found(corpora, "how much vacation?"))[0] == "leave"
    assert (await found(corpora, "wage"))[0] == "pay"
    assert server.requests == [("Bearer key-1", 3), ("Bearer key-1", 1), ("Bearer key-1", 1)]


async def test_words_and_meaning_both_count(corpora: Corpora) -> None:
    await put(corpora, DOCUMENTS)
    # "25th" stands in one passage; "vacation" means another: both come before the third.
    assert set((await found(corpora, "vacation on the 25th"))[:2]) == {"leave", "pay"}


async def test_unchanged_documents_are_not_embedded_again(
    corpora: Corpora, server: EmbeddingsServer
) -> None:
    await put(corpora, DOCUMENTS)
    assert await put(corpora, DOCUMENTS) == (0, 3)
    assert len(server.requests) == 1


async def test_many_passages_go_in_several_requests(
    corpora: Corpora, server: EmbeddingsServer
) -> None:
    await put(corpora, [make_document(f"Text {n}.", id=f"d{n}") for n in range(130)])
    assert [count for _, count in server.requests] == [64, 64, 2]


@pytest.mark.parametrize(
    ("status", "reply", "words"),
    [
        (500, None, "status 500"),
        (401, None, "status 401"),
        (200, {"data": "no list"}, "something else than vectors"),
        (200, {"data": []}, "too few"),
        (200, {"data": [{"index": 0, "embedding": [0.0, 0.0]}]}, "without a direction"),
        (200, {"data": [{"index": 0, "embedding": []}]}, "something else than vectors"),
    ],
)
async def test_without_vectors_nothing_is_stored(
    corpora: Corpora, server: EmbeddingsServer, status: int, reply: object, words: str
) -> None:
    server.status, server.reply = status, reply
    with pytest.raises(EmbeddingsUnavailable, match=words):
        await put(corpora, DOCUMENTS[:1])
    with acting_as(make_identity("acme")):
        assert await corpora.list_corpora(("", ""), 10) == []


async def test_a_search_continues_by_words_alone(
    corpora: Corpora, server: EmbeddingsServer
) -> None:
    await put(corpora, DOCUMENTS)
    server.status = 503
    assert await found(corpora, "salary") == ["pay"]


async def test_documents_stored_without_vectors_get_them_when_they_are_put_again(
    corpora: Corpora, engine: AsyncEngine
) -> None:
    await put(Corpora(PostgresCorpusStore(engine)), DOCUMENTS)
    assert await found(corpora, "vacation") == []
    assert (await put(corpora, DOCUMENTS))[0] == 3
    assert (await found(corpora, "vacation"))[0] == "leave"
