import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiohttp import web

from e2e.conftest import WholePlatform
from e2e.episodes_over_http import new_id
from podium_client import AsyncPodium, PermissionDenied

VALUE = "k3y-of-the-weather-service"
LOCAL = "127.0.0.1"


class Api:
    def __init__(self) -> None:
        self.credentials: list[str] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.credentials.append(request.headers.get("X-Api-Key", ""))
        return web.json_response({"degrees": -3})


@pytest_asyncio.fixture
async def api() -> AsyncIterator[Api]:
    api, app = Api(), web.Application()
    app.router.add_get("/weather", api.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, LOCAL, 0).start()
    api.url = f"http://{LOCAL}:{runner.addresses[0][1]}/weather"
    yield api
    await runner.cleanup()


def make_tool(name: str, url: str, secret: str) -> dict[str, object]:
    http = {
        "method": "GET",
        "url_template": url,
        "secret_header": "X-Api-Key",
        "secret": {"name": secret},
    }
    return {
        "name": name,
        "kind": "TOOL_KIND_HTTP",
        "description": "weather now",
        "parameters_json_schema": '{"type": "object"}',
        "connection": {"http": http},
        "side_effect": "SIDE_EFFECT_PURE",
        "sku": "tool/weather",
    }


async def test_a_tool_uses_what_nobody_can_read(whole: WholePlatform, api: Api) -> None:
    connection = whole.connection
    async with (
        AsyncPodium(connection.gateway_url, connection.admin_key) as admin,
        whole.client(connection.admin_key) as http,
    ):
        stored = await admin.secrets.put("weather", VALUE)
        mine = await admin.secrets.put_mine("weather", f"{VALUE}-of-mine", [LOCAL])
        listed = await admin.secrets.list().all()
        assert (stored.version, mine.hosts) == (1, [LOCAL])
        assert "weather" in {each.name for each in listed}
        for name, secret in (("e2e_tenants", "weather"), ("e2e_users", "secret://user/weather")):
            made = await http.post("/v1/tools", json={"spec": make_tool(name, api.url, secret)})
            assert made.is_success, made.text
            call_id = new_id()
            call = {"call_id": call_id, "spec": {"tool_name": name, "arguments_json": "{}"}}
            started = await http.post("/v1/direct-calls", json=call)
            assert started.is_success, started.text
            ended = await http.get(f"/v1/direct-calls/{call_id}", params={"wait": "true"})
            assert "degrees" in ended.json()["call"]["content"], ended.text
        assert api.credentials == [VALUE, f"{VALUE}-of-mine"]
        audited = (await http.get("/v1/audit-log", params={"page_size": 50})).json()
        await admin.secrets.delete_mine("weather")
        await admin.secrets.delete("weather")
    said = json.dumps(audited)
    assert "PutSecret" in said and "PutUserSecret" in said and VALUE not in said
    for path in whole.platform.state.logs.iterdir():
        assert VALUE not in path.read_text(errors="replace"), path.name


async def test_only_admins_store_secrets_of_the_tenant(whole: WholePlatform) -> None:
    connection = whole.connection
    async with AsyncPodium(connection.gateway_url, connection.admin_key) as admin:
        key = await admin.keys.create("dev", roles=["developer"])
        async with AsyncPodium(connection.gateway_url, str(key.key)) as developer:
            with pytest.raises(PermissionDenied):
                await developer.secrets.put("weather", VALUE)
            await developer.secrets.put_mine("own", VALUE, ["api.example.com"])
            await developer.secrets.delete_mine("own")
