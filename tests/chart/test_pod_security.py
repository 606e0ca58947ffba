import copy
import json
from typing import Any

import pytest

from chart.pods import PodTemplate, containers, pod_templates, violations
from chart.rendering import ROOT, cases, of_kind, render, rendered
from tool_adapters.sandbox import system_calls

CASES = [name for name, _ in cases()]
GPU_CONTAINERS = {"kserve-container", "main", "vllm", "node"}


def every_pod() -> list[tuple[str, PodTemplate]]:
    return [(case, pod) for case in CASES for pod in pod_templates(rendered(case))]


# An explicit opt-in: a pod in a user namespace of its own that makes further ones.
ASKED_FOR = "sandbox on runc: Deployment/podium-sandbox: sandbox sees all of /proc"


def test_every_pod_passes_the_restricted_profile() -> None:
    found = [
        f"{case}: {pod.owner}: {line}" for case, pod in every_pod() for line in violations(pod.spec)
    ]
    assert found == [ASKED_FOR]


def test_a_pod_that_sees_all_of_proc_is_unprivileged_on_its_node() -> None:
    for case, pod in every_pod():
        for container in containers(pod.spec):
            unmasked = "procMount" in container["securityContext"]
            assert unmasked is (pod.spec.get("hostUsers") is False), f"{case}: {pod.owner}"


def test_pods_inside_custom_resources_are_looked_at() -> None:
    owners = {pod.owner.split("/")[0] for _, pod in every_pod()}
    assert owners == {
        "Deployment",
        "StatefulSet",
        "Pod",
        "Job",
        "CronJob",
        "WorkerDeployment",
        "TrainingRuntime",
        "InferenceService",
        "LLMInferenceService",
    }


def test_root_file_systems_are_read_only_except_where_a_gpu_hook_writes() -> None:
    for case, pod in every_pod():
        for container in containers(pod.spec):
            resources = container.get("resources", {}).get("limits", {})
            gpu = any(name.endswith("/gpu") for name in resources)
            read_only = container["securityContext"]["readOnlyRootFilesystem"]
            assert read_only is not gpu, f"{case}: {pod.owner}"
            assert gpu <= (container["name"] in GPU_CONTAINERS)


def test_no_pod_gets_a_token_or_the_environment_of_services() -> None:
    for case, pod in every_pod():
        assert pod.spec["automountServiceAccountToken"] is False, f"{case}: {pod.owner}"
        assert pod.spec["enableServiceLinks"] is False, f"{case}: {pod.owner}"


ASK_THE_API_SERVER = {
    "test-apis",
    "policy-engines",
    "bootstrap",
    "postgres-password",
    "controller",
}


def test_only_who_asks_the_api_server_has_a_token_of_its_own() -> None:
    for case, pod in every_pod():
        sources = [
            source
            for volume in pod.spec.get("volumes", [])
            for source in volume.get("projected", {}).get("sources", [])
        ]
        has_token = any("serviceAccountToken" in source for source in sources)
        asks = pod.labels["app.kubernetes.io/component"] in ASK_THE_API_SERVER
        assert has_token is asks, f"{case}: {pod.owner}"


def test_every_container_states_its_resources() -> None:
    for case, pod in every_pod():
        for container in containers(pod.spec):
            resources = container.get("resources", {})
            assert {"cpu", "memory"} <= set(resources["requests"]), f"{case}: {pod.owner}"
            assert "memory" in resources["limits"], f"{case}: {pod.owner}"


def test_no_image_is_latest() -> None:
    for case, pod in every_pod():
        for container in containers(pod.spec):
            if "image" in container:
                tag = container["image"].rpartition(":")[2]
                assert tag not in ("", "latest", "APPVERSION"), f"{case}: {pod.owner}"


def test_a_digest_wins_over_a_tag() -> None:
    digest = "sha256:" + "0" * 64
    values = {"components": {"gateway": {"image": {"digest": digest, "tag": "2"}}}}
    images = [one["image"] for pod in pod_templates(render(values)) for one in containers(pod.spec)]
    assert f"podium/platform@{digest}" in images


BREAKS: list[tuple[str, Any]] = [
    ("privileges", lambda pod: secure(pod).pop("allowPrivilegeEscalation")),
    ("capabilities", lambda pod: secure(pod).pop("capabilities")),
    ("adds", lambda pod: secure(pod)["capabilities"].update(add=["SYS_ADMIN"])),
    ("privileged", lambda pod: secure(pod).update(privileged=True)),
    ("user 0", lambda pod: secure(pod).update(runAsUser=0)),
    ("seccomp", lambda pod: secure(pod)["seccompProfile"].update(type="Unconfined")),
    ("/proc", lambda pod: secure(pod).update(procMount="Unmasked")),
    ("root", lambda pod: secure(pod).update(runAsNonRoot=False)),
    ("hostNetwork", lambda pod: pod.update(hostNetwork=True)),
    ("hostPath", lambda pod: pod["volumes"].append({"name": "host", "hostPath": {"path": "/"}})),
    ("port", lambda pod: pod["containers"][0]["ports"][0].update(hostPort=80)),
]


def secure(pod: Any) -> Any:
    return pod["containers"][0]["securityContext"]


@pytest.mark.parametrize(("word", "break_it"), BREAKS, ids=[word for word, _ in BREAKS])
def test_the_checker_notices(word: str, break_it: Any) -> None:
    pod = copy.deepcopy(next(iter(pod_templates(of_kind(rendered("defaults"), "Deployment")))).spec)
    assert not violations(pod)
    break_it(pod)
    assert any(word in line for line in violations(pod))


PROFILE = json.loads((ROOT / "k8s/podium-sandbox.json").read_text())
ALLOWED = {name for rule in PROFILE["syscalls"] for name in rule["names"]}
FILTERED = (
    system_calls.FILES,
    system_calls.MEMORY,
    system_calls.PROCESSES,
    system_calls.SIGNALS,
    system_calls.TIME,
    system_calls.WAITING,
    system_calls.UNIX_SOCKETS,
)
CLOSED = """
    acct add_key bpf fsopen init_module io_uring_setup kcmp kexec_load keyctl move_mount
    open_by_handle_at perf_event_open pidfd_getfd process_vm_readv process_vm_writev ptrace quotactl
    reboot request_key settimeofday swapon syslog userfaultfd
"""


def test_only_what_is_listed_is_allowed() -> None:
    assert PROFILE["defaultAction"] == "SCMP_ACT_ERRNO"
    assert {rule["action"] for rule in PROFILE["syscalls"]} == {"SCMP_ACT_ALLOW"}
    assert len(ALLOWED) == sum(len(rule["names"]) for rule in PROFILE["syscalls"])


def test_an_inner_filter_finds_every_call_it_grants() -> None:
    granted = {name for group in FILTERED for name in group.split()}
    assert granted | {"clone", "mmap", "socket", "ioctl", "prctl"} <= ALLOWED


@pytest.mark.parametrize("name", CLOSED.split())
def test_what_opens_the_kernel_stays_closed(name: str) -> None:
    assert name not in ALLOWED


def test_the_chart_names_this_profile() -> None:
    sandbox = next(
        one
        for one in of_kind(rendered("sandbox on runc"), "Deployment")
        if one["metadata"]["name"] == "podium-sandbox"
    )
    (container,) = sandbox["spec"]["template"]["spec"]["containers"]
    named = container["securityContext"]["seccompProfile"]["localhostProfile"]
    assert (ROOT / "k8s" / named).is_file()
