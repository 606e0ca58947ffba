from podium_kit.anchors.daily_root import (
    DailyRoot,
    EntryProof,
    TenantHead,
    head_leaf,
    root_of_heads,
)
from podium_kit.anchors.keys import (
    InvalidKey,
    key_id,
    load_private_key,
    load_public_key,
    public_pem,
)
from podium_kit.anchors.merkle import audit_path, leaf_hash, root_from_path, tree_root

__all__ = [
    "DailyRoot",
    "EntryProof",
    "InvalidKey",
    "TenantHead",
    "audit_path",
    "head_leaf",
    "key_id",
    "leaf_hash",
    "load_private_key",
    "load_public_key",
    "public_pem",
    "root_from_path",
    "root_of_heads",
    "tree_root",
]
