"""Why brokers behind TLS do not answer is asked at the address that the client has."""

import errno
import socket

import pytest

from podium_kit.stream import BrokerUnavailable, KafkaSettings


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
