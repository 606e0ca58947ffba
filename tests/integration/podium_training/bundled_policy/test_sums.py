import math

import pytest

from integration.podium_training.bundled_policy.first_turns import (
    bundled_tool,
    logprobs,
    policy,
    prompt_ids,
    reply,
    row,
)
from orchestrator_inference.models import Preferences

pytestmark = pytest.mark.training

TOOLS = ("add_to_date", "calculator", "convert_units", "country_facts", "days_between")
# Each with the expressions that are right.
SUMS = {
    "What is 15% of 80?": ("15% of 80",),
    "What is 17% of 2,340?": ("17% of 2,340", "17% of 2340"),
    "How much is 8% of 250?": ("8% of 250",),
    "What is 12 times 13?": ("12 * 13",),
    "What is 20% of 150?": ("20% of 150",),
    "What is the square root of 144?": ("square root of 144", "sqrt(144)"),
}


@pytest.mark.parametrize("question", SUMS)
def test_the_right_call_has_more_than_half_of_the_chance(question: str) -> None:
    tools = [bundled_tool(name) for name in TOOLS]
    prompt = prompt_ids(question, tools, Preferences(1.0, 0.4, 0.4))
    rows = [
        row(prompt, reply("calculator", {"expression": expression}))
        for expression in SUMS[question]
    ]
    likely = [math.exp(float(each.sum())) for each in logprobs(policy(), rows, tools)]
    assert sum(likely) > 0.5
