"""Finds pods that cannot pull their image while a row waits for them."""

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from cluster.finding import NotSo

POLL_S = 5.0
# A registry may be away for a moment, and the kubelet tries again after ten seconds.
POLLS_TO_FAIL = 4
REASONS = {"ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff", "InvalidImageName"}
FIX = "build it and put it into the cluster, or push it (docs/install.md)"
Json = dict[str, Any]


class ImageWatch:
    """Raises once: what a row cleans up afterwards is not interrupted as well."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._seen: Counter[str] = Counter()
        self._found = ""
        self._raised = False
        self._ended = threading.Event()
        self._polls = threading.Thread(target=self._poll, daemon=True)

    def start(self) -> None:
        self._polls.start()

    def stop(self) -> None:
        self._ended.set()
        self._polls.join()

    def check(self) -> None:
        """Raises NotSo where a pod has waited for its image over several polls."""
        if self._found and not self._raised:
            self._raised = True
            raise NotSo(self._found)

    def note(self, pods: Sequence[Json]) -> None:
        now = {pod["metadata"]["uid"]: found for pod in pods if (found := unpulled(pod))}
        self._seen = Counter({pod: self._seen[pod] + 1 for pod in now})
        failed = [pod for pod, polls in self._seen.items() if polls >= POLLS_TO_FAIL]
        # The pods of a Job wait for the same image.
        self._found = self._found or next((now[pod] for pod in failed), "")

    def _poll(self) -> None:
        command = ("kubectl", "get", "pods", "--all-namespaces", "-o", "json")
        while not self._ended.wait(POLL_S):
            # A server that does not answer is the finding of the row itself.
            with suppress(subprocess.SubprocessError):
                asked = subprocess.run(command, capture_output=True, check=True, timeout=60)
                pods: list[Json] = json.loads(asked.stdout)["items"]
                self.note([one for one in pods if self._is_ours(one)])

    def _is_ours(self, pod: Json) -> bool:
        return str(pod["metadata"]["namespace"]).startswith(self._prefix)


def unpulled(pod: Json) -> str:
    """Returns which image a pod waits for, why, and the fix; "" for one that has its image."""
    status = pod.get("status", {})
    for each in (*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])):
        waiting = each.get("state", {}).get("waiting", {})
        if waiting.get("reason") in REASONS:
            name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            why = waiting.get("message", waiting["reason"])
            return f"{name} has no image {each['image']}: {why}; {FIX}"
    return ""


_watches: list[ImageWatch] = []


@contextmanager
def watched_images(namespace: str) -> Iterator[None]:
    """Ends commands with NotSo once a pod of these namespaces has no image."""
    watch = ImageWatch(namespace)
    _watches.append(watch)
    watch.start()
    try:
        yield
    finally:
        _watches.remove(watch)
        watch.stop()


def check_images() -> None:
    for watch in _watches:
        watch.check()
