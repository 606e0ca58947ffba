"""The steps of an episode, as the worker reads and writes them.

The log is the truth an attempt continues from. Rows live in PostgreSQL; the worker caches the
parsed steps of the episodes it runs, and reads only what is newer than its copy.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from episodes.keys import StepKind
from episodes.models import Step
from episodes.step_log.settlements import Settlements
from episodes.step_log.store import StepStore
from episodes.webhooks.models import Event
from podium.common.v1 import failure_pb2, usage_pb2
from podium.episodes.v1 import check_pb2, episode_pb2, trajectory_pb2
from podium.orchestrator.v1 import orchestrator_service_pb2 as pb
from podium_kit.guardrail_keys import call_of_guardrail
from podium_kit.money import Money

CACHED_LOGS = 4096
Body = (
    trajectory_pb2.ModelCall
    | trajectory_pb2.ToolInvocation
    | episode_pb2.ApprovalRequested
    | episode_pb2.ClientCallsRequested
    | check_pb2.Judgement
)
BODY_OF: dict[StepKind, type[Body]] = {
    StepKind.MODEL: trajectory_pb2.ModelCall,
    StepKind.TOOL: trajectory_pb2.ToolInvocation,
    StepKind.EXECUTOR: trajectory_pb2.ToolInvocation,
    StepKind.APPROVAL: episode_pb2.ApprovalRequested,
    StepKind.CLIENT_CALLS: episode_pb2.ClientCallsRequested,
    StepKind.VERIFIER: trajectory_pb2.ToolInvocation,
    StepKind.JUDGEMENT: check_pb2.Judgement,
}


@dataclass
class StepLog:
    episode_id: str
    steps: list[Step] = field(default_factory=list)
    model_calls: dict[int, trajectory_pb2.ModelCall] = field(default_factory=dict)
    tool_calls: dict[int, dict[int, trajectory_pb2.ToolInvocation]] = field(default_factory=dict)
    # The calls that the models of composite tools wrote, by the index of the composite's call.
    executor_calls: dict[int, dict[int, trajectory_pb2.ToolInvocation]] = field(
        default_factory=dict
    )
    verifier_calls: dict[int, trajectory_pb2.ToolInvocation] = field(default_factory=dict)
    judgement: check_pb2.Judgement | None = None
    # Whether an attempt before this one may have sent what it held money for.
    is_retry: bool = False
    # Keys that this attempt asked money for, and that were not sent.
    unsent: set[str] = field(default_factory=set)

    @property
    def last_sequence(self) -> int:
        return self.steps[-1].sequence if self.steps else 0

    @property
    def last_turn(self) -> int | None:
        return self.steps[-1].turn if self.steps else None

    def unsettled(self) -> list[Step]:
        return [step for step in self.steps if not step.settled]

    def has(self, turn: int, kind: StepKind, call_index: int = 0) -> bool:
        wanted = (turn, kind, call_index)
        return any((step.turn, step.kind, step.call_index) == wanted for step in self.steps)

    def add(self, steps: list[Step]) -> None:
        """Adds steps in sequence order, each once: two attempts may read the same ones at once."""
        for step in steps:
            if step.sequence <= self.last_sequence:
                continue
            self.steps.append(step)
            body = BODY_OF[step.kind].FromString(step.body)
            if isinstance(body, trajectory_pb2.ModelCall):
                self.model_calls[step.turn] = body
            elif isinstance(body, check_pb2.Judgement):
                self.judgement = body
            elif isinstance(body, trajectory_pb2.ToolInvocation):
                self._calls(step)[step.call_index] = body

    def _calls(self, step: Step) -> dict[int, trajectory_pb2.ToolInvocation]:
        if step.kind is StepKind.VERIFIER:
            return self.verifier_calls
        executes = step.kind is StepKind.EXECUTOR
        return (self.executor_calls if executes else self.tool_calls).setdefault(step.turn, {})

    def invocation(self, step: Step) -> trajectory_pb2.ToolInvocation | None:
        """Returns the tool call of a step; None for another kind of step."""
        if BODY_OF[step.kind] is not trajectory_pb2.ToolInvocation:
            return None
        return self._calls(step)[step.call_index]

    def call(self, step: Step) -> trajectory_pb2.ModelCall | trajectory_pb2.ToolInvocation | None:
        """Returns the billable call of a step; None for another kind of step."""
        return self.model_calls[step.turn] if step.kind is StepKind.MODEL else self.invocation(step)

    def note_sent(self, key: str) -> None:
        """Notes that a call is about to be sent, and that its guardrails may be asked."""
        self.unsent = {each for each in self.unsent if (call_of_guardrail(each) or each) != key}

    def charged_usage(self, step: Step) -> usage_pb2.Usage | None:
        if step.kind is StepKind.MODEL:
            call = self.model_calls[step.turn]
            # A response without a usage is unknown, not free: the ledger decides.
            return call.response.usage if call.HasField("response") else unknown(call.failure)
        record = self.invocation(step)
        return record.usage if record is not None and record.HasField("usage") else None

    def settle(self, step: Step, cost: Money | None) -> None:
        """Settles a step, also one that another attempt has settled meanwhile."""
        place = next(i for i, each in enumerate(self.steps) if each.sequence == step.sequence)
        self.steps[place] = replace(step, settled=True, cost=cost)


def unknown(failure: failure_pb2.Failure) -> usage_pb2.Usage:
    source = usage_pb2.USAGE_SOURCE_ESTIMATED
    return usage_pb2.Usage(source=source, unusable_reason=failure.message)


class StepLogs:
    def __init__(self, store: StepStore, settlements: Settlements) -> None:
        self._store = store
        self._settlements = settlements
        self._cache: OrderedDict[str, StepLog] = OrderedDict()

    async def open(self, episode_id: str, complete_to_turn: int | None = None) -> StepLog:
        """Returns the log with everything that any worker has stored.

        A caller that knows that no step follows a turn saves the query where this worker took that
        turn itself; before turn 1 there is none.
        """
        log = self._cache.setdefault(episode_id, StepLog(episode_id))
        self._cache.move_to_end(episode_id)
        if complete_to_turn is None or (log.last_turn or 0) != complete_to_turn:
            log.add(await self._store.read(episode_id, after=log.last_sequence))
        if len(self._cache) > CACHED_LOGS:
            self._cache.popitem(last=False)
        return log

    async def append(
        self,
        log: StepLog,
        bodies: list[tuple[int, StepKind, int, Body]],
        events: Sequence[Event] = (),
    ) -> None:
        """Stores steps (turn, kind, call index, body), and reads those that another attempt
        stored.

        Events are added for webhooks together with the steps. Raises TransactionConflict.
        """
        while missing := [body for body in bodies if not log.has(*body[:3])]:
            steps = [
                Step(log.episode_id, sequence, turn, kind, index, body.SerializeToString())
                for sequence, (turn, kind, index, body) in enumerate(missing, log.last_sequence + 1)
            ]
            if not await self._store.append(steps, events):
                # It may have stored one of ours, or none: the others are still to be stored.
                steps = await self._store.read(log.episode_id, after=log.last_sequence)
            log.add(steps)

    def settle(self, log: StepLog, step: Step, cost: Money | None) -> None:
        log.settle(step, cost)
        self._settlements.add(step, cost)

    def forget(self, episode_id: str) -> None:
        self._cache.pop(episode_id, None)


CONTEXT_BYTES_MAX = 24_000


def expert_context(log: StepLog, turn: int) -> str:
    """Returns the results of the calls before a turn, the newest where there are too many."""
    findings = [
        f"{seen.call.tool_name}({seen.call.arguments_json}):\n{seen.content}"
        for number in sorted(log.tool_calls)
        if number < turn
        for seen in observations(log, number)
        if seen.content
    ]
    text = "\n\n".join(findings).encode()
    return text[-CONTEXT_BYTES_MAX:].decode(errors="ignore")


# The end of a text that its executor could not run.
WRITTEN_CHARACTERS_MAX = 4_000


def observations(log: StepLog, turn: int) -> list[pb.Observation]:
    """Returns what the calls of a turn gave, in call order."""
    executed = log.executor_calls.get(turn, {})
    return [
        _observed(call.observation, executed.get(index))
        for index, call in sorted(log.tool_calls.get(turn, {}).items())
    ]


def _observed(
    written: pb.Observation, executor: trajectory_pb2.ToolInvocation | None
) -> pb.Observation:
    """Returns a composite tool's observation: the text of its model, and the executor's result."""
    if executor is None:
        return written
    seen, gave = pb.Observation(call=written.call), executor.observation
    name, text = gave.call.tool_name, written.content.strip()
    if gave.HasField("failure"):
        seen.failure.kind = gave.failure.kind
        seen.failure.message = (
            f"{name} failed with the text below: {gave.failure.message}\n\n"
            f"{text[-WRITTEN_CHARACTERS_MAX:]}"
        )
    else:
        seen.content = f"{text}\n\n{name} gave:\n{gave.content}"
    return seen
