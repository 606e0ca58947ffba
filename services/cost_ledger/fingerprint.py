"""A permanent hash of a request, which distinguishes a retry from another request.

Unset fields are left out, so that a field added later does not change the hashes stored before it
existed.
"""

import hashlib
import json
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache

from cost_ledger.models import Subject
from podium_kit.metering import Quantity, Usage


def fingerprint(**content: object) -> str:
    """SHA-256 as hex over the canonical JSON of the set fields."""
    present = {name: value for name, value in content.items() if value not in (None, "", [], {})}
    return hashlib.sha256(_canonical_json(present).encode()).hexdigest()


def quantities_text(quantities: tuple[Quantity, ...]) -> dict[str, str]:
    """Amounts by dimension; 1 and 1.0 are the same amount."""
    return {quantity.dimension.value: decimal_text(quantity.amount) for quantity in quantities}


def usage_text(usage: Usage) -> dict[str, object]:
    text: dict[str, object] = {
        "quantities": quantities_text(usage.quantities),
        "source": usage.source.value,
        "provider_request_id": usage.provider_request_id,
    }
    # Left out when empty: what was captured before the field existed keeps its hash.
    given = {"unusable_reason": usage.unusable_reason, "service_class": usage.service_class}
    return text | {name: value for name, value in given.items() if value}


# A group's entries share its time and their budgets' windows.
@lru_cache(maxsize=4096)
def moment_text(moment: datetime | None) -> str | None:
    """A time in UTC, to the microsecond."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds") if moment else None


def decimal_text(amount: Decimal) -> str:
    if not amount:
        return "0"
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _plain(value: object) -> dict[str, object]:
    if isinstance(value, Subject):
        pairs = ((name, getattr(value, name)) for name in Subject.__slots__)
        return {name: text for name, text in pairs if text}
    raise TypeError(f"{type(value).__name__} has no canonical JSON")


_canonical_json = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_plain).encode
