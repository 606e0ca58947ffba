"""Names of what is priced: a tenant's own ones are told from those of the operator."""

# What a tenant brings along and prices by itself; the same name is another thing to another tenant.
OWN = "own/"


def is_own(sku: str) -> bool:
    """Whether each tenant prices it for itself."""
    return sku.startswith(OWN)
