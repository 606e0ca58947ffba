from typing import Any

import grpc

from integration.tool_registry.running_registry import Caller, RunningRegistry, rejected
from integration.tool_registry.test_policies import listed
from podium.registry.v1 import policy_pb2
from podium.registry.v1 import policy_service_pb2 as pb


def learning_step(stage: str, cycle: int = 1, model: str = "", **facts: str) -> Any:
    return policy_pb2.LearningStep(
        policy="mine",
        cycle=f"0199a000-0000-7000-8000-{cycle:012}",
        stage=policy_pb2.LearningStage.Value(f"LEARNING_STAGE_{stage}"),
        model=model,
        facts=facts,
    )


async def record(caller: Caller, step: policy_pb2.LearningStep) -> policy_pb2.LearningStep:
    request = pb.RecordLearningStepRequest(step=step)
    reply: pb.RecordLearningStepResponse = await caller.policies.RecordLearningStep(request)
    return reply.step


async def test_the_model_that_learning_promoted_answers_until_it_is_rolled_back(
    registry: RunningRegistry,
) -> None:
    ada = registry.as_()
    await ada.create_policy()
    await record(ada, learning_step("LEARNT", model="policy-a-v1"))
    assert (await ada.resolve("mine")).toolset.model == ""
    await record(ada, learning_step("PROMOTED", model="policy-a-v1"))
    assert (await ada.resolve("mine")).toolset.model == "policy-a-v1"
    # Whatever version of the policy its author writes.
    await ada.create_policy(instruction="briefly")
    assert (await ada.resolve("mine")).toolset.model == "policy-a-v1"
    assert (await ada.resolve("balanced")).toolset.model == ""
    [mine] = [each for each in await listed(ada) if each.spec.name == "mine"]
    assert (mine.version, mine.model) == (2, "policy-a-v1")
    await record(ada, learning_step("PROMOTED", 2, model="policy-b-v1"))
    await record(ada, learning_step("ROLLED_BACK", 2, model="policy-a-v1"))
    assert (await ada.resolve("mine")).toolset.model == "policy-a-v1"


async def test_a_stage_of_a_cycle_is_recorded_once_and_by_its_tenant(
    registry: RunningRegistry,
) -> None:
    ada, eve = registry.as_(), registry.as_("globex")
    await ada.create_policy()
    first = await record(ada, learning_step("COLLECTED", tasks="12"))
    assert await record(ada, learning_step("COLLECTED", tasks="13")) == first
    assert (first.created_by, dict(first.facts)) == ("ada", {"tasks": "12"})
    error = await rejected(record(eve, learning_step("PROMOTED", model="theirs")))
    assert error.code() == grpc.StatusCode.NOT_FOUND
    await record(ada, learning_step("KEPT"))
    found, token = [], ""
    while True:
        request = pb.ListLearningStepsRequest(policy="mine", page_size=1, page_token=token)
        page = await ada.policies.ListLearningSteps(request)
        found += page.steps
        if not (token := page.next_page_token):
            break
    assert [each.stage for each in found] == [
        policy_pb2.LEARNING_STAGE_KEPT,
        policy_pb2.LEARNING_STAGE_COLLECTED,
    ]
    request = pb.ListLearningStepsRequest(policy="mine")
    assert not (await eve.policies.ListLearningSteps(request)).steps
