from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from podium_training.rollouts.order import TaskOrder
from podium_training.tasks.task import Split, Task


def make_tasks(count: int) -> list[Task]:
    return [
        Task(f"t{n}", "letters", Split.TRAIN, "Letter?", "exact", {"expected": "x"})
        for n in range(count)
    ]


def test_every_task_comes_once_before_any_comes_again() -> None:
    order = TaskOrder(make_tasks(7))
    rounds = [order.deal(number, 2) for number in range(1, 7)]
    first, second = (
        [task.id for dealt in rounds[start : start + 3] for task in dealt] for start in (0, 3)
    )
    assert max(Counter(first).values()) == 1
    assert max(Counter(second).values()) == 1
    assert first != second, "epochs come in orders of their own"
    assert len(order.deal(1, 100)) == 7


@given(
    st.lists(st.tuples(st.sampled_from(["t0", "t1", "t2"]), st.floats(0, 1)), max_size=30),
    st.integers(1, 50),
    st.integers(1, 9),
)
def test_a_round_of_a_curriculum_has_no_task_twice(
    scores: list[tuple[str, float]], number: int, count: int
) -> None:
    order = TaskOrder(make_tasks(5), curriculum=True)
    order.note(scores)
    dealt = [task.id for task in order.deal(number, count)]
    assert len(dealt) == len(set(dealt)) == min(count, 5)
    assert dealt == [task.id for task in order.deal(number, count)]


def test_a_curriculum_plays_oftener_what_is_sometimes_solved() -> None:
    order = TaskOrder(make_tasks(3), curriculum=True)
    for _ in range(4):
        order.note([("t0", 1.0), ("t1", 0.0)] * 8)
        order.note([("t2", 1.0), ("t2", 0.0)] * 4)
    dealt = Counter(order.deal(number, 1)[0].id for number in range(1, 601))
    assert dealt["t2"] > 2 * dealt["t0"]
    assert dealt["t2"] > 2 * dealt["t1"]
    assert min(dealt.values()) > 20, "what was learnt or never solved still comes"


def test_earlier_results_of_a_curriculum_fade() -> None:
    order = TaskOrder(make_tasks(2), curriculum=True)
    order.note([("t0", 0.0)] * 8)
    for _ in range(6):
        order.note([("t0", 1.0)] * 8)
    right, wrong = order.results["t0"]
    assert wrong < 0.2 and 15 < right < 16
