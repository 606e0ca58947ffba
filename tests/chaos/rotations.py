import asyncio
import json

from chaos import victims
from chaos.scene import Scene
from podium_kit.embedded.gate.certificates import issue
from podium_operations.local.keys import ensure_keys

SIGNER = "episode-worker"
# Of the worker's tokens; the gateway's are verified by the same file.
VERIFIERS = (victims.LEDGER, victims.REGISTRY, victims.ADAPTERS, victims.INFERENCE)
BETWEEN_S = 3.0


async def rotate_signing_key(scene: Scene) -> None:
    """The worker gets a new key; for some seconds half of the services know the old one only."""
    folder = scene.platform.state.keys
    (folder / f"{SIGNER}.pem").unlink()
    verify = ensure_keys(folder).verify_keys_file
    assert SIGNER in json.loads(verify.read_text())
    for name in (*VERIFIERS[:2], victims.WORKER, *VERIFIERS[2:]):
        # A process reads its keys when it starts.
        await scene.process(name).kill()
        await asyncio.sleep(BETWEEN_S)


async def rotate_certificate(scene: Scene) -> None:
    """A new authority and new certificates; the gates show them from their next start on."""
    issue(scene.platform.state.certificates)
    for name in (victims.TEMPORAL, victims.BROKER):
        await scene.process(name).kill()
        await asyncio.sleep(BETWEEN_S)
