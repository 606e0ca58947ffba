"""Policies every tenant has: starting points for weights and rules.

The outcome always weighs 1: a wrong answer is worth nothing however cheap it was. What
differs is how much money and time count among right answers; 0.1 breaks ties.
"""

from tool_registry.models import Preferences, UnknownPriceRule

DEFAULT_POLICY = "balanced"
PRESETS = {
    "accuracy-first": Preferences(outcome=1.0, compute=0.1, latency=0.1),
    "cost-first": Preferences(outcome=1.0, compute=0.8, latency=0.2),
    "speed-first": Preferences(outcome=1.0, compute=0.2, latency=0.8),
    "balanced": Preferences(outcome=1.0, compute=0.4, latency=0.4),
}
INSTRUCTIONS = {
    "accuracy-first": "Get the answer right, even if that costs more.",
    "cost-first": "Prefer the cheapest tools that can solve the task.",
    "speed-first": "Prefer the fastest tools that can solve the task.",
    "balanced": "",
}


def preset_unknown_price_rule(preset: str) -> UnknownPriceRule:
    """The rule of a preset itself; a policy that leaves its rule unset rejects.

    Who counts money admits nothing of unknown price; the others see it as unknown.
    """
    return UnknownPriceRule.REJECT if preset == "cost-first" else UnknownPriceRule.ADMIT
