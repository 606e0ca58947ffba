from episodes.episodes.convert_withheld import EVENT_METADATA, withhold_event
from podium.common.v1 import failure_pb2, money_pb2
from podium.episodes.v1 import check_pb2
from podium.episodes.v1 import episode_pb2 as pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb

TEXT = "how ill is the patient?"
CALL = orchestrator_pb.ToolCall(
    index=1, tool_name="search", arguments_json=TEXT, model_call_id=TEXT
)
FAILURE = failure_pb2.Failure(kind=failure_pb2.FAILURE_KIND_TIMEOUT, message=TEXT)
COST = money_pb2.Money(currency_code="USD", amount="0.5")
RETURNED = pb.ToolReturned(
    observation=orchestrator_pb.Observation(call=CALL, content=TEXT, failure=FAILURE), cost=COST
)
EVENTS = [
    pb.EpisodeEvent(
        action_decided=pb.ActionDecided(
            action=orchestrator_pb.Action(
                thought=TEXT, tool_calls=orchestrator_pb.ToolCalls(calls=[CALL])
            ),
            cost=COST,
            left_out=[TEXT],
        )
    ),
    pb.EpisodeEvent(
        action_decided=pb.ActionDecided(action=orchestrator_pb.Action(final_answer=TEXT))
    ),
    pb.EpisodeEvent(
        action_decided=pb.ActionDecided(action=orchestrator_pb.Action(malformed=FAILURE))
    ),
    pb.EpisodeEvent(tool_returned=RETURNED),
    pb.EpisodeEvent(verifier_called=RETURNED),
    pb.EpisodeEvent(approval_requested=pb.ApprovalRequested(call=CALL)),
    pb.EpisodeEvent(judged=check_pb2.Judgement(score=0.5, explanation=TEXT)),
    pb.EpisodeEvent(client_calls_requested=pb.ClientCallsRequested(calls=[CALL])),
]


def test_no_event_has_text_of_people_models_or_tools_once_it_is_withheld() -> None:
    for event in EVENTS:
        withhold_event(event)
        assert event.content_withheld
        assert TEXT not in str(event)


def test_costs_kinds_of_failure_scores_and_names_of_tools_stay() -> None:
    returned = pb.EpisodeEvent(tool_returned=RETURNED)
    withhold_event(returned)
    assert returned.tool_returned.cost == COST
    observation = returned.tool_returned.observation
    assert observation.failure.kind == failure_pb2.FAILURE_KIND_TIMEOUT
    assert (observation.call.index, observation.call.tool_name) == (1, "search")
    judged = pb.EpisodeEvent(judged=check_pb2.Judgement(score=0.5, explanation=TEXT))
    withhold_event(judged)
    assert judged.judged.score == 0.5


def test_every_kind_of_event_states_what_is_metadata() -> None:
    kinds = pb.EpisodeEvent.DESCRIPTOR.oneofs_by_name["event"].fields
    assert {kind.name for kind in kinds} == EVENT_METADATA.keys()
