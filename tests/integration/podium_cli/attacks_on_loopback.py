"""Becomes another user: `attacks_on_loopback.py temporal|kafka PORT nothing|tls|certificate`.

Prints "broke in" with what it got, or "kept out" with why.
"""

import asyncio
import os
import socket
import ssl
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError
from temporalio.client import Client

# An account that no one has.
OTHER = 54_321
TOPIC = "trajectories.v1"


def forged(folder: Path) -> tuple[Path, Path]:
    """A certificate of the name that ours has, signed by no one of ours."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "client")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "podium on loopback")]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    paths = folder / "forged.pem", folder / "forged.key"
    paths[0].write_bytes(certificate.public_bytes(pem))
    paths[1].write_bytes(private)
    return paths


def context(shown: str, certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if shown == "certificate":
        context.load_cert_chain(*certificate)
    return context


async def temporal(port: int) -> str:
    """Lists workflows and starts one; an update with an approval takes no more."""
    client = await Client.connect(f"127.0.0.1:{port}")
    found = [each.id async for each in client.list_workflows()]
    await client.start_workflow("EpisodeWorkflow", id="forged", task_queue="episodes")
    return f"{found}"


def temporal_over_tls(port: int, tls: ssl.SSLContext) -> str:
    tls.set_alpn_protocols(["h2"])
    with socket.create_connection(("127.0.0.1", port), 10) as plain, tls.wrap_socket(plain) as own:
        own.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        if got := own.recv(100):
            return f"{got!r}"
    raise ConnectionError("nothing came back")


def kafka(port: int, shown: str, certificate: tuple[Path, Path]) -> str:
    security: dict[str, object] = {}
    if shown != "nothing":
        security = {"security_protocol": "SSL", "ssl_context": context(shown, certificate)}
    brief = {"bootstrap_servers": f"127.0.0.1:{port}", "bootstrap_timeout_ms": 3_000, **security}
    found = KafkaConsumer(**brief).partitions_for_topic(TOPIC)
    KafkaProducer(**brief).send(TOPIC, b"forged").get(timeout=5)
    return f"{found}"


def main(attack: str, port: str, shown: str) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        certificate = forged(Path(folder))
        # Loaded while its file can be read: Python may lie in a folder that only root may enter.
        "localhost".encode("idna")
        if os.geteuid() == 0:
            for path in (Path(folder), *certificate):
                os.chown(path, OTHER, OTHER)
            os.setgroups([])
            os.setresgid(OTHER, OTHER, OTHER)
            os.setresuid(OTHER, OTHER, OTHER)
        try:
            if attack == "kafka":
                got = kafka(int(port), shown, certificate)
            elif shown == "nothing":
                got = asyncio.run(temporal(int(port)))
            else:
                got = temporal_over_tls(int(port), context(shown, certificate))
        except (OSError, RuntimeError, KafkaError) as error:
            sys.stdout.write(f"kept out: {error!r}\n")
        else:
            sys.stdout.write(f"broke in: {got}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
