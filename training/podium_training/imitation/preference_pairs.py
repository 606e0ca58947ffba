"""Pairs of a preference vector and an instruction that says the same (paper, section 3.2).

Weights are multiples of a tenth in the training split, and lie halfway between in the held-out
one; no instruction is in both. So what is measured there was never seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml

from podium_training.tasks.task import Split

INSTRUCTIONS = Path(__file__).with_name("instructions.yaml")
# Of the vectors that have a kind to put into words; the others stand alone.
INSTRUCTED_SHARE = 0.6
# In tenths: outcome, cost, latency. A held-out weight is half a tenth below, or above 0.
EVEN, TOOL = "even", "tool"
RANGES: Mapping[str, tuple[range, range, range]] = {
    "accuracy": (range(9, 11), range(3), range(3)),
    "cost": (range(6, 11), range(7, 11), range(1, 4)),
    "latency": (range(6, 11), range(1, 4), range(7, 11)),
    "thrift_and_haste": (range(5, 9), range(6, 11), range(6, 11)),
    EVEN: (range(5, 11), range(1, 11), range(1, 11)),
    TOOL: (range(7, 11), range(2, 6), range(2, 6)),
}
TOOL_WEIGHTS = range(6, 11)


@dataclass(frozen=True)
class Pair:
    """Weights in [0, 1], and words for them; no words: the vector alone."""

    kind: str
    outcome: float
    compute: float
    latency: float
    tools: Mapping[str, float] = field(default_factory=dict)
    instruction: str = ""

    def policy(self, name: str) -> dict[str, Any]:
        """Returns the policy for `podium policies apply`; its episodes may be trained on."""
        weights = {"outcome": self.outcome, "compute": self.compute, "latency": self.latency}
        preferences = weights | ({"tools": dict(self.tools)} if self.tools else {})
        document = {"name": name, "training_consent": True, "preferences": preferences}
        return document | ({"instruction": self.instruction} if self.instruction else {})


def draw_pairs(count: int, split: Split, seed: int, tools: Sequence[str] = ()) -> list[Pair]:
    """Every kind as often as the others; those of a tool only where there are tools.

    A tool is a name, or `tool/model` for a model of one.
    """
    random = Random(f"preferences/{split}/{seed}")  # noqa: S311 chance, not a secret
    kinds = [kind for kind in RANGES if kind != TOOL or tools]
    return [_draw(random, kinds[number % len(kinds)], split, tools) for number in range(count)]


def _draw(random: Random, kind: str, split: Split, tools: Sequence[str]) -> Pair:
    outcome, compute, latency = (_weight(random, tenths, split) for tenths in RANGES[kind])
    liked = random.choice(tools) if kind == TOOL else ""
    weights = {liked: _weight(random, TOOL_WEIGHTS, split)} if liked else {}
    instructed = kind != EVEN and random.random() < INSTRUCTED_SHARE
    phrasing = random.choice(instructions()[kind][split]) if instructed else ""
    # People name the model, not the tool that it is a model of.
    instruction = phrasing.format(tool=liked.rpartition("/")[2])
    return Pair(kind, outcome, compute, latency, weights, instruction)


def _weight(random: Random, tenths: range, split: Split) -> float:
    halves = 2 * random.choice(tenths) - (split is Split.HELD_OUT)
    return abs(halves) / 20


@cache
def instructions() -> dict[str, dict[Split, list[str]]]:
    found = yaml.safe_load(INSTRUCTIONS.read_text(encoding="utf-8"))
    return {
        kind: {Split.TRAIN: splits["train"], Split.HELD_OUT: splits["held_out"]}
        for kind, splits in found.items()
    }
