"""The state folder: everything the platform keeps on this machine, in one place."""

import fcntl
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from podium_kit.client.errors import UserError

STATE_VARIABLE = "PODIUM_STATE_DIR"


class StateFolderUnusable(UserError):
    def __init__(self, folder: Path, cause: OSError) -> None:
        super().__init__(
            f"cannot write the state folder {folder}: {cause.strerror}",
            f"choose another with --state-dir or {STATE_VARIABLE}, or make it writable",
        )


class AlreadyUp(UserError):
    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"podium is already up in {folder}",
            "use it, stop it with `podium down`, or give another --state-dir",
        )


class NotUp(UserError):
    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"podium is not up in {folder}",
            "start it with `podium up`, or set PODIUM_URL and PODIUM_API_KEY of another platform",
        )


@dataclass(frozen=True)
class Connection:
    """The address of the running platform. Holds a secret: its file is private."""

    gateway_url: str
    api_key: str
    admin_key: str
    pid: int
    # As KafkaSettings and TemporalSettings name them; their certificate is a file of this user.
    kafka: dict[str, str] = field(default_factory=dict)
    temporal_target: str = ""
    temporal: dict[str, str] = field(default_factory=dict)
    # Private hosts that a tenant's tools may reach.
    allowed_hosts: list[str] = field(default_factory=list)


def default_state_dir() -> Path:
    """$PODIUM_STATE_DIR, or podium's folder under the XDG state folder."""
    if configured := os.environ.get(STATE_VARIABLE):
        return Path(configured)
    home = Path(os.environ.get("XDG_STATE_HOME", Path.home() / ".local" / "state"))
    return home / "podium"


class StateFolder:
    """Paths inside the folder, and the lock of who runs in it."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().resolve()
        self._lock: int | None = None

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def keys(self) -> Path:
        return self.path / "keys"

    @property
    def certificates(self) -> Path:
        return self.keys / "loopback"

    @property
    def mcp_servers(self) -> Path:
        """Definitions of MCP servers, which anyone who owns the folder may add to."""
        return self.path / "mcp-servers"

    @property
    def telemetry(self) -> Path:
        return self.path / "telemetry"

    @property
    def ports_file(self) -> Path:
        """Ports of the last run, reused so that URLs survive a restart."""
        return self.path / "ports.json"

    @property
    def registered_tools_file(self) -> Path:
        return self.path / "registered-tools.json"

    @property
    def lock_file(self) -> Path:
        """Locked while the platform runs; holds its process id."""
        return self.path / "lock"

    @property
    def processes_file(self) -> Path:
        return self.path / "processes.json"

    @property
    def api_keys_file(self) -> Path:
        return self.keys / "api-keys.json"

    @property
    def connection_file(self) -> Path:
        return self.path / "connection.json"

    def acquire(self) -> Self:
        """Creates the folder and takes it for this process.

        Raises StateFolderUnusable, AlreadyUp.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for folder in (self.path, self.logs, self.telemetry, self.keys):
                folder.mkdir(mode=0o700, exist_ok=True)
                folder.chmod(0o700)
            lock = os.open(self.lock_file, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StateFolderUnusable(self.path, error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise AlreadyUp(self.path) from error
        os.truncate(lock, 0)
        os.write(lock, str(os.getpid()).encode())
        self._lock = lock
        return self

    def holder(self) -> int | None:
        """Process id of the `podium up` that holds the folder, also while it starts."""
        try:
            with self.lock_file.open() as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return None
        except BlockingIOError:
            return int(self.lock_file.read_text())
        except OSError:
            return None

    def release(self) -> None:
        if self._lock is None:
            return
        for file in (self.connection_file, self.processes_file):
            file.unlink(missing_ok=True)
        os.close(self._lock)
        self._lock = None

    def write_connection(self, connection: Connection) -> None:
        """Publishes how to reach the platform, to this user only."""
        write_private(self.connection_file, json.dumps(asdict(connection)))

    def read_connection(self) -> Connection:
        try:
            connection = Connection(**json.loads(self.connection_file.read_text()))
            os.kill(connection.pid, 0)
        except (OSError, ValueError, TypeError) as error:
            raise NotUp(self.path) from error
        return connection


def write_private(path: Path, text: str) -> None:
    """Writes a file only its owner can read, whole or not at all."""
    unfinished = path.with_name(path.name + ".new")
    unfinished.touch(mode=0o600)
    unfinished.write_text(text)
    unfinished.rename(path)
