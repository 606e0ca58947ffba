"""The hash chain: each entry's hash covers its content and the hash before it.

    hash(n) = SHA-256(hash(n - 1) || canonical(entry n)),  hash(0) = 32 zero bytes

The canonical form is a JSON array in a fixed order, so that an auditor can recompute it
from the rows in any language. The writer of a batch holds the tenant's head, so the
hashes of the batch are computed in memory, without a lock or a query per entry.
"""

import hashlib
import json

from cost_ledger.fingerprint import decimal_text, moment_text
from cost_ledger.models import Entry
from podium_kit.metering import Quantity

GENESIS = bytes(32)
_compact_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def link(previous: bytes, entry: Entry) -> bytes:
    return hashlib.sha256(previous + canonical(entry)).digest()


def canonical(entry: Entry) -> bytes:
    """The content of an entry as UTF-8 JSON: times in UTC, decimals in plain notation."""
    posted = entry.postings
    usage = entry.usage
    content = [
        *entry.call.columns,
        [
            [key.budget_id, moment_text(key.start), key.currency_code, *filter(None, [key.model])]
            for key in entry.call.windows
        ],
        entry.sequence,
        entry.kind.value,
        _quantities(usage.quantities if usage else entry.worst_case),
        usage.source.value if usage else None,
        usage.provider_request_id if usage else None,
        entry.dispatched,
        moment_text(entry.expire_time),
        posted.hold_unit,
        decimal_text(posted.held),
        decimal_text(posted.available),
        posted.unit,
        decimal_text(posted.spend),
        decimal_text(posted.provisional),
        decimal_text(posted.suspense),
        decimal_text(posted.payable),
        entry.price_version_id,
        moment_text(entry.occur_time),
        moment_text(entry.create_time),
        entry.corrects_sequence,
        entry.reason,
    ]
    return _compact_json(content).encode()


def _quantities(quantities: tuple[Quantity, ...]) -> list[list[str]]:
    return sorted([entry.dimension.value, decimal_text(entry.amount)] for entry in quantities)
