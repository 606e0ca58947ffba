"""Checks a proof of inclusion offline: with the file and a public key, nothing else."""

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from podium.ledger.v1 import audit_pb2
from podium_kit.anchors import DailyRoot, EntryProof, InvalidKey, load_public_key
from podium_kit.client.errors import UnreadableFile, UsageError
from podium_operations.documents import read_message


@dataclass(frozen=True)
class ProofCheck:
    content_has_hash: bool
    hash_is_under_root: bool
    root_is_signed: bool

    @property
    def holds(self) -> bool:
        return self.content_has_hash and self.hash_is_under_root and self.root_is_signed


def read_proof(path: Path) -> audit_pb2.InclusionProof:
    if not path.is_file():
        raise UsageError(f"{path}: there is no such file", "give what `podium audit prove` wrote")
    try:
        return read_message(path, path.read_text(), audit_pb2.InclusionProof)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text", "give what `podium audit prove` wrote") from error


def read_public_key(path: Path) -> str:
    try:
        pem = path.read_text()
        load_public_key(pem.encode())
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableFile(path, error, "give the PEM file of the public key") from error
    except InvalidKey as error:
        raise UsageError(
            f"{path}: {error.message}", "give the PEM file of the public key"
        ) from error
    return pem


def check_proof(proof: audit_pb2.InclusionProof, public_key: str) -> ProofCheck:
    """Recomputes the entry's hash, its way to the root, and the root's signature."""
    anchor = proof.anchor
    root = DailyRoot(anchor.day, anchor.root, anchor.tenant_count, anchor.previous_root)
    content_hash = sha256(proof.previous_hash + proof.content.encode()).digest()
    return ProofCheck(
        content_has_hash=content_hash == proof.hash and _is_of(proof),
        hash_is_under_root=_entry_proof(proof).leads_to(root),
        root_is_signed=root.is_signed(anchor.signature, load_public_key(public_key.encode())),
    )


def _is_of(proof: audit_pb2.InclusionProof) -> bool:
    """Returns whether the content is the tenant's: it begins with the tenant's name."""
    try:
        content = json.loads(proof.content)
    except ValueError:
        return False
    return isinstance(content, list) and content[:1] == [proof.tenant]


def _entry_proof(proof: audit_pb2.InclusionProof) -> EntryProof:
    return EntryProof(
        sequence=proof.sequence,
        entry_hash=proof.hash,
        entry_path=tuple(proof.entry_path),
        tenant=proof.tenant,
        first_sequence=proof.first_sequence,
        last_sequence=proof.last_sequence,
        head_hash=proof.head_hash,
        tenant_index=proof.tenant_index,
        tenant_path=tuple(proof.tenant_path),
    )
