"""Delegation of a task to the option with the highest expected reward.

The paper's reward (section 3.2) with all options as its group: outcome weighs by how often an
option is right, cost and latency by their place between the cheapest and the most expensive, the
quickest and the slowest. The prompt quotes what the options cost, to the model that learns as well.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from podium_training.experts.pool import Expert, Pool

WEIGHTS = re.compile(
    r"^Weights: outcome ([\d.]+), cost ([\d.]+), latency ([\d.]*\d)[.,]", re.MULTILINE
)
PRICES = r"{alias}: \$([\d.]+)/M in \+ \$([\d.]+)/M out([^;\]]*)"
WEIGHT = re.compile(r"weight ([\d.]+)")
# What a turn of the orchestrator takes, and what it is paid for a token.
TURN_S = 1.5
TOKEN_USD = 0.2e-6
CHARACTERS_PER_TOKEN = 4
# Of an expert's prompt: the task and a few words about it.
ASKED_TOKENS = 150
# How often one call is made without a fault (training/LOG.md: .65 to .75 of tasks), and how often a
# search finds what is wanted (assumed).
CALL_RIGHT, SEARCH_RIGHT = 0.75, 0.9


@dataclass(frozen=True)
class Option:
    alias: str
    """Alias of an expert; empty: the orchestrator's own calls."""
    right: float
    cost: float
    """US dollars."""
    latency_s: float
    weight: float = 0.0
    """The tenant's, of asking that expert."""


@dataclass(frozen=True)
class Weights:
    outcome: float = 1.0
    compute: float = 0.0
    latency: float = 0.0


def weights_in(prompt: str) -> Weights:
    """Outcome alone where the prompt states none."""
    found = WEIGHTS.search(prompt)
    return Weights(*map(float, found.groups())) if found else Weights()


def best(options: Sequence[Option], weights: Weights) -> Option:
    expected = expected_rewards(options, weights)
    return options[expected.index(max(expected))]


def by_chance(options: Sequence[Option], random: Random) -> Option:
    """Own calls as often as all experts together, whatever the weights."""
    own = [option for option in options if not option.alias]
    asked = [option for option in options if option.alias]
    return random.choice(random.choice([each for each in (own, asked) if each]))


def is_clear(options: Sequence[Option], weights: Weights, margin: float) -> bool:
    """Returns whether the best is expected to earn more than all others by that share of it."""
    *others, highest = sorted(expected_rewards(options, weights))
    return not others or others[-1] <= (1 - margin) * highest


def expected_rewards(options: Sequence[Option], weights: Weights) -> list[float]:
    costs = _saved([option.cost for option in options])
    times = _saved([option.latency_s for option in options])
    return [
        option.right
        * (weights.outcome + weights.compute * cost + weights.latency * time + option.weight)
        for option, cost, time in zip(options, costs, times, strict=True)
    ]


def own_way(calls: int, searches: int, prompt: str) -> Option:
    """The known solution, after as many searches for tools."""
    turns = calls + searches + 1
    right = CALL_RIGHT ** max(calls, 1) * SEARCH_RIGHT**searches
    return Option("", right, turns * _turn_cost(prompt), turns * TURN_S)


def asked_ways(pool: Pool, offered: Iterable[str], family: str, prompt: str) -> list[Option]:
    """Asking each of the experts that are offered at a price that the prompt quotes."""
    known: Mapping[str, Expert] = {expert.alias: expert for expert in pool.experts}
    return [
        _asked(known[alias], family, prompt, quoted)
        for alias in offered
        if alias in known
        if (quoted := re.search(PRICES.format(alias=re.escape(alias)), prompt))
    ]


def _asked(expert: Expert, family: str, prompt: str, quoted: re.Match[str]) -> Option:
    into, out = float(quoted[1]), float(quoted[2])
    weight = WEIGHT.search(quoted[3])
    paid = (ASKED_TOKENS * into + expert.thinking_tokens * out) / 1e6
    return Option(
        expert.alias,
        expert.families.get(family, expert.right),
        2 * _turn_cost(prompt) + paid,
        2 * TURN_S + expert.latency_s,
        float(weight[1]) if weight else 0.0,
    )


def _turn_cost(prompt: str) -> float:
    return len(prompt) / CHARACTERS_PER_TOKEN * TOKEN_USD


def _saved(values: Sequence[float]) -> list[float]:
    """1 for the least, 0 for the most; 0 where all are the same."""
    low, high = min(values), max(values)
    return [(high - value) / (high - low) if high > low else 0.0 for value in values]
