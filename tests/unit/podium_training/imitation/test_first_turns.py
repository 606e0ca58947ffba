"""First turns of tasks that were not played: offers, likings, choices."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from random import Random

import pytest

from callers import make_identity
from orchestrator_inference.convert import decision_to_proto, situation_from_proto
from orchestrator_inference.engine.engine import ModelCall, TextListener
from orchestrator_inference.models import Completion, EngineModel
from orchestrator_inference.prompt.budgets import SectionBudgets
from orchestrator_inference.service import Orchestrator, Policy
from podium.episodes.v1.trajectory_pb2 import Trajectory
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.registry.v1.policy_pb2 import PreferenceVector
from podium_kit.metering import Usage, UsageSource
from podium_kit.rpc.identity import acting_as
from podium_training.grpo.data.convert import episode_from_proto
from podium_training.grpo.data.episodes import Limits
from podium_training.imitation.contrast import OWN, choice, differing, first_response, first_turn
from podium_training.imitation.first_turns import Shape, first_turns
from podium_training.imitation.likings import draw_vectors, weighed
from podium_training.imitation.offers import TOOLS, NothingToLearn, Offers
from podium_training.imitation.preference_pairs import Pair
from podium_training.tasks.task import Split, Task
from unit.podium_training.imitation.builders import (
    EXPERT,
    FAMILIES,
    MODELS,
    POOL,
    TASKS,
    TOKENIZER,
    asked,
    demonstrator,
    expert,
    host,
    own,
    task,
    tool,
)

SHAPE = Shape(tasks=3, choices=2)
OFFERED = (*FAMILIES, "other_1", "other_2")


@cache
def turns(count: int = 60, seed: int = 1) -> list[Trajectory]:
    offers = Offers([host(*OFFERED, large=price) for price in ("0.50", "5.00")], EXPERT)
    # One family has most tasks.
    tasks = [*TASKS, *(task(number) for number in range(2))]
    endless = first_turns(tasks, offers, SHAPE, demonstrator(), Random(seed))
    return list(islice(endless, count))


def steps(found: list[Trajectory]) -> list[list[Trajectory]]:
    return [found[at : at + SHAPE.turns] for at in range(0, len(found), SHAPE.turns)]


def test_no_family_is_rare_though_its_tasks_are() -> None:
    found = Counter(each.task_id.partition("-")[0] for each in turns())
    assert set(found) == set(FAMILIES)
    assert min(found.values()) > 60 / 6


def test_most_tasks_of_a_step_are_those_whose_choice_the_vectors_change() -> None:
    offers = Offers([host(*OFFERED)], EXPERT)
    # One expert is of use, and in one family alone.
    large = POOL.experts[0].model_copy(update={"right": 0.0, "families": {"sums": 0.95}})
    small = POOL.experts[1].model_copy(update={"right": 0.0})
    pool = POOL.model_copy(update={"experts": (large, small)})
    found = list(islice(first_turns(TASKS, offers, SHAPE, demonstrator(pool), Random(1)), 60))
    sums = [each for each in found if each.task_id.startswith("sums-")]
    assert len(sums) > len(found) / 2
    assert {choice(each, EXPERT) for each in sums} == {OWN, '{"model":"large"}'}


def test_the_tasks_of_a_step_share_their_tools_and_prices() -> None:
    for step in steps(turns()):
        assert len({each.task_id for each in step}) == SHAPE.tasks
        assert len({tuple(tool.name for tool in each.tools) for each in step}) == 1


def test_turns_whose_prompts_begin_alike_follow_each_other() -> None:
    for step in steps(turns()):
        likings = [tuple(each.preferences.tools) for each in step]
        assert likings == sorted(likings)


def test_whoever_the_demonstrator_would_ask_differs_by_the_vector() -> None:
    found = turns()
    ways: dict[str, set[str]] = defaultdict(set)
    for number, step in enumerate(steps(found)):
        for each in step:
            ways[f"{number}/{each.task_id}"].add(choice(each, EXPERT))
    assert sum(len(each) > 1 for each in ways.values()) > len(ways) / 2
    assert len({choice(each, EXPERT) for each in found}) == 3, "either model, and neither"


def test_who_is_liked_stands_in_the_prompt_and_in_the_vector() -> None:
    liked = [each for each in turns() if each.preferences.tools]
    assert liked
    for each in liked:
        [(name, weight)] = each.preferences.tools.items()
        [terms] = (tool.terms for tool in each.tools if tool.name == EXPERT)
        assert f", weight {weight:g}" in terms
        assert each.tool_names[-1] == name


def test_they_are_turns_that_a_trainer_takes() -> None:
    for each in turns(12):
        episode = episode_from_proto(each, Limits(vocabulary=1_000))
        assert episode.features.solved
        assert len(episode.rows) == 1
        assert first_response(each).completion_text


def test_tasks_that_cannot_be_shown_are_left_out() -> None:
    unsolved = replace(task(7), solution=None)
    # Its first line is another task's question.
    long = replace(task(8), question=f"{TASKS[0].question}\nShow every step.")
    shows = demonstrator(tasks=[*TASKS, unsolved, long])
    offers = Offers([host(*OFFERED)], EXPERT)
    found = islice(first_turns([*TASKS, unsolved, long], offers, SHAPE, shows, Random(1)), 60)
    assert {each.task_id for each in found} <= {each.id for each in TASKS}
    with pytest.raises(NothingToLearn, match="no task has a solution"):
        next(first_turns([unsolved, long], offers, SHAPE, shows, Random(1)))


def test_the_seed_decides() -> None:
    assert turns(12) == turns(12)
    assert turns(12) != turns(12, seed=2)


OTHERS = [f"other_{number}" for number in range(12)]


def drawn(*tasks: Task, count: int = 40) -> list[set[str]]:
    offers = Offers([host(*FAMILIES, *OTHERS)], EXPERT)
    lists = [offers.draw(tasks, Random(seed)).tools for seed in range(count)]
    return [{tool.name for tool in tools} - {EXPERT} for tools in lists]


def test_tasks_find_their_tools_among_others() -> None:
    found = drawn(*TASKS)
    assert all(names >= set(FAMILIES) for names in found)
    assert {len(names) for names in found} == set(TOOLS)
    assert set.union(*found) == {*FAMILIES, *OTHERS}


def test_where_there_is_no_room_for_all_it_is_chance_whose_tools_are_offered() -> None:
    tasks = [task(number, name) for number, name in enumerate((*FAMILIES, *OTHERS))]
    found = drawn(*tasks)
    assert all(len(names) in TOOLS for names in found)
    assert set.union(*found) == {*FAMILIES, *OTHERS}


def test_tools_that_judge_a_task_are_not_offered_to_it() -> None:
    look = {"look": {"tool": "other_1"}, "expected": []}
    judged = Task("sums-9", "sums", Split.TRAIN, "?", "state", look, ())
    assert not any("other_1" in names for names in drawn(judged))


def test_the_expert_has_the_prices_of_the_episode() -> None:
    offers = Offers([host("sums", large=price) for price in ("3.00", "4.00")], EXPERT)
    found = [offers.draw(TASKS, Random(seed)) for seed in range(20)]
    terms = {tool.terms for each in found for tool in each.tools if tool.name == EXPERT}
    assert sorted(each[:12] for each in terms) == ["large: $3.00", "large: $4.00"]


def test_tools_are_listed_by_name_as_a_platform_does() -> None:
    names = [tool.name for tool in Offers([host(*OTHERS)], EXPERT).draw(TASKS, Random(1)).tools]
    assert names == sorted(names)


def test_it_says_that_no_episode_had_experts() -> None:
    with pytest.raises(NothingToLearn, match="no solved episode with ask_expert"):
        Offers([own("o", "sums-1", ("add",))], EXPERT)


WAYS = [f"{EXPERT}/{model}" for model in MODELS]


def drawn_vectors(count: int = 40) -> list[list[Pair]]:
    return [draw_vectors(WAYS, Random(seed))() for seed in range(count)]


def is_liking(pairs: list[Pair]) -> bool:
    return any(pair.tools for pair in pairs)


def vector(pair: Pair) -> tuple[float, float, float, str]:
    return pair.outcome, pair.compute, pair.latency, pair.instruction


def test_models_are_liked_beside_the_same_vector_without() -> None:
    for pairs in filter(is_liking, drawn_vectors()):
        plain, *liked = pairs
        assert not plain.tools
        assert sorted(name for pair in liked for name in pair.tools) == sorted(WAYS)
        assert len(set(map(vector, pairs))) == 1


def test_other_steps_differ_by_their_vectors() -> None:
    found = drawn_vectors()
    assert 15 < sum(map(is_liking, found)) < 35
    plain = next(pairs for pairs in found if not is_liking(pairs))
    assert len(set(map(vector, plain))) > len(plain) / 2


def test_the_tasks_of_a_step_like_by_the_same_weight() -> None:
    for seed in range(20):
        draw = draw_vectors(WAYS, Random(seed))
        weights = {weight for _ in range(5) for pair in draw() for weight in pair.tools.values()}
        assert len(weights) <= 1


def test_terms_and_estimates_say_who_is_liked() -> None:
    said = weighed(expert(), {"small": 0.9})
    large, small = said.terms.split("; ")
    assert (large, small[-12:]) == (expert().terms.split("; ")[0], ", weight 0.9")
    assert [each.weight for each in said.estimates] == [0.0, 0.9]


def test_a_weight_that_was_there_is_not_kept() -> None:
    before = weighed(expert(), {"small": 0.9})
    assert weighed(before, {}) == expert()
    assert weighed(before, {"large": 0.5}) == weighed(expert(), {"large": 0.5})


def test_the_choice_is_the_model_that_is_asked_or_none() -> None:
    assert choice(asked("e", "t", "small"), EXPERT) != choice(asked("e", "t", "large"), EXPERT)
    assert choice(own("e", "t"), EXPERT) == OWN


def test_each_choice_comes_in_turn_and_no_more_than_wanted() -> None:
    episodes = [*(own(f"o{n}", "t") for n in range(5)), asked("s", "t", "small")]
    found = differing(episodes, EXPERT, 3)
    assert [each.episode_id for each in found] == ["o0", "s", "o1"]


def test_of_an_own_call_the_name_is_learnt_and_nothing_else() -> None:
    cut = first_turn(own("e", "t"), EXPERT, TOKENIZER)
    [turn] = cut.turns
    kept = turn.model_call.response
    assert TOKENIZER.decode(kept.completion_token_ids) == '{"tool":"add'
    assert len(kept.completion_logprobs) == len(kept.completion_token_ids)


def test_a_token_that_holds_the_end_of_the_name_and_more_is_not_learnt() -> None:
    class Merging:
        eos_token_id = 9

        def decode(self, token_ids: Sequence[int]) -> str:
            return "".join(tokens[each] for each in token_ids)

    tokens = ['{"tool":"', "ad", 'd",', '"arguments":{"numbers":"1 2"}}']
    episode = own("e", "t")
    response = episode.turns[0].model_call.response
    del response.completion_token_ids[:], response.completion_logprobs[:]
    response.completion_token_ids.extend(range(len(tokens)))
    response.completion_logprobs.extend([-1.0] * len(tokens))
    cut = first_turn(episode, EXPERT, Merging())
    assert list(cut.turns[0].model_call.response.completion_token_ids) == [0, 1]


def test_a_handed_task_is_learnt_with_the_model_and_the_end() -> None:
    episode = asked("e", "t", "small")
    cut = first_turn(episode, EXPERT, TOKENIZER)
    assert cut.turns[0] == episode.turns[0]
    assert len(episode.turns) == 2, "the episode itself stays whole"


class Engine:
    def __init__(self, text: str) -> None:
        self.text = text
        self.calls: list[ModelCall] = []

    async def model(self, name: str) -> EngineModel:
        return EngineModel(name)

    async def models(self) -> tuple[EngineModel, ...]:
        return ()

    async def count_tokens(self, call: ModelCall) -> int:
        return len(call.messages)

    async def complete(self, call: ModelCall, on_text: TextListener | None = None) -> Completion:
        self.calls.append(call)
        usage = Usage((), UsageSource.ESTIMATED)
        return Completion(self.text, "stop", usage, "m", "e", 0.0, constrained=True)


async def test_prompt_grammar_and_action_are_those_of_orchestrator_inference() -> None:
    request = pb.NextActionRequest(
        key="e/1/model/0",
        task=TASKS[0].question,
        tools=[expert(), tool("sums")],
        preferences=PreferenceVector(outcome=1.0, compute=0.4),
        sampling=pb.Sampling(temperature=1.0),
    )
    shown = demonstrator()
    made = shown.next_action(request)

    engine = Engine(made.completion_text)
    orchestrator = Orchestrator(engine, Policy(SectionBudgets()), max_in_flight=1)
    with acting_as(make_identity()):
        decided = decision_to_proto(await orchestrator.next_action(situation_from_proto(request)))
    assert (made.action, made.sampling) == (decided.action, decided.sampling)
    assert made.constraint_digest == decided.constraint_digest
    assert made.constraint_json_schema == decided.constraint_json_schema
    [call] = engine.calls
    prompt = "".join(f"{message.content}</s>" for message in call.messages)
    assert list(made.prompt_token_ids) == shown.tokenizer.encode(prompt)
