from e2e.conftest import CLIENT_TASK, SLOW_TASK, WholePlatform
from sdks.typescript_client import build, run


async def test_it_runs_episodes_and_manages_a_tenant(whole: WholePlatform) -> None:
    await build()
    env = {
        "PODIUM_URL": whole.connection.gateway_url,
        "PODIUM_API_KEY": whole.connection.api_key,
        "PODIUM_ADMIN_KEY": whole.connection.admin_key,
        "CLIENT_TASK": CLIENT_TASK,
        "SLOW_TASK": SLOW_TASK,
    }
    await run("node", "--test", "test/platform.test.mjs", env=env)
