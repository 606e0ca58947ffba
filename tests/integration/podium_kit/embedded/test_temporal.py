from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client

from podium_kit.embedded.errors import PortTaken
from podium_kit.embedded.ports import free_port
from podium_kit.embedded.temporal import EmbeddedTemporal


@pytest.fixture
async def temporal(tmp_path: Path) -> AsyncIterator[EmbeddedTemporal]:
    server = EmbeddedTemporal(tmp_path, free_port(), search_attributes={"Tenant": "Keyword"})
    await server.start()
    yield server
    await server.kill()


async def start_workflow(temporal: EmbeddedTemporal) -> None:
    client = await Client.connect(temporal.target)
    await client.start_workflow("Waiting", "a question", id="episode-1", task_queue="nobody")


async def test_a_workflow_survives_kill_9_of_the_server(temporal: EmbeddedTemporal) -> None:
    await start_workflow(temporal)
    await temporal.kill()
    await temporal.start()
    client = await Client.connect(temporal.target)
    history = await client.get_workflow_handle("episode-1").fetch_history()
    started = history.events[0].workflow_execution_started_event_attributes
    assert started.input.payloads[0].data == b'"a question"'


async def test_a_workflow_survives_a_restart_on_another_port(
    temporal: EmbeddedTemporal, tmp_path: Path
) -> None:
    await start_workflow(temporal)
    await temporal.stop()
    successor = EmbeddedTemporal(tmp_path, free_port())
    await successor.start()
    client = await Client.connect(successor.target)
    description = await client.get_workflow_handle("episode-1").describe()
    assert description.workflow_type == "Waiting"
    await successor.stop()


async def test_the_database_runs_in_write_ahead_mode(
    temporal: EmbeddedTemporal, tmp_path: Path
) -> None:
    assert await temporal.answers()
    assert (tmp_path / "temporal.db-wal").exists()


async def test_a_taken_port_is_rejected_with_the_name_of_its_holder(
    temporal: EmbeddedTemporal, tmp_path: Path
) -> None:
    second = EmbeddedTemporal(tmp_path / "second", temporal.port)
    with pytest.raises(PortTaken, match=rf"temporal \(process {temporal.process.pid}\)"):
        await second.start()
    assert not (tmp_path / "second" / "temporal.db").exists()
