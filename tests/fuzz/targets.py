"""Every parser of bytes that others write, each with the errors it may answer them with.

An input either parses or raises one of those: anything else is a fault, and so is a hang.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mcp.types as mcp_types
import pydantic
from google.protobuf import json_format

from orchestrator_inference.action.parser import parse_action
from orchestrator_inference.engine.engine import ModelCall
from orchestrator_inference.engine.reply import completion_from
from orchestrator_inference.models import Constraint, EngineModel, Sampling, TurnRules
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.episodes.v1 import trajectory_pb2
from podium.registry.v1 import tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as registry_pb
from podium_cli.prices.lists import read_price_list
from podium_kit.client.errors import UserError
from podium_kit.limits.json_cost import CostlyJson
from podium_kit.metering.usage_reports import (
    anthropic_usage,
    estimated_usage,
    openai_usage,
    vllm_usage,
)
from podium_kit.models.embeddings import EmbeddingsUnavailable
from podium_kit.models.openai_embeddings import read_embeddings as embeddings_of
from podium_kit.rpc.errors import InvalidArgument
from podium_training.grpo.data.convert import episode_from_proto
from podium_training.grpo.data.episodes import Limits, Rejected
from podium_training.tasks.task import InvalidTask, Task
from tool_adapters.adapter import CallFailed
from tool_adapters.corpus import pdf_reader
from tool_adapters.corpus.errors import InvalidDocument
from tool_adapters.corpus.models import Document, MediaType, Piece
from tool_adapters.corpus.passages import pieces_of
from tool_adapters.http.client import HttpReply
from tool_adapters.llm.adapter import _outcome
from tool_adapters.llm.apis import AnthropicMessages, OpenAiChat
from tool_adapters.llm.completion import StreamedCompletion, usage_of_cut
from tool_adapters.llm.embeddings import embeddings_usage, read_embeddings
from tool_adapters.llm.stream import read_completion
from tool_adapters.mcp.convert import discovery_to_proto
from tool_adapters.mcp.discovery import Discovery, ListedTool, listed_tools
from tool_adapters.mcp.messages import read_message
from tool_registry.tools.checks import check_parameters_schema, check_tool
from tool_registry.tools.convert import new_spec_from_proto
from tool_registry.tools.convert_openapi import read_openapi

CORPUS = Path(__file__).with_name("corpus")
NOT_JSON = (ValueError, RecursionError)
BYTES_MAX = 65_536
CALL = ModelCall("k", EngineModel("m"), (), Sampling(), Constraint({}, "{}", "0"))


@dataclass(frozen=True)
class Target:
    parse: Callable[[bytes], object]
    rejects: tuple[type[Exception], ...]

    def try_(self, data: bytes) -> None:
        with suppress(*self.rejects):
            self.parse(data)


class _Arriving:
    status = 200

    def __init__(self, data: bytes, media_type: str) -> None:
        self.headers = {"content-type": media_type}
        self._data = data

    async def chunks(self) -> AsyncIterator[bytes]:
        middle = len(self._data) // 2
        for chunk in (self._data[:middle], self._data[middle:]):
            yield chunk

    async def whole(self, bytes_max: int) -> HttpReply:
        return HttpReply(self.status, self.headers, self._data)


def _engine_reply(data: bytes) -> None:
    try:
        body = json.loads(data)
    except NOT_JSON:
        return
    completion = completion_from(body, CALL, latency_s=1.0, constrained=True)
    for schema in ("", '{"type": "object"}'):
        parse_action(completion, ["calculator"], 2, TurnRules(answer_schema=schema))


def _provider(media_type: str) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        for api in (OpenAiChat(), AnthropicMessages()):
            completion = StreamedCompletion()
            arriving: Any = _Arriving(data, media_type)
            with suppress(CallFailed):
                asyncio.run(read_completion(arriving, api, completion, BYTES_MAX))
            # A call that failed is paid for as far as the report goes.
            usage = api.usage(completion.report, completion.request_id)
            usage_of_cut(usage, estimated_usage("", completion.text))
            _outcome(completion)

    return read


def _usage(data: bytes) -> None:
    try:
        report = json.loads(data)
    except NOT_JSON:
        return
    if isinstance(report, dict):
        for read in (openai_usage, anthropic_usage, vllm_usage):
            read(report, report.get("id"))


def _embeddings(data: bytes) -> None:
    _, report = read_embeddings(data, 2)
    embeddings_usage(report, ("a", "b"), "")


def _corpus_embeddings(data: bytes) -> None:
    embeddings_of(data, ("a", "b"))


def _pdf(data: bytes) -> None:
    # What its process writes is read as that.
    json.dumps(pdf_reader.measure(data))
    answer = json.loads(json.dumps(pdf_reader.read(data)))
    if "pages" in answer:
        [Piece(*page) for page in answer["pages"]]
    else:
        raise InvalidDocument("fuzz", answer["error"])


def _document(media_type: MediaType) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        document = Document("fuzz", "Title", _text(data), media_type, "")
        for piece in asyncio.run(pieces_of(document)):
            assert piece.content.strip(), "a piece of nothing"
            # Neighbours are joined, but the first is where the piece says.
            word = piece.content.split()[0]
            assert not piece.end or document.content.startswith(word, piece.start), "misplaced"

    return read


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _mcp_tools(data: bytes) -> None:
    message = read_message(b'{"jsonrpc": "2.0", "id": 1, "result": %s}' % data)
    assert isinstance(message, mcp_types.JSONRPCResponse)
    # The client of the protocol's authors reads the rest, and says what it does not understand.
    page = mcp_types.ListToolsResult.model_validate(message.result, by_name=False)
    found = [
        tool for tool in asyncio.run(listed_tools(page.tools, "t")) if isinstance(tool, ListedTool)
    ]
    discovery = Discovery("", tuple(found))
    stdio = tool_pb2.McpConnection(stdio=tool_pb2.McpStdio(server="s"))
    request = adapters_pb.DiscoverMcpToolsRequest(connection=stdio)
    for spec in discovery_to_proto(discovery, request).specs:
        check_tool(new_spec_from_proto(spec), shared=False)


def _price_list(suffix: str) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        with TemporaryDirectory(prefix="podium-fuzz-") as folder:
            path = Path(folder) / f"prices{suffix}"
            path.write_bytes(data)
            read_price_list(path)

    return read


def _trajectory(data: bytes) -> None:
    try:
        found = json_format.Parse(data, trajectory_pb2.Trajectory())
    except (json_format.ParseError, UnicodeDecodeError, RecursionError):
        return
    episode_from_proto(found, Limits(vocabulary=100))


TARGETS = {
    "engine_reply": Target(_engine_reply, (ValueError,)),
    "provider_reply": Target(_provider("application/json"), ()),
    "provider_stream": Target(_provider("text/event-stream"), ()),
    "embeddings": Target(_embeddings, (CallFailed,)),
    "pdf": Target(_pdf, (InvalidDocument,)),
    "markdown": Target(_document(MediaType.MARKDOWN), (InvalidArgument,)),
    "html": Target(_document(MediaType.HTML), (InvalidArgument,)),
    "corpus_embeddings": Target(_corpus_embeddings, (EmbeddingsUnavailable,)),
    "usage": Target(_usage, ()),
    "openapi": Target(
        lambda data: read_openapi(registry_pb.ReadOpenApiRequest(document=_text(data))),
        (InvalidArgument,),
    ),
    "json_schema": Target(lambda data: check_parameters_schema(_text(data)), (InvalidArgument,)),
    "mcp_tools": Target(_mcp_tools, (InvalidArgument, CostlyJson, pydantic.ValidationError)),
    "prices_csv": Target(_price_list(".csv"), (UserError,)),
    "prices_yaml": Target(_price_list(".yaml"), (UserError,)),
    "tasks": Target(lambda data: Task.from_json(_text(data)), (InvalidTask,)),
    "trajectory": Target(_trajectory, (Rejected,)),
}


def seeds(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]
