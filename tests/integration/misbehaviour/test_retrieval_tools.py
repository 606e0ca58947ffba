import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from callers import client_channel, make_identity
from embedded_servers import Databases
from integration.misbehaviour.charged_calls import CALL_PRICE, ChargedCalls
from integration.misbehaviour.database_wire import DatabaseWire, database_wire
from integration.misbehaviour.faults import DEGREES, Fault
from integration.misbehaviour.http_server import MisbehavingServer, as_json
from integration.misbehaviour.memory import bounded_memory
from integration.tool_adapters.tool_specs import ANY_OBJECT, tool_limits, tool_spec
from integration.tools_platform.running_platform import ToolsPlatform, running_platform
from podium.adapters.v1 import corpus_service_pb2 as corpus_pb
from podium.adapters.v1.corpus_service_pb2_grpc import CorpusServiceStub
from podium.registry.v1 import tool_pb2
from podium_kit.rpc.identity import Scope

PASSAGE = "Every employee has 27 days of leave."
QUESTION = json.dumps({"query": "days of leave"})
# What the search is promised to give, and how large at most, in bytes.
EXPECTED: dict[Fault, tuple[str, dict[str, Any]]] = {
    Fault.WRONG_SCHEMA: ("MALFORMED_OUTPUT", {"result_json_schema": DEGREES}),
    Fault.HUNDRED_MEGABYTES: ("OUTPUT_TOO_LARGE", {"limits": tool_limits(output_bytes=10)}),
    Fault.HALF: ("UNAVAILABLE", {}),
    Fault.RESET: ("UNAVAILABLE", {}),
    Fault.HANG: ("TIMEOUT", {"limits": tool_limits(timeout_s=1)}),
}
OF_THE_DATABASE = {Fault.HALF, Fault.RESET, Fault.HANG}
CANNOT = {
    Fault.PACKED: "rows are not packed",
    Fault.NOT_JSON: "passages are rows of ours, and JSON is made of them here",
    Fault.BINARY: "the database takes text for text only",
}


@dataclass(frozen=True)
class Search:
    calls: ChargedCalls
    wire: DatabaseWire
    embeddings: MisbehavingServer

    def spec(self, **fields: Any) -> tool_pb2.ToolSpec:
        connection = tool_pb2.RetrievalConnection(corpus="handbook")
        given = {"connection": tool_pb2.Connection(retrieval=connection)} | fields
        return tool_spec("search", "RETRIEVAL", ANY_OBJECT, **given)


@pytest_asyncio.fixture(scope="module")
async def search(
    databases: Databases, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Search]:
    folder = tmp_path_factory.mktemp("search")
    async with (
        database_wire(await databases.create("tool_adapters")) as wire,
        MisbehavingServer(None, b'{"data": "none"}', well=_vectors) as embeddings,
        running_platform(
            databases.create,
            folder,
            database_url=wire.database_url,
            embeddings={"base_url": f"{embeddings.url}/v1", "model": "tiny"},
        ) as platform,
    ):
        calls = await ChargedCalls.through(platform)
        await _put_handbook(platform)
        yield Search(calls, wire, embeddings)


def test_all_faults_are_there() -> None:
    assert EXPECTED.keys() | CANNOT.keys() == set(Fault)


@pytest.mark.parametrize("fault", EXPECTED)
async def test_a_bad_answer_is_a_typed_failure_and_a_paid_call(
    search: Search, fault: Fault
) -> None:
    failure, fields = EXPECTED[fault]
    search.wire.fault = fault if fault in OF_THE_DATABASE else None
    call = await search.calls.made(search.spec(**fields), fault, QUESTION, closes=False)
    search.wire.fault = None
    call.assert_failed(failure)
    assert call.cost == CALL_PRICE


@pytest.mark.parametrize("fault", Fault)
async def test_without_a_vector_of_the_question_its_words_are_searched(
    search: Search, fault: Fault
) -> None:
    search.embeddings.fault = fault
    spec = search.spec()
    spec.name = "by-words"
    with bounded_memory():
        call = await search.calls.made(spec, fault, QUESTION)
    search.embeddings.fault = None
    assert PASSAGE in call.answer.output.content
    assert call.cost == CALL_PRICE


async def _put_handbook(platform: ToolsPlatform) -> None:
    admin = make_identity("platform", scopes=[Scope.PLATFORM_ADMIN])
    document = corpus_pb.Document(id="leave", title="Leave", content=PASSAGE)
    request = corpus_pb.PutDocumentsRequest(corpus="handbook", documents=[document], shared=True)
    async with client_channel(platform.ports.adapters, admin, platform.keys) as channel:
        await CorpusServiceStub(channel).PutDocuments(request)


async def _vectors(request: web.Request, fault: Fault | None) -> web.Response | None:
    if fault is not None:
        return None
    texts = (await request.json())["input"]
    items = [{"index": number, "embedding": [1.0, 0.0]} for number in range(len(texts))]
    return as_json(json.dumps({"data": items}).encode())
