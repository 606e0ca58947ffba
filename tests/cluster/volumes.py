"""Claims on folders of one node: a cluster under test may have no provisioner."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cluster.release import Json, Release, run

# Of no StorageClass that a cluster has; with it nothing else binds to these volumes.
STORAGE_CLASS = "podium-cluster-test"
PARENT = "/var/lib"
SIZE = "10Gi"


@contextmanager
def claims(release: Release, names: Sequence[str], image: str) -> Iterator[None]:
    """A claim of each name that any pod may write to; claims and folders go in the end.

    A shell of the image makes the folders.
    """
    node = run("kubectl", "get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
    folder = f"{PARENT}/{release.namespace}"
    paths = {name: f"{folder}/{name}" for name in names}
    objects = [each for name in names for each in _claim(release, name, paths[name], node)]
    _on_node(release, node, image, f"mkdir -p {' '.join(paths.values())} && chmod 777 {folder}/*")
    try:
        release.kubectl("apply", "-f", "-", stdin=_list(objects))
        yield
    finally:
        run("kubectl", "delete", "--ignore-not-found", "-f", "-", stdin=_list(objects))
        _on_node(release, node, image, f"rm -rf {folder}")


def _claim(release: Release, name: str, path: str, node: str) -> list[Json]:
    volume = f"{release.namespace}-{name}"
    modes, version = ["ReadWriteMany"], {"apiVersion": "v1"}
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    spec = {
        "storageClassName": STORAGE_CLASS,
        "accessModes": modes,
        "capacity": {"storage": SIZE},
        "persistentVolumeReclaimPolicy": "Retain",
        "local": {"path": path},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        "claimRef": {"namespace": release.namespace, "name": name},
    }
    wanted = {
        "storageClassName": STORAGE_CLASS,
        "accessModes": modes,
        "volumeName": volume,
        "resources": {"requests": {"storage": SIZE}},
    }
    place = {"name": name, "namespace": release.namespace}
    return [
        {**version, "kind": "PersistentVolumeClaim", "metadata": place, "spec": wanted},
        {**version, "kind": "PersistentVolume", "metadata": {"name": volume}, "spec": spec},
    ]


def _on_node(release: Release, node: str, image: str, script: str) -> None:
    root = release.beside("volumes")
    container = {
        "name": "folders",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-euc", script],
        "securityContext": {"runAsUser": 0},
        "volumeMounts": [{"name": "parent", "mountPath": PARENT}],
    }
    volume = {"name": "parent", "hostPath": {"path": PARENT, "type": "Directory"}}
    spec = {
        "nodeName": node,
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [volume],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "folders"}, "spec": spec}
    root.make_namespace("privileged")
    try:
        root.kubectl("create", "-f", "-", stdin=json.dumps(pod))
        done = "--for=jsonpath={.status.phase}=Succeeded"
        root.kubectl("wait", done, "pod/folders", "--timeout=120s")
    finally:
        root.remove()


def _list(objects: list[Json]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
