import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podium.episodes.v1 import check_pb2
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium.registry.v1 import tool_pb2
from podium_evaluation.results.agreement import (
    OWN_CHECK,
    agreements,
    all_agree,
    disagreements,
    judge_figures,
    verdicts_by_judge,
)
from podium_evaluation.results.trials import TrialVote
from podium_evaluation.runs.judges import Judge, check_family
from podium_evaluation.runs.judging import reference_of
from podium_evaluation.statistics.agreement import cohens_kappa, fleiss_kappa
from podium_kit.client.errors import UsageError
from podium_kit.models.lineages import families
from unit.podium_evaluation.trial_results import trial


def test_kappa_is_that_of_cohens_own_definition() -> None:
    pairs = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10
    found = cohens_kappa(pairs + [(False, False)] * 15)
    assert found is not None
    # 35 of 50 are equal, and 25/50 * 30/50 + 25/50 * 20/50 would be by chance.
    assert found.mean == pytest.approx((0.7 - 0.5) / (1 - 0.5))
    # The standard error of the delta method, by differences of the table's four shares.
    assert (found.upper - found.lower) / 2 / 1.959964 == pytest.approx(0.126996, abs=1e-5)


def test_kappa_is_one_for_equal_judges_and_undefined_where_nothing_differs() -> None:
    equal = cohens_kappa([(True, True), (False, False)] * 10)
    assert equal is not None and (equal.mean, equal.lower, equal.upper) == (1, 1, 1)
    assert cohens_kappa([(True, True)] * 10) is None
    assert cohens_kappa([]) is None


def test_fleiss_kappa_is_that_of_its_definition() -> None:
    # Three judges, four items: 3, 2, 1 and 0 of them call it right.
    items = [[True] * right + [False] * (3 - right) for right in (3, 2, 1, 0)]
    # Pairs agree on all, a third, a third and all; half of all verdicts are right.
    assert fleiss_kappa(items) == pytest.approx((2 / 3 - 1 / 2) / (1 - 1 / 2))
    assert fleiss_kappa([]) is None
    assert fleiss_kappa([[True], [False]]) is None
    assert fleiss_kappa([[True, True]] * 5) is None
    with pytest.raises(ValueError, match="every item"):
        fleiss_kappa([[True, True], [True]])


verdict_rows = st.integers(2, 5).flatmap(
    lambda judges: st.lists(
        st.lists(st.booleans(), min_size=judges, max_size=judges), min_size=1, max_size=30
    )
)


@given(verdict_rows, st.randoms(use_true_random=False))
def test_fleiss_kappa_knows_neither_judges_nor_what_right_is_called(
    rows: list[list[bool]], random: Any
) -> None:
    found = fleiss_kappa(rows)
    mixed = [random.sample(row, len(row)) for row in rows]
    turned = [[not each for each in row] for row in rows]
    unequal = any(len(set(row)) > 1 for row in rows)
    if found is None:
        assert not unequal and fleiss_kappa(mixed) is None
    else:
        assert fleiss_kappa(mixed) == pytest.approx(found)
        assert fleiss_kappa(turned) == pytest.approx(found)
        assert -1 <= found <= 1 and (found == pytest.approx(1)) is not unequal


def test_agreement_counts_the_trials_that_both_judges_judged() -> None:
    trials = [trial("only", f"item-{n}", score) for n, score in enumerate([1.0, 0.0, 1.0, None])]

    def verdict(judge: str, place: int, score: float | None) -> pb.Verdict:
        return pb.Verdict(judge=judge, episode_id=trials[place].episode_id, score=score)

    found = agreements(
        verdicts_by_judge(
            trials,
            [
                verdict("first", 0, 1.0),
                verdict("first", 1, 1.0),
                verdict("first", 2, None),
                verdict("first", 3, 1.0),
                verdict("second", 1, 1.0),
            ],
        )
    )
    counts = {(each.first, each.second): (each.trials, each.equal) for each in found}
    assert counts == {
        (OWN_CHECK, "first"): (2, 1),
        (OWN_CHECK, "second"): (1, 0),
        ("first", "second"): (1, 1),
    }


def votes(*scores: float | None) -> tuple[TrialVote, ...]:
    return tuple(
        TrialVote(name, score, "", Decimal("0.001"))
        for name, score in zip(("a", "b", "c"), scores, strict=True)
    )


