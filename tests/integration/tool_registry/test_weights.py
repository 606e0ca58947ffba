import pytest

from integration.tool_registry.builders import make_llm_spec, make_model, make_spec
from integration.tool_registry.running_registry import RunningRegistry, rejected
from podium.registry.v1 import policy_pb2

ADMIT = policy_pb2.UNKNOWN_PRICE_RULE_ADMIT
COST_FIRST = policy_pb2.POLICY_PRESET_COST_FIRST
Weights = policy_pb2.PreferenceVector


async def weights_of(
    registry: RunningRegistry, preset: policy_pb2.PolicyPreset.ValueType, given: Weights
) -> tuple[float, float, float]:
    reply = await registry.as_().create_policy(preset=preset, preferences=given)
    found = reply.policy.spec.preferences
    return found.outcome, found.compute, found.latency


@pytest.mark.parametrize(
    ("preset", "given", "wanted"),
    [
        (COST_FIRST, Weights(latency=0.9), (1.0, 0.8, 0.9)),
        (COST_FIRST, Weights(compute=0), (1.0, 0.0, 0.2)),
        (policy_pb2.POLICY_PRESET_UNSPECIFIED, Weights(outcome=0.5), (0.5, 0.0, 0.0)),
        (policy_pb2.POLICY_PRESET_UNSPECIFIED, Weights(), (1.0, 0.4, 0.4)),
    ],
    ids=["override", "zero overrides", "no preset", "balanced without any"],
)
async def test_weights_as_written_then_the_presets(
    registry: RunningRegistry,
    preset: policy_pb2.PolicyPreset.ValueType,
    given: Weights,
    wanted: tuple[float, float, float],
) -> None:
    assert await weights_of(registry, preset, given) == pytest.approx(wanted)


async def test_weights_that_prefer_nothing_are_rejected(registry: RunningRegistry) -> None:
    given = Weights(outcome=0, compute=0, latency=0)
    error = await rejected(registry.as_().create_policy(preferences=given))
    assert "every weight is 0" in str(error.details())


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("calculater", "did you mean calculator?"),
        ("answer/strongest", "did you mean answer/strong?"),
        ("weather", "see `podium tools list`"),
    ],
)
async def test_a_weight_of_no_tool_is_rejected_with_the_fix(
    registry: RunningRegistry, name: str, hint: str
) -> None:
    ada = registry.as_()
    await ada.register(make_spec())
    await ada.register(make_llm_spec(make_model("strong"), make_model("quick")))
    error = await rejected(ada.create_policy(preferences=Weights(outcome=1, tools={name: 0.5})))
    assert f"preferences.tools weighs {name}, and there is no such tool; {hint}" in str(
        error.details()
    )


async def test_weights_stand_in_the_terms_of_tools_and_models(registry: RunningRegistry) -> None:
    ada = registry.as_()
    await ada.register(make_spec())
    await ada.register(make_llm_spec(make_model("strong"), make_model("quick")))
    await ada.create_policy(
        unknown_price=ADMIT,
        preferences=Weights(
            outcome=1, tools={"calculator": 0, "answer": 0.5, "answer/quick": 0.25}
        ),
    )
    toolset = (await ada.resolve("mine")).toolset
    assert {tool.name: tool.terms for tool in toolset.tools} == {
        "answer": (
            "strong: price unknown, latency unknown;"
            " quick: price unknown, latency unknown, weight 0.25; weight 0.5"
        ),
        "calculator": "price unknown, latency unknown, weight 0",
    }
