import pytest

from chart.pods import PodTemplate, pod_templates
from chart.rendering import Json, cases, of_kind, rendered
from chart.restricted_profile import violations
from orchestrator_inference.policy_engines.blueprint import EngineRules, engine_of
from orchestrator_inference.policy_engines.kserve_api import APIS

VERSION = "policy-demo-v12"
UID = {"uid": "a-uid"}
# The cases in which engines are made; the first test compares them with what is rendered.
ON = [
    name
    for name, _ in cases()
    if name in {"production", "multi-tenant"}
    or name.startswith(("kserve", "llmInference", "accelerator"))
]
COMPONENT = "app.kubernetes.io/component"


def keeper(objects: list[Json]) -> Json:
    deployments = of_kind(objects, "Deployment")
    return next(one for one in deployments if one["metadata"]["name"] == "podium-policy-engines")


def environment(objects: list[Json]) -> dict[str, str]:
    (container,) = keeper(objects)["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one["value"] for one in container["env"]}


def engine(objects: list[Json]) -> Json:
    settings = environment(objects)
    blueprint = next(
        one
        for one in of_kind(objects, settings["POLICY_ENGINES_KIND"])
        if one["metadata"]["name"] == settings["POLICY_ENGINES_BLUEPRINT"]
    )
    rules = EngineRules(
        settings["POLICY_ENGINES_KIND"], settings["POLICY_ENGINES_CLAIM"], "policy-engine"
    )
    found = {**blueprint, "metadata": blueprint["metadata"] | UID}
    return engine_of(VERSION, found, rules)


def pod(objects: list[Json]) -> PodTemplate:
    runtimes = of_kind(objects, "ServingRuntime")
    return next(iter(pod_templates([engine(objects), *runtimes])))


def test_engines_are_made_where_kserve_serves_and_nowhere_else() -> None:
    made = [name for name, _ in cases() if "podium-policy-engines" in str(rendered(name))]
    assert made == ON
    assert not [case for case in ON if not of_kind(rendered(case), *APIS)]


@pytest.mark.parametrize("case", ON)
def test_its_pods_pass_the_restricted_profile_and_have_a_network_policy(case: str) -> None:
    objects = rendered(case)
    found = pod(objects)
    assert not violations(found.spec)
    (policy,) = [
        one["spec"]
        for one in of_kind(objects, "NetworkPolicy")
        if one["spec"]["podSelector"]["matchLabels"].items() <= found.labels.items()
    ]
    assert policy["egress"] == []
    assert {"Ingress", "Egress"} == set(policy["policyTypes"])


@pytest.mark.parametrize("case", ON)
def test_one_service_finds_the_engines_and_the_model_servers_does_not(case: str) -> None:
    labels = pod(rendered(case)).labels
    finding = {
        one["metadata"]["name"]
        for one in of_kind(rendered(case), "Service")
        if one["spec"]["selector"].items() <= labels.items()
    }
    assert finding == {"podium-policy-engine"}


@pytest.mark.parametrize("case", ON)
def test_the_keeper_may_do_what_it_does_and_nothing_else(case: str) -> None:
    objects = rendered(case)
    roles = [one for one in of_kind(objects, "Role") if "policy-engines" in one["metadata"]["name"]]
    ((rule,),) = [one["rules"] for one in roles]
    _, plural = APIS[environment(objects)["POLICY_ENGINES_KIND"]]
    assert (rule["apiGroups"], rule["resources"]) == (["serving.kserve.io"], [plural])
    assert set(rule["verbs"]) == {"create", "get", "list", "watch", "patch", "delete"}
    account = keeper(objects)["spec"]["template"]["spec"]["serviceAccountName"]
    bound = [
        subject["name"]
        for one in of_kind(objects, "RoleBinding")
        if one["roleRef"]["name"] == roles[0]["metadata"]["name"]
        for subject in one["subjects"]
    ]
    assert bound == [account]


def test_a_version_is_another_model_on_the_same_machine() -> None:
    objects = rendered("kserve")
    made = engine(objects)["spec"]["predictor"]
    base = of_kind(objects, "InferenceService")[0]["spec"]["predictor"]
    assert made["model"]["storageUri"] == f"pvc://podium-adapters/{VERSION}"
    assert made["model"]["args"][-1] == f"--served-model-name={VERSION}"
    assert made["model"]["resources"] == base["model"]["resources"]
    assert made["deploymentStrategy"] == base["deploymentStrategy"]
    assert made["maxReplicas"] == made["minReplicas"]
    assert made["labels"][COMPONENT] != base["labels"][COMPONENT]
