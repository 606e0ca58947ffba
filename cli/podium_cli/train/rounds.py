import asyncio
import os
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import uuid_utils

from podium_cli.output import Output
from podium_cli.train.gated_versions import tried_report
from podium_cli.train.rollout_view import summary
from podium_kit.client.errors import UsageError, UserError
from podium_kit.client.gateway import Gateway
from podium_kit.embedded.process import ManagedProcess
from podium_kit.policy_versions import VersionStore
from podium_kit.policy_versions.reports import read_report
from podium_training.gate import Evaluated
from podium_training.grpo.config import InvalidConfig, PublishConfig, RunConfig, read_config
from podium_training.grpo.metrics.progress import Progress, read_progress
from podium_training.rollouts import Group, Offer, RolloutLimits, anew, plan
from podium_training.rollouts.order import TaskOrder
from podium_training.rollouts.rolling import Rolled, Roller
from podium_training.tasks.task import Task


def planned(run_id: str, tasks: Sequence[Task], size: int, offer: Offer) -> list[Group]:
    try:
        return plan(run_id, tasks, size, offer)
    except ValueError as error:
        raise UsageError(str(error), "see `podium tools list`, and --help") from error


LOG = "trainer.log"
POLL_S = 0.5
UNUSED_GROUPS_MAX = 100
BUDGET_EXHAUSTED = "budget exhausted"


@dataclass(frozen=True)
class Pace:
    groups: int
    """Groups of a round."""
    size: int
    """Episodes of a group."""
    at_once: int
    """Episodes in flight."""
    ahead: int
    """Rounds that may be played before an earlier one is learnt; 0: one after the other."""
    curriculum: bool = False
    """Plays tasks the oftener, the less certain it is that they are solved."""


