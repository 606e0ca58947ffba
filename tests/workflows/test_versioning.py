import uuid

from episodes.workflows.connection import TemporalConnection, connect_temporal
from episodes.workflows.settings import TemporalSettings
from episodes.workflows.versioning import CurrentVersion
from podium_kit.embedded.temporal import EmbeddedTemporal
from workflows.running_workflows import make_current, running_workflows
from workflows.scripted_activities import ScriptedActivities, answers_in


async def test_an_episode_is_pinned_to_the_current_version_and_completes(
    temporal: EmbeddedTemporal,
) -> None:
    client = await connect_temporal(temporal.target, "default")
    version = (f"episodes-{uuid.uuid4().hex}", "build-1")
    activities = ScriptedActivities(answers_in(2))
    async with running_workflows(client, activities, version) as workflows:
        await make_current(client, *version)
        handle = await workflows.start()
        assert (await handle.result()).stop_reason == "answered"
        info = (await handle.describe()).raw_description.workflow_execution_info
    assert info.versioning_info.behavior == 1
    assert info.versioning_info.deployment_version.build_id == "build-1"


async def test_workers_of_the_current_version_alone_lease_episodes(
    temporal: EmbeddedTemporal,
) -> None:
    connection = await TemporalConnection.open(temporal.target, "default", TemporalSettings())
    name = f"episodes-{uuid.uuid4().hex}"
    first, second = (CurrentVersion(connection, name, build) for build in ("build-1", "build-2"))

    async def current() -> tuple[bool, bool]:
        await first.follow()
        await second.follow()
        return first.is_current, second.is_current

    assert await current() == (False, False)
    activities = ScriptedActivities(answers_in(2))
    async with (
        running_workflows(connection.client, activities, (name, "build-1")),
        running_workflows(connection.client, activities, (name, "build-2")),
    ):
        await make_current(connection.client, name, "build-1")
        assert await current() == (True, False)
        await make_current(connection.client, name, "build-2")
        assert await current() == (False, True)
    assert CurrentVersion(connection, "", "").is_current
