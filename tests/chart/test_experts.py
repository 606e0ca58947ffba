"""Experts of the values: InferenceServices, scalers, tools with a price, and who reaches whom."""

from typing import Any

import pytest
import yaml
from google.protobuf import json_format
from helm_python import HelmError

from chart.pods import containers, pod_templates
from chart.rendering import (
    EXPERTS,
    KNATIVE,
    Json,
    chart,
    merged,
    named,
    of_kind,
    render,
    rendered,
    switched_on,
)
from chart.test_network import policy
from podium.registry.v1 import tool_pb2
from podium_kit.tool_kinds import llm
from tool_adapters.config import ToolAdaptersSettings

NAMES = {name: f"podium-expert-{name}" for name in EXPERTS}
NAMESPACE = "podium.svc.cluster.local"
ON = merged(switched_on("kserve", "keda"), KNATIVE)
KEDA: Json = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "keda"}},
    "podSelector": {"matchLabels": {"app": "keda-operator"}},
}


def plan(objects: list[Json]) -> Json:
    maps = of_kind(objects, "ConfigMap")
    [text] = [one["data"]["plan.yaml"] for one in maps if "plan.yaml" in one["data"]]
    found: Json = yaml.safe_load(text)["contents"]
    return found


def specs() -> dict[str, tool_pb2.ToolSpec]:
    tools = plan(rendered("experts"))["tools"]
    found = [json_format.ParseDict(each, tool_pb2.ToolSpec()) for each in tools]
    return {spec.name: spec for spec in found}


def service(name: str) -> Json:
    return named(rendered("experts"), "InferenceService", NAMES[name])


def test_each_is_a_tool_that_the_registry_takes() -> None:
    assert set(specs()) == set(EXPERTS)
    for name, spec in specs().items():
        llm.LLM.check(spec)
        [model] = spec.connection.llm.models
        assert (model.alias, model.model) == (name, NAMES[name])
        assert EXPERTS[name]["description"] in spec.description


def test_a_name_with_a_hyphen_is_a_tool_with_an_underscore() -> None:
    values = merged(ON, {"experts": {"a-b": EXPERTS["writer"]}})
    [tool] = plan(render(values))["tools"]
    assert tool["name"] == "a_b"


def test_its_price_is_in_the_list_of_the_job() -> None:
    prices = {each["sku"]: each for each in plan(rendered("experts"))["prices"]}
    charged = {
        sku: [(part["dimension"], part["unitPrice"]) for part in each["components"]]
        for sku, each in prices.items()
        if sku.startswith("expert/")
    }
    assert charged == {
        "expert/small": [("second", "0.0001")],
        "expert/mathematician": [("input_fresh", "0.2"), ("output_text", "0.6")],
        "expert/writer": [("second", "0.001"), ("input_fresh", "0.1"), ("output_text", "0.2")],
    }
    assert {spec.connection.llm.models[0].sku for spec in specs().values()} == set(charged)


def test_the_adapters_know_the_host_of_each() -> None:
    [pod] = [
        one
        for one in pod_templates(rendered("experts"))
        if one.owner.endswith("/podium-tool-adapters")
    ]
    [container] = containers(pod.spec)
    [value] = [
        one["value"] for one in container["env"] if one["name"] == "TOOL_ADAPTERS_OWN_SERVERS"
    ]
    hosts = set(yaml.safe_load(value))
    urls = {spec.connection.llm.models[0].base_url for spec in specs().values()}
    assert {url.partition("//")[2].partition("/")[0].partition(":")[0] for url in urls} == hosts
    assert "own_servers" in ToolAdaptersSettings.model_fields


def test_pods_are_found_by_a_service_or_by_knatives_ingress() -> None:
    objects = rendered("experts")
    urls = {name: spec.connection.llm.models[0].base_url for name, spec in specs().items()}
    assert urls["mathematician"] == f"http://{NAMES['mathematician']}-predictor.{NAMESPACE}/v1"
    for name in ("small", "writer"):
        assert urls[name] == f"http://{NAMES[name]}.{NAMESPACE}:8080/v1"
        selector = named(objects, "Service", NAMES[name])["spec"]["selector"]
        finds = [
            each["metadata"]["name"]
            for each in of_kind(objects, "InferenceService")
            if selector.items() <= each["spec"]["predictor"]["labels"].items()
        ]
        assert finds == [NAMES[name]]


def test_keda_scales_from_the_calls_that_every_adapter_has_open() -> None:
    [scaler] = [
        one
        for one in of_kind(rendered("experts"), "ScaledObject")
        if "expert" in one["metadata"]["name"]
    ]
    spec = scaler["spec"]
    assert spec["scaleTargetRef"]["name"] == f"{NAMES['small']}-predictor"
    assert (spec["minReplicaCount"], spec["cooldownPeriod"]) == (0, 60)
    [trigger] = spec["triggers"]
    assert trigger["metadata"]["aggregateFromKubeServiceEndpoints"] == "true"
    assert f'server_address="{NAMES["small"]}.{NAMESPACE}"' in trigger["metadata"]["valueLocation"]


@pytest.mark.parametrize(
    ("name", "mode", "scaler", "replicas"),
    [
        ("small", "Standard", "external", 0),
        ("mathematician", "Knative", None, 0),
        ("writer", "Standard", "none", 1),
    ],
)
def test_kserve_leaves_the_scaling_to_the_named_scaler(
    name: str, mode: str, scaler: str | None, replicas: int
) -> None:
    found = service(name)
    annotations = found["metadata"]["annotations"]
    assert annotations["serving.kserve.io/deploymentMode"] == mode
    assert annotations.get("serving.kserve.io/autoscalerClass") == scaler
    assert found["spec"]["predictor"]["minReplicas"] == replicas


