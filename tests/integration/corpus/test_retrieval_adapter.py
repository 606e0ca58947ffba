import json

from builders.tool_calls import tool_call, tool_definition
from callers import make_identity
from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.rpc.identity import acting_as
from podium_kit.tool_kinds import RETRIEVAL
from tool_adapters.adapter import Output, ToolCall
from tool_adapters.corpus.models import Document, MediaType
from tool_adapters.corpus.service import Corpora
from tool_adapters.models import (
    JsonObject,
    RetrievalConnection,
    ToolDefinition,
)
from tool_adapters.retrieval.adapter import RetrievalAdapter


def make_tool(corpus: str = "handbook", default_top_k: int = 2) -> ToolDefinition:
    return tool_definition("search_corpus", RETRIEVAL, RetrievalConnection(corpus, default_top_k))


def make_call(arguments: JsonObject, tenant: str = "acme") -> ToolCall:
    return tool_call("search_corpus", arguments, tenant)


async def put_three(corpora: Corpora) -> None:
    documents = [
        Document(name, name.title(), f"The {name} weighs 3 kg.", MediaType.PLAIN, f"lib://{name}")
        for name in ("anvil", "bucket", "crate")
    ]
    with acting_as(make_identity("acme")):
        await corpora.put("handbook", documents, shared=False)


async def test_hits_carry_title_uri_and_passage(corpora: Corpora) -> None:
    await put_three(corpora)
    result = await RetrievalAdapter(corpora).invoke(make_call({"query": "bucket"}), make_tool())
    assert isinstance(result.outcome, Output)
    assert result.outcome.content == (
        "[1] Bucket · characters 0-23 (lib://bucket)\nThe bucket weighs 3 kg."
    )
    assert json.loads(result.outcome.content_json)["hits"][0]["title"] == "Bucket"


async def test_the_tools_default_and_the_calls_limit_bound_the_hits(corpora: Corpora) -> None:
    await put_three(corpora)
    adapter = RetrievalAdapter(corpora)
    for arguments, count in (({"query": "weighs"}, 2), ({"query": "weighs", "top_k": 3}, 3)):
        result = await adapter.invoke(make_call(arguments), make_tool())
        assert isinstance(result.outcome, Output)
        assert len(json.loads(result.outcome.content_json)["hits"]) == count


async def test_an_empty_search_says_so(corpora: Corpora) -> None:
    await put_three(corpora)
    result = await RetrievalAdapter(corpora).invoke(make_call({"query": "zeppelin"}), make_tool())
    assert isinstance(result.outcome, Output)
    assert "No passage matches" in result.outcome.content


async def test_unknown_or_foreign_corpus_is_a_failure(corpora: Corpora) -> None:
    await put_three(corpora)
    adapter = RetrievalAdapter(corpora)
    calls = [
        (make_call({"query": "anvil"}), make_tool("archive")),
        (make_call({"query": "anvil"}, tenant="globex"), make_tool()),
    ]
    for call, tool in calls:
        result = await adapter.invoke(call, tool)
        assert isinstance(result.outcome, ToolFailure)
        assert result.outcome.kind is FailureKind.NOT_FOUND
