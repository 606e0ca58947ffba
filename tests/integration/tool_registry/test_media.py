import pytest

from integration.tool_registry.builders import make_llm_spec, make_model, make_spec
from integration.tool_registry.running_registry import RunningRegistry, rejected
from podium.common.v1.attachment_pb2 import (
    MEDIA_KIND_IMAGE,
    MEDIA_KIND_PDF,
    MEDIA_KIND_UNSPECIFIED,
    MediaKind,
)
from podium.registry.v1 import policy_pb2, tool_pb2
from podium.registry.v1 import tool_registry_service_pb2 as pb

BOTH = [MEDIA_KIND_IMAGE, MEDIA_KIND_PDF]
LAWN = "How tall is the grass?"


async def test_an_episode_is_told_which_models_read_what(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_llm_spec(make_model("eyes", takes=BOTH), make_model("blind")))
    await ada.register(make_llm_spec(make_model("one", takes=BOTH[:1]), name="lens"))
    await ada.register(make_llm_spec(make_model("text"), name="writer"))
    tools = {tool.name: tool for tool in (await ada.resolve()).toolset.tools}
    assert {name: list(kinds.kinds) for name, kinds in tools["answer"].model_takes.items()} == {
        "eyes": BOTH
    }
    assert tools["answer"].description.splitlines()[1:] == [
        "- eyes: eyes is good at some things. Reads images and PDF files.",
        "- blind: blind is good at some things.",
    ]
    assert tools["lens"].description == "Answers questions. Reads images."
    assert tools["writer"].description == "Answers questions."
    assert not tools["writer"].model_takes


async def test_a_model_that_the_policy_denies_reads_nothing(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_llm_spec(make_model("eyes", takes=BOTH), make_model("blind")))
    await ada.create_policy("mine", deny=policy_pb2.ToolSelector(models=["eyes"]))
    [tool] = (await ada.resolve("mine")).toolset.tools
    assert not tool.model_takes and "Reads" not in tool.description


async def test_who_reads_what_is_attached_goes_first(registry: RunningRegistry) -> None:
    ada = registry.as_()
    for name in ("mower", "rake", "spade"):
        await ada.register(make_spec(name, description=f"Says how tall the grass is: {name}."))
    await ada.register(
        make_llm_spec(make_model("eyes", takes=BOTH[:1]), name="zoom", description="Music.")
    )
    await ada.create_policy("mine")
    request = pb.ResolveToolsetRequest(policy="mine", task=LAWN, tools_max=2)
    without = await ada.tools.ResolveToolset(request)
    request.attached.append(MEDIA_KIND_IMAGE)
    with_image = await ada.tools.ResolveToolset(request)
    assert "zoom" not in [tool.name for tool in without.toolset.tools]
    assert "zoom" in [tool.name for tool in with_image.toolset.tools]
    assert len(with_image.toolset.tools) == len(without.toolset.tools)


@pytest.mark.parametrize(
    ("takes", "role", "words"),
    [
        ([MEDIA_KIND_UNSPECIFIED], tool_pb2.LLM_ROLE_GENERALIST, "give image, pdf"),
        ([MEDIA_KIND_PDF] * 2, tool_pb2.LLM_ROLE_GENERALIST, "names a kind twice"),
        ([MEDIA_KIND_IMAGE], tool_pb2.LLM_ROLE_EMBEDDER, "embedder takes text alone"),
    ],
    ids=["unset", "twice", "embedder"],
)
async def test_what_cannot_be_read_is_rejected(
    registry: RunningRegistry,
    takes: list[MediaKind.ValueType],
    role: tool_pb2.LlmRole.ValueType,
    words: str,
) -> None:
    embeds = role == tool_pb2.LLM_ROLE_EMBEDDER
    api = tool_pb2.LLM_API_OPENAI_EMBEDDINGS if embeds else tool_pb2.LLM_API_OPENAI_CHAT
    spec = make_llm_spec(make_model("eyes", takes=takes, api=api))
    spec.connection.llm.role = role
    error = await rejected(registry.as_().register(spec))
    assert words in (error.details() or "")
    assert "connection.llm.models[0].takes" in (error.details() or "")
