"""The GRPO job's image under the restrictions of its pod. `make chart-slow` runs it, as root."""

import pytest
import yaml

from chart.rendering import Json, merged, of_kind, parsed, profile, render
from chart.slow.node import podman

pytestmark = [pytest.mark.timeout(300)]


def container() -> Json:
    values = {"imageRegistry": "localhost", "training": {"enabled": True}}
    maps = of_kind(render(merged(profile("minimal-cpu"), values)), "ConfigMap")
    (run,) = [parsed(each["data"]["run.yaml"])[0] for each in maps if "run.yaml" in each["data"]]
    found: Json = run["spec"]["template"]["spec"]["containers"][0]
    return found


def restricted(*command: str) -> str:
    """Output of a command in the image, under the pod's own restrictions."""
    image, own = container()["image"], container()["securityContext"]
    assert own["readOnlyRootFilesystem"], "only a GPU's hook may write"
    options = ["--rm", "--network=none", "--user=65532:65532", "--read-only", "--tmpfs=/tmp"]
    options += ["--cap-drop=all", "--security-opt=no-new-privileges"]
    # Not those that name the other pods of a run: there are none here.
    variables = [each for each in container()["env"] if each["name"] in ("HOME", "USER")]
    options += [f"--env={each['name']}={each['value']}" for each in variables]
    entry, *arguments = command
    return podman("run", *options, f"--entrypoint={entry}", image, *arguments)


def test_the_job_states_its_resources() -> None:
    said = restricted(*container()["command"], "--help")
    assert "usage: grpo" in said.lower(), said
    assert "config" in said.lower()


def test_it_runs_unprivileged_and_can_write_only_to_mounts() -> None:
    program = (
        "import os; print(os.getuid(), os.access('/opt/podium', os.W_OK), os.access('/tmp', 7))"
    )
    assert restricted("python", "-c", program).split() == ["65532", "False", "True"]
    status = yaml.safe_load(restricted("cat", "/proc/1/status").replace("\t", " "))
    assert int(str(status["CapEff"]), 16) == 0


def test_what_it_trains_with_is_there() -> None:
    modules = "torch, transformers, safetensors, xgrammar, podium_training.grpo"
    program = f"import {modules}; print(torch.ones(2).sum().item())"
    assert restricted("python", "-c", program).split()[-1] == "2.0"
