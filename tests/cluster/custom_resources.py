import json
from decimal import Decimal

import yaml

from chart.rendering import ROOT
from cluster.finding import require
from cluster.release import Json, Release, run, served
from cluster.tasks import asked

# A release of its own, as `helm install podium-crds` makes it for the whole cluster.
CRDS = ("podium-crds", "-n", "default")
TOOL, SKU, PRICE = "capital-finder", "own/capital-finder", "0.0005"
POLICY = "cluster-thrifty"
# Kubernetes has no underscore in names, and tools no hyphen.
CALLED = TOOL.replace("-", "_")
VALUES = {
    "controller.enabled": "true",
    "controller.keySecret.secretName": "podium-api-keys",
    "controller.keySecret.key": "tenant",
}


def applied(release: Release) -> str:
    """They are ready; `kubectl diff` sees no drift; deleted objects go."""
    if not served("tools.podium.dev"):
        _install_crds(release)
    release.values += [f"{key}={value}" for key, value in VALUES.items()]
    release.upgrade()
    release.kubectl("rollout", "status", "deployment/podium-controller", "--timeout=180s")
    objects = json.dumps({"apiVersion": "v1", "kind": "List", "items": _objects()})
    release.kubectl("apply", "-f", "-", stdin=objects)
    names = [f"{one['kind'].lower()}/{one['metadata']['name']}" for one in _objects()]
    try:
        release.kubectl("wait", "--for=condition=Ready", *names, "--timeout=120s")
        # Its status is 1 where something differs.
        release.kubectl("diff", "-f", "-", stdin=objects)
        cost = _paid(release)
    finally:
        # The controller lets them go, and the namespace needs it to.
        release.kubectl("delete", *names, "--timeout=120s")
    return f"{', '.join(names)}: ready, without drift, ${cost} for an episode, deleted"


def _paid(release: Release) -> str:
    events = asked(release, "--tool", CALLED, "--policy", POLICY)
    returned = [event["tool_returned"] for event in events if "tool_returned" in event]
    paid = [
        one["cost"]["amount"]
        for one in returned
        if one["observation"]["call"]["tool_name"] == CALLED
    ]
    require(bool(paid) and {Decimal(each) for each in paid} == {Decimal(PRICE)}, f"{events}")
    episode = events[-1]["finished"]["episode"]
    require(episode["policy_name"] == POLICY, f"it ran under {episode['policy_name']}")
    return str(episode["cost"]["amount"])


def _install_crds(release: Release) -> None:
    """Their chart's uninstall keeps them, and so the test removes them by name."""
    chart = (CRDS[0], "charts/podium-crds", *CRDS[1:])
    run("helm", "install", *chart)
    made = [one["metadata"]["name"] for one in yaml.safe_load_all(run("helm", "template", *chart))]
    release.undo.append(("helm", "uninstall", *CRDS))
    release.undo.append(("kubectl", "delete", "crd", *made))


def _objects() -> list[Json]:
    bundled = yaml.safe_load((ROOT / "bundled/tools/country_facts.yaml").read_text())
    tool = {
        "kind": "function",
        "description": bundled["description"].strip(),
        "parameters": json.loads(bundled["parametersJsonSchema"]),
        "connection": bundled["connection"],
        "sku": SKU,
        "side_effect": "pure",
    }
    components = [{"dimension": "call", "unit_price": PRICE}]
    prices = [{"sku": SKU, "currency_code": "USD", "components": components}]
    specs = {
        ("PriceList", "cluster"): {"prices": prices},
        ("Tool", TOOL): tool,
        ("Policy", POLICY): {"preset": "cost-first", "price_ceiling": "0.01 USD"},
    }
    return [
        {
            "apiVersion": "podium.dev/v1alpha1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        for (kind, name), spec in specs.items()
    ]
