"""Models that judge an episode's answer: several vote, none judges its own family."""

from typing import Any

import grpc
import pytest

from integration.episodes.neighbours import answer, call, calls, in_turns, make_toolset
from integration.episodes.platform_under_test import Platform, new_id
from integration.episodes.test_evaluations import evaluations, item, played
from podium.adapters.v1 import tool_adapter_service_pb2 as adapters_pb
from podium.episodes.v1 import evaluation_service_pb2 as pb
from podium.registry.v1 import tool_pb2, toolset_pb2

MODELS = {"ask_claude": "claude-5", "ask_gpt": "gpt-6", "ask_qwen": "Qwen3-8B"}
JUDGES = tuple(MODELS)


@pytest.fixture
def judges(platform: Platform) -> Platform:
    """Three judges beside the calculator, and an orchestrator of unknown family that answers."""
    toolset = make_toolset("calculator")
    for name, model in MODELS.items():
        tool = toolset_pb2.ResolvedTool(
            name=name,
            version=1,
            kind=tool_pb2.TOOL_KIND_LLM,
            description="judges",
            parameters_json_schema='{"type": "object"}',
            max_output_tokens=10,
            model_aliases=["only"],
            model_skus={"only": f"llm/{model}"},
            model_names={"only": model},
        )
        toolset.tools.append(tool)
    platform.neighbours.registry.toolset = toolset
    platform.neighbours.orchestrator.decide = in_turns(answer("It is 42"))
    return platform


def say(platform: Platform, **verdicts: str) -> None:
    def content(request: adapters_pb.InvokeRequest) -> str:
        return verdicts[request.tool_name]

    platform.neighbours.adapters.content = content


async def judged(platform: Platform, *names: str, **parameters: object) -> pb.Trial:
    return await played(platform, item("one", "llm", judges=names, reference="42", **parameters))


async def test_more_than_half_of_the_judges_decide_and_each_has_its_vote_and_cost(
    judges: Platform,
) -> None:
    say(judges, ask_claude="correct", ask_gpt="incorrect", ask_qwen="Well.\ncorrect")
    trial = await judged(judges, *JUDGES)
    assert (trial.state, trial.score) == (pb.TRIAL_STATE_JUDGED, 1.0)
    assert [(vote.judge, vote.score) for vote in trial.votes] == [
        ("ask_claude", 1.0),
        ("ask_gpt", 0.0),
        ("ask_qwen", 1.0),
    ]
    assert "2 of 3 judges agree" in trial.explanation
    amounts = [float(vote.cost.amount) for vote in trial.votes]
    assert all(amounts) and sum(amounts) == pytest.approx(float(trial.judge_cost.amount))


@pytest.mark.parametrize(
    "verdicts",
    [
        {"ask_claude": "correct", "ask_gpt": "incorrect", "ask_qwen": "I wonder"},
        {"ask_claude": "correct", "ask_gpt": "?", "ask_qwen": "?"},
    ],
)
async def test_without_a_majority_the_trial_is_unjudged(
    judges: Platform, verdicts: dict[str, str]
) -> None:
    say(judges, **verdicts)
    trial = await judged(judges, *JUDGES)
    assert trial.state == pb.TRIAL_STATE_UNJUDGED and not trial.HasField("score")
    assert "no majority" in trial.explanation
    assert len(trial.votes) == 3 and not trial.votes[2].HasField("score")


async def test_a_judge_that_fails_has_no_vote_and_the_others_decide(judges: Platform) -> None:
    say(judges, ask_claude="incorrect", ask_qwen="incorrect")
    judges.neighbours.adapters.failures["ask_gpt"] = "the provider is away"
    trial = await judged(judges, *JUDGES)
    assert trial.score == 0 and trial.state == pb.TRIAL_STATE_JUDGED
    [failed] = [vote for vote in trial.votes if vote.judge == "ask_gpt"]
    assert not failed.HasField("score") and "the provider is away" in failed.explanation


async def test_no_model_judges_what_its_own_family_wrote_unless_that_is_allowed(
    judges: Platform,
) -> None:
    say(judges, ask_claude="correct", ask_gpt="correct", ask_qwen="Qwen knows.")
    asks = in_turns(calls(call("ask_qwen")), answer("It is 42"))
    judges.neighbours.orchestrator.decide = asks
    trial = await judged(judges, "ask_qwen")
    assert trial.state == pb.TRIAL_STATE_UNJUDGED
    assert "ask_qwen is Qwen3-8B and would judge Qwen3-8B, of its own family qwen" in (
        trial.explanation
    )
    assert "allow_own_family" in trial.explanation
    asked = [each.tool_name for each in judges.neighbours.adapters.requests]
    assert asked == ["ask_qwen"], "the judge was asked all the same"

    trial = await judged(judges, *JUDGES)
    assert trial.score == 1, "the other two are more than half of three"
    assert "own family qwen" in trial.votes[2].explanation
    assert not trial.votes[2].HasField("cost") or float(trial.votes[2].cost.amount) == 0

    say(judges, ask_qwen="correct")
    assert (await judged(judges, "ask_qwen", allow_own_family=True)).score == 1


def calibration(**changes: Any) -> pb.JudgeCalibration:
    judge = pb.CalibratedJudge(judge="ask_gpt", model="gpt-6", right_called_right=2, unjudged=1)
    values = {
        "id": new_id(),
        "name": "labels",
        "digest": "0" * 64,
        "prompt_digest": "0" * 64,
        "labelled_right": 3,
        "judges": [judge],
        **changes,
    }
    return pb.JudgeCalibration(**values)


async def test_calibrations_are_the_tenants_and_stay_as_they_were_stored(
    platform: Platform,
) -> None:
    first, second = calibration(), calibration(created_by="somebody else", all_agree_kappa=0.5)
    async with evaluations(platform) as ada, evaluations(platform, "bob") as bob:
        for each in (first, calibration(id=first.id, name="another"), second):
            await ada.RecordJudgeCalibration(pb.RecordJudgeCalibrationRequest(calibration=each))
        page = await bob.ListJudgeCalibrations(pb.ListJudgeCalibrationsRequest(page_size=1))
        asking = pb.ListJudgeCalibrationsRequest(page_token=page.next_page_token)
        rest = await bob.ListJudgeCalibrations(asking)
    found = [*page.calibrations, *rest.calibrations]
    assert [(each.id, each.name) for each in found] == [(second.id, "labels"), (first.id, "labels")]
    assert all(each.created_by == "ada" and each.HasField("create_time") for each in found)
    assert found[0].all_agree_kappa == 0.5 and not found[1].HasField("all_agree_kappa")
    assert found[1].judges == first.judges


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"labelled_right": 2}, "the counts of ask_gpt are not those of 2 answers"),
        ({"labelled_right": 1, "labelled_wrong": 2}, "the counts of ask_gpt"),
        ({"judges": [calibration().judges[0]] * 2}, "ask_gpt is named twice"),
        ({"judges": []}, "judges"),
        ({"id": "1"}, "UUIDv7"),
    ],
)
async def test_a_calibration_that_makes_no_sense_is_rejected(
    platform: Platform, changes: dict[str, Any], words: str
) -> None:
    request = pb.RecordJudgeCalibrationRequest(calibration=calibration(**changes))
    async with evaluations(platform) as ada:
        with pytest.raises(grpc.aio.AioRpcError) as rejected:
            await ada.RecordJudgeCalibration(request)
    assert rejected.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert words in (rejected.value.details() or "")
