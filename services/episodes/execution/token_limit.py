"""The output tokens of a request: those of the orchestrator and of llm tools together.

A request is what happens from the episode's start, or from its caller's results, to its end or
to the next calls for its caller. Everything here follows from the log of earlier steps, so every
attempt of a turn finds the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from episodes.keys import StepKind
from episodes.spending.worst_case import OUTPUT_TOKENS_MIN
from episodes.step_log.log import StepLog
from episodes.step_log.running_episode import RunningEpisode
from podium.common.v1 import usage_pb2
from podium_kit.metering import Dimension, InvalidUsage
from podium_kit.tool_kinds import kind_of
from podium_kit.wire import usage_from_proto

WRITTEN = (Dimension.OUTPUT_TEXT, Dimension.REASONING, Dimension.AUDIO_OUTPUT)
# With fewer left there is room for an answer and not for a call and an answer.
ANSWER_TOKENS = 4 * OUTPUT_TOKENS_MIN


@dataclass(frozen=True)
class RemainingTokens:
    """The tokens that a turn may write, and those that the request had written before it."""

    tokens: int
    written: int

    @property
    def used_up(self) -> bool:
        """Another completion is not worth asking for."""
        return self.tokens < (OUTPUT_TOKENS_MIN if self.written else 1)

    @property
    def must_answer(self) -> bool:
        return self.written > 0 and self.tokens < ANSWER_TOKENS


def remaining_for_turn(episode: RunningEpisode, log: StepLog, turn: int) -> RemainingTokens | None:
    """Returns the tokens of a turn's model call; None without a limit."""
    limit = episode.spec.output_token_limit
    if not limit:
        return None
    used = sum(_written(usage) for usage in _usages(log, turn))
    return RemainingTokens(max(0, limit - used), used)


def remaining_for_tool_call(episode: RunningEpisode, log: StepLog, turn: int) -> int | None:
    remaining = remaining_for_turn(episode, log, turn)
    if remaining is None:
        return None
    response = log.model_calls[turn].response
    names = [call.tool_name for call in response.action.tool_calls.calls]
    tools = [tool for name in names if (tool := episode.tool(name))]
    asked = sum(kind_of(tool.kind).has_models for tool in tools)
    return max(0, remaining.tokens - _written(response.usage)) // max(1, asked)


def _usages(log: StepLog, turn: int) -> Iterator[usage_pb2.Usage]:
    asked = [step.turn for step in log.steps if step.kind is StepKind.CLIENT_CALLS]
    first = max((each for each in asked if each < turn), default=0) + 1
    for number in range(first, turn):
        if number in log.model_calls:
            yield log.model_calls[number].response.usage
        yield from (call.usage for call in log.tool_calls.get(number, {}).values())


def _written(usage: usage_pb2.Usage) -> int:
    """Counts written tokens; a usage that cannot be read counts nothing, the ledger explains it."""
    try:
        found = usage_from_proto(usage)
    except InvalidUsage:
        return 0
    return int(sum(found.get(dimension) for dimension in WRITTEN))
