"""Merkle trees as RFC 6962, section 2.1, hashes them.

Leaves and nodes are hashed with different first bytes, so that neither can be passed off
as the other. A node without a sibling moves up unchanged.
"""

from collections.abc import Sequence
from hashlib import sha256

EMPTY_ROOT = sha256(b"").digest()


def leaf_hash(content: bytes) -> bytes:
    return sha256(b"\x00" + content).digest()


def tree_root(leaves: Sequence[bytes]) -> bytes:
    """Root over leaf hashes; the hash of nothing when there are none."""
    level = list(leaves)
    while len(level) > 1:
        level = _level_above(level)
    return level[0] if level else EMPTY_ROOT


def audit_path(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Siblings from the leaf to the root, nearest first. Raises IndexError."""
    if not 0 <= index < len(leaves):
        raise IndexError(f"leaf {index} of {len(leaves)}")
    level, path = list(leaves), []
    while len(level) > 1:
        sibling = index ^ 1
        if sibling < len(level):
            path.append(level[sibling])
        level, index = _level_above(level), index // 2
    return path


def root_from_path(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """The root that a leaf at `index` of `size` leaves has with this path.

    None when the path cannot belong to that place in a tree of that size.
    """
    if not 0 <= index < size:
        return None
    siblings, last, node = iter(path), size - 1, leaf
    while last:
        if index ^ 1 <= last:
            sibling = next(siblings, None)
            if sibling is None:
                return None
            node = _node_hash(sibling, node) if index & 1 else _node_hash(node, sibling)
        index, last = index // 2, last // 2
    return node if next(siblings, None) is None else None


def _level_above(level: list[bytes]) -> list[bytes]:
    pairs = zip(level[::2], level[1::2], strict=False)
    above = [_node_hash(left, right) for left, right in pairs]
    return above + level[len(above) * 2 :]


def _node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()
