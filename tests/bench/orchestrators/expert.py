"""The expert, and an orchestrator that always asks it: real HTTP servers with stated strength.

No strong model can be reached from where benchmarks run. So the expert knows the tasks' answers
and gives the right one with a stated probability, after a stated time and at the price of
`llm/gpt-5`: what is measured is what orchestrators make of such an expert, not a model.
"""

import re
from collections.abc import Sequence
from random import Random

from openai_server import Body, OpenAiServer, Reply
from podium.registry.v1 import tool_pb2
from tasksets.task import Task

TOOL, MODEL, SKU = "ask_expert", "expert", "llm/gpt-5"
RIGHT_PROBABILITY = 0.9
THINKING_TOKENS, THINKING_S = 300, 2.0
WRONG = "I cannot tell."
# More than any run asks.
QUESTIONS_MAX = 100_000
RELAYED = re.compile(rf"{TOOL} {{}}\)?(?: ->|:) (.+)")


def expert_server(tasks: Sequence[Task], seed: int) -> OpenAiServer:
    """Answers a question alike however often it is asked."""

    def answer(body: Body) -> Reply:
        asked = "\n".join(str(message["content"]) for message in body["messages"])
        task = next((each for each in tasks if each.question in asked), None)
        usage = {"prompt_tokens": len(asked) // 4, "completion_tokens": THINKING_TOKENS}
        return Reply(_said(task, seed), usage=usage, delay_s=THINKING_S)

    return OpenAiServer(replies=[answer] * QUESTIONS_MAX, models=[MODEL])


def always_expert_server(name: str) -> OpenAiServer:
    """An orchestrator that asks the expert and passes its reply on."""

    def relay(body: Body) -> dict[str, str]:
        found = RELAYED.search(str(body["messages"][-1]["content"]))
        return {"answer": found[1] if found else ""}

    return OpenAiServer(script=[{"tool": TOOL, "arguments": {}}, relay, relay], models=[name])


def expert_tool(base_url: str) -> tool_pb2.ToolSpec:
    """The expert as the platform registers it."""
    spec = tool_pb2.ToolSpec(
        name=TOOL,
        kind=tool_pb2.TOOL_KIND_LLM,
        description=(
            "Asks a large language model, which is right most of the time, and dear. It takes no"
            " question: it sees the task and the earlier results. Example: {}."
        ),
        parameters_json_schema='{"type":"object","properties":{},"additionalProperties":false}',
        side_effect=tool_pb2.SIDE_EFFECT_PURE,
        provider="bench",
    )
    llm = spec.connection.llm
    llm.models.add(
        alias="expert",
        model=MODEL,
        base_url=base_url,
        api=tool_pb2.LLM_API_OPENAI_CHAT,
        sku=SKU,
        description="The strongest.",
        provider="bench",
    )
    llm.role = tool_pb2.LLM_ROLE_GENERALIST
    llm.system_prompt = "Answer the task briefly."
    llm.max_output_tokens = 512
    spec.limits.timeout.FromSeconds(60)
    return spec


def _said(task: Task | None, seed: int) -> str:
    if task is None:
        return WRONG
    chance = Random(f"{seed}/{task.id}/expert").random()
    return str(task.parameters["expected"]) if chance < RIGHT_PROBABILITY else WRONG
