import asyncio
import base64
from pathlib import Path
from typing import Any

import asyncpg
from sqlalchemy.engine import make_url

from callers import client_channel, make_identity, make_key_pair
from embedded_servers import Database
from integration.misbehaviour.grpc_server import METHOD, descriptor_set
from integration.tool_adapters.adapters_process import adapters_process
from integration.tool_adapters.adapters_under_test import AdaptersUnderTest, running_registry
from integration.tool_adapters.repeating_server import repeating_grpc_server, repeating_web_server
from integration.tool_adapters.tool_specs import (
    ANY_OBJECT,
    define_server,
    http_spec,
    llm_spec,
    mcp_http_spec,
    mcp_spec,
    tool_spec,
)
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.adapters.v1.tool_adapter_service_pb2_grpc import ToolAdapterServiceStub
from podium.registry.v1 import tool_pb2
from podium_kit.embedded.ports import free_port

CANARY = "canary-7d1f0c52"
BASIC = base64.b64encode(f"a:{CANARY}-basic".encode()).decode()
# The tool whose server repeats the secret in what is no JSON.
BROKEN = "api-2"
COMPLAINT = "import os, sys; sys.exit('bad token ' + os.environ['TOKEN'])"


def secret(kind: str) -> tool_pb2.SecretRef:
    return tool_pb2.SecretRef(name=kind)


def ways(web_url: str) -> list[tool_pb2.HttpAuth]:
    oauth2 = tool_pb2.OAuth2ClientCredentials(
        token_url=f"{web_url}/token", client_id="podium", client_secret=secret("oauth2")
    )
    return [
        tool_pb2.HttpAuth(bearer=secret("bearer")),
        tool_pb2.HttpAuth(basic=tool_pb2.BasicAuth(username="a", password=secret("basic"))),
        tool_pb2.HttpAuth(query=tool_pb2.QueryAuth(parameter="key", secret=secret("query"))),
        tool_pb2.HttpAuth(oauth2_client_credentials=oauth2),
    ]


def tools(web_url: str, grpc_target: str) -> list[tool_pb2.ToolSpec]:
    grpc_connection = tool_pb2.GrpcConnection(
        target=grpc_target,
        method=METHOD,
        descriptor_set=descriptor_set(),
        secret=secret("grpc"),
        plaintext=True,
    )
    http: dict[str, Any] = {"http": {"secret": secret("http")}}
    mcp_http = mcp_http_spec("mcp_http", f"{web_url}/mcp")
    mcp_http.connection.mcp.http.secret.name = "mcp-http"
    specs = [
        http_spec(f"{web_url}/accept", **http),
        http_spec(f"{web_url}/reject", **http),
        http_spec(f"{web_url}/broken", **http),
        *(http_spec(f"{web_url}/accept", http={"auth": auth}) for auth in ways(web_url)),
        llm_spec(f"{web_url}/v1", secret="openai"),
        llm_spec(f"{web_url}/v1", "ANTHROPIC_MESSAGES", secret="anthropic"),
        mcp_spec("mcp_stdio", "complaining"),
        mcp_http,
        tool_spec("grpc", "GRPC", ANY_OBJECT, connection=tool_pb2.Connection(grpc=grpc_connection)),
    ]
    for number, spec in enumerate(specs):
        spec.name = f"{spec.name}-{number}"
        spec.side_effect = tool_pb2.SIDE_EFFECT_EFFECTFUL
    return specs


async def database_text(url: str) -> str:
    parts = make_url(url)
    connection = await asyncpg.connect(parts.set(drivername="postgresql").render_as_string(False))
    try:
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname='public'")
        rows = [
            await connection.fetch(f'SELECT t::text AS row FROM "{table["tablename"]}" t')
            for table in tables
        ]
    finally:
        await connection.close()
    return "\n".join(entry["row"] for table in rows for entry in table)


def talkative(folder: Path) -> dict[str, str]:
    secrets = (
        *("HTTP", "OPENAI", "ANTHROPIC", "MCP_STDIO", "MCP_HTTP", "GRPC"),
        *("BEARER", "BASIC", "QUERY", "OAUTH2"),
    )
    return {
        "TELEMETRY__MODE": "file",
        "TELEMETRY__FOLDER": str(folder / "spans"),
        "TELEMETRY__LOG_LEVEL": "DEBUG",
        "TELEMETRY__LOG_PROMPTS": "true",
        **{f"SECRET_{name}": f"{CANARY}-{name.lower()}" for name in secrets},
    }


def not_repeated(answer: adapters_pb.InvokeResponse) -> bool:
    return "[secret]" not in str(answer)


async def test_no_secret_is_in_answers_logs_spans_or_the_database(
    database: Database, tmp_path: Path
) -> None:
    keys, port, url = make_key_pair(), free_port(), await database("tool_adapters")
    async with (
        running_registry() as registry,
        repeating_web_server() as web_url,
        repeating_grpc_server() as grpc_target,
        client_channel(port, make_identity(), keys) as channel,
    ):
        process = adapters_process(tmp_path, port, registry.port, url, keys, talkative(tmp_path))
        process.start()
        try:
            await asyncio.wait_for(channel.channel_ready(), 60)
            stub = ToolAdapterServiceStub(channel)
            adapters = AdaptersUnderTest(port, keys, registry, stub, tmp_path / "mcp-servers")
            token = {"TOKEN": "mcp-stdio"}
            define_server(adapters.mcp_servers, "complaining", "-c", COMPLAINT, secret_env=token)
            names = [adapters.register(spec) for spec in tools(web_url, grpc_target)]
            answers = [await adapters.call(name, task="What is it?") for name in names]
        finally:
            await process.terminate()
    # The servers got their secrets and repeated them: what is left of each is its place. Only
    # broken JSON is not shown at all.
    silent = [name for name, answer in zip(names, answers, strict=True) if not_repeated(answer)]
    assert silent == [BROKEN]
    spans = "".join(file.read_text() for file in (tmp_path / "spans").iterdir())
    log = (tmp_path / "adapters.log").read_text(errors="replace")
    rows = await database_text(url)
    assert "model" in spans
    assert log
    assert "episode/0/tool/0" in rows
    for place in (str(answers), spans, log, rows):
        assert CANARY not in place
        assert CANARY.encode().hex() not in place
        assert BASIC not in place
