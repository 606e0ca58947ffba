"""A cycle that learns from what the users of a policy do.

Collect their past tasks, learn from replays of them, gate, canary, and promote or keep. Each stage
is recorded on the platform when it is done, so the same command continues behind the last one. Of
learning, the trainer's checkpoints are the record, and of the canary its evaluation.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from podium.episodes.v1 import episode_service_pb2
from podium.episodes.v1 import evaluation_service_pb2 as evaluation_pb
from podium.registry.v1 import policy_pb2
from podium_cli.evaluations.live import LIVE, ab_test, start_live
from podium_cli.formats import counted, format_money
from podium_cli.output import Output
from podium_cli.train.choosing import policy_named
from podium_cli.train.learning_journal import LearningJournal
from podium_cli.train.replays import (
    playable_tasks,
    replay_agent,
    replay_budget,
    set_replay_budget,
    spent_today,
)
from podium_cli.train.rounds import Pace, Rounds, is_trained, make_trainer, publishing, read_run
from podium_evaluation.runs.names import path_of
from podium_evaluation.suites.past_episodes import EpisodeFilter
from podium_kit.client.errors import UsageError, UserError
from podium_kit.client.gateway import Gateway, segment
from podium_kit.derived_ids import derived_uuid7
from podium_kit.policy_versions import Alias, Aliases, VersionStore
from podium_training.gate import Decision, Evaluated, GateRules, InvalidEvaluation, decide, pair
from podium_training.grpo.config import RunConfig
from podium_training.grpo.ending import STREAM_ENDED
from podium_training.rollouts import Offer, RolloutLimits
from podium_training.rollouts.rolling import known_tools, retried
from podium_training.tasks.files import read_tasks, write_tasks
from podium_training.tasks.task import Task

POLL_S = 2.0
Step = policy_pb2.LearningStep


class Stopped(Exception):
    """Learning may not continue; the message says why."""


class BudgetSpent(Exception):
    """The day's replay budget is spent, before the cycle has ended."""


@dataclass(frozen=True)
class CycleRules:
    gate: GateRules
    share: float
    """The part of the policy's episodes that the canary gets."""
    margin: float
    """Score that the canary may at most lose; 0: it must be surely better."""
    canary_s: float
    """Longest canary."""


