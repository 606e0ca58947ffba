"""k8s/podium-sandbox.json lets the sandbox's pod do its work and blocks the rest."""

import json

import pytest

from chart.rendering import ROOT, of_kind, rendered
from tool_adapters.sandbox import system_calls

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
