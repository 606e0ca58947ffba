from collections.abc import Callable

import grpc
import pytest
from google.protobuf.message import Message

from builders.corpus_documents import make_pdf
from callers import make_identity
from podium.adapters.v1 import corpus_service_pb2 as pb
from podium.adapters.v1 import corpus_service_pb2_grpc as rpc
from podium_kit.rpc.identity import Identity, Scope
from tool_adapters.corpus import store as corpus_store

Client = Callable[[Identity], "rpc.CorpusServiceAsyncStub"]

ADA = make_identity("acme")
BOB = make_identity("globex", "bob")
RUNNER = make_identity("acme", "worker", [Scope.EPISODES_RUN])
PLATFORM = make_identity("podium", "root", [Scope.PLATFORM_ADMIN])


def make_document(
    id: str = "leave",
    title: str = "Leave",
    content: str = "Every employee has 27 days of leave.",
    media_type: str = "",
    uri: str = "handbook://leave",
) -> pb.Document:
    return pb.Document(id=id, title=title, content=content, media_type=media_type, uri=uri)


def put_request(*documents: pb.Document, shared: bool = False) -> pb.PutDocumentsRequest:
    return pb.PutDocumentsRequest(corpus="handbook", documents=documents, shared=shared)


async def search(client: Client, identity: Identity, query: str) -> list[pb.Hit]:
    request = pb.SearchRequest(corpus="handbook", query=query)
    return list((await client(identity).Search(request)).hits)


async def test_stored_document_is_found_with_its_citation(client: Client) -> None:
    await client(ADA).PutDocuments(
        put_request(make_document(), make_document("travel", "Travel", "Trains before planes."))
    )
    hits = await search(client, RUNNER, "How many days of leave?")
    assert [(hit.document_id, hit.title, hit.uri) for hit in hits] == [
        ("leave", "Leave", "handbook://leave")
    ]
    assert hits[0].passage == "Every employee has 27 days of leave."
    assert hits[0].score > 0


async def test_same_document_again_changes_nothing(client: Client) -> None:
    await client(ADA).PutDocuments(put_request(make_document()))
    again = await client(ADA).PutDocuments(put_request(make_document()))
    assert (again.changed_count, again.passage_count) == (0, 1)


async def test_changed_document_is_found_by_its_new_words_only(client: Client) -> None:
    await client(ADA).PutDocuments(put_request(make_document()))
    assert await search(client, ADA, "days")
    await client(ADA).PutDocuments(put_request(make_document(content="Ask your manager.")))
    assert await search(client, ADA, "days") == []
    assert len(await search(client, ADA, "manager")) == 1


async def test_deleted_document_is_not_found(client: Client) -> None:
    await client(ADA).PutDocuments(put_request(make_document()))
    request = pb.DeleteDocumentsRequest(corpus="handbook", ids=["leave", "unknown"])
    assert (await client(ADA).DeleteDocuments(request)).deleted_count == 1
    assert await search(client, ADA, "leave") == []


async def test_long_document_is_found_by_passage(client: Client) -> None:
    filler = "\n\n".join(f"Paragraph {number} about nothing. " * 20 for number in range(10))
    content = f"{filler}\n\nThe vault opens with cobalt."
    await client(ADA).PutDocuments(put_request(make_document(content=content)))
    hits = await search(client, ADA, "cobalt vault")
    assert "cobalt" in hits[0].passage
    assert len(hits[0].passage) <= 1200


async def test_html_is_searched_as_text(client: Client) -> None:
    content = "<h1>Pay</h1><script>var secretword</script><p>Paid on the 25th.</p>"
    await client(ADA).PutDocuments(
        put_request(make_document(content=content, media_type="text/html"))
    )
    hit = (await search(client, ADA, "paid"))[0]
    assert (hit.section, hit.passage) == ("Pay", "Paid on the 25th.")
    assert await search(client, ADA, "secretword") == []