@dataclass
class Rounds:
    """Plays, as the newest version of a run, the tasks that the run's trainer learns from."""

    gateway: Gateway
    config: RunConfig
    offer: Offer
    limits: RolloutLimits
    pace: Pace
    output: Output
    payer: str = ""
    """The agent whose budget pays for the episodes; "" for the caller's own alone."""
    number: int = 0
    measured_as: str = field(default_factory=lambda: str(uuid_utils.uuid7()))
    """The run whose choice of tools and prices is what all models are measured with."""
    unread: deque[Mapping[int, int]] = field(default_factory=deque)
    """Ends of the stream after each round that the trainer has not read."""
    reached: tuple[int, int] | None = None
    """The trainer's step, and the groups that wait for its next."""
    reached_at: int = 0
    """Rounds it had read when that was seen first."""
    budget_spent: bool = False
    """True once a budget ended an episode: no other one is started."""

    async def play(self, tasks: Sequence[Task], trainer: ManagedProcess) -> None:
        """Runs the trainer to its end.

        Raises UserError unless it took all its steps, also when it uses nothing of what is played.
        Returns before, with `budget_spent`, once a budget ends an episode.
        """
        trainer.start()
        try:
            await self._feed(tasks, trainer)
        finally:
            await trainer.terminate()

    async def measured(self, tasks: Sequence[Task], model: str) -> list[Evaluated]:
        """Runs the tasks greedily with a model; every model gets the same tools and prices."""
        run_id = str(uuid_utils.uuid7())
        choices = planned(self.measured_as, tasks, 1, self.offer)
        groups = [anew(group, run_id) for group in choices]
        greedily = replace(self.limits, model=model, temperature=0.0)
        rolled = await self._roll(groups, run_id, greedily)
        self.output.note(f"{model or 'promoted'}: {summary(rolled)}")
        return [each.evaluated for each in rolled if each.evaluated]

    async def candidate(self) -> str:
        """The newest version of the run that engines serve; "" before the first is published.

        Raises UserError when they serve none.
        """
        publish = publishing(self.config)
        names = VersionStore(publish.store).names()
        published = [str(name) for name in names if name.run == publish.run]
        if not published:
            return ""
        newest = published[-1]
        faults = (await tried_report(publish.store, newest)).faults
        # Other runs may publish to the store meanwhile, and the alias `candidate` mean theirs.
        reports = {name: read_report(publish.store, name) for name in published}
        if served := [name for name, report in reports.items() if report and report.ready]:
            return served[-1]
        cause = f"no engine serves {newest}: {'; '.join(faults) or 'it is not admitted'}"
        fix = f"the platform and its engines must see {publish.store}: see `podium train versions`"
        raise UserError(cause, fix)

    async def _feed(self, tasks: Sequence[Task], trainer: ManagedProcess) -> None:
        order = TaskOrder(tasks, self.pace.curriculum)
        while trainer.running:
            self.number += 1
            run_id = str(uuid_utils.uuid7())
            dealt = order.deal(self.number, self.pace.groups)
            groups = planned(run_id, dealt, self.pace.size, self.offer)
            limits = replace(self.limits, model=await self._model())
            # What is played once the trainer has ended is paid for and learnt by no one.
            rolled = await self._roll(groups, run_id, limits, lambda: trainer.running)
            order.note(
                (each.group.task.id, each.score) for each in rolled if each.score is not None
            )
            self.output.note(f"round {self.number}: {summary(rolled)}; {self._trained()}")
            if self.budget_spent:
                return
            self.unread.append(await asyncio.to_thread(self._ends))
            await self._let_catch_up(trainer)
            self._check_used()
        if status := await trainer.wait():
            cause = f"the trainer ended with status {status}: {trainer.log_tail(3)}"
            raise UserError(cause, f"see {trainer.log_path}; the same command continues from there")

    async def _model(self) -> str:
        return await self.candidate() or start_version(self.config)

    async def _roll(
        self,
        groups: Sequence[Group],
        run_id: str,
        limits: RolloutLimits,
        wanted: Callable[[], bool] = lambda: True,
    ) -> list[Rolled]:
        def note(ended: Rolled) -> None:
            self.budget_spent = self.budget_spent or ended.stop_reason == BUDGET_EXHAUSTED

        roller = Roller(self.gateway, limits, run_id, self.payer)
        allowed = lambda: wanted() and not self.budget_spent  # noqa: E731
        return await roller.roll(groups, self.pace.at_once, note, allowed)

    def _ends(self) -> Mapping[int, int]:
        # Its client is slow to import, and needed only once episodes were played.
        from podium_training.grpo.data.stream import log_ends  # noqa: PLC0415

        return log_ends(self.config.stream, self.config.stream.topic)

    async def _let_catch_up(self, trainer: ManagedProcess) -> None:
        while trainer.running and len(self.unread) > self.pace.ahead:
            progress = read_progress(self.config.output)
            if progress is not None and progress.has_read(self.unread[0]):
                self.unread.popleft()
            else:
                await asyncio.sleep(POLL_S)

    def _check_used(self) -> None:
        """Raises UserError when many groups in a row were read and none of them used."""
        progress = read_progress(self.config.output)
        if progress is None:
            return
        reached, read = (progress.step, progress.groups), self.number - len(self.unread)
        if reached != self.reached:
            self.reached, self.reached_at = reached, read
        elif (unused := (read - self.reached_at) * self.pace.groups) >= UNUSED_GROUPS_MAX:
            cause = f"the trainer can use none of the last {unused} groups"
            reasons = progress.reasons or "no group of them is complete"
            fix = f"change that, and the same command continues; see {self.config.output / LOG}"
            raise UserError(f"{cause}: {reasons}", fix)

    def _trained(self) -> str:
        progress = read_progress(self.config.output)
        return "the trainer starts" if progress is None else _line(progress)


def read_run(path: Path) -> RunConfig:
    try:
        return read_config(path)
    except InvalidConfig as error:
        raise UsageError(str(error)) from error


def make_trainer(path: Path, config: RunConfig, skip_lost: bool = False) -> ManagedProcess:
    """The GRPO job of a run, with as many processes as it names."""
    several = config.processes > 1
    module = "podium_training.grpo.launch" if several else "podium_training.grpo"
    argv = [sys.executable, "-m", module, str(path), *(["--skip-lost"] if skip_lost else [])]
    env = {**os.environ, "PET_NPROC_PER_NODE": str(config.processes)} if several else None
    return ManagedProcess("trainer", argv, log_path=config.output / LOG, env=env)


def is_trained(config: RunConfig) -> bool:
    progress = read_progress(config.output)
    return progress is not None and progress.step >= config.steps


def publishing(config: RunConfig) -> PublishConfig:
    if config.publish is None:
        raise UsageError(
            "the run has no section `publish`: what it learns could not be played",
            "name the store of the platform's policies and a run there",
        )
    return config.publish


def start_version(config: RunConfig) -> str:
    """The version of the store that a run's adapter begins as; "", users' policy, if it is none."""
    start = config.lora.start if config.lora else None
    store = VersionStore(publishing(config).store)
    if start is None or start.resolve().parent != store.root.resolve():
        return ""
    return start.name if start.name in map(str, store.names()) else ""


def _line(progress: Progress) -> str:
    return (
        f"trained {progress.step} of {progress.steps} steps,"
        f" {progress.groups} of {progress.groups_per_step} groups for the next"
        + (f", {progress.left_out} left out" if progress.left_out else "")
    )
