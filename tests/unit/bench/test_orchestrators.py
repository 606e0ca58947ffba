from decimal import Decimal
from pathlib import Path

import pytest

from bench.orchestrators.arms import TRAINED, Arm
from bench.orchestrators.comparison import change, cost, gain, lines
from bench.orchestrators.journal import Journal
from bench.orchestrators.report import chooser_rows, report
from bench.orchestrators.study import USUAL, Study, read_study, renamed, study_names, weights_of
from podium_kit.bundled_files import bundled_folder
from podium_training.gate import Evaluated
from podium_training.tasks.task import Split
from podium_training.tasks.taskset import generate
from tool_registry.models import Preferences


def make_episode(task: int, score: float, cost: str, latency_s: float, **calls: int) -> Evaluated:
    return Evaluated(
        task_id=f"t{task}",
        seed=0,
        score=score,
        cost=Decimal(cost),
        latency_s=latency_s,
        actions=2,
        malformed_actions=0,
        tool_calls=1,
        failed_tool_calls=0,
        calls=calls,
        model_versions=("m",),
    )


RESULTS = {
    "expert": [make_episode(task, float(task > 0), "0.04", 4.0) for task in range(8)],
    "small": [make_episode(task, 1.0, "0.0004", 2.0) for task in range(8)],
    "lost": [make_episode(task, 0.0, "0.0002", 1.0) for task in range(8)],
}


POLICIES = read_study(USUAL).specs()


@pytest.mark.parametrize("policy", POLICIES)
def test_right_and_cheap_wins_under_every_policy(policy: str) -> None:
    weights = weights_of(POLICIES[policy])
    expert, small, lost = lines(policy, weights, RESULTS, "expert")
    assert (expert.outcome.mean, small.outcome.mean, lost.outcome.mean) == (0.875, 1.0, 0.0)
    assert expert.outcome.lower < 0.875 < expert.outcome.upper
    assert small.reward.mean > expert.reward.mean > lost.reward.mean == 0
    assert small.adherence.mean > expert.adherence.mean > lost.adherence.mean == 0
    assert small.cost.mean == pytest.approx(0.0004)
    assert gain(weights, RESULTS, "small", "expert").lower > 0
    assert small.row().startswith(f"| {policy} | small | 1.00 [1.00, 1.00] |")


def test_a_preferred_tool_earns_more() -> None:
    results = {
        "asks": [make_episode(task, 1.0, "0.01", 2.0, dictionary=1) for task in range(8)],
        "does not": [make_episode(task, 1.0, "0.01", 2.0) for task in range(8)],
    }
    weights = Preferences(1.0, 0.5, 0.5, {"dictionary": 0.7})
    assert gain(weights, results, "asks", "does not").mean == pytest.approx(0.7)


def verdict(cost: str, tmp_path: Path, rival: float = 0.0) -> str:
    """Of a policy that is always right for that cost, beside two experts and another policy."""
    journal = Journal(tmp_path / "journal.jsonl", {})
    for task in range(8):
        for arm, score, paid in (
            ("always large", 1.0, "0.04"),
            ("always small", float(task % 2), "0.001"),
            ("imitation", rival, "0.001"),
            (TRAINED, 1.0, cost),
        ):
            journal.add(arm, "bench-cost", make_episode(task, score, paid, 2.0))
    experts = [Arm(f"always {alias}", expert=alias) for alias in ("large", "small")]
    compared = [*experts, Arm("imitation", model_dir=tmp_path), Arm(TRAINED)]
    return str(report(read_study(USUAL), compared, journal).findings["bench-cost.verdict"])


def test_who_wins_is_right_as_often_as_the_finest_expert_for_less(tmp_path: Path) -> None:
    assert verdict("0.002", tmp_path) == "wins"


def test_a_verdict_says_what_is_missing(tmp_path: Path) -> None:
    said = verdict("0.03", tmp_path, rival=1.0)
    assert said == "not surely above imitation; costs 75% of always large"


def test_a_change_is_measured_task_by_task() -> None:
    before = [make_episode(task, 1.0, f"0.0{task + 1}", 2.0) for task in range(8)]
    after = [make_episode(task, 1.0, f"0.0{task}", 2.0) for task in reversed(range(8))]
    found = change(after, before, cost)
    assert (found.lower, found.mean, found.upper) == pytest.approx((-0.01, -0.01, -0.01))


def thinking(study: Study) -> int:
    return sum(each.thinking_tokens for each in study.pool.experts)


@pytest.mark.parametrize("name", study_names())
def test_a_study_differs_from_training_in_what_it_says(name: str) -> None:
    study, usual = read_study(name), read_study(USUAL)
    changed = {
        "unseen-prices": study.price_spread > usual.price_spread,
        "unseen-experts": not {each.alias for each in study.pool.experts}
        & {each.alias for each in usual.pool.experts},
        "costly-specialists": thinking(study) > thinking(usual),
        "unseen-tools": bool(study.tools),
        "learnt-preferences": study.temperature > usual.temperature,
        USUAL: bool(study.policies),
    }
    assert changed[name]
    # A weight of a model is one of a model that is offered.
    offered = {f"{study.pool.tool}/{each.alias}" for each in study.pool.experts}
    for spec in study.specs().values():
        assert set(spec.preferences.tools) <= offered


def test_tools_of_a_study_are_bundled_ones_by_other_names() -> None:
    study = read_study("unseen-tools")
    bundled = {path.stem for path in (bundled_folder() / "tools").glob("*.yaml")}
    assert set(study.tools) <= bundled
    assert not {new.name for new in study.tools.values()} & bundled
    tasks = generate(48, Split.HELD_OUT)
    asked = {tool for task in renamed(tasks, study) for tool in task.tools}
    assert asked
    assert not asked & set(study.tools)


def test_rules_of_choosing_are_scored_over_the_experts(tmp_path: Path) -> None:
    study = read_study(USUAL)
    tasks = generate(40, Split.HELD_OUT, 0, ["arithmetic", "facts"])
    journal = Journal(tmp_path / "journal.jsonl", {})
    policy = next(iter(POLICIES))
    experts = {"always good": ("arithmetic", "0.04"), "always cheap": ("facts", "0.01")}
    for name, (family, cost_usd) in experts.items():
        for place, task in enumerate(tasks):
            episode = make_episode(place, float(task.family == family), cost_usd, 1.0)
            journal.add(name, policy, episode.model_copy(update={"task_id": task.id}))
    rows = chooser_rows(study, [Arm(name, expert=name) for name in experts], journal, tasks)
    table = next(row for row in rows if "best of each family" in row)
    assert table.startswith(f"| {policy} | best of each family | 1.00 ")
    assert any("oracle" in row and "| 0.025000 | 0.50 |" in row for row in rows)
