import asyncio
import logging
import os
import re
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from chart.rendering import render
from chart.test_rendering import environment
from embedded_servers import Database
from gateway.rest.routes import ROUTES
from integration.gateway.gateway_under_test import Gateway, run_gateway
from integration.gateway.scripted_episodes import make_finish
from podium_kit.embedded.ports import free_port


async def test_ready_while_everything_answers_and_not_while_draining(gateway: Gateway) -> None:
    async with gateway.http("") as http:
        assert (await http.get("/healthz")).json() == {"status": "alive"}
        ready = {"status": "ready", "unwell": [], "failing_tasks": []}
        assert (await http.get("/readyz")).json() == ready
        gateway.draining.set()
        assert (await http.get("/readyz")).status_code == 503
        assert (await http.get("/healthz")).status_code == 200


async def test_not_ready_while_a_service_is_missing(database: Database, tmp_path: Path) -> None:
    async with (
        run_gateway(await database("gateway"), tmp_path, episodes_target="127.0.0.1:1") as gateway,
        gateway.http("") as http,
    ):
        reply = await http.get("/readyz")
    assert (reply.status_code, reply.json()["unwell"]) == (503, ["episodes"])


async def test_sigterm_ends_event_streams_and_lets_a_running_chat_finish(gateway: Gateway) -> None:
    """Runs in a process of its own, because the signal is for the whole process."""
    port = free_port()
    process = await start_command(gateway.environment(port=port, drain_grace_s=20), stderr=DEVNULL)
    gateway.base_url = f"http://127.0.0.1:{port}"
    gateway.episodes.script = lambda request: []
    body = {"model": "podium", "messages": [{"role": "user", "content": "6*7?"}]}
    async with gateway.http() as http:
        await until_ready(http)
        await http.post("/v1/episodes", json={"spec": {"task": "watched"}})
        (watched,) = gateway.episodes.episodes.values()
        events = asyncio.create_task(http.get(f"/v1/episodes/{watched.current.id}/events"))
        chat = asyncio.create_task(http.post("/v1/chat/completions", json=body))
        while gateway.episodes.watching < 2:
            await asyncio.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert (await events).status_code == 200
        asked = next(each for each in gateway.episodes.episodes.values() if each is not watched)
        await asked.append(make_finish(answer="42"))
        assert (await chat).json()["choices"][0]["message"]["content"] == "42"
    assert await process.wait() == 0
    assert not gateway.episodes.cancel_reasons
    assert not watched.ended


@pytest.mark.parametrize("stream", [False, True])
async def test_a_chat_that_outlives_the_drain_is_cancelled(gateway: Gateway, stream: bool) -> None:
    port = free_port()
    process = await start_command(gateway.environment(port=port, drain_grace_s=0), stderr=DEVNULL)
    gateway.base_url = f"http://127.0.0.1:{port}"
    gateway.episodes.script = lambda request: []
    messages = [{"role": "user", "content": "6*7?"}]
    body = {"model": "podium", "messages": messages, "stream": stream}
    async with gateway.http() as http:
        await until_ready(http)
        chat = asyncio.create_task(http.post("/v1/chat/completions", json=body))
        while not gateway.episodes.watching:
            await asyncio.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
        with suppress(httpx.TransportError):
            await chat
    assert gateway.episodes.cancel_reasons.keys() == gateway.episodes.episodes.keys()


async def test_it_listens_on_both_families_as_the_chart_asks_for_dual_stack(
    gateway: Gateway,
) -> None:
    asked = environment(render({"dualStack": True}), "gateway")
    port, metrics = free_port(), free_port()
    settings: dict[str, object] = {
        "host": asked["HOST"],
        "port": port,
        "telemetry__metrics_host": asked["TELEMETRY__METRICS_HOST"],
        "telemetry__metrics_port": metrics,
    }
    process = await start_command(gateway.environment(**settings), stderr=DEVNULL)
    for host in ("127.0.0.1", "[::1]"):
        async with httpx.AsyncClient(base_url=f"http://{host}:{port}", trust_env=False) as http:
            await until_ready(http)
            assert (await http.get(f"http://{host}:{metrics}/metrics")).is_success
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0


