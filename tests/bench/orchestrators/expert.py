"""The expert, and an orchestrator that always asks it: real HTTP servers with stated strength.

No strong model can be reached from where benchmarks run. So the expert knows the tasks' answers
and gives the right one with a stated probability, after a stated time and at the price of
`llm/gpt-5`: what is measured is what orchestrators make of such an expert, not a model.
"""

import re
from collections.abc import Sequence
from random import Random

import yaml
from google.protobuf import json_format

from openai_server import Body, OpenAiServer, Reply
from podium.registry.v1 import tool_pb2
from podium_kit.bundled_files import bundled_folder
from podium_training.demonstrations.completions import THINKING_TOKENS
from podium_training.tasks.task import Task

TOOL, MODEL = "ask_expert", "expert"
RIGHT_PROBABILITY = 0.9
# The least that the price list of the paper's code says of GPT-5 (search-1; others say 31 and 96).
THINKING_S = 22.0
WRONG = "I cannot tell."
# More than any run asks.
QUESTIONS_MAX = 100_000
RELAYED = re.compile(rf"{TOOL} {{}}\)?(?: ->|:) (.+)")


def expert_server(tasks: Sequence[Task], seed: int, seconds: float) -> OpenAiServer:
    """Answers a question alike however often it is asked."""

    def answer(body: Body) -> Reply:
        asked = "\n".join(str(message["content"]) for message in body["messages"])
        task = next((each for each in tasks if each.question in asked), None)
        usage = {"prompt_tokens": len(asked) // 4, "completion_tokens": THINKING_TOKENS}
        return Reply(_said(task, seed), usage=usage, delay_s=seconds)

    return OpenAiServer(replies=[answer] * QUESTIONS_MAX, models=[MODEL])


def always_expert_server(name: str) -> OpenAiServer:
    """An orchestrator that asks the expert and passes its reply on."""

    def relay(body: Body) -> dict[str, str]:
        found = RELAYED.search(str(body["messages"][-1]["content"]))
        return {"answer": found[1] if found else ""}

    return OpenAiServer(script=[{"tool": TOOL, "arguments": {}}, relay, relay], models=[name])


def expert_tool(base_url: str) -> tool_pb2.ToolSpec:
    """The expert as the platform registers it."""
    manifest = yaml.safe_load((bundled_folder() / "policy" / f"{TOOL}.yaml").read_text())
    spec = json_format.ParseDict(manifest, tool_pb2.ToolSpec())
    spec.connection.llm.models[0].base_url = base_url
    return spec


def _said(task: Task | None, seed: int) -> str:
    if task is None:
        return WRONG
    chance = Random(f"{seed}/{task.id}/expert").random()
    expected = task.parameters["expected"]
    right = ", ".join(expected) if isinstance(expected, list) else str(expected)
    return right if chance < RIGHT_PROBABILITY else WRONG
