"""Choices of tools that many groups share.

A prompt begins with its tools. Groups that share a choice share that beginning: the engine
finds it in its cache, and the trainer computes it once a step.
"""

from collections.abc import Container, Sequence
from random import Random

from podium_training.tasks.task import Task

ToolSubset = tuple[str, ...]

# The smallest subset has so many times fewer tools than the largest.
SIZES_APART = 4
# Of a subset, what its tasks need; the others distract.
NEEDED_SHARE = 2 / 3


def draw_tool_subsets(
    run_id: str, tasks: Sequence[Task], known: Sequence[str], count: int, tools_max: int
) -> list[ToolSubset]:
    """Subsets of many sizes up to `tools_max`; what the tasks need is in the largest, all of it."""
    random = Random(f"{run_id}/subsets")  # noqa: S311 chance, not a secret
    kits = sorted({tuple(sorted(task.tools)) for task in tasks if set(task.tools) <= set(known)})
    everything = {tool for kit in kits for tool in kit}
    smallest = max(1, tools_max // SIZES_APART)
    sizes = [random.randint(smallest, tools_max) for _ in range(count - 1)]
    needed = [everything, *(_needed(random, kits, size) for size in sizes)]
    subsets = [
        _filled(random, tools, known, size)
        for tools, size in zip(needed, [tools_max, *sizes], strict=True)
    ]
    random.shuffle(subsets)
    return subsets


def deal(
    run_id: str, tasks: Sequence[Task], subsets: Sequence[ToolSubset], withheld: Container[str]
) -> list[tuple[Task, ToolSubset | None]]:
    """Every task with one of the subsets that serve it, by chance, subset by subset.

    Tasks whose ids are in `withheld` get a subset that lacks every tool of theirs. Last, and
    without a subset, come tasks that none of them fits.
    """
    dealt = [(_number(run_id, task, subsets, task.id in withheld), task) for task in tasks]
    # Sorting is stable: the tasks of a subset stay in their order.
    dealt.sort(key=lambda pair: pair[0])
    return [(task, subsets[number] if number < len(subsets) else None) for number, task in dealt]


def _number(run_id: str, task: Task, subsets: Sequence[ToolSubset], withheld: bool) -> int:
    fits = _lacks if withheld else _serves
    serving = [number for number, subset in enumerate(subsets) if fits(subset, task)]
    chance = Random(f"{run_id}/{task.id}/subset")  # noqa: S311 chance, not a secret
    return chance.choice(serving) if serving else len(subsets)


def _serves(subset: ToolSubset, task: Task) -> bool:
    return set(task.tools) <= set(subset) and not set(task.judging_tools) & set(subset)


def _lacks(subset: ToolSubset, task: Task) -> bool:
    return not {*task.tools, *task.judging_tools} & set(subset)


def _needed(random: Random, kits: Sequence[tuple[str, ...]], size: int) -> set[str]:
    chosen: set[str] = set()
    for kit in random.sample(kits, len(kits)):
        if not chosen or len(chosen | set(kit)) <= size * NEEDED_SHARE:
            chosen |= set(kit)
    return chosen


def _filled(random: Random, needed: set[str], known: Sequence[str], size: int) -> ToolSubset:
    others = sorted(set(known) - needed)
    room = min(max(size - len(needed), 0), len(others))
    chosen = [*sorted(needed), *random.sample(others, room)]
    random.shuffle(chosen)
    return tuple(chosen)
