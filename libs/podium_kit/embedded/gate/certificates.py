"""Certificates of one start of the platform: a gate's, and the one that its clients show."""

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from podium_kit.embedded.ports import LOOPBACK

# No clock of a platform that is never stopped runs so far.
LASTING = timedelta(days=3650)
PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class TlsFiles:
    """PEM files of one side."""

    certificate: Path
    private_key: Path
    authority: Path


def issue(folder: Path) -> tuple[TlsFiles, TlsFiles]:
    """Files of the gates, and of their clients, in a private folder.

    Nobody keeps the authority's key, so nothing else will ever be let in.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate("podium on loopback", key, key, ca=True)
    path = _write(folder / "authority.pem", authority.public_bytes(PEM))
    return _holder(folder, "gate", path, key), _holder(folder, "client", path, key)


def _holder(
    folder: Path, name: str, authority: Path, signer: ec.EllipticCurvePrivateKey
) -> TlsFiles:
    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(
        PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    certificate = _certificate(name, key, signer, ca=False)
    return TlsFiles(
        certificate=_write(folder / f"{name}.pem", certificate.public_bytes(PEM)),
        private_key=_write(folder / f"{name}.key", private),
        authority=authority,
    )


def _certificate(
    name: str, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey, *, ca: bool
) -> x509.Certificate:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named("podium on loopback"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + LASTING)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address(LOOPBACK))]), critical=False
        )
        .sign(signer, hashes.SHA256())
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _write(path: Path, content: bytes) -> Path:
    """Whole or not at all: clients of an earlier start may be reading."""
    unfinished = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    return unfinished.replace(path)
