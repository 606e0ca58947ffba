import asyncio
import base64
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import grpc
import pytest
import pytest_asyncio
from sqlalchemy import text
from sqlalchemy.engine import make_url

from callers import client_channel, make_identity, make_key_pair
from embedded_servers import Database
from integration.misbehaviour.grpc_server import METHOD, descriptor_set
from integration.tool_adapters.adapters_under_test import (
    AdaptersUnderTest,
    adapters_process,
    run_adapters,
    running_registry,
)
from integration.tool_adapters.servers import (
    CLIENT_SECRET,
    WebServer,
    repeating_grpc_server,
    repeating_web_server,
    token_server,
)
from integration.tool_adapters.tool_specs import (
    ANY_OBJECT,
    define_server,
    http_spec,
    llm_spec,
    mcp_http_spec,
    mcp_spec,
    tool_spec,
)
from podium.adapters.v1 import secret_service_pb2 as pb
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.adapters.v1.secret_service_pb2_grpc import SecretServiceStub
from podium.adapters.v1.tool_adapter_service_pb2_grpc import ToolAdapterServiceStub
from podium.common.v1 import failure_pb2
from podium.registry.v1 import tool_pb2
from podium_kit.embedded.ports import free_port
from podium_kit.postgres.engine import open_engine
from podium_kit.rpc.identity import Scope

if TYPE_CHECKING:
    from podium.adapters.v1.secret_service_pb2_grpc import SecretServiceAsyncStub

VALUE = "tok-3n-of-the-tenant"
LOCAL = "127.0.0.1"
WEAK = (
    *("hunter2", " Nairobi ", "population", '"population":', "CAPITALS", "12345678", "2024-01-01"),
    *("aaaaaaaaaaaaaaaaaaaa", "abababababab", "password1", "Password123!", "--------", "1.50e+308"),
)
USER = (Scope.EPISODES_RUN,)


def master_key(key_id: str) -> str:
    return f"{key_id} {base64.b64encode(os.urandom(32)).decode()}\n"


class Vault:
    def __init__(self, adapters: AdaptersUnderTest, database_url: str, keys: Path) -> None:
        self.adapters = adapters
        self.keys = keys
        self._engine = open_engine(database_url)

    @asynccontextmanager
    async def secrets(
        self, tenant: str = "acme", subject: str = "ada", scopes: Any = (Scope.TENANT_ADMIN,)
    ) -> AsyncIterator["SecretServiceAsyncStub"]:
        identity = make_identity(tenant, subject, scopes)
        async with client_channel(self.adapters.port, identity, self.adapters.keys) as channel:
            yield SecretServiceStub(channel)

    async def put(self, name: str = "weather", value: str = VALUE, **caller: Any) -> pb.Secret:
        async with self.secrets(**caller) as stub:
            return (await stub.PutSecret(pb.PutSecretRequest(name=name, value=value))).secret

    async def put_users(
        self, subject: str, value: str, *hosts: str, name: str = "mine", tenant: str = "acme"
    ) -> pb.Secret:
        request = pb.PutUserSecretRequest(name=name, value=value, hosts=hosts)
        async with self.secrets(tenant, subject, USER) as stub:
            return (await stub.PutUserSecret(request)).secret

    async def call(
        self,
        tool: str,
        subject: str = "ada",
        groups: tuple[str, ...] = (),
        tenant: str = "acme",
    ) -> adapters_pb.InvokeResponse:
        identity = make_identity(tenant, subject, groups=groups)
        async with client_channel(self.adapters.port, identity, self.adapters.keys) as channel:
            return await ToolAdapterServiceStub(channel).Invoke(
                adapters_pb.InvokeRequest(
                    key=f"e/{os.urandom(4).hex()}/tool/0",
                    episode_id="e",
                    tool_name=tool,
                    tool_version=1,
                    arguments_json="{}",
                )
            )

    async def rows(self) -> list[Any]:
        async with self._engine.connect() as connection:
            return list(await connection.execute(text("SELECT * FROM secrets ORDER BY name")))

    async def change(self, statement: str) -> None:
        async with self._engine.begin() as connection:
            await connection.execute(text(statement))

    async def close(self) -> None:
        await self._engine.dispose()


