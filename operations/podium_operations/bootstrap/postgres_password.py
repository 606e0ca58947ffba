"""The password of the evaluation profile's PostgreSQL, and its URL, in a Secret: made once.

    python -m podium_operations.bootstrap.postgres_password NAMESPACE RELEASE SECRET KEY HOST

The chart's Job runs it before everything else. KEY gets the URL, `password` the password alone.
"""

import asyncio
import secrets
import sys

from podium_kit.client.errors import UserError
from podium_kit.embedded.postgres_cluster import SUPERUSER
from podium_operations.bootstrap.cluster_objects import ClusterObjects

PASSWORD_BYTES = 24


async def ensure_password(objects: ClusterObjects, secret: str, key: str, host: str) -> bool:
    found = await objects.secret(secret)
    if found and {key, "password"} <= found.keys():
        return False
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    url = f"postgresql://{SUPERUSER}:{password}@{host}:5432/postgres"
    await objects.write_secret(secret, {"password": password, key: url})
    return True


def main(namespace: str, release: str, secret: str, key: str, host: str) -> int:
    try:
        made = asyncio.run(ensure_password(ClusterObjects(namespace, release), secret, key, host))
    except UserError as error:
        sys.stdout.write(f"failed: {error.cause}\nfix: {error.fix}\n")
        return 1
    sys.stdout.write(f"Secret {secret} {'was made' if made else 'is there'}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
