import hashlib
import uuid
from datetime import datetime


def derived_id(run_id: str, *parts: str) -> str:
    """A UUIDv7 (RFC 9562) with the run's time and, for its chance, a digest of what it names."""
    digest = hashlib.sha256("/".join((run_id, *parts)).encode()).digest()
    return _uuid7(uuid.UUID(run_id).bytes[:6] + digest[:10])


def run_id_from(at: datetime, chance: uuid.UUID) -> str:
    """A UUIDv7 of a moment, in milliseconds, and of chance that a workflow can replay."""
    return _uuid7(round(at.timestamp() * 1000).to_bytes(6) + chance.bytes[6:])


def _uuid7(sixteen: bytes) -> str:
    value = bytearray(sixteen)
    value[6] = (value[6] & 0x0F) | 0x70
    value[8] = (value[8] & 0x3F) | 0x80
    return str(uuid.UUID(bytes=bytes(value)))
