"""Holds for guardrails that have a price: captured where they were asked, released elsewhere."""

from collections.abc import Iterable

from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset
from integration.episodes.platform_under_test import Platform, finished, new_id, start
from integration.episodes.test_direct_calls import calls_of, ended
from integration.episodes.test_direct_calls import start as start_call
from podium.common.v1 import failure_pb2
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb
from podium.registry.v1 import guardrail_pb2, policy_pb2

INPUT, OUTPUT = guardrail_pb2.GUARDRAIL_STAGE_INPUT, guardrail_pb2.GUARDRAIL_STAGE_OUTPUT
PAID = policy_pb2.Guardrail(
    name="paid",
    action=guardrail_pb2.GUARDRAIL_ACTION_BLOCK,
    http=guardrail_pb2.HttpGuard(url="https://guard.example", sku="guardrails/paid"),
)


def passed(*keys: str) -> Iterable[guardrail_pb2.GuardrailDecision]:
    return [
        guardrail_pb2.GuardrailDecision(
            guardrail="paid", verdict=guardrail_pb2.GUARDRAIL_VERDICT_PASSED, ledger_key=key
        )
        for key in keys
    ]


def keys_of(call_key: str) -> list[str]:
    return [f"{call_key}/guardrail/input/0", f"{call_key}/guardrail/output/0"]


async def test_a_guardrail_that_was_not_asked_is_released_and_the_others_are_captured(
    platform: Platform,
) -> None:
    neighbours, call_id = platform.neighbours, new_id()
    asked, unasked = keys_of(f"{call_id}/0/tool/0")
    neighbours.policies.guardrails = [PAID]
    neighbours.adapters.decisions = list(passed(asked))
    async with calls_of(platform) as stub:
        made = await ended(stub, (await start_call(stub, call_id)).id)
    ledger = neighbours.ledger
    assert ledger.captured.keys() == {asked, made.ledger_key}
    assert ledger.released == {unasked}
    assert made.cost.amount == f"{ledger.total(call_id):f}"
    holds = {key: hold.subject.tool for key, hold in ledger.holds.items()}
    assert holds == {asked: "guardrail paid", unasked: "guardrail paid", made.ledger_key: "expert"}


async def test_a_call_whose_guardrails_no_budget_covers_is_not_made(platform: Platform) -> None:
    neighbours, call_id = platform.neighbours, new_id()
    neighbours.policies.guardrails = [PAID]
    neighbours.ledger.reject_after = 1
    async with calls_of(platform) as stub:
        made = await ended(stub, (await start_call(stub, call_id)).id)
    assert made.failure.kind == failure_pb2.FAILURE_KIND_BUDGET_EXHAUSTED
    assert not neighbours.adapters.requests and not neighbours.ledger.open()


async def test_an_episodes_call_is_not_made_either_and_frees_what_was_held(
    platform: Platform,
) -> None:
    neighbours = platform.neighbours
    neighbours.policies.guardrails = [PAID]
    # The turn's model call, and the first question.
    neighbours.ledger.reject_after = 2
    neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
    episode = await platform.run()
    trajectory = await platform.trajectory(episode.id)
    [made] = trajectory.turns[0].tool_invocations
    assert made.observation.failure.kind == failure_pb2.FAILURE_KIND_BUDGET_EXHAUSTED
    assert keys_of(made.key)[0] in neighbours.ledger.released
    assert not neighbours.adapters.requests and not neighbours.ledger.open()


async def test_an_answer_pays_for_what_reads_it_and_other_turns_do_not(platform: Platform) -> None:
    neighbours = platform.neighbours
    toolset = make_toolset("calculator")
    toolset.guardrails.append(PAID)
    neighbours.registry.toolset = toolset
    neighbours.orchestrator.decide = in_turns(calls(call("calculator")), answer("42"))
    client, episode_id = platform.ada, new_id()
    key = f"{episode_id}/{{}}/model/0/guardrail/answer/0"
    neighbours.adapters.decisions = list(passed(key.format(2)))
    spec = episode_pb2.EpisodeSpec(task="how many?")
    await client.StartEpisode(pb.StartEpisodeRequest(episode_id=episode_id, spec=spec))
    episode = await finished(client, episode_id)
    [read] = neighbours.adapters.read
    assert read.key == f"{episode_id}/2/model/0"
    assert key.format(2) in neighbours.ledger.captured
    assert key.format(1) in neighbours.ledger.released
    assert episode.cost.amount == f"{neighbours.ledger.total(episode_id):f}"
    assert not neighbours.ledger.open()


async def test_a_call_that_the_end_cuts_off_leaves_its_guardrails_unknown(
    platform: Platform,
) -> None:
    neighbours = platform.neighbours
    neighbours.policies.guardrails = [PAID]
    neighbours.adapters.stalled = {"calculator"}
    neighbours.orchestrator.decide = in_turns(calls(call("calculator")))
    episode = await start(platform.ada)
    while not neighbours.adapters.requests:
        await platform.ada.GetEpisode(pb.GetEpisodeRequest(episode_id=episode.id))
    await platform.ada.CancelEpisode(pb.CancelEpisodeRequest(episode_id=episode.id))
    ended = await finished(platform.ada, episode.id)
    ledger = neighbours.ledger
    assert not ledger.open()
    assert set(keys_of(f"{episode.id}/1/tool/0")) <= ledger.unpriced.keys()
    assert ended.unpriced_call_count == 1