def test_what_knative_rejects_is_not_written() -> None:
    predictor = service("mathematician")["spec"]["predictor"]
    assert not {"terminationGracePeriodSeconds", "deploymentStrategy"} & set(predictor)
    assert not {"lifecycle", "startupProbe", "livenessProbe"} & set(predictor["model"])
    runtime = named(rendered("experts"), "ServingRuntime", "podium-expert")
    assert "lifecycle" not in runtime["spec"]["containers"][0]


def test_accelerators_and_weights_are_those_of_the_values() -> None:
    models = {name: service(name)["spec"]["predictor"]["model"] for name in EXPERTS}
    limits = {
        name: model["resources"]["limits"].get("nvidia.com/gpu") for name, model in models.items()
    }
    assert limits == {"small": None, "mathematician": "2", "writer": "1"}
    assert "--tensor-parallel-size=2" in models["mathematician"]["args"]
    assert "--max-model-len=8192" in models["writer"]["args"]
    uris = {name: model.get("storageUri") for name, model in models.items()}
    assert uris == {
        "small": None,
        "mathematician": "hf://example/math",
        "writer": "pvc://models/writer",
    }
    folders = {
        name: next(one["value"] for one in model["env"] if one["name"] == "PODIUM_MODEL")
        for name, model in models.items()
    }
    assert folders == {
        "small": "/models/small",
        "mathematician": "/mnt/models",
        "writer": "/mnt/models",
    }
    assert "nodeSelector" not in service("small")["spec"]["predictor"]


def test_the_adapters_alone_reach_them_and_keda_reads_the_adapters() -> None:
    objects = rendered("experts")
    metrics = {"from": [KEDA], "ports": [{"protocol": "TCP", "port": 9090}]}
    assert metrics in policy(objects, "podium-tool-adapters")["ingress"]
    assert metrics not in policy(rendered("kserve+keda"), "podium-tool-adapters")["ingress"]
    named_callers = {
        peer["podSelector"]["matchLabels"].get("app.kubernetes.io/component")
        for rule in policy(objects, "podium-expert")["ingress"]
        for peer in rule["from"]
        if "podSelector" in peer
    }
    assert named_callers == {"tool-adapters"}


def test_only_weights_that_are_downloaded_open_the_internet() -> None:
    egress = policy(rendered("experts"), "podium-expert")["egress"]
    assert "0.0.0.0/0" in str(egress)
    local = {name: EXPERTS[name] for name in ("small", "writer")}
    assert policy(render(merged(ON, {"experts": local})), "podium-expert")["egress"] == []


WRITER = EXPERTS["writer"]
BAD: list[tuple[Json, str]] = [
    (
        {"experts": {"w": {k: v for k, v in WRITER.items() if k != "price"}}},
        "missing property 'price'",
    ),
    ({"experts": {"w": WRITER | {"price": {}}}}, "/experts/w/price"),
    ({"experts": {"w": WRITER | {"price": {"perSecond": 0.1}}}}, "/experts/w/price/perSecond"),
    ({"experts": {"w": WRITER | {"price": {"perMillionTokens": {"input": "1"}}}}}, "'output'"),
    ({"experts": {"w": WRITER | {"scaleToZero": "hpa"}}}, "must be one of 'keda', 'knative'"),
    ({"experts": {"w": WRITER | {"model": "writer"}}}, "/experts/w/model"),
    ({"experts": {"w": WRITER | {"gpus": 1}}}, "'gpus'"),
    ({"experts": {"W_1": WRITER}}, "W_1"),
    ({"experts": {"w": WRITER | {"maxReplicas": 2}}}, "set experts.w.scaleToZero"),
    ({"experts": {"w" * 30: WRITER}, "fullnameOverride": "p" * 30}, "shorten it"),
    (
        {"experts": {"w": WRITER}, "integrations": {"kserve": {"enabled": False}}},
        "set integrations.kserve.enabled: true",
    ),
    (
        {"experts": {"w": EXPERTS["small"]}, "integrations": {"keda": {"enabled": False}}},
        "set integrations.keda.enabled: true",
    ),
    (
        {
            "experts": {"w": EXPERTS["mathematician"]},
            "integrations": {"kserve": {"knative": []}},
        },
        "set integrations.kserve.knative",
    ),
    (
        {"experts": {"w": WRITER}, "bootstrap": {"enabled": False}},
        "the Job of bootstrap registers it",
    ),
]


@pytest.mark.parametrize(("values", "words"), BAD, ids=[words for _, words in BAD])
def test_a_wrong_expert_is_rejected_with_its_field_and_the_fix(values: Any, words: str) -> None:
    with pytest.raises(HelmError) as rejection:
        render(merged(ON, values))
    assert words in str(rejection.value)


def test_the_notes_name_the_claims_of_weights() -> None:
    writer = merged(ON, {"experts": {"writer": EXPERTS["writer"] | {"model": "pvc://mine/writer"}}})
    files = chart().render(writer, name="podium", namespace="podium")
    [notes] = [text for path, text in files.items() if path.endswith("NOTES.txt")]
    assert "mine  (experts.writer.model)" in notes


def test_without_experts_nothing_of_them_is_made() -> None:
    assert "podium-expert" not in str(rendered("kserve+keda"))
    assert "OWN_SERVERS" not in str(rendered("kserve+keda"))
