from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain, combinations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podium_kit.money import Money
from podium_kit.tool_kinds import KINDS
from tool_registry.history.dry_run import dry_run
from tool_registry.history.past_episodes import PastCall
from tool_registry.models import (
    Floor,
    ModelChoice,
    PolicySpec,
    PolicyVersion,
    Preferences,
    Selector,
    ToolSpec,
    UnknownPriceRule,
)
from tool_registry.policies.compiled import Circumstances, needs_approval, rejection
from tool_registry.policies.floors import APPROVAL_TIMEOUT_S, STRICTEST_FIRST, bound
from tool_registry.toolsets.resolver import CallDecision
from unit.tool_registry.test_adherence import episode


def sets_of(things: Iterable[Any], sizes: range) -> st.SearchStrategy[frozenset[Any]]:
    """One draw a set: policies have so many sets that draws by element would take too long."""
    found = chain.from_iterable(combinations(things, size) for size in sizes)
    return st.sampled_from([frozenset(each) for each in found])


WORDS = st.sampled_from("abcd")
SETS = sets_of("abcd", range(4))
ANY_KIND = st.sampled_from(list(KINDS.values()))
PRICES = st.decimals("0", "100", places=4).map(lambda amount: Money(amount, "USD"))
SECONDS = st.floats(0.001, 100)
SELECTORS = st.builds(
    Selector,
    names=SETS,
    kinds=sets_of(KINDS.values(), range(3)),
    tags=SETS,
    providers=SETS,
    models=SETS,
)
CHOICES = st.builds(
    ModelChoice, alias=WORDS, model=WORDS, sku=WORDS, description=WORDS, provider=WORDS, tags=SETS
)
SPECS = st.builds(
    ToolSpec,
    name=WORDS,
    kind=ANY_KIND,
    connection_kind=WORDS,
    description=WORDS,
    parameters_schema=WORDS,
    result_schema=WORDS,
    models=st.just(()),
    max_output_tokens=st.just(0),
    sku=WORDS,
    timeout_s=SECONDS,
    tags=SETS,
    provider=WORDS,
    wire=st.just(b""),
)
POLICIES = st.builds(
    PolicySpec,
    name=WORDS,
    preferences=st.just(Preferences()),
    allow=SELECTORS,
    deny=SELECTORS,
    required_tags=sets_of("abcd", range(2)),
    price_ceiling=st.none() | PRICES,
    latency_ceiling_s=st.none() | SECONDS,
    unknown_price=st.sampled_from(list(UnknownPriceRule)),
    approval=SELECTORS,
    instruction=st.just(""),
    training_consent=st.booleans(),
    budget_ids=st.just(()),
    approval_timeout_s=st.just(0.0),
    parallel_calls=st.just(0),
    wire=st.just(b""),
)
# Nothing but ceilings keeps a tool out, so that what a ceiling decides shows every time.
OPEN_POLICIES = POLICIES.map(
    lambda policy: replace(
        policy, allow=Selector(), deny=Selector(), required_tags=frozenset(), price_ceiling=None
    )
)
KNOWN = st.builds(
    Circumstances, price_known=st.just(True), worst_case=PRICES, latency_p95_s=st.none() | SECONDS
)
UNKNOWN = st.builds(
    Circumstances,
    price_known=st.just(False),
    worst_case=st.none(),
    latency_p95_s=st.none() | SECONDS,
)
CIRCUMSTANCES = KNOWN | UNKNOWN


@given(POLICIES, SPECS, CHOICES, CIRCUMSTANCES)
def test_deny_beats_every_way_to_be_allowed(
    policy: PolicySpec, spec: ToolSpec, choice: ModelChoice, now: Circumstances
) -> None:
    for denying in (
        Selector(names=frozenset({spec.name})),
        Selector(kinds=frozenset({spec.kind})),
        Selector(providers=frozenset({choice.provider})),
        Selector(models=frozenset({choice.model})),
        Selector(models=frozenset({choice.alias})),
    ):
        assert rejection(replace(policy, deny=denying), spec, choice, now).startswith("denied by")


@given(POLICIES, SPECS, CHOICES, CIRCUMSTANCES, WORDS)
def test_without_a_required_tag_nothing_is_in(
    policy: PolicySpec, spec: ToolSpec, choice: ModelChoice, now: Circumstances, tag: str
) -> None:
    without = replace(choice, tags=choice.tags - {tag})
    assert rejection(replace(policy, required_tags=frozenset({tag})), spec, without, now)


@given(OPEN_POLICIES, SELECTORS, SPECS, CHOICES, CIRCUMSTANCES)
def test_an_allow_list_never_allows_more(
    policy: PolicySpec, allow: Selector, spec: ToolSpec, choice: ModelChoice, now: Circumstances
) -> None:
    listed = rejection(replace(policy, allow=allow), spec, choice, now)
    assert listed or not rejection(policy, spec, choice, now)


@given(OPEN_POLICIES, SPECS, CHOICES, KNOWN, PRICES, PRICES)
def test_a_higher_price_ceiling_never_excludes_more(
    policy: PolicySpec,
    spec: ToolSpec,
    choice: ModelChoice,
    now: Circumstances,
    one: Money,
    two: Money,
) -> None:
    low, high = sorted([one, two], key=lambda money: money.amount)
    lower = rejection(replace(policy, price_ceiling=low), spec, choice, now)
    assert lower or not rejection(replace(policy, price_ceiling=high), spec, choice, now)


