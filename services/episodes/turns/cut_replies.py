"""Replies that the engine cut at their token limit: the third one ends the episode.

The model is told each time and may be briefer. One that was not twice would go on to the last
turn, and every turn is paid. All follows from the log, so every attempt of a turn finds the same.
"""

from episodes.models import StopReason
from episodes.steps.log import StepLog
from episodes.workflows.payloads import TurnResult
from podium.episodes.v1 import trajectory_pb2
from podium_kit.failures import FailureKind

CUT_REPLIES_MAX = 3
# As orchestrator-inference passes on what engines say.
FINISH_LENGTH = "length"


def ending_after_cuts(log: StepLog, turn: int) -> TurnResult | None:
    """How the episode ends, where the turn's reply was one cut too many; None where it goes on."""
    if not _was_cut(log.model_calls[turn]):
        return None
    cut = [number for number, call in sorted(log.model_calls.items()) if _was_cut(call)]
    if len(cut) < CUT_REPLIES_MAX:
        return None
    call = log.model_calls[turn]
    written = f"{len(cut)} replies of the orchestrator were cut at their token limit"
    if call.granted_output_tokens:
        return TurnResult(
            stop=StopReason.BUDGET_EXHAUSTED,
            message=f"{written}: the budget covered {call.granted_output_tokens} tokens of the last"
            " one; raise the budget, or choose a cheaper orchestrator",
        )
    return TurnResult(
        stop=StopReason.FAILED,
        message=f"{written} ({call.response.sampling.max_tokens} tokens) before they were complete;"
        " raise max_tokens (sampling.max_tokens of an episode), or ask for a shorter answer",
        failure=FailureKind.LIMIT_EXCEEDED.value,
    )


def _was_cut(call: trajectory_pb2.ModelCall) -> bool:
    """A reply that was cut behind a whole action is as good as any."""
    response = call.response
    return response.finish_reason == FINISH_LENGTH and response.action.HasField("malformed")
