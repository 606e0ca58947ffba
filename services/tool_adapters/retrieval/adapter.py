import json
from collections.abc import Sequence
from typing import Any

from podium_kit.failures import FailureKind, ToolFailure
from podium_kit.postgres.engine import DatabaseUnavailable
from tool_adapters.adapter import Adapter, AdapterResult, CallFailed, Output, ToolCall
from tool_adapters.corpus.errors import CorpusNotFound, InvalidCorpusName, InvalidSearch
from tool_adapters.corpus.models import Hit, Passage
from tool_adapters.corpus.service import Corpora
from tool_adapters.models import RetrievalConnection, ToolDefinition

NOTHING_FOUND = "No passage matches. Use other or fewer words."


class RetrievalAdapter(Adapter):
    """Searches for `arguments["query"]`; `top_k` is optional. Every hit says where it stands."""

    def __init__(self, corpora: Corpora) -> None:
        self._corpora = corpora

    async def invoke(self, call: ToolCall, tool: ToolDefinition) -> AdapterResult:
        assert isinstance(tool.connection, RetrievalConnection)
        query, top_k = _wanted(call, tool.connection)
        try:
            hits = await self._corpora.search(call.tenant, tool.connection.corpus, query, top_k)
        except (CorpusNotFound, InvalidCorpusName) as error:
            return AdapterResult(ToolFailure(FailureKind.NOT_FOUND, error.message))
        except InvalidSearch as error:
            return AdapterResult(ToolFailure(FailureKind.INVALID_ARGUMENTS, error.message))
        except DatabaseUnavailable as error:
            return AdapterResult(ToolFailure(FailureKind.UNAVAILABLE, error.message, True))
        return AdapterResult(Output(_as_text(hits), _as_json(hits)))


def _wanted(call: ToolCall, connection: RetrievalConnection) -> tuple[str, int]:
    """Raises CallFailed: the schema is the owner's, so it may not have checked these."""
    try:
        top_k = int(call.arguments.get("top_k") or connection.default_top_k)
        return str(call.arguments["query"]), top_k
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        message = "give query, what is searched for, and as top_k, if at all, a whole number"
        raise CallFailed(FailureKind.INVALID_ARGUMENTS, message, unsent=True) from error


def _as_text(hits: Sequence[Hit]) -> str:
    passages = (
        f"[{number}] {_citation(hit.passage)}\n{hit.passage.content}"
        for number, hit in enumerate(hits, start=1)
    )
    return "\n\n".join(passages) or NOTHING_FOUND


def _citation(passage: Passage) -> str:
    piece = passage.piece
    place = [piece.section] if piece.section else []
    if piece.page:
        place.append(f"page {piece.page}")
    elif piece.end:
        place.append(f"characters {piece.start}-{piece.end}")
    return " · ".join([passage.title, *place]) + f" ({passage.uri or passage.document_id})"


def _as_json(hits: Sequence[Hit]) -> str:
    return json.dumps({"hits": [_hit(hit) for hit in hits]}, ensure_ascii=False)


def _hit(hit: Hit) -> dict[str, Any]:
    piece = hit.passage.piece
    return {
        "document_id": hit.passage.document_id,
        "title": hit.passage.title,
        "section": piece.section,
        "page": piece.page or None,
        "characters": [piece.start, piece.end] if piece.end else None,
        "uri": hit.passage.uri,
        "passage": piece.content,
        "score": round(hit.score, 4),
    }
