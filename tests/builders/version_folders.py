"""Policy versions as folders, for tests in which no engine reads the weights."""

from pathlib import Path

from podium_kit.policy_versions import Canary, CanaryPrompt, Format, Manifest, VersionStore
from podium_kit.policy_versions.manifest import CONFIG, WEIGHTS


def write_version(store: VersionStore, name: str, format: Format, tenant: str = "") -> str:
    """Writes a version; its name."""
    prompt = CanaryPrompt(prompt_ids=(1,), next_ids=(2,), logprobs=(-1.0,))
    manifest = Manifest(
        name=name,
        format=format,
        files={},
        base_digest="0" * 64,
        parent="",
        step=1,
        offsets={},
        canary=Canary(prompts=(prompt,) * 16),
        tenant=tenant,
    )

    def fill(folder: Path) -> None:
        for file in (WEIGHTS[format], CONFIG[format]):
            (folder / file).write_text("{}")

    return store.write(manifest, fill).name
