"""The prompt with which a language model writes a tool's description. Pure.

The paper's method (section 3.1 and appendix C): sample tasks, show what came of them, and
have another model write a paragraph on strengths and weaknesses.
"""

from collections.abc import Sequence

from tool_registry.history.past_episodes import PastEpisode

TASK_CHARACTERS = 600
ANSWER_CHARACTERS = 300
HEAD = """\
You write the description by which an orchestrator chooses among tools. Below are the present
description of the tool {name} and tasks in which it was used, with what came of them. Write one
paragraph of at most 120 words: what the tool does, for which tasks it works well, for which it
fails, and when to use something else. State only what the cases show or the present description
says. Prices and latencies are added by others: do not mention them. Answer with the paragraph
alone.

Present description:
{description}
"""
CASE = """
Case {number}: {outcome}
Task: {task}
Calls of the tool: {calls}, failed: {failed}
Answer: {answer}
"""


def description_prompt(
    name: str, model_alias: str, description: str, episodes: Sequence[PastEpisode]
) -> str:
    called = f"{name} (model {model_alias})" if model_alias else name
    cases = [
        _case(number, episode, name, model_alias) for number, episode in enumerate(episodes, 1)
    ]
    return HEAD.format(name=called, description=description) + "".join(cases)


def succeeded(episode: PastEpisode) -> bool:
    """An answer that was not verified counts as a success."""
    return episode.answered if episode.solved is None else episode.solved


def _case(number: int, episode: PastEpisode, name: str, model_alias: str) -> str:
    calls = [
        call
        for call in episode.calls
        if call.tool_name == name and model_alias in ("", call.model_alias)
    ]
    return CASE.format(
        number=number,
        outcome="succeeded" if succeeded(episode) else "failed",
        task=episode.task[:TASK_CHARACTERS],
        calls=len(calls),
        failed=sum(call.failed for call in calls),
        answer=episode.answer[:ANSWER_CHARACTERS] or "none",
    )
