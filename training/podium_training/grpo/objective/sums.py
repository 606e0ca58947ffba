"""What a step did, added up over micro-batches and processes."""

from dataclasses import dataclass

import torch

from podium_training.grpo.model.trie import PackedRows
from podium_training.grpo.objective.losses import KlEstimator, TokenBatch, kl
from podium_training.grpo.process_group import Team


@dataclass
class Sums:
    """Figures of a batch, summed over its micro-batches."""

    loss: float = 0.0
    trained: int = 0
    unique: int = 0
    rows: int = 0
    drift: float = 0.0
    divergence: float = 0.0
    drift_max: float = 0.0

    def add(
        self, packed: PackedRows, batch: TokenBatch, loss: float, estimator: KlEstimator
    ) -> None:
        """Counts a micro-batch in."""
        drift = (batch.old_logprobs - batch.inference_logprobs).abs()
        self.loss += loss
        self.trained += drift.numel()
        self.unique += len(packed.tokens)
        self.rows += int(packed.row.max()) + 1
        self.drift += float(drift.sum())
        if batch.reference_logprobs is not None:
            divergence = kl(batch.old_logprobs, batch.reference_logprobs, estimator)
            self.divergence += float(divergence.sum())
        self.drift_max = max(self.drift_max, float(drift.max()) if drift.numel() else 0.0)

    def over(self, team: Team) -> "Sums":
        """The figures of all processes."""
        added = [self.loss, self.trained, self.unique, self.rows, self.drift, self.divergence]
        loss, trained, unique, rows, drift, divergence = team.added_up(
            torch.tensor(added, dtype=torch.float64)
        ).tolist()
        largest = team.largest(torch.tensor(self.drift_max, dtype=torch.float64)).item()
        return Sums(loss, int(trained), int(unique), int(rows), drift, divergence, largest)

    def metrics(self, *, compared: bool) -> dict[str, float]:
        """By name; the divergence only where there is a reference to be compared with."""
        found = {
            "loss": self.loss,
            "tokens_trained": float(self.trained),
            "tokens_computed": float(self.unique),
            "rows": float(self.rows),
            "drift_mean": self.drift / max(1, self.trained),
            "drift_max": self.drift_max,
        }
        if compared:
            found["kl_mean"] = self.divergence / max(1, self.trained)
        return found
