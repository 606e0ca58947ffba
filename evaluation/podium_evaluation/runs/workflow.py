"""The workflow of a run: every trial once, whatever dies on the way.

An activity plays many trials, because one for each would cost more than some episodes do. It may
be attempted many times: the ids of the episodes are those that the platform planned, which answers
a repeated start with the episode that is there. Pausing and ending are states of the run that the
activity reads: they need no access to Temporal, and a pause adds nothing to the history.
"""

from dataclasses import replace
from datetime import timedelta

from temporalio import workflow

from podium_evaluation.runs.payloads import EvaluationRun, TrialsOver
from podium_training.rollouts.workflow import RETRY

PLAY_TRIALS = "play_trials"
TRIALS_AT_ONCE = 1000
# Hundreds of trials in flight on a busy machine delay a heartbeat by seconds, and are not dead.
HEARTBEAT_TIMEOUT = timedelta(seconds=30)
# With its pauses; a worker that ends is noticed by its heartbeats.
ACTIVITY_TIMEOUT = timedelta(days=30)


def workflow_id(evaluation_id: str) -> str:
    return f"evaluations/{evaluation_id}"


@workflow.defn(name="Evaluation")
class EvaluationWorkflow:
    @workflow.run
    async def run(self, run: EvaluationRun) -> None:
        while run.first < run.trial_count:
            over = await workflow.execute_activity(
                PLAY_TRIALS,
                run,
                result_type=TrialsOver,
                start_to_close_timeout=ACTIVITY_TIMEOUT,
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
                retry_policy=RETRY,
            )
            if over.stopped:
                return
            run = replace(run, first=run.first + TRIALS_AT_ONCE)
