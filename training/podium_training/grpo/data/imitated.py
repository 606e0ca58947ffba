from podium.episodes.v1.trajectory_pb2 import Turn


def is_exemplary(turn: Turn) -> bool:
    """Returns whether its reply could be read, to its end, and none of its tool calls failed."""
    failed = any(call.observation.HasField("failure") for call in turn.tool_invocations)
    return not failed and not turn.model_call.response.action.HasField("malformed")
