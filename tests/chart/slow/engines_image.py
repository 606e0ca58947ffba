"""policy-engines makes an engine under its pod's restrictions. `make chart-slow` runs it."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml

from builders.version_folders import write_version
from chart.rendering import Json, of_kind, rendered
from chart.slow.node import podman
from podium_kit.policy_versions import Format, VersionStore
from servers.kserve_server import KServeServer

pytestmark = [pytest.mark.timeout(300)]

NAME = "podium-policy-engines-image"
VERSION = "policy-demo-v1"
MADE_WITHIN_S = 120


@dataclass(frozen=True)
class Keeper:
    server: KServeServer
    container: Json
    folder: Path


def container() -> Json:
    """The pod's one container, as production has it."""
    deployments = of_kind(rendered("production"), "Deployment")
    one = next(one for one in deployments if one["metadata"]["name"] == "podium-policy-engines")
    found: Json = one["spec"]["template"]["spec"]["containers"][0]
    return found


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    server = KServeServer(of_kind(rendered("production"), "InferenceService")[0])
    with TemporaryDirectory(prefix="podium-engines-") as made:
        folder = Path(made)
        folder.chmod(0o755)
        write_version(VersionStore(folder / "store"), VERSION, Format.MERGED)
        config = server.kubeconfig(folder)
        settings = {
            each["name"]: each["value"]
            for each in container()["env"]
            # There is no collector and no certificate here; it has no callers.
            if "TELEMETRY" not in each["name"] and "TLS" not in each["name"]
        } | {"KUBECONFIG": str(config), "POLICY_ENGINES_POLICY_STORE": str(folder / "store")}
        options = ["--detach", f"--name={NAME}", "--network=host", f"--volume={folder}:{folder}:ro"]
        options += ["--user=65532:65532", "--read-only", "--tmpfs=/tmp", "--cap-drop=all"]
        options += ["--security-opt=no-new-privileges"]
        options += [f"--env={name}={value}" for name, value in settings.items()]
        try:
            podman("run", *options, "localhost/" + container()["image"], *container()["args"])
            yield Keeper(server, container(), folder)
        finally:
            podman("rm", "--force", "--ignore", "--time", "5", NAME, check=False)
            server.close()


def wait_for_the_engine(keeper: Keeper) -> None:
    deadline = time.monotonic() + MADE_WITHIN_S
    while VERSION not in keeper.server.objects:
        assert time.monotonic() < deadline, podman("logs", NAME)
        time.sleep(1)


def test_it_makes_the_engine_of_a_version_it_finds(keeper: Keeper) -> None:
    wait_for_the_engine(keeper)
    made = keeper.server.objects[VERSION]["spec"]["predictor"]["model"]
    folder = keeper.folder / "store"
    assert {"name": "PODIUM_MODEL", "value": f"{folder}/{VERSION}"} in made["env"]


def test_it_runs_unprivileged_without_capabilities(keeper: Keeper) -> None:
    status = yaml.safe_load(podman("exec", NAME, "cat", "/proc/1/status").replace("\t", " "))
    assert str(status["Uid"]).split()[0] == "65532"
    assert int(str(status["CapEff"]), 16) == 0


def test_it_ends_on_sigterm_within_its_grace(keeper: Keeper) -> None:
    # Before, nothing may handle the signal yet.
    wait_for_the_engine(keeper)
    podman("stop", "--time", "30", NAME)
    # Ended by the signal's own handling, not by a kill after the grace.
    assert podman("inspect", "--format={{.State.ExitCode}}", NAME).strip() == "0"
