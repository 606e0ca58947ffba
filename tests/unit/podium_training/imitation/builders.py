"""Episodes with experts on offer, demonstrated and played, and the questions put under them."""

import json
from collections.abc import Sequence

from google.protobuf.duration_pb2 import Duration

from podium.common.v1 import money_pb2
from podium.episodes.v1 import trajectory_pb2 as pb
from podium.episodes.v1.trajectory_pb2 import Trajectory
from podium.orchestrator.v1 import orchestrator_service_pb2 as orchestrator_pb
from podium.orchestrator.v1.orchestrator_service_pb2 import ToolDefinition
from podium.registry.v1.toolset_pb2 import CallEstimate
from podium_training.experts.pool import Pool
from podium_training.imitation.demonstrated_turn import Demonstrator
from podium_training.imitation.solutions import Solutions
from podium_training.tasks.task import Call, Split, Task
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


FAMILIES = ("sums", "words", "days")
MODELS = ("large", "small")
PRICES = {"large": "10.00", "small": "0.40"}
POOL = Pool.model_validate(
    {
        "tool": EXPERT,
        "description": "Asks.",
        "experts": [
            {"alias": "large", "description": "-", "sku": "l", "latencyS": 20, "right": 0.95},
            {"alias": "small", "description": "-", "sku": "s", "latencyS": 2, "right": 0.7},
        ],
    }
)


def tool(name: str) -> ToolDefinition:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    return ToolDefinition(name=name, description=name, parameters_json_schema=json.dumps(schema))


def expert(large: str = PRICES["large"]) -> ToolDefinition:
    prices = PRICES | {"large": large}
    schema = {"type": "object", "properties": {"model": {"enum": MODELS}}, "required": ["model"]}
    rows = (f"{alias}: ${price}/M in + ${price}/M out, 2 s" for alias, price in prices.items())
    return ToolDefinition(
        name=EXPERT,
        parameters_json_schema=json.dumps(schema),
        terms="; ".join(rows),
        estimates=[
            CallEstimate(
                model_alias=alias,
                cost=money_pb2.Money(currency_code="USD", amount="0.001"),
                latency=Duration(seconds=2),
            )
            for alias in MODELS
        ],
    )


def host(*tools: str, large: str = PRICES["large"]) -> Trajectory:
    episode = asked(f"host-{large}", "sums-0", "large")
    episode.tools.extend([expert(large), *map(tool, tools)])
    return episode


def task(number: int, family: str = "sums") -> Task:
    return Task(
        f"{family}-{number}",
        family,
        Split.TRAIN,
        f"Do {number} of {family}!",
        "exact",
        {"expected": str(number)},
        (Call(family, {"text": str(number)}),),
    )


TASKS = [task(number, family) for family in FAMILIES for number in range(2)]


def demonstrator(pool: Pool = POOL, tasks: Sequence[Task] = TASKS) -> Demonstrator:
    tokenizer = make_tokenizer()
    tokenizer.chat_template = "{% for each in messages %}{{ each.content }}</s>{% endfor %}"
    return Demonstrator(Solutions(tasks, pool), tokenizer)
