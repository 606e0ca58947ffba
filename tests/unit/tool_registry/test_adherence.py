from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium_kit.money import Money
from tool_registry.history.adherence import AdherenceReport, Behaviour, adherence_score
from tool_registry.history.past_episodes import PastEpisode
from tool_registry.models import Preferences

COUNTS = st.dictionaries(st.sampled_from("abc"), st.integers(0, 9), max_size=3)
AMOUNTS = st.floats(0, 1e4)
BEHAVIOURS = st.builds(
    Behaviour, tool_calls=COUNTS, outcome=st.just(1.0), cost=AMOUNTS, latency_s=AMOUNTS
)
WEIGHTS = st.floats(0, 1)
PREFERENCES = st.builds(
    Preferences,
    outcome=WEIGHTS,
    compute=WEIGHTS,
    latency=WEIGHTS,
    tools=st.dictionaries(st.sampled_from("abc"), WEIGHTS, max_size=3),
)


def test_the_papers_formula_on_numbers_done_by_hand() -> None:
    done = Behaviour({"local": 3, "web": 1}, outcome=1, cost=4, latency_s=10)
    baseline = Behaviour({"local": 2, "web": 0}, outcome=1, cost=8, latency_s=30)
    preferences = Preferences(outcome=1, compute=0.5, latency=0.25, tools={"local": 1, "web": 0.2})
    # 3/2 + 0.2 * 1/1 + 1/1 + 0.5 * 8/4 + 0.25 * 30/10
    assert adherence_score(done, baseline, preferences) == pytest.approx(4.45)


@given(BEHAVIOURS, BEHAVIOURS, PREFERENCES)
def test_a_wrong_answer_scores_nothing(
    done: Behaviour, baseline: Behaviour, preferences: Preferences
) -> None:
    assert adherence_score(replace(done, outcome=0.0), baseline, preferences) == 0


@given(BEHAVIOURS, BEHAVIOURS, PREFERENCES, st.floats(1, 100))
def test_cheaper_and_faster_never_score_less(
    done: Behaviour, baseline: Behaviour, preferences: Preferences, more: float
) -> None:
    score = adherence_score(done, baseline, preferences)
    more_expensive = replace(done, cost=done.cost + more)
    slower = replace(done, latency_s=done.latency_s + more)
    assert adherence_score(more_expensive, baseline, preferences) <= score
    assert adherence_score(slower, baseline, preferences) <= score


@given(BEHAVIOURS, BEHAVIOURS, PREFERENCES)
def test_a_preferred_tool_used_more_never_scores_less(
    done: Behaviour, baseline: Behaviour, preferences: Preferences
) -> None:
    more = replace(done, tool_calls={**done.tool_calls, "a": done.tool_calls.get("a", 0) + 1})
    score = adherence_score(done, baseline, preferences)
    assert adherence_score(more, baseline, preferences) >= score


def episode(policy: str, task: str = "t1", **changes: object) -> PastEpisode:
    fields: dict[str, object] = {
        "id": f"{policy}-{task}",
        "task_id": task,
        "task": "What is it?",
        "answer": "It.",
        "policy_version": 1,
        "preferences": Preferences(outcome=1, compute=1),
        "tool_call_counts": {"local": 1},
        "calls": (),
        "cost": Money(Decimal("0.10"), "USD"),
        "latency_s": 20.0,
        "answered": True,
        "solved": True,
    }
    return PastEpisode(policy_name=policy, **(fields | changes))  # type: ignore[arg-type]


def test_a_policy_is_scored_against_the_baseline_on_the_same_tasks() -> None:
    cheap = episode("thrifty", cost=Money(Decimal("0.05"), "USD"))
    episodes = [episode("balanced"), cheap, episode("thrifty", "t2")]
    [_, scores] = AdherenceReport(episodes, "balanced", answered_is_solved=False).policies(episodes)
    assert (scores.policy_name, scores.without_baseline) == ("thrifty", 1)
    # The outcome counts 1/1, ten cents against five count 2.
    assert scores.total_score == pytest.approx(3)
    assert scores.mean_cost == Money(Decimal("0.05"), "USD")


def test_unjudged_and_unpriced_episodes_are_left_out_and_counted() -> None:
    episodes = [
        episode("balanced"),
        episode("mine", solved=None),
        episode("mine", cost=None),
        episode("mine", solved=False),
    ]
    [_, scores] = AdherenceReport(episodes, "balanced", answered_is_solved=False).policies(episodes)
    assert (scores.without_outcome, scores.without_cost) == (1, 1)
    assert [(each.solved, each.score) for each in scores.scored] == [(False, 0)]


def test_answered_episodes_count_as_solved_only_when_asked() -> None:
    episodes = [episode("balanced", solved=None)]
    judged = AdherenceReport(episodes, "balanced", answered_is_solved=False).policies(episodes)
    answered = AdherenceReport(episodes, "balanced", answered_is_solved=True).policies(episodes)
    assert [len(scores.scored) for scores in (*judged, *answered)] == [0, 1]
