"""Does what a kubelet does to the chart's pods before podman can play them on this machine.

The pods share the machine's network, so each gets a loopback address of its own where Kubernetes
would give it one of the cluster, and names of Services are lines of /etc/hosts (a mounted file:
`podman play kube` forgets hostAliases of pods on the machine's network). Secrets and emptyDirs
become folders that belong to the pod's group, with the modes the pod asks for. podman knows no gRPC
probes, so the tests ask what the probes would.
"""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml

from chart.rendering import ROOT, Json

Secrets = dict[str, dict[str, str]]
DOMAIN = "podium.svc.cluster.local"


@dataclass(frozen=True)
class Node:
    """A folder for volumes, the Secrets of the namespace, an address per pod."""

    folder: Path
    secrets: Secrets
    addresses: dict[str, str]

    def pod(self, deployment: Json) -> Json:
        """The Deployment's pod as podman can play it, under the Deployment's name."""
        name, spec = deployment["metadata"]["name"], deployment["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        group = spec["securityContext"]["fsGroup"]
        mine = {**container, "env": [self._variable(name, each) for each in container["env"]]}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe", "ports"):
            del mine[probe]
        hosts = {"name": "hosts", "mountPath": "/etc/hosts", "readOnly": True}
        mine["volumeMounts"] = [*mine["volumeMounts"], hosts]
        kept = ("securityContext", "terminationGracePeriodSeconds")
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {key: spec[key] for key in kept}
            | {
                "hostNetwork": True,
                "containers": [mine],
                "volumes": [
                    *(self._volume(name, each, group) for each in spec["volumes"]),
                    {"name": "hosts", "hostPath": {"path": str(self._hosts()), "type": "File"}},
                ],
            },
        }

    def _hosts(self) -> Path:
        file = self.folder / "hosts"
        lines = [f"{address} {name}.{DOMAIN}\n" for name, address in self.addresses.items()]
        file.write_text("".join(["127.0.0.1 localhost\n", *lines]))
        return file

    def _variable(self, pod: str, variable: Json) -> Json:
        if "valueFrom" in variable:
            reference = variable["valueFrom"]["secretKeyRef"]
            value = self.secrets[reference["name"]][reference["key"]]
        else:
            value = variable["value"]
        mine = self.addresses[pod] if value == "0.0.0.0" else value
        return {"name": variable["name"], "value": mine}

    def _volume(self, pod: str, volume: Json, group: int) -> Json:
        folder = self.folder / pod / volume["name"]
        folder.mkdir(parents=True)
        if "projected" in volume:
            self._project(folder, volume["projected"], group)
        else:
            assert "emptyDir" in volume, volume
            os.chown(folder, 0, group)
            folder.chmod(0o2770)
        return {"name": volume["name"], "hostPath": {"path": str(folder), "type": "Directory"}}

    def _project(self, folder: Path, projected: Json, group: int) -> None:
        for source in projected["sources"]:
            secret = source["secret"]
            for item in secret["items"]:
                path = folder / item["path"]
                path.write_text(self.secrets[secret["name"]][item["key"]])
                os.chown(path, 0, group)
                path.chmod(projected["defaultMode"])


def podman(*arguments: str | Path, check: bool = True) -> str:
    done = subprocess.run(
        ["scripts/containers.sh", "podman", *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert not check or done.returncode == 0, f"podman {arguments}:\n{done.stdout}"
    return done.stdout


def play(node: Node, deployments: list[Json]) -> None:
    file = node.folder / "pods.yaml"
    file.write_text(yaml.safe_dump_all([node.pod(each) for each in deployments]))
    podman("play", "kube", "--network", "host", file)


def run_restricted(node: Node, deployment: Json) -> None:
    """Starts the one container of a Deployment under its own security context, named like it.

    `podman play kube` knows neither profiles of seccomp nor procMount; `podman run` does.
    """
    pod = node.pod(deployment)
    (container,) = pod["spec"]["containers"]
    own, user = container["securityContext"], pod["spec"]["securityContext"]["runAsUser"]
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in pod["spec"]["volumes"]}
    options = ["--network=host", f"--user={user}:{user}", "--read-only", "--cap-drop=all"]
    options += ["--security-opt=no-new-privileges"]
    if profile := own["seccompProfile"].get("localhostProfile"):
        options += [f"--security-opt=seccomp=k8s/{profile}"]
    if own.get("procMount") == "Unmasked":
        options += ["--security-opt=unmask=ALL"]
    options += [f"--env={one['name']}={one['value']}" for one in container["env"]]
    for mount in container["volumeMounts"]:
        access = "ro" if mount.get("readOnly") else "rw"
        options += [f"--volume={paths[mount['name']]}:{mount['mountPath']}:{access}"]
    podman(
        "run",
        "--detach",
        f"--name={pod['metadata']['name']}",
        *options,
        container["image"],
        *container["args"],
    )


def container_of(deployment: Json) -> str:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return f"{deployment['metadata']['name']}-{container['name']}"
