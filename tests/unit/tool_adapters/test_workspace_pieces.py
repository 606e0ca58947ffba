import random

import pytest

from tool_adapters.workspaces.pieces import BLOCK_BYTES, PIECE_BYTES_MAX, pieces

MIXED = random.Random(7).randbytes(3_000_000)


@pytest.mark.parametrize(
    "packed",
    [b"", b"x", bytes(2_000_000), MIXED, MIXED[: 64 * 1024], MIXED[: 64 * 1024 + 1]],
    ids=["empty", "byte", "zeros", "mixed", "least", "least and one"],
)
def test_pieces_are_the_whole_and_none_is_too_large(packed: bytes) -> None:
    found = pieces(packed)
    assert b"".join(found) == packed
    assert all(0 < len(piece) <= PIECE_BYTES_MAX for piece in found)


def test_what_moved_has_the_same_pieces() -> None:
    moved = random.Random(8).randbytes(9 * BLOCK_BYTES) + MIXED
    assert len(set(pieces(MIXED)) & set(pieces(moved))) >= len(pieces(MIXED)) - 4
