"""The three filters of the paper: what is wrong, trivial or too hard is no task.

They are not in the released code: the golden calls raise an error, the task
is not solved in pass@8, the task is solved without any action.
"""

import json

from podium_training.synthesis.database import CallFailed
from podium_training.synthesis.domain import Domain
from podium_training.synthesis.draft import Draft, Golden, says_all
from podium_training.synthesis.model import ChatModel
from podium_training.synthesis.rejections import Rejection
from podium_training.synthesis.solving import answers, solves


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
        return Rejection.SAID_NOWHERE
    if golden.before == golden.after:
        if says_all(draft.instruction, draft.say):
            return Rejection.NEEDS_NO_ACTION
        if golden.solved_by(golden.before, await answers(model, f"{name}/bare", domain, draft)):
            return Rejection.NEEDS_NO_ACTION
    for attempt in range(attempts):
        if await solves(model, f"{name}/attempt/{attempt}", domain, draft, golden):
            return None
    return Rejection.NOT_SOLVED if attempts else None
