import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from builders.media_files import attached, make_pdf
from callers import client_channel, make_identity, make_key_pair
from embedded_servers import Database
from integration.cost_ledger.builders import make_record
from integration.cost_ledger.running_ledger import running_ledger
from integration.episodes.neighbours import answer
from integration.episodes.platform_under_test import (
    Platform,
    finished,
    run_platform,
    start,
)
from integration.episodes.test_attachments import readers, starting
from integration.episodes.test_evaluations import create, evaluation, item
from integration.podium_cli.conftest import CommandLine
from integration.podium_operations.test_backups import connected, rows
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.episodes.v1.evaluation_service_pb2_grpc import EvaluationServiceStub
from podium_kit.anchors import load_public_key
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.temporal import EmbeddedTemporal
from podium_operations.backups.databases import URL_VARIABLES
from podium_operations.erasure.erasing import EpisodesRun, Receipt, Whose, erase, signed

Urls = Mapping[str, str]
ADA, BOB, OTHER = "canary of ada", "canary of bob", "canary of another tenant"
KEY = """
    INSERT INTO api_keys (id, tenant, subject, scopes, secret_hash, create_time)
    VALUES ($1, $2, $3, '{}', $4, now())
"""
SECRET = """
    INSERT INTO secrets (tenant, subject, name, version, hosts, key_id, wrapped_key, nonce,
                         ciphertext, updated_by)
    VALUES ($1, $2, 'token', 1, '{}', '1', '', '', $3, $2)
"""
WORKSPACE = """
    WITH blob AS (INSERT INTO workspace_blobs VALUES ($1, sha256($3), $3)),
        workspace AS (INSERT INTO workspaces VALUES ($1, $2, '1'))
    INSERT INTO workspace_pieces VALUES ($1, $2, 1, sha256($3))
"""
CORPUS = "INSERT INTO corpora (owner, name) VALUES ($1, $2)"
BINDING = "INSERT INTO policy_bindings VALUES ($1, 'user:' || $2, 'floor', now(), 'admin')"
POLICY = "INSERT INTO policies VALUES ($1, $2, 1, '', 'd', now(), $3)"
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
ENTRIES = "SELECT tenant, sequence, user_id, hash FROM entry ORDER BY tenant, sequence"


@pytest_asyncio.fixture
async def platform(
    database: Database, temporal: EmbeddedTemporal, kafka: EmbeddedKafka, tmp_path: Path
) -> AsyncIterator[Platform]:
    async with run_platform(await database("episodes"), temporal, kafka, tmp_path) as running:
        yield running


@pytest_asyncio.fixture
async def urls(platform: Platform, database: Database, tmp_path: Path) -> Urls:
    """Two users of acme and one of globex: episodes, ratings, keys, secrets, charges."""
    services = ("cost_ledger", "tool_registry", "tool_adapters", "gateway")
    made = {name: await database(name) for name in services}
    people = (("acme", "ada", ADA), ("acme", "bob", BOB), ("globex", "eve", OTHER))
    for tenant, subject, canary in people:
        episode_id = await episode_of(platform, tenant, subject, canary)
        await evaluation_of(platform, tenant, subject, canary)
        async with connected(made["gateway"]) as connection:
            await connection.execute(KEY, canary, tenant, subject, canary.encode())
        async with connected(made["tool_adapters"]) as connection:
            await connection.execute(SECRET, tenant, subject, canary.encode())
            await connection.execute(CORPUS, tenant, canary)
            await connection.execute(WORKSPACE, tenant, episode_id, canary.encode())
        async with connected(made["tool_registry"]) as connection:
            await connection.execute(POLICY, tenant, canary, subject)
            await connection.execute(BINDING, tenant, subject)
    (tmp_path / "ledger").mkdir()
    async with running_ledger(made["cost_ledger"], tmp_path / "ledger") as ledger:
        for tenant, subject, _ in people:
            worker = ledger.as_(tenant, subject=subject).ledger
            await worker.Record(make_record(subject))
    return {**made, "episodes": platform.database_url}


async def episode_of(platform: Platform, tenant: str, subject: str, canary: str) -> str:
    """The id of an episode whose task, file and answer hold the canary, rated by its user."""
    platform.neighbours.orchestrator.decide = lambda _: answer(canary)
    platform.neighbours.registry.toolset = readers()
    file = attached("[PDF 1]", make_pdf(canary), "application/pdf")
    async with platform.client(tenant, subject) as client:
        started = await client.StartEpisode(starting(file, task=canary))
        episode = await finished(client, started.episode.id)
        await client.GiveFeedback(
            pb.GiveFeedbackRequest(episode_id=episode.id, id=subject, label="good", comment=canary)
        )
    return episode.id


async def evaluation_of(platform: Platform, tenant: str, subject: str, canary: str) -> None:
    """Creates a run of an evaluation, whose item and expected answer hold the canary."""
    identity = make_identity(tenant, subject)
    async with client_channel(platform.port, identity, platform.keys) as channel:
        await create(EvaluationServiceStub(channel), evaluation(), item(canary, expected="1"))


async def tables_with(url: str, words: str) -> set[str]:
    """Tables of which any row has the words, as text or as bytes."""
    found = set()
    async with connected(url) as connection:
        for (table,) in await connection.fetch(TABLES):
            query = f'SELECT count(*) FROM "{table}" r WHERE r::text LIKE ANY($1)'
            patterns = [f"%{words}%", f"%{words.encode().hex()}%"]
            if await connection.fetchval(query, patterns):
                found.add(table)
    return found


