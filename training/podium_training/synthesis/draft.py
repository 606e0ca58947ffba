from typing import Annotated, Any

from pydantic import Field

from podium_kit.verifiers import load_verifier
from podium_training.synthesis.database import CallFailed, Database
from podium_training.synthesis.domain import Domain, DomainTool
from podium_training.synthesis.schema import Proposal, object_schema

CALLS_MAX = 6
SAY_MAX = 4


class GoldenCall(Proposal):
    tool: str
    arguments: dict[str, Any]


class Draft(Proposal):
    """An instruction, the calls that carry it out, and what the user must learn."""

    instruction: Annotated[str, Field(min_length=20, max_length=2000)]
    calls: Annotated[list[GoldenCall], Field(min_length=1, max_length=CALLS_MAX)]
    say: Annotated[list[Annotated[str, Field(min_length=1, max_length=80)]], Field(max_length=4)]


def draft_schema(tools: list[DomainTool]) -> dict[str, Any]:
    return object_schema(
        {
            "instruction": {"type": "string", "minLength": 20, "maxLength": 2000},
            "calls": {
                "type": "array",
                "items": {"anyOf": [call_schema(tool) for tool in tools]},
                "minItems": 1,
                "maxItems": CALLS_MAX,
            },
            "say": {
                "type": "array",
                "items": {"type": "string", "minLength": 1, "maxLength": 80},
                "maxItems": SAY_MAX,
            },
        }
    )


def call_schema(tool: DomainTool) -> dict[str, Any]:
    return object_schema({"tool": {"const": tool.name}, "arguments": tool.arguments_schema()})


def carry_out(domain: Domain, database: Database, call: GoldenCall) -> Any:
    tool = domain.tool(call.tool)
    if tool is None:
        raise CallFailed(f"there is no tool {call.tool!r}")
    return database.call(tool, call.arguments)


def says_all(answer: str, say: list[str]) -> bool:
    return not say or load_verifier("contains", {"expected": say}).judge(answer).solved


class Golden:
    """The state and results after the golden calls."""

    def __init__(self, domain: Domain, draft: Draft) -> None:
        with Database.filled(domain) as database:
            self.before = database.state()
            self.results = [carry_out(domain, database, call) for call in draft.calls]
            self.after = database.state()
        self.say = draft.say

    def solved_by(self, state: dict[str, Any], answer: str) -> bool:
        """The paper's conditions: the database is as it should be, the answer is complete."""
        return state == self.after and says_all(answer, self.say)
