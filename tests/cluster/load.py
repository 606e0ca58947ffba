from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.pods import AUTHORITY, CLIENT, program, said
from cluster.release import Release

PROGRAM = Path(__file__).parent / "programs/load.py"
# Beyond the last of them: what is open then has so long to end.
MARGIN_S = 400
GATEWAY = "https://podium-gateway:8080"


class Load:
    """A program that runs in a pod; `ended` waits for it."""

    def __init__(self, release: Release, name: str, seconds: int) -> None:
        self._release, self._name, self._seconds = release, name, seconds

    def ended(self) -> str:
        return said(self._release, self._name, self._seconds + MARGIN_S)


@contextmanager
def load(release: Release, kind: str, seconds: int, at_once: int) -> Iterator[Load]:
    """`episodes` or `direct-calls`, as the first tenant."""
    environment = {
        "PODIUM_URL": GATEWAY,
        "PODIUM_API_KEY": release.key("tenant"),
        "SSL_CERT_FILE": f"{AUTHORITY}/ca.crt",
    }
    name = f"load-of-{kind}"
    command = ["python", "-c", PROGRAM.read_text(), kind, str(seconds), str(at_once)]
    with program(release, name, command, CLIENT, environment):
        yield Load(release, name, seconds)
