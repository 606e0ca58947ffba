"""Tools whose results are the answer of an episode."""

from integration.tool_registry.builders import make_llm_spec, make_model, make_spec
from integration.tool_registry.running_registry import RunningRegistry, rejected
from podium.registry.v1 import tool_pb2


async def test_an_episode_is_told_which_tools_give_its_answer(registry: RunningRegistry) -> None:
    ada = registry.as_()
    spec = make_llm_spec(make_model("answer-1"), name="answer")
    spec.gives_answer = True
    await ada.register(spec)
    await ada.register(make_spec("calculator"))
    tools = {tool.name: tool.gives_answer for tool in (await ada.resolve()).toolset.tools}
    assert tools == {"answer": True, "calculator": False}


async def test_an_embedder_gives_none(registry: RunningRegistry) -> None:
    spec = make_llm_spec(make_model("vectors", api=tool_pb2.LLM_API_OPENAI_EMBEDDINGS))
    spec.connection.llm.role = tool_pb2.LLM_ROLE_EMBEDDER
    spec.gives_answer = True
    error = await rejected(registry.as_().register(spec))
    assert "gives_answer is set" in (error.details() or "")
