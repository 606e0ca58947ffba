from dataclasses import astuple, dataclass

import torch

from podium_training.grpo.model.trie import PackedRows
from podium_training.grpo.objective.losses import KlEstimator, LossResult, TokenBatch, kl
from podium_training.grpo.process_group import ProcessGroup


@dataclass
class Sums:
    loss: float = 0.0
    trained: float = 0.0
    unique: float = 0.0
    rows: float = 0.0
    drift: float = 0.0
    divergence: float = 0.0
    clipped: float = 0.0
    truncated: float = 0.0
    drift_max: float = 0.0

    def add(
        self, packed: PackedRows, batch: TokenBatch, result: LossResult, estimator: KlEstimator
    ) -> None:
        drift = (batch.old_logprobs - batch.inference_logprobs).abs()
        self.loss += float(result.loss.detach())
        self.clipped += result.clipped
        self.truncated += result.truncated
        self.trained += drift.numel()
        self.unique += len(packed.tokens)
        self.rows += int(packed.row.max()) + 1
        self.drift += float(drift.sum())
        if batch.reference_logprobs is not None:
            divergence = kl(batch.old_logprobs, batch.reference_logprobs, estimator)
            self.divergence += float(divergence.sum())
        self.drift_max = max(self.drift_max, float(drift.max()) if drift.numel() else 0.0)

    def over(self, processes: ProcessGroup) -> "Sums":
        *added, drift_max = astuple(self)
        summed = processes.sum(torch.tensor(added, dtype=torch.float64)).tolist()
        summed.append(processes.max(torch.tensor(drift_max, dtype=torch.float64)).item())
        return Sums(*summed)

    def metrics(self, *, compared: bool) -> dict[str, float]:
        found = {
            "loss": self.loss,
            "tokens_trained": self.trained,
            "tokens_computed": self.unique,
            "rows": self.rows,
            "drift_mean": self.drift / max(1, self.trained),
            "drift_max": self.drift_max,
            "clipped_share": self.clipped / max(1, self.trained),
            "truncated_share": self.truncated / max(1, self.trained),
        }
        if compared:
            found["kl_mean"] = self.divergence / max(1, self.trained)
        return found
