from temporalio.client import Client, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy

from podium_evaluation.environments.programs import Environments
from podium_evaluation.runs.activities import EvaluationActivities
from podium_evaluation.runs.payloads import EvaluationRun
from podium_evaluation.runs.workflow import EvaluationWorkflow, workflow_id
from podium_kit.client.gateway import Gateway
from podium_training.rollouts.submission import work

Run = WorkflowHandle[EvaluationWorkflow, None]


async def start_evaluation(client: Client, task_queue: str, run: EvaluationRun) -> Run:
    """Starts the run's workflow, in place of one that no worker continues.

    What another worker still plays is played once all the same: the ids of the episodes are fixed.
    """
    return await client.start_workflow(
        EvaluationWorkflow.run,
        run,
        id=workflow_id(run.evaluation_id),
        task_queue=task_queue,
        id_conflict_policy=WorkflowIDConflictPolicy.TERMINATE_EXISTING,
    )


async def work_on_both(client: Client, task_queue: str, gateway: Gateway) -> None:
    """Works on runs of rollouts and of evaluations until it is cancelled."""
    environments = Environments()
    activities = EvaluationActivities(gateway, environments)
    try:
        await work(client, task_queue, gateway, [EvaluationWorkflow], [activities.play_trials])
    finally:
        await environments.close()
