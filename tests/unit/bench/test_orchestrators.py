from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bench.orchestrators.arms import PROMPT_ONLY, TRAINED, UNTRAINED_POLICIES, Arm, Course
from bench.orchestrators.journal import Journal
from bench.orchestrators.page import controls, differences, shown
from bench.orchestrators.report import (
    ARMS,
    CHOICES,
    CONTROLS,
    CURVE,
    RULES,
    Comparison,
    report,
)
from bench.orchestrators.study import USUAL, Study, read_study, renamed, study_names
from podium.registry.v1.policy_pb2 import PolicySpec
from podium_kit.bundled_files import bundled_folder
from podium_kit.models.rules import ALWAYS
from podium_operations.documents import read_messages
from podium_training.gate import Evaluated
from podium_training.imitation.preference_pairs import instructions
from podium_training.tasks.task import Split
from podium_training.tasks.taskset import generate


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


POLICIES = read_study(USUAL).specs()
TASKS = generate(24, Split.HELD_OUT, 0, ["arithmetic", "facts"])
ASKED = {size: f"ask_expert/generalist-{size}" for size in ("large", "small")}
EXPERTS = [Arm(f"always {size}", f"{ALWAYS}{name}") for size, name in ASKED.items()]


def compared(folder: Path, arms: list[Arm], episodes: dict[str, list[Evaluated]]) -> Comparison:
    """Episodes of the tasks by arm, in their order, the same under every vector."""
    journal, study = Journal(folder / "journal.jsonl", {}), read_study(USUAL)
    plays = {arm.name: arm.plays(study) for arm in arms}
    for name, each in episodes.items():
        for policy in plays[name]:
            for task, episode in zip(TASKS, each, strict=False):
                named = episode.model_copy(update={"task_id": task.id})
                journal.add(name, policy, named)
    return Comparison(study, arms, [Course(0, (), "", study, TASKS, 0, 0.0)], journal)


def verdict(cost: str, folder: Path, rival: float = 0.0) -> str:
    """The verdict on a policy that is always right for that cost, beside two experts and another
    policy."""
    places = range(len(TASKS))
    episodes = {
        "always large": [make_episode(place, 1.0, "0.04", 2.0) for place in places],
        "always small": [make_episode(place, float(place % 2), "0.001", 2.0) for place in places],
        "imitation": [make_episode(place, rival, "0.001", 2.0) for place in places],
        TRAINED: [make_episode(place, 1.0, cost, 2.0) for place in places],
    }
    arms = [*EXPERTS, Arm("imitation", model_dir=folder), Arm(TRAINED)]
    return str(report(compared(folder, arms, episodes)).findings["bench-cost.verdict"])


def test_the_winner_is_right_as_often_as_the_best_expert_for_less(tmp_path: Path) -> None:
    assert verdict("0.002", tmp_path) == "wins"


def test_a_verdict_states_what_is_missing(tmp_path: Path) -> None:
    found = verdict("0.03", tmp_path, rival=1.0)
    assert found == "not surely above imitation; costs 75% of always large"


def test_a_report_places_every_arm_between_the_best_expert_and_the_oracle(tmp_path: Path) -> None:
    """One expert knows one family, the other one the other; the policy asks the right one."""
    episodes: dict[str, list[Evaluated]] = {arm.name: [] for arm in [*EXPERTS, Arm(TRAINED)]}
    for place, task in enumerate(TASKS):
        right = "large" if task.family == "facts" else "small"
        for alias, cost in (("large", "0.04"), ("small", "0.01")):
            one = make_episode(place, float(alias == right), cost, 1.0, **{ASKED[alias]: 1})
            episodes[f"always {alias}"].append(one)
        own = make_episode(place, 1.0, "0.021", 1.0, **{ASKED[right]: 1})
        episodes[TRAINED].append(own.model_copy(update={"orchestrator_cost": Decimal("0.001")}))
    untrained = Arm(PROMPT_ONLY, model_dir=tmp_path, policies=UNTRAINED_POLICIES)
    episodes[PROMPT_ONLY] = [make_episode(0, 0.0, "0.1", 60.0)]
    comparison = compared(tmp_path, [*EXPERTS, Arm(TRAINED), untrained], episodes)
    found = report(comparison)
    [rules] = [row for row in found.rows[RULES] if "oracle" in row]
    assert "| 1.00 [1.00, 1.00] | 0.025000 | 0.50 | 1.00 | 0.00 | 1.00 |" in rules
    [choices] = [row for row in found.rows[CHOICES] if "bench-cost | trained" in row]
    assert choices == "| bench-cost | trained | 1.00 | 1.00 | 0.50 | 1.00 | 0.00 |"
    [arm] = [row for row in found.rows[ARMS] if "bench-cost | trained" in row]
    assert "| 0.021000 [0.021000, 0.021000] | 0.001000 [0.001000, 0.001000] |" in arm
    assert len([row for row in found.rows[ARMS] if PROMPT_ONLY in row]) == 1
    curve = next(row for row in found.rows[CURVE] if row.startswith(f"| {TRAINED} "))
    assert curve.count(" for ") == 7
    assert curve.split(" | ")[1] == "0.00 [0.00, 0.00] for 0.010000"
    assert "than a plain table of the best expert of each family" in shown(
        comparison, found.findings
    )


