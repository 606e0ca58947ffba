"""Documents that people write, and the addresses in them."""

import gc
import gzip
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
import yaml
from aiohttp import web
from typer.testing import CliRunner

from podium.ledger.v1 import price_book_service_pb2
from podium.registry.v1 import policy_pb2, tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as pb
from podium_cli.app import app
from podium_cli.corpus.uploads import uploads
from podium_cli.tools.mcp_import import rejected_hosts
from podium_cli.tools.openapi_import import DOCUMENT_BYTES_MAX, read_openapi
from podium_kit.bundled_files import bundled_folder
from podium_kit.client.errors import UsageError
from podium_kit.client.gateway import Gateway
from podium_operations.documents import (
    InvalidDocument,
    as_yaml,
    read_message,
    read_messages,
    written,
)

TOOL = """
name: weather
kind: function
side_effect: pure
parameters:
  type: object
  properties: {city: {type: string}}
connection: {function: {function: weather}}
"""


def test_a_tool_may_be_written_with_short_names_and_a_schema_in_yaml() -> None:
    tool = read_message(Path("weather.yaml"), TOOL, tool_pb2.ToolSpec)
    assert tool.kind == tool_pb2.TOOL_KIND_FUNCTION
    assert tool.side_effect == tool_pb2.SIDE_EFFECT_PURE
    assert json.loads(tool.parameters_json_schema)["properties"] == {"city": {"type": "string"}}


def test_a_date_stays_the_text_it_is() -> None:
    text = "{name: d, description: 2025-02-30, parameters: {default: 2025-01-01}}"
    tool = read_message(Path("d.yaml"), text, tool_pb2.ToolSpec)
    assert tool.description == "2025-02-30"
    assert json.loads(tool.parameters_json_schema) == {"default": "2025-01-01"}


def test_money_may_be_written_as_text() -> None:
    policy = read_message(
        Path("p.yaml"), "{name: frugal, price_ceiling: 0.05 EUR}", policy_pb2.PolicySpec
    )
    assert (policy.price_ceiling.amount, policy.price_ceiling.currency_code) == ("0.05", "EUR")


def test_enums_inside_lists_and_maps_are_understood() -> None:
    text = "{name: p, allow: {kinds: [mcp, code]}, preferences: {tools: {calculator: 0.5}}}"
    policy = read_message(Path("p.yaml"), text, policy_pb2.PolicySpec)
    assert list(policy.allow.kinds) == [tool_pb2.TOOL_KIND_MCP, tool_pb2.TOOL_KIND_CODE]
    assert policy.preferences.tools["calculator"] == 0.5


def test_a_file_may_hold_several_documents_or_a_list(tmp_path: Path) -> None:
    several = tmp_path / "several.yaml"
    several.write_text(f"{TOOL}---\n{TOOL}")
    listed = tmp_path / "listed.yaml"
    listed.write_text("specs:\n- {sku: tool/a, currency_code: USD}\n- {sku: tool/b}")
    assert len(read_messages(several, tool_pb2.ToolSpec)) == 2
    prices = read_messages(listed, price_book_service_pb2.PriceSpec)
    assert [spec.sku for _, spec in prices] == ["tool/a", "tool/b"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("name: [", "YAML"),
        ("just words", "mapping"),
        ("{name: x, kindd: function}", "kindd"),
        ("{name: x, kind: teapot}", "teapot"),
        ("connection: {llm: {models: [{api: grok}]}}", 'models[0].api: there is no "grok"'),
        ("name: x\ndescription: 0x_", "'0x_' cannot be read as int; quote it"),
        ("name: x\ntimeout: !!bool maybe", "'maybe' cannot be read as bool"),
        ("parameters: {default: !!binary aGk=}", "tag:yaml.org,2002:binary"),
    ],
)
def test_what_cannot_be_read_is_rejected_by_file_and_cause(
    tmp_path: Path, text: str, named: str
) -> None:
    path = tmp_path / "tool.yaml"
    path.write_text(text)
    with pytest.raises(InvalidDocument) as rejected:
        read_messages(path, tool_pb2.ToolSpec)
    assert str(path) in rejected.value.cause
    assert named in rejected.value.cause


