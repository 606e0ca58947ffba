"""Publishes weights as a merged version, in a pod of orchestrator-inference.

publish_merged.py VERSION WEIGHTS MODEL: the model of that name, which serves the same weights,
answers the canary; a trainer would have computed it.
"""

import asyncio
import hashlib
import os
import shutil
import sys
from pathlib import Path

from orchestrator_inference.engine.client import engine_client
from orchestrator_inference.engine.replicas import EngineReplica
from podium_kit.policy_versions import Canary, CanaryPrompt, Format, Manifest, VersionStore
from podium_kit.policy_versions.canary import PROMPTS

PREFIX = "ORCHESTRATOR_INFERENCE_"


async def main(version: str, weights: Path, model: str) -> None:
    asked = [
        CanaryPrompt(prompt_ids=(100 + n, 200 + n), next_ids=(300 + n,), logprobs=(-1.0,))
        for n in range(PROMPTS)
    ]
    url = os.environ[f"{PREFIX}ENGINE_BASE_URL"]
    async with engine_client(url, None, 1) as client:
        replica = EngineReplica(client, url, 120)
        answered = await replica.logprobs(model, asked)
    prompts = tuple(
        prompt.model_copy(update={"logprobs": tuple(row)})
        for prompt, row in zip(asked, answered, strict=True)
    )
    manifest = Manifest(
        name=version,
        format=Format.MERGED,
        files={},
        base_digest=hashlib.sha256((weights / "model.safetensors").read_bytes()).hexdigest(),
        parent="",
        step=1,
        offsets={},
        canary=Canary(prompts=prompts),
    )

    def fill(folder: Path) -> None:
        for file in weights.iterdir():
            shutil.copy(file, folder)

    VersionStore(Path(os.environ[f"{PREFIX}POLICY_STORE"])).write(manifest, fill)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
