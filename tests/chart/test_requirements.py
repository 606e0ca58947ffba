"""What `podium doctor --cluster` asks a cluster for is what the chart makes."""

from collections.abc import Iterable

from chart.rendering import cases, rendered
from podium_operations.cluster.requirements import Integration, integrations, of_modes

BUILT_IN = ("networking.k8s.io/", "rbac.authorization.k8s.io/")


def kinds_of(table: Iterable[Integration]) -> set[tuple[str, str]]:
    """(apiVersion, kind) of everything that is asked for."""
    return {(api, kind) for each in table for api, kinds in each.apis.items() for kind in kinds}


def test_the_doctor_checks_the_api_of_every_custom_resource() -> None:
    made = {
        (obj["apiVersion"], obj["kind"])
        for case, _ in cases()
        for obj in rendered(case)
        if "." in obj["apiVersion"].partition("/")[0] and not obj["apiVersion"].startswith(BUILT_IN)
    }
    made |= {("trainer.kubeflow.org/v1alpha1", "TrainJob"), ("keda.sh/v1alpha1", "ScaledObject")}
    by_switch = kinds_of(integrations().values())
    assert by_switch <= made
    assert made - by_switch == {("serving.kserve.io/v1alpha2", "LLMInferenceService")}
    assert made - by_switch <= kinds_of(of_modes()["llmInferenceService"])
