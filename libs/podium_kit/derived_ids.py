"""Ids that are made of others, so that every attempt names the same thing.

Those that the platform derives for itself are UUIDs of version 8. Callers choose ids of version 7,
so no tenant can occupy an id that the platform will derive from one that the tenant knows, a trace
id for example. What a caller starts by itself has an id of version 7, a derived one as well.
"""

import hashlib
import uuid


def derived_uuid8(parent_id: str, name: str) -> str:
    """A UUIDv8 (RFC 9562) of the parent's time, as in UUIDv7, and 74 bits of the name's SHA-256."""
    time_ms = uuid.UUID(parent_id).int >> 80
    digest = int.from_bytes(hashlib.sha256(name.encode()).digest()[:10])
    random_a, random_b = digest >> 68, digest & (1 << 62) - 1
    return str(uuid.UUID(int=time_ms << 80 | 8 << 76 | random_a << 64 | 2 << 62 | random_b))


def derived_uuid7(parent_id: str, *names: str) -> str:
    """A UUIDv7 (RFC 9562) with the parent's time and, for its chance, a digest of what it names."""
    digest = hashlib.sha256("/".join((parent_id, *names)).encode()).digest()
    return uuid7_of(uuid.UUID(parent_id).bytes[:6] + digest[:10])


def uuid7_of(sixteen: bytes) -> str:
    """A UUIDv7 of a time in milliseconds, in 6 bytes, and of 10 bytes of chance."""
    value = bytearray(sixteen)
    value[6] = (value[6] & 0x0F) | 0x70
    value[8] = (value[8] & 0x3F) | 0x80
    return str(uuid.UUID(bytes=bytes(value)))
