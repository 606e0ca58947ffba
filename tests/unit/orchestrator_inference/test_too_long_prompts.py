from dataclasses import dataclass, field

import pytest

from callers import make_identity
from orchestrator_builders import make_completion, make_tool, make_turn
from orchestrator_inference.engine.engine import ModelCall
from orchestrator_inference.errors import ContextTooLong, TokensNotCounted
from orchestrator_inference.models import Completion, EngineModel, Situation
from orchestrator_inference.prompt.budgets import SectionBudgets
from orchestrator_inference.service import Orchestrator, Policy
from podium_kit.rpc.identity import acting_as

CONTEXT = 4_096
# Digits are tokens of their own for many models, and the newest results are kept.
TABLE = "words " * 1_200 + "12345678" * 500


@dataclass
class Reader:
    """An engine that reads digit by digit, and other text four letters at a time."""

    counts: bool
    asked: list[str] = field(default_factory=list)

    async def model(self, name: str) -> EngineModel:
        return EngineModel(name, CONTEXT)

    async def models(self) -> tuple[EngineModel, ...]:
        return (await self.model(""),)

    async def count_tokens(self, call: ModelCall) -> int:
        if not self.counts:
            raise TokensNotCounted("reader")
        return _tokens(_text(call))

    async def complete(self, call: ModelCall) -> Completion:
        self.asked.append(_text(call))
        if _tokens(self.asked[-1]) + call.sampling.max_tokens > CONTEXT:
            raise ContextTooLong(f"{_tokens(self.asked[-1])} tokens")
        return make_completion('{"answer":"42"}')


def _text(call: ModelCall) -> str:
    return "".join(message.content for message in call.messages)


def _tokens(text: str) -> int:
    digits = sum(letter.isdigit() for letter in text)
    return digits + (len(text) - digits) // 4


async def decide(engine: Reader, task: str, *contents: str) -> str | None:
    turns = tuple(make_turn(content=content) for content in contents)
    situation = Situation(key="k", task=task, tools=(make_tool(),), turns=turns)
    with acting_as(make_identity()):
        decision = await Orchestrator(engine, Policy(SectionBudgets()), 1).next_action(situation)
    assert decision.left_out == ("the beginning of: earlier attempts",)
    return decision.action.final_answer


@pytest.mark.parametrize("counts", [True, False])
async def test_results_of_digits_are_cut_until_they_fit(counts: bool) -> None:
    engine = Reader(counts)
    assert await decide(engine, "What is the sum?", TABLE) == "42"
    assert "5678\n\n" in engine.asked[-1]
    assert [len(text) for text in engine.asked] == sorted(map(len, engine.asked), reverse=True)


async def test_half_of_the_room_is_halved_again_where_the_prompt_has_less() -> None:
    assert await decide(Reader(counts=False), "What is the sum?", "12345678" * 600) == "42"


async def test_a_task_that_does_not_fit_is_rejected() -> None:
    engine = Reader(counts=True)
    with pytest.raises(ContextTooLong):
        await decide(engine, TABLE)
