import asyncio
import json
from pathlib import Path
from typing import Any

import mcp_types
import pytest

from callers import make_identity
from podium.adapters.v1 import tool_adapter_service_pb2 as pb
from podium_kit.rpc.identity import acting_as
from tool_adapters.errors import DiscoveryFailed
from tool_adapters.following.errors import TooManyFollowed
from tool_adapters.following.models import FollowedServer
from tool_adapters.following.service import FOLLOWED_MAX, FollowedServers
from tool_adapters.mcp.convert import discovery_to_proto
from tool_adapters.mcp.discovery import PAGES_MAX, TOOLS_MAX, Discovery, discovery_of
from tool_adapters.mcp.messages import read_message
from tool_adapters.models import McpHttp, McpStdio

LISTS = Path(__file__).parents[2] / "data" / "mcp_tool_lists.json"
OBJECT = {"type": "object"}
GOOD = {"name": "good", "inputSchema": OBJECT}


class Lists:
    server_info = None

    def __init__(self, *pages: dict[str, Any]) -> None:
        self._pages = pages
        self.asked = 0

    async def list_tools(self, cursor: str | None) -> mcp_types.ListToolsResult:
        page = self._pages[min(self.asked, len(self._pages) - 1)]
        self.asked += 1
        message = read_message(json.dumps({"jsonrpc": "2.0", "id": 1, "result": page}))
        assert isinstance(message, mcp_types.JSONRPCResponse)
        return mcp_types.ListToolsResult.model_validate(message.result, by_name=False)


async def discovered(*pages: dict[str, Any]) -> Discovery:
    client: Any = Lists(*pages)
    return await discovery_of(client, "acme")


async def specs_of(*tools: Any, prefix: str = "") -> pb.DiscoverMcpToolsResponse:
    found = await discovered({"tools": list(tools)})
    return discovery_to_proto(found, pb.DiscoverMcpToolsRequest(name_prefix=prefix))


async def names_of(*names: str) -> dict[str, str]:
    found = await specs_of(*({"name": name, "inputSchema": OBJECT} for name in names))
    return {spec.connection.mcp.tool_name: spec.name for spec in found.specs}


@pytest.mark.parametrize(
    ("wrong", "name", "words"),
    [
        ({"inputSchema": OBJECT}, "tools[1]", "name: Field required"),
        ({"name": "", "inputSchema": OBJECT}, "tools[1]", "name: Field required"),
        ({"name": 7, "inputSchema": OBJECT}, "tools[1]", "name: Field required"),
        ("a tool", "tools[1]", "valid dictionary"),
        (None, "tools[1]", "valid dictionary"),
        ({"name": "bad", "inputSchema": "object"}, "bad", "inputSchema: Input should be"),
        ({"name": "bad", "inputSchema": {"type": "array"}}, "bad", "the root must be an object"),
        ({"name": "good", "description": "other", "inputSchema": OBJECT}, "good", "this name"),
    ],
)
async def test_one_malformed_tool_is_left_out_by_name_and_no_other(
    wrong: Any, name: str, words: str
) -> None:
    found = await specs_of(GOOD, wrong, {**GOOD, "name": "last"})
    assert [spec.name for spec in found.specs] == ["good", "last"]
    [skipped] = found.skipped
    assert skipped.name == name
    assert words in skipped.reason


@pytest.mark.parametrize(
    "odd",
    [
        {"name": "odd"},
        {"name": "odd", "inputSchema": None},
        {"name": "odd", "inputSchema": {}},
        {"name": "odd", "inputSchema": {"properties": {"x": {"type": "string"}}}},
        {"name": "odd", "inputSchema": {"type": None, "$schema": 7}},
        {"name": "odd", "inputSchema": OBJECT, "description": 7, "title": []},
        {"name": "odd", "inputSchema": OBJECT, "annotations": {"readOnlyHint": "yes", "x": 1}},
        {"name": "odd", "inputSchema": OBJECT, "annotations": "none", "icons": "none"},
        {"name": "odd", "inputSchema": OBJECT, "outputSchema": {"type": "array"}},
        {"name": "odd", "inputSchema": OBJECT, "outputSchema": "any", "execution": 3},
        {"name": "odd", "inputSchema": OBJECT, "description": "x" * 10_000},
    ],
)
async def test_what_a_tool_means_is_understood_also_where_the_protocol_says_more(odd: Any) -> None:
    found = await specs_of(odd, GOOD)
    assert [spec.name for spec in found.specs] == ["odd", "good"]
    assert not found.skipped
    assert json.loads(found.specs[0].parameters_json_schema)["type"] == "object"


async def test_what_is_left_to_the_server_is_named() -> None:
    mail = {"type": "string", "pattern": "^(?!x)"}
    found = await specs_of(
        {
            "name": "send",
            "inputSchema": {**OBJECT, "properties": {"mail": mail}},
            "outputSchema": {**OBJECT, "properties": {"id": {"$ref": "#/nowhere"}}},
        }
    )
    pattern, reference = found.specs[0].notices
    assert pattern.startswith("inputSchema: $.properties.mail.pattern is left to the tool's server")
    assert reference.startswith("outputSchema: $.properties.id.$ref is left to the tool's server")


async def test_a_cursor_that_comes_again_ends_the_list_with_what_was_read() -> None:
    found = await discovered({"tools": [GOOD], "nextCursor": "x"})
    assert [tool.name for tool in found.tools] == ["good"]
    assert not found.skipped
    [notice] = found.notices
    assert "'x' twice" in notice
    circle = [
        {"tools": [{**GOOD, "name": f"t{at}"}], "nextCursor": "ab"[at % 2]} for at in range(4)
    ]
    assert len((await discovered(*circle)).tools) == 3