def test_what_judges_of_a_check_found_and_where_they_differ() -> None:
    trials = [
        trial("only", "agreed", 1.0, votes=votes(1.0, 1.0, 1.0)),
        trial("only", "outvoted", 1.0, votes=votes(1.0, 1.0, 0.0)),
        trial("only", "tied", None, votes=votes(1.0, 0.0, None)),
        trial("only", "unasked", 0.0),
    ]
    judges = verdicts_by_judge(trials, [])
    found = {each.judge: each for each in judge_figures(judges, trials, [])}
    assert (found["a"].right, found["a"].wrong, found["a"].unjudged) == (3, 0, 0)
    assert (found["c"].right, found["c"].wrong, found["c"].unjudged) == (1, 1, 1)
    assert found["c"].cost == Decimal("0.003")
    differing = disagreements(judges, trials)
    assert [(each.item_id, each.score) for each in differing] == [("tied", None), ("outvoted", 1.0)]
    assert differing[0].verdicts == {"a": True, "b": False, "c": None}
    together = all_agree(judges)
    assert together is not None and (together.judges, together.trials) == (3, 2)
    assert together.kappa == pytest.approx(fleiss_kappa([[True] * 3, [True, True, False]]))
    assert all_agree({name: judges[name] for name in (OWN_CHECK, "a", "b")}) is None


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("openai/gpt-4o-mini", {"gpt"}),
        ("o3-mini", {"gpt"}),
        ("Qwen/Qwen3-8B", {"qwen"}),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", {"deepseek", "qwen"}),
        ("meta-llama/Llama-3.3-70B-Instruct", {"llama"}),
        ("HuggingFaceTB/SmolLM2-135M-Instruct", {"smollm"}),
        ("acme/house-model-2", {"house"}),
        ("7", set()),
    ],
)
def test_the_family_of_a_model_follows_from_its_name(model: str, expected: set[str]) -> None:
    assert families(model) == expected


def test_a_judge_of_the_judged_models_family_is_an_error_that_names_both() -> None:
    with pytest.raises(UsageError) as rejected:
        check_family(Judge("ask_judge"), ["gpt-4.1"], ["Qwen3-8B", "gpt-4o-mini"])
    assert "ask_judge is gpt-4.1 and would judge gpt-4o-mini" in str(rejected.value)
    check_family(Judge("ask_judge"), ["gpt-4.1"], ["Qwen3-8B"])


def test_a_judge_of_several_models_is_named_with_the_one_that_is_asked() -> None:
    spec = tool_pb2.ToolSpec(name="ask", kind=tool_pb2.TOOL_KIND_LLM)
    spec.connection.llm.models.add(alias="large", model="gpt-4.1")
    spec.connection.llm.models.add(alias="small", model="gpt-4o-mini")
    tools = {"ask": spec}
    assert Judge.parse("ask/small").models(tools) == ["gpt-4o-mini"]
    for name, words in (
        ("ask", "name ask/large or ask/small"),
        ("ask/huge", "no model huge"),
        ("nosuch", "no tool nosuch"),
    ):
        with pytest.raises(UsageError) as rejected:
            Judge.parse(name).models(tools)
        assert words in f"{rejected.value} {rejected.value.fix}"


@pytest.mark.parametrize(
    ("verifier", "parameters", "expected"),
    [
        ("llm", {"judges": "a", "reference": "Oslo", "rubric": "spelling"}, ("Oslo", "spelling")),
        ("exact", {"expected": ["Oslo", "Christiania"]}, ("Oslo or Christiania", "")),
        ("set", {"expected": ["Oslo", "Bergen"]}, ("Oslo, Bergen", "")),
        ("numeric", {"expected": "42"}, ("42", "")),
        ("python", {"code": "def check(answer): return True"}, ("", "")),
    ],
)
def test_the_reference_of_an_item_is_what_its_check_expects(
    verifier: str, parameters: dict[str, object], expected: tuple[str, str]
) -> None:
    check = check_pb2.Check(verifier=verifier, parameters_json=json.dumps(parameters))
    assert reference_of(pb.EvaluationItem(id="one", check=check)) == expected
