"""What the caller's functions gave, checked against what was asked of it."""

from episodes.errors import InvalidResults
from episodes.models import Step
from podium.episodes.v1 import episode_pb2
from podium.episodes.v1 import episode_service_pb2 as pb

RESULTS_BYTES_MAX = 1024 * 1024


def checked_results(request: pb.AnswerToolCallsRequest, asked: Step) -> bytes:
    """The results of all calls that were asked for, in their order, serialized.

    Raises InvalidResults.
    """
    calls = episode_pb2.ClientCallsRequested.FromString(asked.body).calls
    given = {result.call_index: result for result in request.results}
    if len(given) < len(request.results):
        raise InvalidResults("results answers a call twice; give one result a call")
    if missing := [call for call in calls if call.index not in given]:
        raise InvalidResults(
            f"results lacks call {missing[0].index} ({missing[0].tool_name}); answer all calls of "
            "the turn at once, a failed one with its error"
        )
    if unknown := sorted(set(given) - {call.index for call in calls}):
        raise InvalidResults(f"results answers call {unknown[0]}, which does not wait for you")
    if both := next((each for each in given.values() if each.content and each.error), None):
        raise InvalidResults(f"call {both.call_index} has content and error; give one of them")
    answered = pb.AnswerToolCallsRequest(results=[given[call.index] for call in calls])
    if answered.ByteSize() > RESULTS_BYTES_MAX:
        raise InvalidResults(
            f"the results are over {RESULTS_BYTES_MAX // 1024} KiB together; shorten them"
        )
    return answered.SerializeToString(deterministic=True)
