"""Which of the authority's clients a server serves: those its callers in the service graph are."""

from collections.abc import Mapping

from podium_kit.rpc.errors import PermissionDenied
from podium_kit.telemetry.handlers import Context

# gRPC's names of what a certificate says about its holder: SPIFFE id and DNS names.
NAMES = "x509_subject_alternative_name"


class ClientNotAllowed(PermissionDenied):
    """The certificate is valid; its holder is not among the callers of this service."""

    def __init__(self, names: frozenset[str]) -> None:
        held = ", ".join(sorted(names)) or "no name"
        super().__init__(
            f"the client's certificate is of {held}, which may not call this service; "
            "name it in allowed_clients (on a cluster: components.<caller>.calls of the chart)"
        )


def require_allowed(context: Context, allowed: frozenset[str]) -> None:
    """Lets a client with one of these names pass, or raises ClientNotAllowed."""
    names = certified_names(context.auth_context())
    if names.isdisjoint(allowed):
        raise ClientNotAllowed(names)


def certified_names(properties: Mapping[str, object]) -> frozenset[str]:
    """The names in the certificate of a call's client; none where it showed no certificate."""
    values = properties.get(NAMES, ())
    return frozenset(value.decode() for value in values)  # type: ignore[attr-defined]
