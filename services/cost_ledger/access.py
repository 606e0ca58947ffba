from collections.abc import Mapping

from cost_ledger.errors import InvalidOperation
from podium_kit.rpc.identity import Scope, current_identity, require_scope

# Of what the adapters ask for by themselves: vectors of corpora.
OWN_PREFIX = "embeddings/"
OF_EMBEDDINGS = ("reserve", "capture", "release", "record")


def tenant_named(tenant: str) -> str:
    """Returns the tenant of a request: the caller's, or any other for the platform's admin.

    Raises InvalidOperation for a name that no tenant can have.
    """
    own = current_identity().tenant
    if tenant and tenant != own:
        require_scope(Scope.PLATFORM_ADMIN)
    if not tenant.isprintable():
        raise InvalidOperation("tenant holds a character that cannot be printed; no tenant does")
    return tenant or own


def require_of_embeddings(operation: str, names: Mapping[str, str]) -> None:
    """Raises InvalidOperation for a cost of something else: the scope covers what the adapters ask
    for by themselves alone.

    `names` are the operation's keys and SKUs, by field.
    """
    if operation not in OF_EMBEDDINGS:
        raise InvalidOperation(
            f"{operation or 'nothing'} is not for the adapters; {OF_EMBEDDINGS} are"
        )
    for name, value in names.items():
        if not value.startswith(OWN_PREFIX):
            raise InvalidOperation(f"{name} {value[:200]!r} does not begin with {OWN_PREFIX}")