@dataclass(frozen=True)
class Cycle:
    gateway: Gateway
    output: Output
    journal: LearningJournal
    run: Path
    """YAML file of training, of which each cycle makes its own."""
    wanted: EpisodeFilter
    limits: RolloutLimits
    pace: Pace
    rules: CycleRules

    async def play(self) -> Step:
        """Plays what is missing of the cycle; the step that ended it.

        Raises Stopped before the first, UsageError, BudgetSpent, UserError, Rejected, Unreachable.
        """
        try:
            await self._stage(policy_pb2.LEARNING_STAGE_COLLECTED, self._collect)
            learnt = await self._stage(policy_pb2.LEARNING_STAGE_LEARNT, self._learn)
            gated = await self._stage(policy_pb2.LEARNING_STAGE_GATED, self._gate)
            if gated.facts["verdict"] != "promote":
                return await self._kept(f"the gate keeps what users have: {gated.summary}")
            await self._stage(policy_pb2.LEARNING_STAGE_CANARY, self._start_canary)
            return await self._conclude(learnt.model)
        except Stopped as reason:
            if not self.journal.steps:
                raise
            if canary := self.journal.steps.get(policy_pb2.LEARNING_STAGE_CANARY):
                await self._stop_canary(canary.facts["evaluation"], str(reason))
            return await self._kept(str(reason))

    async def _stage(self, stage: policy_pb2.LearningStage.ValueType, play: Any) -> Step:
        await self._require_allowed()
        if (recorded := self.journal.steps.get(stage)) is None:
            recorded = await play()
            self.output.note(recorded.summary)
        return recorded

    async def _require_allowed(self) -> policy_pb2.Policy:
        """Raises Stopped once the policy forbids to learn from it."""
        policy = await self._policy()
        name, spec = self.journal.policy, policy.spec
        if not spec.training_consent:
            raise Stopped(f"policy {name} does not consent to training any more")
        if spec.learning.paused:
            raise Stopped(f"learning of policy {name} is paused")
        return policy

    async def _policy(self) -> policy_pb2.Policy:
        return await policy_named(self.gateway, self.journal.policy)

    async def _collect(self) -> Step:
        learnt, held = await self._collected()
        pairs_min = self.rules.gate.pairs_min
        if not learnt or len(held) < pairs_min:
            raise UsageError(
                f"{self.journal.policy} has {counted(len(learnt), 'past task')} to learn from and"
                f" {len(held)} to measure on, of at least {pairs_min}",
                "wait for more episodes that a check or feedback calls solved, or name a lower"
                " --pairs-min",
            )
        # Of any of them: a caller reads its own tenant alone.
        path = f"/v1/episodes/{segment(held[0].replay_of)}/trajectory"
        found = await self.gateway.get(path, episode_service_pb2.GetTrajectoryResponse)
        return await self.journal.record(
            policy_pb2.LEARNING_STAGE_COLLECTED,
            f"{counted(len(learnt), 'past task')} to learn from, {len(held)} to measure on",
            facts={
                "learnt_from": str(len(learnt)),
                "held_out": str(len(held)),
                "tenant": found.trajectory.tenant,
            },
        )

    async def _collected(self) -> tuple[list[Task], list[Task]]:
        """The tasks of the cycle: of its files, or collected where another machine had them."""
        files = self.folder / "learn.jsonl", self.folder / "held-out.jsonl"
        if not all(file.exists() for file in files):
            past = await playable_tasks(self.gateway, self.output, self.wanted)
            self.folder.mkdir(parents=True, exist_ok=True)
            for file, tasks in zip(files, (past.learnt, past.held_out), strict=True):
                write_tasks(file, tasks)
        learnt, held = (read_tasks(file) for file in files)
        return learnt, held

    async def _learn(self) -> Step:
        path = await self._write_run()
        rounds = await self._rounds(path)
        config = rounds.config
        if not is_trained(config):
            learnt, _ = await self._collected()
            if config.step.loss == "imitation":
                await self._imitate(path, config)
            else:
                await rounds.play(learnt, make_trainer(path, config, skip_lost=True))
            self._require_money(rounds)
        version = await rounds.candidate()
        if not version:
            raise UserError(
                f"the trainer published no version to {publishing(config).store}",
                f"see {config.output / 'trainer.log'}",
            )
        spent = await spent_today(self.gateway, self.journal.policy)
        words = f"learnt {version} in {counted(config.steps, 'step')}"
        return await self.journal.record(
            policy_pb2.LEARNING_STAGE_LEARNT,
            f"{words}; {format_money(spent)} of the day's replays spent",
            version,
            {"run": str(config.output), "spent_today": str(spent)},
        )

    async def _imitate(self, path: Path, config: RunConfig) -> None:
        """Learns from what users' episodes showed already; nothing is played for it."""
        trainer = make_trainer(path, config, skip_lost=True)
        trainer.start()
        try:
            status = await trainer.wait()
        finally:
            await trainer.terminate()
        if status not in (0, STREAM_ENDED):
            cause = f"the trainer ended with status {status}: {trainer.log_tail(3)}"
            raise UserError(cause, f"see {trainer.log_path}; the same command continues")

    async def _gate(self) -> Step:
        version = self.journal.steps[policy_pb2.LEARNING_STAGE_LEARNT].model
        _, held = await self._collected()
        rounds = await self._rounds(self.folder / "run.yaml")
        played = await rounds.measured(held, version), await rounds.measured(held, "")
        self._require_money(rounds)
        served = (await self._policy()).model
        decision = self._decided(version, served, *played)
        gain = decision.bounds.get("score", {})
        facts = {f"score_{name}": f"{value:.4f}" for name, value in gain.items()}
        facts |= {
            f"{arm}_{name}": str(value)
            for arm, figures in decision.figures.items()
            for name, value in figures.items()
        }
        spent = await spent_today(self.gateway, self.journal.policy)
        facts |= {
            "verdict": decision.verdict.value,
            "compared_with": served,
            "pairs": str(decision.pairs),
            "spent_today": str(spent),
        }
        mean = f"{gain['mean']:+.3f}" if gain else "unknown"
        words = f"{version} on {counted(decision.pairs, 'held-out task')}: score {mean}"
        reasons = "; ".join(decision.reasons)
        return await self.journal.record(
            policy_pb2.LEARNING_STAGE_GATED, f"{words}; {reasons or 'better'}", version, facts
        )

    def _decided(
        self, version: str, served: str, ours: Sequence[Evaluated], theirs: Sequence[Evaluated]
    ) -> Decision:
        # The version of the platform's default is not the policy's to decide about.
        promoted = served or Aliases(self.store.root).current(Alias.PROMOTED)
        try:
            return decide(version, promoted, pair(ours, theirs), self.rules.gate)
        except InvalidEvaluation as error:
            raise UserError(str(error), "the same command measures again") from error

    async def _start_canary(self) -> Step:
        name = self.journal.policy
        version = self.journal.steps[policy_pb2.LEARNING_STAGE_GATED].model
        policy = await self._policy()
        # Engines load the newest versions alone, and other runs publish, too.
        kept = [each for each in (policy.model, version) if self._is_stored(each)]
        Aliases(self.store.root).pin(self.tenant, name, kept)
        traffic = "" if policy.active else name
        evaluation = derived_uuid7(self.journal.cycle, "canary")
        live = ab_test(traffic, self.rules.share)
        await start_live(self.gateway, evaluation, live, version)
        return await self.journal.record(
            policy_pb2.LEARNING_STAGE_CANARY,
            f"{version} gets {self.rules.share:.0%} of the episodes that name"
            f" {f'policy {name}' if traffic else 'no policy'} and no model",
            version,
            {"evaluation": evaluation, "share": str(self.rules.share)},
        )

    async def _conclude(self, version: str) -> Step:
        """Waits for the test of the canary, which is valid at every look."""
        canary = self.journal.steps[policy_pb2.LEARNING_STAGE_CANARY]
        evaluation = canary.facts["evaluation"]
        ends = canary.create_time.ToDatetime(UTC).timestamp() + self.rules.canary_s
        while True:
            policy = await self._require_allowed()
            kind = evaluation_pb.GetEvaluationResponse
            found = await retried(self.gateway.get, path_of(evaluation), kind)
            reason = _reason(found.comparison)
            if found.comparison.lower > -self.rules.margin or found.comparison.lower > 0:
                await self._stop_canary(evaluation, reason)
                before = policy.model
                return await self.journal.record(
                    policy_pb2.LEARNING_STAGE_PROMOTED,
                    f"{version} answers policy {self.journal.policy}: {reason}",
                    version,
                    {"before": before, "evaluation": evaluation},
                )
            if found.evaluation.state == evaluation_pb.EVALUATION_STATE_ENDED:
                return await self._kept(f"the canary ended: {found.evaluation.reason or reason}")
            if datetime.now(UTC).timestamp() > ends:
                await self._stop_canary(evaluation, "its time is over")
                return await self._kept(f"the canary showed nothing in its time: {reason}")
            await asyncio.sleep(POLL_S)

    async def _kept(self, reason: str) -> Step:
        return await self.journal.record(policy_pb2.LEARNING_STAGE_KEPT, reason)

    async def _stop_canary(self, evaluation: str, reason: str) -> None:
        """Once more changes nothing."""
        path = f"{LIVE}/{segment(evaluation)}/stop"
        kind = evaluation_pb.StopLiveEvaluationResponse
        await retried(self.gateway.post, path, {"reason": reason}, kind)

    async def _rounds(self, path: Path) -> Rounds:
        """Plays with what the policy's users are offered, paid from its replay budget."""
        name = self.journal.policy
        await set_replay_budget(self.gateway, name, replay_budget(await self._policy()))
        return Rounds(
            self.gateway,
            read_run(path),
            Offer(await known_tools(self.gateway, [name]), 0, policies=(name,)),
            self.limits,
            self.pace,
            self.output,
            payer=replay_agent(name),
            measured_as=self.journal.cycle,
        )

    def _require_money(self, rounds: Rounds) -> None:
        if rounds.budget_spent:
            raise BudgetSpent(
                f"the day's replay budget of policy {self.journal.policy} is spent; the same"
                " command continues on the next day (UTC)"
            )

    async def _write_run(self) -> Path:
        """Writes the cycle's own run: from what users get now, under a name of its own."""
        path, served = self.folder / "run.yaml", (await self._policy()).model
        if path.exists():
            return path
        run: dict[str, Any] = yaml.safe_load(self.run.read_text(encoding="utf-8"))
        run["output"] = str((self.folder / "run").absolute())
        run["source"] = {"tenant": self.tenant, "policy": self.journal.policy}
        run["publish"] |= {"run": self._run_name}
        if run.get("lora") is not None and self._is_stored(served):
            run["lora"] |= {"start": str(self.store.path(served).absolute())}
        path.parent.mkdir(parents=True, exist_ok=True)
        # It may hold the stream's password.
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(run, sort_keys=False), encoding="utf-8")
        return path

    def _is_stored(self, model: str) -> bool:
        return model in map(str, self.store.names())

    @cached_property
    def _run_name(self) -> str:
        cycle = self.journal.cycle.replace("-", "")
        return f"{publishing(self.config).run[:28]}-{cycle[:12]}{cycle[-4:]}"

    @cached_property
    def config(self) -> RunConfig:
        return read_run(self.run)

    @cached_property
    def folder(self) -> Path:
        return self.config.output / self.journal.cycle

    @cached_property
    def store(self) -> VersionStore:
        return VersionStore(publishing(self.config).store)

    @property
    def tenant(self) -> str:
        return self.journal.steps[policy_pb2.LEARNING_STAGE_COLLECTED].facts["tenant"]


def _reason(compared: evaluation_pb.LiveComparison) -> str:
    return (
        f"{compared.difference:+.3f}, from {compared.lower:+.3f} to {compared.upper:+.3f} with 95 %"
        f" certainty, after {compared.baseline_count + compared.candidate_count} scored episodes"
    )
