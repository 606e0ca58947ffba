"""The tenant's floor: one policy that binds every episode, whatever policy the episode names.

Both are asked, and the stricter one decides; so no policy of the tenant, preset or agent loosens
what the floor lays down. Its preferences and its instruction are those of a policy like any other.
"""

from collections.abc import Iterable
from dataclasses import replace

from podium_kit.money import Money
from tool_registry.models import PolicySpec, PolicyVersion, UnknownPriceRule
from tool_registry.policies.presets import PRESETS

# A policy of this name is the floor, from its first version on.
FLOOR = "floor"
STRICTEST_FIRST = (
    UnknownPriceRule.REJECT,
    UnknownPriceRule.ADMIT_AT_CEILING,
    UnknownPriceRule.ADMIT,
)


def bound(policy: PolicyVersion, floor: PolicyVersion | None) -> PolicyVersion:
    """The policy above the floor; a version of the floor itself stays as it was written."""
    if floor is None or policy.spec.name == FLOOR:
        return policy
    spec, least = policy.spec, floor.spec
    tightened = replace(
        spec,
        floor=least,
        unknown_price=min(spec.unknown_price, least.unknown_price, key=STRICTEST_FIRST.index),
        price_ceiling=_lower(spec.price_ceiling, least.price_ceiling),
        training_consent=spec.training_consent and least.training_consent,
        budget_ids=tuple(dict.fromkeys((*least.budget_ids, *spec.budget_ids))),
        self_approval=spec.self_approval and least.self_approval,
        approval_timeout_s=_shorter((spec.approval_timeout_s, least.approval_timeout_s)),
    )
    digest = f"{policy.digest}/{floor.digest}" if policy.digest else ""
    return replace(policy, spec=tightened, digest=digest)


def disabled(policy: PolicySpec) -> bool:
    """Whether it is a preset where the floor wants policies that the tenant wrote."""
    return policy.name in PRESETS and policy.floor is not None and policy.floor.no_presets


def _lower(own: Money | None, least: Money | None) -> Money | None:
    """What calls of unknown price are held at; of two currencies, the policy's own."""
    if own is None:
        return least
    if least is None or least.currency_code != own.currency_code:
        return own
    return min(own, least, key=lambda each: each.amount)


def _shorter(timeouts: Iterable[float]) -> float:
    """0 is the default."""
    return min((each for each in timeouts if each), default=0.0)