def test_a_missing_file_and_an_empty_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidDocument, match="no such file"):
        read_messages(tmp_path / "missing.yaml", tool_pb2.ToolSpec)
    with pytest.raises(InvalidDocument, match=r"holds no \.yaml"):
        read_messages(tmp_path, tool_pb2.ToolSpec)


def test_every_bundled_tool_and_price_can_be_read_and_every_tool_has_a_price() -> None:
    tools = [spec for _, spec in read_messages(bundled_folder() / "tools", tool_pb2.ToolSpec)]
    prices = read_messages(bundled_folder() / "prices.yaml", price_book_service_pb2.PriceSpec)
    assert len(tools) > 10
    assert {tool.sku for tool in tools} <= {spec.sku for _, spec in prices}


def test_a_character_that_json_escapes_in_two_halves_is_one() -> None:
    text = '{"name": "weather", "description": "Sun \\ud83c\\udf1e or rain"}'
    assert read_message(Path("t.json"), text, tool_pb2.ToolSpec).description == "Sun 🌞 or rain"


@pytest.fixture
def _no_finalizers() -> Iterator[None]:
    """From the depth of a recursion, those of other tests' garbage could not report a failure."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_finalizers")
def test_a_file_that_is_no_utf8_or_too_deep_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "tool.yaml"
    path.write_bytes(b"name: \x80")
    with pytest.raises(InvalidDocument, match="is not UTF-8"):
        read_messages(path, tool_pb2.ToolSpec)
    path.write_text("[" * 3000)
    with pytest.raises(InvalidDocument, match="nested too deeply"):
        read_messages(path, tool_pb2.ToolSpec)


POLICY = """
name: frugal
preset: cost-first
preferences: {tools: {calculator: 0.5}}
deny: {kinds: [code, find_tools]}
price_ceiling: 0.05 EUR
"""


def test_what_is_shown_is_what_people_write() -> None:
    tool = read_message(Path("weather.yaml"), TOOL, tool_pb2.ToolSpec)
    assert written(tool) == yaml.safe_load(TOOL)


def test_what_is_shown_can_be_applied_again() -> None:
    policy = read_message(Path("p.yaml"), POLICY, policy_pb2.PolicySpec)
    shown = as_yaml(policy)
    assert "preset: cost-first" in shown and "find_tools" in shown and "0.05 EUR" in shown
    assert read_message(Path("p.yaml"), shown, policy_pb2.PolicySpec) == policy


@pytest.mark.parametrize("path", sorted((bundled_folder() / "tools").glob("*.yaml")))
def test_a_bundled_tool_survives_being_shown(path: Path) -> None:
    [(_, tool)] = read_messages(path, tool_pb2.ToolSpec)
    again = read_message(path, as_yaml(tool), tool_pb2.ToolSpec)
    schemas = [json.loads(each.parameters_json_schema) for each in (tool, again)]
    assert schemas[0] == schemas[1]
    for each in (tool, again):
        each.parameters_json_schema = each.result_json_schema = ""
    assert again == tool


def test_an_unknown_preset_names_them_as_policies_are_named() -> None:
    with pytest.raises(InvalidDocument) as rejected:
        read_message(Path("p.yaml"), "{name: p, preset: cheapest}", policy_pb2.PolicySpec)
    assert "accuracy-first, cost-first" in rejected.value.fix


def test_an_empty_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "empty.yaml"
    for text in ("", "# nothing yet\n", "---\n---\n"):
        path.write_text(text)
        with pytest.raises(InvalidDocument, match="is empty"):
            read_messages(path, tool_pb2.ToolSpec)


def test_of_one_name_there_is_one_policy(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("name: frugal")
    (tmp_path / "b.yaml").write_text("name: careful\n---\nname: frugal")
    nowhere = ["--url", "http://127.0.0.1:1", "--api-key", "key"]
    rejected = CliRunner().invoke(app, ["policies", "apply", "-f", str(tmp_path), *nowhere])
    assert rejected.exit_code == 2
    said = "".join(rejected.stderr.split())
    assert "2policiesarenamedfrugal" in said
    assert "a.yaml" in said and "b.yaml" in said


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    found = tmp_path / "guide", tmp_path / "api"
    for folder in found:
        folder.mkdir()
        (folder / "index.md").write_text(folder.name)
    return found


def test_files_of_one_name_are_not_one_document(folders: tuple[Path, Path]) -> None:
    files = [folder / "index.md" for folder in folders]
    for named in (folders, files):
        with pytest.raises(UsageError, match=r"would both be document index\.md") as rejected:
            uploads(named)
        assert "folder that both are in" in rejected.value.fix
    [one, other] = uploads([folders[0].parent])
    assert {one.document_id, other.document_id} == {"guide/index.md", "api/index.md"}


def test_a_file_that_is_named_twice_is_added_once(folders: tuple[Path, Path]) -> None:
    assert len(uploads([folders[0], folders[0] / "index.md"])) == 1


TOO_MUCH = b"x" * (DOCUMENT_BYTES_MAX + 1)


async def large(_: web.Request) -> web.Response:
    return web.Response(body=TOO_MUCH)


async def packed(_: web.Request) -> web.Response:
    return web.Response(body=gzip.compress(TOO_MUCH), headers={"content-encoding": "gzip"})


@pytest_asyncio.fixture
async def server() -> AsyncIterator[str]:
    app = web.Application()
    app.add_routes([web.get("/large", large), web.get("/packed", packed)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.mark.parametrize(
    ("path", "cause"),
    [
        ("large", "larger than 20 MiB"),
        # Compressed it is small enough, but compression was not requested.
        ("packed", "cannot be fetched"),
        ("nowhere", "404"),
    ],
)
async def test_what_is_no_document_of_that_size_is_rejected(
    server: str, path: str, cause: str
) -> None:
    async with Gateway(server, "key") as gateway:
        with pytest.raises(UsageError, match=cause):
            await read_openapi(gateway, f"{server}/{path}", pb.ReadOpenApiRequest())


def http(url: str) -> tool_pb2.ToolSpec:
    connection = tool_pb2.HttpConnection(method="GET", url_template=url)
    return tool_pb2.ToolSpec(connection=tool_pb2.Connection(http=connection))


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://127.0.0.1:8099/{city}", "127.0.0.1"),
        ("http://localhost/", "localhost"),
        ("https://10.1.2.3/", "10.1.2.3"),
        ("http://[::1]:80/", "::1"),
        ("http://169.254.169.254/latest", "169.254.169.254"),
        ("http://rates.shop.svc.cluster.local/", "rates.shop.svc.cluster.local"),
        ("http://rates/", "rates"),
        ("http://rates.shop.svc.example/", "rates.shop.svc.example"),
        ("http://rates.test/", "rates.test"),
    ],
)
def test_a_private_host_is_named(url: str, host: str) -> None:
    assert rejected_hosts(http(url)) == [host]
    assert rejected_hosts(http(url), allowed=[host]) == []


def test_a_host_that_is_allowed_to_one_tenant_is_named_to_others() -> None:
    private, allowed = http("http://erp.internal/"), ["acme/ERP.internal", "zeta/10.0.0.1"]
    assert rejected_hosts(private, allowed, "acme") == []
    assert rejected_hosts(private, allowed, "zeta") == ["erp.internal"]
    assert rejected_hosts(private, allowed) == ["erp.internal"]


@pytest.mark.parametrize(
    "url", ["https://api.example.com/v1", "http://1.1.1.1/", "http://[bad/", ""]
)
def test_what_may_be_public_is_not(url: str) -> None:
    assert rejected_hosts(http(url)) == []


def test_every_kind_that_connects_is_looked_at() -> None:
    model = tool_pb2.LlmModel(base_url="http://127.0.0.1:8000/v1")
    endpoint = tool_pb2.LlmEndpoint(base_url="http://127.0.0.1:8001/v1")
    replicated = tool_pb2.LlmModel(endpoints=[endpoint])
    mcp = tool_pb2.McpHttp(url="http://127.0.0.1/mcp")
    kinds = [
        tool_pb2.Connection(mcp=tool_pb2.McpConnection(http=mcp)),
        tool_pb2.Connection(llm=tool_pb2.LlmConnection(models=[model, model])),
        tool_pb2.Connection(llm=tool_pb2.LlmConnection(models=[replicated])),
        tool_pb2.Connection(grpc=tool_pb2.GrpcConnection(target="dns:///127.0.0.1:443")),
    ]
    for connection in kinds:
        assert rejected_hosts(tool_pb2.ToolSpec(connection=connection)) == ["127.0.0.1"]