async def all_with(urls: Urls, words: str) -> dict[str, set[str]]:
    found = {name: await tables_with(url, words) for name, url in urls.items()}
    return {name: tables for name, tables in found.items() if tables}


async def test_a_user_is_gone_and_nobody_else(urls: Urls) -> None:
    before = {words: await all_with(urls, words) for words in (ADA, OTHER)}
    said = {"episodes", "segments", "feedback", "attachments", "evaluation_items"}
    assert said <= (await all_with(urls, BOB))["episodes"]
    journal = await rows(urls["cost_ledger"], ENTRIES)
    receipt = await erase(urls, Whose("acme", "bob"), really=True)
    assert await all_with(urls, BOB) == {
        "tool_adapters": {"corpora"},
        "tool_registry": {"policies"},
    }
    assert {words: await all_with(urls, words) for words in (ADA, OTHER)} == before
    assert await rows(urls["cost_ledger"], ENTRIES) == journal
    assert receipt.deleted["tool_adapters.workspace_blobs"] == 1
    assert receipt.deleted["episodes.episodes"] == receipt.deleted["gateway.api_keys"] == 1
    assert receipt.kept == {"cost_ledger.entry.user_id": 1, "tool_registry.policies.created_by": 1}


async def test_a_rating_of_somebody_elses_episode_goes_with_its_author(
    urls: Urls, platform: Platform
) -> None:
    async with platform.client("acme", "ada") as client:
        episode = (await client.ListEpisodes(pb.ListEpisodesRequest())).episodes[-1]
    async with platform.client("acme", "carol") as client:
        request = pb.GiveFeedbackRequest(episode_id=episode.id, id="c", comment="canary of carol")
        await client.GiveFeedback(request)
    assert (await all_with(urls, "canary of carol"))["episodes"] == {"feedback", "segments"}
    await erase(urls, Whose("acme", "carol"), really=True)
    assert not await all_with(urls, "canary of carol")
    assert len(await rows(urls["episodes"], "SELECT id FROM episodes")) == 3


async def test_a_tenant_is_gone_and_no_other(urls: Urls) -> None:
    before = await all_with(urls, OTHER)
    journal = await rows(urls["cost_ledger"], ENTRIES)
    receipt = await erase(urls, Whose("acme", None), really=True)
    for words in (ADA, BOB, "acme"):
        assert set(await all_with(urls, words)) <= {"cost_ledger"}
    assert await all_with(urls, OTHER) == before
    assert await rows(urls["cost_ledger"], ENTRIES) == journal
    assert {column.split(".")[0] for column in receipt.kept} == {"cost_ledger"}
    again = await erase(urls, Whose("acme", None), really=True)
    assert again.deleted.keys() <= {"tool_registry.catalogue_version"}


async def test_without_consent_nothing_is_deleted(urls: Urls) -> None:
    before = await all_with(urls, BOB)
    planned = await erase(urls, Whose("acme", "bob"), really=False)
    assert await all_with(urls, BOB) == before
    done = await erase(urls, Whose("acme", "bob"), really=True)
    assert done.deleted == planned.deleted


async def test_who_still_runs_episodes_is_not_erased(urls: Urls, platform: Platform) -> None:
    platform.neighbours.orchestrator.delay_s = 600.0
    async with platform.client("acme", "bob") as client:
        running = await start(client)
        with pytest.raises(EpisodesRun, match="1 of their episodes"):
            await erase(urls, Whose("acme", "bob"), really=True)
        assert (await all_with(urls, BOB))["episodes"]
        await client.CancelEpisode(pb.CancelEpisodeRequest(episode_id=running.id))
        async with asyncio.timeout(60):
            await finished(client, running.id)


async def test_the_command_writes_a_receipt_that_verifies(urls: Urls, tmp_path: Path) -> None:
    key, file = tmp_path / "key.pem", tmp_path / "receipt.json"
    key.write_text(make_key_pair().private_pem)
    variables = {variable: urls[name] for name, variable in URL_VARIABLES.items()}
    podium = CommandLine(tmp_path / "state", variables)
    options = ("--environment", "--key", str(key), "--receipt", str(file))
    planned = await asyncio.to_thread(podium, "erase", "acme", "--user", "bob", *options)
    assert planned.returncode == 0, planned.stderr
    assert "nothing was changed; give --yes" in planned.stdout
    assert not file.exists()
    done = await asyncio.to_thread(podium, "erase", "acme", "--user", "bob", *options, "--yes")
    assert done.returncode == 0, done.stderr
    assert (await all_with(urls, BOB)).keys() == {"tool_adapters", "tool_registry"}
    receipt = json.loads(file.read_text())
    signature, document = bytes.fromhex(receipt["signature"]), receipt["document"].encode()
    load_public_key(receipt["public_key"].encode()).verify(signature, document)
    for wrong, fix in (
        (("erase", " ", *options), "name a tenant"),
        (("erase", "acme", options[0]), "give --key"),
    ):
        rejected = await asyncio.to_thread(podium, *wrong)
        assert (rejected.returncode, fix in rejected.stderr) == (2, True)


def test_a_receipt_is_signed_and_a_changed_one_is_not() -> None:
    receipt = Receipt("podium erasure receipt v1", "acme", "bob", "2026-01-01", {"a.b": 1}, {})
    file: dict[str, Any] = signed(receipt, Ed25519PrivateKey.generate())
    key = load_public_key(file["public_key"].encode())
    key.verify(bytes.fromhex(file["signature"]), file["document"].encode())
    assert json.loads(file["document"])["deleted"] == {"a.b": 1}
    with pytest.raises(InvalidSignature):
        key.verify(bytes.fromhex(file["signature"]), file["document"].replace("1", "2").encode())
