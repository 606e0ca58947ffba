import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MODEL = "scripted-model"


@dataclass(frozen=True)
class Rule:
    question: str
    tool: str
    arguments: Mapping[str, Any]
    answers: Mapping[str, str]


RULES = (
    Rule("How warm is it in Oslo", "get_weather", {"city": "Oslo"}, {"-3 degrees": "-3 degrees."}),
    Rule("6 x 7", "calculator", {"expression": "6*7"}, {"42": "It is 42."}),
    Rule(
        "123456 x 654321",
        "calculator",
        {"expression": "123456*654321"},
        {"did not approve": "Nobody allowed that.", "80779853376": "It is 80779853376."},
    ),
    Rule(
        "capital of Burkina Faso",
        "country_facts",
        {"country": "Burkina Faso"},
        {"Ouagadougou": "Ouagadougou is."},
    ),
    # It never calculates this one, and is wrong.
    Rule("2 to the power of 10", "calculator", {"expression": "2**10"}, {"": "It is 1000."}),
)


def reply(body: Mapping[str, Any]) -> str:
    asked = json.dumps(body["messages"], ensure_ascii=False)
    return json.dumps(_decide(asked))


def _decide(asked: str) -> dict[str, Any]:
    for rule in RULES:
        if rule.question in asked:
            for seen, answer in rule.answers.items():
                if seen in asked:
                    return {"answer": answer}
            return {"tool": rule.tool, "arguments": rule.arguments}
    return {"answer": "I do not know."}
