"""One release of the chart in a namespace of its own, on the cluster that KUBECONFIG names."""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from typing import Any

from chart.rendering import ROOT
from cluster.images import check_images

Json = dict[str, Any]
TIMEOUT_S = 900
# A Deployment's pods are ready in so many seconds, at the latest.
READY_S = 300


class CommandFailed(Exception):
    """A command's status and output."""


def run(*command: str, stdin: str | None = None) -> str:
    """Raises CommandFailed, and NotSo once a pod of the row has no image."""
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # What a shell has started ends with it.
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = _outputs(process, stdin)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        said = (stderr or stdout).strip()
        raise CommandFailed(f"{' '.join(command[:4])}: status {process.returncode}: {said[-2000:]}")
    return stdout


def _outputs(process: "subprocess.Popen[str]", stdin: str | None) -> tuple[str, str]:
    until, given = time.monotonic() + TIMEOUT_S, stdin
    while True:
        check_images()
        try:
            return process.communicate(given, timeout=1)
        except subprocess.TimeoutExpired:
            given = None
            if time.monotonic() > until:
                raise


def missing_programs() -> list[str]:
    return [name for name in ("kubectl", "helm") if shutil.which(name) is None]


def served(resource: str) -> bool:
    return bool(run("kubectl", "get", "crd", resource, "--ignore-not-found", "-o", "name").strip())


@dataclass
class Release:
    namespace: str
    values: list[str] = field(default_factory=list)
    """Values of `--set`, such as imageRegistry=HOST/PATH."""
    json_values: Json = field(default_factory=dict)
    """Lists, numbers and objects by their path, for `--set-json`."""
    chart: str = "charts/podium"
    notes: str = ""
    undo: list[tuple[str, ...]] = field(default_factory=list)
    """Commands that remove what checks made outside of the namespace."""

    def use_kafka(self, bootstrap: str) -> None:
        """A broker outside of the cluster, with topics of its own, which stay there."""
        topics = f"{self.namespace}-{int(time.time())}"
        self.json_values |= {
            "endpoints.kafka": {"bootstrap": bootstrap, "peers": []},
            "kafka.trajectories.topic": f"{topics}.trajectories",
            "kafka.alerts.topic": f"{topics}.alerts",
        }

    def beside(self, name: str) -> "Release":
        values = list(self.values), dict(self.json_values)
        return Release(f"{self.namespace}-{name}", *values)

    def make_namespace(self, standard: str = "restricted") -> None:
        labels = {"pod-security.kubernetes.io/enforce": standard}
        metadata = {"name": self.namespace, "labels": labels}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        run("kubectl", "create", "-f", "-", stdin=json.dumps(body))

    def helm(self, verb: str, *more: str) -> str:
        return run("helm", verb, "podium", *more, "-n", self.namespace)

    def install(self) -> None:
        """The one command of the guide; keeps what it prints."""
        self.notes = self.helm("install", *self._chart())

    def upgrade(self, *more: str) -> None:
        self.helm("upgrade", *self._chart(), *more)

    def upgrade_and_wait(self) -> None:
        """Until every pod and the bootstrap Job are done."""
        self.upgrade()
        for name in self.deployments():
            self.wait_for(name)
        run("bash", "-c", self.printed_commands()[0])

    def revision(self) -> int:
        return int(json.loads(self.helm("history", "-o", "json"))[-1]["revision"])

    def template(self, values: dict[str, str], *more: str) -> str:
        settings = [word for item in values.items() for word in ("--set", "=".join(item))]
        return self.helm("template", *self._chart(), *settings, *more)

    def _chart(self) -> list[str]:
        values = [word for value in self.values for word in ("--set", value)]
        for path, value in self.json_values.items():
            values += ["--set-json", f"{path}={json.dumps(value)}"]
        return [self.chart, "-f", f"{self.chart}/profiles/evaluation.yaml", *values]

    def printed_commands(self) -> list[str]:
        """The commands that the notes print for a first task, as a shell takes them."""
        found = re.search(r"A first task.*?:\n((?:  .*\n)+)", self.notes)
        if found is None:
            raise CommandFailed(f"the notes name no first task:\n{self.notes}")
        lines = found.group(1).replace("\\\n", "").splitlines()
        return [line.strip() for line in lines]

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return run("kubectl", "-n", self.namespace, *arguments, stdin=stdin)

    def items(self, kinds: str) -> list[Json]:
        found: list[Json] = json.loads(self.kubectl("get", kinds, "-o", "json"))["items"]
        return found

    def deployments(self) -> list[str]:
        return sorted(one["metadata"]["name"] for one in self.items("deployments.apps"))

    def wait_for(self, deployment: str) -> None:
        self.kubectl("rollout", "status", f"deployment/{deployment}", f"--timeout={READY_S}s")

    def key(self, name: str) -> str:
        secret = {"tenant": "podium-api-keys", "platform": "podium-platform-api-key"}[name]
        kept = self.kubectl("get", "secret", secret, "-o", f"jsonpath={{.data.{name}}}")
        return base64.b64decode(kept).decode()

    def pods(self) -> list[Json]:
        """Pods of the release that serve: no Job's and no test's."""
        return [
            pod
            for pod in self.items("pods")
            if pod["metadata"].get("ownerReferences", [{}])[0].get("kind")
            in ("ReplicaSet", "StatefulSet")
        ]

    def remove(self) -> None:
        run("kubectl", "delete", "namespace", self.namespace, "--ignore-not-found", "--wait=true")
        for command in self.undo:
            run(*command)
