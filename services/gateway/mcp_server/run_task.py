"""The tool `run_task`: an episode whose turns are progress and whose answer is the result."""

import json
from dataclasses import replace
from typing import Any, Protocol

from mcp import types
from pydantic import Field

from gateway.chat.catalogue import DEFAULT_ALIAS, Choice
from gateway.chat.outcomes import finish_reason
from gateway.chat.request import PodiumOptions, dollars
from gateway.chat.response import podium
from gateway.chat.starting import EpisodeStarter
from gateway.mcp_server.options import TaskOptions, checked
from gateway.models import AnswerPart, ListOrder, Outcome, ProgressNote

NAME = "run_task"
DESCRIPTION = (
    "Solves a task: a small orchestrator calls tools and larger models as your policy allows, and"
    " answers. Slow tasks take minutes; progress says what is done. Costs money, within budget_usd."
)
SHOWN_CHARACTERS_MAX = 300


class ProgressReport(Protocol):
    async def __call__(self, message: str, answer_part: str = "") -> None: ...


class TaskArguments(PodiumOptions):
    """Arguments of the tool."""

    task: str = Field(min_length=1, description="what to do, in words")
    model: str = Field(DEFAULT_ALIAS, description="orchestrator; the platform's default one")

    def order(self, choice: Choice) -> ListOrder:
        return ListOrder(
            task=self.task,
            history=(),
            model=choice.model,
            policy=self.policy or choice.policy,
            tool_names=tuple(self.tools),
            client_tools=(),
            first_tools=(),
            answer_schema="",
            turn_limit=self.turn_limit,
            time_limit_s=self.time_limit_s,
            budget=dollars(self.budget_usd),
            prompt_mode=self.prompt_mode,
            parallel_calls=self.parallel_calls,
            labels=self.labels,
            max_tokens=0,
            temperature=None,
            top_p=None,
            seed=None,
        )


DEFINITION = types.Tool(
    name=NAME,
    title="Run a task",
    description=DESCRIPTION,
    input_schema=TaskArguments.model_json_schema(),
    annotations=types.ToolAnnotations(read_only_hint=False, open_world_hint=True),
)


async def run_task(
    starter: EpisodeStarter, arguments: dict[str, Any], options: TaskOptions, report: ProgressReport
) -> types.CallToolResult:
    given = checked(TaskArguments, arguments)
    return answered(await _outcome(starter, given, options, report))


async def _outcome(
    starter: EpisodeStarter, given: TaskArguments, options: TaskOptions, report: ProgressReport
) -> Outcome:
    streams, shown = options.stream_answer, ""
    order = given.order(await starter.catalogue.orchestrator(given.model))
    order = replace(order, streams=streams)
    body = json.dumps([NAME, given.model_dump(mode="json")], sort_keys=True).encode()
    async with starter.episode_ids.starting_with(options.idempotency_key, body) as episode:
        run = starter.part_of(episode)
        await run.start(order)
    async with starter.waited_for(run):
        async for event in run.events(with_parts=streams, parts_bind=False):
            if isinstance(event, Outcome):
                return event
            if isinstance(event, ProgressNote):
                await report(event.line.strip())
            elif isinstance(event, AnswerPart):
                shown += event.text
                await report(_status(shown), event.text)
    raise AssertionError("a watch ends with an outcome or an error")


def _status(answer: str) -> str:
    """The end of an answer that is being written, in a line for a person who waits."""
    end = answer[-SHOWN_CHARACTERS_MAX:]
    return f"Answer: {'...' if len(end) < len(answer) else ''}{end}"


def answered(outcome: Outcome) -> types.CallToolResult:
    finish_reason(outcome)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=outcome.answer)],
        structured_content={"answer": outcome.answer, **podium(outcome)},
    )
