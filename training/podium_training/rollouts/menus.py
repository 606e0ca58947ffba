"""Choices of tools that many groups share.

A prompt begins with its tools. Groups that share a choice share that beginning: the engine
finds it in its cache, and the trainer computes it once a step.
"""

from collections.abc import Sequence
from random import Random

from podium_training.tasks.task import Task

Menu = tuple[str, ...]

# The smallest menu has so many times fewer tools than the largest.
SIZES_APART = 4
# Of a menu, what its tasks need; the others distract.
NEEDED_SHARE = 2 / 3


def draw_menus(
    run_id: str, tasks: Sequence[Task], known: Sequence[str], count: int, tools_max: int
) -> list[Menu]:
    """Menus of many sizes up to `tools_max`; what the tasks need is in the largest, all of it."""
    random = Random(f"{run_id}/menus")  # noqa: S311 chance, not a secret
    kits = sorted({tuple(sorted(task.tools)) for task in tasks if set(task.tools) <= set(known)})
    everything = {tool for kit in kits for tool in kit}
    smallest = max(1, tools_max // SIZES_APART)
    sizes = [random.randint(smallest, tools_max) for _ in range(count - 1)]
    needed = [everything, *(_needed(random, kits, size) for size in sizes)]
    menus = [
        _filled(random, tools, known, size)
        for tools, size in zip(needed, [tools_max, *sizes], strict=True)
    ]
    random.shuffle(menus)
    return menus


def deal(
    run_id: str, tasks: Sequence[Task], menus: Sequence[Menu]
) -> list[tuple[Task, Menu | None]]:
    """Every task with one of the menus that serve it, by chance, menu by menu.

    Last, and without a menu, come tasks that none of them serves.
    """
    dealt = [(_number(run_id, task, menus), task) for task in tasks]
    # Sorting is stable: the tasks of a menu stay in their order.
    dealt.sort(key=lambda pair: pair[0])
    return [(task, menus[number] if number < len(menus) else None) for number, task in dealt]


def _number(run_id: str, task: Task, menus: Sequence[Menu]) -> int:
    serving = [number for number, menu in enumerate(menus) if _serves(menu, task)]
    chance = Random(f"{run_id}/{task.id}/menu")  # noqa: S311 chance, not a secret
    return chance.choice(serving) if serving else len(menus)


def _serves(menu: Menu, task: Task) -> bool:
    return set(task.tools) <= set(menu) and not set(task.judging_tools) & set(menu)


def _needed(random: Random, kits: Sequence[tuple[str, ...]], size: int) -> set[str]:
    """The tools of some kinds of task, of one at least."""
    chosen: set[str] = set()
    for kit in random.sample(kits, len(kits)):
        if not chosen or len(chosen | set(kit)) <= size * NEEDED_SHARE:
            chosen |= set(kit)
    return chosen


def _filled(random: Random, needed: set[str], known: Sequence[str], size: int) -> Menu:
    others = sorted(set(known) - needed)
    room = min(max(size - len(needed), 0), len(others))
    chosen = [*sorted(needed), *random.sample(others, room)]
    random.shuffle(chosen)
    return tuple(chosen)
