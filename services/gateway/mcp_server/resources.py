"""Corpora and episodes of the tenant as MCP resources, each of them JSON.

podium://corpora/NAME                       its documents, a page at a time
podium://corpora/NAME?page_token=TOKEN      the next page
podium://corpora/NAME/search?query=WORDS    passages, best first
podium://episodes/ID                        how it stands, or how it ended
podium://episodes/ID/trajectory             what happened, once it has ended
"""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from mcp import types
from mcp.shared.exceptions import MCPError

from gateway.mcp_server.clients_resources import Resources
from gateway.mcp_server.models import ListedResource, ResourcePage
from podium_kit.rpc.errors import DomainError, InvalidArgument, NotFound

SCHEME = "podium"
CORPORA, EPISODES = "corpora", "episodes"
JSON = "application/json"
# A model reads it whole; what is longer has a page of its own in REST.
TEXT_BYTES_MAX = 4 * 1024 * 1024
URI_CHARACTERS_MAX = 4_000
# Of MCP's revisions until 2025-11-25; later ones say INVALID_PARAMS.
RESOURCE_NOT_FOUND = -32002


def _template(name: str, title: str, uri: str) -> types.ResourceTemplate:
    return types.ResourceTemplate(
        name=name, title=title, uri_template=f"{SCHEME}://{uri}", mime_type=JSON
    )


TEMPLATES = (
    _template("corpus", "Documents of a corpus", f"{CORPORA}/{{corpus}}{{?page_token}}"),
    _template("search", "Passages of a corpus", f"{CORPORA}/{{corpus}}/search{{?query}}"),
    _template("episode", "An episode", f"{EPISODES}/{{episode_id}}"),
    _template("trajectory", "What happened in it", f"{EPISODES}/{{episode_id}}/trajectory"),
)


class TooLong(InvalidArgument):
    def __init__(self, uri: str) -> None:
        super().__init__(f"{uri} is longer than {TEXT_BYTES_MAX} bytes; the REST API has it")


class NoSuchResource(NotFound):
    def __init__(self, uri: str) -> None:
        super().__init__(f"there is no {uri[:200]}; resources/templates/list has what there is")


@dataclass(frozen=True)
class TenantResources:
    source: Resources

    async def page(self, cursor: str | None) -> types.ListResourcesResult:
        """All corpora, then all episodes; a page has one kind of them. Raises MCPError."""
        kind, _, token = (cursor or f"{CORPORA} ").partition(" ")
        if kind not in (CORPORA, EPISODES):
            raise MCPError(types.INVALID_PARAMS, "the cursor is none of this server's")
        page = await self._page(kind, token)
        more = f"{kind} {page.next_page_token}" if page.next_page_token else None
        if more is None and kind == CORPORA:
            more = f"{EPISODES} "
        listed = [_listed(kind, each) for each in page.resources]
        return types.ListResourcesResult(resources=listed, next_cursor=more)

    async def _page(self, kind: str, token: str) -> ResourcePage:
        try:
            if kind == CORPORA:
                return await self.source.corpora(token)
            return await self.source.episodes(token)
        except DomainError as error:
            raise _protocol_error(error) from error

    async def read(self, uri: str) -> types.ReadResourceResult:
        try:
            text = json.dumps(await self._content(uri[:URI_CHARACTERS_MAX]), ensure_ascii=False)
            if len(text.encode()) > TEXT_BYTES_MAX:
                raise TooLong(uri)
        except DomainError as error:
            raise _protocol_error(error, uri) from error
        content = types.TextResourceContents(uri=uri, mime_type=JSON, text=text)
        return types.ReadResourceResult(contents=[content])

    async def _content(self, uri: str) -> dict[str, Any]:
        try:
            parts = urlsplit(uri)
        except ValueError:
            raise NoSuchResource(uri) from None
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        path = tuple(unquote(part) for part in parts.path.strip("/").split("/"))
        match (f"{parts.scheme}://{parts.netloc}", *path):
            case ("podium://corpora", corpus) if corpus:
                return await self._documents(corpus, query.get("page_token", ""))
            case ("podium://corpora", corpus, "search"):
                return await self.source.hits(corpus, query.get("query", ""))
            case ("podium://episodes", episode_id) if episode_id:
                return await self.source.episode(episode_id)
            case ("podium://episodes", episode_id, "trajectory"):
                return await self.source.trajectory(episode_id)
            case _:
                raise NoSuchResource(uri)

    async def _documents(self, corpus: str, page_token: str) -> dict[str, Any]:
        page = await self.source.documents(corpus, page_token)
        if token := page.pop("next_page_token", ""):
            page["next"] = f"{_uri(CORPORA, corpus)}?{urlencode({'page_token': token})}"
        return page


def _listed(kind: str, found: ListedResource) -> types.Resource:
    return types.Resource(
        uri=_uri(kind, found.key),
        name=found.key,
        title=found.title,
        description=f"{'corpus' if kind == CORPORA else 'episode'}: {found.state}",
        mime_type=JSON,
    )


def _uri(kind: str, key: str) -> str:
    return f"{SCHEME}://{kind}/{quote(key, safe='')}"


def _protocol_error(error: DomainError, uri: str = "") -> MCPError:
    if isinstance(error, NotFound):
        return MCPError(RESOURCE_NOT_FOUND, error.message, {"uri": uri})
    wrong = isinstance(error, InvalidArgument)
    return MCPError(types.INVALID_PARAMS if wrong else types.INTERNAL_ERROR, error.message)
