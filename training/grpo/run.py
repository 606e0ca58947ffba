"""Everything a run is made of, put together from its configuration."""

from functools import partial

import torch
from transformers import AutoTokenizer

from grpo.advantages import Advantage
from grpo.checkpoints import Checkpoint, latest
from grpo.config import InvalidConfig, RunConfig, StepConfig
from grpo.episodes import Limits
from grpo.following import follow
from grpo.grammar import GrammarReplay
from grpo.groups import GroupAssembler, GroupRules
from grpo.learner import Learner, StepOptions
from grpo.losses import Loss, LossOptions
from grpo.metrics_log import MetricsLog
from grpo.policy import load_policy, prompt_digest
from grpo.publishing import Publisher, base_digest
from grpo.refused_records import RefusedRecords
from grpo.staleness import StalenessBound
from grpo.stream import LogReader, Position
from grpo.team import Team, join_team
from grpo.trainer import Trainer, TrainerOptions
from policy_versions import Manifest, VersionStore


def train(config: RunConfig) -> int:
    """Runs, or goes on from the newest checkpoint; the steps taken in all. Raises InvalidConfig."""
    torch.set_num_threads(config.threads)
    torch.use_deterministic_algorithms(True)
    team = join_team()
    if team.size != config.processes:
        raise InvalidConfig(
            f"the run is of {config.processes} processes and torchrun started {team.size};"
            f" use `torchrun --nproc-per-node {config.processes} -m grpo`"
        )
    if team.size > 1 and config.publish is not None:
        raise InvalidConfig("a run of several processes publishes by `podium train publish` alone")
    folder = config.output / "checkpoints"
    checkpoint = team.shared(latest(folder) if team.rank == 0 else None)
    learner = _learner(config, team)
    if checkpoint is not None:
        learner.restore(checkpoint.weights, checkpoint.optimiser)
    return follow(learner, team) if team.rank else _lead(config, learner, team, checkpoint)


def _lead(config: RunConfig, learner: Learner, team: Team, checkpoint: Checkpoint | None) -> int:
    config.output.mkdir(parents=True, exist_ok=True)
    position = None
    if checkpoint is not None:
        offsets = {int(p): offset for p, offset in checkpoint.state["offsets"].items()}
        position = Position(offsets, checkpoint.state["turn"])
    reader = LogReader(config.stream, config.stream.topic, position)
    try:
        trainer = _trainer(config, learner, team, reader)
        if checkpoint is not None:
            trainer.restore(checkpoint)
        return trainer.run()
    finally:
        reader.close()


def publish_latest(config: RunConfig) -> Manifest:
    """The version of the newest checkpoint. Raises InvalidConfig when there is none of either."""
    publisher = _publisher(config)
    if publisher is None:
        raise InvalidConfig("the run has no section `publish`; name its store and run there")
    checkpoint = latest(config.output / "checkpoints")
    if checkpoint is None:
        raise InvalidConfig(f"{config.output} has no checkpoint; run `python -m grpo` first")
    model = load_policy(config.model, config.lora)
    model.load_state_dict(checkpoint.weights, strict=False)
    offsets = {int(p): offset for p, offset in checkpoint.state["offsets"].items()}
    return publisher.publish(model, checkpoint.step, offsets)


def _trainer(config: RunConfig, learner: Learner, team: Team, reader: LogReader) -> Trainer:
    groups = config.groups
    rules = GroupRules(groups.members_min_share, groups.std_floor, _staleness(config))
    vocabulary = int(learner.model.config.vocab_size)
    return Trainer(
        learner=learner,
        reader=reader,
        assembler=GroupAssembler(rules, Advantage(groups.advantage)),
        limits=Limits(vocabulary, config.step.row_tokens_max, prompt_digest(config.model)),
        options=TrainerOptions(
            steps=config.steps,
            groups_per_step=config.step.groups,
            checkpoint_every=config.checkpoint_every,
            patience_s=config.stream.patience_s,
            falls_after=config.step.falls_after,
        ),
        output=config.output,
        metrics=MetricsLog(config.output),
        aside=RefusedRecords(config.output, config.stream.topic),
        team=team,
        publisher=_publisher(config),
        publish_every=config.publish.every if config.publish else 1,
    )


def _staleness(config: RunConfig) -> StalenessBound | None:
    bound = config.groups.versions_behind_max
    if bound is None or config.publish is None:
        return None
    return StalenessBound(config.publish.run, bound)


def _publisher(config: RunConfig) -> Publisher | None:
    if config.publish is None:
        return None
    tokenizer = AutoTokenizer.from_pretrained(config.model)
    store = VersionStore(config.publish.store)
    return Publisher(store, config.publish.run, base_digest(config.model), tokenizer)


def _learner(config: RunConfig, team: Team) -> Learner:
    model = load_policy(config.model, config.lora)
    tokenizer = AutoTokenizer.from_pretrained(config.model)
    # Fused: a pass over weights and state where there were a dozen, each with a copy of its own.
    make_optimiser = partial(
        torch.optim.AdamW,
        lr=config.step.learning_rate,
        weight_decay=config.step.weight_decay,
        fused=True,
    )
    grammar = GrammarReplay(tokenizer, int(model.config.vocab_size))
    return Learner(model, make_optimiser, grammar, _step_options(config.step), team)


def _step_options(step: StepConfig) -> StepOptions:
    loss = LossOptions(loss=Loss(step.loss), clip_low=step.clip_low, clip_high=step.clip_high)
    return StepOptions(loss, step.tokens_max, step.gradient_norm_max, step.drift_stop)
