"""The charts as tests see them: loaded once, rendered in process by Helm itself."""

import os
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import yaml

# Helm is a library of Go here; the default spends a third of a rendering on collecting garbage.
os.environ.setdefault("GOGC", "400")
from helm_python import Chart

ROOT = Path(__file__).parents[2]
CHARTS = ROOT / "charts"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
Json = dict[str, Any]

SWITCHES = (
    "kserve",
    "strimzi",
    "keda",
    "kueue",
    "trainer",
    "temporalWorkerController",
    "certManager",
    "externalSecrets",
    "prometheusOperator",
    "grafana",
    "gatewayApi",
)
PROFILES = ("evaluation", "one-gpu", "minimal-cpu", "dev", "production", "multi-tenant")
# Profiles that lie on top of others.
BENEATH = {"multi-tenant": "production", "one-gpu": "evaluation"}
# Turns on everything a switch may change, so that each has something to do.
EVERYTHING: Json = {
    "componentDefaults": {"autoscaling": {"enabled": True}},
    "components": {
        name: {"enabled": True} for name in ("sandbox", "policy-engines", "rollout-worker")
    },
    "tls": {"enabled": True},
    "training": {"enabled": True, "submitters": [{"kind": "User", "name": "ada"}]},
    "controller": {"enabled": True, "namespaces": ["apps"]},
    "ingress": {
        "enabled": True,
        "from": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}],
    },
    "monitoring": {"from": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]},
    "endpoints": {
        "otlp": {"endpoint": "http://collector:4317"},
        "temporal": {"tls": {"enabled": True, "secretName": "temporal", "serverName": "temporal"}},
    },
    "identity": {"verifyKeys": {"externalSecret": {"store": "vault", "remoteKey": "podium/keys"}}},
    "inference": {
        "apiKey": {"externalSecret": {"store": "vault", "remoteKey": "podium/engine"}},
        "adapters": {"enabled": True},
        "maxReplicas": 4,
        "scaling": {"prometheusUrl": "http://prometheus:9090"},
    },
}

KNATIVE: Json = {
    "integrations": {
        "kserve": {"knative": [{"namespaceSelector": {"matchLabels": {"name": "knative-serving"}}}]}
    }
}
# One for each way to scale, to price and to bring weights.
EXPERTS: Json = {
    "small": {
        "model": "image://models/small",
        "description": "Small and quick.",
        "accelerators": 0,
        "scaleToZero": "keda",
        "idleSeconds": 60,
        "price": {"perSecond": "0.0001"},
    },
    "mathematician": {
        "model": "hf://example/math",
        "description": "Best at calculation.",
        "accelerators": 2,
        "scaleToZero": "knative",
        "maxReplicas": 3,
        "price": {"perMillionTokens": {"input": "0.2", "output": "0.6"}},
    },
    "writer": {
        "model": "pvc://models/writer",
        "description": "Writes well.",
        "extraArgs": ["--max-model-len=8192"],
        "env": {"VLLM_CPU_KVCACHE_SPACE": "1"},
        "price": {"perSecond": "0.001", "perMillionTokens": {"input": "0.1", "output": "0.2"}},
    },
}


@cache
def chart(name: str = "podium") -> Chart:
    return Chart.load(str(CHARTS / name))


def render(values: Json | None = None, name: str = "podium", release: str = "podium") -> list[Json]:
    files = chart(name).render(values or {}, name=release, namespace="podium")
    texts = [text for path, text in sorted(files.items()) if path.endswith(".yaml")]
    return [obj for text in texts for obj in parsed(text)]


@cache
def parsed(text: str) -> tuple[Json, ...]:
    """Objects of a rendered file; most files are the same in most cases."""
    return tuple(obj for obj in yaml.load_all(text, LOADER) if obj)


@cache
def rendered(case: str) -> list[Json]:
    """Objects of a named case (see `cases`); do not change them."""
    return render(dict(cases())[case])


@cache
def cases() -> tuple[tuple[str, Json], ...]:
    """Everything worth rendering: defaults, profiles, modes, and all pairs of switches."""
    found = [("defaults", {}), *((name, profile(name)) for name in PROFILES), *_modes()]
    for pair in [(), *((one,) for one in SWITCHES), *combinations(SWITCHES, 2), SWITCHES]:
        found.append(("+".join(pair) or "plain", merged(EVERYTHING, switched_on(*pair))))
    return tuple(found)


def _modes() -> Iterator[tuple[str, Json]]:
    kserve = merged(EVERYTHING, switched_on("kserve", "keda"))
    gateway = {"inference": {"mode": "llmInferenceService"}}
    gateway["inference"]["llmInferenceService"] = {"baseUrl": "https://gateway/podium/v1"}  # type: ignore[assignment]
    older = {"integrations": {"kserve": {"version": "0.20"}}}
    yield "llmInferenceService", merged(kserve, gateway)
    yield "llmInferenceService of KServe 0.20", merged(merged(kserve, gateway), older)
    namespaces = {"enabled": True, "seccompProfile": "podium-sandbox.json"}
    yield (
        "sandbox on runc",
        merged(EVERYTHING, {"components": {"sandbox": {"userNamespaces": namespaces}}}),
    )
    switched = merged(EVERYTHING, switched_on("kserve", "keda", "prometheusOperator"))
    yield "experts", merged(merged(switched, KNATIVE), {"experts": EXPERTS})
    external = {"inference": {"mode": "external", "external": {"baseUrl": "https://engine/v1"}}}
    yield "external engine", merged(EVERYTHING, external)
    kafka = {"endpoints": {"kafka": {"securityProtocol": "SASL_SSL"}}}
    yield "Kafka by password", merged(merged(EVERYTHING, switched_on("strimzi", "trainer")), kafka)
    for profile_name in ("amd", "none"):
        yield (
            f"accelerator {profile_name}",
            merged(kserve, {"accelerator": {"profile": profile_name}}),
        )


def switched_on(*names: str) -> Json:
    return {"integrations": {name: {"enabled": True} for name in names}}


def profile(name: str) -> Json:
    values: Json = yaml.safe_load((CHARTS / f"podium/profiles/{name}.yaml").read_text())
    return merged(profile(BENEATH[name]), values) if name in BENEATH else values


def merged(base: Json, over: Json) -> Json:
    both = {
        key: merged(base[key], value) if isinstance(value, dict) and key in base else value
        for key, value in over.items()
    }
    return base | both


def of_kind(objects: list[Json], *kinds: str) -> list[Json]:
    return [obj for obj in objects if obj["kind"] in kinds]


def named(objects: list[Json], kind: str, name: str) -> Json:
    return next(obj for obj in of_kind(objects, kind) if obj["metadata"]["name"] == name)


def label(obj: Json) -> str:
    return f"{obj['kind']}/{obj['metadata'].get('name', obj['metadata'].get('generateName'))}"
