"""One release of the chart in a namespace of its own, on the cluster that KUBECONFIG names."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import Any

from chart.rendering import ROOT

Json = dict[str, Any]
PROFILE = ROOT / "charts/podium/profiles/evaluation.yaml"
TIMEOUT_S = 900


class CommandFailed(Exception):
    """A command's status and output."""


def run(*command: str, stdin: str | None = None) -> str:
    """Output of a command. Raises CommandFailed."""
    ended = subprocess.run(
        command,
        cwd=ROOT,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if ended.returncode:
        said = (ended.stderr or ended.stdout).strip()
        raise CommandFailed(f"{' '.join(command[:4])}: status {ended.returncode}: {said[-2000:]}")
    return ended.stdout


def missing_programs() -> list[str]:
    """Programs that the checks need and that are not on PATH."""
    return [name for name in ("kubectl", "helm") if shutil.which(name) is None]


def served(resource: str) -> bool:
    """Whether the cluster has this CRD."""
    return bool(run("kubectl", "get", "crd", resource, "--ignore-not-found", "-o", "name").strip())


@dataclass
class Release:
    """`helm` and `kubectl` for one namespace."""

    namespace: str
    values: list[str] = field(default_factory=list)
    """What `--set` gets, such as imageRegistry=HOST/PATH."""
    notes: str = ""
    undo: list[tuple[str, ...]] = field(default_factory=list)
    """Commands that remove what checks made outside of the namespace."""

    def make_namespace(self) -> None:
        """Under the restricted Pod Security Standard."""
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
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

    def revision(self) -> int:
        """Number of the newest."""
        return int(json.loads(self.helm("history", "-o", "json"))[-1]["revision"])

    def template(self, values: dict[str, str], *more: str) -> str:
        """Manifests with further values."""
        settings = [word for item in values.items() for word in ("--set", "=".join(item))]
        return self.helm("template", *self._chart(), *settings, *more)

    def _chart(self) -> list[str]:
        values = [word for value in self.values for word in ("--set", value)]
        return ["charts/podium", "-f", str(PROFILE.relative_to(ROOT)), *values]

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
        """Objects of these kinds, comma-separated."""
        found: list[Json] = json.loads(self.kubectl("get", kinds, "-o", "json"))["items"]
        return found

    def pods(self) -> list[Json]:
        """Pods of the release that serve: no Job's and no test's."""
        return [
            pod
            for pod in self.items("pods")
            if pod["metadata"].get("ownerReferences", [{}])[0].get("kind")
            in ("ReplicaSet", "StatefulSet")
        ]

    def remove(self) -> None:
        """Everything, the namespace too."""
        run("kubectl", "delete", "namespace", self.namespace, "--ignore-not-found", "--wait=true")
        for command in self.undo:
            run(*command)
