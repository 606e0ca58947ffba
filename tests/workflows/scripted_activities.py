import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from temporalio import activity

from episodes.execution.outcomes import ChildCall, TurnInput
from episodes.workflows.episode_workflow import ADMIT_CHILD, FINISH_EPISODE, JUDGE_ANSWER, TAKE_TURN
from episodes.workflows.payloads import EpisodeInput, FinishInput, JudgeInput, TurnResult

Script = Callable[[TurnInput], TurnResult]


def answers_in(turns: int) -> Script:
    return lambda turn: TurnResult(stop="answered" if turn.turn >= turns else "")


def waits_for_approval(turn: TurnInput) -> TurnResult:
    return TurnResult(stop="answered") if turn.approvals else TurnResult(pending=[0, 1])


def asks_children(turn: TurnInput) -> TurnResult:
    """Two episodes answer calls of the first turn, beside another call; theirs answer at once."""
    if turn.turn > 1 or turn.episode_id.endswith("-child"):
        return TurnResult(stop="answered")
    if turn.children:
        return TurnResult()
    children = [
        ChildCall(f"{turn.episode_id}-{index}-child", turn.episode_id, 1, index, 30.0)
        for index in (0, 2)
    ]
    return TurnResult(children=children, others=True)


@dataclass
class ScriptedActivities:
    """Takes turns by a script and notes what it was asked; a run of them ends at `drains_at`."""

    script: Script
    delay_s: float = 0.0
    drains_at: int = 0
    finishes: bool = True
    turns: list[TurnInput] = field(default_factory=list)
    admitted: list[ChildCall] = field(default_factory=list)
    finished: list[FinishInput] = field(default_factory=list)
    judge: Callable[[JudgeInput], None] = lambda judge: None
    judged: list[JudgeInput] = field(default_factory=list)

    @activity.defn(name=TAKE_TURN)
    async def take_turn(self, turn: TurnInput) -> TurnResult:
        while True:
            self.turns.append(turn)
            remaining_s = self.delay_s
            while remaining_s > 0:
                await asyncio.sleep(0.1)
                remaining_s -= 0.1
                activity.heartbeat()
            result = replace(self.script(turn), turn=turn.turn)
            waits = result.pending or result.children or result.asks_caller
            if turn.turn == turn.run_to and not (result.stop or waits):
                result = replace(result, stop="turn_limit")
            if result.stop and turn.finishes and self.finishes:
                self.finished.append(FinishInput(turn.episode_id, result.stop, result.message))
                return replace(result, finished=True)
            if result.stop or waits or not turn.run_to or turn.turn == self.drains_at:
                return result
            following = turn.turn + 1
            turn = TurnInput(
                turn.episode_id,
                following,
                last=following == turn.run_to,
                run_to=turn.run_to,
                finishes=turn.finishes,
            )

    @activity.defn(name=JUDGE_ANSWER)
    async def judge_answer(self, judge: JudgeInput) -> None:
        self.judged.append(judge)
        self.judge(judge)

    @activity.defn(name=ADMIT_CHILD)
    async def admit_child(self, call: ChildCall) -> EpisodeInput:
        self.admitted.append(call)
        return EpisodeInput(call.episode_id, 3, call.time_limit_s)

    @activity.defn(name=FINISH_EPISODE)
    async def finish_episode(self, finish: FinishInput) -> None:
        self.finished.append(finish)
