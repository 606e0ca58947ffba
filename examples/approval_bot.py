"""Decides calls that wait for a person: what its rule allows is approved, everything else denied.

    pip install ./sdks/python   # from the repository
    PODIUM_APPROVER_KEY=... python approval_bot.py          # until it is stopped
    PODIUM_APPROVER_KEY=... python approval_bot.py --demo   # with two episodes that ask

The person who started an episode cannot approve its calls, and neither can a key that this person
created. So the bot has a key of its own with the role approver, which another admin creates. The
demo, where one admin has created both, permits self-approval in its policy.
"""

import json
import os
import sys
import time
from contextlib import suppress

from podium_client import BadRequest, Podium
from podium_client.models import PolicySpec, ToolCall, ToolSelector

LONGEST = 12
key = os.environ.get("PODIUM_APPROVER_KEY")
if not key:
    sys.exit("set PODIUM_APPROVER_KEY; `podium keys create bot --role approver` prints one")
approver = Podium(api_key=key)


def verdict(call: ToolCall) -> tuple[bool, str]:
    """Returns whether the call may be made, and why."""
    expression = json.loads(call.arguments_json).get("expression", "")
    short = call.tool_name == "calculator" and len(expression) <= LONGEST
    return short, "a short sum" if short else "only short sums are approved here"


def decide(episode_id: str, turn: int, call: ToolCall) -> None:
    """One call, unless another approver was faster or its time is over."""
    approved, reason = verdict(call)
    choose = approver.episodes.approve if approved else approver.episodes.deny
    with suppress(BadRequest):
        choose(episode_id, turn, call.index, reason=reason)
        word = "approved" if approved else "denied"
        print(f"{word} {call.tool_name}({call.arguments_json}): {reason}", flush=True)


def demo() -> None:
    """Two episodes under a policy that asks a person for each sum."""
    ask = ToolSelector(names=["calculator"])
    spec = PolicySpec(
        name="ask-first", preset="POLICY_PRESET_BALANCED", approval=ask, self_approval=True
    )
    with Podium() as user:
        user.policies.create(spec)
        for task in ("What is 6 x 7?", "What is 123456 x 654321?"):
            episode = user.episodes.start(task, policy="ask-first", tools=["calculator"])
            for event in user.episodes.watch(episode.id):
                if event.approval_requested and event.approval_requested.call:
                    decide(episode.id, event.turn, event.approval_requested.call)
            print(f"{task} {user.episodes.get(episode.id).answer}")


if "--demo" in sys.argv:
    demo()
else:
    while True:
        # To watch one episode to its end would let the calls of others wait for hours.
        for waiting in approver.episodes.approvals():
            if waiting.approvable and waiting.call:
                decide(waiting.episode_id, waiting.turn, waiting.call)
        time.sleep(2)
