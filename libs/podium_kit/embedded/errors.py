from pathlib import Path


class EmbeddedError(Exception):
    """Base of every error of this package."""


class StartupFailed(EmbeddedError):
    """A server did not come up; `reason` holds the cause and its last log lines."""

    def __init__(self, name: str, reason: str, log_path: Path) -> None:
        super().__init__(f"{name} did not start: {reason}\nfull log: {log_path}")
        self.name = name
        self.reason = reason
        self.log_path = log_path


class NoFreePort(EmbeddedError):
    def __init__(self, ports: range) -> None:
        super().__init__(f"ports {ports[0]} to {ports[-1]} are all taken: stop what holds them")


class PortTaken(EmbeddedError):
    def __init__(self, port: int, holder: str) -> None:
        super().__init__(f"port {port} is held by {holder}: stop it, or choose another port")
        self.port = port
        self.holder = holder
