"""One server as a container's own process, for the evaluation profile of the chart:

    python -m podium_kit.embedded.serving postgres PORT FOLDER PASSWORD_FILE
    python -m podium_kit.embedded.serving temporal PORT FOLDER
    python -m podium_kit.embedded.serving kafka PORT ADVERTISED_HOST:PORT

It listens on every address of the container, and becomes the server: signals reach it.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from podium_kit.embedded.errors import EmbeddedError
from podium_kit.embedded.kafka import EmbeddedKafka
from podium_kit.embedded.postgres import SETTINGS, options
from podium_kit.embedded.postgres_cluster import Cluster, binary
from podium_kit.embedded.temporal import EmbeddedTemporal

ANY = "0.0.0.0"  # noqa: S104  a container's own addresses
# initdb lets only the container itself in.
HOST_RULES = "local all all trust\nhost all all all scram-sha-256\n"


def postgres(port: str, folder: str, password_file: str) -> list[str]:
    cluster = Cluster(Path(folder) / "postgres")
    cluster.create(Path(password_file))
    # A claim that is mounted again may come with the group's rights, which PostgreSQL rejects.
    cluster.data_dir.chmod(0o700)
    cluster.clear_leftovers()
    (cluster.data_dir / "pg_hba.conf").write_text(HOST_RULES)
    over_tcp = {"listen_addresses": "*", "port": port}
    program = [str(binary("postgres")), "-D", str(cluster.data_dir), "-k", "/tmp"]  # noqa: S108
    return [*program, *options(SETTINGS | over_tcp)]


def temporal(port: str, folder: str) -> list[str]:
    path = Path(folder) / "temporal"
    path.mkdir(parents=True, exist_ok=True)
    return EmbeddedTemporal(path, int(port), host=ANY).process.argv


def kafka(port: str, advertised: str) -> list[str]:
    """Keeps records in memory; `advertised` is where clients are sent."""
    nowhere = Path(os.devnull)
    server = EmbeddedKafka(int(port), log_path=nowhere, host=ANY, advertised=advertised)
    return server.process.argv


SERVERS: dict[str, Callable[..., list[str]]] = {
    "postgres": postgres,
    "temporal": temporal,
    "kafka": kafka,
}


def main(name: str, *arguments: str) -> None:
    try:
        argv = SERVERS[name](*arguments)
    except (EmbeddedError, OSError) as error:
        sys.exit(f"{name} cannot start: {error}")
    sys.stdout.flush()
    os.execv(argv[0], argv)  # noqa: S606  the wheel's own program


if __name__ == "__main__":
    main(*sys.argv[1:])