@pytest_asyncio.fixture
async def vault(database: Database, tmp_path: Path) -> AsyncIterator[Vault]:
    keys, url = tmp_path / "master-keys", await database("tool_adapters")
    keys.write_text(master_key("first"))
    async with (
        running_registry() as registry,
        run_adapters(
            url,
            tmp_path,
            registry,
            master_keys_file=keys,
            master_key_check_s=0.1,
            allowed_hosts={LOCAL},
        ) as adapters,
    ):
        vault = Vault(adapters, url, keys)
        yield vault
        await vault.close()


def with_bearer(vault: Vault, web: WebServer, secret: str, *, shared: bool = False) -> str:
    bearer = tool_pb2.SecretRef(name=secret)
    auth = {"auth": tool_pb2.HttpAuth(bearer=bearer)}
    return vault.adapters.register(http_spec(f"{web.url}/echo/x", http=auth), shared=shared)


def sent(web: WebServer) -> list[str]:
    return [each["headers"]["authorization"].removeprefix("Bearer ") for each in web.seen]


@pytest.mark.parametrize("reference", ["weather", "secret://weather"])
async def test_a_tenants_tool_uses_its_secret_and_its_new_value_at_once(
    vault: Vault, web: WebServer, reference: str
) -> None:
    tool = with_bearer(vault, web, reference)
    missing = await vault.call(tool)
    assert "PUT /v1/secrets" in missing.failure.message
    assert (await vault.put()).version == 1
    await vault.call(tool)
    assert (await vault.put(value="another-value")).version == 2
    await vault.call(tool)
    assert sent(web) == [VALUE, "another-value"]


async def test_no_answer_and_no_row_holds_a_value(vault: Vault, web: WebServer) -> None:
    stored = await vault.put()
    async with vault.secrets() as stub:
        listed = await stub.ListSecrets(pb.ListSecretsRequest())
    assert [(each.name, each.updated_by) for each in listed.secrets] == [("weather", "ada")]
    assert VALUE not in str(stored) + str(listed)
    [row] = await vault.rows()
    assert all(VALUE.encode() not in bytes(field) for field in row if isinstance(field, bytes))
    assert VALUE not in str(row)
    tool = vault.adapters.register(
        http_spec(
            f"{web.url}/echo/{VALUE}",
            http={"auth": tool_pb2.HttpAuth(bearer=tool_pb2.SecretRef(name="weather"))},
        ),
        shared=False,
    )
    assert VALUE not in str(await vault.call(tool))


async def test_a_secret_is_of_one_tenant(vault: Vault) -> None:
    await vault.put()
    async with vault.secrets(tenant="umbrella") as stub:
        assert not (await stub.ListSecrets(pb.ListSecretsRequest())).secrets
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await stub.DeleteSecret(pb.DeleteSecretRequest(name="weather"))
    assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
    async with vault.secrets(subject="bob", scopes=USER) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as denied:
            await stub.PutSecret(pb.PutSecretRequest(name="weather", value="mine"))
    assert denied.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_a_row_that_is_moved_to_another_tenant_opens_for_nobody(
    vault: Vault, web: WebServer
) -> None:
    await vault.put(tenant="umbrella")
    await vault.change("UPDATE secrets SET tenant = 'acme'")
    answer = await vault.call(with_bearer(vault, web, "weather"))
    assert answer.failure.kind == failure_pb2.FAILURE_KIND_PERMISSION_DENIED
    assert not web.seen


