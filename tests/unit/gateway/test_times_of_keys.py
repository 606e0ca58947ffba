"""When API keys end."""

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from callers import make_identity
from gateway.audit.service import AuditLog
from gateway.keys.models import ApiKey, KeyRequest
from gateway.keys.routes import CreateApiKeyRequest
from gateway.keys.service import ApiKeys
from podium_kit.rpc.identity import Scope, acting_as
from unit.gateway.test_limit_book import Entries


class Kept:
    """A store of keys in memory."""

    def __init__(self) -> None:
        self.keys: dict[str, ApiKey] = {}

    async def insert(self, key: ApiKey) -> None:
        self.keys[key.id] = key

    async def get(self, key_id: str) -> ApiKey | None:
        return self.keys.get(key_id)

    async def list(self, tenant: str, after_id: str, limit: int) -> list[ApiKey]:
        return []

    async def revoke(self, tenant: str, key_id: str) -> ApiKey | None:
        return None

    async def replace(self, old: ApiKey, new: ApiKey) -> None:
        self.keys |= {old.id: old, new.id: new}


async def test_a_key_until_the_last_year_is_rotated() -> None:
    keys, admin = ApiKeys(Kept(), AuditLog(Entries()), cache_s=0), make_identity()
    last = datetime.max.replace(tzinfo=UTC)
    scopes = frozenset({Scope.EPISODES_RUN.value})
    with acting_as(admin):
        old, _ = await keys.issue(KeyRequest(admin.tenant, "robot", scopes, expire_time=last))
        _, new, _ = await keys.rotate(admin, old.id, timedelta(hours=1))
    assert new.expire_time == last


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00"])
def test_a_time_that_no_database_has_is_rejected(time: str) -> None:
    with pytest.raises(ValidationError, match="not in the years 1 to 9999"):
        CreateApiKeyRequest.model_validate({"subject": "robot", "expire_time": time})
