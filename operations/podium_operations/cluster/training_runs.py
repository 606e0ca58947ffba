import asyncio
import json
import re
import shutil
from dataclasses import dataclass
from typing import Any

import yaml

from podium_kit.client.errors import UserError
from podium_operations.cluster.api_server import ClusterUnreachable

# Resource of each kind, and the label that its pods carry with its name.
KINDS = {
    "TrainJob": ("trainjobs.trainer.kubeflow.org", "jobset.sigs.k8s.io/jobset-name"),
    "Job": ("jobs.batch", "batch.kubernetes.io/job-name"),
}
INDEX = "batch.kubernetes.io/job-completion-index"
STEP = re.compile(r"step \d+ of \d+[^\"\n]*")
TAIL = "200"
# kubectl itself waits for ever for an API server that takes its connection and says nothing.
ANSWER_WITHIN_S = 60.0


@dataclass(frozen=True)
class RunState:
    line: str
    ended: bool = False
    failed: bool = False


class TrainingRuns:
    """The training runs of a release, through kubectl with its own login."""

    def __init__(self, release: str, namespace: str, context: str) -> None:
        """An empty namespace or context is kubectl's own."""
        self._release = release
        self._options = [f"--namespace={namespace}"] if namespace else []
        self._options += [f"--context={context}"] if context else []
        self._kind: tuple[str, str] | None = None

    async def start(self) -> str:
        made = await self._kubectl("create", "-f", "-", "-o", "json", given=await self._template())
        return str(json.loads(made)["metadata"]["name"])

    async def newest(self) -> str:
        component = (
            f"app.kubernetes.io/instance={self._release},app.kubernetes.io/component=training"
        )
        found = await self._json("get", await self._resource(), "-l", component)
        if not found["items"]:
            raise UserError(
                f"no run of {self._release} is there", "begin one: podium train submit --cluster"
            )
        return str(max(found["items"], key=_created)["metadata"]["name"])

    async def state(self, name: str) -> RunState:
        run = await self._json("get", await self._resource(), name)
        for condition in run.get("status", {}).get("conditions", []):
            if condition["status"] == "True" and condition["type"] in ("Complete", "Failed"):
                failed = condition["type"] == "Failed"
                line = f"failed: {condition.get('message', '')}" if failed else "complete"
                return RunState(line, ended=True, failed=failed)
        if run["spec"].get("suspend"):
            return RunState("waits for its queue")
        pods = await self._pods(name)
        running = [pod for pod in pods if pod["status"]["phase"] == "Running"]
        if len(running) < len(pods) or not pods:
            return RunState(f"{len(running)} of {len(pods)} pods run{_why_not(pods)}")
        steps = STEP.findall(await self._kubectl("logs", _first(pods), f"--tail={TAIL}"))
        return RunState(steps[-1] if steps else "waits for its first step")

    async def show_logs(self, name: str, *, follow: bool) -> None:
        """Passes on what the first pod writes, which leads the others. Raises UserError."""
        pods = await self._pods(name)
        if not pods:
            raise UserError(
                f"run {name} has no pod yet", f"see why: kubectl describe pods -l {INDEX}=0"
            )
        arguments = ["logs", _first(pods), *(["--follow"] if follow else []), *self._options]
        process = await asyncio.create_subprocess_exec(_program(), *arguments)
        await process.wait()

    async def stop(self, name: str) -> None:
        """Ends the run; its checkpoints stay. Raises UserError when it is gone."""
        await self._kubectl("delete", await self._resource(), name, "--wait=false")

    async def _template(self) -> str:
        name = f"{self._release}-training"
        try:
            found = await self._json("get", "configmap", name)
        except UserError as error:
            if "NotFound" not in error.cause:
                raise
            raise UserError(
                f"the release {self._release} has no training here",
                "set training.enabled: true in its values, or name --release and --namespace",
            ) from error
        return str(found["data"]["run.yaml"])

    async def _resource_and_label(self) -> tuple[str, str]:
        """Looks up the release's kind of run once, because it is polled."""
        if self._kind is None:
            self._kind = KINDS[yaml.safe_load(await self._template())["kind"]]
        return self._kind

    async def _resource(self) -> str:
        return (await self._resource_and_label())[0]

    async def _pods(self, name: str) -> list[dict[str, Any]]:
        """The newest of each index, in their order: what was replaced is history."""
        _, label = await self._resource_and_label()
        found = (await self._json("get", "pods", "-l", f"{label}={name}"))["items"]
        by_index = {_index(pod): pod for pod in sorted(found, key=_created)}
        return [by_index[index] for index in sorted(by_index)]

    async def _json(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self._kubectl(*arguments, "-o", "json"))
        return found

    async def _kubectl(self, *arguments: str, given: str = "") -> str:
        process = await asyncio.create_subprocess_exec(
            *(_program(), *arguments, *self._options),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                output, errors = await process.communicate(given.encode())
        except TimeoutError as error:
            process.kill()
            await process.wait()
            raise ClusterUnreachable(
                f"kubectl {arguments[0]}: no answer within {ANSWER_WITHIN_S:g} s",
                "see that `kubectl version` answers; KUBECONFIG and --context choose the cluster",
            ) from error
        if process.returncode:
            printed = errors.decode(errors="replace").strip()
            raise UserError(
                f"kubectl {arguments[0]}: {printed.splitlines()[-1] if printed else 'failed'}",
                "see that `kubectl auth whoami` works, and the chart's training.submitters",
            )
        return output.decode()


def _program() -> str:
    found = shutil.which("kubectl")
    if found is None:
        raise ClusterUnreachable("kubectl is not installed", "install kubectl 1.30 or later")
    return found


def _created(found: dict[str, Any]) -> str:
    return str(found["metadata"]["creationTimestamp"])


def _index(pod: dict[str, Any]) -> int:
    return int(pod["metadata"]["labels"].get(INDEX, 0))


def _first(pods: list[dict[str, Any]]) -> str:
    return str(pods[0]["metadata"]["name"])


def _why_not(pods: list[dict[str, Any]]) -> str:
    for pod in pods:
        for condition in pod["status"].get("conditions", []):
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                return f": {condition.get('message', '')}"
    return ""
