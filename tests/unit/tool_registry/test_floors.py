from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from podium_kit.money import Money
from tool_registry.models import (
    Floor,
    ModelChoice,
    PolicySpec,
    PolicyVersion,
    ToolSpec,
    UnknownPriceRule,
)
from tool_registry.policies.compiled import Circumstances, needs_approval, rejection
from tool_registry.policies.floors import APPROVAL_TIMEOUT_S, STRICTEST_FIRST, bound
from unit.tool_registry.test_policy_decisions import CHOICES, POLICIES, SECONDS, SPECS, WORDS

AMOUNTS = st.decimals("0", "100", places=4)
CURRENCIES = st.sampled_from(["USD", "EUR"])
MONEY = st.builds(Money, AMOUNTS, CURRENCIES)
CIRCUMSTANCES = st.builds(
    Circumstances,
    price_known=st.booleans(),
    worst_case=st.none() | MONEY,
    latency_p95_s=st.none() | SECONDS,
)


def written(spec: PolicySpec) -> PolicyVersion:
    return PolicyVersion(1, spec, "digest", datetime.now(UTC), "ada")


# Named like a preset now and then, which a floor may rule out.
NAMES = st.sampled_from(["mine", "balanced", "cost-first"])
TERMS = st.fixed_dictionaries(
    {
        "price_ceiling": st.none() | MONEY,
        "budget_ids": st.lists(WORDS, max_size=3).map(tuple),
        "approval_timeout_s": st.just(0.0) | SECONDS,
        "no_presets": st.booleans(),
    }
)
ANY = st.builds(lambda spec, terms: replace(spec, **terms), POLICIES, TERMS)
NAMED = st.builds(lambda spec, name: written(replace(spec, name=name)), ANY, NAMES)
FLOORS = st.lists(ANY, max_size=4).map(
    lambda specs: [
        Floor(written(replace(spec, name=f"floor-{number}")), f"floor {number}")
        for number, spec in enumerate(specs)
    ]
)


@given(NAMED, FLOORS, SPECS, CHOICES, CIRCUMSTANCES)
def test_a_call_is_in_when_all_that_binds_it_lets_it_in(
    policy: PolicyVersion,
    floors: list[Floor],
    spec: ToolSpec,
    choice: ModelChoice,
    now: Circumstances,
) -> None:
    together = bound(policy, floors).spec
    admitted = not rejection(together, spec, choice, now)
    of_each = [floor.policy.spec for floor in floors]
    if admitted:
        assert not any(rejection(each, spec, choice, now) for each in (policy.spec, *of_each))
    asks = [needs_approval(each, spec, choice) for each in (policy.spec, *of_each)]
    assert needs_approval(together, spec, choice) is any(asks)


@given(NAMED, FLOORS, FLOORS, SPECS, CHOICES, CIRCUMSTANCES)
def test_one_more_floor_brings_nothing_back(
    policy: PolicyVersion,
    floors: list[Floor],
    more: list[Floor],
    spec: ToolSpec,
    choice: ModelChoice,
    now: Circumstances,
) -> None:
    more = [Floor(written(replace(m.policy.spec, name=f"more-{m.origin}")), "more") for m in more]
    before, after = bound(policy, floors).spec, bound(policy, [*floors, *more]).spec
    if rejection(before, spec, choice, now):
        assert rejection(after, spec, choice, now)
    if needs_approval(before, spec, choice):
        assert needs_approval(after, spec, choice)


@given(NAMED, FLOORS)
def test_the_terms_of_an_episode_are_the_strictest_ones(
    policy: PolicyVersion, floors: list[Floor]
) -> None:
    together = bound(policy, floors).spec
    for each in (policy.spec, *(floor.policy.spec for floor in floors)):
        rules = (together.unknown_price, each.unknown_price)
        assert STRICTEST_FIRST.index(rules[0]) <= STRICTEST_FIRST.index(rules[1])
        assert set(each.budget_ids) <= set(together.budget_ids)
        assert each.training_consent or not together.training_consent
        assert each.self_approval or not together.self_approval
        if each.approval_timeout_s:
            timeout_s = together.approval_timeout_s or APPROVAL_TIMEOUT_S
            assert timeout_s <= each.approval_timeout_s
        if together.unknown_price is UnknownPriceRule.ADMIT_AT_CEILING and each.price_ceiling:
            assert together.price_ceiling is not None
            # Amounts of two currencies cannot be compared: this raises.
            assert together.price_ceiling <= each.price_ceiling


@given(NAMED, FLOORS, SPECS, CHOICES, CIRCUMSTANCES)
def test_the_order_of_floors_decides_nothing(
    policy: PolicyVersion,
    floors: list[Floor],
    spec: ToolSpec,
    choice: ModelChoice,
    now: Circumstances,
) -> None:
    turned = bound(policy, floors[::-1]).spec
    first = rejection(bound(policy, floors).spec, spec, choice, now)
    assert bool(first) is bool(rejection(turned, spec, choice, now))
