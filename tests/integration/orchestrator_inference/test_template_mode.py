import json
from typing import Any

import pytest

from integration.orchestrator_inference.test_next_action import CALCULATOR, make_request
from openai_server import OpenAiServer, Reply
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium.registry.v1 import policy_pb2

CALL = {"name": "calculator", "arguments": {"expression": "6*7"}}
REPLY = f"<think>I compute.</think><tool_call>{json.dumps(CALL)}</tool_call>"
TEMPLATE = pb.PROMPT_MODE_TEMPLATE


def make_template_request(**changes: Any) -> pb.NextActionRequest:
    tool = pb.ToolDefinition()
    tool.CopyFrom(CALCULATOR)
    tool.terms = "$0.01, 1 s"
    preferences = policy_pb2.PreferenceVector(outcome=1, compute=0.5, latency=0)
    fields = {"prompt_mode": TEMPLATE, "tools": [tool], "preferences": preferences, **changes}
    return make_request(**fields)


async def test_the_request_and_the_reply_of_a_turn(start_service: Any) -> None:
    with OpenAiServer([REPLY, "42"], vllm_version="0.32.0") as engine:
        stub = await start_service(engine.base_url, template_arguments={"enable_thinking": True})
        called = await stub.NextAction(make_template_request())
        past = pb.PastTurn(completion_text=REPLY, action=called.action)
        past.observations.add(call=called.action.tool_calls.calls[0], content="42")
        answered = await stub.NextAction(make_template_request(turns=[past], must_answer=True))
    first, last = engine.requests
    assert first["messages"] == [
        {"role": "system", "content": "You are good at using tools."},
        {
            "role": "user",
            "content": "Problem: What is 6*7?\n\n"
            "Weights: outcome 1, cost 0.5, latency 0.\n"
            "Choose the next tool to call, or give the final answer if it is known.",
        },
    ]
    assert first["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "calculator",
                "description": "[$0.01, 1 s] Evaluates arithmetic.",
                "parameters": json.loads(CALCULATOR.parameters_json_schema),
            },
        }
    ]
    assert first["tool_choice"] == "none"
    assert first["chat_template_kwargs"] == {"enable_thinking": True}
    assert "response_format" not in first
    [call] = called.action.tool_calls.calls
    assert (call.tool_name, called.action.thought) == ("calculator", "I compute.")
    # What training needs is there, and no grammar is.
    assert called.completion_token_ids and called.completion_logprobs
    assert not called.constraint_digest
    assert "tools" not in last and answered.action.final_answer == "42"
    assert 'calculator {"expression":"6*7"} -> 42' in last["messages"][1]["content"]
    assert last["messages"][1]["content"].endswith("give the final answer now.")


async def test_an_engine_that_is_not_vllm_calls_by_itself(start_service: Any) -> None:
    with OpenAiServer(["42"]) as engine:
        stub = await start_service(engine.base_url)
        response = await stub.NextAction(make_template_request())
    assert engine.requests[0]["tool_choice"] == "auto"
    assert engine.requests[0]["parallel_tool_calls"] is False
    assert "chat_template_kwargs" not in engine.requests[0]
    assert response.action.final_answer == "42"


async def test_several_calls_of_a_turn(start_service: Any) -> None:
    functions = [{"function": {**CALL, "arguments": json.dumps(CALL["arguments"])}}] * 2
    native = Reply("", message={"tool_calls": functions})
    both = REPLY + REPLY.partition("</think>")[2]
    with OpenAiServer([native]) as engine, OpenAiServer([both], vllm_version="1") as vllm:
        for each in (engine, vllm):
            stub = await start_service(each.base_url)
            response = await stub.NextAction(make_template_request(parallel_calls=2))
            assert len(response.action.tool_calls.calls) == 2
            assert "parallel_tool_calls" not in each.requests[0]


async def test_an_engine_that_rejects_the_limit_of_calls_is_asked_without_it(
    start_service: Any,
) -> None:
    words = "Unsupported parameter: 'parallel_tool_calls' is not supported with this model."
    rejection = Reply(words, 400, error={"param": "parallel_tool_calls"})
    with OpenAiServer([rejection, "42"]) as engine:
        stub = await start_service(engine.base_url)
        response = await stub.NextAction(make_template_request())
    assert response.action.final_answer == "42"
    assert ["parallel_tool_calls" in each for each in engine.requests] == [True, False]


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_a_thought_that_the_engine_parses_is_the_actions(
    start_service: Any, field: str
) -> None:
    parsed = Reply(REPLY.partition("</think>")[2], message={field: "I compute."})
    with OpenAiServer([parsed], vllm_version="0.32.0") as engine:
        stub = await start_service(engine.base_url)
        action = (await stub.NextAction(make_template_request())).action
    assert (action.tool_calls.calls[0].tool_name, action.thought) == ("calculator", "I compute.")


