"""The keys of the internal tokens in a Secret, made once."""

from pathlib import Path
from tempfile import TemporaryDirectory

from podium_cli.bootstrap.cluster_objects import ClusterObjects
from podium_cli.local.keys import MASTER_KEYS, PAYLOAD_KEYS, ensure_keys


async def ensure_signing_keys(objects: ClusterObjects, secret: str) -> list[str]:
    """Makes the Secret that `podium identity` would. One that exists stays as it is, but for the
    files of keys that one of an earlier release lacks.
    """
    stored, values = await objects.secret(secret), _new_keys()
    if stored is None:
        await objects.write_secret(secret, values)
        return [f"Secret {secret} with {len(values)} files of keys"]
    missing = [name for name in (MASTER_KEYS, PAYLOAD_KEYS) if name not in stored]
    if missing:
        await objects.write_secret(secret, {name: values[name] for name in missing})
    return [f"key {name} of Secret {secret}" for name in missing]


def _new_keys() -> dict[str, str]:
    with TemporaryDirectory() as folder:
        ensure_keys(Path(folder))
        return {path.name: path.read_text() for path in Path(folder).iterdir()}
