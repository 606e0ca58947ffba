"""Names of what belongs to a run."""

from podium_kit.client.gateway import segment


def path_of(evaluation_id: str) -> str:
    return f"/v1/evaluations/{segment(evaluation_id)}"


def budget_name(evaluation_id: str) -> str:
    """The id of the run's budget, and the agent whose calls it covers."""
    return f"evaluation-{evaluation_id}"
