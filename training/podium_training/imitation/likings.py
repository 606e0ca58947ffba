"""Vectors that a task is put under, and a tool's terms that say who is liked.

What a liking asks for shows beside the same vector without it, and beside a liking of another.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random

from podium.orchestrator.v1.orchestrator_service_pb2 import ToolDefinition
from podium_training.imitation.preference_pairs import TOOL_WEIGHTS, Pair, draw_pairs
from podium_training.tasks.task import Split

VECTORS = 10
# Of the lists of tools, those whose vectors differ by who is liked alone, and of how many models.
LIKED_SHARE = 0.75
LIKED = 2
# Between the terms of two models of a tool, and at the end of one's.
BETWEEN = "; "
WEIGHT = re.compile(r", weight [\d.]+$")


def draw_vectors(models: Sequence[str], random: Random) -> Callable[[], list[Pair]]:
    """Returns a function that draws a task's vectors: all kinds, or one kind with either model
    liked.

    Models are `tool/model`. Who is liked stands in the list of tools, which tasks share.
    """

    def of_every_kind() -> list[Pair]:
        drawn = draw_pairs(VECTORS, Split.TRAIN, random.getrandbits(32))
        return random.sample(drawn, len(drawn))

    if random.random() >= LIKED_SHARE:
        return of_every_kind
    weight = random.choice(TOOL_WEIGHTS) / 10
    liked = random.sample(models, min(LIKED, len(models)))

    def by_liking() -> list[Pair]:
        plain = of_every_kind()[0]
        return [plain, *(replace(plain, tools={model: weight}) for model in liked)]

    return by_liking


def weighed(tool: ToolDefinition, weights: Mapping[str, float]) -> ToolDefinition:
    """The tool under these weights of its models, by alias, as a registry describes it."""
    described = ToolDefinition()
    described.CopyFrom(tool)
    for estimate in described.estimates:
        estimate.weight = weights.get(estimate.model_alias, 0.0)
    described.terms = BETWEEN.join(_weighed(row, weights) for row in tool.terms.split(BETWEEN))
    return described


def _weighed(row: str, weights: Mapping[str, float]) -> str:
    alias, bare = row.partition(":")[0], WEIGHT.sub("", row)
    return f"{bare}, weight {weights[alias]:g}" if alias in weights else bare