async def test_the_openapi_document_has_every_route_and_every_reference_resolves(
    gateway: Gateway,
) -> None:
    reply = await gateway.get("/openapi.json", key="")
    document = reply.json()
    for route in ROUTES:
        assert route.method.lower() in document["paths"][route.path]
    assert "post" in document["paths"]["/v1/chat/completions"]
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', reply.text))
    assert names <= set(document["components"]["schemas"])
    ids = re.findall(r'"operationId":"([^"]+)"', reply.text)
    assert len(ids) == len(set(ids)) > len(ROUTES)


async def test_the_console_loads_nothing_from_elsewhere(gateway: Gateway) -> None:
    async with gateway.http("") as http:
        page = await http.get("/console")
        links = re.findall(r'(?:src|href)="([^"#]+)"', page.text)
        files = [await http.get(link) for link in links]
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    assert links and all(link.startswith("/console/") for link in links)
    assert {file.status_code for file in files} == {200}
    # Scripts name documentation of their libraries; the policy lets them load nothing of it.
    shown = page.text + "".join(each.text for each in files if each.url.path.endswith(".css"))
    assert not re.search(r"https?://(?!www\.w3\.org)", shown)


async def test_prompts_and_keys_stay_out_of_the_log(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "gateway")
    body = {"model": "podium", "messages": [{"role": "user", "content": "my-secret-task"}]}
    await gateway.post("/v1/chat/completions", json=body, headers={"x-request-id": "abc-1"})
    await gateway.get("/v1/tools?query=my-secret-task")
    logged = "\n".join(record.getMessage() for record in caplog.records)
    assert "POST /v1/chat/completions 200" in logged
    assert "request abc-1" in logged
    assert "my-secret-task" not in logged
    assert gateway.key not in logged


async def test_a_path_of_any_length_is_one_short_line_of_the_log(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "gateway")
    await gateway.get("/v1/" + "A" * 60_000, key="")
    lines = [each.getMessage() for each in caplog.records if "/v1/AAA" in each.getMessage()]
    assert lines
    assert max(map(len, lines)) < 1_000


async def test_the_command_makes_the_first_key(gateway: Gateway) -> None:
    given = {"GATEWAY_DATABASE_URL": gateway.database_url}
    made = await run_command(given, "keys", "create", "--tenant", "acme", "--subject", "root")
    assert made[0] == 0
    assert (await gateway.get("/v1/api-keys", key=made[1].strip())).status_code == 200


async def test_the_command_rejects_an_unknown_scope(gateway: Gateway) -> None:
    given = {"GATEWAY_DATABASE_URL": gateway.database_url}
    arguments = ("keys", "create", "--tenant", "acme", "--subject", "root", "--scopes", "god")
    code, _, complaint = await run_command(given, *arguments)
    assert code == 1
    assert "unknown scope 'god'; known are" in complaint


async def test_serving_without_settings_names_what_is_missing() -> None:
    code, _, complaint = await run_command({})
    assert code == 2
    assert "GATEWAY_DATABASE_URL" in complaint
    assert "GATEWAY_SIGNING_KEY_FILE" in complaint


async def start_command(settings: dict[str, str], *arguments: str, stderr: int = PIPE) -> Process:
    inherited = {name: value for name, value in os.environ.items() if "GATEWAY" not in name}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gateway",
        *arguments,
        env={**inherited, **settings},
        stdout=PIPE,
        stderr=stderr,
    )


async def run_command(settings: dict[str, str], *arguments: str) -> tuple[int | None, str, str]:
    process = await start_command(settings, *arguments)
    output, complaint = await process.communicate()
    return process.returncode, output.decode(), complaint.decode()


async def until_ready(http: httpx.AsyncClient) -> None:
    async with asyncio.timeout(30):
        while True:
            with suppress(httpx.TransportError):
                if (await http.get("/readyz")).status_code == 200:
                    return
            await asyncio.sleep(0.05)
