from podium.adapters.v1 import corpus_service_pb2 as pb
from podium.common.v1 import usage_pb2
from podium_kit.metering import Usage
from podium_kit.wire import usage_from_proto, usage_to_proto
from tool_adapters.corpus.errors import InvalidDocument
from tool_adapters.corpus.models import CorpusSummary, Document, DocumentSummary, Hit, MediaType


def document_from_proto(message: pb.Document) -> Document:
    try:
        media_type = MediaType(message.media_type or MediaType.PLAIN)
    except ValueError as error:
        known = ", ".join(MediaType)
        raise InvalidDocument(
            message.id, f"has media type {message.media_type!r}; use {known}"
        ) from error
    title = message.title or message.id
    return Document(message.id, title, message.content, media_type, message.uri, message.data)


def document_to_proto(summary: DocumentSummary) -> pb.DocumentSummary:
    return pb.DocumentSummary(
        id=summary.id,
        title=summary.title,
        uri=summary.uri,
        media_type=summary.media_type,
        passage_count=summary.passage_count,
    )


def corpus_to_proto(summary: CorpusSummary) -> pb.Corpus:
    return pb.Corpus(
        name=summary.key.name,
        document_count=summary.document_count,
        passage_count=summary.passage_count,
        shared=summary.key.shared,
    )


def hit_to_proto(hit: Hit) -> pb.Hit:
    piece = hit.passage.piece
    return pb.Hit(
        document_id=hit.passage.document_id,
        title=hit.passage.title,
        uri=hit.passage.uri,
        passage=piece.content,
        score=hit.score,
        section=piece.section,
        page=piece.page,
        start=piece.start,
        end=piece.end,
    )


def stored_usage(usage: Usage) -> bytes:
    return usage_to_proto(usage).SerializeToString()


def usage_from_store(stored: bytes) -> Usage:
    return usage_from_proto(usage_pb2.Usage.FromString(stored))
