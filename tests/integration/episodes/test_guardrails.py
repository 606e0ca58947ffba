from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset
from integration.episodes.platform_under_test import Platform, events, start
from integration.episodes.test_direct_calls import calls_of, ended
from integration.episodes.test_direct_calls import start as start_call
from podium.common.v1 import failure_pb2
from podium.episodes.v1 import episode_pb2
from podium.registry.v1 import guardrail_pb2, policy_pb2, toolset_pb2

BLOCKED = guardrail_pb2.GuardrailDecision(
    guardrail="no-mail",
    stage=guardrail_pb2.GUARDRAIL_STAGE_ANSWER,
    verdict=guardrail_pb2.GUARDRAIL_VERDICT_BLOCKED,
    reason="1 email",
)
REDACTED = guardrail_pb2.GuardrailDecision(
    guardrail="no-mail",
    stage=guardrail_pb2.GUARDRAIL_STAGE_ANSWER,
    verdict=guardrail_pb2.GUARDRAIL_VERDICT_REDACTED,
    reason="1 email",
)
NO_MAIL = policy_pb2.Guardrail(
    name="no-mail",
    action=guardrail_pb2.GUARDRAIL_ACTION_REDACT,
    personal_data=guardrail_pb2.PersonalData(),
)
MAIL = "it is ada@example.com"


def reading_answers(*names: str) -> toolset_pb2.Toolset:
    toolset = make_toolset(*names)
    toolset.guardrails.append(NO_MAIL)
    return toolset


async def test_calls_are_read_by_the_guardrails_of_the_policy_as_it_is_now(
    platform: Platform,
) -> None:
    neighbours = platform.neighbours
    neighbours.policies.guardrails = [NO_MAIL]
    neighbours.adapters.decisions = [REDACTED]
    neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
    seen = await events(platform.ada, (await start(platform.ada)).id)
    assert list(neighbours.adapters.requests[0].guardrails) == [NO_MAIL]
    [returned] = [each.tool_returned for each in seen if each.HasField("tool_returned")]
    assert list(returned.guardrails) == [REDACTED]
    # What the toolset was frozen with reads answers: none does.
    assert not neighbours.adapters.read


async def test_a_redacted_answer_is_all_that_is_recorded(platform: Platform) -> None:
    neighbours = platform.neighbours
    neighbours.registry.toolset = reading_answers("calculator")
    neighbours.adapters.read_answer = lambda text: text.replace("ada@example.com", "[redacted]")
    neighbours.adapters.decisions = [REDACTED]
    neighbours.orchestrator.decide = in_turns(answer(MAIL))
    episode = await platform.run()
    assert (episode.answer, episode.stop_reason) == (
        "it is [redacted]",
        episode_pb2.STOP_REASON_ANSWERED,
    )
    [read] = neighbours.adapters.read
    assert read.answer == MAIL and list(read.guardrails) == [NO_MAIL]
    trajectory = await platform.trajectory(episode.id)
    assert b"ada@example.com" not in trajectory.SerializeToString()
    assert list(trajectory.turns[-1].model_call.guardrails) == [REDACTED]


async def test_an_answer_that_is_blocked_fails_its_episode_and_is_paid(platform: Platform) -> None:
    neighbours = platform.neighbours
    neighbours.registry.toolset = reading_answers("calculator")
    neighbours.adapters.read_answer = lambda _: None
    neighbours.adapters.decisions = [BLOCKED]
    neighbours.orchestrator.decide = in_turns(answer(MAIL))
    episode = await platform.run()
    assert episode.stop_reason == episode_pb2.STOP_REASON_FAILED
    assert episode.failure.kind == failure_pb2.FAILURE_KIND_BLOCKED
    assert episode.failure.message == "the guardrail no-mail blocked the answer: 1 email"
    assert not episode.answer
    trajectory = await platform.trajectory(episode.id)
    assert b"ada@example.com" not in trajectory.SerializeToString()
    assert neighbours.ledger.total(episode.id) > 0


async def test_a_result_that_is_the_answer_is_read_as_one(platform: Platform) -> None:
    neighbours = platform.neighbours
    toolset = reading_answers("calculator")
    toolset.tools[0].gives_answer = True
    toolset.guardrails[0].stages.append(guardrail_pb2.GUARDRAIL_STAGE_ANSWER)
    neighbours.registry.toolset = toolset
    neighbours.orchestrator.decide = in_turns(calls(call("calculator")))
    await platform.run()
    [asked] = neighbours.adapters.requests[0].guardrails
    assert asked.name == "no-mail"
    assert list(asked.stages) == [guardrail_pb2.GUARDRAIL_STAGE_OUTPUT]


async def test_a_call_without_an_episode_is_read_and_shows_the_decisions(
    platform: Platform,
) -> None:
    neighbours = platform.neighbours
    neighbours.policies.guardrails = [NO_MAIL]
    neighbours.adapters.decisions = [REDACTED]
    async with calls_of(platform) as stub:
        made = await ended(stub, (await start_call(stub)).id)
    assert list(neighbours.adapters.requests[0].guardrails) == [NO_MAIL]
    assert list(made.guardrails) == [REDACTED]