async def test_other_tenant_neither_finds_nor_lists_a_corpus(client: Client) -> None:
    await client(ADA).PutDocuments(put_request(make_document()))
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await search(client, BOB, "leave")
    assert error.value.code() is grpc.StatusCode.NOT_FOUND
    assert list((await client(BOB).ListCorpora(pb.ListCorporaRequest())).corpora) == []


@pytest.mark.parametrize(
    ("rpc_name", "request_"),
    [
        ("Search", pb.SearchRequest(corpus="handbook", query="leave")),
        ("ListDocuments", pb.ListDocumentsRequest(corpus="handbook")),
        ("DeleteDocuments", pb.DeleteDocumentsRequest(corpus="handbook", ids=["leave"])),
        ("DeleteCorpus", pb.DeleteCorpusRequest(corpus="handbook")),
    ],
)
async def test_a_corpus_does_not_exist_for_another_tenant_whatever_it_asks(
    client: Client, rpc_name: str, request_: Message
) -> None:
    await client(ADA).PutDocuments(put_request(make_document()))
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await getattr(client(BOB), rpc_name)(request_)
    assert error.value.code() is grpc.StatusCode.NOT_FOUND
    assert len(await search(client, ADA, "leave")) == 1


async def test_a_document_of_the_same_name_replaces_nothing_of_another_tenant(
    client: Client,
) -> None:
    await client(ADA).PutDocuments(put_request(make_document()))
    await client(BOB).PutDocuments(put_request(make_document(content="Bob's own.")))
    await client(BOB).DeleteCorpus(pb.DeleteCorpusRequest(corpus="handbook"))
    assert len(await search(client, ADA, "leave")) == 1


async def test_a_pdf_is_found_with_its_page(client: Client) -> None:
    data = make_pdf("Leave is 27 days.", "Salaries come on the 25th.")
    document = pb.Document(id="handbook.pdf", media_type="application/pdf", data=data)
    await client(ADA).PutDocuments(put_request(document))
    (hit,) = await search(client, ADA, "salary")
    assert (hit.document_id, hit.page, hit.passage) == (
        "handbook.pdf",
        2,
        "Salaries come on the 25th.",
    )


async def test_a_pdf_that_cannot_be_read_is_named_and_nothing_is_stored(client: Client) -> None:
    bad = pb.Document(id="bad.pdf", media_type="application/pdf", data=b"%PDF-1.4 no")
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await client(ADA).PutDocuments(put_request(make_document(), bad))
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "'bad.pdf' is no PDF" in (error.value.details() or "")
    assert list((await client(ADA).ListCorpora(pb.ListCorporaRequest())).corpora) == []


async def test_hits_of_markdown_carry_section_and_characters(client: Client) -> None:
    content = "# Handbook\n\n## Leave\n\n27 days a year.\n"
    await client(ADA).PutDocuments(
        put_request(make_document(content=content, media_type="text/markdown"))
    )
    (hit,) = await search(client, ADA, "days")
    assert hit.section == "Handbook > Leave"
    assert content[hit.start : hit.end] == hit.passage == "27 days a year."


async def test_documents_are_listed_page_by_page(client: Client) -> None:
    documents = [make_document(name) for name in ("c", "a", "b")]
    await client(ADA).PutDocuments(put_request(*documents))
    first = await client(RUNNER).ListDocuments(
        pb.ListDocumentsRequest(corpus="handbook", page_size=2)
    )
    second = await client(RUNNER).ListDocuments(
        pb.ListDocumentsRequest(corpus="handbook", page_token=first.next_page_token)
    )
    assert [document.id for document in [*first.documents, *second.documents]] == ["a", "b", "c"]
    assert (first.documents[0].passage_count, first.documents[0].media_type) == (1, "text/plain")
    assert second.next_page_token == ""


