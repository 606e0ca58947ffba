"""Addresses of tools that the adapters will not connect to for a tenant."""

import re
from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from podium.registry.v1 import tool_pb2
from tool_adapters.network_guard import ForbiddenAddress, require_public

LOCAL_NAMES = ("localhost", ".localhost", ".local", ".internal", ".svc", ".cluster.local")
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
    """The URL's host where it is not public and not allowed; empty otherwise."""
    connection = tool_pb2.Connection(http=tool_pb2.HttpConnection(url_template=url))
    return next(iter(rejected_hosts(tool_pb2.ToolSpec(connection=connection), allowed, tenant)), "")


def _hosts(connection: tool_pb2.Connection) -> Iterator[str]:
    urls = [connection.http.url_template, connection.mcp.http.url]
    urls += [connection.http.auth.oauth2_client_credentials.token_url]
    urls += [model.base_url for model in connection.llm.models]
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
        return not host.endswith(LOCAL_NAMES) and "." in host
    return True
