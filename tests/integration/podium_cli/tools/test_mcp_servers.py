"""Tools of MCP servers through the whole platform: resources and odd servers, too."""

import json
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from mcp import Client, MCPError, types
from mcp.client.streamable_http import streamable_http_client

from integration.podium_cli.conftest import CommandLine
from integration.podium_cli.episodes.test_clamping import api
from integration.podium_cli.episodes.test_direct_calls import experts, ledger_entries, prices
from integration.podium_cli.episodes.test_fallback_models import PRICES
from openai_server import OpenAiServer

__all__ = ["experts", "prices"]
SUM = {"expression": "6*7"}


@asynccontextmanager
async def client_of(podium: CommandLine) -> AsyncIterator[Client]:
    connection = json.loads((podium.state_dir / "connection.json").read_text())
    headers = {"Authorization": f"Bearer {connection['api_key']}"}
    async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=240) as http:
        url = f"{connection['gateway_url']}/v1/mcp"
        async with Client(streamable_http_client(url, http_client=http)) as client:
            yield client


async def call(client: Client, name: str, **given: Any) -> tuple[str, dict[str, Any], bool]:
    meta: Any = {"podium": given.pop("podium", {})}
    result = await client.call_tool(name, given, meta=meta)
    [content] = result.content
    assert isinstance(content, types.TextContent)
    return content.text, (result.meta or {}).get("podium", {}), result.is_error


async def test_a_tool_of_the_policy_is_called_held_and_charged_once(
    podium: CommandLine,
) -> None:
    with api(podium) as http:
        spec = http.get("/v1/tools/calculator").json()["tool"]["spec"]
        # The function is the operator's, and so is its price, under any name.
        own = {**spec, "name": "own_sums", "sku": "own/mcp/sums"}
        rejected = http.post("/v1/tools", json={"spec": own})
        assert rejected.status_code == 400
        assert f"name {spec['sku']}" in rejected.json()["error"]["message"]
        made = http.post("/v1/tools", json={"spec": {**own, "sku": ""}})
        assert made.is_success, made.text
        assert made.json()["tool"]["spec"]["sku"] == spec["sku"]
    once = {"idempotency_key": "sums", "labels": {"team": "red"}}
    async with client_of(podium) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        first = await call(client, "own_sums", **SUM, podium=once)
        again = await call(client, "own_sums", **SUM, podium=once)
        other = await call(client, "own_sums", expression="7*7", podium=once)
        wrong = await call(client, "own_sums", colour="red")
        poor = await call(client, "own_sums", **SUM, podium={"budget_usd": "0.0000001"})
        with pytest.raises(Exception, match="there is no tool fly"):
            await client.call_tool("fly", {})
    assert first == again and not first[2]
    text, shown, _ = first
    assert "42" in text
    price = (listed["calculator"].meta or {})["podium"]["price_per_call"]["amount"]
    assert Decimal(shown["cost"]["amount"]) == Decimal(price) > 0
    assert shown["usage"]["call"] == "1"
    described = listed["own_sums"]
    assert described.input_schema["required"] == ["expression"]
    assert (described.meta or {})["podium"]["price_per_call"]["amount"] == price
    reserve, capture = ledger_entries(podium, f"{shown['call_id']}/0/tool/0")
    assert (reserve["kind"], capture["kind"]) == ("ENTRY_KIND_RESERVE", "ENTRY_KIND_CAPTURE")
    assert (capture["subject"]["tool"], capture["subject"]["team"]) == ("own_sums", "red")
    assert other[2] and "another spec" in other[0]
    # What the tool rejects never left the machine.
    assert wrong[2] and "expression" in wrong[0]
    assert (wrong[1]["failure"], wrong[1]["cost"]["amount"]) == ("INVALID_ARGUMENTS", "0")
    assert poor[2] and poor[1]["failure"] == "BUDGET_EXHAUSTED"
    with api(podium) as http:
        assert http.delete("/v1/tools/own_sums").is_success


async def test_a_model_is_asked_in_the_words_of_the_call(
    podium: CommandLine, experts: OpenAiServer
) -> None:
    async with client_of(podium) as client:
        text, shown, _ = await call(client, "expert", prompt="How many moons?", model="large")
        empty = await call(client, "expert", model="large")
    assert text == "two; I think"
    assert Decimal(shown["cost"]["amount"]) == 110 * PRICES["large"]
    assert empty[2] and "prompt is empty" in empty[0]
    [asked] = experts.requests
    assert asked["messages"] == [{"role": "user", "content": "How many moons?"}]


async def test_what_the_policy_keeps_out_is_an_error_that_says_why(podium: CommandLine) -> None:
    rules: dict[str, dict[str, Any]] = {
        "mcp-none": {"deny": {"names": ["calculator"]}},
        "mcp-asked": {"approval": {"names": ["calculator"]}},
    }
    with api(podium) as http:
        for name, rule in rules.items():
            made = http.post("/v1/policies", json={"spec": {"name": name, **rule}})
            assert made.is_success, made.text
    async with client_of(podium) as client:
        denied = await call(client, "calculator", **SUM, podium={"policy": "mcp-none"})
        asked = await call(client, "calculator", **SUM, podium={"policy": "mcp-asked"})
    assert denied[2] and denied[0].startswith("calculator is not allowed: ")
    assert asked[2] and "wait for a person's approval" in asked[0]


ANSWER = '{"thought": "", "answer": "two"}'


async def read(client: Client, uri: str) -> Any:
    """The JSON of a resource."""
    [content] = (await client.read_resource(uri)).contents
    assert isinstance(content, types.TextResourceContents)
    assert (content.mime_type, content.uri) == ("application/json", uri)
    return json.loads(content.text)