@given(OPEN_POLICIES, SPECS, CHOICES, KNOWN, SECONDS, SECONDS)
def test_a_higher_latency_ceiling_never_excludes_more(
    policy: PolicySpec,
    spec: ToolSpec,
    choice: ModelChoice,
    now: Circumstances,
    one: float,
    two: float,
) -> None:
    low, high = sorted([one, two])
    lower = rejection(replace(policy, latency_ceiling_s=low), spec, choice, now)
    assert lower or not rejection(replace(policy, latency_ceiling_s=high), spec, choice, now)


@given(POLICIES, SPECS, CHOICES, UNKNOWN)
def test_an_unknown_price_is_never_in_where_it_is_rejected(
    policy: PolicySpec, spec: ToolSpec, choice: ModelChoice, now: Circumstances
) -> None:
    assert rejection(replace(policy, unknown_price=UnknownPriceRule.REJECT), spec, choice, now)


@given(POLICIES, SPECS, CHOICES, KNOWN)
def test_a_ceiling_in_another_currency_allows_nothing(
    policy: PolicySpec, spec: ToolSpec, choice: ModelChoice, now: Circumstances
) -> None:
    ceiling = Money(Decimal(1_000_000), "EUR")
    assert rejection(replace(policy, price_ceiling=ceiling), spec, choice, now)


def call(tool: str, cost: str | None = "0.01") -> PastCall:
    price = None if cost is None else Money(Decimal(cost), "USD")
    return PastCall(tool, 1, "", price, failed=False)


def decide(call: PastCall) -> CallDecision:
    return CallDecision(call.tool_name != "web", "denied by name web", call.tool_name == "mail")


def test_rejected_calls_are_counted_priced_and_grouped() -> None:
    episodes = [
        episode("a", calls=(call("web"), call("web", "0.02"), call("local"))),
        episode("b", calls=(call("mail", "0.5"),)),
    ]
    run = dry_run(episodes, decide)
    assert (run.episode_count, run.call_count, run.rejected_call_count) == (2, 4, 2)
    assert (run.affected_episode_count, run.approval_call_count) == (1, 1)
    assert run.rejected_cost == Money(Decimal("0.03"), "USD")
    assert run.cost == Money(Decimal("0.54"), "USD")
    [group] = run.rejected
    assert (group.tool_name, group.call_count, group.cost) == ("web", 2, run.rejected_cost)


def test_solved_episodes_that_lose_a_call_are_counted() -> None:
    web, mail = (call("web"),), (call("mail"),)
    run = dry_run(
        [
            episode("a", calls=web, solved=True),
            episode("b", calls=web, solved=None, answered=True),
            episode("c", calls=web, solved=False, answered=True),
            episode("d", calls=mail, solved=True),
        ],
        decide,
    )
    assert (run.affected_episode_count, run.solved_episode_count) == (3, 3)
    assert run.affected_solved_episode_count == 2


def test_a_group_counts_its_calls_of_unknown_cost_beside_the_sum_of_the_others() -> None:
    run = dry_run([episode("a", calls=(call("web"), call("web", None)))], decide)
    group = run.rejected[0]
    assert (group.cost, group.unpriced_call_count) == (Money(Decimal("0.01"), "USD"), 1)
    assert run.rejected_cost == Money(Decimal("0.01"), "USD")


AMOUNTS = st.decimals("0", "100", places=4)
CURRENCIES = st.sampled_from(["USD", "EUR"])
MONEY = st.builds(Money, AMOUNTS, CURRENCIES)
ANY_CIRCUMSTANCES = st.builds(
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
        "parallel_calls": st.integers(0, 16),
    }
)
ANY = st.builds(lambda spec, terms: replace(spec, **terms), POLICIES, TERMS)
NAMED = st.builds(lambda spec, name: written(replace(spec, name=name)), ANY, NAMES)
FLOORS = st.lists(ANY, max_size=2).map(
    lambda specs: [
        Floor(written(replace(spec, name=f"floor-{number}")), f"floor {number}")
        for number, spec in enumerate(specs)
    ]
)


@given(NAMED, FLOORS, SPECS, CHOICES, ANY_CIRCUMSTANCES)
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


@given(NAMED, FLOORS, FLOORS, SPECS, CHOICES, ANY_CIRCUMSTANCES)
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
        if each.parallel_calls:
            assert 1 <= together.parallel_calls <= each.parallel_calls
        if each.approval_timeout_s:
            timeout_s = together.approval_timeout_s or APPROVAL_TIMEOUT_S
            assert timeout_s <= each.approval_timeout_s
        if together.unknown_price is UnknownPriceRule.ADMIT_AT_CEILING and each.price_ceiling:
            assert together.price_ceiling is not None
            # Amounts of two currencies cannot be compared: this raises.
            assert together.price_ceiling <= each.price_ceiling


@given(NAMED, FLOORS, SPECS, CHOICES, ANY_CIRCUMSTANCES)
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
