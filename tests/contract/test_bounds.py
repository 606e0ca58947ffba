import importlib
from collections.abc import Iterator

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from cost_ledger.budgets.models import ID_CHARACTERS_MAX, ROLLING_MAX_S
from cost_ledger.checks import KEY_CHARACTERS_MAX, TEXT_CHARACTERS_MAX
from podium.adapters.v1 import corpus_service_pb2
from podium.episodes.v1 import direct_call_service_pb2, episode_pb2
from podium.ledger.v1 import (
    audit_pb2,
    budget_service_pb2,
    cost_ledger_service_pb2,
    price_book_service_pb2,
)
from podium.registry.v1 import description_service_pb2, tool_pb2, tool_registry_service_pb2
from podium_kit.attachments import FILES_MAX
from podium_kit.json_schemas.checks import SCHEMA_BYTES_MAX
from podium_kit.metering.price_factors import FACTORS_MAX
from podium_kit.rpc.bounds import Bounds, bounds_of
from tool_adapters.corpus import models as documents
from tool_adapters.corpus import service as corpora
from tool_registry.ranking import search
from tool_registry.tools.openapi.document import DOCUMENT_BYTES_MAX
from unit.house.source_files import ROOT

GENERATED = ROOT / "protos" / "gen"


def of(message: Descriptor, field: str) -> Bounds:
    return bounds_of(message.fields_by_name[field])


def fields() -> Iterator[FieldDescriptor]:
    for path in GENERATED.rglob("*_pb2.py"):
        name = ".".join(path.relative_to(GENERATED).with_suffix("").parts)
        for message in importlib.import_module(name).DESCRIPTOR.message_types_by_name.values():
            yield from message.fields


def test_an_id_that_its_caller_makes_is_required() -> None:
    """A pattern says nothing of a text that is not set, and a store can make no UUID of that."""
    made = [field for field in fields() if "UUIDv7" in bounds_of(field).pattern_in_words]
    optional = {field.full_name for field in made if not bounds_of(field).required}
    # The gateway makes it.
    assert optional == {"podium.episodes.v1.StartEpisodeRequest.episode_id"}
    assert len(made) > len(optional)


def test_ledger() -> None:
    budget = budget_service_pb2.Budget.DESCRIPTOR
    assert of(budget, "id").max_characters == ID_CHARACTERS_MAX
    assert of(budget, "rolling_length").maximum == ROLLING_MAX_S
    closing = cost_ledger_service_pb2.ClosePeriodRequest.DESCRIPTOR
    assert of(closing, "key").max_characters == KEY_CHARACTERS_MAX
    price = price_book_service_pb2.PriceSpec.DESCRIPTOR
    for field in ("sku", "source", "service_class", "region"):
        assert of(price, field).max_characters == TEXT_CHARACTERS_MAX
    assert of(audit_pb2.Invoice.DESCRIPTOR, "id").max_characters == TEXT_CHARACTERS_MAX
    for field in ("provider_request_id", "sku"):
        line = of(audit_pb2.InvoiceLine.DESCRIPTOR, field)
        assert line.max_characters == TEXT_CHARACTERS_MAX


def test_corpora() -> None:
    document = corpus_service_pb2.Document.DESCRIPTOR
    assert of(document, "id").max_characters == documents.ID_CHARACTERS_MAX
    assert of(document, "content").max_characters == documents.CONTENT_CHARACTERS_MAX
    assert of(document, "data").max_bytes == documents.DATA_BYTES_MAX
    put = corpus_service_pb2.PutDocumentsRequest.DESCRIPTOR
    assert of(put, "documents").max_items == corpora.DOCUMENTS_PER_REQUEST_MAX
    asked = corpus_service_pb2.SearchRequest.DESCRIPTOR
    assert of(asked, "query").max_characters == corpora.QUERY_CHARACTERS_MAX
    assert of(asked, "top_k").maximum == corpora.TOP_K_MAX


def test_tools() -> None:
    tool, client = tool_pb2.ToolSpec.DESCRIPTOR, tool_pb2.ClientTool.DESCRIPTOR
    assert of(tool, "parameters_json_schema").max_bytes == SCHEMA_BYTES_MAX
    assert of(tool, "result_json_schema").max_bytes == SCHEMA_BYTES_MAX
    assert of(client, "parameters_json_schema").max_bytes == SCHEMA_BYTES_MAX
    read = tool_registry_service_pb2.ReadOpenApiRequest.DESCRIPTOR
    assert of(read, "document").max_bytes == DOCUMENT_BYTES_MAX
    asked = tool_registry_service_pb2.SearchToolsRequest.DESCRIPTOR
    assert of(asked, "query").max_characters == search.QUERY_CHARACTERS_MAX
    edited = of(description_service_pb2.ApproveProposalRequest.DESCRIPTOR, "description")
    assert edited.max_characters == of(tool, "description").max_characters


def test_episodes() -> None:
    spec, call = (
        episode_pb2.EpisodeSpec.DESCRIPTOR,
        direct_call_service_pb2.DirectCallSpec.DESCRIPTOR,
    )
    assert of(spec, "attachments").max_items == of(call, "attachments").max_items == FILES_MAX
    assert of(spec, "price_factors").max_items == FACTORS_MAX
