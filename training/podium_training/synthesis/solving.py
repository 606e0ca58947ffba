from typing import Any

from podium_training.synthesis import prompts
from podium_training.synthesis.database import CallFailed, Database
from podium_training.synthesis.domain import Domain
from podium_training.synthesis.draft import Draft, Golden, GoldenCall, call_schema, carry_out
from podium_training.synthesis.model import ChatModel, NoGoodReply
from podium_training.synthesis.schema import object_schema

TURNS_MAX = 8
ANSWER = object_schema({"answer": {"type": "string", "minLength": 1, "maxLength": 1000}})


async def solves(model: ChatModel, name: str, domain: Domain, draft: Draft, golden: Golden) -> bool:
    schema = {"anyOf": [ANSWER, *(call_schema(tool) for tool in domain.tools)]}
    done: list[tuple[dict[str, Any], Any]] = []
    with Database.filled(domain) as database:
        for turn in range(TURNS_MAX):
            prompt = prompts.solve_text(domain, domain.tools, draft, done)
            try:
                said = await model.ask(f"{name}/{turn}", prompt, schema, dict)
            except NoGoodReply:
                return False
            if "answer" in said:
                return golden.solved_by(database.state(), said["answer"])
            done.append((said, _result(domain, database, said)))
    return False


async def answers(model: ChatModel, name: str, domain: Domain, draft: Draft) -> str:
    prompt = prompts.ANSWER.format(subject=domain.subject, instruction=draft.instruction)
    try:
        return str((await model.ask(name, prompt, ANSWER, dict))["answer"])
    except NoGoodReply:
        return ""


def _result(domain: Domain, database: Database, said: dict[str, Any]) -> Any:
    try:
        return carry_out(domain, database, GoldenCall.model_validate(said))
    except CallFailed as error:
        return {"error": str(error)}
