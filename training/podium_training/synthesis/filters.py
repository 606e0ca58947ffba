"""The three filters of the paper: what is wrong, trivial or too hard is no task.

They are not in the released code: the golden calls raise an error, the task
is not solved in pass@8, the task is solved without any action.
"""

import json
from collections import Counter
from enum import StrEnum
from typing import Any

from podium_training.synthesis import prompts
from podium_training.synthesis.database import CallFailed, Database
from podium_training.synthesis.domain import Domain
from podium_training.synthesis.draft import (
    Draft,
    Golden,
    GoldenCall,
    call_schema,
    carry_out,
    says_all,
)
from podium_training.synthesis.model import ChatModel, NoGoodReply
from podium_training.synthesis.schema import object_schema


class Rejection(StrEnum):
    ROWS_NOT_NATURAL = "rows not natural"
    ROWS_UNUSABLE = "rows unusable"
    TOOL_UNUSABLE = "tool unusable"
    INTENT_REPEATED = "intent repeated"
    DRAFT_UNUSABLE = "draft unusable"
    NOT_EVOLVED = "not evolved"
    """The harder version was unusable; the task stays as it was."""
    GOLDEN_CALL_FAILS = "golden call fails"
    GIVEN_BY_NO_CALL = "information no call gives"
    NEEDS_NO_ACTION = "solvable without any action"
    NOT_SOLVED = "not solved in any attempt"
    REPEATED = "repeated"


Rejections = Counter[Rejection]


TURNS_MAX = 8
ANSWER = object_schema({"answer": {"type": "string", "minLength": 1, "maxLength": 1000}})


async def solves(model: ChatModel, name: str, domain: Domain, draft: Draft, golden: Golden) -> bool:
    schema = {"anyOf": [ANSWER, *(call_schema(tool) for tool in domain.tools)]}
    done: list[tuple[dict[str, Any], Any]] = []
    with Database.filled(domain) as database:
        for turn in range(TURNS_MAX):
            prompt = prompts.solve_text(domain, domain.tools, draft, done)
            try:
                reply = await model.ask(f"{name}/{turn}", prompt, schema, dict)
            except NoGoodReply:
                return False
            if "answer" in reply:
                return golden.solved_by(database.state(), reply["answer"])
            done.append((reply, _result(domain, database, reply)))
    return False


async def answers(model: ChatModel, name: str, domain: Domain, draft: Draft) -> str:
    prompt = prompts.ANSWER.format(subject=domain.subject, instruction=draft.instruction)
    try:
        return str((await model.ask(name, prompt, ANSWER, dict))["answer"])
    except NoGoodReply:
        return ""


def _result(domain: Domain, database: Database, reply: dict[str, Any]) -> Any:
    try:
        return carry_out(domain, database, GoldenCall.model_validate(reply))
    except CallFailed as error:
        return {"error": str(error)}


async def rejection(
    model: ChatModel, name: str, domain: Domain, draft: Draft, attempts: int
) -> Rejection | None:
    """Returns the reason why the draft is not a task; None for a task. With 0 `attempts` the last
    filter is left out.
    """
    try:
        golden = Golden(domain, draft)
    except CallFailed:
        return Rejection.GOLDEN_CALL_FAILS
    if not says_all(json.dumps(golden.results, ensure_ascii=False), draft.say):
        return Rejection.GIVEN_BY_NO_CALL
    if golden.before == golden.after:
        if says_all(draft.instruction, draft.say):
            return Rejection.NEEDS_NO_ACTION
        if golden.solved_by(golden.before, await answers(model, f"{name}/bare", domain, draft)):
            return Rejection.NEEDS_NO_ACTION
    for attempt in range(attempts):
        if await solves(model, f"{name}/attempt/{attempt}", domain, draft, golden):
            return None
    return Rejection.NOT_SOLVED if attempts else None
