import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from podium_kit.policy_versions import Format, Manifest, VersionName, VersionStore
from podium_training.grpo.canary import alike, record_canary

log = logging.getLogger(__name__)

# A version is one file of weights, whatever its size: the manifest and the digests are simpler.
ONE_FILE = "100TB"


@dataclass(frozen=True)
class Publisher:
    store: VersionStore
    run: str
    base_digest: str
    tokenizer: PreTrainedTokenizerBase
    precision: torch.dtype = torch.float32
    """Precision of the weights in the files; half of it halves them, and rounds."""
    tenant: str = ""
    """The tenant whose episodes alone are learnt from; "" where they are several tenants'."""

    def publish(self, model: PreTrainedModel, step: int, offsets: Mapping[int, int]) -> Manifest:
        """The version of a step, numbered by it.

        A run that continues from a checkpoint comes by steps again; it computes the same bits, so
        what is there already stays. Raises ArtifactRejected when it is damaged.
        """
        name = VersionName(self.run, step)
        if name in self.store.names():
            there = self.store.verified(str(name))
            if not alike(there.canary, record_canary(model, self.tokenizer)):
                log.warning(
                    "%s is in the store, is not what this run learnt, and stays: another run was"
                    " published as `%s`; give this one another name in publish.run",
                    name,
                    self.run,
                )
            return there
        manifest = Manifest(
            name=str(name),
            format=_format(model),
            files={},
            base_digest=self.base_digest,
            parent=self._parent(step),
            step=step,
            offsets=dict(offsets),
            canary=record_canary(model, self.tokenizer),
            tenant=self.tenant,
        )
        written = self.store.write(manifest, lambda folder: self._fill(model, folder))
        log.info("published %s", written.name)
        return written

    def _fill(self, model: PreTrainedModel, folder: Path) -> None:
        self._save(model, folder)
        for path in folder.glob("*.safetensors"):
            weights = load_file(path)
            if any(each.dtype is not self.precision for each in weights.values()):
                rounded = {name: each.to(self.precision) for name, each in weights.items()}
                save_file(rounded, path, {"format": "pt"})

    def _save(self, model: PreTrainedModel, folder: Path) -> None:
        if _format(model) is Format.MERGED:
            model.save_pretrained(folder, max_shard_size=ONE_FILE)
            self.tokenizer.save_pretrained(folder)
            return
        # Left to itself, PEFT asks the model hub whether the vocabulary was changed.
        model.save_pretrained(folder, save_embedding_layers=False)
        # PEFT's model card is an empty form that names a folder of this machine.
        (folder / "README.md").unlink(missing_ok=True)

    def _parent(self, step: int) -> str:
        earlier = [name for name in self.store.names() if name.run == self.run]
        return str(max((n for n in earlier if n.number < step), default=""))


def base_digest(model: Path) -> str:
    """SHA-256 over the weights a run starts from: of the digests of its files, by name."""
    whole = hashlib.sha256()
    for path in sorted(model.glob("*.safetensors")):
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


def _format(model: PreTrainedModel) -> Format:
    return Format.ADAPTER if getattr(model, "peft_config", None) else Format.MERGED
