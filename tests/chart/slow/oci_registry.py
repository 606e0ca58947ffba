"""Signed, pushed to a real OCI registry (Debian's) and pulled again. `make chart-slow` runs it."""

import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import helm_python
import httpx
import pytest
import yaml

from chart.rendering import CHARTS
from podium_kit.embedded.ports import free_port

START_TIMEOUT_S = 20
PROVENANCE = "application/vnd.cncf.helm.chart.provenance.v1.prov"


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """host:port of a registry that keeps its blobs in a folder of this test."""
    program = shutil.which("docker-registry")
    assert program, "install Debian's docker-registry: apt-get install docker-registry"
    address = f"127.0.0.1:{free_port()}"
    settings = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(tmp_path / "blobs")}},
        "http": {"addr": address},
    }
    (tmp_path / "config.yml").write_text(yaml.safe_dump(settings))
    process = subprocess.Popen([program, "serve", str(tmp_path / "config.yml")])
    try:
        wait_until_it_answers(f"http://{address}/v2/")
        yield address
    finally:
        process.terminate()
        process.wait()


def wait_until_it_answers(url: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except (OSError, urllib.error.URLError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


@pytest.mark.parametrize("name", ["podium", "podium-tenant"])
def test_what_is_pulled_is_what_was_pushed(name: str, registry: str, tmp_path: Path) -> None:
    archive = helm_python.package(str(CHARTS / name), destination=str(tmp_path))
    helm_python.push(archive, f"oci://{registry}/charts", plain_http=True)
    pulled = tmp_path / "pulled"
    pulled.mkdir()
    reference = f"oci://{registry}/charts/{name}"
    helm_python.pull(reference, version="0.1.0", destination=str(pulled), plain_http=True)
    (found,) = pulled.glob("*.tgz")
    assert helm_python.digest(str(found)) == helm_python.digest(archive)


class Publisher:
    """A PGP key and its two keyrings, as `helm package --sign` and `helm verify` read them."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name, self.secret, self.public = name, folder / "secret.gpg", folder / "public.gpg"
        folder.mkdir()
        # The path of the agent's socket, which is in its home, has at most 107 bytes.
        with TemporaryDirectory(prefix="gpg-") as home:
            self._gpg(
                home, "--passphrase", "", "--quick-generate-key", name, "ed25519", "sign", "1d"
            )
            self.secret.write_bytes(self._gpg(home, "--passphrase", "", "--export-secret-keys"))
            self.public.write_bytes(self._gpg(home, "--export"))
            subprocess.run(["gpgconf", "--homedir", home, "--kill", "gpg-agent"], check=True)

    def _gpg(self, home: str, *arguments: str) -> bytes:
        command = ["gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", *arguments]
        environment = {**os.environ, "GNUPGHOME": home}
        return subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    return Publisher(tmp_path / "publisher", "Podium releases")


@pytest.mark.parametrize("name", ["podium", "podium-tenant"])
def test_what_is_pulled_is_what_was_signed(
    name: str, registry: str, publisher: Publisher, tmp_path: Path
) -> None:
    signing = {"SIGN_AS": publisher.name, "KEYRING": str(publisher.secret), "PLAIN_HTTP": "1"}
    command = [sys.executable, "scripts/push_charts.py", registry, str(CHARTS / name)]
    subprocess.run(command, env={**os.environ, **signing}, check=True)
    pulled = tmp_path / "pulled"
    pulled.mkdir()
    reference = f"oci://{registry}/charts/{name}"
    helm_python.pull(reference, version="0.1.0", destination=str(pulled), plain_http=True)
    (found,) = pulled.glob("*.tgz")
    provenance = found.with_name(f"{found.name}.prov")
    provenance.write_bytes(provenance_of(f"http://{registry}/v2/charts/{name}", "0.1.0"))
    assert helm_python.verify(str(found), str(publisher.public))["signed_by"] == [publisher.name]


def provenance_of(repository: str, version: str) -> bytes:
    manifest = httpx.get(
        f"{repository}/manifests/{version}",
        headers={"accept": "application/vnd.oci.image.manifest.v1+json"},
        trust_env=False,
    )
    (digest,) = (
        layer["digest"]
        for layer in manifest.raise_for_status().json()["layers"]
        if layer["mediaType"] == PROVENANCE
    )
    return httpx.get(f"{repository}/blobs/{digest}", trust_env=False).raise_for_status().content


def test_an_altered_package_and_an_unknown_signature_are_rejected(
    publisher: Publisher, tmp_path: Path
) -> None:
    archive = Path(helm_python.package(str(CHARTS / "podium"), destination=str(tmp_path)))
    helm_python.sign(str(archive), key=publisher.name, keyring=str(publisher.secret))
    stranger = Publisher(tmp_path / "stranger", "Another publisher")
    with pytest.raises(helm_python.HelmChartInvalidError):
        helm_python.verify(str(archive), str(stranger.public))
    archive.write_bytes(archive.read_bytes()[:-1] + b"x")
    with pytest.raises(helm_python.HelmChartInvalidError):
        helm_python.verify(str(archive), str(publisher.public))
