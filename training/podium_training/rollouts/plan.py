"""The plan of a rollout run, decided before the first episode starts.

Ids follow from the run's id, the task and the place in the group, so a run that is
resumed asks for the episodes it asked for before, and the platform starts none twice.
Every group sees its own choice of tools (in the paper tools differ by example, too;
its generator was never released): those of the solution, and distractors by chance. With
tool subsets, groups share a few such choices, and those of a tool subset follow each other.
With no tools at all to choose from, the platform offers each task what fits it best.
With a price spread, every group also gets prices of its own; with several policies, one of them,
or every task comes under several of them: what differs is then what the preferences ask for.
"""

import math
import uuid
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from random import Random

from podium_kit.derived_ids import derived_uuid7, uuid7_of
from podium_training.rollouts.tool_subsets import ToolSubset, deal, draw_tool_subsets
from podium_training.tasks.task import FIND_TOOLS, Task


def run_id_from(at: datetime, chance: uuid.UUID) -> str:
    """A UUIDv7 of a moment, in milliseconds, and of chance that a workflow can replay."""
    return uuid7_of(round(at.timestamp() * 1000).to_bytes(6) + chance.bytes[6:])


# What episodes take as a factor goes further; prices a hundred times off teach nothing.
PRICE_SPREAD_MAX = 100.0


class InvalidRun(ValueError):
    """A run cannot be planned; the message says why."""


@dataclass(frozen=True)
class Rollout:
    episode_id: str
    sample_index: int


@dataclass(frozen=True)
class Group:
    """Episodes of one task, compared with each other: the same tools, prices and policy."""

    name: str
    """The name from which its ids follow: its task, and its policy where it has several."""
    id: str
    task: Task
    tool_names: tuple[str, ...]
    rollouts: tuple[Rollout, ...]
    price_factors: Mapping[str, str] = field(default_factory=dict)
    """Factors by SKU; empty: the tenant's own prices."""
    policy: str = ""
    """"" takes the tenant's."""


@dataclass(frozen=True)
class Offer:
    """The tools and prices that may differ between groups."""

    tools: Mapping[str, Sequence[str]]
    """Known tools, with the SKUs their calls are priced by."""
    tools_max: int
    """Most tools of a group; 0: those that the platform finds fit for the task."""
    price_spread: float = 1.0
    """Prices are scaled by up to this factor, up or down; 1 leaves them as they are."""
    tool_subsets: int = 0
    """So many choices of tools for all groups together; 0: every group has its own."""
    always: tuple[str, ...] = ()
    """Tools of every group, on top of `tools_max` others: an expert to fall back on, say."""
    policies: tuple[str, ...] = ()
    """Every group has one of them; none: the tenant's."""
    withheld: float = 0.0
    """Share of the groups that are not offered the tools of their solution."""
    policies_per_task: int = 1
    """So many groups of each task, under different policies."""


def plan(run_id: str, tasks: Sequence[Task], size: int, offer: Offer) -> list[Group]:
    """Groups of `size` per task, with tools, prices and a policy of the offer.

    The run's id, a UUIDv7, is the seed of every choice. Raises InvalidRun.
    """
    check_run_id(run_id)
    if not 1 <= offer.price_spread <= PRICE_SPREAD_MAX:
        raise InvalidRun(f"the price spread is {offer.price_spread}; give 1 to {PRICE_SPREAD_MAX}")
    _check_known(tasks, offer)
    if not offer.tools_max and (offer.tool_subsets or offer.always or offer.withheld):
        raise InvalidRun("the platform chooses the tools: give none of always, withhold, subsets")
    if not 1 <= offer.policies_per_task <= max(1, len(offer.policies)):
        raise InvalidRun(
            f"each task is to come under {offer.policies_per_task} policies, and"
            f" {len(offer.policies)} are named"
        )
    if not 0 <= offer.withheld <= 1:
        raise InvalidRun(f"the share of tools withheld is {offer.withheld}; give 0 to 1")
    drawn, count = [name for name in offer.tools if name not in offer.always], offer.tool_subsets
    subsets = draw_tool_subsets(run_id, tasks, drawn, count, offer.tools_max) if count else []
    withheld = {task.id for task in tasks if _is_withheld(run_id, task, offer)}
    return [
        _group(
            run_id,
            task,
            size,
            offer,
            subset or _tools(run_id, task, offer, withheld),
            policy=policy,
        )
        for task, subset in deal(run_id, tasks, subsets, withheld)
        for policy in _policies(run_id, task, offer)
    ]


