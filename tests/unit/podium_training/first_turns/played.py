"""Demonstrated episodes: what the tests name of them."""

import json

from podium.episodes.v1 import trajectory_pb2 as pb
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from unit.podium_training.grpo.builders import make_response, make_tokenizer, make_trajectory

EXPERT = "ask_expert"
TOKENIZER = make_tokenizer()


def prompt(tools: tuple[str, ...], asked: str) -> list[int]:
    """A system message that lists tools, and one of the user."""
    messages = (TOKENIZER.encode(",".join(tools)), TOKENIZER.encode(asked))
    return [token for ids in messages for token in (*ids, TOKENIZER.eos_token_id)]


def played(
    name: str, task: str, tool: str, tools: tuple[str, ...], **arguments: str
) -> pb.Trajectory:
    """An episode of two turns that begins with a call; its tokens are its characters."""
    text = json.dumps({"tool": tool, "arguments": arguments}, separators=(",", ":"))
    call = orchestrator_pb.ToolCall(tool_name=tool, arguments_json=json.dumps(arguments))
    response = make_response(
        prompt_token_ids=prompt(tools, task),
        completion_text=text,
        completion_token_ids=TOKENIZER.encode(text),
        completion_logprobs=[-1.0] * len(text),
        constraint_digest="",
        constraint_json_schema="",
    )
    response.action.tool_calls.calls.append(call)
    episode = make_trajectory(name, task_id=task, tool_names=tools, response=response)
    del episode.features.tool_call_counts[:]
    episode.features.tool_call_counts.extend([1] * len(tools))
    said = make_response(
        prompt_token_ids=prompt(tools, f"{task}?"), constraint_digest="", constraint_json_schema=""
    )
    answer = pb.ModelCall(response=said)
    episode.turns.append(pb.Turn(number=2, model_call=answer))
    return episode


def asked(name: str, task: str, model: str) -> pb.Trajectory:
    return played(name, task, EXPERT, ("add", EXPERT), model=model)


def own(name: str, task: str, tools: tuple[str, ...] = ("add", EXPERT)) -> pb.Trajectory:
    return played(name, task, "add", tools, numbers="1 2")
