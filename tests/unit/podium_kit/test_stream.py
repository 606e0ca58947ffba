"""Settings of Kafka's clients, and their classes of responses."""

import errno
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer
from pydantic import ValidationError

from podium_kit.embedded.ports import free_port
from podium_kit.stream import BrokerUnavailable, KafkaSettings, require_reachable

FILES = ("authority", "certificate", "private_key", "password_file")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    paths = {name: tmp_path / name for name in FILES}
    for path in paths.values():
        path.write_text("correct horse\n")
    return paths


def test_plaintext_is_what_an_address_alone_means() -> None:
    assert KafkaSettings(bootstrap="kafka:9092").arguments() == {
        "bootstrap_servers": "kafka:9092",
        "security_protocol": "PLAINTEXT",
    }


def test_mutual_tls_names_the_three_files(files: dict[str, Path]) -> None:
    files.pop("password_file")
    settings = KafkaSettings(bootstrap="kafka:9093", security_protocol="SSL", **files)
    assert settings.arguments() == {
        "bootstrap_servers": "kafka:9093",
        "security_protocol": "SSL",
        "ssl_cafile": str(files["authority"]),
        "ssl_certfile": str(files["certificate"]),
        "ssl_keyfile": str(files["private_key"]),
    }


def test_a_password_comes_from_its_file_and_is_never_shown(files: dict[str, Path]) -> None:
    settings = KafkaSettings(
        bootstrap="kafka:9094",
        security_protocol="SASL_SSL",
        authority=files["authority"],
        username="episode-worker",
        password_file=files["password_file"],
    )
    assert "correct horse" not in repr(settings)
    assert settings.arguments() == {
        "bootstrap_servers": "kafka:9094",
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(files["authority"]),
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "episode-worker",
        "sasl_plain_password": "correct horse",
    }


def test_every_argument_is_one_kafka_python_knows(files: dict[str, Path]) -> None:
    settings = KafkaSettings(
        bootstrap="kafka:9094", security_protocol="SASL_SSL", username="worker", **files
    )
    assert settings.arguments().keys() <= KafkaConsumer.DEFAULT_CONFIG.keys()


@pytest.mark.parametrize(
    ("protocol", "named", "complaint"),
    [
        ("SSL", ["certificate"], "certificate and private_key belong together"),
        ("SSL", ["private_key"], "certificate and private_key belong together"),
        ("PLAINTEXT", ["authority"], "PLAINTEXT uses no certificates"),
        ("PLAINTEXT", ["certificate", "private_key"], "PLAINTEXT uses no certificates"),
        ("SASL_SSL", [], "go with security_protocol SASL_SSL"),
        ("SASL_SSL", ["password_file"], "username and password_file belong together"),
        ("TLS", [], "security_protocol"),
    ],
)
def test_half_a_connection_is_rejected(
    files: dict[str, Path], protocol: Any, named: list[str], complaint: str
) -> None:
    settings = {name: files[name] for name in named}
    with pytest.raises(ValidationError, match=complaint):
        KafkaSettings(bootstrap="kafka:9092", security_protocol=protocol, **settings)
    with pytest.raises(ValidationError, match="belong together"):
        KafkaSettings(bootstrap="kafka:9092", username="worker")


def test_a_file_that_is_not_there_is_named_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="authority"):
        KafkaSettings(bootstrap="k:1", security_protocol="SSL", authority=tmp_path / "none")


@pytest.mark.parametrize(
    ("bootstrap", "address"),
    [
        ("kafka:9093,other:9094", ("kafka", 9093)),
        ("kafka", ("kafka", 9092)),
        ("kafka, other:9094", ("kafka", 9092)),
        ("[::1]:9093", ("::1", 9093)),
    ],
)
def test_the_first_server_is_asked(
    bootstrap: str, address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def away(found: tuple[str, int], _: float) -> socket.socket:
        asked.append(found)
        raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")

    monkeypatch.setattr(socket, "create_connection", away)
    kafka = KafkaSettings(bootstrap=bootstrap, security_protocol="SSL")
    error = BrokerUnavailable(kafka, TimeoutError())
    assert asked == [address]
    assert "Connection refused. Fix bootstrap" in str(error)


def test_a_wrong_port_is_named_with_the_fix() -> None:
    port = free_port()
    with pytest.raises(BrokerUnavailable, match=rf"127\.0\.0\.1:{port}.*refused\. Fix bootstrap"):
        require_reachable(KafkaSettings(bootstrap=f"127.0.0.1:{port}"))


# Each thread asks for every version of every response, as connections do; then classes that are
# not referred to are collected. Without the first line it fails.
READING = """
import podium_kit.stream.clients
import gc, sys, threading
from types import SimpleNamespace
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.api_message import ApiMessage

responses = [each for each in ApiMessage.__subclasses__() if not each.is_request()]
headers = [
    SimpleNamespace(request_api_key=each.API_KEY, request_api_version=version)
    for each in responses
    for version in range(each.max_version + 1)
]
assert headers
sys.setswitchinterval(1e-6)
together = threading.Barrier(8)

def read():
    for header in headers:
        together.wait()
        try:
            ResponseClassRegistry.get_response_class(header)
        except ReferenceError:
            pass

threads = [threading.Thread(target=read) for _ in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()
gc.collect()
for header in headers:
    ResponseClassRegistry.get_response_class(header)
"""


def test_threads_that_read_at_once_can_read_again() -> None:
    run = subprocess.run(
        [sys.executable, "-c", READING],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