async def test_a_deleted_corpus_is_not_found(client: Client) -> None:
    await client(ADA).PutDocuments(put_request(make_document()))
    request = pb.DeleteCorpusRequest(corpus="handbook")
    assert (await client(ADA).DeleteCorpus(request)).deleted_count == 1
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await search(client, ADA, "leave")
    assert error.value.code() is grpc.StatusCode.NOT_FOUND
    # A new corpus of the name starts from nothing, also in the index.
    await client(ADA).PutDocuments(put_request(make_document(content="Anew.")))
    assert await search(client, ADA, "days") == []


async def test_a_full_corpus_takes_no_more(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_store, "DOCUMENTS_PER_CORPUS_MAX", 2)
    await client(ADA).PutDocuments(put_request(make_document("a"), make_document("b")))
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await client(ADA).PutDocuments(put_request(make_document("c")))
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "more than 2 documents" in (error.value.details() or "")
    (corpus,) = (await client(ADA).ListCorpora(pb.ListCorporaRequest())).corpora
    assert corpus.document_count == 2


async def test_shared_corpus_is_found_by_every_tenant(client: Client) -> None:
    await client(PLATFORM).PutDocuments(put_request(make_document(), shared=True))
    assert len(await search(client, ADA, "leave")) == 1
    assert len(await search(client, BOB, "leave")) == 1


async def test_own_corpus_hides_a_shared_one_of_its_name(client: Client) -> None:
    await client(PLATFORM).PutDocuments(put_request(make_document(), shared=True))
    await client(ADA).PutDocuments(put_request(make_document(content="Ten days.")))
    assert [hit.passage for hit in await search(client, ADA, "days")] == ["Ten days."]


@pytest.mark.parametrize(("identity", "shared"), [(ADA, True), (RUNNER, False)])
async def test_storing_needs_the_scope(client: Client, identity: Identity, shared: bool) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await client(identity).PutDocuments(put_request(make_document(), shared=shared))
    assert error.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_tenant_cannot_delete_from_a_shared_corpus(client: Client) -> None:
    await client(PLATFORM).PutDocuments(put_request(make_document(), shared=True))
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await client(ADA).DeleteDocuments(
            pb.DeleteDocumentsRequest(corpus="handbook", ids=["leave"])
        )
    assert error.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert len(await search(client, ADA, "leave")) == 1


async def test_corpora_are_listed_page_by_page(client: Client) -> None:
    for name in ("c", "a", "b"):
        await client(ADA).PutDocuments(
            pb.PutDocumentsRequest(corpus=name, documents=[make_document()])
        )
    first = await client(ADA).ListCorpora(pb.ListCorporaRequest(page_size=2))
    second = await client(ADA).ListCorpora(
        pb.ListCorporaRequest(page_size=2, page_token=first.next_page_token)
    )
    assert [corpus.name for corpus in [*first.corpora, *second.corpora]] == ["a", "b", "c"]
    assert second.next_page_token == ""
    assert first.corpora[0].document_count == 1


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        ([make_document(content=" ")], "is empty"),
        ([make_document(id="")], "id is empty"),
        ([make_document(media_type="image/png")], "text/markdown"),
        ([make_document(content="a\0b")], "NUL"),
        ([make_document(title="x" * 501)], "give at most 500"),
        ([make_document(uri="x" * 2001)], "give at most 2000"),
        ([make_document(), make_document()], "appears 2 times"),
    ],
)
async def test_wrong_documents_are_rejected_and_none_is_stored(
    client: Client, documents: list[pb.Document], words: str
) -> None:
    request = put_request(make_document("fine"), *documents)
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await client(ADA).PutDocuments(request)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert words in (error.value.details() or "")
    assert list((await client(ADA).ListCorpora(pb.ListCorporaRequest())).corpora) == []


@pytest.mark.parametrize(
    "request_",
    [
        pb.SearchRequest(corpus="handbook", query=" "),
        pb.SearchRequest(corpus="handbook", query="x", top_k=51),
        pb.SearchRequest(corpus="../etc", query="x"),
    ],
)
async def test_wrong_searches_are_rejected(client: Client, request_: pb.SearchRequest) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await client(ADA).Search(request_)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
