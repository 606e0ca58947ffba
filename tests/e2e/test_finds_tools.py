"""A task that nothing offered fits: the model finds a tool, calls it and answers."""

from typing import Any

from e2e.conftest import FINDING_TASK, WholePlatform
from e2e.episodes_over_http import entries, finished, start, trajectory


async def test_a_tool_that_was_not_offered_is_found_and_called(whole: WholePlatform) -> None:
    async with whole.client() as client:
        episode_id = await start(client, task=FINDING_TASK, tool_names=[])
        episode = await finished(client, episode_id)
        found = await trajectory(client, episode_id)
        charged = await entries(client, episode_id)
    assert episode["answer"] == "42"
    looked, used = (only_call(turn) for turn in found["turns"][:2])
    assert "calculator" in [tool["name"] for tool in looked["found_tools"]]
    assert "calculator: Calculates exactly" in looked["observation"]["content"]
    assert used["observation"]["content"] == "42"
    # The first prompt lists eight tools and find_tools, without the calculator; later ones have it.
    prompts = [
        each["messages"][0]["content"]
        for each in whole.model.requests
        if FINDING_TASK in each["messages"][-1]["content"]
    ]
    assert ["- calculator(" in prompt for prompt in prompts] == [False, True, True]
    assert prompts[0].count("\n- ") == 9 and "\n- find_tools(query: string) [$0]: " in prompts[0]
    # Three decisions of the model and the call of the calculator: finding it was free.
    assert len(charged) == 4


def only_call(turn: dict[str, Any]) -> dict[str, Any]:
    [call] = turn["tool_invocations"]
    return dict(call)
