from collections.abc import Awaitable, Callable, Sequence

import pytest

from integration.tool_registry.builders import make_spec
from integration.tool_registry.running_registry import RunningRegistry
from podium.registry.v1 import policy_service_pb2 as policies_pb
from podium.registry.v1 import tool_registry_service_pb2 as pb
from tool_registry.tools import listing

COUNT = 5
TEXT = "x" * 1_000
Page = Callable[[str], Awaitable[tuple[Sequence[str], str]]]


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE_BYTES_MAX", 2 * len(TEXT))


async def pages(page: Page) -> list[Sequence[str]]:
    found, token = [], ""
    while True:
        names, token = await page(token)
        found.append(names)
        if not token:
            return found


async def test_tools_and_their_versions_end_a_page_by_their_bytes(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    for number in range(COUNT):
        await ada.register(make_spec(f"tool-{number}", description=TEXT))
        await ada.register(make_spec("versions", description=f"{TEXT}{number}"))
    await ada.deprecate("versions")

    async def tools(token: str) -> tuple[Sequence[str], str]:
        request = pb.ListToolsRequest(page_size=500, page_token=token, query="tool-")
        reply = await ada.tools.ListTools(request)
        return [tool.spec.name for tool in reply.tools], reply.next_page_token

    async def versions(token: str) -> tuple[Sequence[str], str]:
        request = pb.ListToolVersionsRequest(name="versions", page_size=500, page_token=token)
        reply = await ada.tools.ListToolVersions(request)
        return [str(tool.version) for tool in reply.tools], reply.next_page_token

    assert await pages(tools) == [[f"tool-{number}"] for number in range(COUNT)]
    assert await pages(versions) == [[str(COUNT - number)] for number in range(COUNT)]


async def test_policies_end_a_page_by_their_bytes(registry: RunningRegistry) -> None:
    ada = registry.as_()
    for number in range(COUNT):
        await ada.create_policy(f"policy-{number}", instruction=TEXT)

    async def policies(token: str) -> tuple[Sequence[str], str]:
        request = policies_pb.ListPoliciesRequest(page_size=500, page_token=token)
        reply = await ada.policies.ListPolicies(request)
        return [policy.spec.name for policy in reply.policies], reply.next_page_token

    # The presets come first, and are short.
    mine = [[n for n in page if n.startswith("policy-")] for page in await pages(policies)]
    assert [page for page in mine if page] == [[f"policy-{number}"] for number in range(COUNT)]
