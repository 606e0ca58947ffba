"""Signs, once a day, a root over the ends of all tenants' journals, and proves entries under it."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from cost_ledger.audit.models import Anchor, AnchoredHead, Head
from cost_ledger.audit.store_anchors import AnchorStore
from cost_ledger.errors import NothingAnchored
from podium_kit.anchors import (
    DailyRoot,
    EntryProof,
    TenantHead,
    audit_path,
    head_leaf,
    leaf_hash,
    public_pem,
    root_of_heads,
    tree_root,
)

INTERVAL_S = 60.0
DAY = timedelta(days=1)


class Anchors:
    """Without a key nothing is signed, but earlier roots still prove entries."""

    def __init__(self, store: AnchorStore, key: Ed25519PrivateKey | None) -> None:
        self._store = store
        self._key = key

    async def page(self, after: str, limit: int) -> list[Anchor]:
        return await self._store.page(after, limit)

    async def sign_yesterday(self) -> None:
        now = datetime.now(UTC)
        await self.sign_day(now.date() - DAY, now)

    async def sign_day(self, day: date, now: datetime) -> Anchor | None:
        last = await self._store.last()
        if self._key is None or (last and last.root.day >= day.isoformat()):
            return None
        # An entry of the next day goes under that day's root.
        ended = _midnight(day + DAY)
        heads = [await self._tenant_head(head) for head in await self._store.heads(ended)]
        if not heads:
            return None
        previous = last.root.root if last else b""
        root = DailyRoot(day.isoformat(), root_of_heads(heads), len(heads), previous)
        pem = public_pem(self._key.public_key())
        anchor = Anchor(root, root.sign(self._key), pem, now)
        # Another replica may have been faster.
        return anchor if await self._store.add(anchor, _anchored(heads)) else None

    async def late_s(self, now: datetime) -> float | None:
        """Returns the seconds since the oldest unsigned day should have been signed; None without
        a key."""
        if self._key is None:
            return None
        last = await self._store.last()
        today = _midnight(now.date())
        if last is None:
            # Where nothing was posted before today, there is nothing to sign.
            return (now - today).total_seconds() if await self._store.heads(today) else 0.0
        due = _midnight(date.fromisoformat(last.root.day)) + 2 * DAY
        return max((now - due).total_seconds(), 0.0)

    async def prove(self, tenant: str, sequence: int) -> tuple[EntryProof, Anchor]:
        """Proves an entry under the first root that covers it. Raises NothingAnchored."""
        found = await self._store.covering(tenant, sequence)
        if found is None:
            raise NothingAnchored(sequence)
        anchor, anchored = found
        head = anchored.head
        hashes = await self._store.hashes(tenant, head.first_sequence, head.last_sequence)
        index = sequence - head.first_sequence
        return EntryProof(
            sequence=sequence,
            entry_hash=hashes[index],
            entry_path=tuple(audit_path([leaf_hash(each) for each in hashes], index)),
            tenant=tenant,
            first_sequence=head.first_sequence,
            last_sequence=head.last_sequence,
            head_hash=head.head_hash,
            tenant_index=anchored.tenant_index,
            tenant_path=anchored.tenant_path,
        ), anchor

    async def _tenant_head(self, head: Head) -> TenantHead:
        first = head.anchored_sequence + 1
        hashes = await self._store.hashes(head.tenant, first, head.sequence)
        # In a thread: a day of a large tenant takes seconds, in which others post.
        entries_root = await asyncio.to_thread(_entries_root, hashes)
        return TenantHead(head.tenant, first, head.sequence, head.hash, entries_root)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)


def _entries_root(hashes: Sequence[bytes]) -> bytes:
    return tree_root([leaf_hash(each) for each in hashes])


def _anchored(heads: Sequence[TenantHead]) -> list[AnchoredHead]:
    leaves = [head_leaf(head) for head in heads]
    return [
        AnchoredHead(head, index, tuple(audit_path(leaves, index)))
        for index, head in enumerate(heads)
    ]
