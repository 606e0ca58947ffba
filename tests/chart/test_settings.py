from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from chart.code_graph import SETTINGS
from chart.rendering import Json, named, of_kind, render, rendered

CASES = (
    *("defaults", "evaluation", "minimal-cpu", "dev", "production", "multi-tenant"),
    *("external engine", "Kafka by password"),
)
FOLDER = "/etc/podium"
# Off where nothing is said of them; engines are made by KServe alone.
OFF = {
    "defaults": ("sandbox", "policy-engines", "rollout-worker"),
    "evaluation": ("sandbox", "policy-engines", "rollout-worker"),
    "dev": ("sandbox", "policy-engines", "rollout-worker"),
    "minimal-cpu": ("sandbox", "policy-engines", "rollout-worker"),
    "external engine": ("policy-engines",),
    "Kafka by password": ("policy-engines",),
}
RUNNING = [
    (case, component)
    for case in CASES
    for component in SETTINGS
    if component not in OFF.get(case, ())
]


def environment(case: str, component: str) -> dict[str, str]:
    """Variables of a component's container; values of secrets are made up."""
    found = {}
    for variable in container(case, component)["env"]:
        reference = variable.get("valueFrom", {}).get("secretKeyRef")
        found[variable["name"]] = "made-up" if reference else variable["value"]
    return found


def container(case: str, component: str) -> Json:
    owners = of_kind(rendered(case), "Deployment", "WorkerDeployment")
    owner = next(one for one in owners if one["metadata"]["name"] == f"podium-{component}")
    first: Json = owner["spec"]["template"]["spec"]["containers"][0]
    return first


@pytest.mark.parametrize(("case", "component"), RUNNING)
def test_a_service_loads_its_settings_from_the_rendered_environment(
    case: str, component: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(case, component).items():
        if value.startswith(FOLDER):
            path = tmp_path / value.removeprefix("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}")
            value = str(path)  # noqa: PLW2901
        monkeypatch.setenv(name, value)
    settings = SETTINGS[component]()
    loaded = settings.model_dump()
    assert loaded["telemetry"]["metrics_port"] == 9090
    assert loaded.get("host", "0.0.0.0") == "0.0.0.0"
    if "port" in loaded:
        assert loaded["port"] == container(case, component)["ports"][0]["containerPort"]


def test_numbers_and_booleans_reach_a_service_as_they_were_written() -> None:
    settings = {"body_bytes_max": 67_108_864, "keepalive_s": 2.5, "cancel_on_disconnect": False}
    objects = render({"components": {"gateway": {"settings": settings}}})
    pod = named(objects, "Deployment", "podium-gateway")["spec"]["template"]["spec"]
    said = {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}
    assert said["GATEWAY_BODY_BYTES_MAX"] == "67108864"
    assert said["GATEWAY_KEEPALIVE_S"] == "2.5"
    assert said["GATEWAY_CANCEL_ON_DISCONNECT"] == "false"


@pytest.mark.parametrize(
    ("settings", "said"),
    [({}, ["https://api.example.com"]), ({"public_url": "https://other"}, ["https://other"])],
)
def test_the_gateway_behind_an_ingress_knows_how_clients_reach_it(
    settings: Json, said: list[str]
) -> None:
    """TLS ends before it: by what a request says, its own addresses would begin with http."""
    ingress: Json = {"enabled": True, "host": "api.example.com", "from": [{"podSelector": {}}]}
    objects = render({"ingress": ingress, "components": {"gateway": {"settings": settings}}})
    pod = named(objects, "Deployment", "podium-gateway")["spec"]["template"]["spec"]
    variables = pod["containers"][0]["env"]
    assert [one["value"] for one in variables if one["name"] == "GATEWAY_PUBLIC_URL"] == said


@pytest.mark.parametrize(("case", "component"), RUNNING)
def test_every_variable_is_a_setting_of_the_service(case: str, component: str) -> None:
    prefix = SETTINGS[component].model_config.get("env_prefix", "")
    unknown = [
        name
        for name in environment(case, component)
        if not name.startswith(prefix)
        or not is_setting(SETTINGS[component], name.removeprefix(prefix).lower().split("__"))
    ]
    assert not unknown


def is_setting(model: Any, path: list[str]) -> bool:
    for part in path:
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            return False
        if part not in model.model_fields:
            return False
        annotation = model.model_fields[part].annotation
        inner = [kind for kind in getattr(annotation, "__args__", ()) if kind is not type(None)]
        model = inner[0] if inner else annotation
    return True


@pytest.mark.parametrize("component", SETTINGS)
def test_every_file_a_setting_names_is_mounted(component: str) -> None:
    one = container("production", component)
    mounts = {mount["mountPath"] for mount in one["volumeMounts"]}
    values = environment("production", component).values()
    paths = [value for value in values if value.startswith("/")]
    assert not [path for path in paths if not any(path.startswith(mount) for mount in mounts)]


def test_secrets_are_read_from_secrets_alone() -> None:
    for component in SETTINGS:
        for variable in container("production", component)["env"]:
            if variable["name"].endswith(("DATABASE_URL", "API_KEY")):
                assert "secretKeyRef" in variable["valueFrom"]
