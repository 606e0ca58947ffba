"""How an operation wants to be authenticated, for a secret that is only named."""

from dataclasses import dataclass

from tool_registry.openapi.document import Document, Node
from tool_registry.openapi.errors import Unsupported


@dataclass(frozen=True)
class Credential:
    """Header that carries the secret, and the text before it."""

    header: str
    prefix: str


def credential_of(document: Document, operation: Node, has_secret: bool) -> Credential | None:
    """What the operation needs; None when it needs nothing. Raises Unsupported."""
    alternatives = operation.get("security", document.root.get("security", []))
    if not alternatives or {} in alternatives:
        return None
    schemes = document.root.get("components", {}).get("securitySchemes", {})
    for names in alternatives:
        if len(names) == 1:
            credential = _credential(document.resolve(schemes[next(iter(names))]))
            if credential and has_secret:
                return credential
            if credential:
                raise Unsupported(f"it needs {next(iter(names))}; name the secret that holds it")
    wanted = ", ".join(" and ".join(names) for names in alternatives)
    raise Unsupported(f"it is authenticated by {wanted}, which no single header can carry")


def _credential(scheme: Node) -> Credential | None:
    match scheme["type"], str(scheme.get("scheme", "")).lower(), scheme.get("in"):
        case "http", "bearer", _:
            return Credential("Authorization", "Bearer ")
        case "http", "basic", _:
            return Credential("Authorization", "Basic ")
        case "apiKey", _, "header":
            return Credential(scheme["name"], "")
        case (("oauth2" | "openIdConnect"), _, _):
            return Credential("Authorization", "Bearer ")
    return None
