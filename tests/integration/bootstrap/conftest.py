"""A PostgreSQL that asks for passwords, and a namespace to keep Secrets in."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio
import yaml
from sqlalchemy import make_url

from chart.rendering import Json, merged, of_kind, profile, render
from embedded_servers import THROWN_AWAY
from integration.bootstrap.namespace_server import NamespaceServer
from podium_kit.embedded.postgres import EmbeddedPostgres
from podium_operations.bootstrap.cluster_objects import ClusterObjects
from podium_operations.bootstrap.settings import Plan
from temporary_files import server_folder

# Roles but the superuser's prove who they are.
HBA = "local all postgres trust\nlocal all all scram-sha-256\n"
MAKER = "CREATE ROLE maker LOGIN CREATEDB CREATEROLE PASSWORD 'it''s a/secret'"


@pytest_asyncio.fixture
async def postgres() -> AsyncIterator[EmbeddedPostgres]:
    """A server of the test's own: roles belong to all of it."""
    with server_folder("bootstrap") as folder:
        folder.chmod(0o711)
        hba = folder / "pg_hba.conf"
        hba.write_text(HBA)
        hba.chmod(0o644)
        settings = {**THROWN_AWAY, "hba_file": str(hba)}
        server = EmbeddedPostgres(folder / "data", settings=settings)
        await server.start()
        yield server
        await server.stop()


@pytest_asyncio.fixture
async def admin_url(postgres: EmbeddedPostgres, namespace: NamespaceServer) -> str:
    url = make_url(postgres.dsn("postgres"))
    host = str(url.query["host"])
    connection = await asyncpg.connect(host=host, user="postgres", database="postgres")
    await connection.execute(MAKER)
    await connection.close()
    owned = url.set(drivername="postgresql", username="maker", password="it's a/secret")
    text = owned.render_as_string(hide_password=False)
    namespace.put_secret("podium-postgres-admin", {"url": text})
    return text


@pytest.fixture
def namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NamespaceServer]:
    server = NamespaceServer(tmp_path, monkeypatch)
    yield server
    server.close()


@pytest.fixture
def objects(namespace: NamespaceServer) -> ClusterObjects:
    return ClusterObjects("podium", "podium", namespace.account)


def planned(values: Json | None = None) -> Plan:
    """The plan that the chart writes for the minimal profile and these values."""
    rendered = render(merged(profile("minimal-cpu"), values or {}))
    maps = of_kind(rendered, "ConfigMap")
    [text] = [one["data"]["plan.yaml"] for one in maps if "plan.yaml" in one["data"]]
    return Plan(**yaml.safe_load(text))
