"""The root that is signed once a day, and the proof that it covers an entry.

Every tenant is one leaf: its name, the entries it added since the root before, the Merkle
root of their hashes, and the hash its chain ends in. The root over these leaves is signed
together with the root of the day before, so that no day can be left out or replaced.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from podium_kit.anchors.merkle import leaf_hash, root_from_path, tree_root

PURPOSE = "podium ledger daily root v1"


@dataclass(frozen=True, slots=True)
class TenantHead:
    """The end of one tenant's journal, and its entries `first_sequence` to `last_sequence`.

    A tenant that added nothing has a first sequence above its last one.
    """

    tenant: str
    first_sequence: int
    last_sequence: int
    head_hash: bytes
    entries_root: bytes


@dataclass(frozen=True, slots=True)
class DailyRoot:
    """The root of one UTC day, as YYYY-MM-DD. The first has an empty previous root."""

    day: str
    root: bytes
    tenant_count: int
    previous_root: bytes

    def document(self) -> bytes:
        parts = [PURPOSE, self.day, self.root.hex(), self.tenant_count, self.previous_root.hex()]
        return json.dumps(parts, separators=(",", ":")).encode()

    def sign(self, key: Ed25519PrivateKey) -> bytes:
        """The Ed25519 signature (RFC 8032), 64 bytes."""
        return key.sign(self.document())

    def is_signed(self, signature: bytes, key: Ed25519PublicKey) -> bool:
        try:
            key.verify(signature, self.document())
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True)
class EntryProof:
    """The ways from an entry's hash to its tenant's root, and from there to the day's."""

    sequence: int
    entry_hash: bytes
    entry_path: tuple[bytes, ...]
    tenant: str
    first_sequence: int
    last_sequence: int
    head_hash: bytes
    tenant_index: int
    tenant_path: tuple[bytes, ...]

    def leads_to(self, root: DailyRoot) -> bool:
        entries_root = root_from_path(
            leaf_hash(self.entry_hash),
            self.sequence - self.first_sequence,
            self.last_sequence - self.first_sequence + 1,
            self.entry_path,
        )
        if entries_root is None:
            return False
        head = TenantHead(
            self.tenant, self.first_sequence, self.last_sequence, self.head_hash, entries_root
        )
        leaf = head_leaf(head)
        return (
            root_from_path(leaf, self.tenant_index, root.tenant_count, self.tenant_path)
            == root.root
        )


def head_leaf(head: TenantHead) -> bytes:
    parts = [
        head.tenant,
        head.first_sequence,
        head.last_sequence,
        head.head_hash.hex(),
        head.entries_root.hex(),
    ]
    return leaf_hash(json.dumps(parts, separators=(",", ":")).encode())


def root_of_heads(heads: Sequence[TenantHead]) -> bytes:
    return tree_root([head_leaf(head) for head in heads])
