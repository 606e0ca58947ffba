from pathlib import Path

import pytest

from podium_training.experts.pool import Expert, InvalidPool, read_pool
from podium_training.experts.server import NOTHING_KNOWN, Knowledge
from podium_training.tasks.task import Split, Task

BUNDLED = Path(__file__).parents[4] / "bundled" / "experts.yaml"
POOL = """
tool: ask
description: Asks.
experts:
- {alias: one, description: d, sku: s, latencyS: 5, right: 0.5}
"""


def make_task(number: int, family: str = "units") -> Task:
    parameters = {"expected": f"answer {number}"}
    question = f"Question {number}?"
    return Task(f"{family}{number}", family, Split.TRAIN, question, "exact", parameters)


def make_expert(right: float, **families: float) -> Expert:
    return Expert(alias="one", description="d", sku="s", latencyS=5, right=right, families=families)


def test_the_bundled_experts_are_models_of_one_tool_whose_latency_is_modelled() -> None:
    pool = read_pool(BUNDLED)
    spec = pool.tool_spec("http://127.0.0.1:1/v1")
    models = {model.alias: model for model in spec.connection.llm.models}
    assert models.keys() == {expert.alias for expert in pool.experts}
    assert len({model.sku for model in models.values()}) == len(models)
    for expert in pool.experts:
        modelled = models[expert.alias].modelled_latency
        assert modelled.ToTimedelta().total_seconds() == expert.latency_s


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (POOL.replace("right: 0.5", "right: 1.5"), "experts.0.right: Input should be less"),
        (POOL.replace("latencyS: 5", "latencyS: 0"), "experts.0.latencyS"),
        (POOL.replace("sku: s", "skus: s"), "experts.0.sku"),
        (POOL.replace("right: 0.5", "right: 0.5, families: {units: 2}"), "families.units"),
        ("tool: ask", "description: Field required"),
        ("- a: b", "the file"),
        ("tool: [", "no YAML"),
    ],
)
def test_a_file_that_is_no_pool_is_rejected_by_field(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "pool.yaml"
    path.write_text(text)
    with pytest.raises(InvalidPool, match=fault):
        read_pool(path)


def test_an_expert_is_right_as_often_as_it_says_and_always_about_the_same() -> None:
    expert = make_expert(0.3, dates=0.9)
    for family, stated in (("units", 0.3), ("dates", 0.9)):
        tasks = [make_task(number, family) for number in range(1000)]
        right = [expert.is_right(task, 7) for task in tasks]
        assert abs(sum(right) / 1000 - stated) < 0.06
        assert right == [expert.is_right(task, 7) for task in tasks]


def test_a_wrong_answer_looks_like_a_right_one() -> None:
    tasks = [make_task(number) for number in range(5)]
    knowledge = Knowledge([*tasks, make_task(9, "dates")], 0)
    said = knowledge.answer(make_expert(0.0), "Solve this.\n\nQuestion 3?")
    assert said in {task.answer for task in tasks} - {"answer 3"}
    assert knowledge.answer(make_expert(1.0), "Question 3?") == "answer 3"
    assert knowledge.answer(make_expert(1.0), "Why?") == NOTHING_KNOWN
    assert Knowledge(tasks[:1], 0).answer(make_expert(0.0), "Question 0?") == NOTHING_KNOWN
