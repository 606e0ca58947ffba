from podium.registry.v1 import policy_pb2
from podium_training.grpo.data.convert import episode_from_proto
from podium_training.grpo.data.episodes import Episode, Limits
from podium_training.grpo.objective.adherence import adherence_metrics
from unit.podium_training.grpo.trajectories import make_trajectory


def make_member(cost: str, *, compute: float, latency: float) -> Episode:
    vector = policy_pb2.PreferenceVector(outcome=1.0, compute=compute, latency=latency)
    trajectory = make_trajectory(cost=cost, preferences=vector)
    return episode_from_proto(trajectory, Limits(vocabulary=64))


def test_the_element_with_more_weight_decides_between_costs() -> None:
    members = [
        make_member("0.01", compute=0.8, latency=0.2),
        make_member("0.03", compute=0.8, latency=0.2),
        make_member("0.05", compute=0.2, latency=0.8),
        make_member("0.07", compute=0.4, latency=0.4),
    ]
    found = adherence_metrics(members)
    assert found["adherence cost cost first"] == 0.02
    assert found["adherence cost speed first"] == 0.05
    assert found["adherence cost even"] == 0.07
    assert found["adherence latency even"] == 2.0
    assert "adherence preferred" not in found


def test_calls_count_where_tools_are_preferred() -> None:
    calling, other = (
        policy_pb2.PreferenceVector(tools={name: 0.5}) for name in ("calculator", "search")
    )
    members = [
        episode_from_proto(make_trajectory(preferences=vector), Limits(vocabulary=64))
        for vector in (calling, other)
    ]
    assert adherence_metrics(members)["adherence preferred"] == 0.5
