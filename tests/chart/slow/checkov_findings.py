"""checkov over every profile, in an environment of its own. `make chart-slow` runs it."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from chart.rendering import PROFILES, ROOT, rendered

CHECKOV = ROOT / "build/checkov/bin/checkov"
# Each with the reason it is not a fault here.
ACCEPTED = {
    "CKV_K8S_11": "no CPU limits: they throttle latency, requests give every pod its share",
    "CKV_K8S_15": "pull policy Always would make every restart depend on the registry",
    "CKV_K8S_21": "the namespace is the release's; rendering does not write it down",
    "CKV_K8S_22": "the GPU's device hook writes to the root file system of vLLM's pod",
    "CKV_K8S_35": "services read these settings from their environment, by reference to Secrets",
    "CKV_K8S_40": "uid 65532 is the images' own; checkov wants above 10000 in the pod alone",
    "CKV_K8S_43": "digests are the installer's: components.<name>.image.digest",
    "CKV_K8S_8": "a test pod runs once and has no life to probe",
    "CKV_K8S_9": "a test pod serves no port, so it is never ready",
}


@pytest.mark.parametrize("profile", PROFILES)
def test_every_finding_has_a_reason(profile: str, tmp_path: Path) -> None:
    (tmp_path / "release.yaml").write_text(yaml.safe_dump_all(rendered(profile)))
    command = [str(CHECKOV), "--file", str(tmp_path / "release.yaml"), "--framework", "kubernetes"]
    command += ["--output", "json", "--soft-fail", "--quiet", "--skip-download"]
    outcome = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(outcome.stdout)
    assert report["summary"]["resource_count"] > 40
    failed = report["results"]["failed_checks"]
    unexplained = [
        f"{found['check_id']} {found['check_name']}: {found['resource']}"
        for found in failed
        if found["check_id"] not in ACCEPTED
    ]
    assert not unexplained
