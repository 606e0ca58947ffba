"""The platform as an MCP server: corpora and episodes of the tenant as resources."""

import json
from typing import Any

import pytest
from mcp import Client, MCPError, types

from integration.podium_cli.conftest import CommandLine
from integration.podium_cli.episodes.test_clamping import api
from integration.podium_cli.tools.test_mcp_tools import client_of
from openai_server import OpenAiServer

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
