"""Ids that are made of others, so that every attempt names the same thing."""

import hashlib
import uuid


def derived_uuid7(parent_id: str, name: str) -> str:
    """A UUIDv7 (RFC 9562) of the parent's time; its 74 random bits are of the name's SHA-256."""
    time_ms = uuid.UUID(parent_id).int >> 80
    digest = int.from_bytes(hashlib.sha256(name.encode()).digest()[:10])
    random_a, random_b = digest >> 68, digest & (1 << 62) - 1
    return str(uuid.UUID(int=time_ms << 80 | 7 << 76 | random_a << 64 | 2 << 62 | random_b))
