import asyncio
import json
import random
from collections.abc import Sequence

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from builders.corpus_documents import make_document, make_pdf
from callers import make_identity
from podium_kit.helper_processes import Helpers
from podium_kit.rpc.identity import Scope, acting_as
from tool_adapters.corpus import index_builder, passages, service
from tool_adapters.corpus.errors import CorpusFull, InvalidSearch
from tool_adapters.corpus.limits import WORDS_MAX
from tool_adapters.corpus.models import Document, MediaType
from tool_adapters.corpus.service import INDEXED_HERE_CHARACTERS_MAX, Corpora
from tool_adapters.corpus.store import PostgresCorpusStore

QUOTA = 400_000


def random_words(characters: int, seed: int = 7) -> str:
    """Every word is different: the most that an index can cost."""
    letters = random.Random(seed)
    return " ".join(
        "".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=9)) for _ in range(characters // 10)
    )


async def put(
    corpora: Corpora, documents: Sequence[Document], tenant: str = "evil", name: str = "big"
) -> None:
    with acting_as(make_identity(tenant, scopes=[Scope.TENANT_ADMIN])):
        await corpora.put(name, documents, shared=False)


async def test_a_large_corpus_is_indexed_once_by_a_process_that_a_search_may_give_up(
    corpora: Corpora, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[str] = []
    run = Helpers.run

    async def counted(helpers: Helpers, tenant: str, data: bytes) -> bytes | None:
        runs.append(tenant)
        return await run(helpers, tenant, data)

    monkeypatch.setattr(Helpers, "run", counted)
    text = random_words(2 * INDEXED_HERE_CHARACTERS_MAX)
    await put(corpora, [make_document(text, id="words")])
    searches = [
        asyncio.create_task(corpora.search("evil", "big", text.split()[at])) for at in range(5)
    ]
    while not runs:
        await asyncio.sleep(0.01)
    searches[0].cancel()
    found = await asyncio.gather(*searches[1:])
    assert all(found)
    assert (await corpora.search("evil", "big", text.split()[9]))[0].passage.document_id == "words"
    assert runs == ["evil"]


async def test_another_tenants_corpus_does_not_wait_for_it(
    corpora: Corpora, monkeypatch: pytest.MonkeyPatch
) -> None:
    never, begun = asyncio.Event(), asyncio.Event()

    async def stuck(_: Helpers, tenant: str, data: bytes) -> bytes | None:
        begun.set()
        await never.wait()
        return None

    await put(corpora, [make_document(random_words(2 * INDEXED_HERE_CHARACTERS_MAX), id="words")])
    await put(corpora, [make_document("27 days of leave", id="leave")], "bank", "handbook")
    monkeypatch.setattr(Helpers, "run", stuck)
    flood = asyncio.create_task(corpora.search("evil", "big", "anything"))
    await begun.wait()
    assert await corpora.search("bank", "handbook", "leave")
    assert not flood.done()
    never.set()
    with pytest.raises(InvalidSearch, match="split it into smaller ones"):
        await flood


@pytest.mark.parametrize("bound", ["time", "words"])
async def test_what_takes_too_much_says_so(
    corpora: Corpora, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    if bound == "time":
        hurried = Helpers(
            index_builder.__name__, count=1, per_tenant=1, time_max_s=0.0, output_bytes_max=1
        )
        monkeypatch.setattr(service, "INDEXERS", hurried)
    await put(corpora, [make_document(random_words(2 * INDEXED_HERE_CHARACTERS_MAX), id="words")])
    if bound == "words":
        # In the process itself, where nothing can be replaced: its input is.
        words = [f"w{number}x" for number in range(WORDS_MAX + 1)]
        texts = json.dumps({"texts": [" ".join(words)]}).encode()
        assert await service.INDEXERS.run("evil", texts) is None
        return
    with pytest.raises(InvalidSearch, match="takes too long or too much memory"):
        await corpora.search("evil", "big", "anything")


async def test_a_tenants_corpora_have_a_quota_together(engine: AsyncEngine) -> None:
    corpora = Corpora(PostgresCorpusStore(engine, QUOTA))

    def part(number: int, share: float) -> Document:
        return make_document(random_words(int(QUOTA * share), number), id=f"d{number}")

    await put(corpora, [part(1, 0.4)], name="one")
    await put(corpora, [part(2, 0.4)], name="two")
    for name in ("one", "three"):
        with pytest.raises(CorpusFull, match="TOOL_ADAPTERS_CORPORA_BYTES_PER_TENANT"):
            await put(corpora, [part(3, 0.4)], name=name)
    with acting_as(make_identity("evil", scopes=[Scope.TENANT_ADMIN])):
        listed = await corpora.list_corpora(("", ""), 10)
    assert [each.key.name for each in listed] == ["one", "two"]
    # Another tenant's is its own, a change that is no larger fits, and room can be made.
    await put(corpora, [part(3, 0.9)], "bank")
    await put(corpora, [make_document(random_words(int(QUOTA * 0.4), 9), id="d1")], name="one")
    with acting_as(make_identity("evil", scopes=[Scope.TENANT_ADMIN])):
        await corpora.delete("two", ["d2"])
    await put(corpora, [part(3, 0.4)], name="three")


async def test_puts_at_once_do_not_pass_the_quota_together(engine: AsyncEngine) -> None:
    corpora = Corpora(PostgresCorpusStore(engine, QUOTA))
    puts = [
        put(
            corpora,
            [make_document(random_words(int(QUOTA * 0.4), number), id="d")],
            name=f"c{number}",
        )
        for number in range(6)
    ]
    ended = await asyncio.gather(*puts, return_exceptions=True)
    assert sum(each is None for each in ended) == 2
    assert all(isinstance(each, CorpusFull) for each in ended if each is not None)


async def test_one_tenant_reads_a_pdf_at_a_time(corpora: Corpora) -> None:
    document = make_document("", MediaType.PDF, id="p", data=make_pdf("Leave is 27 days."))
    puts = [
        asyncio.create_task(put(corpora, [document], tenant, f"c{number}"))
        for number, tenant in enumerate(("evil", "evil", "evil", "evil", "bank"))
    ]
    most = 0
    while not all(each.done() for each in puts):
        most = max(most, passages.READERS._places._held["evil"])
        await asyncio.sleep(0.005)
    await asyncio.gather(*puts)
    assert most == 1
