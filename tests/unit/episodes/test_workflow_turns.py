from collections.abc import Callable

from episodes.execution.outcomes import Approval, ChildCall, EpisodeResult, TurnInput
from episodes.workflows.episode_workflow import EpisodeWorkflow
from episodes.workflows.payloads import EpisodeInput, TurnResult

EPISODE = EpisodeInput("e1", turn_limit=3, time_limit_s=60.0)


class ScriptedWorkflow(EpisodeWorkflow):
    def __init__(self, script: Callable[[TurnInput], TurnResult]) -> None:
        super().__init__(EPISODE)
        self.asked: list[TurnInput] = []
        self._script = script

    async def turns(self) -> TurnResult:
        return await self._take_turns(EPISODE)

    async def _run_turn(self, episode: EpisodeInput, turn: TurnInput) -> TurnResult:
        assert len(self.asked) < 10, "the same is asked for again and again"
        self.asked.append(turn)
        return self._script(turn)

    async def _decisions(
        self, episode: EpisodeInput, turn: int, pending: list[int]
    ) -> dict[str, Approval]:
        decided = self._decided.setdefault(turn, {})
        decided |= {str(index): Approval(turn, index, True, "ada") for index in pending}
        return dict(decided)

    async def _run_child(self, call: ChildCall) -> EpisodeResult:
        return EpisodeResult("answered")


async def test_what_was_approved_stays_approved_when_another_call_has_to_be() -> None:
    """The policy changed while a person was asked about the first call."""

    def two_that_wait(turn: TurnInput) -> TurnResult:
        waiting = [index for index in (0, 1) if str(index) not in turn.approvals]
        return TurnResult(pending=waiting[:1], turn=1) if waiting else TurnResult("answered")

    workflow = ScriptedWorkflow(two_that_wait)
    assert (await workflow.turns()).stop == "answered"
    assert workflow.asked[-1].approvals == {"0": True, "1": True}


async def test_no_call_ends_an_episode_whose_children_run() -> None:
    """A tool that gives the answer is called beside a tool that starts an episode."""
    child = ChildCall("e2", "e1", 1, 0, 30.0)

    def answers_beside_a_child(turn: TurnInput) -> TurnResult:
        if not turn.children:
            return TurnResult(children=[child], others=True, turn=1)
        return TurnResult("answered", turn=1, finished=turn.finishes)

    workflow = ScriptedWorkflow(answers_beside_a_child)
    assert (await workflow.turns()).finished
    assert [(len(each.ended), each.finishes) for each in workflow.asked] == [
        (0, True),
        (0, False),
        (1, True),
    ]