async def test_a_users_secret_acts_for_that_user_at_that_users_hosts(
    vault: Vault, web: WebServer
) -> None:
    await vault.put_users("ada", "of-ada-alone", LOCAL)
    await vault.put_users("bob", "of-bob-alone", "api.example.com")
    for shared in (True, False):
        tool = with_bearer(vault, web, "secret://user/mine", shared=shared)
        assert not (await vault.call(tool, "ada")).HasField("failure")
        elsewhere = await vault.call(tool, "bob")
        nobody = await vault.call(tool, "eve")
        assert "may be sent to api.example.com alone" in elsewhere.failure.message
        assert "eve has no secret mine" in nobody.failure.message
    assert sent(web) == ["of-ada-alone"] * 2
    async with vault.secrets(subject="bob", scopes=USER) as stub:
        listed = await stub.ListUserSecrets(pb.ListUserSecretsRequest())
        await stub.DeleteUserSecret(pb.DeleteUserSecretRequest(name="mine"))
        left = await stub.ListUserSecrets(pb.ListUserSecretsRequest())
    assert [list(each.hosts) for each in listed.secrets] == [["api.example.com"]]
    assert not left.secrets


async def test_a_users_key_of_a_model_goes_to_that_users_hosts_alone(
    vault: Vault, web: WebServer
) -> None:
    await vault.put_users("ada", "of-ada-alone", LOCAL)
    reference = tool_pb2.SecretRef(name="secret://user/mine")
    spec = llm_spec("", "ANTHROPIC_MESSAGES")
    del spec.connection.llm.models[1]
    for url in (web.url.replace(LOCAL, "localhost"), web.url):
        spec.connection.llm.models[0].endpoints.add(base_url=f"{url}/v1", secret=reference)
    vault.adapters.register(spec)
    await vault.call(spec.name)
    [asked] = web.seen
    assert asked["headers"]["host"] == web.url.removeprefix("http://")
    assert asked["headers"]["x-api-key"] == "of-ada-alone"


async def test_a_key_that_another_person_created_reads_no_secrets_of_its_user(
    vault: Vault, web: WebServer
) -> None:
    await vault.put_users("bob", "of-bob-alone-77", LOCAL)
    tool = with_bearer(vault, web, "secret://user/mine")
    stolen = await vault.call(tool, "bob", groups=("creator:mallory", "role:developer"))
    assert "mallory had the text of this key of bob" in stolen.failure.message
    assert not sent(web)
    identity = make_identity("acme", "bob", USER, ("creator:mallory",))
    async with client_channel(vault.adapters.port, identity, vault.adapters.keys) as channel:
        stub = SecretServiceStub(channel)
        for asked in (
            stub.ListUserSecrets(pb.ListUserSecretsRequest()),
            stub.DeleteUserSecret(pb.DeleteUserSecretRequest(name="mine")),
            stub.PutUserSecret(pb.PutUserSecretRequest(name="mine", value="x", hosts=[LOCAL])),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as denied:
                await asked
            assert denied.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert not (await vault.call(tool, "bob", groups=("creator:bob",))).HasField("failure")


async def test_tokens_that_a_users_client_secret_gets_are_that_users(vault: Vault) -> None:
    async with token_server() as server:
        oauth2 = tool_pb2.OAuth2ClientCredentials(
            token_url=f"{server.url}/token",
            client_id="podium",
            client_secret=tool_pb2.SecretRef(name="secret://user/mine"),
        )
        auth = {"auth": tool_pb2.HttpAuth(oauth2_client_credentials=oauth2)}
        spec = http_spec(f"{server.url}/api", http=auth)
        await vault.put_users("ada", CLIENT_SECRET, LOCAL)
        await vault.put_users("bob", "not-the-secret", LOCAL)
        # Another person of the same name.
        await vault.put_users("ada", "not-the-secret", LOCAL, tenant="evil")
        for shared in (True, False):
            server.given = 0
            tool = vault.adapters.register(spec, shared=shared)
            assert not (await vault.call(tool, "ada")).HasField("failure")
            others = [await vault.call(tool, "bob")]
            others += [await vault.call(tool, "ada", tenant="evil")] if shared else []
            assert all("invalid_client" in each.failure.message for each in others)
            assert not (await vault.call(tool, "ada")).HasField("failure")
            assert server.given <= 1


async def test_a_new_master_key_takes_over_and_the_old_one_can_go(
    vault: Vault, web: WebServer
) -> None:
    await vault.put()
    [before] = await vault.rows()
    vault.keys.write_text(vault.keys.read_text() + master_key("second"))
    while (await vault.rows())[0].key_id != "second":
        await asyncio.sleep(0.05)
    [after] = await vault.rows()
    assert after.ciphertext == before.ciphertext and after.wrapped_key != before.wrapped_key
    vault.keys.write_text(vault.keys.read_text().splitlines(keepends=True)[-1])
    assert not (await vault.call(with_bearer(vault, web, "weather"))).HasField("failure")
    assert sent(web) == [VALUE]


async def test_a_master_key_that_is_gone_is_named(vault: Vault, web: WebServer) -> None:
    await vault.put()
    vault.keys.write_text(master_key("other"))
    answer = await vault.call(with_bearer(vault, web, "weather"))
    assert "the master key first is not in the file any more" in answer.failure.message


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("", "x", "name"),
        ("../x", "x", "name"),
        ("user/x", "x", "name"),
        ("a" * 65, "x", "name"),
        ("x", "", "value"),
        ("x", "x" * 16_385, "value"),
        # Too short or too common: words of answers, in which they would be blanked.
        *(("x", value, "value: it") for value in WEAK),
    ],
)
async def test_what_cannot_be_stored_is_named(
    vault: Vault, name: str, value: str, said: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as rejected:
        await vault.put(name, value)
    assert rejected.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert (rejected.value.details() or "").startswith(said)


@pytest.mark.parametrize(
    "value", ["s3cr3t-v", "correct horse battery staple", "gHp3kd9Q", "onlylowercaseletters"]
)
async def test_a_value_that_no_answer_holds_by_chance_is_stored(vault: Vault, value: str) -> None:
    assert (await vault.put("x", value)).version == 1


async def test_a_users_secret_is_as_strong_as_a_tenants(vault: Vault) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="single word or number"):
        await vault.put_users("ada", "population", LOCAL)


