"""A question in the manner of Humanity's Last Exam, as ToolOrchestra solves it: traced and priced.

    pip install ./sdks/python   # from the repository; docs/paper.md sets up the platform
    python examples/paper/hle_question.py

The question is ours. Another one, with the number that is right: hle_question.py QUESTION NUMBER.
"""

import json
import sys
from decimal import Decimal

from podium_client import EpisodeUnanswered, Podium
from podium_client.models import Check, Money, ToolInvocation, Turn

QUESTION = (
    "Choose one edge of the complete bipartite graph K(4,7). How many spanning trees of the graph"
    " contain that edge? Give the number."
)
RIGHT = "501760"
TOOLS = ["search", "enhance_reasoning", "answer"]


def usd(money: Money | None) -> str:
    return f"{Decimal(money.amount):f} USD" if money else "unknown cost"


def show(turn: Turn) -> None:
    decided = turn.model_call
    action = decided.response.action if decided and decided.response else None
    thought = " ".join((action.thought or "").split()) if action else ""
    print(f"turn {turn.number}: {thought[:100]} ({usd(decided.cost if decided else None)})")
    for call in turn.tool_invocations:
        show_call(call)


def show_call(call: ToolInvocation) -> None:
    seen = call.observation
    name = seen.call.tool_name if seen and seen.call else "?"
    print(f"  {name} by {call.model}, {usd(call.cost)} in all")
    if call.executor and call.executor.observation and call.executor.observation.call:
        ran = call.executor.observation.call
        print(f"    ran {ran.tool_name}, {usd(call.executor.cost)}: {ran.arguments_json[:100]}")
    if seen:
        text = seen.failure.message if seen.failure else seen.content
        print("    " + " ".join((text or "").split())[-200:])


question, right = sys.argv[1:3] if len(sys.argv) > 2 else (QUESTION, RIGHT)
with Podium() as podium:
    check = Check(verifier="numeric", parameters_json=json.dumps({"expected": right}))
    try:
        episode = podium.episodes.run(
            question, tools=TOOLS, policy="paper", budget="1", turn_limit=20, check=check
        )
    except EpisodeUnanswered as ended:
        episode = ended.episode
    found = podium.episodes.trajectory(episode.id)
for turn in found.turns:
    show(turn)
print(f"answer: {episode.answer or 'none'}")
print("right" if [each.score for each in found.outcomes] == [1.0] else "wrong or not judged")
print(f"episode and trace {episode.id}, {usd(found.cost)}")
