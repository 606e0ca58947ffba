import hashlib
from typing import Any

from google.protobuf.duration_pb2 import Duration

from podium.common.v1 import money_pb2
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import trajectory_pb2 as pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.registry.v1 import policy_pb2

SCHEMA = '{"enum":["add","ask"]}'
DIGEST = hashlib.sha256(f"any_whitespace=False\n{SCHEMA}".encode()).hexdigest()


def make_response(**fields: Any) -> orchestrator_pb.NextActionResponse:
    defaults: dict[str, Any] = {
        "prompt_token_ids": [3, 4, 5],
        "completion_token_ids": [6, 7],
        "completion_logprobs": [-0.5, -0.25],
        "model_version": "policy-1",
        "constraint_digest": DIGEST,
        "constraint_json_schema": SCHEMA,
        "sampling": orchestrator_pb.Sampling(temperature=1.0, max_tokens=64),
    }
    return orchestrator_pb.NextActionResponse(**defaults | fields)


def make_trajectory(
    episode_id: str = "e1",
    *,
    solved: bool = True,
    cost: str = "0.01",
    response: orchestrator_pb.NextActionResponse | None = None,
    **fields: Any,
) -> pb.Trajectory:
    money = money_pb2.Money(currency_code="USD", amount=cost)
    call = pb.ModelCall(response=response or make_response())
    defaults: dict[str, Any] = {
        "episode_id": episode_id,
        "group_id": "g1",
        "group_size": 2,
        "tenant": "acme",
        "tool_names": ["calculator", "search"],
        "preferences": policy_pb2.PreferenceVector(
            outcome=1.0, compute=0.5, tools={"calculator": 0.25}
        ),
        "turns": [pb.Turn(number=1, model_call=call)],
        "stop_reason": episode_pb2.STOP_REASON_ANSWERED,
        "outcomes": [pb.Outcome(verifier="numeric", verifier_version="1", score=float(solved))],
        "features": pb.RewardFeatures(
            tool_call_counts=[1, 0], cost=money, latency=Duration(seconds=2)
        ),
        "cost": money,
        "training_consent": True,
    }
    return pb.Trajectory(**defaults | fields)
