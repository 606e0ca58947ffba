"""The steps: cross-entropy of completions over the whole vocabulary, whatever a grammar allows."""

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from random import Random

import torch
from jaxtyping import Float32, Int
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from podium_training.imitation.config import SftConfig
from podium_training.imitation.rows import Row

# Tokens by which lengths are taken to differ, so that an epoch has other neighbours.
JITTER = 48
MULTIPLE = 16


@dataclass(frozen=True)
class Batch:
    """Rows, padded at their end: causal attention sees no padding before it."""

    tokens: Int[Tensor, "rows longest"]
    predicted_from: Int[Tensor, " trained"]
    """Places, in the rows one behind the other, whose output predicts a trained token."""
    targets: Int[Tensor, " trained"]
    weights: Float32[Tensor, " trained"]

    def to(self, device: torch.device) -> "Batch":
        return Batch(*(getattr(self, each.name).to(device) for each in fields(self)))


def shuffled_batches(
    rows: Sequence[Row], tokens_max: int, random: Random
) -> Iterator[Sequence[Row]]:
    """Yields rows of about one length side by side, one epoch after the other, without end."""
    while True:
        order = sorted(rows, key=lambda row: len(row) + random.randrange(JITTER))
        found = list(batches(order, tokens_max))
        random.shuffle(found)
        yield from found


def batches(rows: Sequence[Row], tokens_max: int) -> Iterator[Sequence[Row]]:
    """Yields batches in order; a row longer than the bound has a batch of its own."""
    batch: list[Row] = []
    longest = 0
    for row in rows:
        longest = max(longest, _padded(len(row)))
        if batch and longest * (len(batch) + 1) > tokens_max:
            yield batch
            batch, longest = [], _padded(len(row))
        batch.append(row)
    if batch:
        yield batch


def collated(rows: Sequence[Row]) -> Batch:
    longest = max(_padded(len(row)) for row in rows)
    tokens = torch.zeros(len(rows), longest, dtype=torch.int64)
    places, targets, weights = [], [], []
    for number, row in enumerate(rows):
        tokens[number, : len(row)] = torch.tensor([*row.prompt, *row.completion])
        first = number * longest + len(row.prompt) - 1
        places.append(torch.arange(first, first + len(row.completion)))
        targets.append(torch.tensor(row.completion))
        weights.append(torch.full((len(row.completion),), row.weight))
    return Batch(tokens, torch.cat(places), torch.cat(targets), torch.cat(weights))


def _padded(length: int) -> int:
    return -(-length // MULTIPLE) * MULTIPLE


log = logging.getLogger(__name__)

WARM_UP = 40
LOGGED_EVERY = 50
# Of recent gradients more than torch's default: a run is of hundreds of steps.
BETAS = (0.9, 0.98)


@dataclass(frozen=True)
class Measured:
    loss: float
    """Nats a token."""
    accuracy: float
    """Share of tokens that are the likeliest."""


def fit(
    model: PreTrainedModel, rows: Sequence[Row], config: SftConfig, random: Random
) -> tuple[Measured, Measured]:
    """Trains what requires a gradient; measured before and after on the rows held back.

    Weights that stay are cast to the precision of products.
    """
    device = next(model.parameters()).device
    precision = torch.bfloat16 if config.precision == "bfloat16" else torch.float32
    for weights in model.parameters():
        if not weights.requires_grad:
            weights.data = weights.data.to(precision)
    learnt = [row for row in rows if not row.held_back]
    held_back = [row for row in rows if row.held_back]
    with torch.autocast(device.type, precision, enabled=precision is torch.bfloat16):
        before = measure(model, held_back, config.tokens_max)
        log.info("held back: %s", before)
        _train(model, learnt, config, random)
        return before, measure(model, held_back, config.tokens_max)


def _train(model: PreTrainedModel, rows: Sequence[Row], config: SftConfig, random: Random) -> None:
    learning = list(trained(model).values())
    optimizer = torch.optim.AdamW(learning, config.learning_rate, BETAS, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, _rate(config))
    order = shuffled_batches(rows, config.tokens_max, random)
    started, tokens = time.monotonic(), 0
    for number, batch in enumerate(_ahead(order, config.steps, model), start=1):
        losses, _ = _losses(model, batch)
        loss = (losses * batch.weights).sum() / batch.weights.sum()
        loss.backward()
        nn.utils.clip_grad_norm_(learning, config.gradient_norm_max)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        tokens += batch.tokens.numel()
        if number % LOGGED_EVERY == 0 or number == config.steps:
            speed = tokens / (time.monotonic() - started)
            log.info("step %s: loss %.4f, %.0f tokens/s", number, loss.item(), speed)


def trained(model: PreTrainedModel) -> dict[str, Tensor]:
    named = model.named_parameters()
    return {name: weights for name, weights in named if weights.requires_grad}


@torch.no_grad()
def measure(model: PreTrainedModel, rows: Sequence[Row], tokens_max: int) -> Measured:
    loss = right = count = 0.0
    for batch in batches(sorted(rows, key=len), tokens_max):
        losses, likeliest = _losses(model, here := collated(batch).to(model.device))
        loss += float(losses.sum())
        right += float((likeliest == here.targets).sum())
        count += len(losses)
    return Measured(loss / count, right / count) if count else Measured(math.nan, math.nan)


def _losses(model: PreTrainedModel, batch: Batch) -> tuple[Tensor, Tensor]:
    """Nats of each trained token, and the likeliest token in its place."""
    decoder = model.get_decoder()
    hidden = decoder(input_ids=batch.tokens, use_cache=False).last_hidden_state
    # The output layer, the widest of all, sees what is predicted from and nothing else.
    logits = model.get_output_embeddings()(hidden.flatten(0, 1)[batch.predicted_from]).float()
    losses = functional.cross_entropy(logits, batch.targets, reduction="none")
    return losses, logits.argmax(dim=-1)


def _ahead(order: Iterable[Sequence[Row]], steps: int, model: PreTrainedModel) -> Iterator[Batch]:
    """Batches on the model's device, the next one made while one is computed."""
    rows = iter(order)

    def make() -> Batch:
        return collated(next(rows)).to(model.device)

    with ThreadPoolExecutor(1) as aside:
        coming = aside.submit(make)
        for _ in range(steps - 1):
            batch = coming.result()
            coming = aside.submit(make)
            yield batch
        yield coming.result()


def _rate(config: SftConfig) -> Callable[[int], float]:
    """Shares of the learning rate: up to it, at it, and along a half cosine down to 0."""

    def share(done: int) -> float:
        passed = (done / config.steps - config.decay_start) / (1 - config.decay_start)
        falling = 0.5 * (1 + math.cos(math.pi * max(0.0, passed)))
        return min(1.0, (done + 1) / WARM_UP) * falling

    return share