async def test_one_tenants_secret_blanks_nothing_for_another(vault: Vault, web: WebServer) -> None:
    await vault.put()
    await vault.call(with_bearer(vault, web, "weather"))
    repeating = vault.adapters.register(http_spec(f"{web.url}/echo/{VALUE}"), shared=False)
    async with vault.adapters.as_caller("bank") as stub:
        request = adapters_pb.InvokeRequest(
            key="bank/1/tool/0", episode_id="bank", tool_name=repeating, tool_version=1
        )
        answer = await stub.Invoke(request)
    # Neither broken nor, as an oracle, different from any other guess.
    assert VALUE in answer.output.content
    assert "[secret]" not in str(answer)


@pytest.mark.parametrize("hosts", [(), ("https://api.example.com",), ("API.example.com",)])
async def test_a_users_secret_names_hosts(vault: Vault, hosts: tuple[str, ...]) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="hosts"):
        await vault.put_users("ada", VALUE, *hosts)


async def test_without_master_keys_nothing_is_stored_and_mounted_secrets_work(
    adapters: AdaptersUnderTest, web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOL_ADAPTERS_SECRET_WEATHER", "mounted")
    async with client_channel(adapters.port, make_identity(), adapters.keys) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await SecretServiceStub(channel).PutSecret(pb.PutSecretRequest(name="x", value=VALUE))
    assert "TOOL_ADAPTERS_MASTER_KEYS_FILE" in (rejected.value.details() or "")
    auth = {"auth": tool_pb2.HttpAuth(bearer=tool_pb2.SecretRef(name="secret://weather"))}
    await adapters.call(adapters.register(http_spec(f"{web.url}/echo/x", http=auth)))
    assert sent(web) == ["mounted"]


CANARY = "canary-7d1f0c52"
KEY_IN_URL = "key-of-a-url"
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
    mcp_http = mcp_http_spec("mcp_http", f"{web_url}/mcp?key={KEY_IN_URL}")
    mcp_http.connection.mcp.http.secret.name = "mcp-http"
    specs = [
        http_spec(f"{web_url}/accept?key={KEY_IN_URL}", **http),
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
    assert KEY_IN_URL not in log
