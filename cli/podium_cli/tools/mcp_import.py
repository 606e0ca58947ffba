import re
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import urlsplit

from podium.adapters.v1 import tool_adapter_service_pb2
from podium.registry.v1 import tool_pb2, tool_registry_service_pb2
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import Gateway
from podium_kit.tool_kinds.checks import is_private_name
from tool_adapters.network_guard import ForbiddenAddress, require_public

_TARGET = re.compile(r"(?:dns:(?:///)?)?(\[[^\]]+\]|[^/:]+):\d+")


def rejected_hosts(
    spec: tool_pb2.ToolSpec, allowed: Iterable[str] = (), tenant: str = ""
) -> list[str]:
    """Hosts that are not public, and that the operator of this machine did not allow the tenant.

    By their spelling: what a public name resolves to is known where it is connected to. An
    allowed host is "tenant/host" for one tenant, or "host" for all of them.
    """
    entries = (entry.rpartition("/") for entry in allowed)
    trusted = {host.lower() for owner, _, host in entries if owner in ("", tenant)}
    found = dict.fromkeys(host for host in _hosts(spec.connection) if not _is_public(host))
    return [host for host in found if host not in trusted]


def rejected_host(url: str, allowed: Iterable[str] = (), tenant: str = "") -> str:
    connection = tool_pb2.Connection(http=tool_pb2.HttpConnection(url_template=url))
    return next(iter(rejected_hosts(tool_pb2.ToolSpec(connection=connection), allowed, tenant)), "")


def _hosts(connection: tool_pb2.Connection) -> Iterator[str]:
    urls = [connection.http.url_template, connection.mcp.http.url]
    urls += [connection.http.auth.oauth2_client_credentials.token_url]
    for model in connection.llm.models:
        urls += [model.base_url, *(endpoint.base_url for endpoint in model.endpoints)]
    for url in urls:
        try:
            host = urlsplit(url).hostname
        except ValueError:
            continue
        if host:
            yield host.lower()
    if match := _TARGET.fullmatch(connection.grpc.target):
        yield match[1].strip("[]").lower()


def _is_public(host: str) -> bool:
    try:
        require_public(host)
    except ForbiddenAddress:
        return False
    except ValueError:
        return not is_private_name(host)
    return True


async def discover(
    gateway: Gateway, connection: tool_pb2.McpConnection, prefix: str
) -> tool_adapter_service_pb2.DiscoverMcpToolsResponse:
    """Specs ready to be registered, and what was left out. Raises Rejected, Unreachable."""
    return await gateway.post(
        "/v1/tools/discover-mcp",
        tool_adapter_service_pb2.DiscoverMcpToolsRequest(connection=connection, name_prefix=prefix),
        tool_adapter_service_pb2.DiscoverMcpToolsResponse,
    )


def connection_of(
    server: str, secret_headers: Sequence[str] = (), headers: Sequence[str] = ()
) -> tool_pb2.McpConnection:
    """The connection to the server: HTTP for a URL, otherwise a server that the operator defined.

    Each header is `NAME: VALUE`, of a secret one `NAME: [PREFIX ]SECRET`. Raises UsageError.
    """
    if not server.startswith(("http://", "https://")):
        if secret_headers or headers:
            raise UsageError(
                f"{server} is a server that the operator defined, which takes no headers",
                "leave them out, or give the server's URL",
            )
        return tool_pb2.McpConnection(stdio=tool_pb2.McpStdio(server=server))
    http = tool_pb2.McpHttp(url=server)
    for written in secret_headers:
        name, value = _header(written, "'X-API-Key: my-key' or 'Authorization: Bearer my-key'")
        prefix, _, secret = value.rpartition(" ")
        http.secret_headers.add(
            name=name,
            prefix=f"{prefix} " if prefix else "",
            secret=tool_pb2.SecretRef(name=secret),
        )
    http.headers.update(_header(written, "'X-Region: eu'") for written in headers)
    return tool_pb2.McpConnection(http=http)


def _header(written: str, example: str) -> tuple[str, str]:
    name, colon, value = (part.strip() for part in written.partition(":"))
    if not (name and colon and value):
        raise UsageError(f"{written!r} is no header", f"write it like {example}")
    return name, value


async def vanished(
    gateway: Gateway,
    found: tool_adapter_service_pb2.DiscoverMcpToolsResponse,
    prefix: str,
    shared: bool,
) -> list[str]:
    """Names of registered tools of the same server that it no longer has.

    A tool that is left out is still the server's, and so are all when its list broke off.

    A server that lists nothing at all loses nothing: it is more likely broken than empty.
    """
    if not found.specs or found.notices:
        return []
    server = _server(found.specs[0])
    has = {spec.connection.mcp.tool_name for spec in found.specs}
    has |= {skipped.name for skipped in found.skipped}
    listed = await gateway.all(
        "/v1/tools", tool_registry_service_pb2.ListToolsResponse, kinds=["TOOL_KIND_MCP"]
    )
    return [
        tool.spec.name
        for tool in listed.tools
        if tool.shared == shared
        and tool.spec.connection.mcp.tool_name not in has
        and _server(tool.spec) == server
        and _is_of_prefix(tool.spec, prefix)
    ]


def _server(spec: tool_pb2.ToolSpec) -> tool_pb2.McpConnection:
    connection = tool_pb2.McpConnection()
    connection.CopyFrom(spec.connection.mcp)
    connection.tool_name = ""
    return connection


def _is_of_prefix(spec: tool_pb2.ToolSpec, prefix: str) -> bool:
    """True where an import with the prefix named the tool; one server may be imported twice."""
    name = spec.connection.mcp.tool_name
    return spec.name.startswith(prefix) and (
        spec.name == prefix + name or not spec.name.endswith(name)
    )
