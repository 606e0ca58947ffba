"""Policies that bind an episode under any policy: floors, and policies bound to its caller.

All are asked, and the strictest decides; so a policy of the tenant, a preset or an agent can only
tighten what they lay down. Preferences and instruction are those of the policy alone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from podium_kit.money import Money
from tool_registry.models import PLATFORM, Floor, PolicySpec, PolicyVersion, UnknownPriceRule
from tool_registry.policies.presets import PRESETS

# A policy of this name binds all of its tenant, from its first version on.
FLOOR = "floor"
# And one of this name all tenants; it is the platform admin's.
PLATFORM_FLOOR = "platform-floor"
STRICTEST_FIRST = (
    UnknownPriceRule.REJECT,
    UnknownPriceRule.ADMIT_AT_CEILING,
    UnknownPriceRule.ADMIT,
)
# What the contract says of a policy that leaves it unset.
APPROVAL_TIMEOUT_S = 3600.0


def bound(policy: PolicyVersion, floors: Sequence[Floor]) -> PolicyVersion:
    """The policy above the floors, outermost first. One of them alone stays as it was written."""
    floors = tuple(floor for floor in floors if not _same(floor.policy, policy))
    if not floors:
        return policy
    spec, below = policy.spec, [floor.policy.spec for floor in floors]
    ceilings = [each.price_ceiling for each in (spec, *below) if each.price_ceiling is not None]
    budgets = [name for each in (*below, spec) for name in each.budget_ids]
    tightened = replace(
        spec,
        floors=floors,
        unknown_price=_strictest((spec, *below), ceilings),
        price_ceiling=_lowest(ceilings),
        training_consent=all(each.training_consent for each in (spec, *below)),
        budget_ids=tuple(dict.fromkeys(budgets)),
        self_approval=all(each.self_approval for each in (spec, *below)),
        approval_timeout_s=_shortest(spec, below),
        parallel_calls=_fewest(spec, *below),
    )
    return replace(policy, spec=tightened, digest=_digest(policy, floors))


def disabling(policy: PolicySpec) -> str:
    """The floor that wants policies which the tenant wrote, where this is a preset; or empty."""
    if policy.name not in PRESETS:
        return ""
    wanting = (floor.origin for floor in policy.floors if floor.policy.spec.no_presets)
    return next(wanting, "")


def owner_of(policy: str, tenant: str) -> str:
    return PLATFORM if policy == PLATFORM_FLOOR else tenant


def _same(floor: PolicyVersion, policy: PolicyVersion) -> bool:
    """Returns whether it is the floor's own version, or one that is tried in its place."""
    return floor.spec.name == policy.spec.name and policy.version in (0, floor.version)


def _digest(policy: PolicyVersion, floors: Sequence[Floor]) -> str:
    if not policy.digest:
        return ""
    parts = (f"{floor.policy.spec.name}:{floor.policy.digest}" for floor in floors)
    return "/".join((policy.digest, *parts))


def _strictest(policies: Iterable[PolicySpec], ceilings: Sequence[Money]) -> UnknownPriceRule:
    """Returns the strictest rule; calls are rejected under ceilings of two currencies."""
    rule = min((each.unknown_price for each in policies), key=STRICTEST_FIRST.index)
    held = rule is UnknownPriceRule.ADMIT_AT_CEILING
    mixed = len({each.currency_code for each in ceilings}) > 1
    return UnknownPriceRule.REJECT if held and mixed else rule


def _lowest(ceilings: Sequence[Money]) -> Money | None:
    """Returns the lowest ceiling in the policy's own currency; each floor checks its own."""
    currency = ceilings[0].currency_code if ceilings else ""
    alike = (each for each in ceilings if each.currency_code == currency)
    return min(alike, key=lambda each: each.amount, default=None)


def _shortest(policy: PolicySpec, below: Sequence[PolicySpec]) -> float:
    """A floor that leaves it unset bounds nothing."""
    bounds = [each.approval_timeout_s for each in below if each.approval_timeout_s]
    own = policy.approval_timeout_s
    return min(own or APPROVAL_TIMEOUT_S, *bounds) if bounds else own


def _fewest(*policies: PolicySpec) -> int:
    return min((each.parallel_calls for each in policies if each.parallel_calls), default=0)
