from collections.abc import Mapping
from datetime import datetime

import pytest

from gateway.audit.attempts import RejectedAttempts
from gateway.audit.models import AuditEntry, Claimant, Json
from gateway.keys.service import KeyUses
from podium_kit.rpc.errors import Unavailable
from unit.gateway.test_limit_book import Entries

ADA, EVE = Claimant("acme", "ada", "api-key 1"), Claimant("umbrella", "eve", "api-key 2")


class Restarting(Entries):
    def __init__(self) -> None:
        super().__init__()
        self.away = True
        self.entries: list[AuditEntry] = []

    async def begin(self, entry: AuditEntry) -> None:
        if self.away:
            raise Unavailable("away")
        self.entries.append(entry)

    def counted(self) -> Json:
        return {entry.tenant: entry.requested["attempts"] for entry in self.entries}


async def test_attempts_are_counted_on_while_the_database_is_away() -> None:
    store = Restarting()
    attempts = RejectedAttempts(store)
    for who in (ADA, EVE, ADA):
        attempts.note(who, "REVOKED_API_KEY", "GET /v1/models", "1")
    with pytest.raises(Unavailable):
        await attempts.write()
    attempts.note(ADA, "REVOKED_API_KEY", "GET /v1/models", "2")
    store.away = False
    await attempts.write()
    await attempts.write()
    assert store.counted() == {"acme": 3, "umbrella": 1}
    assert len(store.entries) == 2


async def test_no_path_keeps_attempts_from_being_stored() -> None:
    store = Restarting()
    store.away = False
    attempts = RejectedAttempts(store)
    attempts.note(EVE, "WRONG_TENANT", "GET /v1/\0", "1")
    await attempts.write()
    [entry] = store.entries
    assert entry.resource == "GET /v1/\ufffd"


async def test_uses_of_keys_are_written_the_next_time() -> None:
    class Store:
        def __init__(self) -> None:
            self.away = True
            self.uses: dict[str, datetime] = {}

        async def note_uses(self, uses: Mapping[str, datetime]) -> None:
            if self.away:
                raise Unavailable("away")
            self.uses |= uses

    store = Store()
    uses = KeyUses(store)
    uses.note("1")
    with pytest.raises(Unavailable):
        await uses.write()
    uses.note("2")
    store.away = False
    await uses.write()
    assert store.uses.keys() == {"1", "2"}
