"""A packed workspace in pieces that stay the same where its files do."""

import zlib

# An archive is a row of blocks of this size (tar, POSIX.1-2017), and every file begins a new one.
BLOCK_BYTES = 512
# A piece ends at a block whose checksum is 0 modulo this, so where an unchanged file stands in the
# archive does not matter: its pieces are the same.
BLOCKS_BETWEEN_CUTS = 256
PIECE_BYTES_MIN = 64 * 1024
PIECE_BYTES_MAX = 512 * 1024


def pieces(packed: bytes) -> list[bytes]:
    """Joined they are `packed`; each has at most PIECE_BYTES_MAX bytes."""
    found: list[bytes] = []
    start, view = 0, memoryview(packed)
    while len(packed) - start > PIECE_BYTES_MIN:
        end = _end(view, start)
        found.append(packed[start:end])
        start = end
    if start < len(packed):
        found.append(packed[start:])
    return found


def _end(packed: memoryview, start: int) -> int:
    last = min(start + PIECE_BYTES_MAX, len(packed))
    for end in range(start + PIECE_BYTES_MIN, last, BLOCK_BYTES):
        if zlib.crc32(packed[end - BLOCK_BYTES : end]) % BLOCKS_BETWEEN_CUTS == 0:
            return end
    return last