async def test_documents_are_listed_in_pages_and_searched(podium: CommandLine) -> None:
    documents = [{"id": f"d{number:03}", "content": f"moon {number}"} for number in range(101)]
    with api(podium) as http:
        put = http.put("/v1/corpora/own-moons/documents", json={"documents": documents})
        assert put.is_success, put.text
    try:
        async with client_of(podium) as client:
            listed = await client.list_resources()
            uris = {each.uri: each for each in listed.resources}
            uri = "podium://corpora/own-moons"
            first = await read(client, uri)
            second = await read(client, first["next"])
            found = await read(client, f"{uri}/search?query=moon%2042")
            templates = (await client.list_resource_templates()).resource_templates
    finally:
        with api(podium) as http:
            assert http.delete("/v1/corpora/own-moons").is_success
    assert uris[uri].description == "corpus: 101 documents"
    ids = [each["id"] for each in (*first["documents"], *second["documents"])]
    assert ids == [each["id"] for each in documents] and "next" not in second
    assert found["hits"][0]["document_id"] == "d042" and len(found["hits"]) <= 10
    assert {each.uri_template for each in templates} >= {
        "podium://corpora/{corpus}{?page_token}",
        "podium://episodes/{episode_id}/trajectory",
    }


async def test_episodes_follow_the_corpora_and_are_read(
    podium: CommandLine, model: OpenAiServer
) -> None:
    model.push(ANSWER)
    ran = podium("run", "How many moons has Mars?", "--json")
    episode = json.loads(ran.stdout.splitlines()[-1])["finished"]["episode"]
    uri = f"podium://episodes/{episode['id']}"
    async with client_of(podium) as client:
        page = await client.list_resources()
        assert all(each.uri.startswith("podium://corpora/") for each in page.resources)
        page = await client.list_resources(cursor=page.next_cursor)
        newest = page.resources[0]
        shown = await read(client, uri)
        trajectory = await read(client, f"{uri}/trajectory")
    assert (newest.uri, newest.title) == (uri, "How many moons has Mars?")
    assert newest.description == "episode: answered"
    assert shown["episode"]["answer"] == "two"
    assert trajectory["trajectory"]["episode_id"] == episode["id"]


async def test_what_is_not_there_is_an_error_of_the_protocol(podium: CommandLine) -> None:
    async with client_of(podium) as client:
        for uri in (
            "podium://episodes/0190a000-0000-7000-8000-000000000000",
            "podium://corpora/nobody/search?query=x",
            "podium://keys/1",
            "file:///etc/passwd",
            "podium://episodes/",
        ):
            with pytest.raises(MCPError, match="there is no") as missing:
                await client.read_resource(uri)
            assert missing.value.code == -32002
        for cursor in ("keys ", "episodes x", "\0"):
            with pytest.raises(MCPError) as wrong:
                await client.list_resources(cursor=cursor)
            assert wrong.value.code == types.INVALID_PARAMS


PROGRAM = Path(__file__).parent / "odd_mcp_program.py"


@pytest.fixture
def odd(podium: CommandLine, tmp_path: Path) -> str:
    """A server that the operator defined."""
    # The sandbox's user owns nothing.
    tmp_path.chmod(0o755)
    shutil.copy(PROGRAM, tmp_path)
    argv = [sys.executable, str(tmp_path / PROGRAM.name)]
    definition = {"argv": argv, "folders": [str(tmp_path)]}
    (podium.state_dir / "mcp-servers" / "odd.yaml").write_text(yaml.safe_dump(definition))
    return "odd"


def test_what_is_right_is_imported_and_what_is_left_out_is_named(
    podium: CommandLine, odd: str
) -> None:
    """Public reports 20, 22 and 27."""
    imported = podium("tools", "import-mcp", "--shared", "--prefix", "odd_", odd)
    assert imported.returncode == 1
    assert "odd_send v1 registered" in imported.stdout
    said = " ".join(imported.stderr.split())
    for words in (
        "left out: broken: inputSchema",
        "left out: tools[2]: name: Field required",
        "names its page 'again' twice",
        "$.properties.mail.pattern is left to the tool's server",
        "2 of 3 tools are left out",
    ):
        assert words in said
    again = podium("tools", "import-mcp", "--shared", "--prefix", "odd_", odd, "--skip-wrong")
    assert (again.returncode, "odd_send v1 unchanged" in again.stdout) == (0, True)
    shown = " ".join(podium("tools", "show", "odd_send").stdout.split())
    assert "$.properties.mail.pattern is left to the tool's server" in shown
    tried = podium("tools", "try", "odd_send", '{"mail": "xa@b"}')
    assert "sent" in tried.stdout and "type video a:b" in tried.stdout


def test_following_says_what_was_taken_and_what_was_not(podium: CommandLine, odd: str) -> None:
    """Public report 28."""
    followed = podium("tools", "follow-mcp", "--shared", "--prefix", "oddly_", odd)
    said = " ".join(followed.stdout.split())
    assert "oddly_ is followed: 1 of 3 tools" in said
    assert "broken is left out: inputSchema" in said
    assert "broken is left out" in " ".join(podium("tools", "followed").stdout.split())
    assert podium("tools", "unfollow-mcp", "--shared", "oddly_").returncode == 0


def test_headers_are_written_as_people_write_them(podium: CommandLine, odd: str) -> None:
    """Public report 30."""
    wrong = podium("tools", "import-mcp", "--secret-header", "X-API-Key", "https://example.com/mcp")
    assert wrong.returncode == 2 and "'X-API-Key: my-key'" in wrong.stderr
    none = podium("tools", "import-mcp", "--header", "X-Region: eu", odd)
    assert none.returncode == 2 and "takes no headers" in none.stderr
