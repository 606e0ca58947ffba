from dataclasses import replace
from hashlib import sha256

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from podium_kit.anchors import (
    DailyRoot,
    EntryProof,
    InvalidKey,
    TenantHead,
    audit_path,
    head_leaf,
    leaf_hash,
    load_private_key,
    load_public_key,
    public_pem,
    root_from_path,
    root_of_heads,
    tree_root,
)

HASHES = [bytes([number]) * 32 for number in range(5)]
ENTRIES = [leaf_hash(each) for each in HASHES]
HEADS = [
    TenantHead("acme", 11, 15, HASHES[-1], tree_root(ENTRIES)),
    TenantHead("bravo", 4, 3, b"\7" * 32, tree_root([])),
]
ROOT = DailyRoot("2026-10-31", root_of_heads(HEADS), 2, b"\5" * 32)
PROOF = EntryProof(
    sequence=13,
    entry_hash=HASHES[2],
    entry_path=tuple(audit_path(ENTRIES, 2)),
    tenant="acme",
    first_sequence=11,
    last_sequence=15,
    head_hash=HASHES[-1],
    tenant_index=0,
    tenant_path=tuple(audit_path([head_leaf(head) for head in HEADS], 0)),
)


def test_a_proof_leads_from_the_entry_to_the_root() -> None:
    assert PROOF.leads_to(ROOT)


@pytest.mark.parametrize(
    "change",
    [
        {"entry_hash": b"\0" * 32},
        {"sequence": 14},
        {"tenant": "bravo"},
        {"head_hash": b"\0" * 32},
        {"last_sequence": 16},
        {"tenant_index": 1},
        {"entry_path": ()},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_proof_of_anything_else_leads_nowhere(change: dict[str, object]) -> None:
    assert not replace(PROOF, **change).leads_to(ROOT)  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["day", "root", "previous_root", "tenant_count"])
def test_a_signature_covers_every_field_and_names_its_key(field: str) -> None:
    key, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    signature = ROOT.sign(key)
    wrong: dict[str, object] = {field: 3 if field == "tenant_count" else b"\1" * 32}
    if field == "day":
        wrong = {"day": "2026-10-30"}
    assert ROOT.is_signed(signature, load_public_key(public_pem(key.public_key()).encode()))
    assert not ROOT.is_signed(signature, other.public_key())
    assert not replace(ROOT, **wrong).is_signed(signature, key.public_key())  # type: ignore[arg-type]


def test_what_is_no_ed25519_key_is_rejected() -> None:
    other = generate_private_key(SECP256R1()).public_key()
    pem = other.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    with pytest.raises(InvalidKey, match="no public Ed25519 key"):
        load_public_key(pem)
    with pytest.raises(InvalidKey, match="no private Ed25519 key"):
        load_private_key(b"not a key")


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
