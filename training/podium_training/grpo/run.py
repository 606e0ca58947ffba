import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import torch
from transformers import AutoTokenizer, PreTrainedModel

from podium_kit.policy_versions import Manifest, VersionName, VersionStore
from podium_kit.policy_versions.metrics import (
    METRICS,
    InvalidMetrics,
    read_metrics,
    store_metrics,
)
from podium_training.grpo.byte_adamw import ByteAdamW
from podium_training.grpo.checkpoints import Checkpoint, latest, require_weights_of
from podium_training.grpo.config import AveragesName, InvalidConfig, RunConfig, StepConfig
from podium_training.grpo.data.dead_letters import RejectedRecords
from podium_training.grpo.data.episodes import Limits
from podium_training.grpo.data.feedback import AwaitedFeedback
from podium_training.grpo.data.groups import GroupAssembler, GroupRules
from podium_training.grpo.data.stream import LogReader, Position
from podium_training.grpo.device import choose_device
from podium_training.grpo.ending import leave_signals, stop_on_signals
from podium_training.grpo.following import follow
from podium_training.grpo.learner import Learner, StepOptions
from podium_training.grpo.metrics.log import MetricsLog
from podium_training.grpo.metrics.trackers import trackers_of
from podium_training.grpo.model.grammar import GrammarReplay
from podium_training.grpo.model.policy import load_policy, prompt_digest
from podium_training.grpo.model.recomputing import recompute
from podium_training.grpo.objective.advantages import Advantage
from podium_training.grpo.objective.losses import KlEstimator, Level, Loss, LossOptions
from podium_training.grpo.objective.rewards import RewardRules, Weight
from podium_training.grpo.objective.staleness import StalenessBound
from podium_training.grpo.process_group import ProcessGroup, join_process_group
from podium_training.grpo.publishing import Publisher, base_digest
from podium_training.grpo.trainer import Publish, Trainer, TrainerOptions

log = logging.getLogger(__name__)

# Of the first process between two words to the others, beside waiting for records: reading them
# back, writing a checkpoint, publishing.
LONGEST_PAUSE = timedelta(hours=2)
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
OPTIMIZERS: dict[AveragesName, Callable[..., torch.optim.Optimizer]] = {
    # Fused: a pass over weights and state where there were a dozen, each with a copy of its own.
    "float32": partial(torch.optim.AdamW, fused=True),
    "bytes": ByteAdamW,
}


def train(config: RunConfig, *, skip_lost: bool = False) -> int:
    """Runs, or continues from the newest checkpoint; the steps taken in all.

    Raises InvalidConfig, LogCut when the log lacks records that are not to be skipped, and
    Interrupted when a signal ended it.
    """
    processes = join(config)
    folder = config.output / "checkpoints"
    found = latest(folder) if processes.rank == 0 else None
    outline = processes.broadcast(found and found.outline())
    checkpoint = found or outline
    learner = make_learner(config, processes)
    if checkpoint is not None:
        learner.restore(checkpoint.weights, checkpoint.optimizer)
    if processes.rank:
        leave_signals()
        return follow(learner, processes)
    return _lead(config, learner, processes, checkpoint, skip_lost)


def join(config: RunConfig) -> ProcessGroup:
    """This process as one of the run's, set so that the same run gives the same bits."""
    torch.set_num_threads(config.threads)
    torch.use_deterministic_algorithms(True)
    # No kernel in use reads what it has not written; filling it first costs a tenth of a step.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    waits = timedelta(seconds=config.stream.patience_s) + LONGEST_PAUSE
    processes = join_process_group(choose_device(config.device), waits)
    if processes.size != config.processes:
        raise InvalidConfig(
            f"the run is of {config.processes} processes and torchrun started {processes.size}:"
            " set PET_NPROC_PER_NODE, for several nodes PET_NNODES, so that their product is"
            " `processes`, and start `python -m podium_training.grpo.launch`"
        )
    return processes


def _lead(
    config: RunConfig,
    learner: Learner,
    processes: ProcessGroup,
    checkpoint: Checkpoint | None,
    skip_lost: bool,
) -> int:
    config.output.mkdir(parents=True, exist_ok=True)
    position = None if checkpoint is None else position_of(checkpoint)
    reader = LogReader(config.stream, config.stream.topic, position, skip_lost=skip_lost)
    try:
        trainer = make_trainer(config, learner, reader, processes)
        trainer.stop = stop_on_signals()
        trainer.publish = publishing(config, learner, processes)
        if checkpoint is not None:
            trainer.restore(checkpoint)
        trainer.skip_lost()
        try:
            return trainer.run()
        finally:
            trainer.metrics.end()
    finally:
        reader.close()


def publish_latest(config: RunConfig) -> Manifest:
    publisher = publisher_of(config)
    if publisher is None:
        raise InvalidConfig("the run has no section `publish`; name its store and run there")
    checkpoint = latest(config.output / "checkpoints")
    if checkpoint is None:
        raise InvalidConfig(
            f"{config.output} has no checkpoint; run `python -m podium_training.grpo` first"
        )
    return _publish(publisher, whole_policy(config, checkpoint), checkpoint)


def whole_policy(config: RunConfig, checkpoint: Checkpoint) -> PreTrainedModel:
    """The policy of a checkpoint, in main memory. Raises InvalidConfig for that of another."""
    model = load_policy(config.model, config.lora)
    require_weights_of(model, checkpoint.weights)
    model.load_state_dict(checkpoint.weights, strict=False)
    return model


