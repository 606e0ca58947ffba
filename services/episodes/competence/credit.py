"""The credit for an answer: the tools whose results were the last before it."""

from episodes.models import Ending, StopReason
from episodes.step_log.log import StepLog, observations
from episodes.step_log.running_episode import RunningEpisode
from podium_kit.tool_kinds import kind_of

# Trials, shadows and gates measure: their arms have the same tasks, and must not teach each other.
EVALUATION, SPLIT, HELD_OUT = "evaluation", "split", "held-out"


def credited_tools(episode: RunningEpisode, log: StepLog, ending: Ending) -> frozenset[str]:
    """Returns the tools, as `tool/model` where a model answered, that the verdict is credited to.

    These are the calls with a result in the last turn that had any. An answer without a result
    credits none; neither does an episode without an answer or without consent to training.
    """
    if not episode.toolset.training_consent or ending.stop_reason is not StopReason.ANSWERED:
        return frozenset()
    labels = episode.stored.new.labels
    if EVALUATION in labels or labels.get(SPLIT) == HELD_OUT:
        return frozenset()
    episode = episode.with_found_tools(log)
    for turn in sorted(log.tool_calls, reverse=True):
        invocations = (call for _, call in sorted(log.tool_calls[turn].items()))
        pairs = zip(invocations, observations(log, turn), strict=True)
        answered = [call for call, seen in pairs if not seen.HasField("failure")]
        names = [
            name_of(tool.name, call.answered_by_model or call.model)
            for call in answered
            # The platform's own, and the caller's, are in no other toolset.
            if (tool := episode.tool(call.observation.call.tool_name))
            and not kind_of(tool.kind).not_registered
        ]
        if names:
            return frozenset(names)
    return frozenset()


def name_of(tool: str, alias: str) -> str:
    return f"{tool}/{alias}" if alias else tool
