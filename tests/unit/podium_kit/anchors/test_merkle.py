"""Merkle trees against RFC 6962 and against any other tree."""

from hashlib import sha256

from hypothesis import given
from hypothesis import strategies as st

from podium_kit.anchors import audit_path, leaf_hash, root_from_path, tree_root

leaves = st.lists(st.binary(max_size=8).map(leaf_hash), min_size=1, max_size=70)


def test_roots_are_those_of_rfc_6962() -> None:
    # Section 2.1 by hand: MTH of three leaves splits at two.
    a, b, c = (leaf_hash(text) for text in (b"", b"\x00", b"\x10"))
    left = sha256(b"\x01" + a + b).digest()
    assert a.hex() == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    assert tree_root([a, b]).hex() == (
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"
    )
    assert tree_root([a, b, c]) == sha256(b"\x01" + left + c).digest()
    assert tree_root([]) == sha256(b"").digest()


@given(leaves, st.data())
def test_the_path_of_every_leaf_leads_to_the_root(hashes: list[bytes], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(hashes) - 1))
    path = audit_path(hashes, index)
    assert root_from_path(hashes[index], index, len(hashes), path) == tree_root(hashes)


@given(leaves, st.data())
def test_no_path_leads_from_another_leaf_or_is_too_long_or_short(
    hashes: list[bytes], data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(hashes) - 1))
    path, root = audit_path(hashes, index), tree_root(hashes)
    assert root_from_path(leaf_hash(b"another leaf"), index, len(hashes), path) != root
    assert root_from_path(hashes[index], index, len(hashes), [*path, root]) is None
    assert root_from_path(hashes[index], len(hashes), len(hashes), path) is None
    if path:
        assert root_from_path(hashes[index], index, len(hashes), path[1:]) is None