def publishing(config: RunConfig, learner: Learner, processes: ProcessGroup) -> Publish | None:
    publisher = publisher_of(config)
    if publisher is None:
        return None

    def publish(checkpoint: Checkpoint) -> Manifest | None:
        name = VersionName(publisher.run, checkpoint.step)
        if publisher.store.is_retired(str(name)):
            log.warning(
                "%s was published and pruned before, and is not published again; where that was"
                " another run's, give this one another name in publish.run",
                name,
            )
            return None
        # A process of several has but a share of the model it trains.
        sharded = processes.size > 1
        model = whole_policy(config, checkpoint) if sharded else learner.model
        _store_metrics(config, publisher)
        return _publish(publisher, model, checkpoint)

    return publish


def _store_metrics(config: RunConfig, publisher: Publisher) -> None:
    """Shows people how the version was learnt; a version is as good without it."""
    try:
        steps = read_metrics(config.output / METRICS)
    except InvalidMetrics as error:
        log.warning("the store gets no curves of this run: %s", error)
    else:
        store_metrics(publisher.store.root, publisher.run, steps)


def _publish(publisher: Publisher, model: PreTrainedModel, checkpoint: Checkpoint) -> Manifest:
    return publisher.publish(model, checkpoint.step, position_of(checkpoint).offsets)


def position_of(checkpoint: Checkpoint) -> Position:
    offsets = {int(p): offset for p, offset in checkpoint.state["offsets"].items()}
    return Position(offsets, checkpoint.state["turn"])


def make_trainer(
    config: RunConfig, learner: Learner, reader: LogReader, processes: ProcessGroup
) -> Trainer:
    groups = config.groups
    reward_rules = RewardRules(
        groups.cost_spread_min,
        groups.latency_spread_min_s,
        groups.unavailable_penalty,
        groups.malformed_penalty,
    )
    rules = GroupRules(
        groups.members_min_share,
        groups.std_floor,
        reward_rules,
        _staleness(config),
        groups.malformed == "masked",
        frozenset(map(Weight, groups.ignored)),
    )
    vocabulary = int(learner.model.config.vocab_size)
    tokenizer = AutoTokenizer.from_pretrained(config.model)
    text_of = partial(
        tokenizer.decode, skip_special_tokens=True, clean_up_tokenization_spaces=False
    )
    limits = Limits(
        vocabulary,
        config.step.row_tokens_max,
        prompt_digest(config.model),
        text_of,
        imitated=config.step.loss == "imitation",
    )
    return Trainer(
        learner=learner,
        reader=reader,
        assembler=GroupAssembler(rules, Advantage(groups.advantage)),
        limits=limits,
        options=TrainerOptions(
            steps=config.steps,
            groups_per_step=config.step.groups,
            checkpoint_every=config.checkpoint_every,
            patience_s=config.stream.patience_s,
            decay_start=config.step.decay_start,
        ),
        output=config.output,
        metrics=MetricsLog(config.output, trackers_of(config)),
        aside=RejectedRecords(config.output, config.stream.topic),
        processes=processes,
        publish_every=config.publish.every if config.publish else 1,
        source=config.source,
        awaited=AwaitedFeedback() if groups.outcome == "feedback" else None,
    )


def _staleness(config: RunConfig) -> StalenessBound | None:
    bound = config.groups.versions_behind_max
    if bound is None or config.publish is None:
        return None
    return StalenessBound(config.publish.run, bound)


def publisher_of(config: RunConfig) -> Publisher | None:
    if config.publish is None:
        return None
    tokenizer = AutoTokenizer.from_pretrained(config.model)
    store = VersionStore(config.publish.store)
    publish = config.publish
    return Publisher(
        store,
        publish.run,
        base_digest(config.model),
        tokenizer,
        PRECISIONS[publish.precision],
        config.source.tenant if config.source else _owner_of_start(config, store),
    )


def _owner_of_start(config: RunConfig, store: VersionStore) -> str:
    """Returns the tenant of the version that a run continues, whose weights keep what it learnt."""
    start = config.lora.start if config.lora else None
    if start is None or start.absolute().parent != store.root.absolute():
        return ""
    return store.manifest(start.name).tenant


def make_learner(config: RunConfig, processes: ProcessGroup) -> Learner:
    model = load_policy(config.model, config.lora)
    tokenizer = AutoTokenizer.from_pretrained(config.model)
    recompute(model, config.step.recomputed)
    make_optimizer = partial(
        OPTIMIZERS[config.step.averages],
        lr=config.step.learning_rate,
        weight_decay=config.step.weight_decay,
    )
    grammar = GrammarReplay(tokenizer, int(model.config.vocab_size))
    # Also after a restart it is the start, and not the checkpoint.
    reference = load_policy(config.model, config.lora) if config.step.kl_coefficient else None
    return Learner(
        model,
        make_optimizer,
        grammar,
        step_options(config),
        processes=processes,
        reference=reference,
    )


def step_options(config: RunConfig) -> StepOptions:
    step = config.step
    return StepOptions(
        loss=_loss_options(step),
        passes=step.passes,
        tokens_max=step.tokens_max,
        gradient_norm_max=step.gradient_norm_max,
        drift_stop=step.drift_stop,
        precision=PRECISIONS[config.precision],
    )


def _loss_options(step: StepConfig) -> LossOptions:
    return LossOptions(
        loss=Loss(step.loss),
        level=Level(step.level),
        clip_low=step.clip_low,
        clip_high=step.clip_high,
        dual_clip=step.dual_clip,
        length_max=step.length_max,
        kl_coefficient=step.kl_coefficient,
        kl_estimator=KlEstimator(step.kl_estimator),
        importance_cap=step.importance_cap,
    )
