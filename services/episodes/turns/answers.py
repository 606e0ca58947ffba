"""The answer of an episode: what its model says, or what a tool that gives answers gave."""

import json

from episodes.children.calls import problem_of
from episodes.running_episode import RunningEpisode
from episodes.steps.log import StepLog


def answer_of(episode: RunningEpisode, log: StepLog, turn: int) -> str | None:
    """The answer that a turn came to; None where it came to none.

    Of several calls that gave one it is the first one's. What does not fit the answer's JSON Schema
    is a result like any other: the model sees it, and goes on.
    """
    action = log.model_calls[turn].response.action
    if action.WhichOneof("decision") == "final_answer":
        return action.final_answer
    episode = episode.with_found_tools(log)
    for _, record in sorted(log.tool_calls.get(turn, {}).items()):
        observation = record.observation
        tool = episode.tool(observation.call.tool_name)
        # A text that was cut or declined is a result, and no answer.
        if tool is None or not tool.gives_answer or record.cut_reason:
            continue
        if observation.HasField("failure"):
            continue
        if _fits(observation.content, episode.spec.answer_json_schema):
            return observation.content
    return None


def _fits(answer: str, schema: str) -> bool:
    if not schema:
        return bool(answer.strip())
    try:
        return not problem_of(json.loads(answer), schema)
    except (ValueError, RecursionError):
        return False
