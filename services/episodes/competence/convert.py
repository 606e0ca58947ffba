from collections.abc import Mapping

from episodes.competence.credit import name_of
from episodes.competence.posterior import Posterior
from podium.registry.v1 import toolset_pb2

# Fewer similar tasks are no record, and are not stated.
SIMILAR_TASKS_MIN = 5


def add_records(toolset: toolset_pb2.Toolset, records: Mapping[str, Posterior]) -> None:
    """Adds the records of its tools to the estimates of a toolset, before it is frozen."""
    for tool in toolset.tools:
        only = tool.model_aliases[0] if len(tool.model_aliases) == 1 else ""
        for estimate in tool.estimates:
            record = records.get(name_of(tool.name, estimate.model_alias or only))
            if record is not None:
                estimate.competence.CopyFrom(_competence(record))


def _competence(record: Posterior) -> toolset_pb2.Competence:
    tasks = round(record.similar_tasks)
    stated = tasks >= SIMILAR_TASKS_MIN
    return toolset_pb2.Competence(
        similar_task_count=tasks if stated else 0,
        right_count=min(round(record.right), tasks) if stated else 0,
        probability=round(record.probability, 2),
    )
