import asyncio
from typing import Any

import asyncpg
import pytest
from sqlalchemy import make_url

from integration.bootstrap.conftest import planned
from integration.bootstrap.namespace_server import NamespaceServer
from podium_kit.embedded.postgres import EmbeddedPostgres
from podium_operations.bootstrap.cluster_objects import ClusterObjects, ClusterRejected
from podium_operations.bootstrap.databases import DatabaseMaker, DatabaseRejected
from podium_operations.bootstrap.settings import Databases

SECRET = "podium-databases"
KEYS = {
    "gateway": "gateway",
    "episodes": "episodes",
    "tool-registry": "tool_registry",
    "tool-adapters": "tool_adapters",
    "cost-ledger-owner": "cost_ledger",
    "cost-ledger": "cost_ledger_service",
}


def wanted() -> Databases:
    databases = planned().databases
    assert databases
    return databases


def maker(objects: ClusterObjects) -> DatabaseMaker:
    return DatabaseMaker(objects, "made by release podium of namespace podium")


async def login(url: str, **other: str) -> asyncpg.Connection:
    """A session as the URL's role, with other parts of the URL."""
    parts = make_url(url)
    found: dict[str, Any] = {
        "host": parts.query["host"],
        "user": parts.username,
        "password": parts.password,
        "database": parts.database,
    }
    return await asyncpg.connect(**(found | other))


async def test_every_service_gets_a_database_that_only_it_can_enter(
    admin_url: str, namespace: NamespaceServer, objects: ClusterObjects
) -> None:
    made = await maker(objects).make(wanted())
    urls = namespace.secret(SECRET)
    assert {key: make_url(url).username for key, url in urls.items()} == KEYS
    assert len(set(made)) == len(made) == 6 + 5 + 1
    for url in urls.values():
        await (await login(url)).close()
    with pytest.raises(asyncpg.InvalidPasswordError):
        await login(urls["gateway"], password="another")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await login(urls["gateway"], database="cost_ledger")


async def test_the_ledgers_own_role_may_enter_and_owns_nothing(
    admin_url: str, namespace: NamespaceServer, objects: ClusterObjects
) -> None:
    await maker(objects).make(wanted())
    urls = namespace.secret(SECRET)
    owner, serving = await login(urls["cost-ledger-owner"]), await login(urls["cost-ledger"])
    await owner.execute("CREATE TABLE money (amount numeric)")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await serving.execute("DROP TABLE money")
    assert await owner.fetchval("SELECT 1 FROM pg_extension WHERE extname = 'btree_gist'")
    await owner.close()
    await serving.close()


async def test_a_second_run_changes_nothing_and_needs_no_administrator(
    admin_url: str, namespace: NamespaceServer, objects: ClusterObjects
) -> None:
    await maker(objects).make(wanted())
    before, writes = namespace.secret(SECRET), len(namespace.writes)
    del namespace.objects["secrets", "podium-postgres-admin"]
    assert await maker(objects).make(wanted()) == []
    assert namespace.secret(SECRET) == before
    assert len(namespace.writes) == writes


async def test_what_an_interrupted_run_left_is_taken_up(
    admin_url: str, namespace: NamespaceServer, objects: ClusterObjects
) -> None:
    namespace.rejects_writes = True
    with pytest.raises(ClusterRejected, match="secrets is forbidden"):
        await maker(objects).make(wanted())
    namespace.rejects_writes = False
    assert await maker(objects).make(wanted()) == []
    for url in namespace.secret(SECRET).values():
        await (await login(url)).close()


async def test_two_runs_at_once_make_everything_once(
    admin_url: str, namespace: NamespaceServer, objects: ClusterObjects
) -> None:
    runs = [maker(objects).make(wanted()) for _ in range(2)]
    made = sorted(line for lines in await asyncio.gather(*runs) for line in lines)
    assert len(set(made)) == len(made) == 12
    for url in namespace.secret(SECRET).values():
        await (await login(url)).close()


async def test_a_role_of_somebody_else_is_never_touched(
    admin_url: str,
    postgres: EmbeddedPostgres,
    namespace: NamespaceServer,
    objects: ClusterObjects,
) -> None:
    root = await login(postgres.dsn("postgres"))
    await root.execute("CREATE ROLE episodes LOGIN PASSWORD 'of another program'")
    with pytest.raises(DatabaseRejected, match="a role episodes already") as rejected:
        await maker(objects).make(wanted())
    assert "Secret podium-databases, key episodes" in rejected.value.fix
    theirs = await login(admin_url, user="episodes", password="of another program")
    await theirs.close()
    await root.close()
    assert ("secrets", SECRET) not in namespace.objects


async def test_urls_that_a_person_wrote_say_what_to_make(
    admin_url: str, namespace: NamespaceServer, objects: ClusterObjects
) -> None:
    chosen = make_url(admin_url).set(
        drivername="postgresql+asyncpg", username="front", password="chosen", database="front_door"
    )
    text = chosen.render_as_string(hide_password=False)
    namespace.put_secret(SECRET, {"gateway": text})
    made = await maker(objects).make(wanted())
    assert {"role front", "database front_door"} <= set(made)
    assert namespace.secret(SECRET)["gateway"] == text
    await (await login(text)).close()


async def test_a_missing_administrator_is_named_with_the_line_to_change(
    objects: ClusterObjects,
) -> None:
    with pytest.raises(
        DatabaseRejected, match="Secret podium-postgres-admin has no url"
    ) as missing:
        await maker(objects).make(wanted())
    assert "bootstrap.databases.enabled: false" in missing.value.fix


@pytest.mark.parametrize("text", ["no url", "postgresql://host/db"])
async def test_a_url_that_is_none_is_named_by_its_secret_and_never_shown(
    text: str, namespace: NamespaceServer, objects: ClusterObjects
) -> None:
    namespace.put_secret("podium-postgres-admin", {"url": text})
    with pytest.raises(DatabaseRejected, match="Secret podium-postgres-admin") as rejected:
        await maker(objects).make(wanted())
    assert text not in str(rejected.value)
