from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from cost_ledger.audit.anchoring import Anchors
from cost_ledger.audit.store_anchors import AnchorStore
from cost_ledger.errors import NothingAnchored
from integration.cost_ledger.audit.auditor import as_superuser, fill, verified
from integration.cost_ledger.builders import make_record
from integration.cost_ledger.running_ledger import Client, RunningLedger, as_service
from podium_kit.anchors import load_public_key
from podium_kit.postgres.engine import open_engine

# Of tomorrow, so that what a test posts now is before the day's end.
DAY = datetime.now(UTC).date() + timedelta(days=1)


async def test_every_entry_has_a_proof_until_the_journal_is_rewritten(
    ledger: RunningLedger, worker: Client
) -> None:
    await fill(ledger)
    await ledger.as_("bravo").ledger.Record(make_record("x"))
    engine = open_engine(as_service(ledger.database_url))
    anchors = Anchors(AnchorStore(engine), Ed25519PrivateKey.generate())
    now = datetime.now(UTC)
    first = await anchors.sign_day(DAY, now)
    await worker.ledger.Record(make_record("later"))
    with pytest.raises(NothingAnchored):
        await anchors.prove("acme", 10)
    second = await anchors.sign_day(DAY + timedelta(days=1), now)
    assert first and second and second.root.previous_root == first.root.root
    assert await anchors.sign_day(DAY, now) is None
    for sequence in range(1, 11):
        proof, anchor = await anchors.prove("acme", sequence)
        assert anchor.root == (second if sequence == 10 else first).root
        assert proof.leads_to(anchor.root)
        key = load_public_key(anchor.public_key.encode())
        assert anchor.root.is_signed(anchor.signature, key)
    assert await verified(worker) == []
    # Anyone who recomputes the whole chain cannot recompute what was signed.
    await as_superuser(
        ledger.database_url, "UPDATE entry SET hash = sha256(hash) WHERE sequence = 4"
    )
    assert "I9 roots" in {finding.rule for finding in await verified(worker)}
    await engine.dispose()


async def test_an_entry_of_the_next_day_is_under_no_root_of_the_day_before(
    ledger: RunningLedger, worker: Client
) -> None:
    engine = open_engine(as_service(ledger.database_url))
    anchors = Anchors(AnchorStore(engine), Ed25519PrivateKey.generate())
    now, yesterday = datetime.now(UTC), DAY - timedelta(days=2)
    await worker.ledger.Record(make_record("first"))
    # Soon after the first midnight of a new platform: all that was posted is of today.
    assert await anchors.sign_day(yesterday, now) is None
    assert await anchors.late_s(now) == 0
    with pytest.raises(NothingAnchored):
        await anchors.prove("acme", 1)
    assert await anchors.sign_day(DAY, now)
    _, anchor = await anchors.prove("acme", 1)
    assert anchor.root.day == DAY.isoformat()
    # A day without entries repeats the end that the journal had.
    idle = await anchors.sign_day(DAY + timedelta(days=1), now)
    assert idle and idle.root.tenant_count == 1
    assert await verified(worker) == []
    await engine.dispose()


async def test_an_unsigned_day_is_late_from_the_midnight_at_which_it_is_due(
    ledger: RunningLedger, worker: Client
) -> None:
    engine = open_engine(as_service(ledger.database_url))
    anchors = Anchors(AnchorStore(engine), Ed25519PrivateKey.generate())
    after = datetime(DAY.year, DAY.month, DAY.day, tzinfo=UTC) + timedelta(days=2)
    # There is nothing to sign.
    assert await anchors.late_s(after) == 0
    await worker.ledger.Record(make_record())
    assert await anchors.late_s(after + timedelta(hours=3)) == 3 * 3600
    await anchors.sign_day(DAY, after)
    assert await anchors.late_s(after) == 0
    assert await anchors.late_s(after + timedelta(days=2)) == 2 * 86_400
    assert await Anchors(AnchorStore(engine), None).late_s(after + timedelta(days=9)) is None
    await engine.dispose()
