"""The keys of the internal tokens in a Secret, made once."""

from pathlib import Path
from tempfile import TemporaryDirectory

from podium_cli.bootstrap.cluster_objects import ClusterObjects
from podium_cli.local.keys import ensure_keys


async def ensure_signing_keys(objects: ClusterObjects, secret: str) -> list[str]:
    """Makes the Secret that `podium identity` would; one that exists stays as it is."""
    if await objects.secret(secret) is not None:
        return []
    values = _new_keys()
    await objects.write_secret(secret, values)
    return [f"Secret {secret} with {len(values)} files of keys"]


def _new_keys() -> dict[str, str]:
    with TemporaryDirectory() as folder:
        ensure_keys(Path(folder))
        return {path.name: path.read_text() for path in Path(folder).iterdir()}
