from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urljoin

from tool_registry.tools.openapi.document import Node, OpenApiDocument, Unsupported


@dataclass(frozen=True)
class Caller:
    """Facts about the caller; empty text means unknown.

    `schemes` have a secret of their own, and every scheme has one with `has_secret`.
    """

    has_secret: bool = False
    username: str = ""
    client_id: str = ""
    schemes: frozenset[str] = frozenset()


@dataclass(frozen=True)
class HeaderKey:
    scheme: str
    header: str
    prefix: str = ""


@dataclass(frozen=True)
class QueryKey:
    scheme: str
    parameter: str


@dataclass(frozen=True)
class Bearer:
    scheme: str


@dataclass(frozen=True)
class Basic:
    scheme: str
    username: str


@dataclass(frozen=True)
class ClientCredentials:
    """The secret is a client's, which gets tokens with it (RFC 6749, section 4.4)."""

    scheme: str
    token_url: str
    client_id: str
    scopes: tuple[str, ...]


Authorization = Bearer | Basic | ClientCredentials
Credential = HeaderKey | QueryKey | Authorization


def credentials_of(
    document: OpenApiDocument, operation: Node, caller: Caller, base_url: str
) -> tuple[Credential, ...]:
    """The first of the operation's alternatives that is possible for the caller; all at once.

    Empty when it needs nothing. Raises Unsupported, saying what each would take.
    """
    alternatives = operation.get("security", document.root.get("security", []))
    if not alternatives or {} in alternatives:
        return ()
    reasons = []
    for required in alternatives:
        try:
            return _required(document, required, caller, base_url)
        except Unsupported as why:
            reasons.append(str(why))
    raise Unsupported("; or ".join(reasons))


def _required(
    document: OpenApiDocument, required: Node, caller: Caller, base_url: str
) -> tuple[Credential, ...]:
    schemes = document.root.get("components", {}).get("securitySchemes", {})
    if unknown := next((name for name in required if name not in schemes), ""):
        raise Unsupported(f"it needs {unknown}, which the document does not describe")
    without = [name for name in required if name not in caller.schemes]
    if len(required) > 1 and without:
        each = " and ".join(f"{name}=SECRET" for name in without)
        raise Unsupported(f"it needs {' and '.join(required)} at once; name a secret for {each}")
    if without and not caller.has_secret:
        raise Unsupported(f"it needs {without[0]}; name the secret that holds it")
    found = tuple(
        _credential(document, name, scopes, caller, base_url) for name, scopes in required.items()
    )
    if sum(isinstance(each, Authorization) for each in found) > 1:
        raise Unsupported(f"it needs {' and '.join(required)} in one header")
    return found


def _credential(
    document: OpenApiDocument, name: str, scopes: Sequence[str], caller: Caller, base_url: str
) -> Credential:
    scheme = document.resolve(document.root["components"]["securitySchemes"][name])
    match scheme["type"], str(scheme.get("scheme", "")).lower(), scheme.get("in"):
        case "http", "basic", _:
            return _basic(name, caller)
        case "apiKey", _, "query":
            return QueryKey(name, scheme["name"])
        case "apiKey", _, "header" | "cookie" as place:
            cookie = ("Cookie", f"{scheme['name']}=")
            return HeaderKey(name, *(cookie if place == "cookie" else (scheme["name"], "")))
        case "oauth2", _, _:
            return _oauth2(name, scheme["flows"], scopes, caller, base_url)
        case ("http", "bearer", _) | ("openIdConnect", _, _):
            return Bearer(name)
    raise Unsupported(f"it needs {name}, a kind of authentication that is not supported")


def _basic(name: str, caller: Caller) -> Basic:
    if not caller.username:
        raise Unsupported(f"it needs {name}; give the user name that the secret is the password of")
    return Basic(name, caller.username)


def _oauth2(
    name: str, flows: Node, scopes: Sequence[str], caller: Caller, base_url: str
) -> Authorization:
    """Returns the grant for programs; without one the secret is a token that was obtained
    elsewhere.
    """
    if "clientCredentials" not in flows:
        return Bearer(name)
    if not caller.client_id:
        raise Unsupported(f"it needs {name}; give the id of the client whose secret it is")
    token_url = urljoin(f"{base_url}/", flows["clientCredentials"]["tokenUrl"])
    return ClientCredentials(name, token_url, caller.client_id, tuple(scopes))
