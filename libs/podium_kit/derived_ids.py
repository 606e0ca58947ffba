"""Ids that are made of others, so that every attempt names the same thing.

They are UUIDs of version 8. Callers choose ids of version 7, so no tenant can occupy an id that
the platform will derive from one that the tenant knows, a trace id for example.
"""

import hashlib
import uuid


def derived_uuid8(parent_id: str, name: str) -> str:
    """A UUIDv8 (RFC 9562) of the parent's time, as in UUIDv7, and 74 bits of the name's SHA-256."""
    time_ms = uuid.UUID(parent_id).int >> 80
    digest = int.from_bytes(hashlib.sha256(name.encode()).digest()[:10])
    random_a, random_b = digest >> 68, digest & (1 << 62) - 1
    return str(uuid.UUID(int=time_ms << 80 | 8 << 76 | random_a << 64 | 2 << 62 | random_b))