def check_run_id(run_id: str) -> None:
    try:
        version = uuid.UUID(run_id).version
    except ValueError:
        version = None
    if version != 7:
        raise InvalidRun(f"run {run_id!r} is not a UUIDv7; start one without naming it")


def anew(group: Group, run_id: str) -> Group:
    """The same choice of task, tools, prices and policy for the episodes of another run."""
    rollouts = tuple(
        Rollout(derived_uuid7(run_id, group.name, str(each.sample_index)), each.sample_index)
        for each in group.rollouts
    )
    return replace(group, id=derived_uuid7(run_id, group.name, "group"), rollouts=rollouts)


def _check_known(tasks: Sequence[Task], offer: Offer) -> None:
    for task in tasks:
        if missing := sorted(set(task.tools) - set(offer.tools)):
            raise InvalidRun(
                f"task {task.id} needs {missing[0]}, which is not registered, or which a policy of"
                " the run denies: `podium policies explain POLICY` shows why"
            )
    if missing := sorted(set(offer.always) - {FIND_TOOLS, *offer.tools}):
        raise InvalidRun(f"{missing[0]} is to be offered always, and the platform does not have it")


def _is_withheld(run_id: str, task: Task, offer: Offer) -> bool:
    chance = Random(f"{run_id}/{task.id}/withheld")  # noqa: S311 chance, not a secret
    return bool(task.tools) and chance.random() < offer.withheld


def _policies(run_id: str, task: Task, offer: Offer) -> list[str]:
    chance = Random(f"{run_id}/{task.id}/policy")  # noqa: S311 chance, not a secret
    return chance.sample(offer.policies or ("",), offer.policies_per_task)


def _group(
    run_id: str, task: Task, size: int, offer: Offer, tools: ToolSubset, *, policy: str
) -> Group:
    name = task.id if offer.policies_per_task == 1 else f"{task.id}/{policy}"
    rollouts = tuple(
        Rollout(derived_uuid7(run_id, name, str(index)), index) for index in range(size)
    )
    kept = set(tools) | set(task.judging_tools)
    tools = (*tools, *(name for name in offer.always if name not in kept))
    # Groups of a subset share their prices, too, so that their prompts begin alike.
    drawn_for = ",".join(tools) if offer.tool_subsets else task.id
    prices = _price_factors(run_id, drawn_for, tools or tuple(offer.tools), offer)
    group_id = derived_uuid7(run_id, name, "group")
    return Group(name, group_id, task, tools, rollouts, prices, policy)


def _price_factors(
    run_id: str, drawn_for: str, tools: Sequence[str], offer: Offer
) -> Mapping[str, str]:
    """A factor per SKU, as likely half as double: uniform in the logarithm, two digits."""
    if offer.price_spread == 1:
        return {}
    random = Random(f"{run_id}/{drawn_for}/prices")  # noqa: S311 chance, not a secret
    width = math.log(offer.price_spread)
    skus = sorted({sku for tool in tools for sku in offer.tools.get(tool, ())})
    factors = {sku: math.exp(random.uniform(-width, width)) for sku in skus}
    return {sku: f"{Decimal(f'{factor:.2g}'):f}" for sku, factor in factors.items()}


def _tools(run_id: str, task: Task, offer: Offer, withheld: Container[str]) -> ToolSubset:
    known, tools_max = offer.tools, offer.tools_max
    if not tools_max:
        return ()
    needed = () if task.id in withheld else task.tools
    random = Random(f"{run_id}/{task.id}/tools")  # noqa: S311 chance, not a secret
    others = sorted(set(known) - {*task.tools, *task.judging_tools, *offer.always})
    room = min(max(tools_max - len(needed), 0), len(others))
    # A task without a solution may need any tool, so it is offered as many as fit.
    extra = room if task.solution is None else random.randint(min(1, room), room)
    chosen = [*needed, *random.sample(others, extra)]
    random.shuffle(chosen)
    return tuple(chosen)