@pytest.mark.parametrize("cursor", [None, "", [], {}])
async def test_what_names_no_page_ends_the_list(cursor: Any) -> None:
    found = await discovered({"tools": [GOOD], "nextCursor": cursor})
    assert (len(found.tools), found.notices) == (1, ())


async def test_a_name_here_depends_on_nothing_but_the_name_there() -> None:
    names = ["a_b", "a.b", "a b", "a/b", "1st", "x" * 80, "x" * 81, "ä", "getWeather"]
    together = await names_of(*names)
    assert together == await names_of(*reversed(names))
    for name in names:
        assert await names_of(name) == {name: together[name]}
    assert (together["a_b"], together["getWeather"]) == ("a_b", "getWeather")
    assert len(set(together.values())) == len(names)
    assert all(len(name) <= 64 for name in together.values())
    assert together["a.b"].startswith("a_b_")


async def test_the_published_servers_list_63_tools_and_all_are_read() -> None:
    count = 0
    for tools in json.loads(LISTS.read_text()).values():
        found = await specs_of(*tools)
        assert [spec.name for spec in found.specs] == [tool["name"] for tool in tools]
        assert not any(spec.notices for spec in found.specs)
        count += len(found.specs)
    assert count == 63


def test_a_tool_keeps_what_its_server_adds_and_nothing_under_names_of_ours() -> None:
    added = {"vendor": {"price": 1}, "podium/type": "array"}
    tool = {"name": "a", "inputSchema": {"type": "object"}, "_meta": added}
    message = read_message(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": [tool]}}))
    assert isinstance(message, mcp_types.JSONRPCResponse)
    [read] = message.result["tools"]
    assert read["_meta"] == {"vendor": {"price": 1}}


async def test_a_tenants_list_of_many_tools_keeps_no_other_list_waiting() -> None:
    properties = {f"p{at}": {"type": "string"} for at in range(500)}
    schema = {"type": "object", "properties": properties}
    tools = [{"name": f"t{at}", "inputSchema": schema} for at in range(20)]
    floods = [asyncio.create_task(discovered({"tools": tools})) for _ in range(5)]
    await asyncio.sleep(0)
    other: Any = Lists({"tools": [GOOD]})
    assert len((await discovery_of(other, "bank")).tools) == 1
    assert not any(flood.done() for flood in floods)
    for flood in floods:
        flood.cancel()
    await asyncio.gather(*floods, return_exceptions=True)


class Kept:
    def __init__(self) -> None:
        self.servers: dict[str, FollowedServer] = {}
        self.allowed: list[str] = []

    async def require(self, _: McpStdio | McpHttp) -> None: ...

    async def allow(self, server: FollowedServer) -> None:
        self.allowed.append(server.id)

    async def others(self, server: FollowedServer) -> int:
        known = self.servers.values()
        return sum(each.owner == server.owner and each.id != server.id for each in known)

    async def follow(self, server: FollowedServer) -> FollowedServer:
        self.servers[server.id] = server
        return server


def server_of(owner: str, number: int) -> FollowedServer:
    return FollowedServer(f"{owner}-{number}", owner, b"", McpHttp("https://mcp.example.com/mcp"))


async def test_a_tenant_follows_so_many_servers_and_may_change_each_of_them() -> None:
    kept: Any = Kept()
    following = FollowedServers(kept, kept, kept)
    with acting_as(make_identity("acme")):
        for number in range(FOLLOWED_MAX):
            await following.follow(server_of("acme", number))
        await following.follow(server_of("acme", 0))
        with pytest.raises(TooManyFollowed, match="unfollow one of them first"):
            await following.follow(server_of("acme", FOLLOWED_MAX))
    with acting_as(make_identity("other")):
        await following.follow(server_of("other", 0))
    assert f"acme-{FOLLOWED_MAX}" not in kept.allowed


class Pages:
    server_info = None

    def __init__(self, pages: int, tools: int, description: str = "Does it.") -> None:
        self._pages, self._tools, self._description = pages, tools, description
        self.asked = 0

    async def list_tools(self, cursor: str | None) -> mcp_types.ListToolsResult:
        self.asked += 1
        tools = [
            mcp_types.Tool(
                name=f"tool-{self.asked}-{number}",
                description=self._description,
                input_schema={"type": "object"},
            )
            for number in range(self._tools)
        ]
        more = str(self.asked) if self.asked < self._pages else None
        return mcp_types.ListToolsResult(tools=tools, next_cursor=more)


async def count_of(pages: Pages) -> int:
    client: Any = pages
    return len((await discovery_of(client, "acme")).tools)


async def test_every_page_is_read() -> None:
    assert await count_of(Pages(PAGES_MAX, TOOLS_MAX // PAGES_MAX)) == TOOLS_MAX


@pytest.mark.parametrize(
    ("pages", "words"),
    [
        (Pages(10**9, 0), "more than 100 pages"),
        (Pages(10**9, 500), "more than 2000 tools"),
        (Pages(10**9, 10, "x" * 200_000), "or 8 MiB"),
    ],
)
async def test_a_list_without_end_is_rejected_when_it_is_too_long(pages: Pages, words: str) -> None:
    with pytest.raises(DiscoveryFailed, match=words):
        await count_of(pages)
    assert pages.asked <= PAGES_MAX


async def test_a_list_that_is_none_is_the_servers_fault_and_says_where() -> None:
    class Nonsense(Pages):
        async def list_tools(self, cursor: str | None) -> mcp_types.ListToolsResult:
            return mcp_types.ListToolsResult.model_validate({"tools": [{"name": "s3cr3t" * 999}]})

    with pytest.raises(DiscoveryFailed, match=r"tools\.0\.inputSchema: Field required") as failed:
        await count_of(Nonsense(1, 1))
    assert "s3cr3t" not in failed.value.message
