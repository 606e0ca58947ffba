import json
import os
import time
from pathlib import Path

import pytest

from cluster import images
from cluster.finding import NotSo
from cluster.images import ImageWatch, unpulled, watched_images
from cluster.release import run

IMAGE = "localhost/podium/training:0.1.0"


def pod(reason: str = "", namespace: str = "tried-training", uid: str = "1") -> images.Json:
    waiting = {"waiting": {"reason": reason, "message": "no such image"}} if reason else {}
    return {
        "metadata": {"namespace": namespace, "name": f"trainer-{uid}", "uid": uid},
        "status": {"containerStatuses": [{"image": IMAGE, "state": waiting}]},
    }


@pytest.mark.parametrize("reason", sorted(images.REASONS))
def test_a_pod_without_its_image_is_named_with_the_image_the_cause_and_the_fix(reason: str) -> None:
    found = unpulled(pod(reason))
    for word in ("tried-training/trainer-1", IMAGE, "no such image", "docs/install.md"):
        assert word in found


@pytest.mark.parametrize("reason", ["", "ContainerCreating", "CrashLoopBackOff"])
def test_a_pod_that_waits_for_something_else_has_its_image(reason: str) -> None:
    assert not unpulled(pod(reason))


def test_a_pull_that_succeeds_in_the_end_fails_no_row() -> None:
    watch = ImageWatch("tried")
    for reason in ("ErrImagePull", "ImagePullBackOff", "", "ErrImagePull", "ImagePullBackOff", ""):
        watch.note([pod(reason)])
        watch.check()


def test_a_row_ends_once_and_cleans_up_in_peace() -> None:
    watch = ImageWatch("tried")
    for _ in range(images.POLLS_TO_FAIL):
        watch.check()
        watch.note([pod("ImagePullBackOff")])
    with pytest.raises(NotSo, match="has no image"):
        watch.check()
    watch.note([pod("ImagePullBackOff")])
    watch.check()


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubectl whose cluster has the pods of the returned file."""
    pods = tmp_path / "pods.json"
    program = tmp_path / "kubectl"
    program.write_text(f"#!/bin/sh\nexec cat {pods}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(images, "POLL_S", 0.05)
    return pods


def test_a_command_that_waits_for_such_a_pod_is_ended(kubectl: Path) -> None:
    kubectl.write_text(json.dumps({"items": [pod("ErrImagePull")]}))
    with watched_images("tried"), pytest.raises(NotSo, match=IMAGE):
        run("sleep", "600")


def test_a_neighbours_pod_without_an_image_ends_nothing(kubectl: Path) -> None:
    kubectl.write_text(json.dumps({"items": [pod("ErrImagePull", namespace="neighbour")]}))
    with watched_images("tried"):
        until = time.monotonic() + images.POLLS_TO_FAIL * images.POLL_S + 1
        while time.monotonic() < until:
            assert run("echo", "ran") == "ran\n"


def test_the_input_of_a_command_arrives_and_its_output_returns() -> None:
    assert run("cat", stdin="text") == "text"
