import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from podium_kit.embedded.gate.certificates import TlsFiles, issue


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
