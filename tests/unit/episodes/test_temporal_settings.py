from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError
from temporalio.service import TLSConfig

from episodes.workflows.connection import connection_security
from episodes.workflows.settings import TemporalSettings


def test_nothing_set_is_plaintext() -> None:
    assert connection_security(TemporalSettings()) == {"tls": False}


def test_mutual_tls_and_a_key_reach_the_client(tmp_path: Path) -> None:
    paths = {name: tmp_path / name for name in ("authority", "certificate", "private_key")}
    for name, path in paths.items():
        path.write_text(name)
    settings = TemporalSettings(
        tls=True, server_name="temporal", api_key=SecretStr("made up"), **paths
    )
    assert connection_security(settings) == {
        "tls": TLSConfig(
            server_root_ca_cert=b"authority",
            domain="temporal",
            client_cert=b"certificate",
            client_private_key=b"private_key",
        ),
        "api_key": "made up",
    }
    assert "made up" not in repr(settings)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"api_key": "k"}, "are used over TLS"),
        ({"server_name": "temporal"}, "are used over TLS"),
        ({"tls": True, "certificate": __file__}, "belong together"),
        ({"tls": True, "authority": "/nowhere/ca.crt"}, "authority"),
    ],
)
def test_half_a_connection_is_rejected(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        TemporalSettings(**settings)
