"""How an operation wants to be authenticated, for a secret that is only named."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urljoin

from tool_registry.tools.openapi.document import Document, Node
from tool_registry.tools.openapi.errors import Unsupported


@dataclass(frozen=True)
class Caller:
    """What is known of who calls; empty text means it is not."""

    has_secret: bool = False
    username: str = ""
    client_id: str = ""


@dataclass(frozen=True)
class HeaderKey:
    """The secret is a header."""

    header: str


@dataclass(frozen=True)
class QueryKey:
    """The secret is a parameter of the query string."""

    parameter: str


@dataclass(frozen=True)
class Bearer:
    """The secret is a bearer token (RFC 6750)."""


@dataclass(frozen=True)
class Basic:
    """The secret is a password (RFC 7617)."""

    username: str


@dataclass(frozen=True)
class ClientCredentials:
    """The secret is a client's, which gets tokens with it (RFC 6749, section 4.4)."""

    token_url: str
    client_id: str
    scopes: tuple[str, ...]


Credential = HeaderKey | QueryKey | Bearer | Basic | ClientCredentials


def credential_of(
    document: Document, operation: Node, caller: Caller, base_url: str
) -> Credential | None:
    """The first of the operation's alternatives that is possible for the caller.

    None when it needs nothing. Raises Unsupported, saying what each would take.
    """
    alternatives = operation.get("security", document.root.get("security", []))
    if not alternatives or {} in alternatives:
        return None
    reasons = []
    for required in alternatives:
        try:
            return _required(document, required, caller, base_url)
        except Unsupported as why:
            reasons.append(str(why))
    raise Unsupported("; or ".join(reasons))


def _required(document: Document, required: Node, caller: Caller, base_url: str) -> Credential:
    if len(required) > 1:
        raise Unsupported(f"it needs {' and '.join(required)} at once, and a tool has one secret")
    [(name, scopes)] = required.items()
    schemes = document.root.get("components", {}).get("securitySchemes", {})
    if name not in schemes:
        raise Unsupported(f"it needs {name}, which the document does not describe")
    if not caller.has_secret:
        raise Unsupported(f"it needs {name}; name the secret that holds it")
    scheme = document.resolve(schemes[name])
    match scheme["type"], str(scheme.get("scheme", "")).lower(), scheme.get("in"):
        case "http", "bearer", _:
            return Bearer()
        case "http", "basic", _:
            return _basic(name, caller)
        case "apiKey", _, "header":
            return HeaderKey(scheme["name"])
        case "apiKey", _, "query":
            return QueryKey(scheme["name"])
        case "oauth2", _, _:
            return _oauth2(name, scheme["flows"], scopes, caller, base_url)
        case "openIdConnect", _, _:
            return Bearer()
    raise Unsupported(f"it needs {name}, a kind of authentication that is not supported")


def _basic(name: str, caller: Caller) -> Basic:
    if not caller.username:
        raise Unsupported(f"it needs {name}; give the user name that the secret is the password of")
    return Basic(caller.username)


def _oauth2(
    name: str, flows: Node, scopes: Sequence[str], caller: Caller, base_url: str
) -> Credential:
    """Without the grant for programs, the secret is a token that was obtained elsewhere."""
    if "clientCredentials" not in flows:
        return Bearer()
    if not caller.client_id:
        raise Unsupported(f"it needs {name}; give the id of the client whose secret it is")
    token_url = urljoin(f"{base_url}/", flows["clientCredentials"]["tokenUrl"])
    return ClientCredentials(token_url, caller.client_id, tuple(scopes))