def test_controls_are_compared_with_the_first_of_them_task_by_task(tmp_path: Path) -> None:
    preferred = next(iter(POLICIES["bench-liked"].preferences.tools))
    arms = [
        *EXPERTS,
        Arm(TRAINED),
        Arm("all terms", model_dir=tmp_path),
        Arm("without cost", model_dir=tmp_path),
    ]
    episodes = {
        arm.name: [make_episode(place, 1.0, "0.01", 2.0) for place in range(len(TASKS))]
        for arm in arms
    }
    episodes["without cost"] = [
        make_episode(place, float(place % 4 > 0), "0.03", 1.0, **{preferred: 2})
        for place in range(len(TASKS))
    ]
    comparison = compared(tmp_path, arms, episodes)
    found = report(comparison)
    rows = found.rows[CONTROLS]
    assert [row.split(" | ")[0] for row in rows] == [*(f"| {name}" for name in POLICIES), "| all"]
    assert "| without cost | -0.25 [" in rows[-1]
    assert "| +0.020000 [+0.020000, +0.020000] | -1.0 [-1.0, -1.0] | +2.00 [" in rows[-1]
    sentence = differences(comparison, found.findings)
    assert sentence.startswith("Beside all terms, over all vectors: without cost costs +0.02 [")
    section = controls(comparison, found)
    assert section.startswith("## Controls beside all terms")
    fewer = compared(tmp_path / "fewer", arms[:-1], {})
    assert (differences(fewer, {}), controls(fewer, found)) == ("", "")


def conditions(study: Study) -> dict[str, Any]:
    return study.model_dump(exclude={"title", "unseen", "policies", "untrained"})


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
        # Its arms differ, and nothing else does.
        "reward-terms": conditions(study) == conditions(usual),
    }
    assert changed[name]
    # A weight of a model is one of a model that is offered.
    offered = {f"{study.pool.tool}/{each.alias}" for each in study.pool.experts}
    for spec in study.specs().values():
        assert set(spec.preferences.tools) <= offered


@pytest.mark.parametrize("name", study_names())
def test_no_instruction_or_vector_of_a_study_is_one_of_training(name: str) -> None:
    shown = {one for splits in instructions().values() for one in splits[Split.TRAIN]}
    learnt = read_messages(bundled_folder() / "policy" / "learn.yaml", PolicySpec)
    shown |= {spec.instruction for _, spec in learnt if spec.instruction}
    specs = read_study(name).specs().values()
    said = [spec.instruction for spec in specs if spec.instruction]
    assert len(said) == 3
    assert not shown & set(said)
    for spec in specs:
        weights = (spec.preferences.outcome, spec.preferences.compute, spec.preferences.latency)
        # Training states tenths.
        assert any(round(weight * 100) % 10 for weight in weights), spec.name


def test_tools_of_a_study_are_bundled_ones_by_other_names() -> None:
    study = read_study("unseen-tools")
    bundled = {path.stem for path in (bundled_folder() / "tools").glob("*.yaml")}
    assert set(study.tools) <= bundled
    assert not {new.name for new in study.tools.values()} & bundled
    tasks = generate(48, Split.HELD_OUT)
    asked = {tool for task in renamed(tasks, study) for tool in task.tools}
    assert asked
    assert not asked & set(study.tools)