async def test_a_default_model_has_the_operators_prompt_mode_and_others_have_none(
    start_service: Any,
) -> None:
    with OpenAiServer(models=("tool-caller", "other")) as engine:
        stub = await start_service(engine.base_url, prompt_mode="template")
        models = (await stub.ListModels(pb.ListModelsRequest())).models
    assert {model.name: model.prompt_mode for model in models} == {
        "tool-caller": TEMPLATE,
        "other": pb.PROMPT_MODE_STATELESS,
    }


EXPERTS = {
    "search": ("Looks up what is missing.", "search-1", "search-2"),
    "enhance_reasoning": ("Writes and runs Python.", "reasoner-1", "reasoner-2"),
    "answer": ("Solves the problem.", "answer-1", "answer-2"),
}
SECTIONS = {
    "search": pb.RESULT_SECTION_DOCUMENT,
    "enhance_reasoning": pb.RESULT_SECTION_CODE,
    "answer": pb.RESULT_SECTION_ATTEMPT,
}


def experts() -> list[pb.ToolDefinition]:
    """The tools that the paper's checkpoint was trained with: each is a choice of models."""
    return [
        pb.ToolDefinition(
            name=name,
            description=description,
            parameters_json_schema=json.dumps(model_choice(models)),
            section=SECTIONS[name],
            terms="$0.01, 9 s",
            gives_answer=name == "answer",
        )
        for name, (description, *models) in EXPERTS.items()
    ]


def model_choice(models: list[str]) -> dict[str, Any]:
    model = {"type": "string", "enum": models}
    return {"type": "object", "properties": {"model": model}, "required": ["model"]}


def asks(name: str, model: str) -> str:
    call = json.dumps({"name": name, "arguments": {"model": model}})
    return f"<think>\nNext is {name}.\n</think>\n\n<tool_call>\n{call}\n</tool_call>"


async def test_an_episode_of_the_papers_checkpoint(start_service: Any) -> None:
    asked = [("search", "search-1"), ("enhance_reasoning", "reasoner-2"), ("answer", "answer-1")]
    gave = ["The lighthouse is 41 m tall.", "print(41 * 2)\n82"]
    turns: list[pb.PastTurn] = []
    with OpenAiServer([asks(*each) for each in asked], vllm_version="0.32.0") as engine:
        stub = await start_service(engine.base_url)
        for number, (name, model) in enumerate(asked):
            request = make_template_request(
                task="How tall are two such lighthouses?",
                tools=experts(),
                turns=turns,
                must_answer=name == "answer",
            )
            reply = await stub.NextAction(request)
            [call] = reply.action.tool_calls.calls
            assert (call.tool_name, json.loads(call.arguments_json)) == (name, {"model": model})
            assert reply.action.thought == f"Next is {name}."
            turns.append(pb.PastTurn(completion_text=reply.completion_text, action=reply.action))
            turns[-1].observations.add(call=call, content=[*gave, ""][number])
    first, _, last = engine.requests
    assert [tool["function"] for tool in first["tools"]] == [
        {
            "name": name,
            "description": f"[$0.01, 9 s{end}] {description}",
            "parameters": model_choice(models),
        }
        for name, (description, *models) in EXPERTS.items()
        for end in [", gives the final answer" if name == "answer" else ""]
    ]
    # In the last turn it can still answer as it was trained to.
    assert [tool["function"]["name"] for tool in last["tools"]] == ["answer"]
    assert last["messages"] == [
        {"role": "system", "content": "You are good at using tools."},
        {
            "role": "user",
            "content": "Problem: How tall are two such lighthouses?\n\n"
            "Documents:\n"
            'Document 1 (search {"model":"search-1"}): The lighthouse is 41 m tall.\n\n'
            "Code and its output:\n"
            '- enhance_reasoning {"model":"reasoner-2"} -> print(41 * 2)\n82\n\n'
            "Weights: outcome 1, cost 0.5, latency 0.\n"
            "This is the last turn: call answer now, or give the final answer.",
        },
    ]
