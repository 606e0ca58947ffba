"""Ids that the client makes, so that a repeated request is known as one."""

import os
import time
import uuid

RANDOM_BITS = (1 << 80) - 1
VARIANT, VARIANT_MASK = 0b10 << 62, 0b11 << 62
VERSION, VERSION_MASK = 7 << 76, 0xF << 76


def new_id() -> str:
    """A UUIDv7 (RFC 9562): milliseconds, then randomness; ids sort by their time."""
    milliseconds = time.time_ns() // 1_000_000
    value = milliseconds << 80 | int.from_bytes(os.urandom(10), "big") & RANDOM_BITS
    value = value & ~VERSION_MASK | VERSION
    return str(uuid.UUID(int=value & ~VARIANT_MASK | VARIANT))
