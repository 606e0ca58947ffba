"""Checks that several kinds of connections share.

Secrets are references; the places where one could be written out reject it.
"""

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from podium_kit.http_headers import header_problem
from podium_kit.rpc.errors import InvalidArgument


class InvalidTool(InvalidArgument):
    """The spec cannot become a tool."""


# Domains that no public name server answers for (RFC 6762, RFC 6761, ICANN's .internal), and those
# of a cluster's services.
PRIVATE_DOMAINS = (".local", ".localhost", ".internal", ".test", ".svc")
SECRET_HEADERS = {"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"}


def check_headers(
    field: str, constant: Mapping[str, str], secret: Sequence[tuple[str, str]]
) -> None:
    """Constant headers hold no secret, and no two secrets are sent as one header.

    Of a secret there is the name of its header and the text before it.
    """
    for name, prefix in secret:
        check_header(f"{field}.secret_headers", name, prefix)
    lower = [name.lower() for name, _ in secret if name.lower() != "cookie"]
    if twice := next((name for name in lower if lower.count(name) > 1), ""):
        raise InvalidTool(f"{field}.secret_headers: two secrets are sent as {twice}")
    for name, value in constant.items():
        check_header(f"{field}.headers", name, value)
        if name.lower() in SECRET_HEADERS or name.lower() in lower:
            raise InvalidTool(f"{field}.headers must not hold {name}; use secret_headers")


def check_url(field: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        has_port = parts.port != 0
    except ValueError as error:
        raise InvalidTool(f"{field} is not a URL: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.netloc or not has_port:
        raise InvalidTool(f"{field} {url!r} is not an http or https URL")
    if "@" in parts.netloc:
        raise InvalidTool(f"{field} holds credentials; use a secret")
    if not url.isprintable() or " " in url:
        raise InvalidTool(f"{field} holds a space or line break; write it percent-encoded")


def require_tls(field: str, url: str) -> None:
    """Rejects plain HTTP to a public host, which would show prompts and keys to the network."""
    parts = urlsplit(url)
    if parts.scheme == "http" and not _is_private(parts.hostname or ""):
        raise InvalidTool(
            f"{field} {url!r} is not encrypted, and {parts.hostname} is a public host; write"
            " https://, or a private address or a name of the cluster (for example vllm.models.svc)"
        )


def _is_private(host: str) -> bool:
    try:
        return not ip_address(host).is_global
    except ValueError:
        return is_private_name(host)


def is_private_name(host: str) -> bool:
    """Returns whether the spelling of a host's name keeps it from being a public one."""
    return "." not in host or host.endswith(PRIVATE_DOMAINS) or ".svc." in host


def check_header(field: str, name: str, value: str = "") -> None:
    if problem := header_problem(name, value):
        raise InvalidTool(f"{field}: {problem}")


def require(field: str, value: str) -> None:
    if not value:
        raise InvalidTool(f"{field} is unset")
