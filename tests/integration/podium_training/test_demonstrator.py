import asyncio
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from integration.orchestrator_inference.conftest import start_service
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium_kit.embedded.process import ManagedProcess
from podium_training.grpo.model.grammar import Constraint, GrammarReplay
from podium_training.imitation.solutions import NoDemonstration, Solutions
from podium_training.tasks.draft import solve
from podium_training.tasks.task import Split, Task
from podium_training.tasks.taskset import generate
from unit.podium_training.grpo.builders import make_model, make_tokenizer

__all__ = ["start_service"]

# Those whose tools are functions of this process; a search needs the platform.
FAMILIES = ("arithmetic", "units", "dates", "dictionary", "sql")
BUNDLED = Path(__file__).parents[3] / "bundled" / "tools"
ADDRESS = re.compile(r"http://\S+/v1")
TEMPLATE = "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + ' ' }}{% endfor %}"


@cache
def tasks_of_all_families() -> list[Task]:
    return generate(60, Split.TRAIN, families=FAMILIES)


def write_learner(folder: Path) -> Path:
    tokenizer = make_tokenizer()
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    config = make_model(vocabulary=len(tokenizer)).config
    config.max_position_embeddings = 65_536
    config.save_pretrained(folder)
    return folder


def write_tasks(path: Path, tasks: list[Task]) -> Path:
    path.write_text("".join(f"{task.to_json()}\n" for task in tasks))
    return path


def make_demonstrator(folder: Path, *arguments: str | Path) -> ManagedProcess:
    argv = [
        sys.executable,
        "-m",
        "podium_training.imitation.demonstrator",
        *arguments,
        "--port",
        "0",
    ]
    return ManagedProcess("demonstrator", argv, log_path=folder / "demonstrator.log")


@pytest.fixture(scope="module")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("demonstrator")
    tasks = write_tasks(folder / "tasks.jsonl", tasks_of_all_families())
    learner = write_learner(folder / "learner")
    process = make_demonstrator(folder, tasks, "--tokenizer", learner)
    process.start()

    async def serving() -> bool:
        return ADDRESS.search(process.log_tail()) is not None

    asyncio.run(process.wait_ready(serving, timeout_s=60))
    yield ADDRESS.findall(process.log_tail())[0]
    asyncio.run(process.terminate())


def tools_of(task: Task) -> list[pb.ToolDefinition]:
    """The task's tools among others, as the platform defines them."""
    definitions = []
    for name in sorted({*task.tools, "calculator", "dictionary", "days_between"}):
        spec = yaml.safe_load((BUNDLED / f"{name}.yaml").read_text())
        definitions.append(
            pb.ToolDefinition(
                name=name,
                description=spec["description"],
                parameters_json_schema=spec["parametersJsonSchema"],
            )
        )
    return definitions


async def play(stub: Any, task: Task) -> list[pb.NextActionResponse]:
    """An episode: what the demonstrator does until it answers, its calls really made."""
    request = pb.NextActionRequest(key="e/1/model/0", task=task.question, tools=tools_of(task))
    responses = []
    for call in (*(task.solution or ()), None):
        response = await stub.NextAction(request)
        responses.append(response)
        if call is not None:
            turn = request.turns.add(action=response.action)
            made = response.action.tool_calls.calls[0]
            turn.observations.add(call=made, content=json.dumps(solve(call)))
    return responses


async def test_an_episode_of_demonstrations_makes_the_known_calls_and_answers(
    start_service: Any, base_url: str
) -> None:
    stub = await start_service(base_url)
    for task in tasks_of_all_families():
        *calls, last = await play(stub, task)
        made = [response.action.tool_calls.calls[0] for response in calls]
        assert [each.tool_name for each in made] == [call.tool for call in task.solution or ()]
        assert [json.loads(each.arguments_json) for each in made] == [
            call.arguments for call in task.solution or ()
        ]
        assert task.judge().judge(last.action.final_answer).score == 1


async def test_what_is_shown_can_be_learnt_from(start_service: Any, base_url: str) -> None:
    stub = await start_service(base_url)
    grammar = GrammarReplay(make_tokenizer(), len(make_tokenizer()))
    for task in tasks_of_all_families()[:10]:
        for response in await play(stub, task):
            recorded = Constraint.recorded(
                response.constraint_json_schema, response.constraint_digest
            )
            ids = list(response.completion_token_ids)
            assert len(grammar.legal(recorded, ids)) == len(ids), "the grammar allows every token"
            assert list(response.completion_logprobs) == [0.0] * len(ids)
            assert response.prompt_token_ids
            assert response.engine == "vllm/demonstrator"


async def test_a_question_nobody_solved_is_rejected(start_service: Any, base_url: str) -> None:
    stub = await start_service(base_url)
    with pytest.raises(grpc.aio.AioRpcError, match="no task asks 'Why\\?'"):
        await stub.NextAction(pb.NextActionRequest(key="e/1/model/0", task="Why?"))


async def test_a_line_that_is_no_task_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text("{}")
    process = make_demonstrator(tmp_path, path, "--tokenizer", write_learner(tmp_path / "learner"))
    process.start()
    assert await process.wait() == 2
    assert "tasks.jsonl, line 1: not a task" in process.log_tail()


def test_tasks_without_solutions_show_nothing() -> None:
    with pytest.raises(NoDemonstration, match="none of the tasks has a solution"):
        Solutions([replace(tasks_of_all_families()[0], solution=None)])
