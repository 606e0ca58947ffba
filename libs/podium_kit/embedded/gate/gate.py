import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self

from cryptography import x509

from podium_kit.crypto.certificate_authority import Authority
from podium_kit.embedded.ports import LOOPBACK


@dataclass(frozen=True)
class TlsFiles:
    certificate: Path
    private_key: Path
    authority: Path


def issue(folder: Path) -> tuple[TlsFiles, TlsFiles]:
    """Files of the gates, and of their clients, in a private folder.

    No one keeps the authority's key, so nothing else will ever be let in.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    authority = Authority.new("podium on loopback")
    path = _write(folder / "authority.pem", authority.written().certificate)
    return _holder(folder, "gate", path, authority), _holder(folder, "client", path, authority)


def _holder(folder: Path, name: str, path: Path, authority: Authority) -> TlsFiles:
    issued = authority.issue(name, [x509.IPAddress(ip_address(LOOPBACK))])
    return TlsFiles(
        certificate=_write(folder / f"{name}.pem", issued.certificate),
        private_key=_write(folder / f"{name}.key", issued.private_key),
        authority=path,
    )


def _write(path: Path, content: str) -> Path:
    """Whole or not at all: clients of an earlier start may be reading."""
    unfinished = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(content)
    return unfinished.replace(path)


@dataclass(frozen=True)
class Gate:
    """The certificates of one start: what gates show, and what their clients show."""

    own: TlsFiles
    client: TlsFiles

    @classmethod
    def make(cls, folder: Path) -> Self:
        return cls(*issue(folder))

    def before(self, port: int, inner_port: int, server: Sequence[str | Path]) -> list[str | Path]:
        """The command that runs a server on `inner_port` behind the gate on `port`."""
        return [
            *(sys.executable, "-P", "-m", "podium_kit.embedded.gate"),
            *("--port", str(port), "--inner-port", str(inner_port)),
            *("--certificate", self.own.certificate),
            *("--private-key", self.own.private_key),
            *("--authority", self.own.authority),
            *("--", *server),
        ]

    def client_files(self) -> dict[str, str]:
        return {name: str(path) for name, path in asdict(self.client).items()}

    def kafka_arguments(self) -> dict[str, str]:
        return {
            "security_protocol": "SSL",
            "ssl_cafile": str(self.client.authority),
            "ssl_certfile": str(self.client.certificate),
            "ssl_keyfile": str(self.client.private_key),
        }

    def temporal_arguments(self) -> dict[str, Any]:
        return {
            "server_root_ca_cert": self.client.authority.read_bytes(),
            "client_cert": self.client.certificate.read_bytes(),
            "client_private_key": self.client.private_key.read_bytes(),
        }
