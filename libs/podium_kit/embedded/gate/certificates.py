import os
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

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
