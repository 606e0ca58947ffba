from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from callers import make_identity
from episodes.admission.checks import TOOLSET_BYTES_MAX, ToolOffers
from episodes.clients import FittingRequest, RegistryClient
from episodes.competence.posterior import Posterior
from episodes.competence.service import CompetenceRecords
from podium.episodes.v1.episode_pb2 import EpisodeSpec
from podium.registry.v1 import tool_pb2, toolset_pb2
from podium_kit.rpc.identity import acting_as

PLACES = 3
ADA, BOB = make_identity("acme", "ada"), make_identity("acme", "bob")


class Registry:
    """Offers so many tools, and counts how often it is asked."""

    def __init__(self, tools: int) -> None:
        self.names = [f"tool-{number}" for number in range(tools)]
        self.asked = 0

    async def resolve(
        self,
        _policy: str,
        _names: Sequence[str],
        _fitting: FittingRequest | None,
        _price_factors: Mapping[str, str],
        _client_tools: Sequence[tool_pb2.ClientTool],
    ) -> toolset_pb2.Toolset:
        self.asked += 1
        estimates = [toolset_pb2.CallEstimate()]
        tools = [toolset_pb2.ResolvedTool(name=name, estimates=estimates) for name in self.names]
        return toolset_pb2.Toolset(tools=tools)


class Records:
    """Knows that the first tool is right in sums."""

    async def of(self, task: str, _same: set[str]) -> dict[str, Posterior]:
        return {"tool-0": Posterior(10.0, 9.0, 0.9)} if task == "sums" else {}


def offers_of(registry: Registry) -> ToolOffers:
    offers = ToolOffers(
        cast("RegistryClient", registry), cast("CompetenceRecords", Records()), PLACES
    )
    offers.known.drop(are_announced=True)
    return offers


ASKED = [
    (PLACES - 1, {}, 1),
    (PLACES, {}, 2),
    (PLACES + 1, {}, 2),
    (PLACES + 1, {"tool_names": ["tool-0"]}, 1),
    (TOOLSET_BYTES_MAX // 8, {"tool_names": ["tool-0"]}, 2),
    (1, {"price_factors": {"tool/tool-0": "2"}}, 2),
    (1, {"client_tools": [tool_pb2.ClientTool(name="weather")]}, 2),
]


@pytest.mark.parametrize(("tools", "fields", "asked"), ASKED)
async def test_a_toolset_that_no_task_changes_is_resolved_once(
    tools: int, fields: dict[str, Any], asked: int
) -> None:
    registry = Registry(tools)
    offers = offers_of(registry)
    with acting_as(ADA):
        first = await offers.of(EpisodeSpec(task="sums", **fields))
        second = await offers.of(EpisodeSpec(task="poems", **fields))
    assert [tool.name for tool in first.tools] == [tool.name for tool in second.tools]
    assert registry.asked == asked


async def test_records_of_one_task_are_not_those_of_the_next() -> None:
    offers = offers_of(Registry(1))
    with acting_as(ADA):
        sums, poems, again = [
            await offers.of(EpisodeSpec(task=task)) for task in ("sums", "poems", "sums")
        ]
    assert sums == again
    assert sums.tools[0].estimates[0].HasField("competence")
    assert not poems.tools[0].estimates[0].HasField("competence")


async def test_a_caller_a_policy_and_a_change_have_toolsets_of_their_own() -> None:
    registry = Registry(1)
    offers = offers_of(registry)
    for caller, policy in ((ADA, ""), (BOB, ""), (ADA, "mine"), (ADA, "")):
        with acting_as(caller):
            await offers.of(EpisodeSpec(task="sums", policy=policy))
    assert registry.asked == 3
    offers.known.drop(are_announced=True)
    with acting_as(ADA):
        await offers.of(EpisodeSpec(task="sums"))
    assert registry.asked == 4
